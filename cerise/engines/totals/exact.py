"""Exact sums of any size and in any order, so that no plan can change them.

Unbounded integers are Python's, in arrays of objects. A double is a whole number of units of 2^-1126: its 53
bits, shifted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Objects = npt.NDArray[np.object_]  # Python's integers

UNIT = 1126  # a double is a multiple of 2^-1074; its 53 bits as a whole number may end in 52 zeros
POWERS = 12  # bits for the power of two of a double, counted from 2^-1126
FEW = 1 << 30  # below this sum of weights, the products with 32 bits of a value fit into 64 bits


def integers(numbers: Iterable[Any]) -> Objects:
    """Return numbers as Python's integers."""
    return np.array([int(number) for number in numbers], dtype=object)


def sum_groups(groups: Ints, numbers: Ints | Objects, size: int) -> Objects:
    """Return the sum of the numbers of each group, 0 for an empty group."""
    totals = np.zeros(size, dtype=object)
    if len(groups):
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        totals[present] = np.add.reduceat(numbers[order], starts)
    return totals


def sum_products(groups: Ints, values: Ints, weights: Ints | Objects, size: int) -> Objects:
    """Return the sum of value × weight of each group."""
    if weights.dtype == object or int(weights.sum()) >= FEW:
        return sum_groups(groups, values.astype(object) * weights, size)
    high, low = sum_groups(groups, (values >> 32) * weights, size), values & 0xFFFF_FFFF
    total: Objects = (high << 32) + sum_groups(groups, low * weights, size)
    return total


def sum_double_products(groups: Ints, values: Floats, weights: Ints | Objects, size: int) -> Objects:
    """Return the sum of value × weight of each group in units of 2^-1126; values are finite."""
    parts, powers = np.frexp(values)
    whole = np.ldexp(parts, 53).astype(np.int64)
    keys = (groups << POWERS) + powers + (UNIT - 53)  # values of one group and power are summed as integers
    present, numbers = np.unique(keys, return_inverse=True)
    sums = sum_products(numbers, whole, weights, len(present))
    return sum_groups(present >> POWERS, sums << (present & ((1 << POWERS) - 1)).astype(object), size)


def odd_sums(groups: Ints, values: Floats, size: int) -> Floats:
    """Return the sum of the non-finite values of each group: ±inf, NaN, or 0.0 if it has none."""
    sums = np.zeros(size)
    with np.errstate(invalid="ignore"):
        np.add.at(sums, groups, values)
    return sums


def double(total: int, odd: float, count: int = 1) -> float:
    """Return a sum of doubles, divided by a count, rounded once."""
    if odd:
        return odd
    try:
        return total / (count << UNIT)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def text_of(number: int) -> str:
    """Return a number as hexadecimal text, which may have any length; many trailing zeros become a count."""
    digits = f"{number:x}"
    short = digits.rstrip("0")
    zeros = len(digits) - len(short)
    return f"{short}p{zeros}" if zeros > 8 else digits


def number_of(text: str) -> int:
    """Return the number of a text from `text_of`."""
    digits, _, zeros = text.partition("p")
    return int(digits, 16) << 4 * int(zeros or 0)
