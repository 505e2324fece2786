"""The functions of one row that DuckDB computes as Spark does: arguments, and the question to DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from cerise.errors import BindError, Span
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.call_arguments import (
    BOOL,
    DOUBLE,
    INT,
    LONG,
    TEXT,
    count_sql,
    literal_number,
    literal_text,
    real_sql,
)  # fmt: skip
from cerise.local_sql.values.date_functions import DATE_FUNCTIONS
from cerise.local_sql.values.operators import as_text, compare, compute
from cerise.local_sql.values.regexes import REGEX_FUNCTIONS
from cerise.local_sql.values.typed_value import Typed, refuse, unite, widen
from cerise.local_sql.values.value_types import spark_name

Args = list[Typed]
Function = Callable[[Args, Span | None], Typed]
MACROS = """
CREATE MACRO _text_part(s, start, size) AS
  CASE WHEN s IS NULL OR start IS NULL OR size IS NULL THEN NULL
  WHEN size <= 0 OR start + size <= 0 THEN ''
  ELSE substring(s, greatest(start, 0) + 1, start + size - greatest(start, 0)) END;
CREATE MACRO _substring(s, place, size) AS
  _text_part(
    s, CASE WHEN place > 0 THEN place - 1 WHEN place < 0 THEN length(s) + place
    WHEN place = 0 THEN 0 END, size
  );
CREATE MACRO _half_up(x, scale) AS
  CASE WHEN x IS NULL OR isnan(x) OR isinf(x) THEN x
  WHEN abs(x) * power(10, scale) < 1e14 AND
    abs(abs(x) * power(10, scale) - floor(abs(x) * power(10, scale)) - 0.5) > 1e-3
  THEN CAST(round(x * power(10, scale)) / power(10, scale) AS DOUBLE) + 0.0
  ELSE _round_as_written(x, scale) END;
CREATE MACRO _whole(x) AS
  CASE WHEN isnan(x) THEN 0 WHEN x >= 9223372036854775807 THEN 9223372036854775807
  WHEN x <= -9223372036854775808 THEN -9223372036854775807 - 1 ELSE CAST(x AS BIGINT) END;
CREATE MACRO _sign(x) AS CASE WHEN x = 0 THEN x ELSE CAST(sign(x) AS DOUBLE) END;
CREATE MACRO _logarithm(x) AS CASE WHEN x <= 0 THEN NULL ELSE ln(x) END;
CREATE MACRO _one_line(s) AS
  CASE WHEN regexp_matches(s, '[\\n\\r\\x0B\\x{85}\\x{2028}\\x{2029}]')
  THEN error('a text of several lines meets . $ or \\s: Spark and DuckDB read it differently') ELSE s END;
CREATE MACRO _upper(s) AS CASE WHEN strlen(s) = length(s) THEN upper(s) ELSE _upper_of_any(s) END;
CREATE MACRO _lower(s) AS CASE WHEN strlen(s) = length(s) THEN lower(s) ELSE _lower_of_any(s) END;
"""


def apply(name: str, args: Args, span: Span | None) -> Typed | None:
    """Return a call of a function; None: the function is not known here.

    Raises:
        BindError: the arguments do not fit.
        UnsupportedError: only Spark computes the function for such arguments.
    """
    if (function := FUNCTIONS.get(name)) is None:
        return None
    try:
        found = function(args, span)
    except (IndexError, ValueError):  # unpacking the arguments
        raise BindError(f"{name} does not take {len(args)} arguments", span=span) from None
    return replace(found, name=_name_of(name, args), span=span, literal=False, constant=None)


def _name_of(name: str, args: Args) -> str | None:
    """Return the name that Spark gives a column of a call: with the arguments that it adds itself."""
    names = [each.name for each in args]
    if None in names:
        return None
    if name in ("isnull", "isnotnull"):
        return f"({names[0]} IS {'NOT ' if name == 'isnotnull' else ''}NULL)"
    count, more = _ADDED.get(name, (0, ""))
    shown = ", ".join([*map(str, names), *([more] if len(names) == count else [])])
    return f"{name.upper() if name in _LOUD else name}({shown})"


_LOUD = frozenset("ceil ceiling floor sqrt exp power".split())
_ADDED = {
    "substring": (2, "2147483647"), "substr": (2, "2147483647"), "round": (1, "0"), "replace": (2, ""),
    "regexp_replace": (3, "1"), "regexp_extract": (2, "1"),
}  # how many arguments are given, and the one that Spark adds  # fmt: skip


# ---- families of functions


def _of_text(template: str, type_: pa.DataType, count: int = 1) -> Function:
    def make(args: Args, span: Span | None) -> Typed:
        if len(args) != count:
            raise ValueError
        return Typed(template.format(*(as_text(each, span).sql for each in args)), type_)

    return make


def _of_reals(template: str, count: int = 1) -> Function:
    def make(args: Args, span: Span | None) -> Typed:
        if len(args) != count:
            raise ValueError
        return Typed(template.format(*(real_sql(each, span) for each in args)), DOUBLE)

    return make


# ---- single functions


def _abs(args: Args, span: Span | None) -> Typed:
    (value,) = args
    if not types.is_number(value.type):
        raise refuse(f"abs of {spark_name(value.type)}", span)
    return Typed(f"abs({value.sql})", value.type)


def _round_to_whole(way: str) -> Function:
    def make(args: Args, span: Span | None) -> Typed:
        (value,) = args
        if types.is_decimal(value.type):
            type_ = types.decimal(value.type.precision - value.type.scale + 1, 0)
            return Typed(f"CAST({way}({value.sql}) AS {types.duck_name(type_)})", type_)
        if types.is_whole(value.type):
            return widen(value, LONG)
        return Typed(f"_whole({way}({real_sql(value, span)}))", LONG)

    return make


def _round(args: Args, span: Span | None) -> Typed:
    value, *given = args
    if len(given) > 1:
        raise ValueError
    scale = literal_number(given[0], "a scale", span) if given else 0
    if types.is_whole(value.type) and scale >= 0:
        return value
    if types.is_decimal(value.type) and scale >= 0:
        kept = min(scale, value.type.scale)
        type_ = types.decimal(value.type.precision - value.type.scale + kept + 1, kept)
        return Typed(f"CAST({value.sql} AS {types.duck_name(type_)})", type_)
    if value.type != DOUBLE or not 0 <= scale <= 15:
        raise refuse(f"round of {spark_name(value.type)} to {scale} digits", span)
    return Typed(f"_half_up({value.sql}, {scale})", DOUBLE)


def _concat(args: Args, span: Span | None) -> Typed:
    if not args:
        raise ValueError
    return Typed(f"({' || '.join(as_text(each, span).sql for each in args)})", TEXT)


def _part_of_text(args: Args, span: Span | None) -> Typed:
    text, place, *given = args
    if len(given) > 1:
        raise ValueError
    size = count_sql(given[0], span) if given else "2147483647"
    return Typed(f"_substring({as_text(text, span).sql}, {count_sql(place, span)}, {size})", TEXT)


def _start_of_text(args: Args, span: Span | None) -> Typed:
    text, size = args
    return Typed(f"_text_part({as_text(text, span).sql}, 0, {count_sql(size, span)})", TEXT)


def _right(args: Args, span: Span | None) -> Typed:
    text, size = args
    sql = as_text(text, span).sql
    many = count_sql(size, span)
    made = f"CASE WHEN {many} <= 0 AND {sql} IS NOT NULL THEN '' ELSE right({sql}, {many}) END"
    return Typed(made, TEXT)


def _replace(args: Args, span: Span | None) -> Typed:
    text, old, *new = args
    if len(new) > 1 or not literal_text(old, "a text to replace", span):
        raise refuse("replace of an empty text", span)
    made = as_text(new[0], span).sql if new else "''"
    return Typed(f"replace({as_text(text, span).sql}, {old.sql}, {made})", TEXT)


def _coalesce(args: Args, span: Span | None) -> Typed:
    values, type_ = unite(args, "coalesce", span)
    return Typed(f"coalesce({', '.join(each.sql for each in values)})", type_)


def _pick(way: str) -> Function:
    def make(args: Args, span: Span | None) -> Typed:
        values, type_ = unite(args, way, span)
        if len(values) < 2:
            raise ValueError
        return Typed(f"{way}({', '.join(each.sql for each in values)})", type_)

    return make


def choose(test: Typed, one: Typed, other: Typed, span: Span | None) -> Typed:
    """Return `if(test, one, other)`."""
    if test.type not in (BOOL, pa.null()):
        raise BindError(f"a condition of type {spark_name(test.type)}", span=span)
    (one, other), type_ = unite([one, other], "if", span)
    return Typed(f"CASE WHEN {test.sql} THEN {one.sql} ELSE {other.sql} END", type_)


def _if(args: Args, span: Span | None) -> Typed:
    test, one, other = args
    return choose(test, one, other, span)


def _nvl2(args: Args, span: Span | None) -> Typed:
    value, one, other = args
    return choose(Typed(f"({value.sql} IS NOT NULL)", BOOL), one, other, span)


def _nullif(args: Args, span: Span | None) -> Typed:
    one, other = args
    same = compare("=", one, other, span)
    return Typed(f"CASE WHEN {same.sql} THEN NULL ELSE {one.sql} END", one.type)


def _null_test(test: str) -> Function:
    def make(args: Args, span: Span | None) -> Typed:
        (value,) = args
        return Typed(f"({value.sql} IS {test})", BOOL, span=span)

    return make


def _isnan(args: Args, span: Span | None) -> Typed:
    (value,) = args
    if not types.is_real(value.type):
        raise refuse(f"isnan of {spark_name(value.type)}", span)
    return Typed(f"coalesce(isnan({value.sql}), FALSE)", BOOL)


def _mod(args: Args, span: Span | None) -> Typed:
    one, other = args
    return compute("%", one, other, span)


FUNCTIONS: Mapping[str, Function] = {
    "abs": _abs, "ceil": _round_to_whole("ceil"), "ceiling": _round_to_whole("ceil"),
    "floor": _round_to_whole("floor"),
    "round": _round, "mod": _mod, "sqrt": _of_reals("sqrt({})"), "exp": _of_reals("exp({})"),
    "ln": _of_reals("_logarithm({})"), "sign": _of_reals("_sign({})"),
    "pow": _of_reals("power({}, {})", 2), "power": _of_reals("power({}, {})", 2),
    "lower": _of_text("_lower({})", TEXT), "lcase": _of_text("_lower({})", TEXT),
    "upper": _of_text("_upper({})", TEXT), "ucase": _of_text("_upper({})", TEXT),
    "length": _of_text("CAST(length({}) AS INTEGER)", INT),
    "len": _of_text("CAST(length({}) AS INTEGER)", INT),
    "char_length": _of_text("CAST(length({}) AS INTEGER)", INT),
    "character_length": _of_text("CAST(length({}) AS INTEGER)", INT),
    "trim": _of_text("trim({}, ' ')", TEXT), "ltrim": _of_text("ltrim({}, ' ')", TEXT),
    "rtrim": _of_text("rtrim({}, ' ')", TEXT), "concat": _concat,
    "substring": _part_of_text,
    "substr": _part_of_text,
    "left": _start_of_text, "right": _right, "replace": _replace,
    "startswith": _of_text("starts_with({}, {})", BOOL, 2), "endswith": _of_text("suffix({}, {})", BOOL, 2),
    "contains": _of_text("contains({}, {})", BOOL, 2),
    "instr": _of_text("CAST(instr({}, {}) AS INTEGER)", INT, 2),
    "coalesce": _coalesce, "nvl": _pick("coalesce"), "ifnull": _pick("coalesce"), "nvl2": _nvl2, "if": _if,
    "nullif": _nullif, "greatest": _pick("greatest"), "least": _pick("least"),
    "isnull": _null_test("NULL"), "isnotnull": _null_test("NOT NULL"), "isnan": _isnan,
    **DATE_FUNCTIONS, **REGEX_FUNCTIONS,
}  # fmt: skip
