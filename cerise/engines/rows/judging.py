"""Which labels rows could have by themselves: judged for all rows, some at a time, in any order.

What is asked of one row alone is judged before rows are sorted, so that the columns that only these
conditions read need not be moved, and rows that no match can hold go first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.engines.results.row_matches import Ints, Masks
from cerise.engines.rows.prepare import computed
from cerise.engines.rows.records import BYTE
from cerise.engines.rows.scope import Conditions
from cerise.engines.threads import ALONE, Crew, room


class Judge:
    """Tells which labels rows could have, as far as some conditions tell."""

    def __init__(self, conditions: Conditions, labels: int) -> None:
        from cerise.engines.results.columns import Columns  # these bring numba
        from cerise.kernels import formulas

        self._conditions, self._type = conditions, mask_type(labels)
        self._formulas = formulas.load(conditions.source)
        self._columns = Columns(conditions.columns, conditions.texts, conditions.literal_only)

    def masks(self, rows: pa.Table) -> Masks:
        """Return a bit for each label that each of some rows could have by itself."""
        from cerise.engines.rows.search import judge_rows

        for each in self._conditions.derived:
            rows = rows.append_column(pa.field(each.name, each.type), computed(each, rows))
        values, count = self._columns.read(rows), len(rows)
        words, offsets, out = values.words(), np.array([0, count]), np.empty(count, np.int64)
        judge_rows(self._formulas.edge, words.ctypes.data, offsets.ctypes.data, 0, 0, count, out.ctypes.data)
        return out.astype(self._type)


def mask_type(labels: int) -> Any:
    """Return the type of masks: bytes, where all labels have room in them."""
    return np.uint8 if labels <= BYTE else np.int64


def room_for_masks(rows: int, labels: int) -> tuple[Masks, Masks]:
    """Return room for masks, and all of it: words may be read behind the last of them."""
    whole: Masks = room(rows + BYTE, mask_type(labels))
    whole[rows:] = 0
    return whole[:rows], whole


def judged(conditions: Conditions, table: pa.Table, labels: int, crew: Crew = ALONE) -> Masks:
    """Return which labels, of so many, each row of a table could have by itself."""
    parts = crew.each(Judge(conditions, labels).masks, _batches(table, crew.limits.judged_rows))
    masks: Masks = np.concatenate([np.zeros(0, mask_type(labels)), *parts])
    return masks


def sifted(
    judge: Judge, table: pa.Table, names: list[str], wanted: int, crew: Crew
) -> tuple[pa.Table, Masks]:
    """Return the rows that could have one of the labels that are wanted, and which labels each could have.

    Args:
        judge: tells which labels a row could have.
        table: the rows.
        names: the columns that are still needed.
        wanted: a bit for each of these labels.
        crew: who does the work.
    """

    def sift(rows: pa.Table) -> tuple[pa.Table, Masks]:
        masks = judge.masks(rows)
        kept = (masks & masks.dtype.type(wanted)) != 0
        rows = rows.select(names)
        if kept.all():
            return rows, masks
        which = np.flatnonzero(kept)  # to take rows is faster than to filter them
        return rows.take(pa.array(which)), masks[which]

    tables, masks = zip(*crew.each(sift, _batches(table, crew.limits.judged_rows) or [table]), strict=True)
    return pa.concat_tables(tables), np.concatenate(masks)


def _batches(table: pa.Table, rows: int) -> list[pa.Table]:
    return [pa.Table.from_batches([each]) for each in table.to_batches(max_chunksize=rows)]


def near_masks(
    conditions: Conditions, words: Callable[[], Ints], offsets: Ints, crew: Crew, out: Masks
) -> None:
    """Take from masks the labels that rows cannot have because of the rows near them in their partition.

    Args:
        conditions: what is asked.
        words: gives the words that generated code is told.
        offsets: where partitions start, and the number of rows.
        crew: who does the work.
        out: the masks.
    """
    from cerise.engines.rows.search import judge_rows
    from cerise.kernels import formulas

    loaded = formulas.load(conditions.source)

    def judge(block: tuple[int, int]) -> None:
        start, stop = block
        told, found = words(), np.empty(stop - start, np.int64)
        partition = int(np.searchsorted(offsets, start, "right")) - 1
        judge_rows(
            loaded.edge, told.ctypes.data, offsets.ctypes.data, partition, start, stop, found.ctypes.data
        )  # fmt: skip
        out[start:stop] &= found.astype(out.dtype)

    crew.each(judge, crew.blocks(int(offsets[-1])))
