"""The memory of a team: tables of records, rows of pools and columns of leaves. Arrays that grow move."""

from __future__ import annotations

from itertools import chain

import numpy as np
import numpy.typing as npt

from cerise.engines.base import Options
from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import (
    ChainLink,
    ExpandFrame,
    JoinMachine,
    JoinNode,
    LeafColumns,
    OutputRecord,
    Pool,
    PoolIndex,
    SkipIndex,
)
from cerise.engines.tree.program.tables import TeamTables
from cerise.kernels.records import number

Ints = npt.NDArray[np.int64]
FINAL_ROWS = 4096  # of a node whose rows leave as matches
MATCH_WORDS = 8  # that a match takes, about


class TeamMemory:
    """All memory that kernels read and write."""

    def __init__(self, tables: TeamTables, options: Options) -> None:
        limits = options.limits
        self.tables, self._most, self.most_rows = tables, options.max_runs, 0
        self.words = np.zeros(JoinMachine.WORDS, np.int64)
        self.m = JoinMachine(self.address)
        self.pools, self.nodes = tables.pools.copy(), tables.nodes
        self.indexes, self.outputs = tables.indexes, tables.outputs
        self.leaf_count = len(tables.leaves)
        self.leaves = np.zeros((max(self.leaf_count, 1), LeafColumns.WORDS), np.int64)
        self.columns: list[Ints] = [np.zeros((0, 0), np.int64)] * self.leaf_count
        self.rows: list[Ints] = [np.zeros((0, 0), np.int64)] * len(self.pools)
        self.heads: list[Ints] = [np.zeros(0, np.int64)] * tables.index_count
        self.links: list[Ints] = [np.zeros(0, np.int64)] * tables.index_count
        self._indexes_of: dict[int, list[int]] = {}
        for i in range(tables.index_count):
            self._indexes_of.setdefault(int(self.indexes[i, PoolIndex.pool]), []).append(i)
        self.skips = tables.skips
        self.extremes: list[list[Ints]] = [[] for _ in range(tables.skip_count)]
        first = max(1, limits.first_rows // 16)
        finals = range(self.leaf_count + tables.inner, self.leaf_count + len(tables.plan))
        for pool in range(len(self.pools)):
            if pool not in finals:
                self.grow(pool, first)
        self._share(finals, min(FINAL_ROWS, limits.matches))
        self.found = np.zeros(MATCH_WORDS * limits.matches, np.int64)
        self.owners, self.starts, self.parts = (np.zeros(limits.matches, np.int64) for _ in range(3))
        self.scratch = np.zeros(1, np.int64)
        self.frames = np.zeros((first + 2, ExpandFrame.WORDS), np.int64)
        slots = 1 + max((len(each.branch.pattern) for each in tables.branches), default=0)
        self.bases, self.sizes = np.full(slots, -1, np.int64), np.ones(slots, np.int64)
        self._settle(limits.tested_events)

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)

    def _settle(self, patience: int) -> None:
        """Write the addresses of all tables into the machine."""
        m, tables = self.m, self.tables
        for word, array in (
            (JoinMachine.pools, self.pools), (JoinMachine.leaves, self.leaves),
            (JoinMachine.nodes, self.nodes), (JoinMachine.tests, tables.tests),
            (JoinMachine.keys, tables.keys), (JoinMachine.indexes, self.indexes),
            (JoinMachine.skips, self.skips),
            (JoinMachine.words, tables.words), (JoinMachine.outputs, self.outputs),
            (JoinMachine.output_tests, tables.output_tests), (JoinMachine.repeats, tables.repeats),
            (JoinMachine.vetoes, tables.vetoes), (JoinMachine.guards, tables.guards),
            (JoinMachine.bases, self.bases),
            (JoinMachine.sizes, self.sizes), (JoinMachine.shown, tables.shown),
        ):  # fmt: skip
            self.words[number(word)] = array.ctypes.data
        m.pool_count, m.leaf_count, m.node_count = len(self.pools), self.leaf_count, len(tables.plan)
        m.index_count, m.output_count = tables.index_count, len(self.outputs)
        m.skip_count = tables.skip_count
        m.shown_count, m.inner_count = tables.shown_count, tables.inner
        m.patience, m.most, m.depth, m.output = patience, self._most, -1, -1
        self._tell()

    def _tell(self) -> None:
        m = self.m
        for word, array in (
            (JoinMachine.found, self.found), (JoinMachine.owners, self.owners),
            (JoinMachine.starts, self.starts), (JoinMachine.parts, self.parts),
            (JoinMachine.scratch, self.scratch), (JoinMachine.frames, self.frames),
        ):  # fmt: skip
            self.words[number(word)] = array.ctypes.data
        m.found_room, m.match_room = len(self.found), len(self.owners)
        m.scratch_room, m.frame_room = len(self.scratch), len(self.frames)

    def _share(self, finals: range, room: int) -> None:
        """Give the nodes whose rows leave as matches the same memory: only one of them has rows at a time."""
        widths = self.pools[finals.start : finals.stop, Pool.width]
        self._final_rows = np.zeros(room * int(widths.max(initial=1)), np.int64)
        self.pools[finals.start : finals.stop, number(Pool.rows)] = self._final_rows.ctypes.data
        self.pools[finals.start : finals.stop, Pool.room] = room

    # ---- room

    def grow(self, pool: int, room: int) -> None:
        """Make room for rows of a pool, and for its columns and indexes."""
        words = self.pools[pool]
        used, start = int(words[Pool.count] - words[Pool.start]), int(words[Pool.start])
        rows = np.zeros((room, int(words[Pool.width])), np.int64)
        if used:
            rows[:used] = self.rows[pool][:used]
        self.rows[pool] = rows
        words[number(Pool.rows)], words[Pool.room] = rows.ctypes.data, room
        if pool < self.leaf_count:
            width = self.tables.columns_of(pool)
            columns = np.zeros((width, room), np.int64)
            columns[:, :used] = self.columns[pool][:, :used] if used else 0
            self.columns[pool] = columns
            flags = at.SIDES + len(self.tables.catalog.used[pool])
            nulls = self.leaves[pool, LeafColumns.nulls]
            self.leaves[pool] = columns.ctypes.data, room, width, flags, nulls
        for index in self._indexes_of.get(pool, ()):
            self._grow_index(index, room, start)
        for skips in np.flatnonzero(self.skips[: len(self.extremes), SkipIndex.pool] == pool).tolist():
            self._grow_skips(skips, room, start)

    def _grow_index(self, index: int, room: int, start: int) -> None:
        words = self.indexes[index]
        self.links[index] = np.zeros(room * ChainLink.WORDS, np.int64)
        self.heads[index] = np.zeros(1 << (2 * room - 1).bit_length(), np.int64)
        words[number(PoolIndex.heads)] = self.heads[index].ctypes.data
        words[number(PoolIndex.links)] = self.links[index].ctypes.data
        words[PoolIndex.mask], words[PoolIndex.room] = len(self.heads[index]) - 1, room
        words[PoolIndex.done] = start

    def _grow_skips(self, skips: int, room: int, start: int) -> None:
        words = self.skips[skips]
        found = [np.zeros((room >> bits) + 2, np.int64) for bits in (4, 8, 12)]
        self.extremes[skips] = found
        for word, array in zip((SkipIndex.by_16, SkipIndex.by_256, SkipIndex.by_4096), found, strict=True):
            words[number(word)] = array.ctypes.data
        words[SkipIndex.done] = start

    def make_room(self, counts: Ints) -> None:
        """Make room for new rows of each leaf."""
        pools = self.pools[: self.leaf_count]
        needed = pools[:, Pool.count] - pools[:, Pool.start] + counts
        for leaf in np.flatnonzero(needed > pools[:, Pool.room]).tolist():
            self.grow(leaf, max(2 * int(pools[leaf, Pool.room]), int(needed[leaf])))

    def make_scratch(self) -> None:
        self.scratch = np.zeros(2 * self.m.needs, np.int64)
        self._tell()

    def make_frames(self) -> None:
        """Make room for longer Kleene variables."""
        larger = np.zeros((2 * len(self.frames), ExpandFrame.WORDS), np.int64)
        larger[: len(self.frames)] = self.frames
        self.frames = larger
        self._tell()

    def make_words(self) -> None:
        """Make room for a match that is longer than all room for matches; none is written."""
        self.found = np.zeros(2 * self.m.needs, np.int64)
        self._tell()

    # ---- pieces

    def begin(self) -> None:
        """Let the kernels begin at the first node."""
        m = self.m
        m.node = m.phase = m.begun = m.steps = 0
        m.output = m.depth = m.inner = -1

    def roll_back(self) -> None:
        """Drop the new rows of all pools: their piece is cut in two, and read again."""
        self.pools[:, Pool.count] = self.pools[:, Pool.old]
        for index, words in enumerate(self.indexes[: len(self.heads)]):
            if words[PoolIndex.done] > self.pools[words[PoolIndex.pool], Pool.old]:
                self.heads[index][:] = 0
                words[PoolIndex.done] = self.pools[words[PoolIndex.pool], Pool.start]
        old = self.pools[self.skips[:, SkipIndex.pool], Pool.old]
        self.skips[:, SkipIndex.done] = np.minimum(self.skips[:, SkipIndex.done], old)

    def find_alive(self, first: int = at.MIN) -> Ints:
        """Return the numbers, from `first` on, of the events that leaves hold, ascending."""
        found = [np.zeros(0, np.int64)]
        for leaf in range(self.leaf_count):
            words = self.pools[leaf]
            low, high = (int(words[each] - words[Pool.start]) for each in (Pool.base, Pool.count))
            if high > low and int(self.columns[leaf][at.SEQ, high - 1]) >= first:
                numbers = self.columns[leaf][at.SEQ, low:high]
                found.append(numbers[np.searchsorted(numbers, first) :])
        return np.unique(np.concatenate(found))

    @property
    def rows_in_nodes(self) -> int:
        """How many rows all nodes hold."""
        nodes = self.pools[self.leaf_count :]
        found = int((nodes[:, Pool.count] - nodes[:, Pool.base]).sum())
        self.most_rows = max(self.most_rows, found)
        return found

    def forget_figures(self) -> None:
        """Count candidates from 0: the events so far were read before."""
        self.nodes[:, JoinNode.candidates] = self.nodes[:, JoinNode.made] = 0
        self.outputs[:, OutputRecord.counted] = 0

    @property
    def nbytes(self) -> int:
        held = [*self.rows, *self.columns, *self.heads, *self.links, *chain(*self.extremes)]
        return sum(each.nbytes for each in held)
