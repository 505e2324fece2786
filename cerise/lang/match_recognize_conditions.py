"""DEFINE and MEASURES: trees over rows of a match as expressions over atoms.

A condition is computed by Cerise while it matches. What Cerise does not know becomes a column that Spark
computes beforehand, as long as it looks at one row. A measure is computed when the match is complete, by
Spark, from the values of its atoms.
"""

from __future__ import annotations

from sqlglot import exp

from cerise.errors import BindError, Span, UnsupportedError
from cerise.kinds import COMPUTABLE, Kind
from cerise.lang.match_recognize_atoms import SPECIAL, Place, atom_of
from cerise.lang.match_recognize_exprs import Node, column, function_of, inside, render
from cerise.lang.match_recognize_rows import Rows, checked, stripped
from cerise.lang.match_recognize_terms import Beyond, Nowhere, convert
from cerise.pattern.expr import Attr, Call, Expr, attributes
from cerise.pattern.rows import Measure, Nav


def bind_condition(tree: Node, place: Place, span: Span) -> Expr:
    """Return a condition of DEFINE.

    Raises:
        BindError: where it is no predicate, or says what a condition may not.
        UnsupportedError: where neither Cerise nor Spark can compute it.
    """
    expr = _term(tree, place)
    kind = checked(expr)
    if kind not in (Kind.BOOL, Kind.NULL):
        raise BindError(
            f"the condition of {place.defines} is a value of kind {kind.value}", span=span,
            hint="DEFINE needs a predicate: compare the value with something",
        )  # fmt: skip
    return expr


def _term(node: Node, place: Place) -> Expr:
    """Return a part of a condition: by Cerise if it can be, else by Spark."""
    found = atom_of(node, place)
    if found is not None:
        return found
    mark = place.rows.mark()
    span = place.rows.span(node)
    try:
        expr = convert(node, lambda each: _term(each, place), span)
        _check_operands(expr, place.rows, span)
        return expr
    except Beyond as beyond:
        place.rows.back_to(mark)
        return _by_spark(node, place, beyond)


def _check_operands(expr: Expr, rows: Rows, span: Span | None) -> None:
    """Refuse to compute with values that can only be passed through."""
    for each in attributes(expr):
        if each.kind not in COMPUTABLE and expr is not each:
            raise Beyond(rows.opaque(each, span))
    checked(expr)


def _by_spark(node: Node, place: Place, beyond: Beyond) -> Expr:
    """Return what Spark computes from one row, as a column; null where there is no such row."""
    rows = place.rows
    if rows.host is None:
        raise beyond.error
    variables = _rows_of(node, place, beyond)
    name = rows.derive(node, computed=True)
    if not variables:
        return rows.atom(Nav(name), rows.kind(name))
    members = rows.members(variables.pop())
    there = rows.atom(Nav(name, members), rows.kind(name))
    exists = rows.atom(Nav(rows.present(), members), Kind.BOOL)
    missing = rows.missing(node)  # what Spark makes of nulls: A.x is null before the first A
    return Call("if", (exists, there, rows.atom(Nav(missing), rows.kind(missing))), rows.span(node))


def _rows_of(node: Node, place: Place, beyond: Beyond) -> set[str]:
    """Return the variable whose last row an expression reads, if it is not the row being tested."""
    rows = place.rows
    found: set[str | None] = set()
    for each in inside(node):
        function = function_of(each)
        if isinstance(each, exp.Filter) or (function is not None and function.name in SPECIAL):
            raise _across(beyond, rows.span(each))
        if (ref := rows.find(each)) is not None:
            members = rows.members(ref.var)
            found.add(None if members is None or place.defines in members else ref.var)
    if len(found) > 1:
        raise _across(beyond, rows.span(node))
    return {var for var in found if var is not None}


def _across(beyond: Beyond, span: Span | None) -> BindError | UnsupportedError:
    """Return the error for what only Spark computes, of several rows at once."""
    error = beyond.error
    if isinstance(error, BindError):
        return error
    return UnsupportedError(
        f"{error.problem}, and Spark sees one row at a time in DEFINE", span=error.span or span,
        hint="apply it to one row: f(A.x) = f(B.x), or inside a navigation as LAST(f(A.x))",
    )  # fmt: skip


def bind_measure(name: str, tree: Node, place: Place, span: Span) -> Measure:
    """Return a measure, as SQL over its atoms and, where Cerise can compute it, as an expression.

    Raises:
        BindError: for what a measure may not say.
    """
    used: dict[str, Attr] = {}

    def named(node: Node) -> Node | None:
        found = atom_of(node, place)
        if found is None:
            return None
        used[found.path[0]] = found
        return column(found.path[0])

    sql = render(tree, place.rows.text, named)
    return Measure(name, sql, _measured(tree, place), tuple(used), span)


def _measured(tree: Node, place: Place) -> Expr | None:
    def term(node: Node) -> Expr:
        return atom_of(node, place) or convert(node, term, place.rows.span(node))

    try:
        expr = term(stripped(tree))
        if not isinstance(expr, Attr):
            _check_operands(expr, place.rows, None)
        return expr
    except Nowhere as nowhere:
        if place.rows.host is None:
            raise nowhere.error from None
        return None
    except Beyond:
        return None
