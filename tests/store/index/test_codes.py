"""Values come back from their codes exactly, and codes have the order of values."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerise.errors import BindError, DataError
from cerise.store.index.codes import BITS, DECIMAL, WHOLE, WORDS, decode, encode
from cerise.store.index.layout import IndexLayout

NAN, INF = math.nan, math.inf
COLUMNS = [
    pa.array([-(2**63), 2**63 - 1, 0, None], pa.int64()),
    pa.array([-128, 127, None], pa.int8()),
    pa.array([0, 2**63 - 1], pa.uint64()),
    pa.array([True, None, False]),
    pa.array([0, 1, None, -(2**31)], pa.int32()).cast(pa.date32()),
    pa.array([0, 86_400_000, -86_400_000], pa.int64()).cast(pa.date64()),
    pa.array([1, None, -(2**63) + 1], pa.timestamp("ns")),
    pa.array([1, None, 2**40], pa.timestamp("s", "Europe/Berlin")),
    pa.array([1, None, -5], pa.duration("ms")),
    pa.array([Decimal("1.25"), None, Decimal("-99999.99")], pa.decimal128(7, 2)),
    pa.array([Decimal("1.25"), None, Decimal("-0.01")], pa.decimal256(15, 2)),
    pa.array([Decimal("1.25"), Decimal("-0.01")], pa.decimal32(7, 2)),
    pa.array([Decimal("1.25"), Decimal("-0.01")], pa.decimal64(15, 2)),
    pa.array([1.25, None, -3.5, 0.0], pa.float64()),
    pa.array([0.1, 0.7, None], pa.float32()),
    pa.array([0.1, -0.0, INF], pa.float32()),
    pa.array([0.5, 1.25, -2.0], pa.float32()).cast(pa.float16()),
    pa.array([1e300, -1e-300, None, 0.1]),
    pa.nulls(3),
    pa.array([], pa.float64()),
    pa.array([], pa.int32()),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.type}-{len(column)}")
def test_values_come_back(column: pa.Array) -> None:
    for part in (column, column.slice(1)):
        coded = encode(part, "x")
        assert decode(coded.codes, coded.valid, coded.encoding, part.type).equals(part)


def test_dictionaries_come_back() -> None:
    numbers = pa.array([5, None, 7, 5]).dictionary_encode()
    coded = encode(numbers, "x")
    back = decode(coded.codes, coded.valid, coded.encoding, numbers.type)
    assert back.type == numbers.type
    assert back.to_pylist() == numbers.to_pylist()


def same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other and math.copysign(1, one) == math.copysign(1, other)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.floats() | st.sampled_from([0.0, -0.0, NAN, INF, 5e-324])), st.booleans())
def test_doubles_come_back_in_order(values: list[float | None], narrow: bool) -> None:
    column = pa.array(values, pa.float64())
    if narrow:
        with np.errstate(over="ignore"):
            column = pa.array(column.to_numpy(zero_copy_only=False).astype(np.float32), from_pandas=False)
        values = column.to_pylist()
    coded = encode(column, "x")
    back = decode(coded.codes, coded.valid, coded.encoding, column.type)
    assert back.type == column.type
    assert all(same(one, other) for one, other in zip(back.to_pylist(), values, strict=True))
    known = [(v, c) for v, c in zip(values, coded.codes.tolist(), strict=True) if v is not None]
    for value, code in known:
        for other, its in known:
            if value < other or (math.isnan(other) and not math.isnan(value)):
                assert code < its


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ([1.0, 2.0], DECIMAL), ([1.5, None], DECIMAL + 1), ([0.1, 0.25, 3.0], DECIMAL + 2),
        ([0.000001], DECIMAL + 6), ([0.0000001], BITS), ([-0.0, 1.0], BITS), ([NAN], BITS), ([INF], BITS),
        ([2.0**53], BITS), ([2.0**53 - 1], DECIMAL), ([2.0**53 - 1, 0.5], BITS), ([0.1 + 0.2], BITS),
    ],
)  # fmt: skip
def test_how_doubles_are_encoded(values: list[Any], encoding: int) -> None:
    assert encode(pa.array(values, pa.float64()), "x").encoding == encoding


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | st.text(max_size=3)))
def test_strings_are_places_in_the_order_of_bytes(values: list[str | None]) -> None:
    for type_ in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        coded = encode(pa.array(values, type_), "x")
        assert coded.encoding == WORDS
        assert coded.words is not None
        words = coded.words.to_pylist()
        assert words == sorted({v for v in values if v is not None}, key=str.encode)
        assert [
            words[c] if v is not None else None for c, v in zip(coded.codes, values, strict=True)
        ] == values


def test_a_value_that_does_not_fit() -> None:
    with pytest.raises(DataError, match="column 'x'"):
        encode(pa.array([2**63], pa.uint64()), "x")


def test_layouts() -> None:
    columns = pa.schema([("t", pa.timestamp("us", "UTC")), ("k", pa.string()), ("x", pa.decimal128(9, 2))])
    layout = IndexLayout(columns, "t", "k", ("x",), compress=False)
    assert IndexLayout.from_json(layout.to_json()) == layout
    assert [layout.holds(name) for name in ("t", "k", "x", "y")] == [True, True, True, False]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (("t", "k", ("l",)), "column 'l' of type list<item: int64> cannot be indexed"),
        (("t", "k", ("s",)), "column 's'"),
        (("t", "k", ("d",)), "column 'd'"),
        (("t", "t2", ("x",)), "column 't2'"),
        (("x", "k", ()), "column 'x'"),
        (("t", "k", ("y",)), "column 'y' is not in the table"),
        (("t", "k", ("k",)), "indexed twice"),
        (("t", "k", ("x",), True), "column '_seq' is not"),
    ],
)
def test_what_cannot_be_indexed(parts: tuple[Any, ...], problem: str) -> None:
    columns = pa.schema(
        [("t", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("l", pa.list_(pa.int64())),
         ("s", pa.struct([("a", pa.int64())])), ("d", pa.decimal128(20, 2)), ("t2", pa.timestamp("us"))]
    )  # fmt: skip
    with pytest.raises(BindError, match=problem):
        IndexLayout(columns, *parts)


def test_the_moments_of_a_date() -> None:
    column = pa.array([dt.date(1969, 12, 31), dt.date(2024, 2, 29)], pa.date32())
    assert encode(column, "x").encoding == WHOLE
    assert encode(column, "x").codes.tolist() == [-1, 19782]
