"""Pruning never loses a match: random queries full of comparisons between the events of a match.

CERISE_EXAMPLES=5000 asks for more pairs of a query and a stream than the 300 of `make test`.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import chain, pairwise

import pyarrow as pa
import pytest

from cerise.engines.base import Matcher, Options
from cerise.engines.choose import ENGINES
from cerise.engines.identity import match_ids
from cerise.events import EventBatch, Schema
from cerise.kinds import INT64_MIN
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound

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


@pytest.mark.parametrize("go", GOES)
def test_pruning_never_loses_a_match(go: int) -> None:
    """Nor does finding events by value: the matches are those of the reference, one for one."""
    asked = int(os.environ.get("CERISE_EXAMPLES", "0"))
    queries, total = max(QUERIES, asked // (STREAMS * len(GOES))), 0
    for number in range(queries):
        rng = random.Random(f"{go}, {number}")
        text = query(rng)
        bound = bind(parse(text), SCHEMA, {})
        engine = ENGINES["rcep"].start(bound, Options())
        for _ in range(STREAMS):
            events = stream(rng)
            expected = found(ENGINES["reference"].start(bound, Options()), events, bound)
            assert found(engine, events, bound) == expected, f"{text}\n{events.table.to_pylist()}"
            total += expected.total()
    assert total > 10 * queries
