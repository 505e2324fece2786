"""An SQL expression whose type is known: DuckDB's text, Spark's type, and Spark's name of its column."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa

from cerise.errors import BindError, Span, UnsupportedError
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.value_types import DAY, IN_SPARK, LOCAL_STAMP, duck_name, spark_name

Constant = str | int | float | bool | Decimal | None


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression.

    Attributes:
        sql: the expression for DuckDB.
        type: the type of its value.
        name: the name that Spark gives a column of it; None: one that is not known here.
        constant: the value, if the expression is a literal.
        literal: whether it is one.
        span: its place in the statement.
    """

    sql: str
    type: pa.DataType
    name: str | None = None
    constant: Constant = None
    literal: bool = False
    span: Span | None = None

    @property
    def text(self) -> str | None:
        """The value of a literal string."""
        return self.constant if self.literal and isinstance(self.constant, str) else None

    def rename(self, name: str | None) -> Typed:
        """Return the same expression under another name."""
        return replace(self, name=name)


def quote(text: str) -> str:
    """Return a string literal of DuckDB."""
    return "'" + text.replace("'", "''") + "'"


def cast_sql(value: Typed, type_: pa.DataType) -> str:
    """Return a value as one of a type that holds it: numbers widened, dates at midnight, null."""
    if value.type == type_ or (types.is_zoned(value.type) and types.is_zoned(type_)):
        return value.sql
    return f"CAST({value.sql} AS {duck_name(type_)})"


def widen(value: Typed, type_: pa.DataType) -> Typed:
    """Return a value as one of a wider type."""
    return replace(value, sql=cast_sql(value, type_), type=type_, literal=False, constant=None)


def refuse(what: str, span: Span | None) -> UnsupportedError:
    """Return the error for a part of SQL that only Spark runs."""
    return UnsupportedError(f"{what} needs Spark", span=span, hint=IN_SPARK)


def mismatch(what: str, values: list[Typed], span: Span | None) -> BindError:
    """Return the error for values whose types do not fit together."""
    names = " and ".join(spark_name(each.type) for each in values)
    return BindError(f"{what} of {names}", span=span, hint="cast one of them: CAST(x AS …)")


def unite(values: list[Typed], what: str, span: Span | None) -> tuple[list[Typed], pa.DataType]:
    """Return values as ones of the type that they have in common.

    Raises:
        BindError: they have none.
    """
    known = next((each.type for each in values if types.is_stamp(each.type) or each.type == DAY), None)
    if known is not None:
        values = [read_moment(each, known) for each in values]
    found = values[0].type
    for each in values[1:]:
        common = types.common_type(found, each.type)
        if common is None or not types.is_computable(common):
            raise _no_common(what, values, span)
        found = common
    if not types.is_computable(found):
        raise refuse(f"{what} of {found}", span)
    return [widen(each, found) if each.type != found else each for each in values], found


def _no_common(what: str, values: list[Typed], span: Span | None) -> BindError | UnsupportedError:
    kinds = {each.type for each in values}
    if pa.string() in kinds and len(kinds) > 1:  # Spark casts the string, and fails at a row that is none
        return refuse(f"{what} of a string and another type", span)
    if any(not types.is_computable(each) for each in kinds) or sum(map(types.is_stamp, kinds)) > 1:
        return refuse(what, span)
    return mismatch(what, values, span)


def read_moment(value: Typed, type_: pa.DataType) -> Typed:
    """Return a literal string as a date or timestamp; any other value as it is."""
    if value.text is None:
        return value
    text = value.text.strip()
    try:
        if type_ == DAY and len(text) == len("2024-01-01"):
            made = quote(dt.date.fromisoformat(text).isoformat())
        else:
            moment = dt.datetime.fromisoformat(text)
            type_ = LOCAL_STAMP if type_ == DAY else type_
            if moment.tzinfo is not None and not types.is_zoned(type_):
                raise refuse("a time zone in a timestamp without time zone", value.span)
            made = quote(moment.isoformat(" "))
    except ValueError:
        raise refuse(f"the moment {value.text!r}", value.span) from None
    return replace(value, sql=f"CAST({made} AS {duck_name(type_)})", type=type_, literal=False, constant=None)
