"""The operators and functions of predicates, on plain Python values (S4.3, S4.6).

Null is None. A value that cannot be computed raises `Fault`, which the evaluator turns into null or an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from cerise.kinds import INT64_MAX, INT64_MIN, Kind


class Fault(ArithmeticError):
    """A value that cannot be computed: division by zero, overflow, a bad cast."""


def rank(value: Any) -> Any:
    """Return a key that orders doubles as Spark does: NaN equals itself and is the greatest."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def fit(value: int) -> int:
    """Return an integer if it fits into 64 bits.

    Raises:
        Fault: it does not fit.
    """
    if not INT64_MIN <= value <= INT64_MAX:
        raise Fault("integer overflow")
    return value


def divide(x: float, y: float) -> float:
    """Return x / y as doubles."""
    if y == 0:
        raise Fault("division by zero")
    return float(x) / float(y)


def remainder(x: Any, y: Any) -> Any:
    """Return the remainder with the sign of x, as in SQL."""
    if y == 0:
        raise Fault("division by zero")
    if isinstance(x, int) and isinstance(y, int):
        return abs(x) % abs(y) * (-1 if x < 0 else 1)
    return math.nan if math.isinf(x) or math.isnan(x) or math.isnan(y) else math.fmod(x, y)


INT_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: fit(x + y),
    "-": lambda x, y: fit(x - y),
    "*": lambda x, y: fit(x * y),
    "/": divide,
    "%": remainder,
}
FLOAT_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": divide,
    "%": remainder,
}


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _pow(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:
        return math.inf if x == 0 else math.nan


def _ln(x: float) -> float | None:
    if math.isnan(x):
        return x
    return math.log(x) if x > 0 else None


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _round_by(function: Callable[[float], int]) -> Callable[[Any], int]:
    def compute(x: Any) -> int:
        if isinstance(x, float) and not math.isfinite(x):
            raise Fault("not a finite number")
        return fit(function(x))

    return compute


STRICT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": lambda x: fit(abs(x)) if isinstance(x, int) else abs(x),
    "ceil": _round_by(math.ceil),
    "exp": _exp,
    "floor": _round_by(math.floor),
    "length": len,
    "ln": _ln,
    "lower": str.lower,
    "pow": _pow,
    "sqrt": _sqrt,
    "upper": str.upper,
}


def coalesce(values: Sequence[Any]) -> Any:
    """Return the first value that is not null."""
    return next((value for value in values if value is not None), None)


def least(values: Sequence[Any]) -> Any:
    """Return the smallest value, skipping nulls."""
    return min((value for value in values if value is not None), key=rank, default=None)


def greatest(values: Sequence[Any]) -> Any:
    """Return the greatest value, skipping nulls."""
    return max((value for value in values if value is not None), key=rank, default=None)


LENIENT_FUNCTIONS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "coalesce": coalesce,
    "greatest": greatest,
    "least": least,
}


def _sum(values: Sequence[Any]) -> Any:
    """Add integers exactly, so that only the total must fit into 64 bits; add doubles from first to last."""
    if not values:
        return None
    total = values[0]
    for value in values[1:]:
        total = total + value
    return fit(total) if isinstance(total, int) else total


def _avg(values: Sequence[Any]) -> float | None:
    return _sum([float(value) for value in values]) / len(values) if values else None


def _stddev(values: Sequence[Any]) -> float | None:
    """Return the sample's standard deviation by Welford's method, from first to last; null for one value."""
    mean = squares = 0.0
    for count, value in enumerate(map(float, values), 1):
        delta = value - mean
        mean += delta / count
        squares += delta * (value - mean)
    return math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None


AGGREGATES: dict[str, Callable[[Sequence[Any]], Any]] = {
    "avg": _avg,
    "count": len,
    "max": greatest,
    "min": least,
    "stddev": _stddev,
    "sum": _sum,
}


def cast(value: Any, kind: Kind) -> Any:
    """Return a value as another kind."""
    if kind is Kind.STRING:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if kind is Kind.FLOAT:
        return _number(value, float)
    if kind is Kind.INT and isinstance(value, float):
        if not math.isfinite(value):
            raise Fault("not a finite number")
        return fit(math.trunc(value))
    return fit(_number(value, int)) if kind is Kind.INT else value


NUMBER: dict[Callable[[Any], Any], re.Pattern[str]] = {
    int: re.compile(r"[+-]?[0-9]+"),
    float: re.compile(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)", re.IGNORECASE),
}


def _number(value: Any, kind: Callable[[Any], Any]) -> Any:
    if isinstance(value, str) and not NUMBER[kind].fullmatch(value.strip()):
        raise Fault(f"'{value}' is not a number")
    return kind(value)


def like(pattern: str) -> Callable[[str], bool]:
    """Return the test that a text is LIKE a pattern.

    It finds the parts between `%` from left to right. The first occurrence of a part leaves the most text
    for the next parts, so the group is atomic: no test backtracks to another one. Cost: pattern times text.
    """
    first, *parts = _parts_of_like(pattern)
    middle = "".join(f"(?>.*?{part})" for part in parts[:-1] if part)
    compiled = re.compile(first + middle + (f".*{parts[-1]}" if parts else ""), re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None


def _parts_of_like(pattern: str) -> list[str]:
    """Return the parts between the `%` of a pattern as regular expressions of fixed length."""
    parts, escaped = [""], False
    for char in pattern:
        if escaped or char not in "%_\\":
            parts[-1] += re.escape(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "%":
            parts.append("")
        else:
            parts[-1] += "."
    return parts
