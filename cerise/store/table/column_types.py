"""The types of the columns of an event table, and the conversion of appended events to them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from cerise import kinds
from cerise.errors import DataError, StoreError, did_you_mean
from cerise.files.types import leaf_paths, spark_type, wider
from cerise.store.table.settings import SEQUENCE_FIELD

DIGITS = 38  # of a decimal in a Delta table


def to_delta_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a table for events of a schema, with the sequence added.

    Raises:
        StoreError: a column has a type that Delta tables lack, or a reserved name.
    """
    if SEQUENCE_FIELD.name in schema.names:
        raise StoreError(
            f"'{SEQUENCE_FIELD.name}' is the name of the column for the order of arrival",
            hint="rename the column",
        )
    columns = pa.schema(
        [*(pa.field(each.name, to_delta_type(each.type, each.name)) for each in schema), SEQUENCE_FIELD]
    )
    joined = Counter(".".join(path) for path in leaf_paths(columns))
    for name, times in joined.items():
        if times > 1:
            raise StoreError(f"two columns are called {name} in Parquet files", hint="rename one of them")
    return columns


def to_delta_type(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type in which a Delta table stores values without loss.

    Raises:
        StoreError: Delta tables lack such a type.
    """
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return to_delta_type(kind.storage_type, name)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return to_delta_type(kind.value_type, name)
    if types.is_map(kind):
        return pa.map_(to_delta_type(kind.key_type, name), to_delta_type(kind.item_type, name))
    if types.is_struct(kind):
        return pa.struct([pa.field(each.name, to_delta_type(each.type, name)) for each in kind])
    if any(test(kind) for test in _LISTS):
        return pa.list_(pa.field("element", to_delta_type(kind.value_type, name)))
    if types.is_decimal(kind) and kind.precision <= DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if any(test(kind) for test in _UNKNOWN):
        raise StoreError(
            f"column '{name}' has type {kind}, which Delta tables do not have",
            hint="cast it first: durations and times of day to int64, columns of nulls to their later type",
        )
    return next((plain for test, plain in _PLAIN if test(kind)), None) or spark_type(kind)


_LISTS = (
    pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view,
    pa.types.is_large_list_view,
)  # fmt: skip
_UNKNOWN = (
    pa.types.is_duration, pa.types.is_time, pa.types.is_interval, pa.types.is_null, pa.types.is_union,
    pa.types.is_decimal256,
)  # fmt: skip
_PLAIN = (
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
)


def check(given: pa.Schema, columns: pa.Schema) -> None:
    """Refuse events whose columns do not fit the table.

    Raises:
        StoreError: a column is missing, is new, occurs twice, or has another type.
    """
    wanted = [name for name in columns.names if name != SEQUENCE_FIELD.name]
    for name in given.names:
        if name not in wanted:
            raise StoreError(
                f"the events have a column '{name}' that the table has not",
                hint=f"drop it, or create a table with it; {did_you_mean(name, wanted)}",
            )
    for name in wanted:
        if (times := given.names.count(name)) != 1:
            raise StoreError(
                f"the events have {'no' if not times else 'more than one'} column '{name}'",
                hint="give the columns of the table; a column of nulls may stand for one without values",
            )
        _check_type(name, given.field(name).type, columns.field(name).type)


def _check_type(name: str, given: pa.DataType, stored: pa.DataType) -> None:
    kind = given if pa.types.is_null(given) else to_delta_type(given, name)
    if wider(stored, kind) != stored:
        hint = f"cast it to {stored} first"
        if pa.types.is_floating(given) and pa.types.is_integer(stored):
            hint += f"; a DataFrame of pandas whose integers have nulls: df.astype({{'{name}': 'Int64'}})"
        raise StoreError(f"column '{name}' has type {given}, and the table keeps {stored}", hint=hint)


def fit_columns(table: pa.Table, columns: pa.Schema, time: str, first: int) -> pa.Table:
    """Return events in the columns of the table, without their sequence.

    Args:
        table: the events; `check` has accepted their schema.
        columns: the columns of the table.
        time: the column of times.
        first: the number of the first row in its append, for messages.

    Raises:
        DataError: an event has no time, or a value does not fit.
    """
    fits = cast_columns(table, pa.schema([each for each in columns if each.name != SEQUENCE_FIELD.name]))
    times = fits.column(time)
    if times.null_count:
        rows = np.flatnonzero(np.asarray(times.is_null().combine_chunks())) + first
        shown = ", ".join(map(str, rows[:5].tolist())) + (", …" if len(rows) > 5 else "")
        raise DataError(
            f"{len(rows)} of {len(times)} events have no time: '{time}' is null in rows {shown}",
            hint=f"rows count from 0; filter them out first: WHERE {time} IS NOT NULL",
        )
    return fits


def cast_columns(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return a table in the columns and types of another.

    Raises:
        DataError: a value does not fit.
    """
    return pa.table({each.name: _cast(table.column(each.name), each) for each in columns}, schema=columns)


def complete(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return events of an older file in the columns of the table; columns added later are null."""
    for each in columns:
        if each.name not in table.column_names:
            table = table.append_column(each, pa.nulls(len(table), each.type))
    return table.select(columns.names).cast(columns)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        return column.cast(kinds.plain(column.type)).cast(
            field.type
        )  # Arrow cannot cast a dictionary of views at once
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"column '{field.name}' of type {column.type} has values that {field.type} cannot hold: {error}",
            hint="cast the column yourself, and decide what becomes of these values",
        ) from error
