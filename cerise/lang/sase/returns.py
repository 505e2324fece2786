"""The items of RETURN: columns of each match, or totals over all matches (S7.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cerise.errors import ParseError, Span, closest
from cerise.lang.sase.expressions import Column, Name, _NamedArgument
from cerise.pattern.check import FUNCTIONS
from cerise.pattern.expr import AGGREGATES, Agg, At, Attr, Call, Expr, rebuild, walk
from cerise.pattern.query import Item, Per, Return, Total, Totals

MATCHES = Call("count", ())  # COUNT(*)
TOTALS = ("count", "sum", "avg", "min", "max")
KNOWN = "COUNT(*), COUNT(x), SUM(x), AVG(x), MIN(x), MAX(x)"


def parse_return(items: list[Column], per: Per | None, span: Span) -> tuple[Return, str | None]:
    """Return the columns or totals of RETURN, and the INTO name if it is written RETURN Name(…)."""
    columns, into = _unwrap(items)
    for value, _ in columns:
        plain(value)
    if per is None and not any(each == MATCHES for value, _ in columns for each in walk(value)):
        return tuple(_item(*each) for each in columns), into
    totals = tuple(total(value, name.text if name else None) for value, name in columns)
    return Totals(totals, per or Per.ALL, span), into


def _unwrap(items: list[Column]) -> tuple[Sequence[Column], str | None]:
    """Return the columns and no name; of RETURN Name(…), the columns inside it and the name."""
    value, name = items[0]
    if len(items) > 1 or name is not None or not isinstance(value, Call) or _is_function(value):
        return items, None
    named = any(isinstance(arg, _NamedArgument) for arg in value.args)
    meant = closest(value.function, (*FUNCTIONS, *AGGREGATES))
    if meant is not None and not named:
        hint = f"did you mean '{meant}'? or name the events otherwise"
        raise ParseError(f"'{value.function}' is not a function", span=value.span, hint=hint)
    return [_column(each) for each in value.args], value.function


def _is_function(call: Call) -> bool:
    single = len(call.args) == 1 and not isinstance(call.args[0], _NamedArgument)
    text = call.function.lower() == "string" and single
    return call == MATCHES or text or call.function.lower() in FUNCTIONS


def _column(value: Any) -> Column:
    return (value.expr, value.name) if isinstance(value, _NamedArgument) else (value, None)


def _item(value: Expr, name: Name | None) -> Item:
    """Return a column of RETURN under its AS name, or under the name of its attribute."""
    if name is not None:
        return Item(value, name.text)
    if isinstance(value, Attr):
        return Item(value, value.path[-1] if value.path else value.var)
    raise _nameless(value)


def total(value: Expr, name: str | None) -> Total:
    """Return a column of totals.

    Args:
        value: the aggregate, or STRING(…) of an aggregate.
        name: the name of the column; None: the query gives none.
    """
    text = isinstance(value, Call) and value.function.lower() == "string" and len(value.args) == 1
    inside = value.args[0] if isinstance(value, Call) and text else value
    if inside == MATCHES:
        return Total("count", None, name or "count", text, value.span)
    if not isinstance(inside, Agg):
        raise ParseError(
            "with PER, IN ALL or COUNT(*) every column is an aggregate over the matches", span=_place(value),
            hint=f"write {KNOWN}; without PER, IN ALL and COUNT(*) columns are those of each match",
        )  # fmt: skip
    if inside.function not in TOTALS:
        raise ParseError(f"totals have no {inside.function}", span=inside.span, hint=f"known: {KNOWN}")
    if name is None:
        raise _nameless(value)
    return Total(inside.function, _each_event(inside.arg), name, text, value.span)


def _each_event(value: Expr) -> Expr:
    """Return a total's argument with b[].x as b.x: over all matches, both are the value of each event."""
    if isinstance(value, Attr):
        return replace(value, at=At.EVERY) if value.at is At.ALL else value
    return value if isinstance(value, Agg) else rebuild(value, _each_event)


def _nameless(value: Expr) -> ParseError:
    return ParseError("a computed column needs a name", span=_place(value), hint="write expr AS name")


def _place(value: Expr) -> Span | None:
    return next((each.span for each in walk(value) if each.span), None)


def plain(value: Expr) -> Expr:
    """Return a predicate or column.

    Raises:
        ParseError: a call in it has an argument with AS.
    """
    for each in walk(value):
        if isinstance(each, Call) and any(isinstance(arg, _NamedArgument) for arg in each.args):
            raise ParseError(
                f"AS inside {each.function}(…)", span=each.span, hint="AS names a column of RETURN"
            )
    return value
