"""Resolves names: fills parameters in, finds the column and kind of each attribute, normalises b[i]."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cerise.errors import BindError, Span, did_you_mean, refuse_surrogates
from cerise.events import Path, Schema
from cerise.kinds import COMPUTABLE, Kind
from cerise.pattern.bound import STEP
from cerise.pattern.check import FUNCTIONS, type_nulls
from cerise.pattern.expr import (
    AGGREGATES,
    Agg,
    At,
    Attr,
    Call,
    Cast,
    Expr,
    Index,
    IsNull,
    Literal,
    Param,
    Same,
    attributes,
    outside_aggregates,
    rebuild,
    walk,
)
from cerise.pattern.query import Kleene, Maybe, Node, Not, Or, Var, walk_nodes

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a query may use: columns, variables by sort, and parameters."""

    schema: Schema
    variables: tuple[str, ...]
    kleene: frozenset[str]
    negated: frozenset[str]
    params: Mapping[str, Any]
    optional: frozenset[str] = frozenset()


def resolve(expr: Expr, names: Names) -> Expr:
    """Return an expression with every parameter a literal and every attribute typed.

    Raises:
        BindError: a name is unknown, or an index or aggregate does not suit its variable.
    """
    match expr:
        case Param():
            return literal(expr, names.params)
        case Attr():
            return _attribute(expr, names)
        case Agg():
            return _aggregate(expr, names)
        case Same(path, span):
            find_column(path, names.schema, span)
            return expr
        case Call(function, _, span):
            if function.lower() not in FUNCTIONS:
                known = sorted({*FUNCTIONS, *AGGREGATES, "cast", "first", "last", "next", "prev"})
                raise BindError(
                    f"unknown function '{function}'", span=span, hint=did_you_mean(function, known)
                )
            expr = replace(expr, function=function.lower())
    return type_nulls(rebuild(expr, lambda each: resolve(each, names)))


def find_column(path: Path, schema: Schema, span: Span | None, *, computed: bool = True) -> Kind:
    """Return the kind of the column or nested field at a path.

    Raises:
        BindError: the path is unknown; or, if `computed`, predicates cannot compute with its kind.
    """
    for depth, name in enumerate(path):
        known = schema.members(path[:depth])
        if name not in known:
            owner = f" in '{'.'.join(path[:depth])}'" if depth else ""
            place = _last_part(span, ".".join(path[depth:]))
            raise BindError(f"unknown attribute '{name}'{owner}", span=place, hint=did_you_mean(name, known))
    kind = schema.kind(path)
    if computed and kind not in COMPUTABLE:
        raise BindError(
            f"attribute '{'.'.join(path)}' of type {schema.type_of(path)} cannot be used in a predicate",
            span=span,
            hint="name one of its fields"
            if kind is Kind.STRUCT
            else "cast the column first (see docs/types.md)",
        )
    return kind


def _last_part(span: Span | None, text: str) -> Span | None:
    """Return the span of the last characters of an attribute, as many as `text` has."""
    return Span(max(span.start, span.end - len(text)), span.end) if span else None


def literal(param: Param, params: Mapping[str, Any]) -> Literal:
    """Return the value given for a parameter as a literal (S2.5)."""
    if param.name not in params:
        raise BindError(
            f"no value for parameter :{param.name}",
            span=param.span,
            hint=f"give it: params={{'{param.name}': …}}, or --param {param.name}=…",
        )
    value = _python_value(params[param.name])
    match value:
        case None:
            return Literal(None, Kind.NULL, param.span)
        case bool():
            return Literal(value, Kind.BOOL, param.span)
        case int():
            return Literal(value, Kind.INT, param.span)
        case float():
            return Literal(value, Kind.FLOAT, param.span)
        case str():
            refuse_surrogates(value, BindError, f"parameter :{param.name}", param.span)
            return Literal(value, Kind.STRING, param.span)
        case dt.timedelta():
            return Literal(value // MICROSECOND, Kind.DURATION, param.span)
        case dt.datetime() if value.tzinfo is not None:
            return Literal((value - EPOCH.replace(tzinfo=dt.UTC)) // MICROSECOND, Kind.INSTANT, param.span)
        case dt.datetime():
            return Literal((value - EPOCH) // MICROSECOND, Kind.LOCAL, param.span)
        case dt.date():
            midnight = dt.datetime.combine(value, dt.time())
            return Literal((midnight - EPOCH) // MICROSECOND, Kind.DATE, param.span)
    raise BindError(
        f"parameter :{param.name} is a {type(value).__name__}",
        span=param.span,
        hint="give an int, float, str, bool, datetime, date or timedelta",
    )


def _python_value(value: Any) -> Any:
    """Return a value of numpy or pandas as a Python value; NaT and NA become None."""
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):
        raise BindError(f"{value!r} is finer than a microsecond", hint="round it first")
    if getattr(value, "ndim", 0):
        return value  # `literal` refuses the type of an array
    if type(value).__module__ == "numpy":
        exact = value.astype("datetime64[us]") if value.dtype.kind == "M" else value
        if value.dtype.kind == "M" and exact != value:
            raise BindError(f"{value!r} is finer than a microsecond", hint="round it first")
        return exact.item()
    return value


def _attribute(attr: Attr, names: Names) -> Expr:
    check_variable(attr, names)
    if attr.var in names.kleene and attr.at is At.EVERY and [n.upper() for n in attr.path] == ["LEN"]:
        return Agg("count", Attr(attr.var, (), At.ALL, span=attr.span), attr.span)  # b.LEN is count(b)
    if not attr.path:
        raise BindError(
            f"'{attr.var}' is an event, not a value", span=attr.span, hint=f"name an attribute: {attr.var}.…"
        )
    if attr.at in (At.ALL, At.RUNNING):
        raise BindError(
            f"a set of events of '{attr.var}' outside an aggregate", span=attr.span, hint="write avg(…)"
        )
    return replace(attr, kind=find_column(attr.path, names.schema, attr.span))


def check_variable(attr: Attr, names: Names) -> None:
    """Refuse a variable that is not in the pattern, and an index of a variable that binds one event."""
    if attr.var not in names.variables:
        if not attr.path and attr.span and attr.span.end - attr.span.start > len(attr.var):  # in quotes
            raise BindError(
                f"unknown variable '{attr.var}'", span=attr.span,
                hint=f"double quotes are for names; a string stands in single ones: '{attr.var}'",
            )  # fmt: skip
        raise BindError(
            f"unknown variable '{attr.var}'",
            span=Span(attr.span.start, attr.span.start + len(attr.var)) if attr.span else None,
            hint=did_you_mean(attr.var, names.variables),
        )
    listed = attr.at is At.ALL and attr.var in names.optional
    if attr.at is not At.EVERY and attr.var not in names.kleene and not listed:
        raise BindError(
            f"'{attr.var}' is one event, not a Kleene variable: it has no index, order or aggregate",
            span=attr.span,
            hint=f"write {attr.var}.…, or repeat it in the pattern: {attr.var}+",
        )


def _aggregate(agg: Agg, names: Names) -> Expr:
    inner = attributes(agg.arg)
    if not inner:
        raise BindError(
            f"{agg.function} of nothing", span=agg.span, hint="aggregate an attribute of a Kleene variable"
        )
    if any(isinstance(each, Agg) for each in walk(agg.arg)):
        raise BindError("an aggregate inside an aggregate", span=agg.span)
    for each in inner:
        check_variable(each, names)
    if len({(each.var, each.at) for each in inner}) > 1 or inner[0].at not in (At.ALL, At.RUNNING):
        raise BindError(
            f"{agg.function} speaks of more than one set of events", span=agg.span,
            hint="use one variable inside: b.x for all its events, b[..i-1].x for those before b[i]",
        )  # fmt: skip
    return type_nulls(replace(agg, arg=_inside_aggregate(agg.arg, agg, names)))


def _inside_aggregate(expr: Expr, agg: Agg, names: Names) -> Expr:
    if isinstance(expr, Attr):
        if expr.path:
            return replace(expr, kind=find_column(expr.path, names.schema, expr.span))
        if agg.function == "count" and expr is agg.arg:
            return expr
        raise BindError(f"'{expr.var}' is an event, not a value", span=expr.span, hint="name an attribute")
    if isinstance(expr, Param):
        return literal(expr, names.params)
    return type_nulls(rebuild(expr, lambda each: _inside_aggregate(each, agg, names)))


def settle_steps(expr: Expr, kleene: frozenset[str]) -> Expr:
    """Rewrite NEXT and PREV as b[i-1] and b[i], and a bare b beside them as b[i] (S4.3).

    Raises:
        BindError: a conjunct steps through two variables, or both forwards and backwards.
    """
    stepping = {
        each.var for each in attributes(expr) if each.at in STEP | {At.NEXT, At.PREV} and each.var in kleene
    }
    if len(stepping) > 1:
        first = next(each for each in attributes(expr) if each.var in stepping)
        raise BindError(
            f"one conjunct steps through {' and '.join(sorted(stepping))}", span=first.span,
            hint="[i] counts the events of one variable: split the conjunct",
        )  # fmt: skip
    for var in stepping:
        expr = _settle(expr, var)
    return expr


def _settle(expr: Expr, var: str) -> Expr:
    used = {each.at for each in attributes(expr) if each.var == var}
    if At.NEXT in used and used & (STEP | {At.PREV}):
        span = next(each.span for each in attributes(expr) if each.at is At.NEXT)
        raise BindError("NEXT beside PREV or [i]", span=span, hint="write neighbours as b[i-1].x and b[i].x")
    forwards: dict[Index, Index] = {At.NEXT: At.CURRENT, At.EVERY: At.PREVIOUS}
    backwards: dict[Index, Index] = {At.PREV: At.PREVIOUS, At.EVERY: At.CURRENT}
    meaning = forwards if At.NEXT in used else backwards

    def change(each: Expr) -> Expr:
        if isinstance(each, Attr):
            return replace(each, at=meaning.get(each.at, each.at)) if each.var == var else each
        return rebuild(each, change)

    return change(expr)


def is_single_event(expr: Expr) -> bool:
    """Whether an expression reads only one event: it has one identifier and no aggregate (S4.2)."""
    plain = list(outside_aggregates(expr))
    return len(plain) == len(attributes(expr)) > 0 and len({(each.var, each.at) for each in plain}) == 1


# ---- variables that bind one event or none (S3.2, S3.6): an aggregate has at most one value


def optional(pattern: Node) -> frozenset[str]:
    """Return the names of the variables that bind one event in some branches and none in others."""
    found: set[str] = set()
    for node in walk_nodes(pattern):
        if isinstance(node, Maybe) or (isinstance(node, Or) and len(node.items) > 1):
            found |= {each.name for each in walk_nodes(node) if isinstance(each, Var)}
    several = {each.var.name for each in walk_nodes(pattern) if isinstance(each, Kleene | Not)}
    return frozenset(found - several)


def of_one_event(expr: Expr, single: Iterable[str]) -> Expr:
    """Replace aggregates over the variables in `single`, which bind one event, by values of that event."""
    names = frozenset(single)

    def change(each: Expr) -> Expr:
        if isinstance(each, Agg) and attributes(each.arg)[0].var in names:
            return _value(each)
        return rebuild(each, change)

    return change(expr)


def _value(agg: Agg) -> Expr:
    """Return the value of an aggregate over one event; if the event's value is null, as over no values."""
    if isinstance(agg.arg, Attr) and not agg.arg.path:
        return Literal(1, Kind.INT, agg.span)
    value = _plain(agg.arg)
    match agg.function:
        case "count":
            zero, one = Literal(0, Kind.INT, agg.span), Literal(1, Kind.INT, agg.span)
            return Call("if", (IsNull(value, agg.span), zero, one), agg.span)
        case "avg":
            return Cast(value, Kind.FLOAT, agg.span)
        case "stddev":  # one value has none: null
            never, nothing = Literal(False, Kind.BOOL, agg.span), Literal(None, Kind.NULL, agg.span)
            return Cast(Call("if", (never, value, nothing), agg.span), Kind.FLOAT, agg.span)
    return value


def _plain(expr: Expr) -> Expr:
    return replace(expr, at=At.EVERY) if isinstance(expr, Attr) else rebuild(expr, _plain)
