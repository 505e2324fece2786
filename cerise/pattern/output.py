"""The columns of a result: known, with their types, before anything runs (S7.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from cerise.errors import BindError, PlanError
from cerise.events import Schema
from cerise.kinds import ARROW_OF, Kind, step_us
from cerise.pattern.bound import STEP, Bound, OutColumn
from cerise.pattern.check import kind_of, type_nulls
from cerise.pattern.expr import Agg, At, Attr, Expr, attributes, outside_aggregates, walk
from cerise.pattern.query import Item, Per, Total, Totals, Unit, Var, Window, absent_names
from cerise.pattern.resolve import Names, check_variable, find_column, resolve

MATCH_ID, FIRST_TIME, LAST_TIME, TYPE = "match_id", "first_time", "last_time", "type"
_NEGATED = "'{}' is negated: a match has no such event to return"


def output_columns(bound: Bound, names: Names) -> tuple[OutColumn, ...]:
    """Return the columns of a query's matches or totals.

    Matches have match_id, first_time, last_time, the INTO name as type, the partition's columns, and then
    either the columns of RETURN, or a struct per variable and a list of structs per Kleene variable. Totals
    have the columns that name the group of each row, and then the columns of RETURN.
    """
    returns = bound.query.returns
    if isinstance(returns, Totals):
        columns = (*_rows_of(returns.per, bound), *total_columns(returns, bound, names))
        _reject_twice(columns)
        return columns
    chosen = _return_columns(returns, bound, names) if returns is not None else _bindings(bound)
    taken = {each.name for each in chosen}
    partition = [each for each in _partition(bound) if each.name not in taken or returns is None]
    columns = (*_standard(bound), *partition, *chosen)
    _reject_twice(columns)
    return columns


def event_schema(bound: Bound) -> Schema:
    """Return the schema of matches as events of another query: time is last_time, type the INTO name."""
    totals = bound.query.totals
    if totals is not None and totals.per is not Per.EVENT:
        raise BindError(
            "a count, or other totals, are not a stream of events: they have no time",
            span=totals.span, hint="say PER EVENT, or RETURN columns or * from the query that is read FROM",
        )  # fmt: skip
    return Schema(bound.output_schema, time=LAST_TIME, type=TYPE if bound.query.into else None, arrival=False)


def _standard(bound: Bound) -> list[OutColumn]:
    first = OutColumn(FIRST_TIME, bound.schema.type_of((bound.schema.time,)), "first_time")
    return [OutColumn(MATCH_ID, pa.int64(), "match_id"), first, *_event(bound)]


def _event(bound: Bound) -> list[OutColumn]:
    """Return the columns that another query reads as time and, if the query has an INTO name, as type."""
    time = OutColumn(LAST_TIME, bound.schema.type_of((bound.schema.time,)), "last_time")
    return [time, *([OutColumn(TYPE, pa.string(), "into")] if bound.query.into else [])]


def _rows_of(per: Per, bound: Bound) -> list[OutColumn]:
    return [*(_event(bound) if per is Per.EVENT else ()), *(_partition(bound) if per.partition else ())]


def _partition(bound: Bound) -> list[OutColumn]:
    return [OutColumn(".".join(path), bound.schema.type_of(path), path) for path in bound.partition]


def _bindings(bound: Bound) -> list[OutColumn]:
    absent = absent_names(bound.query.pattern)
    return [_events_of(var.name, var, bound) for var in bound.variables if var.name not in absent]


def _events_of(name: str, var: Var, bound: Bound) -> OutColumn:
    event = pa.struct(list(bound.schema.columns))
    many = var.name in bound.kleene
    return OutColumn(name, pa.list_(event) if many else event, var, many=many)


def _return_columns(items: Iterable[Item], bound: Bound, names: Names) -> list[OutColumn]:
    return [_column(item, bound, names) for item in items]


def _column(item: Item, bound: Bound, names: Names) -> OutColumn:
    for each in attributes(item.expr):
        if each.var in names.negated:
            raise BindError(_NEGATED.format(each.var), span=each.span)
    if isinstance(item.expr, Attr):
        plain = _pass_through if item.expr.path else _whole_event
        if (column := plain(item, item.expr, bound, names)) is not None:
            return column
    expr = resolve(item.expr, names)
    _reject_open(expr, names)
    kind = kind_of(expr)
    return OutColumn(item.name, ARROW_OF[kind], expr, kind)


def _whole_event(item: Item, attr: Attr, bound: Bound, _names: Names) -> OutColumn | None:
    named = [var for var in bound.variables if var.name == attr.var and attr.at is At.EVERY]
    return _events_of(item.name, named[0], bound) if named else None


def _pass_through(item: Item, attr: Attr, bound: Bound, names: Names) -> OutColumn | None:
    """Return the column of a plain attribute of any type; of a Kleene variable, a list. None: not plain."""
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
    """Refuse a Kleene variable in a computed column of RETURN, unless it has an index or is aggregated."""
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


# ---- totals: aggregates over all matches, by group (S7.2)

EXACT = pa.decimal128(38, 0)  # the type of counts, and of sums of integers
MOST_WINDOWS = 1_000_000  # windows in which one match may count
NO_EVENT = STEP | {At.NEXT, At.PREV}


def total_columns(totals: Totals, bound: Bound, names: Names) -> list[OutColumn]:
    """Return the columns of totals after the time and partition of their group: windows, then aggregates."""
    _check_rows(totals, bound)
    return [*_windows(totals.per, bound), *(_total_column(each, bound, names) for each in totals.items)]


def as_integers(bound: Bound) -> Bound:
    """Return a query whose counts are 64-bit integers, with which a query that reads FROM it can compute."""
    columns = (
        replace(each, type=pa.int64()) if isinstance(each.fill, Total) and each.type == EXACT else each
        for each in bound.columns
    )
    return replace(bound, columns=tuple(columns))


def _check_rows(totals: Totals, bound: Bound) -> None:
    if totals.per.window and bound.slide is None:
        raise BindError(
            f"{totals.per.value}, but no SLIDE says where windows begin", span=totals.span,
            hint="say it: WITHIN 30 minutes SLIDE 10 minutes",
        )  # fmt: skip
    if totals.per.partition and totals.per is not Per.EVENT and not bound.partition:
        raise BindError(
            f"{totals.per.value}, but the query has no partitions", span=totals.span,
            hint="say PARTITION BY column, or [column] in WHERE; without partitions it is IN ALL",
        )  # fmt: skip


def _windows(per: Per, bound: Bound) -> list[OutColumn]:
    """Return the columns for the first time, or position, in a window and the first after it."""
    if not per.window:
        return []
    assert bound.within is not None
    assert bound.slide is not None
    _check_number(bound.within, bound.slide)
    type_ = pa.int64() if bound.within.unit is Unit.EVENTS else bound.schema.type_of((bound.schema.time,))
    if bound.within.unit is Unit.TIME:
        for window in (bound.slide, bound.within):
            _check_fine(window, bound.schema.time, type_)
    return [OutColumn(name, type_, name) for name in ("window_start", "window_end")]


def _check_number(within: Window, slide: Window) -> None:
    """Refuse windows if a match could count in more than MOST_WINDOWS of them."""
    number = -(-int(str(within.size)) // int(str(slide.size)))
    if number > MOST_WINDOWS:
        raise PlanError(
            f"PER WINDOW counts a match in up to {number} windows, more than {MOST_WINDOWS}",
            span=slide.span, hint="use a longer SLIDE or a shorter WITHIN, or leave PER WINDOW out",
        )  # fmt: skip


def _check_fine(window: Window, column: str, type_: pa.DataType) -> None:
    """Refuse windows whose ends the type of the time column cannot express."""
    step = step_us(type_)
    if int(str(window.size)) % step:
        raise BindError(
            f"windows would begin or end between two values of '{column}', of type {type_}",
            span=window.span, hint="use a longer unit, or cast the column to timestamp(us)",
        )  # fmt: skip


def _total_column(total: Total, bound: Bound, names: Names) -> OutColumn:
    if total.arg is None:
        return OutColumn(total.name, pa.string() if total.text else EXACT, total)
    whole = type_nulls(Agg(total.function, _argument(total, total.arg, names), total.span))
    assert isinstance(whole, Agg)
    arg, kind = whole.arg, kind_of(whole)
    if total.text and not (kind is Kind.INT and total.function in ("count", "sum")):
        raise BindError(
            f"STRING(…) writes out counts and sums of integers, not {total.function} of {kind.value}s",
            span=total.span, hint="leave STRING out",
        )  # fmt: skip
    return OutColumn(total.name, _type(total, arg, kind, bound), replace(total, arg=arg), kind)


def _type(total: Total, arg: Expr, kind: Kind, bound: Bound) -> pa.DataType:
    """Return the type of a total; min and max of an attribute have the type of its column."""
    if total.function in ("min", "max"):
        return _plain(bound.schema.type_of(arg.path)) if isinstance(arg, Attr) else ARROW_OF[kind]
    if kind is Kind.FLOAT:
        return pa.float64()
    return pa.string() if total.text else EXACT


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _argument(total: Total, arg: Expr, names: Names) -> Expr:
    """Resolve the argument of a total: a value of one event, of each Kleene event, or of a match."""
    found = attributes(arg)
    if not found:
        raise BindError(
            f"{total.function} of nothing", span=total.span,
            hint="name an attribute; COUNT(*) counts the matches",
        )  # fmt: skip
    for each in found:
        if each.var in names.negated:
            raise BindError(_NEGATED.format(each.var), span=each.span)
    if isinstance(arg, Attr) and not arg.path and total.function == "count":
        check_variable(arg, names)
        _check_events(arg, names)
        return arg
    expr = resolve(arg, names)
    _check_events(expr, names)
    return expr


def _check_events(expr: Expr, names: Names) -> None:
    for each in attributes(expr):
        if each.at in NO_EVENT:
            raise BindError(
                f"no event of '{each.var}' is the current one in RETURN", span=each.span,
                hint=f"write {each.var}.x for all its events, FIRST({each.var}.x), LAST({each.var}.x)",
            )  # fmt: skip
    through = run_through(expr, names.kleene)
    if len(through) > 1:
        raise BindError(
            f"the value runs through the events of {' and '.join(sorted(through))} at once", span=expr.span,
            hint="take one event, or an aggregate, of all but one: FIRST(b.x), sum(b.x)",
        )  # fmt: skip


def run_through(expr: Expr, kleene: Iterable[str]) -> set[str]:
    """Return the Kleene variables whose events each give a value of the expression."""
    return {each.var for each in outside_aggregates(expr) if each.at is At.EVERY} & set(kleene)
