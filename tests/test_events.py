"""Schemas and stream order: what is a time, what breaks ties, what is refused."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cerise
from cerise.engines.match_ids import count_ties, number_repeats
from cerise.errors import BindError, DataError
from cerise.events import EventBatch, Schema
from cerise.ties import tie_order


def times(values: list[Any], type_: pa.DataType) -> list[int]:
    table = pa.table({"t": pa.array(values, type_)})
    return EventBatch.of(table, Schema(table.schema, "t")).times.tolist()


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([3, -1, 2], pa.int64(), [-1, 2, 3]),
        ([3, 1], pa.uint8(), [1, 3]),
        ([dt.datetime(1969, 12, 31, 23, 59, 59)], pa.timestamp("s"), [-1_000_000]),
        ([1, 2], pa.timestamp("ms", "Asia/Tokyo"), [1000, 2000]),
        ([2000, 1000], pa.timestamp("ns"), [1, 2]),
        ([dt.date(1970, 1, 2), dt.date(1969, 12, 31)], pa.date32(), [-86_400_000_000, 86_400_000_000]),
    ],
)
def test_what_is_a_time(values: list[Any], type_: pa.DataType, expected: list[int]) -> None:
    assert times(values, type_) == expected


@pytest.mark.parametrize("type_", [pa.string(), pa.float64(), pa.bool_(), pa.binary(), pa.list_(pa.int64())])
def test_what_is_no_time(type_: pa.DataType) -> None:
    with pytest.raises(BindError, match="is not a time") as caught:
        Schema(pa.schema([("t", type_)]), "t")
    assert "cast" in str(caught.value)


def test_null_times_are_counted_and_named() -> None:
    with pytest.raises(DataError, match="6 of 8 events have no time: 't' is null in rows 0, 2, 3, 4, 5, …"):
        times([None, 1, None, None, None, None, None, 2], pa.int64())


def test_nothing_wraps_or_truncates() -> None:
    with pytest.raises(DataError, match="not exact"):
        times([1500], pa.timestamp("ns"))
    with pytest.raises(DataError, match="not exact"):
        times([2**63], pa.uint64())
    with pytest.raises(DataError, match="not exact"):
        times([2**60], pa.timestamp("s"))


def test_duplicate_columns() -> None:
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64()), ("x", pa.int64())])
    with pytest.raises(BindError, match="more than one column named 'x'"):
        Schema(schema, "t")


def rows_in_order(columns: dict[str, Any], **roles: Any) -> list[int]:
    table = pa.table({**columns, "row": list(range(len(next(iter(columns.values())))))})
    reads = roles.pop("reads", ())
    batch = EventBatch.of(table, Schema(table.schema, "t", **roles), reads=reads)
    assert batch.positions.tolist() == list(range(len(table)))
    return batch.table.column("row").to_pylist()


def test_ties_by_arrival() -> None:
    assert rows_in_order({"t": [2, 1, 1, 2]}) == [1, 2, 0, 3]


def test_ties_by_order_columns_nulls_first_then_arrival() -> None:
    assert rows_in_order({"t": [1] * 4, "n": [3, None, 1, 1]}, order=("n",)) == [1, 2, 3, 0]


FLOATS, STRINGS = [4, 5, 0, 3, 1, 2], [1, 3, 0, 2]
READ = [("t",), ("x",)]


def test_ties_by_a_hash_of_what_is_read_where_nothing_arrives_in_order() -> None:
    """The order below is part of what results are: it may never change (S1.2)."""
    columns = {"t": [1] * 6, "x": [np.nan, None, 1.0, -0.0, -np.inf, np.inf]}
    assert rows_in_order(columns, arrival=False, reads=[READ]) == FLOATS
    strings = {"t": [1] * 4, "x": ["b", "ä", "B", "𝄞"]}
    assert rows_in_order(strings, arrival=False, reads=[READ]) == STRINGS
    again = {"t": [1] * 4, "x": pa.array(["𝄞", "b", "ä", "B"]).dictionary_encode()}
    assert [(i + 3) % 4 for i in rows_in_order(again, arrival=False, reads=[READ])] == STRINGS


@pytest.mark.parametrize("equal", [[0.0, -0.0], [np.nan, -np.nan], [None, None], ["ä", "ä"]])
def test_equal_values_leave_ties_to_the_next_tier(equal: list[Any]) -> None:
    """Of the first tier nothing decides, so the second does, whichever value comes first."""
    orders = []
    for values in (equal, equal[::-1]):
        columns = {"t": [1, 1], "x": values, "y": [5, 6]}
        orders.append(rows_in_order(columns, arrival=False, reads=[READ, [("y",)]]))
    assert orders[0] == orders[1]


def test_order_goes_before_what_is_read() -> None:
    columns = {"t": [1] * 20, "n": [2, *range(1, 20)], "x": [*range(20)]}
    found = rows_in_order(columns, order=("n",), arrival=False, reads=[READ])
    assert found[0] == 1
    assert set(found[1:3]) == {0, 2}
    assert found[3:] == list(range(3, 20))


NESTED = {
    "list": [[1, 2], [2, 1], [1], [], None, [None], [1, None]],
    "struct": [{"a": 1, "b": None}, {"a": None, "b": 1}, None, {"a": None, "b": None}, {"a": 1, "b": 1}],
    "map": [[("k", 1)], [("k", 2)], [("l", 1)], [], None],
    "bytes": [b"", b"a", None, b"aa"],
    "decimal": [Decimal("1e20"), Decimal("1e20") + 1, None],
}


@pytest.mark.parametrize("name", NESTED)
def test_rows_that_differ_only_in_nested_values_have_one_order(name: str) -> None:
    type_ = {"map": pa.map_(pa.string(), pa.int64())}.get(name)
    values = NESTED[name]
    answers = set()
    for seed in range(8):
        shuffled = random.Random(seed).sample(values, len(values))
        table = pa.table({"t": [1] * len(values), "x": pa.array(shuffled, type_)})
        batch = EventBatch.of(table, Schema(table.schema, "t", arrival=False), reads=[READ])
        answers.add(repr(batch.table.column("x").to_pylist()))
    assert len(answers) == 1


def test_where_hashes_collide_the_values_decide_nulls_first() -> None:
    columns = [
        pa.array([2, 1, None, 1, 1]),
        pa.array(["b", "z", "c", "a", None]),
        pa.array([[1], [2], [3], [4], [5]]),
    ]
    constant = lambda columns, rows: np.zeros(rows, np.uint64)  # noqa: E731
    order = tie_order(np.zeros(5, np.int64), [lambda rows: [each.take(rows) for each in columns]], constant)
    assert order.tolist() == [2, 4, 3, 1, 0]


def test_ties_are_biased_to_no_value() -> None:
    """Of two events at each time, the one with the larger value is first about half of the time."""
    count = 4_000
    table = pa.table({"t": np.repeat(np.arange(count), 2), "x": [0, 1] * count})
    batch = EventBatch.of(table, Schema(table.schema, "t", arrival=False), reads=[READ])
    first = batch.table.column("x").to_numpy()[::2]
    assert 0.46 < first.mean() < 0.54


def test_undecided_events_are_counted() -> None:
    table = pa.table({"t": [1, 1, 1, 2, 3, 3], "k": [1, 2, 1, 1, 1, 2], "n": [1, 2, 3, 4, 5, 5]})
    events = EventBatch.of(table, Schema(table.schema, "t", arrival=False), reads=[[("t",), ("k",)]])
    assert count_ties(events, []) == 3
    assert count_ties(events, [("k",)]) == 1
    by_n = EventBatch.of(table, Schema(table.schema, "t", order=("n",), arrival=False))
    assert count_ties(by_n, []) == 1
    assert count_ties(by_n, [("k",)]) == 0


def test_a_field_of_a_null_struct_is_null() -> None:
    table = pa.table({"t": [1, 2], "p": pa.array([None, {"q": 3}], pa.struct([("q", pa.int64())]))})
    assert EventBatch.of(table, Schema(table.schema, "t")).column(("p", "q")).to_pylist() == [None, 3]
    assert len(cerise.find(table, "PATTERN a WHERE a.p.q IS NULL", time="t")) == 1


def test_no_events_and_no_rows() -> None:
    empty = pa.table({"t": pa.array([], pa.int64()), "x": pa.array([], pa.string())})
    assert len(cerise.find(empty, "PATTERN SEQ(a, b+) WHERE a.x = b.x", time="t")) == 0
    assert cerise.find(empty, "PATTERN a RETURN COUNT(*)", time="t").to_pylist() == [{"count": 0}]


def test_integers_stay_exact_in_and_out() -> None:
    big = 2**53 + 1
    table = pa.table({"t": [1, 2, 3], "x": [big, big - 1, big]})
    found = cerise.find(table, "PATTERN SEQ(a, b) WHERE a.x = b.x RETURN a.x AS x, b.x - 1 AS y", time="t")
    assert found.to_pylist()[0] | {"match_id": 0} == {
        "match_id": 0, "first_time": 1, "last_time": 3, "x": big, "y": big - 1
    }  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "values", "query", "matched"),
    [
        (pa.decimal128(10, 2), ["0.10", "0.30"], "a.x = 0.1", 1),
        (pa.float32(), [0.5, 2.5], "a.x > 1", 1),
        (pa.dictionary(pa.int8(), pa.string()), ["u", "v"], "a.x = 'u'", 1),
        (pa.large_string(), ["u", "v"], "a.x LIKE '_'", 2),
        (pa.string_view(), ["u", "v"], "a.x < 'v'", 1),
        (pa.duration("s"), [60, 120], "a.x > 1 minute", 1),
        (pa.date64(), [dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "a.x > DATE '2024-01-01'", 1),
    ],
)
def test_types_that_are_cast(type_: pa.DataType, values: list[Any], query: str, matched: int) -> None:
    import decimal

    given = [decimal.Decimal(v) for v in values] if pa.types.is_decimal(type_) else values
    table = pa.table({"t": [1, 2], "x": pa.array(given, type_)})
    found = cerise.find(table, f"PATTERN a WHERE {query} RETURN a.x AS x", time="t")
    assert len(found) == matched
    expected = pa.large_string() if type_ == pa.string_view() else type_  # else passed through as it is
    assert found.schema.field("x").type == expected


def test_a_column_of_nulls_has_no_type() -> None:
    table = pa.table({"t": [1, 2], "x": pa.nulls(2), "y": [1, 1]})
    assert len(cerise.find(table, "PATTERN a WHERE a.x IS NULL", time="t")) == 2
    assert (
        len(cerise.find(table, "PATTERN SEQ(a, b) WHERE a.x = b.x OR a.x > 'u' OR a.y = b.y", time="t")) == 1
    )
    assert len(cerise.find(table, "PATTERN a WHERE [x]", time="t")) == 0
    assert len(cerise.find(table, "PATTERN SEQ(a, b)", time="t", key="x", order="x")) == 1


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int64()),
        pa.binary(),
        pa.decimal128(38, 2),
        pa.time64("us"),
        pa.map_(pa.string(), pa.int64()),
    ],
    ids=str,
)
def test_types_that_are_only_passed_through(type_: pa.DataType) -> None:
    table = pa.table({"t": [1], "x": pa.array([None], type_)})
    assert cerise.find(table, "PATTERN a", time="t").schema.field("a").type.field("x").type == type_
    with pytest.raises(BindError, match=r"cannot be used in a predicate(.|\n)*docs/types.md"):
        cerise.find(table, "PATTERN a WHERE a.x IS NULL", time="t")


@pytest.mark.parametrize("seed", range(20))
def test_repeats_are_numbered_alike_by_the_kernel_and_by_sorting(seed: int) -> None:
    dice = np.random.default_rng(seed)
    rows = int(dice.integers(0, 300))
    groups = np.sort(dice.integers(-3, 1 + int(dice.integers(1, 40)), rows))
    hashed = dice.choice(np.array([0, 1, 2**63, 2**64 - 1, 512, 1024, 7], np.uint64), rows)
    expected, seen = [], dict[tuple[int, int], int]()
    for pair in zip(groups.tolist(), hashed.tolist(), strict=True):
        expected.append(seen.get(pair, 0))
        seen[pair] = expected[-1] + 1
    assert number_repeats(groups, hashed, compiled_rows=1).tolist() == expected
    assert number_repeats(groups, hashed, compiled_rows=1000).tolist() == expected
