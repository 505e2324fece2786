"""The queries of 000 §4.1: templates whose constants are drawn with a seed.

A query is kept in parts, for methods that look up each condition in an index of its own, and as text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import exp
from statistics import NormalDist

from cerise.data.acer_synthetic import EXPONENT
from cerise.data.nasdaq import KEPT, KNOWN, KNOWN_SHAKE

NEXT, ANY = "skip_till_next_match", "skip_till_any_match"
UNITS_US = {"milliseconds": 1_000, "minutes": 60_000_000}


@dataclass(frozen=True, slots=True)
class Range:
    """An independent predicate: an attribute lies between two constants, or is one of them."""

    attribute: str
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, its type, and what is asked of its event alone."""

    name: str
    type: str
    ranges: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A query in parts.

    Attributes:
        shape: the pattern, with {0}, {1}, … for the variables.
        variables: them, in this order.
        dependent: predicates that compare two of them.
        window: how long a match may last, a number and a unit.
        strategy: how events are selected.
        edges: whether the first variable is surely bound first, and the last one last.
    """

    shape: str
    variables: tuple[Variable, ...]
    dependent: tuple[str, ...]
    window: tuple[int, str]
    strategy: str = NEXT
    edges: tuple[bool, bool] = (True, True)

    @property
    def within_us(self) -> int:
        """How long a match may last, in microseconds."""
        return self.window[0] * UNITS_US[self.window[1]]

    @property
    def text(self) -> str:
        """The query as Cerise reads it."""
        named = (f'"{each.type}" {each.name}' for each in self.variables)
        own = (
            f"{_number(test.least)} <= {each.name}.{test.attribute} <= {_number(test.most)}"
            for each in self.variables
            for test in each.ranges
        )
        return (
            f"PATTERN {self.shape.format(*named)}\n"
            f"USE {self.strategy}\n"
            f"WHERE {' AND '.join((*own, *self.dependent))}\n"
            f"WITHIN {self.window[0]} {self.window[1]}\n"
            "RETURN COUNT(*)"
        )


def _number(value: float) -> str:
    return f"({value!r})" if value < 0 else repr(value)


def workload(template: str, queries: int, seed: int = 0) -> list[Query]:
    """Return the first queries of a template; the first few are the same however many follow."""
    return list(islice(TEMPLATES[template](random.Random(f"{template} {seed}")), queries))


# ---- nasdaq: one share rises, then another falls

SPREAD = KNOWN_SHAKE / (1 - KEPT**2) ** 0.5  # of a price around its anchor, as the generator lets it walk
TICKERS = 15  # as many as the paper has
QUARTER = (15, "minutes")


def _rise_and_fall(one: Variable, other: Variable, factors: tuple[float, float], minutes: int) -> Query:
    """Return the shape of Q_1 to Q_3."""
    later = Variable("v3", one.type), Variable("v4", other.type)
    moved = f"v3.open >= v1.open * {factors[0]}", f"v4.open <= v2.open * {factors[1]}"
    return Query("SEQ({0}, {1}, {2}, {3})", (one, other, *later), moved, (minutes, "minutes"))


def _papers(_: random.Random) -> Iterator[Query]:
    """Yield Q_1, Q_2 and Q_3 of 000 as they are printed."""
    printed = (
        ("MSFT", (326, 334), "GOOG", (120, 130), (1.003, 0.997), 12),
        ("NVDA", (403, 423), "INTC", (23, 43), (1.007, 0.993), 15),
        ("AMZN", (100, 120), "BABA", (90, 110), (1.007, 0.993), 15),
    )
    for one, near, other, about, factors, minutes in printed:
        first = Variable("v1", one, (Range("open", *near),))
        yield _rise_and_fall(first, Variable("v2", other, (Range("open", *about),)), factors, minutes)


def _nasdaq(rng: random.Random) -> Iterator[Query]:
    """Yield queries like them: a range holds 2 to 20 % of its ticker's bars, as $10 to $20 do in the paper.

    Its tickers have gone through many prices in some years; ours return to an anchor, so that a range as
    selective is narrower.
    """
    tickers = list(KNOWN)[:TICKERS]
    while True:
        one, other = rng.sample(tickers, 2)
        first, second = (
            Variable(name, each, (_prices(rng, KNOWN[each]),)) for name, each in (("v1", one), ("v2", other))
        )
        yield _rise_and_fall(first, second, rng.choice([(1.003, 0.997), (1.005, 0.995), (1.007, 0.993)]), 15)


def _prices(rng: random.Random, anchor: float) -> Range:
    share = 0.02 * 10 ** rng.random()
    low = rng.uniform(0.01, 0.99 - share)
    usual = NormalDist(0, SPREAD)
    ends = (anchor * exp(usual.inv_cdf(each)) for each in (low, low + share))
    return Range("open", *(round(each, 2) for each in ends))


# ---- crimes: three of them near each other within half an hour


def _crimes(rng: random.Random) -> Iterator[Query]:
    """Yield sequences in near beats, districts or places; where the first is bounds the others as well."""
    types = ("ROBBERY", "BATTERY", "MOTOR VEHICLE THEFT")
    while True:
        near = rng.choice([_beats, _districts, _places])(rng)
        variables, dependent = [], []
        for number, name in enumerate(types, 1):
            around = [
                Range(test.attribute, round(test.least - by, 6), round(test.most + by, 6))
                for test, by in near
            ]
            own = [test for test, _ in near] if number == 1 else around
            variables.append(Variable(f"v{number}", name, tuple(own)))
            if number > 1:
                dependent += [
                    f"v1.{test.attribute} - {by} <= v{number}.{test.attribute} <= v1.{test.attribute} + {by}"
                    for test, by in near
                ]
        yield Query("SEQ({0}, {1}, {2})", tuple(variables), tuple(dependent), (30, "minutes"))


Near = list[tuple[Range, float]]  # what the first event has, and how far from it the others may be


def _beats(rng: random.Random) -> Near:
    least = rng.randrange(200, 2500)
    return [(Range("beat", least, least + 60), 20)]


def _districts(rng: random.Random) -> Near:
    least = rng.randrange(2, 24)
    return [(Range("district", least, least + 1), 1)]


def _places(rng: random.Random) -> Near:
    south, west = round(rng.uniform(41.70, 41.95), 6), round(rng.uniform(-87.80, -87.60), 6)
    return [
        (Range("latitude", south, round(south + 0.01, 6)), 0.02),
        (Range("longitude", west, round(west + 0.02, 6)), 0.05),
    ]


# ---- cluster: a job is submitted, scheduled, and has soon ended


def _cluster(rng: random.Random) -> Iterator[Query]:
    """Yield the life of one job, of a scheduling class or, one time in five, of any."""
    while True:
        urgency = rng.choice([0, 1, 2, 3, None])
        own = () if urgency is None else (Range("scheduling_class", urgency, urgency),)
        types = ("SUBMIT", "SCHEDULE", rng.choice(["FINISH", "KILL", "EVICT"]))
        variables = tuple(Variable(f"v{number}", each, own) for number, each in enumerate(types, 1))
        same = ("v1.job_id = v2.job_id", "v2.job_id = v3.job_id")
        window = (rng.choice([10, 50, 100, 1_000]), "milliseconds")
        yield Query("SEQ({0}, {1}, {2})", variables, same, window)


# ---- synthetic: the patterns of Table 3

PATTERNS = {
    "P1": ("SEQ({0}, {1}, {2})", 3, (True, True)),
    "P2": ("SEQ({0}, {1}, {2}, {3}, {4})", 5, (True, True)),
    "P3": ("SEQ(SEQ({0}, AND({1}, {2})), {3})", 4, (True, True)),
    "P4": ("SEQ({0}, AND({1}, {2}), {3})", 4, (True, True)),
    "P5": ("SEQ(AND({0}, {1}), AND({2}, {3}))", 4, (False, False)),
}
INDEXED, ATTRIBUTES = ("a1", "a2", "a3"), ("a1", "a2", "a3", "a4")
TYPES, MOST = 50, 1000


def _synthetic(pattern: str) -> Callable[[random.Random], Iterator[Query]]:
    shape, many, edges = PATTERNS[pattern]

    def queries(rng: random.Random) -> Iterator[Query]:
        """Yield queries of a pattern: 1 to 3 predicates of each variable and 1 to 3 between them."""
        while True:
            variables = tuple(
                Variable(f"v{number}", each, _some_ranges(rng))
                for number, each in enumerate(_types(rng, many), 1)
            )
            dependent = tuple(_compared(rng, many) for _ in range(rng.randint(1, 3)))
            strategy = rng.choice([NEXT, ANY]) if pattern in ("P1", "P2") else NEXT
            yield Query(shape, variables, dependent, (1_000, "milliseconds"), strategy, edges)

    return queries


def _types(rng: random.Random, many: int) -> list[str]:
    """Return distinct types, each drawn by Zipf's law."""
    ranks = range(1, TYPES + 1)
    weights = [rank**-EXPONENT for rank in ranks]
    drawn: dict[int, None] = {}
    while len(drawn) < many:
        drawn.update(dict.fromkeys(rng.choices(ranks, weights)))
    return [f"E{rank}" for rank in drawn]


def _some_ranges(rng: random.Random) -> tuple[Range, ...]:
    return tuple(_range(rng, each) for each in sorted(rng.sample(INDEXED, rng.randint(1, 3))))


def _range(rng: random.Random, attribute: str) -> Range:
    width = rng.randint(10, 200)  # of 1000
    least = rng.randint(0, MOST - width)
    return Range(attribute, least, least + width)


def _compared(rng: random.Random, many: int) -> str:
    one, other = rng.sample(range(1, many + 1), 2)
    attribute = rng.choice(ATTRIBUTES)
    return f"v{one}.{attribute} <= v{other}.{attribute}"


TEMPLATES: dict[str, Callable[[random.Random], Iterator[Query]]] = {
    "papers": _papers,
    "nasdaq": _nasdaq,
    "crimes": _crimes,
    "cluster": _cluster,
    **{name: _synthetic(name) for name in PATTERNS},
}
