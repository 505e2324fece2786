"""The columns of a result: known, with their types, before anything runs (S7.3)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from cerise.errors import BindError
from cerise.events import Schema
from cerise.kinds import ARROW_OF
from cerise.pattern.bound import STEP, Bound, OutColumn
from cerise.pattern.check import kind_of
from cerise.pattern.expr import At, Attr, Expr, attributes, outside_aggregates, walk
from cerise.pattern.nodes import Var, negated
from cerise.pattern.query import Item, Per, Totals
from cerise.pattern.resolve import Names, find_column, resolve
from cerise.pattern.totals import total_columns

MATCH_ID, FIRST_TIME, LAST_TIME, TYPE = "match_id", "first_time", "last_time", "type"


def output_columns(bound: Bound, names: Names) -> tuple[OutColumn, ...]:
    """Return the columns that the matches of a query have.

    They are match_id, first_time, last_time, the INTO name as type, the partition's columns, and then
    either those of RETURN, or one struct per variable and a list of structs per Kleene variable. Totals have
    the columns that say what each row is of, and then those of RETURN.
    """
    returns = bound.query.returns
    if isinstance(returns, Totals):
        columns = (*_rows_of(returns.per, bound), *total_columns(returns, bound, names))
        _reject_twice(columns)
        return columns
    chosen = _returned(returns, bound, names) if returns is not None else _bindings(bound)
    taken = {each.name for each in chosen}
    partition = [each for each in _partition(bound) if each.name not in taken or returns is None]
    columns = (*_standard(bound), *partition, *chosen)
    _reject_twice(columns)
    return columns


def derived_schema(bound: Bound) -> Schema:
    """Return the schema of matches as events again: time is the last event's, type the INTO name."""
    totals = bound.query.totals
    if totals is not None and totals.per is not Per.EVENT:
        raise BindError(
            "a count, or other totals, are no stream of events: they have no time",
            span=totals.span, hint="say PER EVENT, or RETURN columns or * from the query that is read FROM",
        )  # fmt: skip
    return Schema(bound.output_schema, time=LAST_TIME, type=TYPE if bound.query.into else None, arrival=False)


def _standard(bound: Bound) -> list[OutColumn]:
    first = OutColumn(FIRST_TIME, bound.schema.type_of((bound.schema.time,)), "first_time")
    return [OutColumn(MATCH_ID, pa.int64(), "match_id"), first, *_event(bound)]


def _event(bound: Bound) -> list[OutColumn]:
    """What makes a result an event again: its time and, where it has a name, its type."""
    time = OutColumn(LAST_TIME, bound.schema.type_of((bound.schema.time,)), "last_time")
    return [time, *([OutColumn(TYPE, pa.string(), "into")] if bound.query.into else [])]


def _rows_of(per: Per, bound: Bound) -> list[OutColumn]:
    """What a row of totals is of, but for windows."""
    return [*(_event(bound) if per is Per.EVENT else ()), *(_partition(bound) if per.partition else ())]


def _partition(bound: Bound) -> list[OutColumn]:
    return [OutColumn(".".join(path), bound.schema.type_of(path), path) for path in bound.partition]


def _bindings(bound: Bound) -> list[OutColumn]:
    absent = negated(bound.query.pattern)
    return [_events_of(var.name, var, bound) for var in bound.variables if var.name not in absent]


def _events_of(name: str, var: Var, bound: Bound) -> OutColumn:
    """The event of a variable as a struct, those of a Kleene variable as a list of structs."""
    event = pa.struct(list(bound.schema.columns))
    many = var.name in bound.kleene
    return OutColumn(name, pa.list_(event) if many else event, var, many=many)


def _returned(items: Iterable[Item], bound: Bound, names: Names) -> list[OutColumn]:
    return [_column(item, bound, names) for item in items]


def _column(item: Item, bound: Bound, names: Names) -> OutColumn:
    for each in attributes(item.expr):
        if each.var in names.negated:
            raise BindError(f"'{each.var}' is negated: there is no such event to return", span=each.span)
    if isinstance(item.expr, Attr):
        plain = _passed_through if item.expr.path else _whole_event
        if (column := plain(item, item.expr, bound, names)) is not None:
            return column
    expr = resolve(item.expr, names)
    _reject_open(expr, names)
    kind = kind_of(expr)
    return OutColumn(item.name, ARROW_OF[kind], expr, kind)


def _whole_event(item: Item, attr: Attr, bound: Bound, _names: Names) -> OutColumn | None:
    """A variable alone is its event, or the list of its events."""
    named = [var for var in bound.variables if var.name == attr.var and attr.at is At.EVERY]
    return _events_of(item.name, named[0], bound) if named else None


def _passed_through(item: Item, attr: Attr, bound: Bound, names: Names) -> OutColumn | None:
    """A plain attribute keeps its own type, whatever it is; of every event of a Kleene variable, a list."""
    many = attr.var in names.kleene and attr.at is At.EVERY
    if attr.var not in names.variables or (many and attr.path[0].upper() == "LEN"):
        return None
    if attr.at is not At.EVERY and (
        attr.var not in names.kleene or attr.at in STEP | {At.NEXT, At.PREV, At.ALL}
    ):
        return None
    find_column(attr.path, bound.schema, attr.span, computed=False)
    type_ = bound.schema.type_of(attr.path)
    return OutColumn(item.name, pa.list_(type_) if many else type_, attr, many=many)


def _reject_open(expr: Expr, names: Names) -> None:
    """In RETURN nothing runs over the events of a Kleene variable but aggregates."""
    for each in outside_aggregates(expr):
        loose = each.at in STEP | {At.NEXT, At.PREV} or (each.at is At.EVERY and each.var in names.kleene)
        if loose:
            raise BindError(
                f"'{each.var}' stands for several events here", span=each.span,
                hint=f"write FIRST({each.var}.…), LAST({each.var}.…), {each.var}[2].… or an aggregate",
            )  # fmt: skip
    for each in (e for e in walk(expr) if isinstance(e, Attr) and e.at is At.RUNNING):
        raise BindError(
            "b[..i-1] has no meaning in RETURN", span=each.span, hint=f"write {each.var}.x for all events"
        )


def _reject_twice(columns: Iterable[OutColumn]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise BindError(
                f"the result would have two columns named '{column.name}'",
                hint="rename the variable, or the column: RETURN … AS another_name",
            )
        seen.add(column.name)
