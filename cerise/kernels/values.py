"""Operators and functions inside formulas: the twins of `pattern.values`, for machine numbers.

`machine_code` compiles the functions that a query calls; with the JIT off, Python runs them.

A formula first asks whether an operation faults (`add_faults`), so every function here has one result.
"""

from __future__ import annotations

import math

import numpy as np

MAX = 2**63 - 1
MIN = -(2**63)
HALF = 2**32


# ---- integers: nothing wraps


def add_faults(x: int, y: int) -> bool:
    """Whether x + y does not fit into 64 bits."""
    return (y > 0 and x > MAX - y) or (y < 0 and x < MIN - y)


def subtract_faults(x: int, y: int) -> bool:
    """Whether x - y does not fit."""
    return (y < 0 and x > MAX + y) or (y > 0 and x < MIN + y)


def multiply_faults(x: int, y: int) -> bool:
    """Whether x * y does not fit."""
    if x == 0 or y == 0:
        return False
    if x == MIN:
        return y != 1
    if y == MIN:
        return x != 1
    size = -x if x < 0 else x
    other = -y if y < 0 else y
    if size == 1:
        return False
    most = MAX // size
    if (x < 0) == (y < 0):
        return other > most
    return other > (most + 1 if MAX % size == size - 1 else most)


def negate_faults(x: int) -> bool:
    """Whether -x does not fit."""
    return x == MIN


def remainder_int(x: int, y: int) -> int:
    """Return the remainder with the sign of x; y is not 0."""
    if y == -1:
        return 0
    rest = x % y
    if rest != 0 and (rest < 0) != (x < 0):
        rest -= y
    return rest


# ---- doubles: NaN equals itself and is above every other double


def equal(x: float, y: float) -> bool:
    """Whether two doubles are equal, as Spark compares them."""
    return x == y or (x != x and y != y)


def less(x: float, y: float) -> bool:
    """Whether x is below y."""
    return x < y or (y != y and x == x)


def remainder_float(x: float, y: float) -> float:
    """Return the remainder with the sign of x; y is not 0."""
    if x != x or y != y or x == math.inf or x == -math.inf:
        return math.nan
    return math.fmod(x, y)


def whole_faults(x: float) -> bool:
    """Whether a double, cut to a whole number, does not fit into 64 bits."""
    return not (-9223372036854775808.0 <= x < 9223372036854775808.0)


def exponential(x: float) -> float:
    """Return e to the power of x, infinite where the result is too large."""
    return float(np.exp(x))


def power(x: float, y: float) -> float:
    """Return x to the power of y; a negative power of 0 is infinite."""
    if x == 0 and y < 0:
        return math.inf
    if (x == 0 or x == -math.inf) and y == y and y != np.floor(y):
        return abs(x) if y > 0 else 0.0
    return float(np.power(x, y))


def square_root(x: float) -> float:
    """Return the square root, NaN below 0."""
    return math.sqrt(x) if x >= 0 else math.nan


def logarithm(x: float) -> float:
    """Return the natural logarithm of a number above 0."""
    return x if x != x or x == math.inf else math.log(x)


# ---- exact sums: an integer as a high part and a low part of 32 bits


def sum_faults(high: int, low: int) -> bool:
    """Whether an exact sum does not fit into 64 bits."""
    top = high + (low >> 32)
    return not (-2147483648 <= top < 2147483648)


def sum_value(high: int, low: int) -> int:
    """Return an exact sum that fits."""
    return (high + (low >> 32)) * HALF + (low & (HALF - 1))


# ---- hashes


def mix(x: int, factor: int) -> int:
    """Return a pseudo-random number of 46 bits for a row; no product overflows with a factor below 2^30."""
    z = ((x + 1) & (HALF - 1)) * factor
    z = ((z & 2147483647) + (z >> 31)) * 668265263
    z = ((z & 2147483647) + (z >> 31)) * 374761393
    return z >> 16
