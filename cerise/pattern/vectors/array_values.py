"""The operators and functions of predicates on NumPy arrays of numbers: the twin of `pattern.values`.

Each returns the values, and where they cannot be computed (None: nowhere). Nulls are the caller's business:
it passes any number for them, and forgets the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cerise.kinds import INT64_MAX, INT64_MIN
from cerise.pattern.vectors.vector import Mask

Array = npt.NDArray[Any]
Computed = tuple[Array, Mask | None]


def is_double(array: Array) -> bool:
    """Whether an array holds doubles."""
    return array.dtype == np.float64


def _some(faults: Any) -> Mask | None:
    return faults if faults.any() else None


# ---- arithmetic


def _range(x: Array) -> tuple[int, int]:
    return (int(x.min()), int(x.max())) if x.size else (0, 0)


def _fits(x: Array, y: Array, compute: Callable[[int, int], int]) -> bool:
    """Whether an operation fits into 64 bits for all numbers between the least and the greatest operands."""
    ends = [compute(a, b) for a in _range(x) for b in _range(y)]
    return min(ends) >= INT64_MIN and max(ends) <= INT64_MAX


def _add(x: Array, y: Array) -> Computed:
    total = x + y
    if is_double(total) or _fits(x, y, lambda a, b: a + b):
        return total, None
    return total, _some(((x ^ total) & (y ^ total)) < 0)


def _subtract(x: Array, y: Array) -> Computed:
    rest = x - y
    if is_double(rest) or _fits(x, y, lambda a, b: a - b):
        return rest, None
    return rest, _some(((x ^ y) & (x ^ rest)) < 0)


def _multiply(x: Array, y: Array) -> Computed:
    product = x * y
    if is_double(product) or _fits(x, y, lambda a, b: a * b):
        return product, None
    wrapped = product // np.where(x == 0, 1, x) != y  # a product that wraps is far off
    return product, _some((wrapped & (x != 0)) | ((x == -1) & (y == INT64_MIN)))


def _divide(x: Array, y: Array) -> Computed:
    return np.true_divide(x, y, dtype=np.float64), _some(y == 0)


def _remainder(x: Array, y: Array) -> Computed:
    """Return the remainder with the sign of x."""
    faults = _some(y == 0)
    if is_double(x) or is_double(y):
        return np.fmod(x, y), faults
    return np.fmod(x, np.where((y == 0) | (y == -1), 1, y)), faults  # the least integer by -1 overflows


ARITHMETIC: dict[str, Callable[[Array, Array], Computed]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
}


# ---- functions


def negate(x: Array) -> Computed:
    """Return -x; the least integer has no negative."""
    return np.negative(x), None if is_double(x) else _some(x == INT64_MIN)


def _absolute(x: Array) -> Computed:
    return np.abs(x), None if is_double(x) else _some(x == INT64_MIN)


def _sqrt(x: Array) -> Computed:
    return np.sqrt(x, dtype=np.float64), None


def _round_by(function: Callable[[Array], Array]) -> Callable[[Array], Computed]:
    def compute(x: Array) -> Computed:
        if not is_double(x):
            return x, None
        rounded = function(x)
        fits = (rounded >= -(2.0**63)) & (rounded < 2.0**63)  # neither does for NaN
        return np.where(fits, rounded, 0).astype(np.int64), _some(~fits)

    return compute


truncate = _round_by(np.trunc)
FUNCTIONS: dict[str, Callable[[Array], Computed]] = {
    "abs": _absolute,
    "ceil": _round_by(np.ceil),
    "floor": _round_by(np.floor),
    "sqrt": _sqrt,
}


# ---- comparisons


def _equal(x: Array, y: Array) -> Mask:
    unknown = np.isnan(y)
    return np.equal(x, y) | (unknown & np.isnan(x)) if unknown.any() else np.equal(x, y)


def _below(x: Array, y: Array) -> Mask:
    unknown = np.isnan(y)
    return (x < y) | (unknown & ~np.isnan(x)) if unknown.any() else x < y


def _at_most(x: Array, y: Array) -> Mask:
    unknown = np.isnan(y)
    return (x <= y) | unknown if unknown.any() else x <= y


EXACT: dict[str, Callable[[Array, Array], Mask]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
DOUBLE: dict[str, Callable[[Array, Array], Mask]] = {
    "=": _equal,
    "!=": lambda x, y: ~_equal(x, y),
    "<": _below,
    "<=": _at_most,
    ">": lambda x, y: _below(y, x),
    ">=": lambda x, y: _at_most(y, x),
}


def compare_numbers(op: str, x: Array, y: Array) -> Mask:
    """Return where a comparison holds; an integer compares with a double as a double, NaN is above all."""
    if not (is_double(x) or is_double(y)):
        return EXACT[op](x, y)
    return DOUBLE[op](x.astype(np.float64, copy=False), y.astype(np.float64, copy=False))
