"""Columns as integers that are equal, and ordered, where their values are: as Spark orders them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.rows.matches import Bools, Ints
from cerise.errors import UnsupportedError
from cerise.kinds import Kind, canonical, kind_of

NUMERIC = {Kind.INT, Kind.BOOL, Kind.INSTANT, Kind.LOCAL, Kind.DATE, Kind.DURATION, Kind.NULL}
LARGEST = 2**62
CLOSE = 4  # values for each row at most, so that a table of them is not much larger than the rows


def ranks(column: pa.Array | pa.ChunkedArray, name: str) -> tuple[Ints, Bools | None]:
    """Return the rank of each value, and which rows are null (None: none); the rank of null says nothing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = kind_of(column.type)
    nulls = np.asarray(pc.is_null(column)) if column.null_count else None
    if kind is Kind.FLOAT:
        return _double_ranks(canonical(column, kind, name)), nulls
    if kind in NUMERIC:
        return np.asarray(canonical(column, kind, name).cast(pa.int64()).fill_null(0), dtype=np.int64), nulls
    return _sorted_codes(column, name), nulls


def codes(column: pa.Array | pa.ChunkedArray, name: str) -> tuple[Ints, int]:
    """Return numbers below a bound, equal and ordered as the values are, null before all, and the bound."""
    if pa.types.is_dictionary(column.type):
        return _dictionary_codes(column, name)
    rank, nulls = ranks(column, name)
    if len(rank) and int(rank.max()) - int(rank.min()) < CLOSE * len(rank):  # they are codes already
        least = int(rank.min()) - 1
        near = rank - least
        return near if nulls is None else np.where(nulls, 0, near), int(rank.max()) - least + 1
    encoded = pa.array(rank, mask=nulls).dictionary_encode()
    distinct = np.asarray(encoded.dictionary)
    place = np.empty(len(distinct) + 1, np.int64)
    place[np.argsort(distinct)] = np.arange(1, len(distinct) + 1)
    place[-1] = 0
    return place[np.asarray(encoded.indices.fill_null(len(distinct)))], len(distinct) + 1


def _dictionary_codes(column: pa.Array | pa.ChunkedArray, name: str) -> tuple[Ints, int]:
    """As `codes`, of a column that has codes already: only its distinct values are ranked."""
    whole = column.unify_dictionaries().combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    place, bound = codes(whole.dictionary, name)
    missing = np.append(place, 0)  # of a row without a value
    indices = whole.indices.fill_null(len(place)) if whole.indices.null_count else whole.indices
    return missing[np.asarray(indices)], bound


def joint_codes(columns: list[tuple[str, pa.Array | pa.ChunkedArray]], rows: int) -> tuple[Ints, int]:
    """Return numbers below a bound, equal and ordered as the values of several columns are, and the bound."""
    joint, bound = np.zeros(rows, np.int64), 1
    for name, column in columns:
        number, count = codes(column, name)
        if bound * count > LARGEST:
            joint, bound = codes(pa.array(joint), name)
        joint, bound = joint * count + number, bound * count
    return joint, bound


def _double_ranks(column: pa.Array) -> Ints:
    """-0.0 equals 0.0, NaN equals itself and is above all."""
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int64)
    flipped: Ints = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # negative ones are stored upside down
    return flipped


def _sorted_codes(column: pa.Array | pa.ChunkedArray, name: str) -> Ints:
    """The place of each value among the distinct ones: for text (by code point) and whatever else has one."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    try:
        encoded = array.dictionary_encode()
        order = pc.rank(encoded.dictionary, tiebreaker="dense")
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(
            f"values of column '{name}', of type {column.type}, have no order",
            hint="partition, order and compare by columns of simple types: name fields, or cast to string",
        ) from error
    place = np.append(np.asarray(order, dtype=np.int64), 0)
    return place[np.asarray(encoded.indices.fill_null(len(place) - 1), dtype=np.int64)]
