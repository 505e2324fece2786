"""The columns of totals: what is aggregated over all matches, and for what there is a row each (S7.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from cerise.errors import BindError, PlanError
from cerise.kinds import ARROW_OF, Kind, step_us
from cerise.pattern.bound import STEP, Bound, OutColumn
from cerise.pattern.check import kind_of, with_typed_nulls
from cerise.pattern.expr import Agg, At, Attr, Expr, attributes, outside_aggregates
from cerise.pattern.query import Per, Total, Totals, Unit, Window
from cerise.pattern.resolve import Names, check_variable, resolve

EXACT = pa.decimal128(38, 0)  # of counts, and of sums of integers
MOST_WINDOWS = 1_000_000  # that one match may count in
NO_EVENT = STEP | {At.NEXT, At.PREV}


def total_columns(totals: Totals, bound: Bound, names: Names) -> list[OutColumn]:
    """Return the columns that totals have besides the time and the partition that they are of."""
    _check_rows(totals, bound)
    return [*_windows(totals.per, bound), *(_column(each, bound, names) for each in totals.items)]


def as_integers(bound: Bound) -> Bound:
    """Return a query whose totals can be computed with, for one that reads FROM it: counts are integers."""
    columns = (
        replace(each, type=pa.int64()) if isinstance(each.fill, Total) and each.type == EXACT else each
        for each in bound.columns
    )
    return replace(bound, columns=tuple(columns))


# ---- rows


def _check_rows(totals: Totals, bound: Bound) -> None:
    if totals.per.window and bound.slide is None:
        raise BindError(
            f"{totals.per.value}, but no SLIDE says where windows begin", span=totals.span,
            hint="say it: WITHIN 30 minutes SLIDE 10 minutes",
        )  # fmt: skip
    if totals.per.partition and totals.per is not Per.EVENT and not bound.partition:
        raise BindError(
            f"{totals.per.value}, but there are no partitions", span=totals.span,
            hint="say PARTITION BY column, or [column] in WHERE; without partitions it is IN ALL",
        )  # fmt: skip


def _windows(per: Per, bound: Bound) -> list[OutColumn]:
    """The first time, or position, of a window, and the first after it."""
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
    """Refuse windows that overlap so much that a match counts in too many of them."""
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


# ---- values


def _column(total: Total, bound: Bound, names: Names) -> OutColumn:
    if total.arg is None:
        return OutColumn(total.name, pa.string() if total.text else EXACT, total)
    whole = with_typed_nulls(Agg(total.function, _argument(total, total.arg, names), total.span))
    assert isinstance(whole, Agg)
    arg, kind = whole.arg, kind_of(whole)
    if total.text and not (kind is Kind.INT and total.function in ("count", "sum")):
        raise BindError(
            f"STRING(…) writes out counts and sums of integers, not {total.function} of {kind.value}s",
            span=total.span, hint="leave STRING out",
        )  # fmt: skip
    return OutColumn(total.name, _type(total, arg, kind, bound), replace(total, arg=arg), kind)


def _type(total: Total, arg: Expr, kind: Kind, bound: Bound) -> pa.DataType:
    """Return the type of a total: an extreme of an attribute has that of its column."""
    if total.function in ("min", "max"):
        return _plain(bound.schema.type_of(arg.path)) if isinstance(arg, Attr) else ARROW_OF[kind]
    if kind is Kind.FLOAT:
        return pa.float64()
    return pa.string() if total.text else EXACT


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _argument(total: Total, arg: Expr, names: Names) -> Expr:
    """Resolve a value: of one event, of each event of a Kleene variable, or of a match."""
    found = attributes(arg)
    if not found:
        raise BindError(
            f"{total.function} of nothing", span=total.span,
            hint="name an attribute; COUNT(*) counts the matches",
        )  # fmt: skip
    for each in found:
        if each.var in names.negated:
            raise BindError(f"'{each.var}' is negated: there is no such event to return", span=each.span)
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
    """Return the Kleene variables over all of whose events a value ranges."""
    return {each.var for each in outside_aggregates(expr) if each.at is At.EVERY} & set(kleene)
