"""Computes the kind of an expression's value, and checks that its operands fit together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cerise.errors import BindError, Span, show_number
from cerise.kinds import COMPUTABLE, INT64_MAX, INT64_MIN, MOMENTS, NUMBERS, Kind
from cerise.pattern.expr import (
    COMPARISONS,
    Agg,
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
    Same,
    Unary,
)

Kinds = tuple[Kind, ...]
CASTABLE = {
    Kind.INT: frozenset({Kind.INT, Kind.FLOAT, Kind.STRING, Kind.BOOL, Kind.NULL}),
    Kind.FLOAT: frozenset({Kind.INT, Kind.FLOAT, Kind.STRING, Kind.NULL}),
    Kind.STRING: frozenset({Kind.INT, Kind.STRING, Kind.BOOL, Kind.NULL}),
    Kind.BOOL: frozenset({Kind.BOOL, Kind.NULL}),
    Kind.DURATION: frozenset({Kind.NULL}),
}


def promote(left: Kind, right: Kind) -> Kind | None:
    """Return the common kind of two values, or None if they cannot be combined."""
    if left is right or right is Kind.NULL:
        return left
    if left is Kind.NULL:
        return right
    pair = {left, right}
    if pair == NUMBERS:
        return Kind.FLOAT
    return Kind.LOCAL if pair == {Kind.DATE, Kind.LOCAL} else None


def _number(kinds: Kinds) -> Kind | None:
    return kinds[0] if len(kinds) == 1 and kinds[0] in NUMBERS else None


def _absolute(kinds: Kinds) -> Kind | None:
    return kinds[0] if len(kinds) == 1 and kinds[0] in NUMBERS | {Kind.DURATION} else None


def _double(kinds: Kinds) -> Kind | None:
    return Kind.FLOAT if _number(kinds) else None


def _power(kinds: Kinds) -> Kind | None:
    return Kind.FLOAT if len(kinds) == 2 and set(kinds) <= NUMBERS else None


def _whole(kinds: Kinds) -> Kind | None:
    return Kind.INT if _number(kinds) else None


def _text(kinds: Kinds) -> Kind | None:
    return Kind.STRING if kinds == (Kind.STRING,) else None


def _length(kinds: Kinds) -> Kind | None:
    return Kind.INT if kinds == (Kind.STRING,) else None


def _common(kinds: Kinds) -> Kind | None:
    result: Kind | None = Kind.NULL
    for kind in kinds:
        result = promote(result, kind) if result and kind in COMPUTABLE else None
    return result if len(kinds) >= 2 else None


def _choice(kinds: Kinds) -> Kind | None:
    return _common(kinds[1:]) if len(kinds) == 3 and kinds[0] in (Kind.BOOL, Kind.NULL) else None


FUNCTIONS: dict[str, Callable[[Kinds], Kind | None]] = {
    "abs": _absolute,
    "ceil": _whole,
    "coalesce": _common,
    "exp": _double,
    "floor": _whole,
    "greatest": _common,
    "if": _choice,
    "least": _common,
    "length": _length,
    "ln": _double,
    "lower": _text,
    "pow": _power,
    "sqrt": _double,
    "upper": _text,
}


def type_nulls(expr: Expr) -> Expr:
    """Cast operands of kind null to the kind that the operator or function needs.

    A column of nulls only has no type of its own: an empty pandas column of objects, for example.
    """
    match expr:
        case Binary(op, left, right) if op not in COMPARISONS and op not in ("and", "or"):
            return replace(expr, left=_operand(left, right, op), right=_operand(right, left, op))
        case Unary("-", arg) if _only_nulls(arg):
            return replace(expr, arg=Cast(arg, Kind.FLOAT, expr.span))
        case Like(arg) if _only_nulls(arg):
            return replace(expr, arg=Cast(arg, Kind.STRING, expr.span))
        case Agg(function, arg) if function in ("sum", "avg", "stddev") and _only_nulls(arg):
            return replace(expr, arg=Cast(arg, Kind.FLOAT, expr.span))
        case Call(function, args) if function.lower() in FUNCTIONS and any(map(_only_nulls, args)):
            kind = Kind.STRING if FUNCTIONS[function.lower()] in (_text, _length) else Kind.FLOAT
            common = FUNCTIONS[function.lower()] in (_common, _choice)
            return expr if common else replace(expr, args=tuple(_cast_null(arg, kind) for arg in args))
    return expr


def _only_nulls(expr: Expr) -> bool:
    """Whether an expression only passes on a column of kind null."""
    match expr:
        case Attr(kind=kind):
            return kind is Kind.NULL
        case Agg(function, arg):
            return function in ("min", "max") and _only_nulls(arg)
        case Call(function, args) if function.lower() in ("coalesce", "least", "greatest"):
            return all(map(_only_nulls, args))
    return False


def _cast_null(expr: Expr, kind: Kind) -> Expr:
    return Cast(expr, kind, expr.span) if _only_nulls(expr) else expr


def _operand(expr: Expr, other: Expr, op: str) -> Expr:
    """Return an operand of arithmetic; an operand of kind null is cast to fit the other operand."""
    if not _only_nulls(expr):
        return expr
    kind = Kind.FLOAT if _only_nulls(other) else kind_of(other)
    wanted = {Kind.INT: Kind.INT, Kind.DURATION: Kind.INT if op == "*" else Kind.DURATION}.get(
        kind, Kind.FLOAT
    )
    return Cast(expr, Kind.DURATION if kind in MOMENTS else wanted, expr.span)


def kind_of(expr: Expr) -> Kind:
    """Return the kind of a bound expression.

    Raises:
        BindError: operands do not fit together; the error points at them.
    """
    match expr:
        case Literal(value, kind, span):
            if kind is Kind.INT and isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
                raise BindError(
                    f"{show_number(value)} does not fit into 64 bits",
                    span=span,
                    hint="write it as a double: 1e30",
                )
            return kind
        case Attr(kind=kind) if kind is not None:
            return kind
        case Agg():
            return _kind_of_aggregate(expr)
        case Unary(op, arg, span):
            return _kind_of_unary(op, kind_of(arg), span)
        case Binary():
            return _kind_of_binary(expr)
        case IsNull(arg):
            kind_of(arg)
            return Kind.BOOL
        case In(arg, items, span):
            for item in items:
                _meet(kind_of(arg), kind_of(item), span)
            return Kind.BOOL
        case Like(arg, _, span):
            if (kind := kind_of(arg)) is not Kind.STRING:
                raise BindError(f"LIKE needs a string, not {_a(kind)}", span=span)
            return Kind.BOOL
        case Call(function, args, span):
            return _kind_of_call(function, tuple(map(kind_of, args)), span)
        case Cast(arg, kind, span):
            if (source := kind_of(arg)) not in CASTABLE[kind]:
                raise BindError(f"cannot cast {_a(source)} to {kind.value}", span=span)
            return kind
        case Attr() | Param() | Same():
            raise AssertionError(f"not bound: {expr}")


def _kind_of_aggregate(expr: Agg) -> Kind:
    if expr.function == "count":
        if not (isinstance(expr.arg, Attr) and not expr.arg.path):
            kind_of(expr.arg)
        return Kind.INT
    kind = kind_of(expr.arg)
    if expr.function in ("min", "max"):
        return kind
    if kind not in NUMBERS:
        raise BindError(f"{expr.function} needs a number, not {_a(kind)}", span=expr.span)
    return kind if expr.function == "sum" else Kind.FLOAT


def _kind_of_unary(op: str, kind: Kind, span: Span | None) -> Kind:
    fits = kind in (Kind.BOOL, Kind.NULL) if op == "not" else kind in NUMBERS | {Kind.DURATION}
    if not fits:
        raise BindError(f"{op.upper()} does not apply to {_a(kind)}", span=span)
    return Kind.BOOL if op == "not" else kind


def _kind_of_binary(expr: Binary) -> Kind:
    left, right = kind_of(expr.left), kind_of(expr.right)
    if expr.op in ("and", "or"):
        for kind in (left, right):
            if kind not in (Kind.BOOL, Kind.NULL):
                raise BindError(f"{expr.op.upper()} joins predicates, not {_a(kind)}", span=expr.span)
        return Kind.BOOL
    if expr.op in COMPARISONS:
        if any(isinstance(each, Literal) and each.value is None for each in (expr.left, expr.right)):
            raise BindError(
                "a comparison with NULL never holds", span=expr.span, hint="write IS NULL or IS NOT NULL"
            )
        _meet(left, right, expr.span)
        return Kind.BOOL
    if (result := _arithmetic(expr.op, left, right)) is None:
        raise BindError(
            f"cannot compute {left.value} {expr.op} {right.value}", span=expr.span, hint=_hint(left, right)
        )
    return result


def _arithmetic(op: str, left: Kind, right: Kind) -> Kind | None:
    pair = (left, right)
    if {left, right} <= NUMBERS:
        return Kind.FLOAT if op == "/" else promote(left, right)
    if op == "-" and left in MOMENTS and right in MOMENTS and promote(left, right):
        return Kind.DURATION
    if pair == (Kind.DURATION, Kind.DURATION):
        return {"+": Kind.DURATION, "-": Kind.DURATION, "/": Kind.FLOAT}.get(op)
    if op in "+-" and left in MOMENTS and right is Kind.DURATION:
        return Kind.LOCAL if left is Kind.DATE else left
    if op == "*" and set(pair) == {Kind.DURATION, Kind.INT}:
        return Kind.DURATION
    return None


def _kind_of_call(function: str, kinds: Kinds, span: Span | None) -> Kind:
    result = FUNCTIONS[function](kinds)
    if result is None:
        given = ", ".join(kind.value for kind in kinds)
        raise BindError(f"{function} does not take ({given})", span=span)
    return result


def _meet(left: Kind, right: Kind, span: Span | None) -> None:
    if promote(left, right) is None or not {left, right} <= COMPUTABLE:
        raise BindError(f"cannot compare {left.value} with {right.value}", span=span, hint=_hint(left, right))


def _hint(left: Kind, right: Kind) -> str | None:
    pair = {left, right}
    if Kind.INSTANT in pair and Kind.STRING in pair:
        return "write a moment with its zone, as TIMESTAMP '2024-11-15 18:45:00Z'"
    if pair & MOMENTS and Kind.STRING in pair:
        return "write a moment as TIMESTAMP '2024-11-15 18:45:00' or DATE '2024-11-15'"
    if Kind.INSTANT in pair and pair & {Kind.LOCAL, Kind.DATE}:
        return "one has a time zone, the other has not: write TIMESTAMP '2024-11-15 18:45Z', or cast"
    if Kind.DURATION in pair and pair & NUMBERS:
        return "a duration has a unit, as in 5 minutes; differences of integer times are plain numbers"
    if Kind.STRING in pair and pair & NUMBERS:
        return "write CAST(… AS BIGINT) or CAST(… AS DOUBLE)"
    return None


def _a(kind: Kind) -> str:
    return f"{'an' if kind.value[0] in 'aeiou' else 'a'} {kind.value}"
