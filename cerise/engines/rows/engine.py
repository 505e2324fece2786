"""Runs the compiled search over sorted rows, and yields matches in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.engines.base import Ints, Options, Progress, RowMatches
from cerise.engines.results.context import Context
from cerise.engines.rows import records as at
from cerise.engines.rows.order import Ordered
from cerise.engines.rows.program import Program
from cerise.engines.rows.records import FoundMatch, MemoKey, SearchWorkspace
from cerise.engines.rows.search_input import SearchInput, judge_table
from cerise.engines.threads import Steps, Watch, too_many_ways
from cerise.errors import DataError
from cerise.pattern.row_pattern import Extent, SkipTo

REMEMBERED, FEW_KEYS = 3, 4  # a look-up in the memo counts as 3 more steps, and one more for every 4 keys
ROWS_AT_FIRST = 16  # room for labels per row at the start; it grows on demand
SKIPS = {
    SkipTo.PAST_LAST: at.PAST_LAST,
    SkipTo.NEXT: at.TO_NEXT,
    SkipTo.FIRST: at.TO_FIRST,
    SkipTo.LAST: at.TO_LAST,
}


def find_matches(program: Program, table: pa.Table, offsets: Ints, options: Options) -> Iterator[RowMatches]:
    """Yield the matches in a prepared table, in batches.

    Args:
        program: the compiled clause.
        table: the rows, partition after partition, each in order.
        offsets: where the partitions start, and at the end the number of rows.
        options: the limits of steps and sizes.
    """
    search_input = input_of_table(program, table, offsets)
    return search(search_input, (0, len(search_input)), options)


def input_of_table(program: Program, table: pa.Table, offsets: Ints) -> SearchInput:
    """Return the rows of a prepared table as input of a search."""
    masks = None if program.alone is None else judge_table(program.alone, table, len(program.bound.labels))
    return SearchInput.of(program, Ordered(table, None, offsets, {}), masks)


def search(
    search_input: SearchInput, part: tuple[int, int], options: Options, watch: Watch | None = None
) -> Iterator[RowMatches]:
    """Yield the matches that start in a part of the rows, in batches."""
    return MatchSearch(search_input, part, options, watch).matches()


class MatchSearch:
    """The memory of one search. Tables that grow move, and the workspace gets their new addresses."""

    INPUT = "the ordered input"

    def __init__(
        self, search_input: SearchInput, part: tuple[int, int], options: Options, watch: Watch | None = None
    ) -> None:
        self.program, self.limits = search_input.program, options.limits
        conditions, bound = self.program.conditions, self.program.bound
        partitions = _partitions(search_input.offsets, part)
        longest = int(
            np.max(np.diff(search_input.offsets[slice(partitions[0], partitions[1] + 1)]), initial=0)
        )
        timeouts = bound.within is not None and bound.within.timeouts
        sets, starts = max(conditions.sets.values(), default=-1) + 1, part[1] - part[0]
        self.search_input, self.cols = search_input, search_input.values.words()
        self.formulas = conditions.formulas
        self.words = np.zeros(SearchWorkspace.WORDS, np.int64)
        self.m = SearchWorkspace(self.words.ctypes.data)
        self.tables: dict[str, Any] = {
            "registers": np.zeros(conditions.registers + 1, np.int64),
            "code": self.program.code.rows,
            "offsets": search_input.offsets,
            "times": search_input.times,
            "positions": np.zeros(sets * longest + 1, np.int64),
            "keys": np.array([*conditions.keys, (0, 0, 0, 0, 0)], np.int64),
            "stack": self._stack(self.limits.stack_rows),
            "memo": self._memo(_power_of_two(4 * self.limits.stack_rows)),
            "masks": search_input.masks,
            "labels": np.zeros(longest + 1, np.int64),
            "cut": np.zeros(longest + 1 if timeouts else 1, np.int64),
            "found": np.zeros((min(self.limits.row_matches, starts + 1), FoundMatch.WORDS), np.int64),
            "found_labels": np.zeros(min(self.limits.match_rows, ROWS_AT_FIRST * (starts + 1)), np.int64),
        }
        self.steps = Steps(options.max_steps, watch or Watch(), self.limits.row_steps)
        self.filled = -1  # the row of the last search that filled the memo
        self.classes = np.zeros(longest + 1 if conditions.classes else 1, np.int64)
        self.m.start, self.m.stop = part
        self.m.partition, self.m.partitions = partitions
        self._fill_workspace(longest)

    def _stack(self, size: int) -> Ints:
        return np.zeros((size, at.REGISTERS + self.program.conditions.registers), np.int64)

    def _memo(self, size: int) -> Ints:
        return np.zeros((size, at.KEYS + len(self.program.conditions.keys)), np.int64)

    def _fill_workspace(self, longest: int) -> None:
        m, context = self.m, Context(self.cols.ctypes.data)
        conditions, code, bound = self.program.conditions, self.program.code, self.program.bound
        timeouts = bound.within is not None and bound.within.timeouts
        self._place_tables()
        context.positions, context.stride = self.tables["positions"].ctypes.data, longest
        context.classes = self.classes.ctypes.data
        m.context, m.stride = context, longest
        m.first, m.nullable, m.needs = code.first, code.nullable, self.program.needs
        m.second = at.ANYTHING if timeouts else code.second
        m.dependent, m.updates = conditions.dependent, conditions.updates
        m.label_count, m.register_count = len(bound.labels), conditions.registers
        m.key_count = len(conditions.keys)
        m.equal_count = sum(each[MemoKey.order] == at.EQUAL for each in conditions.keys)
        m.wide = 0 if self.search_input.masks.dtype == np.uint8 else 3
        m.skip = SKIPS[bound.skip.to]
        m.skip_to = sum(1 << i for i, label in enumerate(bound.labels) if label in bound.skip.members)
        m.within, m.timeouts, m.no_time = _window(bound.within), timeouts, self.search_input.no_time
        m.heavy = REMEMBERED + len(conditions.keys) // FEW_KEYS
        m.alarm = self.limits.patience
        m.patience = m.alarm if self.program.remembers and not conditions.classes else at.NEVER
        m.shares = not (conditions.from_start or timeouts)  # a new MATCH_NUMBER() clears the memo
        m.row, m.epoch, m.depth = -1, 1, -1

    def _place_tables(self) -> None:
        for name, table in self.tables.items():
            self.words[getattr(SearchWorkspace, name)] = table.ctypes.data
        for name in ("stack", "memo", "found"):
            rows = getattr(self.m, name)
            rows.width, rows.room = self.tables[name].strides[0], len(self.tables[name])
        self.m.labels_room = len(self.tables["found_labels"])

    def matches(self) -> Iterator[RowMatches]:
        from cerise.engines.rows.search import scan

        return self.run(lambda: scan(int(self.m), self.formulas.edge))

    def run(self, go_on: Callable[[], int]) -> Iterator[RowMatches]:
        """Run a search until it is done, and yield its matches; `go_on` returns why it stops."""
        progress = Progress()
        while True:
            why = self._advance(go_on)
            progress.check((why, self.words.tobytes(), self.steps.taken))
            if why in (at.DONE, at.FULL):
                if self.m.match_count:
                    yield self.take_matches()
                elif why == at.FULL:
                    self.tables["found_labels"] = np.zeros(2 * len(self.tables["found_labels"]), np.int64)
                if why == at.DONE:
                    return
            elif why == at.PAUSED:
                continue
            else:
                self._mend(why)
            self._place_tables()

    def _advance(self, go_on: Callable[[], int]) -> int:
        """Run a search until its next pause, and count its steps."""
        m, pause = self.m, min(self.limits.pause_steps, self.steps.most)
        m.left = m.until = pause
        why = go_on()
        if why == at.DONE:
            self.steps.watch.advance(m.walked - self.steps.walked)
            return why
        if m.steps > self.steps.most:
            raise too_many_ways(self.steps.most, m.row, self.INPUT)
        ahead = max(0, m.at - m.row) if why == at.PAUSED else 0
        self.steps.take(pause - m.left, m.walked, ahead)
        return why

    def take_matches(self) -> RowMatches:
        """Return the matches found since the last call."""
        count, labelled = self.m.match_count, self.m.labelled
        self.m.match_count = self.m.labelled = 0
        out = self.tables["found"][:count].T.copy()
        labels = self.tables["found_labels"][:labelled].astype(np.int16)
        hidden = (labels & at.HIDDEN) != 0
        late = out[FoundMatch.timeout] != 0
        return RowMatches(
            starts=out[FoundMatch.start],
            lengths=out[FoundMatch.length],
            numbers=out[FoundMatch.number],
            partition=out[FoundMatch.partition],
            labels=labels & np.int16(at.HIDDEN - 1),
            excluded=hidden if hidden.any() else None,
            timeouts=late if late.any() else None,
        )

    def _mend(self, why: int) -> None:
        """Make room for a search that has stopped, or raise its error."""
        bound, row = self.program.bound, self.m.row
        if why == at.DEEP:
            known = self.tables["stack"]
            self.tables["stack"] = self._stack(2 * len(known))
            self.tables["stack"][: len(known)] = known
        elif why == at.FORGETFUL and row != self.filled:
            self.filled = row  # earlier searches may have filled the memo, which is empty now
            self.m.depth = -1  # the search starts over
        elif why == at.FORGETFUL and 4 * self.tables["memo"].nbytes <= self.limits.memo_bytes:
            self.tables["memo"] = self._memo(4 * len(self.tables["memo"]))
            self.m.depth = -1
        elif why == at.UNMAPPED:
            raise skip_target_error(bound.skip.name)
        elif why == at.ENDLESS:
            raise endless_skip_error(bound.skip.name)


def skip_target_error(name: str) -> DataError:
    """Return the error of a skip to a variable without a row in the match (M40)."""
    return DataError(
        f"AFTER MATCH SKIP TO {name}: a match has no row mapped to {name}",
        hint="skip to a variable that every match has, or PAST LAST ROW",
    )


def endless_skip_error(name: str) -> DataError:
    """Return the error of a skip to the first row of the match (M40)."""
    return DataError(
        f"AFTER MATCH SKIP TO {name}: that is the first row of the match, which would be found for ever",
        hint="skip to a later row, or TO NEXT ROW",
    )


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _window(within: Extent | None) -> int:
    if within is None:
        return at.ANY_TIME
    return within.size - within.exclusive


def _partitions(offsets: Ints, part: tuple[int, int]) -> tuple[int, int]:
    """Return the range of partitions that a part of the rows overlaps."""
    low, high = part
    return int(np.searchsorted(offsets, low, "right")) - 1, int(np.searchsorted(offsets, high))
