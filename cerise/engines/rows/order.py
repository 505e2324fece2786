"""Sorts rows for the search: by partition, then by ORDER BY (M2, M4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from cerise.engines.base import Bools, Ints, Masks
from cerise.engines.results.value_codes import codes, joint_codes, ranks
from cerise.engines.threads import ALONE, Threads, room, take_values
from cerise.kinds import Kind, kind_of
from cerise.pattern.row_pattern import BoundRows, Order
from cerise.ties import Read, find_ties, tie_order

SPARSE, FEW = 8, 1024  # more codes than 8 per row and 1024 are renumbered


@dataclass(frozen=True, slots=True)
class Ordered:
    """Rows in the order of the search.

    Attributes:
        table: the rows; each of its columns is one chunk.
        order: their numbers in the table, sorted; None: the table is in order.
        offsets: where partitions start in this order, and the number of rows.
        keys: the values of partition columns, one for each partition.
        undecided: the positions of rows that ORDER BY leaves equal to the row before, if hashes break ties.
    """

    table: pa.Table
    order: Ints | None
    offsets: Ints
    keys: dict[str, pa.Array]
    undecided: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def places(self, rows: Ints) -> Ints:
        """Return the row numbers in the table of rows given by their positions in the order."""
        return rows if self.order is None else self.order[rows]


def sort_rows(
    bound: BoundRows,
    table: pa.Table,
    threads: Threads = ALONE,
    partitions: PartitionFilter | None = None,
    ties: Sequence[Sequence[str]] = (),
) -> Ordered:
    """Sort the rows of a table; the sort is stable.

    Args:
        bound: the clause.
        table: the rows, with derived columns.
        threads: the threads that share the work.
        partitions: the partitions to search; None: all.
        ties: the columns whose hashes break ties (`ties.tie_order`).
    """
    code, count = _partition_codes(bound, table, threads)
    rows = None if partitions is None else partitions.rows(code, count, threads)
    keys = [key for each in bound.order for key in _sort_keys(each, table)]
    if rows is not None:
        code, keys = take_values(code, rows, threads), [take_values(key, rows, threads) for key in keys]
    order, offsets = _sort(code, count, keys, threads)
    same = _find_ties(keys, order, offsets) if ties else np.zeros(0, np.bool_)
    if rows is not None:
        order = take_values(rows, order, threads)
    if same.any():
        order = _break_ties(table, order, same, ties)
    values = _key_values(bound, table, order, offsets)
    return Ordered(table, order, offsets, values, np.flatnonzero(same) + 1)


def _partition_codes(bound: BoundRows, table: pa.Table, threads: Threads) -> tuple[Ints, int]:
    """Return the code of the partition of each row, and a bound for codes that is linear in the rows."""
    columns = [(name, table.column(name)) for name in bound.partition]
    code, count = joint_codes(columns, len(table), threads)
    if count <= SPARSE * len(table) + FEW:
        return code, count
    return codes(pa.array(code), ", ".join(bound.partition), threads)


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """The partitions that can hold a match: they have a possible row for each label that every match needs.

    Attributes:
        masks: the labels that each row could have.
        needs: a bit for each label that every match needs.
    """

    masks: Masks
    needs: int

    def rows(self, code: Ints, count: int, threads: Threads) -> Ints | None:
        """Return the rows of these partitions, given the partition code of each row; None: all rows."""
        from cerise.engines.rows.passes import choose, note

        def note_labels(share: tuple[int, int]) -> Masks:
            present = np.zeros(count, np.uint8)
            note(code[slice(*share)], self.masks[slice(*share)], present)
            return present

        present = np.bitwise_or.reduce(threads.each(note_labels, threads.shares(len(code))))

        def choose_rows(share: tuple[int, int]) -> Ints:
            found: Ints = np.empty(share[1] - share[0] + 1, np.int64)
            return found[: choose(code[slice(*share)], present, self.needs, share[0], found)]

        rows: Ints = np.concatenate(threads.each(choose_rows, threads.shares(len(code))))
        return rows if len(rows) < len(code) else None


def _key_values(bound: BoundRows, table: pa.Table, order: Ints | None, offsets: Ints) -> dict[str, pa.Array]:
    """Return shown partition columns, a value per partition, for kinds whose equal values look the same."""
    shown = {each.name for each in bound.output if not each.measure}
    kinds = {name: kind_of(table.schema.field(name).type) for name in bound.partition}
    names = [name for name in bound.partition if name in shown and kinds[name] in SAME]
    firsts = pa.array(offsets[:-1] if order is None else order[offsets[:-1]])
    return {name: _one(table.column(name).take(firsts)) for name in names}


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


SAME = frozenset({Kind.INT, Kind.STRING, Kind.BOOL, Kind.DATE, Kind.INSTANT, Kind.LOCAL})


# ---- ties


def _find_ties(keys: list[Ints], order: Ints | None, offsets: Ints) -> Bools:
    """Tell for each row but the first whether it ties with the row before, in partition and sort keys."""
    same = np.ones(max(int(offsets[-1]) - 1, 0), np.bool_)
    same[offsets[1:-1] - 1] = False
    for key in keys:
        in_order = key if order is None else key[order]
        same &= in_order[1:] == in_order[:-1]
    return same


def _break_ties(table: pa.Table, order: Ints | None, same: Bools, ties: Sequence[Sequence[str]]) -> Ints:
    """Return the order with its ties broken by hashes."""
    order = np.arange(len(table)) if order is None else order.copy()
    tied, groups = find_ties(same), np.cumsum(np.append(True, ~same))
    some = order[tied]

    def read(names: Sequence[str]) -> Read:
        return lambda rows: [_plain(table.column(name).take(pa.array(some[rows]))) for name in names]

    order[tied] = some[tie_order(groups[tied], [read(names) for names in ties])]
    return order


def _plain(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return _one(column)


# ---- sorting


def _sort(code: Ints, count: int, keys: list[Ints], threads: Threads) -> tuple[Ints | None, Ints]:
    """Return the order of rows, None if they are in order already, and the offsets of partitions."""
    if count == 1:
        return (None if _ascending(keys, threads) else _by_keys(keys, threads)), _changes(code[:0], len(code))
    if _ascending([code], threads):
        keys = [code, *keys]
        return (None if _ascending(keys, threads) else _by_keys(keys, threads)), _changes(code, len(code))
    if _ascending(keys, threads):
        return _group(code, count, threads)
    first = _by_keys(keys, threads)
    order, offsets = _group(take_values(code, first, threads), count, threads)
    return take_values(first, order, threads), offsets


def _changes(code: Ints, rows: int) -> Ints:
    """Return the offsets of runs of equal codes, which ascend, and at the end the number of rows."""
    if not rows:
        return np.zeros(1, np.int64)
    return np.concatenate([[0], np.flatnonzero(code[1:] != code[:-1]) + 1, [rows]]).astype(np.int64)


def _by_keys(keys: list[Ints], threads: Threads) -> Ints:
    """Sort rows by keys, the first key first: by insertion if nearly sorted, else by numpy."""
    from cerise.engines.rows.passes import join, settle

    keys = [np.ascontiguousarray(key) for key in keys]
    order = room(len(keys[0]))
    order[:] = np.arange(len(order))
    addresses = np.array([key.ctypes.data for key in keys], np.int64)
    sort_input, shares = (int(addresses.ctypes.data), len(keys), order), threads.shares(len(order))
    late = any(threads.each(lambda share: settle(*sort_input, *share), shares))
    if late or any(join(*sort_input, *share) for share in shares[1:]):
        return np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    return order


def _group(code: Ints, count: int, threads: Threads) -> tuple[Ints, Ints]:
    """Sort rows by their codes with a stable counting sort, in linear time."""
    from cerise.engines.rows.passes import deal, tally

    if count > SPARSE * len(code) + FEW:
        distinct, code = np.unique(code, return_inverse=True)
        count = len(distinct)
    worth_sharing = count * (threads.limits.code_rows - 1) < len(code)
    shares = threads.shares(len(code)) if worth_sharing else [(0, len(code))]

    def count_codes(share: tuple[int, int]) -> Ints:
        counts = np.zeros(count, np.int64)
        tally(code[slice(*share)], counts)
        return counts

    counts = threads.each(count_codes, shares)
    total = np.sum(counts, axis=0)
    starts = np.cumsum(total) - total
    order = room(len(code))
    places = [starts + before for before in np.cumsum([np.zeros_like(total), *counts[:-1]], axis=0)]
    threads.each(lambda i: deal(code[slice(*shares[i])], shares[i][0], places[i], order), range(len(shares)))
    return order, np.append(starts[total > 0], len(code))


def _sort_keys(order: Order, table: pa.Table) -> list[Ints]:
    """Return integer sort keys of a column: where it has nulls, a key for them, then its ranks."""
    rank, nulls = ranks(table.column(order.column), order.column)
    if order.descending:
        rank = ~rank
    if nulls is None:
        return [rank]
    return [(~nulls if order.nulls_first else nulls).astype(np.int64), np.where(nulls, 0, rank)]


def _ascending(keys: list[Ints], threads: Threads) -> bool:
    rows = len(keys[0]) if keys else 0
    return all(threads.each(lambda block: _ascending_in(keys, *block), threads.blocks(max(rows - 1, 0))))


def _ascending_in(keys: list[Ints], start: int, stop: int) -> bool:
    tied = np.ones(stop - start, np.bool_)
    for key in keys:
        before, after = key[start:stop], key[start + 1 : stop + 1]
        if ((before > after) & tied).any():
            return False
        tied &= before == after
    return True
