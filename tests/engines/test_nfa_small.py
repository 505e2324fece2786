"""Small rooms change nothing: pools that are swept, collected and grown at every turn give the same matches.

Small streams too, so that these run where kernels are plain Python, and show there what is never run.
"""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.events import Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from tests.support.cases.runners import RUNNERS, in_batches_of
from tests.tiers import AT_LENGTH, mostly_nightly

QUERIES = {
    "sequence": "PATTERN SEQ(A a, B b, C c) WHERE b.x >= a.x WITHIN 9",
    "any": "PATTERN SEQ(A a, B b, C c) USE skip_till_any_match WHERE c.x > a.x WITHIN 7",
    "kleene": "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x >= b[i-1].x AND avg(b[].x) > a.x WITHIN 8",
    "kleene any": "PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WITHIN 6",
    "counted": "PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WITHIN 7 RETURN COUNT(*)",
    "counted, keyed": "PATTERN SEQ(A a, B+ b[]) USE skip_till_any_match WHERE [k] WITHIN 9 RETURN COUNT(*)",
    "strict": "PATTERN SEQ(A a, B b) USE strict_contiguity WITHIN 3",
    "keyed": "PATTERN SEQ(A a, B b, C c) WHERE [k] AND c.x != a.x WITHIN 12",
    "keyed by text": "PATTERN SEQ(A a, B b) WHERE [s] AND b.x > a.x WITHIN 20 RETURN a.s AS s, b.x AS x",
    "not between": "PATTERN SEQ(A a, NOT C n, B b) WHERE n.x = a.x WITHIN 9",
    "not before": "PATTERN SEQ(NOT C n, A a, B b) WHERE n.x > a.x WITHIN 6",
    "not after": "PATTERN SEQ(A a, B b, NOT C n) WHERE n.x = b.x AND [k] WITHIN 6",
    "not in and": "PATTERN AND(A a, B b, NOT C n) WITHIN 4",
    "or": "PATTERN OR(SEQ(A a, B b), SEQ(C c, B d)) WHERE b.x > a.x WITHIN 5",
    "events": "PATTERN SEQ(A a, B b, C c) WITHIN 5 EVENTS",
    "slide": "PATTERN SEQ(A a, B b) WITHIN 6 SLIDE 3",
    "apart": "PATTERN SEQ(A a, B b, C c) WITHIN 9 OUTPUT NON_OVERLAPPING",
    "limited": "PATTERN SEQ(A a, B b) USE skip_till_any_match WITHIN 6 LIMIT 2 PER EVENT",
}
SCHEMA = pa.schema(
    [("t", pa.int64()), ("kind", pa.string()), ("x", pa.int64()), ("k", pa.int64()), ("s", pa.string())]
)


def events(seed: int, count: int = 90) -> pa.Table:
    rng = np.random.default_rng(seed)
    kinds = np.array(["A", "B", "C", "D"])
    return pa.table(
        {
            "t": np.cumsum(rng.integers(0, 2, count)),
            "kind": kinds[rng.integers(0, 4, count)],
            "x": rng.integers(0, 6, count),
            "k": np.arange(count) // 9,  # keys that come and go
            "s": pa.array([f"text {i // 11}" for i in range(count)]),
        },
        SCHEMA,
    )


def bound(name: str) -> Any:
    return bind(parse(QUERIES[name]), Schema(SCHEMA, "t", "kind", (), ()))


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


@pytest.mark.parametrize("engine", ["nfa", "nfa-merge", "nfa-backtrack"])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("size", mostly_nightly((1, 2, 3), (2,)))
def test_small_rooms_change_nothing(name: str, engine: str, size: int) -> None:
    query = bound(name)
    if (reason := ENGINES[engine].why_not(query)) is not None:
        pytest.skip(reason)
    small = Options(engine=engine, limits=Limits.all(size))
    for seed in range(2 if AT_LENGTH else 1):
        table = events(seed)
        expected = rows(RUNNERS["whole"](query, table, Options(engine="reference")))
        for runner in (in_batches_of(7), in_batches_of(20, reload=True)):
            assert rows(runner(query, table, small)) == expected


@pytest.mark.parametrize("name", ["any", "kleene any", "kleene", "keyed", "or"])
def test_compressed_matches_are_those_that_are_spelled(name: str) -> None:
    table = events(5, 40)
    found = cerise.compressed(table, QUERIES[name], time="t", type="kind")
    spelled = cerise.find(table, QUERIES[name], time="t", type="kind", options=Options(engine="reference"))
    assert found.count() == len(spelled) > 0
    again = pickle.loads(pickle.dumps(found))
    assert again.count() == found.count()
    kept = again.events.to_pylist()
    names = [each for each in spelled.column_names if each not in ("match_id", "first_time", "last_time")]
    expected = Counter(
        tuple(_events(row[each]) for each in names if each not in ("k", "s")) for row in spelled.to_pylist()
    )
    listed = Counter(
        tuple(_events([kept[i] for i in match.get(each) or ()]) for each in names if each not in ("k", "s"))
        for match in again
    )
    assert listed == expected


def _events(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(repr(each) for each in (value if isinstance(value, list) else [value]))
