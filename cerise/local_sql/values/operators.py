"""Arithmetic, comparisons and casts of typed values, by the rules of Spark with ANSI switched on."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from cerise.errors import Span
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.typed_value import Typed, cast_sql, mismatch, quote, refuse, unite, widen
from cerise.local_sql.values.value_types import (
    DAY,
    LENGTH,
    LOCAL_STAMP,
    as_decimal,
    decimal,
    duck_name,
    spark_name,
)

DAY_US = 86_400_000_000
_MACROS = """
CREATE MACRO _nonzero(x) AS CASE WHEN x = 0 THEN error('division by zero') ELSE x END;
CREATE MACRO _decimal_divide(n, d) AS
  (CASE WHEN (n < 0) <> (d < 0) THEN -1 ELSE 1 END) * ((2 * abs(n) + abs(d)) // (2 * abs(d)));
CREATE MACRO _to_whole(s) AS
  CASE WHEN regexp_full_match(trim(s), '[+-]?[0-9]+') OR s IS NULL THEN trim(s)
  ELSE error('''' || s || ''' is not an integer') END;
CREATE MACRO _to_real(s) AS
  CASE WHEN s IS NULL OR regexp_full_match(trim(s), '[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?')
  THEN trim(s)
  ELSE error('''' || s || ''' is not a number that this process reads') END;
CREATE MACRO _to_moment(s) AS
  CASE WHEN s IS NULL OR regexp_full_match(
    trim(s), '[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,6})?)?')
  THEN trim(s)
  ELSE error('''' || s || ''' is not a moment as 2024-12-31 or 2024-12-31 10:20:30') END;
CREATE MACRO _to_bool(s) AS
  CASE WHEN lower(trim(s)) IN ('t', 'true', 'y', 'yes', '1') THEN TRUE
  WHEN lower(trim(s)) IN ('f', 'false', 'n', 'no', '0') THEN FALSE WHEN s IS NULL THEN NULL
  ELSE error('''' || s || ''' is not a boolean') END;
CREATE MACRO _truncate(x) AS
  CASE WHEN isnan(x) THEN error('NaN is not an integer') ELSE trunc(x) END;
"""
MACROS = _MACROS.replace("\\\\", "\\")


def name_both(left: Typed, op: str, right: Typed) -> str | None:
    """Return the name that Spark gives a column of two operands."""
    return None if left.name is None or right.name is None else f"({left.name} {op} {right.name})"


def compute(op: str, left: Typed, right: Typed, span: Span | None) -> Typed:
    """Return `+ - * / %` or `div` of two values."""
    name = name_both(left, op, right)
    found = _of_moments(op, left, right, span)
    if found is None:
        left, right = _as_numbers(op, left, right, span)
        if types.is_decimal(left.type) or types.is_decimal(right.type):
            found = _of_decimals(op, left, right, span)
        else:
            found = _of_numbers(op, left, right)
    return replace(found, name=found.name or name, span=span)


def _as_numbers(op: str, left: Typed, right: Typed, span: Span | None) -> tuple[Typed, Typed]:
    """Return both operands as decimals, or as numbers of one type."""
    kinds = (left.type, right.type)
    if pa.null() in kinds:
        known = next((each for each in kinds if each != pa.null()), pa.float64())
        left, right = (widen(each, known) if each.type == pa.null() else each for each in (left, right))
    if any(types.is_text(each.type) for each in (left, right)):
        raise refuse(f"{op} of a string", span)
    if not (types.is_number(left.type) and types.is_number(right.type)):
        if all(map(types.is_computable, (left.type, right.type))) and not _of_time(left, right):
            raise mismatch(op, [left, right], span)
        raise refuse(f"{op} of {spark_name(left.type)} and {spark_name(right.type)}", span)
    exact = any(map(types.is_decimal, kinds)) and not any(map(types.is_real, kinds))
    if exact:
        return _narrow_decimal(left), _narrow_decimal(right)
    (left, right), _ = unite([left, right], op, span)
    return left, right


def _of_time(left: Typed, right: Typed) -> bool:
    return any(each.type in (LENGTH, DAY) or types.is_stamp(each.type) for each in (left, right))


def _narrow_decimal(value: Typed) -> Typed:
    """Return a number as a decimal; a literal integer has only the digits that it is written with."""
    type_ = as_decimal(value.type)
    if value.literal and isinstance(value.constant, int):
        type_ = decimal(len(str(abs(value.constant))), 0)
    return widen(value, type_) if value.type != type_ else value


def _of_numbers(op: str, left: Typed, right: Typed) -> Typed:
    type_ = left.type
    if op == "/":
        one, other = cast_sql(left, pa.float64()), cast_sql(right, pa.float64())
        return Typed(f"({one} / _nonzero({other}))", pa.float64())
    if op == "div":
        one, other = cast_sql(left, pa.int64()), cast_sql(right, pa.int64())
        if not types.is_whole(type_):
            raise refuse("div of numbers with a fraction", left.span)
        return Typed(f"({one} // _nonzero({other}))", pa.int64())
    if op == "%":
        return Typed(f"({left.sql} % _nonzero({right.sql}))", type_)
    return Typed(f"({left.sql} {op} {right.sql})", type_)


def _of_decimals(op: str, left: Typed, right: Typed, span: Span | None) -> Typed:
    (p1, s1), (p2, s2) = ((each.type.precision, each.type.scale) for each in (left, right))
    scale = max(s1, s2)
    if op in ("+", "-"):
        type_ = decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
        return Typed(_cast(f"({cast_sql(left, type_)} {op} {cast_sql(right, type_)})", type_), type_)
    if op == "*":
        type_ = decimal(p1 + p2 + 1, s1 + s2)
        return Typed(_cast(f"({left.sql} * {right.sql})", type_), type_)
    if op == "%":
        type_ = decimal(min(p1 - s1, p2 - s2) + scale, scale)
        wide = decimal(max(p1 - s1, p2 - s2) + scale, scale)
        other = f"_nonzero({cast_sql(right, wide)})"
        return Typed(_cast(f"({cast_sql(left, wide)} % {other})", type_), type_)
    if op == "/":
        scale = max(6, s1 + p2 + 1)
        digits = p1 - s1 + s2 + scale
        type_ = decimal(digits + 1, scale) and decimal(digits, scale)
        shift = f"1{'0' * (scale - s1 + s2)}::HUGEINT"
        one = f"CAST(CAST({left.sql} * 1{'0' * s1} AS DECIMAL(38,0)) AS HUGEINT) * {shift}"
        other = f"CAST(CAST(_nonzero({right.sql}) * 1{'0' * s2} AS DECIMAL(38,0)) AS HUGEINT)"
        made = f"_decimal_divide({one}, {other})"
        return Typed(f"({_scale_down(made, type_)})", type_)
    raise refuse(f"{op} of decimals", span)


def _scale_down(sql: str, type_: pa.DataType) -> str:
    """Return an integer of DuckDB as a decimal: the integer without its point, as text, is exact."""
    digits = f"lpad(CAST(abs({sql}) AS VARCHAR), {type_.precision + 1}, '0')"
    sign = f"CASE WHEN {sql} < 0 THEN '-' ELSE '' END"
    text = f"{sign} || {digits}[:-{type_.scale + 1}] || '.' || {digits}[-{type_.scale}:]"
    return _cast(text, type_)


def _cast(sql: str, type_: pa.DataType) -> str:
    return f"CAST({sql} AS {duck_name(type_)})"


# ---- moments and durations


def _of_moments(op: str, left: Typed, right: Typed, span: Span | None) -> Typed | None:
    """Return a sum or difference with a date, a timestamp or a duration; None: the operands are others."""
    kinds = left.type, right.type
    if op == "+" and right.type != LENGTH and (left.type == LENGTH or right.type == DAY):
        left, right = right, left
    if left.type == LENGTH and right.type == LENGTH and op in ("+", "-"):
        return Typed(f"({left.sql} {op} {right.sql})", LENGTH)
    if types.is_stamp(left.type) and right.type == LENGTH and op in ("+", "-"):
        return Typed(f"({left.sql} {op} to_microseconds({right.sql}))", left.type)
    if op == "-" and left.type == DAY and right.type == DAY:
        return Typed(f"(CAST({left.sql} - {right.sql} AS BIGINT) * {DAY_US})", LENGTH)
    if op == "-" and _two_moments(kinds):
        (one, other), _ = unite([left, right], op, span)
        return Typed(f"(epoch_us({one.sql}) - epoch_us({other.sql}))", LENGTH)
    if left.type == DAY and types.is_whole(right.type) and op in ("+", "-") and right.type != pa.int64():
        step = "date_add" if op == "+" else "date_sub"
        name = None if None in (left.name, right.name) else f"{step}({left.name}, {right.name})"
        return Typed(f"({left.sql} {op} CAST({right.sql} AS INTEGER))", DAY, name)
    if LENGTH in kinds and op == "*" and any(map(types.is_whole, kinds)):
        return Typed(f"({left.sql} * CAST({right.sql} AS BIGINT))", LENGTH)
    return None


def _two_moments(kinds: tuple[pa.DataType, ...]) -> bool:
    stamps = [each for each in kinds if types.is_stamp(each)]
    return bool(stamps) and all(types.is_stamp(each) or each == DAY for each in kinds)


def compare(op: str, left: Typed, right: Typed, span: Span | None) -> Typed:
    """Return a comparison of two values."""
    name = name_both(left, "=" if op == "==" else op, right)
    (one, other), _ = unite([left, right], f"{op}", span)
    sql = f"({one.sql} IS NOT DISTINCT FROM {other.sql})" if op == "<=>" else f"({one.sql} {op} {other.sql})"
    if op in ("!=", "<>"):
        name = None if name is None else f"(NOT {name_both(left, '=', right)})"
    return Typed(sql, pa.bool_(), name, span=span)


# ---- casts


def cast(value: Typed, type_: pa.DataType, span: Span | None) -> Typed:
    """Return CAST(value AS type); a value that does not fit is an error."""
    found = Typed(_cast_by_rule(value, type_, span), type_, span=span)
    return found.rename(None if value.name is None else f"CAST({value.name} AS {spark_name(type_)})")


def _cast_by_rule(value: Typed, type_: pa.DataType, span: Span | None) -> str:
    given, sql = value.type, value.sql
    if given == type_ or given == pa.null() or (types.is_zoned(given) and types.is_zoned(type_)):
        return f"CAST({sql} AS {duck_name(type_)})"
    if types.is_text(type_):
        return _to_text(value, span)
    if types.is_text(given):
        return _from_text(value, type_, span)
    if given == pa.bool_() and types.is_number(type_):
        return _cast(sql, type_)
    if type_ == pa.bool_() and types.is_number(given):
        return f"({sql} <> 0)"
    if types.is_whole(type_) and types.is_real(given):
        return _cast(f"_truncate({sql})", type_)
    if types.is_whole(type_) and types.is_decimal(given):
        return _cast(f"trunc({sql})", type_)
    if (
        types.is_number(type_)
        and types.is_number(given)
        and not (types.is_decimal(type_) and types.is_real(given))
    ):
        return _cast(sql, type_)
    moments = (types.is_stamp(given) or given == DAY) and (types.is_stamp(type_) or type_ == DAY)
    if moments:
        return _cast(sql, type_)
    raise refuse(f"CAST of {spark_name(given)} to {spark_name(type_)}", span)


def _to_text(value: Typed, span: Span | None) -> str:
    if types.is_zoned(value.type):
        return f"CAST(CAST({value.sql} AS TIMESTAMP) AS VARCHAR)"
    plain = types.is_whole(value.type) or types.is_decimal(value.type)
    if plain or value.type in (pa.bool_(), DAY, LOCAL_STAMP, pa.string()):
        return f"CAST({value.sql} AS VARCHAR)"
    raise refuse(f"CAST of {spark_name(value.type)} to STRING", span)


def _from_text(value: Typed, type_: pa.DataType, span: Span | None) -> str:
    if types.is_whole(type_):
        return _cast(f"_to_whole({value.sql})", type_)
    if types.is_real(type_):
        return _cast(f"_to_real({value.sql})", type_)
    if type_ == pa.bool_():
        return f"_to_bool({value.sql})"
    if type_ in (DAY, LOCAL_STAMP) or types.is_zoned(type_):
        return _cast(f"_to_moment({value.sql})", type_)
    raise refuse(f"CAST of STRING to {spark_name(type_)}", span)


def as_text(value: Typed, span: Span | None) -> Typed:
    """Return a value as the string that a function of strings takes it for."""
    if types.is_text(value.type):
        return value
    if value.type == pa.null():
        return widen(value, pa.string())
    return replace(value, sql=_to_text(value, span), type=pa.string(), literal=False)


def constant_text(text: str, span: Span | None = None) -> Typed:
    """Return a string literal."""
    return Typed(quote(text), pa.string(), text, text, literal=True, span=span)
