"""The kinds of value a predicate can compute with, and how each Arrow type becomes one.

`docs/types.md` is this module in prose; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.errors import DataError, UnsupportedError

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
DAY_US = 86_400_000_000
EXACT_DECIMAL_DIGITS = 15  # decimals of up to this many digits stay distinct, and in order, as doubles


class Kind(Enum):
    """The kinds of values that predicates distinguish (S4.6). The enum's value is the name users read."""

    INT = "integer"
    FLOAT = "double"
    BOOL = "boolean"
    STRING = "string"
    INSTANT = "timestamp with time zone"
    LOCAL = "timestamp without time zone"
    DATE = "date"
    DURATION = "duration"
    NULL = "null"
    STRUCT = "struct"
    OPAQUE = "opaque"


NUMBERS = frozenset({Kind.INT, Kind.FLOAT})
TIMES = frozenset({Kind.INT, Kind.INSTANT, Kind.LOCAL, Kind.DATE, Kind.NULL})  # null: an empty table's
MOMENTS = frozenset({Kind.INSTANT, Kind.LOCAL, Kind.DATE})
COMPUTABLE = frozenset(Kind) - {Kind.STRUCT, Kind.OPAQUE}

ARROW_OF = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.STRING: pa.string(),
    Kind.INSTANT: pa.timestamp("us", "UTC"),
    Kind.LOCAL: pa.timestamp("us"),
    Kind.DATE: pa.date32(),
    Kind.DURATION: pa.duration("us"),
    Kind.NULL: pa.null(),
}
STORED = {kind: pa.int64() for kind in ARROW_OF} | {
    Kind.FLOAT: pa.float64(), Kind.BOOL: pa.bool_(), Kind.STRING: pa.string(),
}  # the types of canonical values  # fmt: skip


def plain(type_: pa.DataType, *, inner: bool = False) -> pa.DataType:
    """Return an equivalent type whose rows Arrow can take, concatenate and fill with nulls.

    Views become large types, everything is nullable, and a dictionary inside another type becomes the type
    of its values.

    Args:
        type_: any type.
        inner: whether the type is inside another type.
    """
    types = pa.types
    decoded = inner and types.is_dictionary(type_) and not types.is_nested(type_.value_type)
    if decoded or types.is_run_end_encoded(type_):
        return plain(type_.value_type, inner=inner)
    if types.is_string_view(type_):
        return pa.large_string()
    if types.is_binary_view(type_):
        return pa.large_binary()
    if types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, plain(type_.value_type, inner=True), type_.ordered)
    if types.is_struct(type_):
        return pa.struct([plain_field(field, inner=True) for field in type_])
    if types.is_list(type_) or types.is_large_list(type_):
        list_type = pa.list_ if types.is_list(type_) else pa.large_list
        return list_type(plain_field(type_.value_field, inner=True))
    if types.is_fixed_size_list(type_):
        return pa.list_(plain_field(type_.value_field, inner=True), type_.list_size)
    if types.is_map(type_):
        return pa.map_(plain(type_.key_type, inner=True), plain_field(type_.item_field, inner=True))
    return type_


def plain_field(field: pa.Field, *, inner: bool = False) -> pa.Field:
    """Return a nullable field of a plain type."""
    return field.with_type(plain(field.type, inner=inner)).with_nullable(True)


def plain_schema(columns: pa.Schema) -> pa.Schema:
    """Return a schema of nullable columns of plain types."""
    return pa.schema([plain_field(field) for field in columns])


def plain_table(table: pa.Table) -> pa.Table:
    """Return a table with columns of plain types, each with at most one dictionary."""
    for i, field in enumerate(table.schema):
        if pa.types.is_run_end_encoded(field.type):
            chunks = [pc.run_end_decode(chunk) for chunk in table.column(i).chunks]
            table = table.set_column(i, field.name, pa.chunked_array(chunks, field.type.value_type))
    table = table.cast(plain_schema(table.schema))
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, _with_one_dictionary(table.column(i)))
    return table


def _with_one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose chunks share one dictionary without nulls: Arrow concatenates no other."""
    chunks = [_without_null_word(each) if each.dictionary.null_count else each for each in column.chunks]
    column = pa.chunked_array(chunks, column.type)
    if len(chunks) < 2 or pa.types.is_nested(column.type.value_type):
        return column
    try:
        return column.unify_dictionaries()
    except pa.ArrowInvalid:  # the chunks have more words together than their indices can count
        wide = [_with_indices(each, each.indices.cast(pa.int32()), each.dictionary) for each in chunks]
        return pa.chunked_array(wide).unify_dictionaries()


def _without_null_word(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return a column whose dictionary has no null: null indices mark the missing values instead."""
    absent = np.asarray(array.dictionary.is_null())
    places = pa.array(np.cumsum(~absent) - 1, mask=absent).cast(array.type.index_type)
    return _with_indices(array, places.take(array.indices), array.dictionary.drop_null())


def _with_indices(array: pa.DictionaryArray, indices: pa.Array, words: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(indices, words, ordered=array.type.ordered)


def kind_of(type_: pa.DataType) -> Kind:
    """Return the kind of the values of an Arrow type; OPAQUE values can only be passed through."""
    types = pa.types
    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        return kind_of(type_.value_type)
    if types.is_decimal(type_):
        return Kind.FLOAT if type_.precision <= EXACT_DECIMAL_DIGITS else Kind.OPAQUE
    if types.is_timestamp(type_):
        return Kind.LOCAL if type_.tz is None else Kind.INSTANT
    for test, kind in _SIMPLE:
        if test(type_):
            return kind
    return Kind.OPAQUE


_SIMPLE = (
    (pa.types.is_integer, Kind.INT),
    (pa.types.is_floating, Kind.FLOAT),
    (pa.types.is_boolean, Kind.BOOL),
    (pa.types.is_string, Kind.STRING),
    (pa.types.is_large_string, Kind.STRING),
    (pa.types.is_string_view, Kind.STRING),
    (pa.types.is_date, Kind.DATE),
    (pa.types.is_duration, Kind.DURATION),
    (pa.types.is_struct, Kind.STRUCT),
    (pa.types.is_null, Kind.NULL),
)


def canonical(values: pa.Array | pa.ChunkedArray, kind: Kind, name: str) -> pa.Array:
    """Return values in the canonical form, which predicates compute with.

    Integers are int64, other numbers float64, texts strings; moments and durations are int64 microseconds.

    Raises:
        DataError: a value does not fit; nothing wraps or truncates (S4.6).
    """
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        return _CAST[kind](array)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column '{name}' of type {array.type} holds a value that is not exact as {kind.value}: {error}",
            hint="convert the column to int64 or to microseconds before the query",
        ) from error


def _number(array: pa.Array) -> pa.Array:
    if not pa.types.is_decimal(array.type):
        return array.cast(pa.float64())
    # The digits and the power of ten are exact as doubles, so their quotient is the nearest double.
    precision, scale = array.type.precision, array.type.scale
    digits = array.cast(pa.decimal128(precision, scale)).view(pa.decimal128(precision, 0))
    number = digits.cast(pa.int64()).cast(pa.float64())
    return pc.divide(number, 10.0**scale) if scale > 0 else pc.multiply(number, 10.0**-scale)


def _moment(array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())


def _date(array: pa.Array) -> pa.Array:
    days = array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    return pc.multiply_checked(days, DAY_US)


_CAST: dict[Kind, Any] = {
    Kind.INT: lambda array: array.cast(pa.int64()),
    Kind.FLOAT: _number,
    Kind.BOOL: lambda array: array.cast(pa.bool_()),
    Kind.STRING: lambda array: array.cast(pa.string()),
    Kind.INSTANT: _moment,
    Kind.LOCAL: _moment,
    Kind.DATE: _date,
    Kind.DURATION: lambda array: array.cast(pa.duration("us")).cast(pa.int64()),
    Kind.NULL: lambda array: array.cast(pa.int64()),
}


def restore(values: list[Any], kind: Kind) -> pa.Array:
    """Return computed values as an Arrow column of the kind's own type; the inverse of `canonical`."""
    if kind is Kind.DATE:
        return pa.array([None if v is None else v // DAY_US for v in values], pa.int32()).cast(pa.date32())
    if kind in (Kind.INSTANT, Kind.LOCAL, Kind.DURATION):
        return pa.array(values, pa.int64()).cast(ARROW_OF[kind])
    return pa.array(values, ARROW_OF[kind])


def restore_as(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return canonical values in the type of the column that they came from.

    Raises:
        DataError: a computed value does not fit that type.
    """
    kind = kind_of(type_)
    try:
        if pa.types.is_dictionary(type_):
            return restore_as(values, type_.value_type).dictionary_encode().cast(type_)
        if kind is Kind.NULL:
            return pa.nulls(len(values))
        if kind in (Kind.INSTANT, Kind.LOCAL):
            return values.cast(pa.timestamp("us", type_.tz)).cast(type_)
        if kind is Kind.DATE:
            return pc.divide(values, DAY_US).cast(pa.int32()).cast(pa.date32()).cast(type_)
        return values.cast(pa.duration("us")).cast(type_) if kind is Kind.DURATION else values.cast(type_)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"a result of type {type_} does not fit: {error}", hint="cast the column to a wider type first"
        ) from error


def step_us(type_: pa.DataType) -> int:
    """Return the resolution of a type of times in microseconds, at least 1."""
    if pa.types.is_timestamp(type_):
        return {"s": 1_000_000, "ms": 1_000}.get(type_.unit, 1)
    return DAY_US if pa.types.is_date(type_) else 1


def numbers(column: pa.Array, kind: Kind) -> npt.NDArray[Any]:
    """Return a column as a contiguous array, 0 for nulls; without a copy if possible."""
    if column.null_count:
        column = column.fill_null(False if kind is Kind.BOOL else 0)
    if kind is Kind.FLOAT:
        return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def null_bits(columns: list[pa.Array], length: int) -> npt.NDArray[np.int64] | None:
    """Return one word for each event, with a bit for each null column; None if no column has nulls."""
    if not any(column.null_count or _null_in_dictionary(column) for column in columns):
        return None
    bits = np.zeros(length, np.int64)
    for i, column in enumerate(columns):
        if column.null_count or _null_in_dictionary(column):
            null = (
                column.cast(column.type.value_type).is_null()
                if _null_in_dictionary(column)
                else column.is_null()
            )
            bits |= np.asarray(null).astype(np.int64) << i
    return bits


def _null_in_dictionary(column: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(column.type) and column.dictionary.null_count > 0)


# ---- tables of other libraries

_TABLES = "give a Spark DataFrame, or a table that speaks Arrow: pyarrow, pandas, Polars, a DuckDB result"
_INSTEAD = {"SparkSession": "give one of its tables: spark.table('…'); cerise.sql(spark, …) takes SQL"}


def library_of(events: Any) -> str:
    """Return the kind of a table: 'pandas', 'polars', 'lazy', 'dicts'; 'arrow' for any other."""
    module, name = events.__class__.__module__.split(".")[0], events.__class__.__name__
    if module == "pandas" and name == "DataFrame":
        return "pandas"
    if module == "polars" and name in ("DataFrame", "LazyFrame"):
        return "polars" if name == "DataFrame" else "lazy"
    return "dicts" if is_dicts(events) else "arrow"


def common_library(tables: Iterable[Any]) -> str:
    """Return the kind that all tables have; 'arrow' if they differ."""
    kinds = {library_of(each) for each in tables}
    return kinds.pop() if len(kinds) == 1 else "arrow"


def is_dicts(events: Any) -> bool:
    """Whether events are a list of dicts, one for each."""
    return isinstance(events, list) and bool(events) and all(isinstance(each, dict) for each in events)


def in_library(found: Any, library: str) -> Any:
    """Return an answer as a table of a library; one that is not an Arrow table stays as it is."""
    if not isinstance(found, pa.Table) or library == "arrow":
        return found
    if library == "pandas":
        return _as_pandas(found)
    if library == "dicts":
        return found.to_pylist()
    import polars as pl

    frame = pl.from_arrow(found)
    assert isinstance(frame, pl.DataFrame)
    return frame.lazy() if library == "lazy" else frame


def _as_pandas(found: pa.Table) -> Any:
    """Return a pandas DataFrame; integers and booleans with nulls get the types of pandas that hold them."""
    import pandas as pd

    exact = {
        pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(), pa.uint8(): pd.UInt8Dtype(), pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(), pa.uint64(): pd.UInt64Dtype(), pa.bool_(): pd.BooleanDtype(),
    }  # fmt: skip
    columns: dict[int, Any] = {}
    for i, column in enumerate(found.columns):
        nullable = exact.get(column.type) if column.null_count else None
        part = pa.table([column], names=["c"]).to_pandas(types_mapper={column.type: nullable}.get)
        columns[i] = part["c"]
    frame = pd.DataFrame(columns, index=pd.RangeIndex(len(found)))
    frame.columns = pd.Index(found.column_names)
    return frame


def to_arrow(events: Any) -> pa.Table:
    """Return a table of any library as an Arrow table, by the Arrow PyCapsule protocol."""
    if isinstance(events, pa.Table):
        return events
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    kind, name = library_of(events), events.__class__.__name__
    try:
        if kind == "pandas":
            return _drop_default_types(events, pa.Table.from_pandas(events, preserve_index=False))
        if kind == "lazy":
            return pa.table(events.collect())
        if kind == "dicts":
            return pa.Table.from_pylist(_with_all_keys(events))
        if name in ("FileSystemDataset", "InMemoryDataset", "UnionDataset"):
            return events.to_table()
        if hasattr(events, "__arrow_c_stream__"):
            return pa.table(events)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"the {name} does not become an Arrow table: {error}", hint="mend or drop the column"
        ) from error
    raise UnsupportedError(f"cannot find patterns in a {name}", hint=_INSTEAD.get(name, _TABLES))


def _with_all_keys(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return dicts whose first one has every key: Arrow takes the columns from there."""
    names = dict.fromkeys(name for each in events for name in each)
    return [{**dict.fromkeys(names), **events[0]}, *events[1:]]


def _drop_default_types(frame: Any, table: pa.Table) -> pa.Table:
    """Return a table of null columns for an empty pandas DataFrame that has only default types."""
    if len(frame) or not all(str(each) in ("object", "float64") for each in frame.dtypes):
        return table
    return pa.table({name: pa.nulls(0) for name in table.column_names})
