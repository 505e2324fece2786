"""Conditions of a row pattern as text again: atoms as navigations and aggregates, as users write them."""

from __future__ import annotations

import re

from cerise.pattern.expr import Attr, Expr, rebuild
from cerise.pattern.rows import CLASSIFIER, Atom, BoundRows, MatchNumber, MatchStatus, Nav, RowAgg
from cerise.pattern.show import quote, show_expr

PLACE = re.compile(r"_cerise_atom(\w+?)_place")


def show_condition(expr: Expr, bound: BoundRows) -> str:
    """Return a condition, or a part of one, as text."""

    def placed(each: Expr) -> Expr:
        return (
            Attr(f"_cerise_atom{each.path[0]}_place", ()) if isinstance(each, Attr) else rebuild(each, placed)
        )

    return PLACE.sub(lambda found: show_atom(bound.atoms[found[1]], bound), show_expr(placed(expr)))


def show_atom(atom: Atom, bound: BoundRows) -> str:
    """Return an atom as text: `PREV(B.x)`, `sum(A.x)`."""
    match atom:
        case MatchNumber():
            return "MATCH_NUMBER()"
        case MatchStatus():
            return "MATCH_STATUS()"
        case Nav():
            return _navigation(atom, bound)
        case RowAgg(function, columns, members, _, distinct, where):
            args = ", ".join(_column(each, members, bound) for each in columns)
            rows = "*" if members is None else f"{_variable(members)}.*"
            kept = "" if where is None else f" FILTER (WHERE {_column(where, None, bound).strip('()')})"
            return f"{function}({'DISTINCT ' if distinct else ''}{args or rows}){kept}"


def _navigation(nav: Nav, bound: BoundRows) -> str:
    text = _column(nav.column, nav.members, bound)
    if not nav.last or nav.offset:
        text = f"{'LAST' if nav.last else 'FIRST'}({text}{f', {nav.offset}' if nav.offset else ''})"
    if nav.shift:
        count = abs(nav.shift)
        text = f"{'PREV' if nav.shift < 0 else 'NEXT'}({text}{f', {count}' if count > 1 else ''})"
    return text


def _column(name: str, members: frozenset[str] | None, bound: BoundRows) -> str:
    if name == CLASSIFIER:
        return f"CLASSIFIER({'' if members is None else _variable(members)})"
    sql = next((each.sql for each in bound.derived if each.name == name), None)
    text = quote(name) if sql is None else f"({sql})"
    return text if members is None else f"{_variable(members)}.{text}"


def _variable(members: frozenset[str]) -> str:
    """Return a variable; a subset has lost its name, and is shown by its members."""
    return quote(next(iter(members))) if len(members) == 1 else f"({'|'.join(sorted(members))})"
