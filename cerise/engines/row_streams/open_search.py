"""Searches partitions of a stream: rows may be added, so a search that reaches the last row waits (M44).

A start row is decided when its search accepts, or fails, without a row that is not known yet. Until then
nothing less preferred is looked at, and no later row of the partition is searched from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cerise.engines.base import Bools, Ints, Options, RowMatches, concat_matches, find_rows_outside
from cerise.engines.rows.engine import MatchSearch
from cerise.engines.rows.program import Program
from cerise.engines.rows.records import OpenPartition
from cerise.engines.rows.records import SearchWorkspace as Words
from cerise.engines.rows.search_input import SearchInput
from cerise.pattern.row_pattern import CLASSIFIER, Anchor, BoundRows, MatchNumber, Nav, Show, walk_rows

COVERED = OpenPartition.WORDS  # the column, after the words of the record: the end of the rows in matches
COLUMNS = COVERED + 1
TOLD: list[int] = [getattr(Words, name) for name in ("states", "open", "now", "forgives", "forgiven")]
NOTHING = concat_matches([])


@dataclass(frozen=True, slots=True)
class RowReach:
    """The rows around its matches that a clause reads.

    Attributes:
        before: how many rows before a row of a match.
        after: how many rows after a row of a match.
        remembers: whether a partition without an open row must be known: its matches are numbered, or its
            first row is asked for.
    """

    before: int
    after: int
    remembers: bool

    @classmethod
    def of(cls, bound: BoundRows) -> RowReach:
        shifts = [
            each.shift for each in bound.atoms.values() if isinstance(each, Nav) and each.column != CLASSIFIER
        ]
        numbered = any(isinstance(each, MatchNumber) for each in bound.atoms.values())
        anchored = any(isinstance(each, Anchor) and each.start for each in walk_rows(bound.pattern))
        before, after = max([0, *(-each for each in shifts)]), max([0, *shifts])
        return cls(before, after, numbered or anchored)


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of a stream while its partitions are searched.

    Attributes:
        now: the time before which no row will come.
        open: whether rows may come.
        forgives: whether a skip without a target goes past the last row (M40).
    """

    now: int
    open: bool
    forgives: bool


class OpenSearch(MatchSearch):
    """The search of partitions to which rows may be added.

    `states` has a row for each partition: an `OpenPartition`, and where the rows in its matches end.
    """

    INPUT = "the open rows of a stream"

    def __init__(self, search_input: SearchInput, states: Ints, options: Options) -> None:
        super().__init__(search_input, (0, len(search_input)), options)
        self.states = states
        self.reach = RowReach.of(self.program.bound)
        self.m.reach = self.reach.after
        self.forgiven = 0

    def find(self, moment: Moment) -> RowMatches:
        """Return the matches that are decided, and update the states."""
        from cerise.engines.rows.search import scan_open

        words, before = self.words, self.states.copy()
        states = before[:, :COVERED].copy()
        self.tables["states"], told = states, (moment.open, moment.now, moment.forgives, 0)
        words[TOLD] = (states.ctypes.data, *told)
        address, edge = int(self.m), self.formulas.edge
        parts = list(self.run(lambda: scan_open(address, edge)))
        found = concat_matches(parts) if parts else NOTHING
        self.states[:, :COVERED], self.forgiven = states, int(words[Words.forgiven])
        if self.program.bound.show is Show.UNMATCHED:
            return self._add_others(found, before)
        return found

    def _add_others(self, found: RowMatches, before: Ints) -> RowMatches:
        """Add the rows that the search has passed and that are in no match (M36)."""
        offsets, states = self.tables["offsets"], self.states
        np.maximum.at(states[:, COVERED], found.partition, found.starts + np.maximum(found.lengths, 1))
        rows = find_rows_outside(found, int(offsets[-1]))
        owner = np.searchsorted(offsets, rows, "right") - 1
        passed: Bools = (rows >= before[owner, OpenPartition.row]) & (rows < states[owner, OpenPartition.row])
        passed &= rows >= before[owner, COVERED]
        return replace(found, unmatched=rows[passed])


def is_stable(program: Program) -> bool:
    """Whether the numbers that stand for strings in conditions stay the same when strings are added."""
    from cerise.engines.results.columns import TableColumns  # imports numba

    asked = program.conditions
    return TableColumns(asked.columns, asked.texts, asked.literal_only).is_stable
