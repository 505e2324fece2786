"""Literals of SQL: numbers, strings, moments and intervals, with the types that Spark gives them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from cerise.errors import Span
from cerise.kinds import INT64_MAX
from cerise.lang.match_recognize.translate import microseconds
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.operators import constant_text
from cerise.local_sql.values.typed_value import Typed, quote, refuse
from cerise.local_sql.values.value_types import DAY, LENGTH, spark_name

INT32_MAX = 2**31 - 1


def constant(node: exp.Expression, span: Span | None) -> Typed:
    """Return a literal."""
    match node:
        case exp.Null():
            return Typed("NULL", pa.null(), "NULL", None, literal=True, span=span)
        case exp.Boolean():
            return Typed(
                str(node.this).upper(), pa.bool_(), str(node.this).lower(), bool(node.this), span=span
            )
        case exp.RawString():
            return constant_text(str(node.this), span)
        case exp.Literal() if node.is_string:
            return constant_text(str(node.this), span)
        case exp.Interval():
            return _interval(node, span)
    text = str(node.this)
    if text.isdigit():
        return whole(int(text), span)
    if "e" in text.lower():
        return Typed(f"CAST({text} AS DOUBLE)", pa.float64(), None, float(text), literal=True, span=span)
    value = Decimal(text)
    digits = str(value.as_tuple().digits and "".join(map(str, value.as_tuple().digits)).lstrip("0"))
    scale = -int(value.as_tuple().exponent)
    type_ = types.decimal(max(len(digits), scale), scale)
    return Typed(
        f"CAST({text} AS {types.duck_name(type_)})", type_, str(value), value, literal=True, span=span
    )


def whole(value: int, span: Span | None = None) -> Typed:
    """Return an integer as a literal: an INT, else a BIGINT."""
    if value > INT64_MAX:
        raise refuse("a number beyond 64 bits", span)
    type_ = pa.int32() if value <= INT32_MAX else pa.int64()
    sql = f"CAST({value} AS {types.duck_name(type_)})"
    return Typed(sql, type_, str(value), value, literal=True, span=span)


def _interval(node: exp.Interval, span: Span | None) -> Typed:
    size = microseconds(node)
    if size is None:
        raise refuse("this interval", span)
    return Typed(f"CAST({size} AS BIGINT)", LENGTH, span=span)


def negate(value: Typed, span: Span | None) -> Typed:
    """Return `-value`."""
    name = None if value.name is None else f"(- {value.name})"
    if value.literal and isinstance(value.constant, int | float | Decimal):
        return replace(
            value, sql=f"(-{value.sql})", constant=-value.constant, name=f"-{value.name}", span=span
        )
    if not types.is_number(value.type) and value.type != LENGTH:
        raise refuse(f"- of {spark_name(value.type)}", span)
    return Typed(f"(-{value.sql})", value.type, name, span=span)


def moment_of(value: Typed, type_: pa.DataType, span: Span | None) -> Typed:
    """Return DATE '…' or TIMESTAMP '…'."""
    text = str(value.text).strip()
    try:
        moment = dt.date.fromisoformat(text) if type_ == DAY else dt.datetime.fromisoformat(text)
    except ValueError:
        raise refuse(f"the moment {text!r}", span) from None
    if isinstance(moment, dt.datetime) and moment.tzinfo is not None and not types.is_zoned(type_):
        raise refuse(f"the moment {text!r}", span)
    made = quote(moment.isoformat(" ") if isinstance(moment, dt.datetime) else moment.isoformat())
    return Typed(f"CAST({made} AS {types.duck_name(type_)})", type_, span=span)
