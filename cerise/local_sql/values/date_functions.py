"""Functions of dates and timestamps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cerise.errors import Span
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.call_arguments import INT, count_sql, day_sql, literal_text, moment_sql
from cerise.local_sql.values.typed_value import Typed, refuse
from cerise.local_sql.values.value_types import DAY

Args = list[Typed]
DateFunction = Callable[[Args, Span | None], Typed]


def _of_day(template: str) -> DateFunction:
    def make(args: Args, span: Span | None) -> Typed:
        (value,) = args
        return Typed(f"CAST({template.format(day_sql(value, span))} AS INTEGER)", INT)

    return make


def _of_moment(part: str) -> DateFunction:
    def make(args: Args, span: Span | None) -> Typed:
        (value,) = args
        return Typed(f"CAST({part}({moment_sql(value, span)}) AS INTEGER)", INT)

    return make


_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"), "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"), "week": "week",
    **dict.fromkeys(("day", "dd"), "day"), "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip


def _date_trunc(args: Args, span: Span | None) -> Typed:
    unit, value = args
    name = _UNITS.get(literal_text(unit, "a unit", span).lower())
    if name is None:
        raise refuse(f"the unit {unit.text!r}", span)
    moment = (
        f"CAST({moment_sql(value, span)} AS TIMESTAMP WITH TIME ZONE)"  # as Spark does, whatever is given
    )
    return Typed(f"date_trunc('{name}', {moment})", types.STAMP)


def _trunc(args: Args, span: Span | None) -> Typed:
    value, unit = args
    name = _UNITS.get(literal_text(unit, "a unit", span).lower())
    if name not in ("year", "quarter", "month", "week"):
        raise refuse(f"the unit {unit.text!r}", span)
    return Typed(f"CAST(date_trunc('{name}', {day_sql(value, span)}) AS DATE)", DAY)


def _date_step(sign: str) -> DateFunction:
    def make(args: Args, span: Span | None) -> Typed:
        day, count = args
        return Typed(f"({day_sql(day, span)} {sign} CAST({count_sql(count, span)} AS INTEGER))", DAY)

    return make


def _datediff(args: Args, span: Span | None) -> Typed:
    last, first = args
    return Typed(f"CAST({day_sql(last, span)} - {day_sql(first, span)} AS INTEGER)", INT)


def _add_months(args: Args, span: Span | None) -> Typed:
    day, count = args
    return Typed(
        f"CAST({day_sql(day, span)} + to_months(CAST({count_sql(count, span)} AS INTEGER)) AS DATE)", DAY
    )


def _last_day(args: Args, span: Span | None) -> Typed:
    (day,) = args
    return Typed(f"last_day({day_sql(day, span)})", DAY)


def _to_date(args: Args, span: Span | None) -> Typed:
    (value,) = args
    if types.is_text(value.type) and value.text is None:
        return Typed(f"CAST(_to_moment({value.sql}) AS DATE)", DAY)
    return Typed(day_sql(value, span), DAY)


DATE_FUNCTIONS: Mapping[str, DateFunction] = {
    "year": _of_day("year({})"), "month": _of_day("month({})"), "day": _of_day("day({})"),
    "dayofmonth": _of_day("day({})"), "quarter": _of_day("quarter({})"),
    "dayofyear": _of_day("dayofyear({})"),
    "weekofyear": _of_day("weekofyear({})"), "dayofweek": _of_day("dayofweek({}) + 1"),
    "weekday": _of_day("isodow({}) - 1"), "hour": _of_moment("hour"), "minute": _of_moment("minute"),
    "second": _of_moment("second"), "date_trunc": _date_trunc, "trunc": _trunc, "date_add": _date_step("+"),
    "dateadd": _date_step("+"), "date_sub": _date_step("-"), "datediff": _datediff, "date_diff": _datediff,
    "add_months": _add_months, "last_day": _last_day, "to_date": _to_date, "date": _to_date,
}  # fmt: skip
