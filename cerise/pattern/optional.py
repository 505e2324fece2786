"""Aggregates of a variable that binds one event or none (S3.2, S3.6): a list of one where it is there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cerise.kinds import Kind
from cerise.pattern.expr import Agg, At, Attr, Call, Cast, Expr, IsNull, Literal, attributes, rebuild
from cerise.pattern.nodes import Kleene, Maybe, Node, Not, Or, Var, walk


def optional(pattern: Node) -> frozenset[str]:
    """Return the names of the variables that bind one event in some branches and none in others."""
    found: set[str] = set()
    for node in walk(pattern):
        if isinstance(node, Maybe) or (isinstance(node, Or) and len(node.items) > 1):
            found |= {each.name for each in walk(node) if isinstance(each, Var)}
    several = {each.var.name for each in walk(pattern) if isinstance(each, Kleene | Not)}
    return frozenset(found - several)


def of_one_event(expr: Expr, single: Iterable[str]) -> Expr:
    """Return an expression in which aggregates of some variables are values of their one event."""
    names = frozenset(single)

    def change(each: Expr) -> Expr:
        if isinstance(each, Agg) and attributes(each.arg)[0].var in names:
            return _value(each)
        return rebuild(each, change)

    return change(expr)


def _value(agg: Agg) -> Expr:
    """Return an aggregate of one event; null, as that of no values, where the event has none."""
    if isinstance(agg.arg, Attr) and not agg.arg.path:
        return Literal(1, Kind.INT, agg.span)
    value = _plain(agg.arg)
    match agg.function:
        case "count":
            missing, there = Literal(0, Kind.INT, agg.span), Literal(1, Kind.INT, agg.span)
            return Call("if", (IsNull(value, agg.span), missing, there), agg.span)
        case "avg":
            return Cast(value, Kind.FLOAT, agg.span)
        case "stddev":  # of one value there is none
            never, nothing = Literal(False, Kind.BOOL, agg.span), Literal(None, Kind.NULL, agg.span)
            return Cast(Call("if", (never, value, nothing), agg.span), Kind.FLOAT, agg.span)
    return value


def _plain(expr: Expr) -> Expr:
    return replace(expr, at=At.EVERY) if isinstance(expr, Attr) else rebuild(expr, _plain)
