"""Aggregates and window functions that DuckDB computes as Spark does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from cerise.errors import BindError, Span
from cerise.local_sql.values import value_types as types
from cerise.local_sql.values.typed_value import Typed, refuse, widen
from cerise.local_sql.values.value_types import LENGTH, duck_name, spark_name


@dataclass(frozen=True, slots=True)
class GroupCall:
    """A call: DISTINCT or nothing, the arguments, FILTER and OVER, and its place in the statement."""

    distinct: str
    args: list[Typed]
    after: str
    span: Span | None = None


Made = Callable[[GroupCall], Typed]


@dataclass(frozen=True, slots=True)
class GroupFunction:
    """An aggregate, or a function of windows only.

    Attributes:
        make: returns the call.
        distinct: whether it may take DISTINCT.
        window: whether it stands with OVER only.
    """

    make: Made
    distinct: bool = False
    window: bool = False


def _cast(sql: str, type_: pa.DataType) -> Typed:
    return Typed(f"CAST({sql} AS {duck_name(type_)})", type_)


def _count(call: GroupCall) -> Typed:
    if not call.args:
        return Typed(f"count(*){call.after}", pa.int64())
    if len(call.args) > 1:
        raise refuse("count of several columns", call.span)
    return Typed(f"count({call.distinct}{call.args[0].sql}){call.after}", pa.int64())


def _sum(call: GroupCall) -> Typed:
    value = _only(call.args, call.span)
    if types.is_whole(value.type) or value.type == LENGTH:
        type_ = LENGTH if value.type == LENGTH else pa.int64()
        return _cast(f"sum({call.distinct}{value.sql}){call.after}", type_)
    if types.is_decimal(value.type):
        type_ = pa.decimal128(min(types.MOST_DIGITS, value.type.precision + 10), value.type.scale)
        return _cast(f"sum({call.distinct}{value.sql}){call.after}", type_)
    return Typed(f"sum({call.distinct}{_real(value, call.span)}){call.after}", pa.float64())


def _avg(call: GroupCall) -> Typed:
    value = _only(call.args, call.span)
    if types.is_decimal(value.type) or value.type == LENGTH:
        raise refuse(f"avg of {spark_name(value.type)}", call.span)
    return Typed(f"avg({call.distinct}{_real(value, call.span)}){call.after}", pa.float64())


def _of_reals(name: str) -> Made:
    def make(call: GroupCall) -> Typed:
        value = _real(_only(call.args, call.span), call.span)
        return Typed(f"{name}({call.distinct}{value}){call.after}", pa.float64())

    return make


def _extreme(name: str) -> Made:
    def make(call: GroupCall) -> Typed:
        value = _only(call.args, call.span)
        if not types.is_computable(value.type):
            raise refuse(f"{name} of {value.type}", call.span)
        return Typed(f"{name}({value.sql}){call.after}", value.type)

    return make


def _extreme_by(name: str) -> Made:
    def make(call: GroupCall) -> Typed:
        if len(call.args) != 2:
            raise BindError(f"{name} takes 2 arguments", span=call.span)
        return Typed(f"{name}({call.args[0].sql}, {call.args[1].sql}){call.after}", call.args[0].type)

    return make


def _of_tests(name: str, otherwise: str = "") -> Made:
    def make(call: GroupCall) -> Typed:
        value = _only(call.args, call.span)
        if value.type != pa.bool_():
            raise BindError(f"a condition of type {spark_name(value.type)}", span=call.span)
        if otherwise:
            return Typed(f"CAST(count_if({value.sql}){call.after} AS BIGINT)", pa.int64())
        return Typed(f"{name}({value.sql}){call.after}", pa.bool_())

    return make


def _number(name: str, type_: pa.DataType) -> Made:
    def make(call: GroupCall) -> Typed:
        if call.args:
            raise BindError(f"{name} takes no argument", span=call.span)
        return _cast(f"{name}(){call.after}", type_)

    return make


def _neighbour(name: str) -> Made:
    def make(call: GroupCall) -> Typed:
        value, *offset = call.args
        if len(offset) > 1:
            raise refuse(f"{name} with a default", call.span)
        if offset and not (offset[0].literal and isinstance(offset[0].constant, int)):
            raise refuse(f"{name} by an offset that is not a number in the text", call.span)
        places = f", {offset[0].constant}" if offset else ""
        return Typed(f"{name}({value.sql}{places}){call.after}", value.type)

    return make


def _end_of_frame(name: str) -> Made:
    def make(call: GroupCall) -> Typed:
        value = _only(call.args, call.span)
        return Typed(f"{name}({value.sql}){call.after}", value.type)

    return make


def _only(args: list[Typed], span: Span | None) -> Typed:
    if len(args) != 1:
        raise BindError(f"{len(args)} arguments where one is asked for", span=span)
    return args[0]


def _real(value: Typed, span: Span | None) -> str:
    if not types.is_number(value.type) and value.type != pa.null():
        raise refuse(f"a number made of {spark_name(value.type)}", span)
    return widen(value, pa.float64()).sql


_DEVIATION, _VARIANCE = GroupFunction(_of_reals("stddev_samp")), GroupFunction(_of_reals("var_samp"))
_ALL, _ANY = GroupFunction(_of_tests("bool_and")), GroupFunction(_of_tests("bool_or"))
GROUP_FUNCTIONS: Mapping[str, GroupFunction] = {
    "count": GroupFunction(_count, distinct=True), "sum": GroupFunction(_sum, distinct=True),
    "avg": GroupFunction(_avg, distinct=True), "mean": GroupFunction(_avg, distinct=True),
    "min": GroupFunction(_extreme("min"), distinct=True),
    "max": GroupFunction(_extreme("max"), distinct=True),
    "stddev": _DEVIATION, "stddev_samp": _DEVIATION, "std": _DEVIATION, "variance": _VARIANCE,
    "var_samp": _VARIANCE, "stddev_pop": GroupFunction(_of_reals("stddev_pop")),
    "var_pop": GroupFunction(_of_reals("var_pop")), "median": GroupFunction(_of_reals("median")),
    "bool_and": _ALL, "every": _ALL, "bool_or": _ANY, "any": _ANY, "some": _ANY,
    "count_if": GroupFunction(_of_tests("count_if", "0")),
    "min_by": GroupFunction(_extreme_by("min_by")), "max_by": GroupFunction(_extreme_by("max_by")),
    "row_number": GroupFunction(_number("row_number", pa.int32()), window=True),
    "rank": GroupFunction(_number("rank", pa.int32()), window=True),
    "dense_rank": GroupFunction(_number("dense_rank", pa.int32()), window=True),
    "percent_rank": GroupFunction(_number("percent_rank", pa.float64()), window=True),
    "cume_dist": GroupFunction(_number("cume_dist", pa.float64()), window=True),
    "lag": GroupFunction(_neighbour("lag"), window=True),
    "lead": GroupFunction(_neighbour("lead"), window=True),
    "first_value": GroupFunction(_end_of_frame("first_value"), window=True),
    "last_value": GroupFunction(_end_of_frame("last_value"), window=True),
}  # fmt: skip
