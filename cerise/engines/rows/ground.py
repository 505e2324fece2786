"""What a search reads: rows in order as words of memory, with the labels that each could have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.results.row_matches import Ints, Masks
from cerise.engines.rows.judging import near_masks, room_for_masks
from cerise.engines.rows.ordering import Ordered
from cerise.engines.rows.prepare import computed
from cerise.engines.threads import ALONE, Crew, taken
from cerise.events import raw_column
from cerise.kinds import INT64_MAX, INT64_MIN, canonical, kind_of
from cerise.pattern.row_pattern import BoundRows

if TYPE_CHECKING:
    from cerise.engines.results.columns import Values
    from cerise.engines.rows.engine import Program


@dataclass(frozen=True, slots=True)
class Ground:
    """Rows in order; any number of searches may read them at once.

    Attributes:
        program: what is searched for.
        offsets: where partitions start, and the number of rows.
        values: what conditions read.
        times: what WITHIN measures, never descending in a partition.
        no_time: the number that stands for no time.
        masks: which labels each row could have, as far as it can be told beforehand.
    """

    program: Program
    offsets: Ints
    values: Values
    times: Ints
    no_time: int
    masks: Masks

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @classmethod
    def of(cls, program: Program, rows: Ordered, masks: Masks | None, crew: Crew = ALONE) -> Ground:
        """Return rows as a search reads them.

        Args:
            program: what is searched for.
            rows: the rows.
            masks: which labels each row of their table could have by itself; None: any.
            crew: who does the work.
        """
        from cerise.engines.results.columns import Columns  # this brings numba

        asked, table = program.conditions, rows.table
        for each in asked.derived:
            table = table.append_column(pa.field(each.name, each.type), computed(each, table))
        values = Columns(asked.columns, asked.texts, asked.literal_only).read(table, rows.order, crew)
        offsets = np.ascontiguousarray(rows.offsets)
        told, room = room_for_masks(len(rows), len(program.bound.labels))
        _bring(told, masks, rows.order, crew)
        if asked.judged:
            near_masks(asked, values.words, offsets, crew, told)
        times, no_time = _times(program.bound, rows, crew)
        return cls(program, offsets, values, times, no_time, room)


def _bring(target: Masks, masks: Masks | None, order: Ints | None, crew: Crew) -> None:
    """Write masks into their place, in order."""

    def write(block: tuple[int, int]) -> None:
        here = slice(*block)
        if masks is None:
            target[here] = -1 if target.dtype == np.int64 else 255
        else:
            target[here] = masks[here] if order is None else masks[order[here]]

    crew.each(write, crew.blocks(len(target)))


def _times(bound: BoundRows, rows: Ordered, crew: Crew) -> tuple[Ints, int]:
    if bound.within is None:
        return np.zeros(1, np.int64), 0
    name = bound.order[0].column
    column = raw_column(rows.table, (name,))
    times = canonical(column, kind_of(column.type), name).cast(pa.int64())
    none = _unused(times)
    known = np.asarray(times.fill_null(none) if times.null_count else times, dtype=np.int64)
    found = np.ascontiguousarray(taken(known, rows.order, crew))
    return (~found, ~none) if bound.order[0].descending else (found, none)


def _unused(numbers: pa.Array) -> int:
    """Return a number that is none of some."""
    ends = pc.min_max(numbers)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None:
        return 0
    if low > INT64_MIN:
        return int(low) - 1
    if high < INT64_MAX:
        return int(high) + 1
    taken = set(numbers.to_pylist())
    return next(each for each in range(len(taken) + 1) if each not in taken)
