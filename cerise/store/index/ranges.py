"""Translates tests into ranges of codes, which range bitmaps can test.

Codes keep the order of values, so the codes that are at least, or above, a constant start at a threshold. A
bisection over all codes finds it. This works for every comparison, as conversions (an integer to a double, a
timestamp from seconds to microseconds) keep the order too.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.events import Ints
from cerise.kinds import DAY_US, INT64_MAX, INT64_MIN, Kind
from cerise.pattern.expr import Value
from cerise.plan.pushdown import Comparison, Either, Test
from cerise.store.index.codes import BITS, WHOLE, Coded, is_narrow, numbers

Range = tuple[Any, Any]  # the least and the greatest code; integers, or arrays of them
NOTHING = (INT64_MAX, INT64_MIN)
UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


class Threshold(NamedTuple):
    """The first code that is at least a constant, and the first above it."""

    least: Any
    above: Any


def comparisons(test: Test) -> tuple[Comparison, ...]:
    """Return the comparisons of a test; one of them must hold."""
    return test.tests if isinstance(test, Either) else (test,)


def passes_null(test: Test) -> bool:
    """Tell whether null passes a test."""
    return any(each.op == "is null" for each in comparisons(test))


def range_count(test: Test) -> int:
    """Return how many ranges of codes a test has."""
    return sum({"!=": 2, "in": len(each.values), "is null": 0}.get(each.op, 1) for each in comparisons(test))


@functools.lru_cache(4_096)
def ranges_of(test: Test, type_: pa.DataType, encoding: int) -> tuple[Range, ...]:
    """Return the ranges of codes that pass a test, equally many for every encoding; not for WORDS."""
    found: list[Range] = []
    for each in comparisons(test):
        ends = [_threshold(value, each.kind, type_, encoding) for value in each.values]
        found += [_clamp(one) for one in ranges_between(each.op, ends)]
    return tuple(found)


def ranges_between(op: str, ends: Sequence[Threshold]) -> list[Range]:
    """Return the ranges of codes that pass a comparison with constants."""
    match op:
        case "=" | "in":
            return [(end.least, end.above - 1) for end in ends]
        case "!=":
            return [(INT64_MIN, ends[0].least - 1), (ends[0].above, INT64_MAX)]
        case "<":
            return [(INT64_MIN, ends[0].least - 1)]
        case "<=":
            return [(INT64_MIN, ends[0].above - 1)]
        case ">":
            return [(ends[0].above, INT64_MAX)]
        case ">=":
            return [(ends[0].least, INT64_MAX)]
        case "is not null":
            return [(INT64_MIN, INT64_MAX)]
    return []  # is null


def holds(test: Test, coded: Coded, type_: pa.DataType) -> npt.NDArray[np.bool_]:
    """Return a mask of the values of a column that pass a test."""
    if coded.words is None:
        ranges = ranges_of(test, type_, coded.encoding)
    else:
        ranges = tuple(
            one
            for each in comparisons(test)
            for one in ranges_between(each.op, _find_thresholds(each, coded.words))
        )
    found = np.zeros(len(coded.codes), np.bool_)
    for low, high in ranges:
        found |= (coded.codes >= low) & (coded.codes <= high)
    if coded.valid is not None:
        found = np.where(coded.valid, found, passes_null(test))
    return found


def intervals_of(tests: Sequence[Test], type_: pa.DataType) -> tuple[Ints, Ints]:
    """Return the intervals of canonical times that pass all tests of the time column."""
    kept: list[Range] = [(INT64_MIN, INT64_MAX)]
    canonical_type = type_ if pa.types.is_integer(type_) else pa.timestamp("us")
    for test in tests:
        ranges = sorted(one for one in ranges_of(test, canonical_type, WHOLE) if one[0] <= one[1])
        kept = [
            (max(low, start), min(high, end))
            for low, high in kept
            for start, end in _merge_ranges(ranges)
            if max(low, start) <= min(high, end)
        ]
    return np.array([low for low, _ in kept], np.int64), np.array([high for _, high in kept], np.int64)


def _merge_ranges(ranges: Sequence[Range]) -> list[Range]:
    """Merge overlapping ranges; the ranges are sorted."""
    found: list[Range] = []
    for low, high in ranges:
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _find_thresholds(test: Comparison, words: pa.Array) -> list[Threshold]:
    known = [word.encode() for word in words.to_pylist()]
    values = [str(value).encode() for value in test.values]
    return [Threshold(bisect_left(known, value), bisect_right(known, value)) for value in values]


def _clamp(one: Range) -> Range:
    """Return the range, or NOTHING if it is empty or exceeds 64 bits."""
    return one if INT64_MIN <= one[0] <= one[1] <= INT64_MAX else NOTHING


# ---- thresholds of constants


def _threshold(value: Value, kind: Kind, type_: pa.DataType, encoding: int) -> Threshold:
    if pa.types.is_dictionary(type_):
        return _threshold(value, kind, type_.value_type, encoding)
    measure, constant = _measures(value, kind, type_, encoding)
    low, high = _domain(type_, encoding)
    least = _first(low, high, lambda code: bool(measure(code) >= constant))
    return Threshold(least, _first(least, high, lambda code: bool(measure(code) > constant)))


def _first(low: int, high: int, passes: Callable[[int], bool]) -> int:
    """Return the first code that passes, high + 1 if none does; all codes after a passing one must pass."""
    high += 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle + 1, high)
    return low


def _measures(
    value: Value, kind: Kind, type_: pa.DataType, encoding: int
) -> tuple[Callable[[int], Any], Any]:
    """Return a function from codes to comparable numbers, and the constant as such a number."""
    if kind is Kind.FLOAT:
        return lambda code: _rank(_number(code, type_, encoding)), _rank(float(value or 0.0))
    if pa.types.is_timestamp(type_):
        return lambda code: code * UNITS[type_.unit], int(value or 0) * UNITS["us"]
    if pa.types.is_date(type_):
        days = 1 if pa.types.is_date32(type_) else 86_400_000
        return lambda code: code // days * DAY_US, int(value or 0)
    return lambda code: code, int(value or 0)


def _rank(value: float) -> tuple[bool, float]:
    """Return a sort key for a double: NaN is above all and equals itself."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def _number(code: int, type_: pa.DataType, encoding: int) -> float:
    if pa.types.is_decimal(type_):
        return code / 10**type_.scale if type_.scale > 0 else float(code * 10**-type_.scale)
    if encoding == WHOLE:
        return float(code)
    return float(numbers(np.array([code]), encoding, type_)[0])


def _domain(type_: pa.DataType, encoding: int) -> tuple[int, int]:
    """Return the first and last code for the bisection; codes below -∞ would be NaNs."""
    if encoding != BITS:
        return INT64_MIN, INT64_MAX
    infinity = 0x7F80_0000 if is_narrow(type_) else 0x7FF0_0000_0000_0000
    return -infinity - 1, (2**31 - 1) if is_narrow(type_) else INT64_MAX
