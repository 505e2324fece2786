"""The arguments of functions, as Spark takes them: converted where no value is lost, else refused."""

from __future__ import annotations

import pyarrow as pa

from cerise.errors import Span
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.typed_value import Typed, read_moment, refuse, widen
from cerise.local_sql.values.value_types import DAY, spark_name

INT, LONG, DOUBLE, TEXT, BOOL = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_()


def real_sql(value: Typed, span: Span | None) -> str:
    """Return a number as a DOUBLE."""
    if not types.is_number(value.type) and value.type != pa.null():
        raise refuse(f"a number made of {spark_name(value.type)}", span)
    return widen(value, DOUBLE).sql


def count_sql(value: Typed, span: Span | None) -> str:
    """Return an INT as a BIGINT, which no sum of two makes overflow."""
    if value.type not in (pa.int8(), pa.int16(), INT, pa.null()):
        raise refuse(f"an INT made of {spark_name(value.type)}", span)
    return f"CAST({value.sql} AS BIGINT)"


def day_sql(value: Typed, span: Span | None) -> str:
    """Return a date, or that of a timestamp."""
    value = read_moment(value, DAY)
    if value.type == DAY:
        return value.sql
    if not types.is_stamp(value.type) and value.type != pa.null():
        raise refuse(f"a date made of {spark_name(value.type)}", span)
    return f"CAST({value.sql} AS DATE)"


def moment_sql(value: Typed, span: Span | None) -> str:
    """Return a timestamp, or a date at midnight."""
    if types.is_stamp(value.type):
        return value.sql
    if value.type != DAY:
        raise refuse(f"a timestamp made of {spark_name(value.type)}", span)
    return f"CAST({value.sql} AS TIMESTAMP)"


def literal_number(value: Typed, what: str, span: Span | None) -> int:
    """Return a number that stands in the text."""
    if not value.literal or not isinstance(value.constant, int):
        raise refuse(f"{what} that is not a number in the text", span)
    return value.constant


def literal_text(value: Typed, what: str, span: Span | None) -> str:
    """Return a string that stands in the text."""
    if value.text is None:
        raise refuse(f"{what} that is not a string in the text", span)
    return value.text
