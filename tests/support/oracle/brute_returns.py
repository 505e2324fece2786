"""The columns of RETURN, by the second oracle (S4.6, S7.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from cerise.events import Schema
from cerise.pattern.expr import At, Attr, Expr
from cerise.pattern.query import Count, Kleene, Query, Var, absent_names, walk_nodes
from tests.support.oracle.brute import matches
from tests.support.oracle.brute_values import Binding, Scope, Uncomputable, value
from tests.support.oracle.brute_world import lengths, stream

Row = dict[str, Any]


def table(query: Query, schema: Schema, events: pa.Table, params: Mapping[str, Any]) -> list[Row] | None:
    """The rows of a result without match_id and partition columns; None where a column cannot be computed."""
    names = [each.name for each in walk_nodes(query.pattern) if isinstance(each, Var)]
    found = matches(query, schema, events, params)
    if isinstance(query.returns, Count):
        return [{"count": len(found)}]
    order, plain = stream(events, schema)
    place = {row: at for at, row in enumerate(order)}
    raw = events.to_pylist()
    answer = []
    for match in found:
        binding = {name: taken for name, taken in zip(names, match, strict=True) if taken}
        taken = sorted((row for each in match for row in each), key=lambda row: place[row])
        ends = {"first_time": raw[taken[0]][schema.time], "last_time": raw[taken[-1]][schema.time]}
        if query.returns is None:
            answer.append({**ends, **_bound(query, binding, raw)})
            continue
        placed = {name: tuple(place[row] for row in each) for name, each in binding.items()}
        scope = Scope(plain, placed, schema, params, {}, strict=True)
        try:
            columns = {item.name: _column(item.expr, query, binding, raw, scope) for item in query.returns}
        except Uncomputable:
            return None
        answer.append({**ends, **columns})
    return answer


def _kleene(query: Query) -> set[str]:
    return {each.var.name for each in walk_nodes(query.pattern) if isinstance(each, Kleene)}


def _bound(query: Query, binding: Binding, raw: list[Row]) -> Row:
    """One struct per variable, a list of structs per Kleene variable, null where it is absent."""
    row: Row = {}
    for var in (each for each in walk_nodes(query.pattern) if isinstance(each, Var)):
        if var.name not in absent_names(query.pattern):
            events = [raw[place] for place in binding.get(var.name, ())]
            row[var.name] = (events if var.name in _kleene(query) else events[0]) if events else None
    return row


def _column(expr: Expr, query: Query, binding: Binding, raw: list[Row], scope: Scope) -> Any:
    expr = lengths(expr, _kleene(query))
    if not isinstance(expr, Attr):
        return value(expr, scope)
    events = [_field(raw[row], expr.path) for row in binding.get(expr.var, ())]
    if expr.at is At.EVERY and expr.var in _kleene(query):
        return events or None
    number = expr.at if isinstance(expr.at, int) else len(events) if expr.at is At.LAST else 1
    return events[number - 1] if 1 <= number <= len(events) else None


def _field(row: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row
