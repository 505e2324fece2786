"""The value of an expression on a match, from S4.3–S4.6 alone: shares nothing with the package's own.

It reads expressions as users write them, before binding, and asks at every step; nothing is compiled.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

from cerise.events import Path, Schema
from cerise.kinds import Kind
from cerise.pattern.expr import (
    Agg,
    At,
    Attr,
    Binary,
    Call,
    Cast,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Param,
    Unary,
    children,
)  # fmt: skip

Event = Mapping[Path, Any]
Binding = Mapping[str, tuple[int, ...]]
STEPS = (At.CURRENT, At.PREVIOUS, At.RUNNING, At.NEXT, At.PREV)
EPOCH = dt.datetime(1970, 1, 1)


class Uncomputable(Exception):
    """Division by zero, an overflow or a bad cast."""


@dataclass(frozen=True)
class Scope:
    """What an expression sees: the events, which are bound, and for a variable run through, its number."""

    events: Sequence[Event]
    binding: Binding
    schema: Schema
    params: Mapping[str, Any]
    number: Mapping[str, int]
    forward: frozenset[str] = (
        frozenset()
    )  # variables with NEXT: their bare name is the first of two neighbours
    strict: bool = False  # whether what cannot be computed is an error (RETURN), not null


# ---- what a conjunct runs over


@lru_cache(4096)
def bare(expr: Expr) -> list[Attr]:
    """The identifiers outside aggregates."""
    if isinstance(expr, Agg):
        return []
    return [expr] if isinstance(expr, Attr) else [each for child in children(expr) for each in bare(child)]


@lru_cache(4096)
def gathered(expr: Expr) -> list[Attr]:
    """The identifiers inside aggregates; b.LEN is one of them."""
    if isinstance(expr, Agg):
        return everything(expr.arg)
    return [each for child in children(expr) for each in gathered(child)]


@lru_cache(4096)
def everything(expr: Expr) -> list[Attr]:
    return (
        [expr] if isinstance(expr, Attr) else [each for child in children(expr) for each in everything(child)]
    )


def stepped(expr: Expr) -> set[str]:
    """The variable whose b[i] runs from the second event on."""
    return {each.var for each in everything(expr) if each.at in STEPS}


def instances(expr: Expr, counts: Mapping[str, int], kleene: set[str]) -> list[dict[str, int]]:
    """Every choice of event numbers that a conjunct speaks of."""
    step = stepped(expr)
    every = {each.var for each in bare(expr) if each.at is At.EVERY and each.var in kleene} - step
    names = [*sorted(step), *sorted(every)]
    ranges = [range(2 if name in step else 1, counts.get(name, 0) + 1) for name in names]
    return [dict(zip(names, numbers, strict=True)) for numbers in product(*ranges)]


def holds(expr: Expr, scope: Scope, number: Mapping[str, int]) -> bool:
    forward = frozenset(each.var for each in everything(expr) if each.at is At.NEXT)
    return value(expr, replace(scope, number=number, forward=forward)) is True


# ---- values


def value(expr: Expr, scope: Scope) -> Any:
    """The value, where null is None."""
    try:
        return _value(expr, scope)
    except Uncomputable:
        if scope.strict:
            raise
        return None


def _value(expr: Expr, scope: Scope) -> Any:
    match expr:
        case Literal(known):
            return known
        case Param(name):
            return given(scope.params[name])
        case Attr():
            return _attribute(expr, scope)
        case Agg(function, arg):
            return _aggregate(function, arg, scope)
        case Unary("not", arg):
            truth = value(arg, scope)
            return None if truth is None else not truth
        case Binary("and", left, right):
            return _and(value(left, scope), value(right, scope))
        case Binary("or", left, right):
            return _or(value(left, scope), value(right, scope))
        case IsNull(arg):
            return value(arg, scope) is None
        case In(arg, items):
            found: Any = False
            for item in items:
                found = _or(found, value(Binary("=", arg, item), scope))
            return found
        case Call("coalesce" | "least" | "greatest" as function, args):
            return _lenient(
                function, [value(arg, scope) for arg in args], any(doubles(a, scope) for a in args)
            )
    operands = [value(child, scope) for child in children(expr)]
    if any(each is None for each in operands):
        return None
    match expr:
        case Unary("-", _):
            return _exact(-operands[0])
        case Binary(op, left, right):
            if doubles(left, scope) or doubles(right, scope):
                operands = [float(each) for each in operands]
            return (
                _compared(op, *operands)
                if op in ("=", "!=", "<", "<=", ">", ">=")
                else _computed(op, *operands)
            )
        case Like(_, pattern):
            return like(operands[0], pattern)
        case Call(function, _):
            return _called(function, operands)
        case Cast(_, kind):
            return _cast(operands[0], kind)
    raise AssertionError(expr)


def given(known: Any) -> Any:
    """A parameter's value: moments and durations in microseconds."""
    if isinstance(known, dt.timedelta):
        return known // dt.timedelta(microseconds=1)
    if isinstance(known, dt.datetime):
        plain = known if known.tzinfo is None else known.astimezone(dt.UTC).replace(tzinfo=None)
        return (plain - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(known, dt.date):
        return (dt.datetime.combine(known, dt.time()) - EPOCH) // dt.timedelta(microseconds=1)
    return known


def _attribute(attr: Attr, scope: Scope) -> Any:
    places = scope.binding.get(attr.var, ())
    number = scope.number.get(attr.var, 1)
    if attr.at is At.EVERY and attr.var in scope.forward:
        number -= 1
    elif isinstance(attr.at, int):
        number = attr.at
    elif attr.at is At.LAST:
        number = len(places)
    elif attr.at in (At.PREVIOUS, At.PREV):
        number -= 1
    return scope.events[places[number - 1]][attr.path] if 1 <= number <= len(places) else None


def _aggregate(function: str, arg: Expr, scope: Scope) -> Any:
    of = everything(arg)[0]
    places = scope.binding.get(of.var, ())
    events = len(places) if of.at is At.ALL else scope.number[of.var] - 1
    if isinstance(arg, Attr) and not arg.path:
        return events
    each = [replace(scope, number={of.var: n}, forward=frozenset()) for n in range(1, events + 1)]
    values = [found for one in each if (found := value(arg, one)) is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    match function:
        case "min":
            return _extreme(values, "<")
        case "max":
            return _extreme(values, ">")
        case "avg":
            return _added([float(found) for found in values]) / len(values)
        case "sum":
            return _exact(_added(values))
    return _stddev(values)


def _added(values: list[Any]) -> Any:
    total = values[0]
    for each in values[1:]:
        total = total + each
    return total


def _stddev(values: list[Any]) -> float | None:
    """By the definition, in exact arithmetic."""
    if len(values) < 2:
        return None
    if not all(math.isfinite(each) for each in values):
        return math.nan
    exact = [Fraction(each) for each in values]
    mean = sum(exact) / len(exact)
    return math.sqrt(sum((each - mean) ** 2 for each in exact) / (len(exact) - 1))


def _and(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Any, right: Any) -> Any:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _exact(number: Any) -> Any:
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise Uncomputable
    return number


def _compared(op: str, left: Any, right: Any) -> bool:
    lost, won = left != left, right != right  # NaN equals itself and is above all else
    less = (not lost and won) or (not lost and not won and left < right)
    same = (lost and won) or left == right
    return {
        "=": same,
        "!=": not same,
        "<": less,
        "<=": less or same,
        ">": not less and not same,
        ">=": not less,
    }[op]


def _computed(op: str, left: Any, right: Any) -> Any:
    if op in "/%" and right == 0:
        raise Uncomputable
    match op:
        case "+":
            return _exact(left + right)
        case "-":
            return _exact(left - right)
        case "*":
            return _exact(left * right)
        case "/":
            return float(left) / float(right)
    if isinstance(left, int):
        return left - right * int(Fraction(left, right))  # int() goes towards zero
    if left != left or right != right or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


def _extreme(values: list[Any], op: str) -> Any:
    best = values[0]
    for each in values[1:]:
        if _compared(op, each, best):
            best = each
    return best


def _lenient(function: str, values: list[Any], as_doubles: bool) -> Any:
    there = [float(each) if as_doubles else each for each in values if each is not None]
    if not there:
        return None
    return there[0] if function == "coalesce" else _extreme(there, "<" if function == "least" else ">")


def _called(function: str, operands: list[Any]) -> Any:
    one = operands[0]
    match function:
        case "abs":
            return _exact(abs(one))
        case "ceil" | "floor":
            if isinstance(one, float) and not math.isfinite(one):
                raise Uncomputable
            return _exact(math.ceil(one) if function == "ceil" else math.floor(one))
        case "length":
            return len(one)
        case "lower":
            return one.lower()
        case "upper":
            return one.upper()
        case "sqrt":
            return math.sqrt(one) if one >= 0 else math.nan
    raise AssertionError(function)


def _cast(known: Any, kind: Kind) -> Any:
    match kind:
        case Kind.STRING:
            return {True: "true", False: "false"}[known] if isinstance(known, bool) else str(known)
        case Kind.BOOL:
            return known
        case Kind.FLOAT:
            kept = str(known).strip().lower()
            if isinstance(known, str) and not all(each in "0123456789.+-einfaty" for each in kept):
                raise Uncomputable
    try:
        return _exact(int(known)) if kind is Kind.INT else float(known)
    except (ValueError, OverflowError):
        raise Uncomputable from None


def like(text: str, pattern: str) -> bool:
    """Whether a text is LIKE a pattern, by trying every place for every part."""
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(like(text[start:], rest) for start in range(len(text) + 1))
    if head == "\\" and rest:
        head, rest = rest[0], rest[1:]
        return text[:1] == head and like(text[1:], rest)
    return bool(text) and (head == "_" or text[0] == head) and like(text[1:], rest)


def doubles(expr: Expr, scope: Scope) -> bool:
    """Whether an expression is of kind double."""
    match expr:
        case Literal(_, kind) | Cast(_, kind):
            return kind is Kind.FLOAT
        case Param(name):
            return isinstance(scope.params[name], float)
        case Attr(_, path):
            length = [name.upper() for name in path] == ["LEN"]
            return not length and bool(path) and scope.schema.kind(path) is Kind.FLOAT
        case Agg(function, arg):
            return function in ("avg", "stddev") or (function != "count" and doubles(arg, scope))
        case Binary("/", _, _):
            return True
        case Call(function, _):
            if function in ("ceil", "floor", "length"):
                return False
            if function in ("sqrt", "exp", "ln", "pow"):
                return True
    return any(doubles(child, scope) for child in children(expr))
