"""Pruning never loses a match: random queries full of comparisons between the events of a match.

CERISE_EXAMPLES=5000 asks for more pairs of a query and a stream than the 300 of `make test`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.automaton.columns import Partitions
from cerise.engines.base import Matcher, Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.match_ids import match_ids
from cerise.engines.rcep.prune import keep_near
from cerise.events import EventBatch, Schema
from cerise.kinds import INT64_MAX, INT64_MIN
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from tests.tiers import mostly_nightly

SCHEMA = Schema(
    pa.schema(
        [
            ("t", pa.int64()), ("type", pa.string()), ("k", pa.string()), ("x", pa.int64()),
            ("y", pa.float64()), ("big", pa.int64()), ("s", pa.string()),
        ]
    ),
    "t",
    "type",
)  # fmt: skip
VALUES = {
    "k": (*"uuuuuv", None),
    "x": (*range(5), *range(5), None),
    "y": (0.0, -0.0, 0.5, 1.0, 3.0, 0.0, 1.0, 2.0, float("nan"), None),
    "big": (*range(2**53, 2**53 + 4), 0, 1, 2**53 + 1, 2**53 + 2, INT64_MIN, None),
    "s": ("", "a", "b", "é", "🍒", "a", "b", "é", None),
}  # fmt: skip
PATTERNS = {  # and the variables, those of Kleene in capitals
    "SEQ(A a, B+ b[], C c)": "aBc",
    "SEQ(a, B+ b[], c)": "aBc",
    "SEQ(A+ a[], B+ b[])": "AB",
    "SEQ(A+ a[], B b, C+ c[])": "AbC",
    "SEQ(A a, B{2,3} b[], C+ c[])": "aBC",
    "SEQ(a, B b, C c, d)": "abcd",
    "SEQ(A a, B+ b[], ~(D n), C c)": "aBc",
    "SEQ(A? a, B+ b[], C c)": "aBc",
    "SEQ(A a, AND(B+ b[], C c), D d)": "aBcd",
    "SEQ(A a, OR(B+ b[], C+ c[]), D d)": "aBd",
}
NUMBERS = ("{0}.x", "{0}.x", "{0}.y", "{0}.big", "{0}.x + 1", "{0}.x * 0.5", "-{0}.y", "abs({0}.x - 2)")
TEXTS = ("{0}.s", "{0}.s", "{0}.s", "upper({0}.s)", "{0}.k")
OPS = ("<", "<", "<=", ">", ">", ">=", "=", "!=")
WINDOWS = ("", "", "WITHIN 12", "WITHIN 9", "WITHIN 9 EVENTS", "WITHIN 14 SLIDE 3")
CUTS = ("", "PARTITION BY k")
GOES = range(5)  # tests, so that workers share them
QUERIES, STREAMS, SIZE = 6, 10, 15
WHOLE = Limits().skipped_events  # events: a list that short is walked whole


def side(rng: random.Random, var: str, kinds: tuple[str, ...]) -> str:
    """What a comparison takes of a variable; of a Kleene variable of which event."""
    name = var.lower()
    at = rng.choice(("", "", "[1]", "[1]", f"[{name}.LEN]", f"[{name}.LEN]", "[2]")) if var.isupper() else ""
    return rng.choice(kinds).format(name + at)


def comparison(rng: random.Random, variables: str) -> str:
    """A predicate on two events, mostly neighbours."""
    kinds, op = rng.choice((NUMBERS, NUMBERS, TEXTS)), rng.choice(OPS)
    kleene = [var for var in variables if var.isupper()]
    if kleene and rng.random() < 0.35:
        name = rng.choice(kleene).lower()
        one, other = (f"{name}[i]", rng.choice((f"{name}[i-1]", f"{name}[i-1]", f"{name}[1]")))
        return f"{rng.choice(kinds).format(one)} {op} {rng.choice(kinds).format(other)}"
    near = rng.random() < 0.7
    pair = list(rng.choice(list(pairwise(variables)))) if near else rng.sample(variables, 2)
    rng.shuffle(pair)
    return f"{side(rng, pair[0], kinds)} {op} {side(rng, pair[1], kinds)}"


def query(rng: random.Random) -> str:
    pattern = rng.choice(list(PATTERNS))
    where = [comparison(rng, PATTERNS[pattern]) for _ in range(rng.choice((1, 2, 2, 3)))]
    tested = ["[k]"] if rng.random() < 0.15 else []
    clauses = (rng.choice(CUTS), f"WHERE {' AND '.join([*tested, *where])}", rng.choice(WINDOWS))
    return f"PATTERN {pattern} USE skip_till_any_match {' '.join(clauses)}"


def stream(rng: random.Random) -> EventBatch:
    times = [0]
    while len(times) < SIZE:
        times.append(times[-1] + rng.choice((0, 1, 1, 2)))
    columns = {"t": times, "type": rng.choices("ABBCABBCD", k=SIZE)}
    columns |= {name: rng.choices(values, k=SIZE) for name, values in VALUES.items()}
    arrays = [pa.array(columns[field.name], field.type) for field in SCHEMA.columns]
    return EventBatch.of(pa.table(arrays, schema=SCHEMA.columns), SCHEMA)


def found(matcher: Matcher, events: EventBatch, bound: Bound) -> Counter[int]:
    matches = chain(matcher.feed(events), matcher.flush())
    return Counter(chain.from_iterable(match_ids(each, bound).to_pylist() for each in matches))


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1, 2)))
def test_pruning_never_loses_a_match(go: int) -> None:
    """Nor does finding events by value or by order: the matches are those of the reference, one for one."""
    asked = int(os.environ.get("CERISE_EXAMPLES", "0"))
    queries, total = max(QUERIES, asked // (STREAMS * len(GOES))), 0
    for number in range(queries):
        rng = random.Random(f"{go}, {number}")
        options = Options(limits=Limits(skipped_events=1 if number % 2 else WHOLE))
        text = query(rng)
        bound = bind(parse(text), SCHEMA, {})
        engines = [ENGINES[name] for name in ("rcep", "rcep-right") if ENGINES[name].why_not(bound) is None]
        matchers = [engine.start(bound, options) for engine in engines]
        for _ in range(STREAMS):
            events = stream(rng)
            expected = found(ENGINES["reference"].start(bound, Options()), events, bound)
            for matcher in matchers:
                assert found(matcher, events, bound) == expected, f"{text}\n{events.table.to_pylist()}"
            total += expected.total()
    assert total > 10 * queries


def test_only_events_in_the_window_of_a_trigger_are_looked_at() -> None:
    random_ = random.Random(7)
    for _ in range(300):
        size, within = random_.randrange(12), random_.randrange(5)
        times = np.sort([random_.randrange(15) for _ in range(size)]).astype(np.int64)
        masks = np.array([random_.choice((0, 1, 2, 3)) for _ in range(size)], np.int64)
        first, last = sorted(random_.choices(range(size + 1), k=2))
        triggers = [t for t in range(first, last) if masks[t] & 2]
        near = [any(e <= t and times[t] - times[e] <= within for t in triggers) for e in range(size)]
        expected = np.where(np.array(near, bool), masks, 0).tolist()
        keep_near(masks, times, first, last, 2, within)
        assert masks.tolist() == expected


def test_times_that_lie_too_far_apart_to_subtract() -> None:
    masks, times = np.array([1, 2]), np.array([INT64_MIN + 1, INT64_MAX - 1])
    keep_near(masks, times, 0, 2, 2, 5)
    assert masks[1] == 2


@pytest.mark.parametrize(
    "by", ["WHERE [k]", "PARTITION BY k", "WHERE [k] AND [x]", "PARTITION BY x", "WHERE [y]"]
)
def test_partitions_are_numbered_alike_for_some_events_and_for_all(by: str) -> None:
    bound = bind(parse(f"PATTERN SEQ(a, b, c) {by} WITHIN 9"), SCHEMA, {})
    dice = random.Random(3)
    columns = {name: [dice.choice(values) for _ in range(60)] for name, values in VALUES.items()}
    table = pa.table({"t": range(60), "type": ["A"] * 60, **columns}, SCHEMA.columns)
    events = EventBatch.of(table, SCHEMA)
    whole, (some, count) = Partitions(bound).of(events), Partitions(bound).among(events)
    assert (whole is None) is (some is None)
    if whole is not None and some is not None:
        assert len(set(zip(whole.tolist(), some.tolist(), strict=True))) == len(set(whole.tolist()))
        assert ((whole < 0) == (some < 0)).all()
        assert some.max() < count
