"""The input of a search: sorted rows as words of memory, and masks of the labels that each could have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.base import Ints, Masks
from cerise.engines.rows.order import Ordered
from cerise.engines.rows.prepare import compute_column
from cerise.engines.rows.program import Program
from cerise.engines.rows.records import BYTE
from cerise.engines.rows.scope import Conditions
from cerise.engines.threads import ALONE, Threads, room, take_values
from cerise.events import raw_column
from cerise.kinds import INT64_MAX, INT64_MIN, canonical, kind_of
from cerise.pattern.row_pattern import BoundRows

if TYPE_CHECKING:
    from cerise.engines.results.columns import ColumnValues


@dataclass(frozen=True, slots=True)
class SearchInput:
    """Sorted rows, which any number of searches may read at once.

    Attributes:
        program: the compiled clause.
        offsets: where partitions start, and the number of rows.
        values: the columns that conditions read.
        times: the times for WITHIN, ascending in each partition.
        no_time: the number that stands for null in `times`.
        masks: the labels that each row could have, as known before the search.
    """

    program: Program
    offsets: Ints
    values: ColumnValues
    times: Ints
    no_time: int
    masks: Masks

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @classmethod
    def of(
        cls, program: Program, rows: Ordered, masks: Masks | None, threads: Threads = ALONE
    ) -> SearchInput:
        """Return the input of a search.

        Args:
            program: the compiled clause.
            rows: the rows.
            masks: the labels that each row of their table could have by itself; None: any.
            threads: the threads that share the work.
        """
        from cerise.engines.results.columns import TableColumns  # imports numba

        conditions, table = program.conditions, rows.table
        for each in conditions.derived:
            table = table.append_column(pa.field(each.name, each.type), compute_column(each, table))
        columns = TableColumns(conditions.columns, conditions.texts, conditions.literal_only)
        values = columns.read(table, rows.order, threads)
        offsets = np.ascontiguousarray(rows.offsets)
        own_masks, room = room_for_masks(len(rows), len(program.bound.labels))
        _write_masks(own_masks, masks, rows.order, threads)
        if conditions.judged:
            near_masks(conditions, values.words, offsets, threads, own_masks)
        times, no_time = _times(program.bound, rows, threads)
        return cls(program, offsets, values, times, no_time, room)


def _write_masks(target: Masks, masks: Masks | None, order: Ints | None, threads: Threads) -> None:
    """Write masks in the order of the search."""

    def write(block: tuple[int, int]) -> None:
        here = slice(*block)
        if masks is None:
            target[here] = -1 if target.dtype == np.int64 else 255
        else:
            target[here] = masks[here] if order is None else masks[order[here]]

    threads.each(write, threads.blocks(len(target)))


def _times(bound: BoundRows, rows: Ordered, threads: Threads) -> tuple[Ints, int]:
    if bound.within is None:
        return np.zeros(1, np.int64), 0
    name = bound.order[0].column
    column = raw_column(rows.table, (name,))
    times = canonical(column, kind_of(column.type), name).cast(pa.int64())
    none = _spare_number(times)
    known = np.asarray(times.fill_null(none) if times.null_count else times, dtype=np.int64)
    found = np.ascontiguousarray(take_values(known, rows.order, threads))
    return (~found, ~none) if bound.order[0].descending else (found, none)


def _spare_number(numbers: pa.Array) -> int:
    """Return a number that is not among the numbers."""
    ends = pc.min_max(numbers)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None:
        return 0
    if low > INT64_MIN:
        return int(low) - 1
    if high < INT64_MAX:
        return int(high) + 1
    used = set(numbers.to_pylist())
    return next(each for each in range(len(used) + 1) if each not in used)


# ---- masks: the labels that a row could have by itself
#
# Conditions on one row alone are tested before rows are sorted. So the columns that only they read are not
# sorted, and rows that no match can hold are dropped first.


class Judge:
    """Computes masks of rows by conditions on single rows."""

    def __init__(self, conditions: Conditions, labels: int) -> None:
        from cerise.engines.results.columns import TableColumns  # imports numba

        self._conditions, self._type = conditions, mask_type(labels)
        self._edge = conditions.formulas.edge
        self._columns = TableColumns(conditions.columns, conditions.texts, conditions.literal_only)

    def masks(self, rows: pa.Table) -> Masks:
        """Return the mask of each row: a bit for each label that it could have by itself."""
        from cerise.engines.rows.search import judge_rows

        for each in self._conditions.derived:
            rows = rows.append_column(pa.field(each.name, each.type), compute_column(each, rows))
        values, count = self._columns.read(rows), len(rows)
        words, offsets, out = values.words(), np.array([0, count]), np.empty(count, np.int64)
        judge_rows(self._edge, words.ctypes.data, offsets.ctypes.data, 0, 0, count, out.ctypes.data)
        return out.astype(self._type)


def mask_type(labels: int) -> Any:
    """Return the type of masks: bytes if all labels fit, else words."""
    return np.uint8 if labels <= BYTE else np.int64


def room_for_masks(rows: int, labels: int) -> tuple[Masks, Masks]:
    """Return an array for masks, and the same with padding: kernels read whole words beyond the last mask."""
    whole: Masks = room(rows + BYTE, mask_type(labels))
    whole[rows:] = 0
    return whole[:rows], whole


def judge_table(conditions: Conditions, table: pa.Table, labels: int, threads: Threads = ALONE) -> Masks:
    """Return the mask of each row of a table; `labels` is the number of labels."""
    parts = threads.each(Judge(conditions, labels).masks, _batches(table, threads.limits.judged_rows))
    masks: Masks = np.concatenate([np.zeros(0, mask_type(labels)), *parts])
    return masks


def sift_rows(
    judge: Judge, table: pa.Table, names: list[str], wanted: int, threads: Threads
) -> tuple[pa.Table, Masks]:
    """Return the rows that could have one of the wanted labels, and their masks.

    Args:
        judge: computes the masks.
        table: the rows.
        names: the columns to keep.
        wanted: a bit for each wanted label.
        threads: the threads that share the work.
    """

    def sift(rows: pa.Table) -> tuple[pa.Table, Masks]:
        masks = judge.masks(rows)
        kept = (masks & masks.dtype.type(wanted)) != 0
        rows = rows.select(names)
        if kept.all():
            return rows, masks
        which = np.flatnonzero(kept)  # take is faster than filter
        return rows.take(pa.array(which)), masks[which]

    tables, masks = zip(
        *threads.each(sift, _batches(table, threads.limits.judged_rows) or [table]), strict=True
    )
    return pa.concat_tables(tables), np.concatenate(masks)


def _batches(table: pa.Table, rows: int) -> list[pa.Table]:
    return [pa.Table.from_batches([each]) for each in table.to_batches(max_chunksize=rows)]


def near_masks(
    conditions: Conditions, words: Callable[[], Ints], offsets: Ints, threads: Threads, out: Masks
) -> None:
    """Remove from masks the labels that a row cannot have because of other rows at a fixed distance.

    Args:
        conditions: the conditions.
        words: returns the context of generated code.
        offsets: where partitions start, and the number of rows.
        threads: the threads that share the work.
        out: the masks.
    """
    from cerise.engines.rows.search import judge_rows

    edge = conditions.formulas.edge

    def judge(block: tuple[int, int]) -> None:
        start, stop = block
        values, found = words(), np.empty(stop - start, np.int64)
        partition = int(np.searchsorted(offsets, start, "right")) - 1
        judge_rows(
            edge, values.ctypes.data, offsets.ctypes.data, partition, start, stop, found.ctypes.data
        )  # fmt: skip
        out[start:stop] &= found.astype(out.dtype)

    threads.each(judge, threads.blocks(int(offsets[-1])))
