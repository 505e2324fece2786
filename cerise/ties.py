"""Breaks ties of rows that have no order of their own (S1.2): by a hash of their values, then by the values.

An order by value would be biased: sorted by price, ties invent rises and hide falls. Results depend on the
hash, so it is the same in every version and on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from cerise.kinds import COMPUTABLE, Kind, canonical, kind_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
UInts = npt.NDArray[np.uint64]
Columns = Sequence[pa.Array]
Read = Callable[[Ints], Columns]  # the columns of some rows

NULL = np.uint64(0x9E37_79B9_7F4A_7C15)
MIX = (NULL, np.uint64(0xBF58_476D_1CE4_E5B9), np.uint64(0x94D0_49BB_1331_11EB))  # of splitmix64
STEP = np.uint64(0xD6E8_FEB8_6659_FD93)


def hash_columns(columns: Iterable[tuple[pa.Array, Kind]], rows: int) -> UInts:
    """Return a hash of each row's values, given in canonical form; strings may be dictionary codes."""
    hashed = np.zeros(rows, dtype=np.uint64)
    for column, kind in columns:
        hashed = mix(hashed * STEP + _hash_column(column, kind))
    return hashed


def hash_any(columns: Columns, rows: int) -> UInts:
    """Return a hash of each row's values, of any type; equal values (S4.6) have equal hashes."""
    hashed = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        hashed = mix(hashed * STEP + _hash_any(column))
    return hashed


def tie_order(
    groups: Ints, tiers: Sequence[Read], hash_rows: Callable[[Columns, int], UInts] = hash_any
) -> Ints:
    """Return the order of rows: by group, then for each tier by a hash of its columns, then by their values.

    Cost: a hash and a sort of the rows; a later tier is read only for rows that earlier tiers leave equal.

    Args:
        groups: the number of each row's group.
        tiers: the columns, from the first to decide to the last.
        hash_rows: hashes the rows of some columns.
    """
    if not tiers or not len(groups):
        return np.arange(len(groups))
    columns = tiers[0](np.arange(len(groups)))
    keys: list[npt.NDArray[Any]] = [groups, hash_rows(columns, len(groups))]
    order = sort_by_hash(groups, keys[1])
    same = _same([key[order] for key in keys])
    if same.any() and not _are_equal(columns, order, same):  # different values share a hash
        keys += [key for column in columns for key in _value_keys(column)]
        order = np.lexsort(keys[::-1])
        same = _same([key[order] for key in keys])
    tied = find_ties(same)
    if len(tied) and len(tiers) > 1:
        some, group = order[tied], np.cumsum(np.append(True, ~same))[tied]
        rest = [lambda rows, read=read: read(some[rows]) for read in tiers[1:]]
        order[tied] = some[tie_order(group, rest, hash_rows)]
    return order


def find_ties(same: Bools) -> Ints:
    """Return rows that equal a neighbour; `same`: whether each row after the first equals the row before."""
    return np.flatnonzero(np.append(same, False) | np.append(False, same))


def equal_neighbours(column: pa.Array) -> Bools:
    """Return whether each value but the first equals the value before it; two nulls are equal (S4.6)."""
    return _equal(column.slice(0, max(len(column) - 1, 0)), column.slice(1))


def float_rank(column: pa.Array) -> pa.Array:
    """Return integers that sort as Spark sorts doubles: -0.0 equals 0.0, and NaN is the greatest."""
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    values[np.isnan(values)] = np.nan
    bits = values.view(np.int64)
    rank = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    return pa.array(rank, mask=np.asarray(column.is_null()))


def mix(values: UInts) -> UInts:
    """Spread 64 bits over 64 bits (the finaliser of splitmix64)."""
    x: UInts = values + MIX[0]
    x ^= x >> np.uint64(30)
    x *= MIX[1]
    x ^= x >> np.uint64(27)
    x *= MIX[2]
    x ^= x >> np.uint64(31)
    return x


def sort_by_hash(groups: Ints, hashed: UInts) -> Ints:
    """Return the order of rows by group and hash.

    Packs the group and the upper bits of the hash into one word: if groups ascend, the words are nearly
    sorted, which a stable sort is fast on.
    """
    least = int(groups.min())
    bits = (int(groups.max()) - least).bit_length()
    word = ((groups - least) << (63 - bits)) | (hashed >> np.uint64(1 + bits)).astype(np.int64)
    order = np.argsort(word, kind="stable")
    before, after = order[:-1], order[1:]
    differ = hashed[before] != hashed[after]
    cut = (word[before] == word[after]) & differ  # only lower bits, which the word lacks, differ
    return np.lexsort((hashed, groups)) if cut.any() else order


# ---- values


def _same(keys: Sequence[npt.NDArray[Any]]) -> Bools:
    return np.asarray(np.logical_and.reduce([key[1:] == key[:-1] for key in keys]))


def _comparable(column: pa.Array) -> pa.Array:
    """Return values in a form that Arrow compares by the rules of S4.6."""
    kind = kind_of(column.type)
    values = canonical(column, kind, "")
    return float_rank(values) if kind is Kind.FLOAT else values


def _equal(left: pa.Array, right: pa.Array) -> Bools:
    left, right = _comparable(left), _comparable(right)
    equal = np.asarray(pc.equal(left, right).fill_null(False))
    return np.asarray(equal | (np.asarray(left.is_null()) & np.asarray(right.is_null())))


def _are_equal(columns: Columns, order: Ints, same: Bools) -> bool:
    """Whether neighbours in the order with equal hashes are also equal in all columns."""
    before, after = (pa.array(order[rows]) for rows in (np.flatnonzero(same), np.flatnonzero(same) + 1))
    known = (each for each in columns if kind_of(each.type) in COMPUTABLE)
    return all(bool(_equal(each.take(before), each.take(after)).all()) for each in known)


def _value_keys(column: pa.Array) -> list[Ints]:
    """Return integer keys that sort a column, nulls first; no keys if its values have no order."""
    if kind_of(column.type) not in COMPUTABLE:
        return []
    values = _comparable(column)
    plain = values.cast(pa.int64()) if pa.types.is_boolean(values.type) else values
    ranks = pc.rank(plain, "ascending", tiebreaker="dense")
    return [np.asarray(plain.is_valid()).astype(np.int64), np.asarray(ranks).astype(np.int64)]


# ---- hashes


def _hash_column(column: pa.Array, kind: Kind) -> UInts:
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()
    if kind is Kind.STRING:
        hashed = _hash_words(column)
    elif kind is Kind.FLOAT:
        values = column.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        values[np.isnan(values)] = np.nan
        hashed = values.view(np.uint64)
    else:
        hashed = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    return _hash_nulls(column, mix(hashed))


def _hash_nulls(column: pa.Array, hashed: UInts) -> UInts:
    return np.where(np.asarray(column.is_null()), NULL, hashed) if column.null_count else hashed


def _hash_words(column: pa.Array) -> UInts:
    """Return a hash of each text or byte string; each distinct value is hashed once."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    words = (word.encode() if isinstance(word, str) else word for word in encoded.dictionary.to_pylist())
    hashes = np.array([xxhash.xxh64_intdigest(word) for word in words] or [0], np.uint64)
    return np.asarray(hashes[np.asarray(encoded.indices.fill_null(0))])


def _hash_any(column: pa.Array) -> UInts:
    kind = kind_of(column.type)
    if pa.types.is_dictionary(column.type) and kind is not Kind.STRING:
        column = column.dictionary_decode()
    if kind in COMPUTABLE:
        return _hash_column(column if kind is Kind.STRING else canonical(column, kind, ""), kind)
    return _hash_nulls(column, mix(_hash_other(column)))


def _hash_other(column: pa.Array) -> UInts:
    types, type_ = pa.types, column.type
    if types.is_struct(type_):
        return hash_any(column.flatten(), len(column))
    if types.is_map(type_):
        column = column.cast(pa.list_(pa.struct([("key", type_.key_type), ("value", type_.item_type)])))
    if types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(type_):
        return _hash_lists(column)
    if types.is_binary(type_) or types.is_large_binary(type_):
        return _hash_words(column)
    texts = [repr(value).encode() for value in column.to_pylist()]
    return np.array([xxhash.xxh64_intdigest(each) for each in texts], np.uint64)


def _hash_lists(column: pa.Array) -> UInts:
    """Return for each list a hash of its length and its members, each at its position."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    position = (np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)).astype(np.uint64)
    members = mix(_hash_any(column.flatten()) + position * STEP)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(members)])
    return mix(sums[starts[1:]] - sums[starts[:-1]] + lengths.astype(np.uint64))
