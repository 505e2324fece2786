"""Finds row matches in a stream: which partitions rows or the time touch, and which rows they keep (M44).

A partition keeps the rows from its undecided start row on, and those before it that PREV reaches. Partitions
of few rows are searched together, from their start rows again. A long partition has a search of its own,
which goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cerise.engines.base import Ints, Options
from cerise.engines.census import Census, Load, weigh
from cerise.engines.results.value_codes import joint_codes, partitions
from cerise.engines.row_streams.held_rows import HeldRows, PartitionNumbers
from cerise.engines.row_streams.long_partition import FoundMatches, LongPartition, has_rows
from cerise.engines.row_streams.open_search import (
    COLUMNS,
    COVERED,
    NOTHING,
    Moment,
    OpenSearch,
    RowReach,
    is_stable,
)
from cerise.engines.row_streams.suspended import enlarge
from cerise.engines.rows.order import Ordered
from cerise.engines.rows.program import Program
from cerise.engines.rows.records import NEVER, OpenPartition
from cerise.engines.rows.search_input import SearchInput, judge_table
from cerise.kinds import INT64_MIN
from cerise.pattern.row_pattern import Show
from cerise.plan.needs import Clock

ROW, FIRST, NUMBER, DEADLINE = (
    OpenPartition.row, OpenPartition.first, OpenPartition.number, OpenPartition.deadline,
)  # fmt: skip
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class NewRows:
    """New rows of some partitions.

    Attributes:
        table: the rows, and maybe others.
        order: their numbers in the table, partition after partition, each in order.
        counts: how many rows each partition has.
    """

    table: pa.Table
    order: Ints
    counts: Ints

    @property
    def starts(self) -> Ints:
        starts: Ints = np.cumsum(self.counts) - self.counts
        return starts

    def pick(self, which: Ints) -> NewRows:
        """Return the rows of some of the partitions."""
        counts = self.counts[which]
        return NewRows(self.table, self.order[spread(self.starts[which], counts)], counts)

    def last(self, counts: Ints) -> pa.Table:
        """Return the last rows of each partition, given how many."""
        starts = self.starts + self.counts - counts
        return self.table.take(pa.array(self.order[spread(starts, counts)]))


def spread(starts: Ints, counts: Ints) -> Ints:
    """Return the numbers of several ranges, given the start and the length of each."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Ints = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return found


class RowPartitions:
    """The open partitions of a stream, and the searches in them."""

    def __init__(self, program: Program, schema: pa.Schema, options: Options, *, forgives: bool) -> None:
        """Start without rows.

        Args:
            program: the compiled clause.
            schema: the columns of prepared rows.
            options: how to run.
            forgives: whether a skip without a target goes past the last row, and is counted (M40).
        """
        self._program, self._schema, self._options = program, schema, options
        self._reach, self._forgives = RowReach.of(program.bound), forgives
        self._longest = options.limits.open_rows if is_stable(program) else NEVER
        self.now, self.forgiven = INT64_MIN, 0
        self.clear()

    def clear(self) -> None:
        """Forget all partitions."""
        self._held = HeldRows(self._schema, self._options.limits.pool_rows)
        self._numbers = PartitionNumbers(self._program.bound.partition)
        self._states = np.zeros((0, COLUMNS), np.int64)
        self._deadlines = np.zeros(0, np.int64)
        self._is_long = np.zeros(0, np.bool_)
        self._long: dict[int, LongPartition] = {}

    @property
    def figures(self) -> dict[str, int]:
        rows = self._held.live + sum(each.kept for each in self._long.values())
        return {
            "open partitions": len(self._numbers),
            "rows held": rows,
            "skips without a target": self.forgiven,
        }

    # ---- events

    def feed(self, rows: Ordered) -> Iterator[FoundMatches]:
        """Take the next rows, in order; yield the matches that they decide."""
        if not len(rows):
            return
        numbers = self._number(rows)
        if rows.order is None and len(numbers) == 1 and self._is_long[numbers[0]]:
            yield from self._search_long(int(numbers[0]), rows.table)
            return
        counts = np.diff(rows.offsets)
        order = np.arange(len(rows)) if rows.order is None else rows.order
        added, is_long = NewRows(rows.table, order, counts), self._is_long[numbers]
        if not is_long.any():
            yield from self._search(numbers, added)
            return
        short = np.flatnonzero(~is_long)
        yield from self._search(numbers[short], added.pick(short))
        for i in np.flatnonzero(is_long):
            part = added.pick(np.array([i]))
            yield from self._search_long(int(numbers[i]), part.last(part.counts))

    def _number(self, rows: Ordered) -> Ints:
        """Return the numbers of the partitions of rows, and open new ones."""
        keys = rows.table.slice(0, 1)
        if self._program.bound.partition:
            firsts = pa.array(rows.places(rows.offsets[:-1]))
            keys = rows.table.select(list(self._program.bound.partition)).take(firsts)
        numbers, new = self._numbers.of(keys)
        if len(new):
            self._open(new)
        return numbers

    def advance(self, time: int) -> Iterator[FoundMatches]:
        """Take the time before which no row will come; yield the matches that it decides."""
        self.now = max(self.now, time)
        late = np.flatnonzero(self._deadlines < self.now)
        if not len(late):
            return
        is_long = self._is_long[late]
        yield from self._search(late[~is_long], self._no_rows(late[~is_long]))
        for number in late[is_long].tolist():
            yield from self._search_long(number, None)

    def flush(self) -> Iterator[FoundMatches]:
        """Yield the matches that the end of the stream decides, and forget all partitions."""
        numbers = self._numbers.all()
        is_long = self._is_long[numbers]
        short = numbers[~is_long]
        yield from self._search(short, self._no_rows(short), is_open=False)
        for number in numbers[is_long].tolist():
            partition = self._long[number]
            yield from partition.find(self._moment(is_open=False))
            self.forgiven += partition.search.forgiven
        self.clear()

    def _no_rows(self, numbers: Ints) -> NewRows:
        return NewRows(self._schema.empty_table(), NONE, np.zeros(len(numbers), np.int64))

    def _moment(self, *, is_open: bool) -> Moment:
        return Moment(self.now, is_open, self._forgives)

    def _open(self, numbers: Ints) -> None:
        """Start partitions without rows."""
        most = self._numbers.most
        if most > len(self._states):
            self._held.make_room(2 * most)
            states = np.zeros((2 * most, COLUMNS), np.int64)
            states[: len(self._states)] = self._states
            known = len(self._deadlines)
            self._states, self._deadlines = states, enlarge(self._deadlines, 2 * most)
            self._deadlines[known:] = NEVER
            self._is_long = enlarge(self._is_long, 2 * most)
        self._states[numbers] = 0

    # ---- partitions of few rows

    def _search(self, numbers: Ints, added: NewRows, *, is_open: bool = True) -> Iterator[FoundMatches]:
        """Search partitions together."""
        if not len(numbers):
            return
        rows, low = self._join(numbers, added)
        states = self._states[numbers]
        states[:, FIRST] = np.where(states[:, FIRST] < 0, -1, low)
        states[:, [ROW, COVERED]] += low[:, None]
        alone, labels = self._program.alone, len(self._program.bound.labels)
        masks = None if alone is None else judge_table(alone, rows.table, labels)
        search = OpenSearch(SearchInput.of(self._program, rows, masks), states, self._options)
        matches = search.find(self._moment(is_open=is_open))
        self.forgiven += search.forgiven
        states[:, [ROW, COVERED]] -= low[:, None]
        if has_rows(matches):
            yield FoundMatches(rows, matches)
        if is_open:
            self._keep(numbers, states, added)

    def _join(self, numbers: Ints, added: NewRows) -> tuple[Ordered, Ints]:
        """Return the held and the new rows of partitions in order, and the first row of each partition."""
        held, counts = self._held.take(numbers), self._held.counts[numbers]
        if not len(held):
            return Ordered(
                added.table, added.order, np.append(added.starts, len(added.order)), {}
            ), added.starts
        table = pa.concat_tables([held, added.table]).combine_chunks()
        totals = counts + added.counts
        low = np.cumsum(totals) - totals
        order = np.empty(int(totals.sum()), np.int64)
        order[spread(low, counts)] = np.arange(len(held))
        order[spread(low + counts, added.counts)] = len(held) + added.order
        return Ordered(table, order, np.append(low, len(order)), {}), low

    def _keep(self, numbers: Ints, states: Ints, added: NewRows) -> None:
        """Keep the rows of partitions that are open, or that PREV may reach."""
        totals = self._held.counts[numbers] + added.counts
        gone = self._drop(states, totals)
        kept, fresh = totals - gone, np.minimum(totals - gone, added.counts)
        if fresh.any():
            self._held.add(numbers, fresh, added.last(fresh))
        self._held.keep(numbers, kept)
        self._states[numbers], self._deadlines[numbers] = states, states[:, DEADLINE]
        self._numbers.forget(numbers[kept == 0])
        for number in numbers[kept > self._longest].tolist():
            self._lengthen(number)

    def _drop(self, states: Ints, totals: Ints) -> Ints:
        """Return how many of their rows partitions do not need any more; their states count from the next."""
        least = np.minimum(totals, 1 if self._reach.remembers else 0)
        gone: Ints = np.minimum(np.maximum(states[:, ROW] - self._reach.before, 0), totals - least)
        states[:, FIRST] = np.where((states[:, FIRST] >= 0) & (gone == 0), 0, -1)
        states[:, ROW] -= gone
        states[:, COVERED] = np.maximum(states[:, COVERED] - gone, 0)
        return gone

    # ---- long partitions

    def _lengthen(self, number: int) -> None:
        """Give a partition a search of its own."""
        alone = np.array([number])
        table, state = self._held.take(alone), self._states[alone]
        self._held.keep(alone, np.zeros(1, np.int64))
        self._long[number] = LongPartition(self._program, table, state, self._options)
        self._is_long[number] = True

    def _search_long(self, number: int, table: pa.Table | None) -> Iterator[FoundMatches]:
        """Search a long partition, after rows are added; then it may be short."""
        partition = self._long[number]
        if table is not None:
            partition.add(table)
        yield from partition.find(self._moment(is_open=True))
        self.forgiven += partition.search.forgiven
        self._deadlines[number] = partition.search.states[0, DEADLINE]
        states, total = partition.search.states.copy(), partition.rows.count
        if 2 * (int(states[0, ROW]) - self._reach.before) < total:
            return
        kept = total - int(self._drop(states, np.array([total]))[0])
        if kept > max(self._longest // 2, total // 2):
            return
        del self._long[number]
        rest, states[:, DEADLINE] = partition.rows.slice(total - kept, total), self._deadlines[number]
        if kept > self._longest // 2:
            self._long[number] = LongPartition(self._program, rest, states, self._options)
            return
        self._is_long[number], alone = False, np.array([number])
        self._states[alone] = states
        if kept:
            self._held.add(alone, np.array([kept]), rest)
        else:
            self._numbers.forget(alone)

    # ---- limits

    def measure(self, *, by_partition: bool) -> Load:
        """Return upper bounds of the rows and bytes."""
        most = rows = self.figures["rows held"]
        if by_partition:
            most = max([int(self._held.counts.max(initial=0)), *(each.kept for each in self._long.values())])
        nbytes = self._held.nbytes + sum(each.rows.nbytes for each in self._long.values())
        return Load(rows, most, nbytes + 8 * COLUMNS * len(self._numbers))

    def census(self) -> Census:
        """Count the rows from the undecided start row of each partition on."""
        numbers = self._numbers.all()
        short, long_ = numbers[~self._is_long[numbers]], numbers[self._is_long[numbers]]
        kept = [self._long[number].save(self._drop) for number in long_.tolist()]
        table = pa.concat_tables([self._held.take(short), *(rows for rows, _ in kept)])
        totals = np.concatenate([self._held.counts[short], [len(rows) for rows, _ in kept]]).astype(np.int64)
        row = np.concatenate([self._states[short], *(state for _, state in kept)])[:, ROW]
        counts = np.maximum(totals - row, 0)
        nbytes = weigh(table) + 8 * COLUMNS * len(numbers)
        table = table.take(pa.array(spread(np.cumsum(totals) - totals + row, counts)))
        bound = self._program.bound
        times = Clock(bound.order[0].column).times(table)
        code, _ = joint_codes([(name, table.column(name)) for name in bound.partition], len(table))
        starts = np.empty(len(table), np.int64)
        starts[np.lexsort((np.arange(len(table)), code, times))] = np.arange(len(table))
        firsts = (np.cumsum(counts) - counts)[counts > 0]
        names = [table.column(name).take(pa.array(firsts)).to_pylist() for name in bound.partition]
        keys = list(zip(*names, strict=True)) if names else [()]
        parts = np.repeat(np.arange(len(firsts)), counts[counts > 0])
        places = np.repeat(np.concatenate([short, long_]), counts)
        return Census("rows", times, starts, parts, keys, places, nbytes)

    def evict(self, places: Ints) -> Iterator[FoundMatches]:
        """Let no match start with the oldest rows, given the partition of each; search from later rows on."""
        numbers, counts = np.unique(places, return_counts=True)
        for number in numbers[self._is_long[numbers]].tolist():
            self._shorten(number)
        if self._program.bound.show is Show.UNMATCHED:
            rows, low = self._join(numbers, self._no_rows(numbers))
            passed = spread(low + self._states[numbers, ROW], counts)
            shown = passed >= np.repeat(low + self._states[numbers, COVERED], counts)
            if shown.any():
                yield FoundMatches(rows, replace(NOTHING, unmatched=np.sort(passed[shown])))
        self._states[numbers, ROW] += counts
        yield from self._search(numbers, self._no_rows(numbers))

    def _shorten(self, number: int) -> None:
        """Take its own search from a partition."""
        rows, states = self._long.pop(number).save(self._drop)
        alone, self._is_long[number] = np.array([number]), False
        self._states[alone] = states
        self._held.add(alone, np.array([len(rows)]), rows)

    # ---- saved state

    def save(self) -> tuple[pa.Table, Ints]:
        """Return the kept rows, partition after partition, and a row of numbers for each partition."""
        numbers = self._numbers.all()
        short, long_ = numbers[~self._is_long[numbers]], numbers[self._is_long[numbers]]
        kept = [self._long[number].save(self._drop) for number in long_.tolist()]
        table = pa.concat_tables([self._held.take(short), *(rows for rows, _ in kept)]).combine_chunks()
        counts = np.concatenate([self._held.counts[short], [len(rows) for rows, _ in kept]]).astype(np.int64)
        states = np.concatenate([self._states[short], *(state for _, state in kept)])
        names = self._program.bound.partition
        code, _ = joint_codes([(name, table.column(name)) for name in names], len(table))
        order = np.argsort(code, kind="stable")
        by_key = np.argsort(code[np.cumsum(counts) - counts], kind="stable")
        return table.take(pa.array(order)), states[by_key]

    def load(self, table: pa.Table, states: Ints) -> None:
        """Go on with the rows and numbers that `save` returned."""
        self.clear()
        offsets = partitions(self._program.bound, table)
        numbers, new = self._numbers.of(table.take(pa.array(offsets[:-1])))
        self._open(new)
        self._held.add(numbers, np.diff(offsets), table)
        self._states[numbers], self._deadlines[numbers] = states, states[:, DEADLINE]
        for number in numbers[np.diff(offsets) > self._longest].tolist():
            self._lengthen(number)
