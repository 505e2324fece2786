"""Columns as integers with the equality and the order of their values, as Spark orders them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.base import Bools, Ints
from cerise.engines.limits import Limits
from cerise.engines.threads import ALONE, Threads, room
from cerise.errors import UnsupportedError
from cerise.kinds import INT64_MIN, Kind, canonical, kind_of
from cerise.pattern.row_pattern import BoundRows

NUMERIC = {Kind.INT, Kind.BOOL, Kind.INSTANT, Kind.LOCAL, Kind.DATE, Kind.DURATION, Kind.NULL}
LARGEST = 2**62
CLOSE = 4  # the widest range of values, per row, for which values are codes as they are


def ranks(column: pa.Array | pa.ChunkedArray, name: str) -> tuple[Ints, Bools | None]:
    """Return the rank of each value, and whether it is null (None: no value is); null has any rank."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = kind_of(column.type)
    nulls = np.asarray(pc.is_null(column)) if column.null_count else None
    if kind is Kind.FLOAT:
        return _double_ranks(canonical(column, kind, name)), nulls
    if kind in NUMERIC:
        numbers = canonical(column, kind, name).cast(pa.int64())
        return np.asarray(numbers.fill_null(0) if nulls is not None else numbers, dtype=np.int64), nulls
    return _rank_values(column, name), nulls


def codes(column: pa.Array | pa.ChunkedArray, name: str, threads: Threads = ALONE) -> tuple[Ints, int]:
    """Return codes with the equality and order of values, null first, and a bound above all codes."""
    if pa.types.is_dictionary(column.type):
        return _dictionary_codes(column, name)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _codes_of_strings(column, name, threads)
    rank, nulls = ranks(column, name)
    low, high = (int(rank.min()), int(rank.max())) if len(rank) else (0, 0)
    if low > INT64_MIN and high - low < CLOSE * len(rank):  # shifted, the ranks are codes
        near = room(len(rank))
        threads.each(lambda block: _shift(rank, low - 1, near, block), threads.blocks(len(rank)))
        return near if nulls is None else np.where(nulls, 0, near), high - low + 2
    encoded = pa.array(rank, mask=nulls).dictionary_encode()
    distinct = np.asarray(encoded.dictionary)
    place = np.empty(len(distinct) + 1, np.int64)
    place[np.argsort(distinct)] = np.arange(1, len(distinct) + 1)
    place[-1] = 0
    return place[np.asarray(encoded.indices.fill_null(len(distinct)))], len(distinct) + 1


def _shift(numbers: Ints, by: int, out: Ints, block: tuple[int, int]) -> None:
    here = slice(*block)
    np.subtract(numbers[here], by, out=out[here])


def _codes_of_strings(column: pa.Array | pa.ChunkedArray, name: str, threads: Threads) -> tuple[Ints, int]:
    """Return the codes of strings: each thread numbers its strings, then the distinct strings are ranked."""
    whole = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    shares = threads.shares(len(whole))
    found: Ints = room(len(whole))

    def number_share(share: tuple[int, int]) -> pa.Array:
        column = whole.slice(share[0], share[1] - share[0])
        return _number_strings(column, found[slice(*share)], threads.limits)

    words = threads.each(number_share, shares)
    place = _rank_values(pa.concat_arrays(words), name)
    starts = np.cumsum([0, *map(len, words)])

    def rank_share(i: int) -> None:
        known = np.concatenate([[0], place[starts[i] : starts[i + 1]]])
        for low, high in threads.blocks(shares[i][1] - shares[i][0]):
            here = found[shares[i][0] + low : shares[i][0] + high]
            here[:] = known[here]

    threads.each(rank_share, range(len(shares)))
    return found, int(place.max(initial=0)) + 1


def _number_strings(column: pa.ChunkedArray, out: Ints, limits: Limits) -> pa.Array:
    """Write a number from 1 for each string, 0 for null; return the distinct strings in that order."""
    from cerise.kernels.strings import InternedStrings  # this brings numba

    known, done = InternedStrings(len(column), limits.first_strings, limits.most_strings), 0
    if pa.types.is_string(column.type):
        for chunk in column.chunks:
            if not known.numbers(chunk, out[done : done + len(chunk)]):
                break
            done += len(chunk)
    if done == len(column):
        return pa.concat_arrays([pa.array([], column.type), *known.words])
    coded = column.combine_chunks().dictionary_encode()
    out[:] = _indices(coded, -1)
    out += 1
    return coded.dictionary


def _dictionary_codes(column: pa.Array | pa.ChunkedArray, name: str) -> tuple[Ints, int]:
    """Return the codes of a dictionary-encoded column: only its distinct values are ranked."""
    whole = column.unify_dictionaries().combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    place, bound = codes(whole.dictionary, name)
    return np.append(place, 0)[_indices(whole, len(place))], bound


def _indices(column: pa.DictionaryArray, missing: int) -> Any:
    """Return the dictionary indices of a column, with `missing` for nulls."""
    return np.asarray(column.indices.fill_null(missing) if column.indices.null_count else column.indices)


def joint_codes(
    columns: list[tuple[str, pa.Array | pa.ChunkedArray]], rows: int, threads: Threads = ALONE
) -> tuple[Ints, int]:
    """Return codes with the equality and order of several columns' values, and a bound above all codes."""
    if not columns:
        return np.zeros(rows, np.int64), 1
    (name, column), *others = columns
    joint, bound = codes(column, name, threads)
    for name, column in others:
        number, count = codes(column, name, threads)
        if bound * count > LARGEST:
            joint, bound = codes(pa.array(joint), name)
        joint, bound = joint * count + number, bound * count
    return joint, bound


def partitions(bound: BoundRows, table: pa.Table) -> Ints:
    """Return the first row of each partition of a prepared table, and at the end the number of rows."""
    rows = table.num_rows
    if not rows:
        return np.zeros(1, np.int64)
    code, _ = joint_codes([(name, table.column(name)) for name in bound.partition], rows)
    inner = np.flatnonzero(code[1:] != code[:-1]) + 1
    return np.concatenate([[0], inner, [rows]]).astype(np.int64)


def _double_ranks(column: pa.Array) -> Ints:
    """Return the ranks of doubles: -0.0 equals 0.0, NaN equals itself and is above all others."""
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int64)
    flipped: Ints = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # the bits of negative doubles descend
    return flipped


def _rank_values(column: pa.Array | pa.ChunkedArray, name: str) -> Ints:
    """Return the rank of each value among the distinct values: text by code point, others as in Arrow."""
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
