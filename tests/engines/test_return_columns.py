"""Columns of RETURN are the same for all matches at once and match by match."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cerise
from cerise.engines import match_ids
from cerise.engines.base import Matches, Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.results import match_table
from cerise.errors import DataError
from cerise.events import EventBatch
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from tests.support.strategies.pairs import QUERY, most_events
from tests.support.strategies.queries import PARAMS, params_of, query_of
from tests.support.strategies.streams import ROW, Dice, shape_of, table_of
from tests.tiers import AT_LENGTH, EXAMPLES

QUERIES = max(150, EXAMPLES // 10) if AT_LENGTH else 80
EVER, NEVER = Limits(compiled_rows=1), Limits(compiled_rows=1 << 60)


def matches_of(rng: random.Random) -> tuple[Bound, list[Matches]]:
    """A random query with RETURN, and what the reference finds in some streams."""
    while True:
        dice = Dice(rng.randbytes(QUERY))
        shape = shape_of(dice)
        query = query_of(dice, shape)
        if isinstance(query.returns, tuple):
            break
    bound = bind(query, shape.schema, {name: PARAMS[name] for name in params_of(query)})
    found: list[Matches] = []
    for _ in range(6):
        size = most_events(query)
        table = table_of(Dice(rng.randbytes(ROW * size)), shape, size)
        matcher = ENGINES["reference"].start(bound, Options())
        found += matcher.feed(EventBatch.of(table, bound.schema, reads=bound.ties))
        found += matcher.flush()
    return bound, [each for each in found if len(each)]


def shown(bound: Bound, matches: Matches, limits: Limits) -> Any:
    """What comes out, or that something cannot be computed; 0.0 is -0.0."""
    try:
        table = match_table.to_table(matches, bound, limits)
    except DataError as error:
        return str(error)
    return table.schema, [
        {name: value + 0.0 if isinstance(value, float) else value for name, value in row.items()}
        for row in table.to_pylist()
    ]


def test_all_at_once_and_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, counts = random.Random(11), {"at once": 0, "one by one": 0}
    real = match_table.compute_at_once

    def counted(*args: Any) -> pa.Array | None:
        values = real(*args)
        counts["one by one" if values is None else "at once"] += 1
        return values

    for _ in range(QUERIES):
        bound, found = matches_of(rng)
        for matches in found:
            monkeypatch.setattr(match_table, "compute_at_once", counted)
            at_once = shown(bound, matches, EVER)
            monkeypatch.setattr(match_table, "compute_at_once", real)
            assert str(at_once) == str(shown(bound, matches, NEVER))
    assert counts["at once"] > QUERIES
    assert counts["one by one"] > QUERIES / 10  # text, and what cannot be computed


EVENTS = pa.table(
    {
        "t": range(6_000),
        "kind": ["A", "B", "B", "B"] * 1_500,
        "x": [None if n % 7 == 0 else n % 50 - 25 for n in range(6_000)],
        "y": [float("nan") if n % 101 == 0 else n % 9 / 2 - 1 for n in range(6_000)],
        "s": pa.array([f"s{n % 5}" for n in range(6_000)]).dictionary_encode(),
        "at": pa.array(range(6_000), pa.timestamp("ms")),
        "d": pa.array([Decimal(n) / 4 for n in range(6_000)], pa.decimal128(9, 2)),
    }
)
COLUMNS = (
    "b.LEN", "SUM(b.x)", "AVG(b.x)", "MIN(b.y)", "MAX(b.s)", "MIN(b.at)", "STDDEV(b.y)", "COUNT(b.x)",
    "SUM(b.d)", "MAX(b.x * 2 - 1)", "SUM(b.x) / b.LEN + a.x", "LAST(b.x) - a.x", "b[2].y * 2",
    "a.s = LAST(b.s)", "a.x > 3 OR NULL", "LAST(b.at) - a.at", "COALESCE(a.x, 0)", "a.d + 1", "UPPER(a.s)",
)  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_what_may_be_returned(column: str) -> None:
    query = f"PATTERN SEQ(A a, B+ b[]) USE skip_till_any_match WITHIN 3 RETURN {column} AS r"

    def answer(limits: Limits) -> pa.Table:
        return cerise.find(EVENTS, query, time="t", type="kind", options=Options(limits=limits))

    at_once, one_by_one = answer(Limits()), answer(NEVER)
    assert len(at_once) >= Limits().compiled_rows
    assert at_once.schema == one_by_one.schema
    assert str(at_once["r"].to_pylist()) == str(one_by_one["r"].to_pylist())


@pytest.mark.parametrize(
    "total", ["SUM(LAST(b.x) - a.x)", "MAX(LAST(b.at) - a.at)", "AVG(b[2].y - a.y)", "MIN(a.d + b[1].d)"]
)
def test_what_may_be_totalled(total: str, monkeypatch: pytest.MonkeyPatch) -> None:
    query = f"PATTERN SEQ(A a, B+ b[]) USE skip_till_any_match WITHIN 3 RETURN {total} AS r, COUNT(*) AS n"

    def answer(limits: Limits) -> pa.Table:
        options = Options(engine="nfa", limits=limits)
        return cerise.find(EVENTS, query, time="t", type="kind", options=options)

    calls: list[int] = []
    real = match_table._compute_rows
    monkeypatch.setattr(match_table, "_compute_rows", lambda *args: calls.append(1) or real(*args))
    at_once = answer(Limits())
    assert calls
    assert at_once["n"][0].as_py() >= Limits().compiled_rows
    one_by_one = answer(NEVER)
    assert at_once.schema == one_by_one.schema
    assert str(at_once.to_pylist()) == str(one_by_one.to_pylist())


def test_a_sum_that_is_too_large_says_so_for_many_matches() -> None:
    table = EVENTS.set_column(2, "x", pa.array([2**62] * len(EVENTS)))
    query = "PATTERN SEQ(A a, B+ b[]) USE skip_till_any_match WITHIN 3 RETURN SUM(b.x) AS r"
    with pytest.raises(DataError, match=r"in RETURN"):
        cerise.find(table, query, time="t", type="kind")


def test_ids_are_the_same_with_a_kernel_and_without() -> None:
    rng = np.random.default_rng(1)
    lists = [None if rng.random() < 0.1 else rng.integers(0, 500, rng.integers(0, 9)) for _ in range(300)]
    rows = pa.array(lists, pa.list_(pa.int64()))
    events = rng.integers(0, 2**64, 500, dtype=np.uint64)
    salt = np.array([3], np.uint64) * match_ids.STEP_VARIABLE
    with_kernel, without = (
        match_ids._hash_lists(rows.slice(5), events, salt, compiled_events=least) for least in (0, 1 << 60)
    )
    assert (with_kernel == without).all()
    assert len(set(with_kernel.tolist())) > 200
