"""A partition of a stream that has many rows: it has a search of its own, which goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cerise.engines.base import Ints, Options, RowMatches
from cerise.engines.row_streams.held_rows import RowChunks
from cerise.engines.row_streams.open_search import Moment, RowReach
from cerise.engines.row_streams.suspended import SuspendedSearch
from cerise.engines.rows.order import Ordered
from cerise.engines.rows.program import Program
from cerise.engines.rows.records import OpenPartition

ROW = OpenPartition.row
NONE = np.zeros(0, np.int64)
Drop = Callable[[Ints, Ints], Ints]


@dataclass(frozen=True, slots=True)
class FoundMatches:
    """Matches, and the rows that they number."""

    rows: Ordered
    matches: RowMatches


class LongPartition:
    """A partition of many rows, with its own search."""

    def __init__(self, program: Program, table: pa.Table, states: Ints, options: Options) -> None:
        self._reach = RowReach.of(program.bound)
        self.rows = RowChunks(table.schema)
        self.rows.append(table)
        self.search = SuspendedSearch(program, table, states, options)

    @property
    def kept(self) -> int:
        """How many rows the partition needs."""
        return self.rows.count - max(0, int(self.search.states[0, ROW]) - self._reach.before)

    def add(self, table: pa.Table) -> None:
        """Add the next rows."""
        self.rows.append(table)
        self.search.add(table)

    def find(self, moment: Moment) -> Iterator[FoundMatches]:
        """Yield the matches that are decided now, with the rows that they and their measures read."""
        matches = self.search.find(moment)
        if not has_rows(matches):
            return
        unmatched = NONE if matches.unmatched is None else matches.unmatched
        first = np.concatenate([matches.starts, unmatched]).min() - self._reach.before
        last = np.concatenate([matches.starts + matches.lengths, unmatched]).max() + 1 + self._reach.after
        low, high = max(0, int(first)), min(self.rows.count, int(last))
        rows = Ordered(self.rows.slice(low, high), None, np.array([0, high - low]), {})
        yield FoundMatches(
            rows,
            replace(
                matches,
                starts=matches.starts - low,
                unmatched=None if matches.unmatched is None else unmatched - low,
            ),
        )

    def save(self, drop: Drop) -> tuple[pa.Table, Ints]:
        """Return the rows that are needed, and the state."""
        states, total = self.search.states.copy(), self.rows.count
        gone = int(drop(states, np.array([total]))[0])
        return self.rows.slice(gone, total), states


def has_rows(matches: RowMatches) -> bool:
    """Whether there is a match, or a row that is shown without one."""
    return bool(len(matches)) or (matches.unmatched is not None and bool(len(matches.unmatched)))
