"""Encodes values as integers that keep their order, and decodes them without loss.

Each block chooses the encoding of a column: WHOLE, the integer as stored; DECIMAL + s, doubles with few
decimals as multiples of 10^-s; BITS, the bits of other doubles; WORDS, the position of a string in the
block's sorted dictionary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.errors import DataError
from cerise.events import Ints
from cerise.kinds import Kind, canonical, kind_of
from cerise.store.index.decimals import as_decimals

WHOLE, DECIMAL, BITS, WORDS = 0, 1, 8, 9
MOST_DECIMALS = 6
MAGNITUDE = np.int64(2**63 - 1)
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as integers.

    Attributes:
        codes: a code for each row; 0 for null.
        valid: a mask of the rows with a value; None: all.
        encoding: the encoding of the codes.
        words: the distinct strings, sorted by their bytes, if the encoding is WORDS.
    """

    codes: Ints
    valid: Flags | None
    encoding: int
    words: pa.Array | None = None


def encode(column: pa.Array, name: str) -> Coded:
    """Return the values of a column as integers."""
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    valid = np.asarray(column.is_valid()) if column.null_count else None
    match kind_of(column.type):
        case Kind.STRING:
            return _words(column, valid, name)
        case Kind.FLOAT if not pa.types.is_decimal(column.type):
            codes, encoding = _number_codes(column)
        case _:
            codes, encoding = _whole(column, name), WHOLE
    if valid is not None:
        codes[~valid] = 0
    return Coded(codes, valid, encoding)


def decode(codes: Ints, valid: Flags | None, encoding: int, type_: pa.DataType) -> pa.Array:
    """Return the values of a type that codes encode; not for WORDS."""
    if pa.types.is_dictionary(type_):
        return in_dictionary(decode(codes, valid, encoding, type_.value_type), type_)
    mask = None if valid is None else ~valid
    if encoding >= DECIMAL:
        return pa.array(numbers(codes, encoding, type_), mask=mask).cast(type_)
    if pa.types.is_decimal(type_):
        return _decimals(codes, valid, type_)
    if pa.types.is_null(type_):
        return pa.nulls(len(codes))
    if pa.types.is_boolean(type_):
        return pa.array(codes.astype(np.bool_), mask=mask)
    array = pa.array(codes, mask=mask)
    return array.cast(pa.int32()).cast(type_) if pa.types.is_date32(type_) else array.cast(type_)


def in_dictionary(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return values as a dictionary of the given type; with wider indices if there are too many values."""
    found = values.dictionary_encode()
    fits = len(found.dictionary) <= np.iinfo(type_.index_type.to_pandas_dtype()).max
    indices = found.indices.cast(type_.index_type) if fits else found.indices
    return pa.DictionaryArray.from_arrays(
        indices, found.dictionary.cast(type_.value_type), ordered=type_.ordered
    )


def numbers(codes: Ints, encoding: int, type_: pa.DataType) -> Any:
    """Return the doubles, or 32-bit floats, that codes encode."""
    narrow = is_narrow(type_)
    if encoding == BITS:
        bits = np.where(codes < 0, codes ^ (np.int64(2**31 - 1) if narrow else MAGNITUDE), codes)
        return bits.astype(np.int32).view(np.float32) if narrow else bits.view(np.float64)
    values = codes / 10.0 ** (encoding - DECIMAL)
    return values.astype(np.float32) if narrow else values


def is_narrow(type_: pa.DataType) -> bool:
    """Tell whether a floating type has 32 bits or fewer."""
    return type_ in (pa.float32(), pa.float16())


def _number_codes(column: pa.Array) -> tuple[Ints, int]:
    narrow = is_narrow(column.type)
    column = column.cast(pa.float32() if narrow else pa.float64())
    values = np.array(column.fill_null(0.0))
    codes = np.empty(len(values), np.int64)
    decimals = as_decimals(values.astype(np.float64, copy=False), narrow, codes)
    return (codes, DECIMAL + decimals) if decimals >= 0 else (_bits(values), BITS)


def _bits(values: npt.NDArray[Any]) -> Ints:
    """Return the bits of floats as integers in the same order: -0.0 below 0.0, NaN above all."""
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int32 if values.dtype == np.float32 else np.int64).astype(np.int64)
    magnitude = np.int64(2**31 - 1) if values.dtype == np.float32 else MAGNITUDE
    return np.where(bits < 0, bits ^ magnitude, bits)


def _words(column: pa.Array, valid: Flags | None, name: str) -> Coded:
    try:
        found = column.cast(pa.string()).dictionary_encode()
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        raise DataError(
            f"a row group has more text in '{name}' than an index can hold: {error}",
            hint="write smaller row groups, or leave the column out of the index",
        ) from error
    order = np.asarray(pc.array_sort_indices(found.dictionary), np.int64)
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = 0
    indices = found.indices.fill_null(len(order)) if found.null_count else found.indices
    return Coded(rank[np.asarray(indices)], valid, WORDS, found.dictionary.take(pa.array(order)))


def _whole(column: pa.Array, name: str) -> Ints:
    type_ = column.type
    if pa.types.is_decimal(type_):
        return _unscale(column)
    if pa.types.is_null(type_):
        return np.zeros(len(column), np.int64)
    if pa.types.is_integer(type_):
        column = canonical(column, Kind.INT, name)
    elif pa.types.is_boolean(type_):
        column = column.cast(pa.uint8())
    else:
        column = column.cast(pa.int32() if pa.types.is_date32(type_) else pa.int64())
    return np.array(column.fill_null(0) if column.null_count else column, np.int64)


def _unscale(column: pa.Array) -> Ints:
    """Return decimals as integers without their scale; these fit into 64 bits."""
    size = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8)
    rows = data[column.offset * size : (column.offset + len(column)) * size].reshape(len(column), size)
    return np.ascontiguousarray(rows[:, :8]).view(np.int64 if size >= 8 else np.int32)[:, 0].astype(np.int64)


def _decimals(codes: Ints, valid: Flags | None, type_: pa.DataType) -> pa.Array:
    size = type_.byte_width
    words = np.repeat((codes >> 63)[:, None], max(size // 8, 1), axis=1)
    words[:, 0] = codes
    data = np.ascontiguousarray(words.view(np.uint8)[:, :size])
    known = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(type_, len(codes), [known, pa.py_buffer(data)])
