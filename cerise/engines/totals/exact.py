"""Sums that are exact, whatever their size and order, so that no plan can change them.

Numbers without bound are Python's, in arrays of objects. A double is a whole number of units of 2^-1126: its
53 bits, shifted.
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
POWERS = 12  # bits that a power of two of a double takes, counted from 2^-1126
FEW = 1 << 30  # the sum of weights with which 32 bits of a value fit into 64


def integers(numbers: Iterable[Any]) -> Objects:
    """Return numbers as Python's integers."""
    return np.array([int(number) for number in numbers], dtype=object)


def summed(groups: Ints, numbers: Ints | Objects, size: int) -> Objects:
    """Return the sum of the numbers of each group, 0 where there are none."""
    totals = np.zeros(size, dtype=object)
    if len(groups):
        order = np.argsort(groups, kind="stable")
        there, starts = np.unique(groups[order], return_index=True)
        totals[there] = np.add.reduceat(numbers[order], starts)
    return totals


def weighed(groups: Ints, values: Ints, weights: Ints | Objects, size: int) -> Objects:
    """Return the sum of value × weight of each group."""
    if weights.dtype == object or int(weights.sum()) >= FEW:
        return summed(groups, values.astype(object) * weights, size)
    high, low = summed(groups, (values >> 32) * weights, size), values & 0xFFFF_FFFF
    total: Objects = (high << 32) + summed(groups, low * weights, size)
    return total


def weighed_doubles(groups: Ints, values: Floats, weights: Ints | Objects, size: int) -> Objects:
    """Return the sum of value × weight of each group in units of 2^-1126; values are finite."""
    parts, powers = np.frexp(values)
    whole = np.ldexp(parts, 53).astype(np.int64)
    places = (groups << POWERS) + powers + (UNIT - 53)  # what has one power is summed as whole numbers
    there, numbers = np.unique(places, return_inverse=True)
    sums = weighed(numbers, whole, weights, len(there))
    return summed(there >> POWERS, sums << (there & ((1 << POWERS) - 1)).astype(object), size)


def odd_sums(groups: Ints, values: Floats, size: int) -> Floats:
    """Return the sum of what is not finite of each group: ±inf, NaN, or 0.0 where there is nothing."""
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
    """Return a number as text: hexadecimal, which may be of any length; many zeros at its end are counted."""
    digits = f"{number:x}"
    short = digits.rstrip("0")
    zeros = len(digits) - len(short)
    return f"{short}p{zeros}" if zeros > 8 else digits


def number_of(text: str) -> int:
    """Return the number that a text stands for."""
    digits, _, zeros = text.partition("p")
    return int(digits, 16) << 4 * int(zeros or 0)
