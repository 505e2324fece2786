"""The search of one long partition of a stream: it goes on where it stopped, and old rows are not read again.

Columns and masks grow by doubling. A search that waits keeps its instruction, row, registers and stack, so
all searches together cost what one search of all rows costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Ints, Masks, Options, RowMatches
from cerise.engines.results.context import COLUMNS, Context
from cerise.engines.row_streams.open_search import Moment, OpenSearch
from cerise.engines.rows.prepare import compute_column
from cerise.engines.rows.program import Program
from cerise.engines.rows.records import BYTE, FORGETFUL, SearchWorkspace
from cerise.engines.rows.search_input import Judge, SearchInput, mask_type
from cerise.engines.rows.slices import times_of
from cerise.kinds import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from cerise.engines.results.columns import ColumnValues


class GrowingInput:
    """The input of a search, to which rows are added.

    Attributes:
        rows: how many rows there are.
        room: how many rows fit before the arrays grow.
        masks: the labels that each row could have, as known before the search.
        times: the times for WITHIN.
        columns: the columns that conditions read; last, a word for each row with a bit for each null column.
    """

    def __init__(self, program: Program) -> None:
        from cerise.engines.results.columns import TableColumns  # imports numba

        asked, labels = program.conditions, len(program.bound.labels)
        self.program, self.rows, self.room, self._judged = program, 0, 0, 0
        self.masks: Masks = np.zeros(BYTE, mask_type(labels))
        self.times: Ints = np.zeros(1, np.int64)
        self.columns: list[npt.NDArray[Any]] = []
        self._reader = TableColumns(asked.columns, asked.texts, asked.literal_only)
        self._judge = None if program.alone is None else Judge(program.alone, labels)
        self.values: ColumnValues | None = None  # of the first rows; its strings have the same codes later

    def add(self, table: pa.Table) -> None:
        """Add the next rows."""
        low, high = self.rows, self.rows + len(table)
        values = self._read(table)
        if high > self.room:
            self._grow(2 * high, values)
        for column, array in zip(self.columns, values, strict=True):
            column[low:high] = array
        self.masks[low:high] = self._fitting if self._judge is None else self._judge.masks(table)
        if self.program.bound.within is not None:
            self.times[low:high] = times_of(self.program.bound, table)
        self.rows = high

    def _read(self, table: pa.Table) -> list[npt.NDArray[Any]]:
        """Return the columns that conditions read; last, their nulls; nothing if they read no column."""
        if self.values is None or self.program.conditions.columns:
            read = self._reader.read(self._derive(table))
            self.values = self.values or read
        return read.arrays if self.program.conditions.columns else []

    @property
    def _fitting(self) -> int:
        return 255 if self.masks.dtype == np.uint8 else -1

    def _derive(self, table: pa.Table) -> pa.Table:
        for each in self.program.conditions.derived:
            table = table.append_column(pa.field(each.name, each.type), compute_column(each, table))
        return table

    def _grow(self, room: int, like: list[npt.NDArray[Any]]) -> None:
        self.columns = self.columns or [np.zeros(0, each.dtype) for each in like]
        self.columns = [enlarge(each, room) for each in self.columns]
        self.masks = enlarge(self.masks, room + BYTE)
        self.times = enlarge(self.times, room)
        self.room = room

    def words(self) -> Ints:
        """Return the words that generated code reads."""
        assert self.values is not None
        words = self.values.words()
        context = Context(words.ctypes.data)
        if self.columns:
            words[COLUMNS:] = [each.ctypes.data for each in self.columns[:-1]]
            context.nulls, context.step = self.columns[-1].ctypes.data, 8
        return words

    def judge_near(self, until: int) -> None:
        """Remove from masks the labels that rows cannot have because of other rows at a fixed distance."""
        from cerise.engines.rows.search import judge_rows

        start, self._judged = self._judged, max(until, self._judged)
        if not self.program.conditions.judged or start >= until:
            return
        words, offsets = self.words(), np.array([0, self.rows])
        found = np.empty(until - start, np.int64)
        edge = self.program.conditions.formulas.edge
        addresses = words.ctypes.data, offsets.ctypes.data
        judge_rows(edge, *addresses, 0, start, until, found.ctypes.data)
        self.masks[start:until] &= found.astype(self.masks.dtype)

    @property
    def no_time(self) -> int:
        """A number that is not among the times."""
        return int(self.times[0]) - 1 if self.times[0] > INT64_MIN else INT64_MAX


class SuspendedSearch(OpenSearch):
    """The search of one partition, which goes on where it stopped when rows are added."""

    def __init__(self, program: Program, table: pa.Table, states: Ints, options: Options) -> None:
        self._rows = GrowingInput(program)
        self._rows.add(table)
        super().__init__(self._input(), states, options)
        self.m.keeps = 1
        self._extent = np.array([0, self._rows.rows])
        self._move()

    def _input(self) -> SearchInput:
        """Return an input with as many rows as there is room for, so that all tables of a search fit."""
        rows = self._rows
        whole = np.array([0, rows.room])
        assert rows.values is not None
        return SearchInput(rows.program, whole, rows.values, rows.times, rows.no_time, rows.masks)

    def add(self, table: pa.Table) -> None:
        """Add the next rows of the partition."""
        room = self._rows.room
        self._rows.add(table)
        self._extent[1] = self.words[SearchWorkspace.stop] = self._rows.rows
        if self._rows.room > room:
            self._grow(self._rows.room)
            self._move()

    def find(self, moment: Moment) -> RowMatches:
        """Return the matches that are decided now, and update the state."""
        rows = self._rows.rows
        self._rows.judge_near(max(0, rows - self.reach.after) if moment.open else rows)
        self.words[SearchWorkspace.partition] = 0
        return super().find(moment)

    def _mend(self, why: int) -> None:
        """Make room for a search that has stopped; a full memo is replaced, and the search goes on.

        A new memo lacks the states that have failed so far. It is four times as large, so all memos together
        cost a constant times the last one.
        """
        if why != FORGETFUL:
            super()._mend(why)
        elif 4 * self.tables["memo"].nbytes <= self.limits.memo_bytes:
            self.tables["memo"] = self._memo(4 * len(self.tables["memo"]))

    def _grow(self, room: int) -> None:
        """Make room for `room` rows in all tables."""
        positions = self.tables["positions"]
        sets = len(positions) // self.m.stride if self.m.stride else 0
        wide = np.zeros((sets, room), np.int64)
        wide[:, : self.m.stride] = positions[: sets * self.m.stride].reshape(sets, self.m.stride)
        self.tables["positions"] = np.append(wide.ravel(), 0)
        for name in ("labels", "cut"):
            if name == "labels" or self.m.timeouts:
                self.tables[name] = enlarge(self.tables[name], room + 1)
        labelled = max(len(self.tables["found_labels"]), min(self.limits.match_rows, room))
        self.tables["found_labels"] = np.zeros(labelled, np.int64)
        if self.program.conditions.classes:
            self.classes = enlarge(self.classes, room + 1)
        self.m.stride = room

    def _move(self) -> None:
        """Tell the workspace where the rows lie."""
        rows = self._rows
        self.tables["offsets"] = self._extent
        self.tables["masks"], self.tables["times"] = rows.masks, rows.times
        number = Context(self.cols.ctypes.data).number
        self.cols = rows.words()
        context = Context(self.cols.ctypes.data)
        context.positions, context.stride = self.tables["positions"].ctypes.data, self.m.stride
        context.classes, context.number = self.classes.ctypes.data, number
        self.m.context, self.m.stop = context, rows.rows
        self._place_tables()


def enlarge(array: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """Return an array with the same values, and at least `room` elements."""
    if room <= len(array):
        return array
    larger = np.zeros(room, array.dtype)
    larger[: len(array)] = array
    return larger
