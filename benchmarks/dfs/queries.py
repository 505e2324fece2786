"""The queries of 001 §VI-A5: templates whose constants are drawn with a seed.

The paper prints features of its templates, not the templates: three reports of crimes near each other within
half an hour, and three rides within five minutes, each from the station where the last one has ended. Ranges
of values vary, and some queries compare two events by more than equality.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

SEED = 1
QUERIES = 50
ANY = "skip_till_any_match"


@dataclass(frozen=True, slots=True)
class DfsQuery:
    """A query, and its predicates that only push-pull can use beside the paper's filters.

    Attributes:
        text: the query as Cerise reads it.
        within: pairs of variables, with attributes whose values differ by at most so much.
    """

    text: str
    within: tuple[tuple[str, str, str, float], ...] = ()


def crimes(rng: random.Random) -> Iterator[DfsQuery]:
    """Yield robbery, battery, motor vehicle theft within 30 minutes, in equal districts or beats."""
    while True:
        attribute = rng.choice(["district", "district", "beat"])
        equal = rng.choice([("m", "b"), ("b", "r")]), rng.choice([None, ("m", "r")])
        tests = [f"{one}.{attribute} = {other}.{attribute}" for one, other in filter(None, equal)]
        for name in "rbm":
            first = rng.randint(1, 12)
            tests.append(f"{first} <= {name}.district <= {first + rng.randint(12, 24)}")
        within: list[tuple[str, str, str, float]] = []
        if rng.random() < 0.5:
            most = rng.choice([0.02, 0.05])
            for one, other in (("r", "b"), ("b", "m")):
                within += [(one, other, each, most) for each in ("latitude", "longitude")]
        tests += [f"abs({one}.{each} - {other}.{each}) <= {most}" for one, other, each, most in within]
        pattern = 'SEQ("ROBBERY" r, "BATTERY" b, "MOTOR VEHICLE THEFT" m)'
        text = f"PATTERN {pattern}\nUSE {ANY}\nWHERE {' AND '.join(tests)}\nWITHIN 30 minutes"
        yield DfsQuery(text, tuple(within))


def citibike(rng: random.Random) -> Iterator[DfsQuery]:
    """Yield three rides within five minutes, each from the station where the last one ends."""
    while True:
        tests = ["a.end_station = b.start_station", "b.end_station = c.start_station"]
        for name in "abc":
            first = rng.randint(1, 1_200)
            tests.append(f"{first} <= {name}.start_station <= {first + rng.randint(200, 800)}")
        if rng.random() < 0.5:
            tests.append(f"{rng.choice('abc')}.member_casual = '{rng.choice(['member', 'casual'])}'")
        within: tuple[tuple[str, str, str, float], ...] = ()
        if rng.random() < 0.5:
            within = (("a", "c", "end_station", float(rng.choice([300, 600]))),)
        tests += [f"abs({one}.{each} - {other}.{each}) <= {most:g}" for one, other, each, most in within]
        pattern = "SEQ(a, b, c)"
        yield DfsQuery(f"PATTERN {pattern}\nUSE {ANY}\nWHERE {' AND '.join(tests)}\nWITHIN 5 minutes", within)


TEMPLATES: Mapping[str, Callable[[random.Random], Iterator[DfsQuery]]] = {
    "crimes": crimes,
    "citibike": citibike,
}


def workload(template: str, queries: int = QUERIES, seed: int = SEED) -> list[DfsQuery]:
    """Return queries of a template; the first n of a seed do not depend on how many follow."""
    return list(islice(TEMPLATES[template](random.Random(seed)), queries))
