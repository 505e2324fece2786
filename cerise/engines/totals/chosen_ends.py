"""Where the last chosen match of each partition ends, for matches that may not overlap (S7.1).

A later match starts after that event. So the event is all that a query must know of its matches so far, and
no engine is part of it: an engine that starts anew over the events of a window goes on from there. The
position of an event is its time, and its number among the events of that time in its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.base import Matches
from cerise.engines.results.match_table import ends_of
from cerise.engines.totals.groups import number_rows, partition_keys
from cerise.events import EventBatch
from cerise.kinds import STORED
from cerise.pattern.bound import Bound
from cerise.ties import find_ties

Bools = npt.NDArray[np.bool_]
Owns = Callable[[Sequence[pa.Array]], Bools]  # which partitions, by the values of their key, are wanted
TIME, NUMBER = "time", "number"
SPARE = 4096  # ends of matches that are kept beside the last of each partition, before they are merged


class ChosenEnds:
    """The end of the last match of each partition."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._keys = [f"key_{number}" for number in range(len(bound.partition))]
        kinds = [STORED[bound.schema.kind(path)] for path in bound.partition]
        fields = [*zip(self._keys, kinds, strict=True), (TIME, pa.int64()), (NUMBER, pa.int64())]
        self._schema = pa.schema(fields)
        self._tables: list[pa.Table] = []
        self._rows, self._merged = 0, 0

    def number(self, events: EventBatch) -> EventBatch:
        """Return events whose positions are their numbers among the events of their time and partition."""
        numbers = np.zeros(len(events), np.int64)
        tied = find_ties(events.times[1:] == events.times[:-1])
        if len(tied):
            keys = [pa.array(events.times[tied]), *partition_keys(events, tied, self._bound)]
            groups, _ = number_rows(keys, len(tied))
            order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups)
            numbers[tied[order]] = np.arange(len(tied)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return replace(events, positions=numbers)

    def add(self, matches: Matches) -> None:
        """Take further matches."""
        if not matches.count:
            return
        last = np.unique(ends_of(matches)[1])
        events = matches.events
        columns = [pa.array(events.times[last]), pa.array(events.positions[last])]
        keys = partition_keys(events, last, self._bound)
        self.merge(pa.Table.from_arrays([*keys, *columns], schema=self._schema))

    def merge(self, ends: pa.Table) -> None:
        """Take the ends of further matches."""
        self._tables.append(ends)
        self._rows += len(ends)
        if self._rows > 2 * self._merged + SPARE:
            self._tables = [self._latest(self._tables)]
            self._rows = self._merged = len(self._tables[0])

    def _latest(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the last end of each partition, in an order that follows from the ends alone."""
        table = pa.concat_tables([self._schema.empty_table(), *tables]).combine_chunks()
        names = [TIME, NUMBER, *self._keys]
        table = table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))
        groups, _ = number_rows([table.column(name).combine_chunks() for name in self._keys], len(table))
        backwards = groups[::-1]
        firsts = np.unique(backwards, return_index=True)[1]
        return table.take(pa.array(np.sort(len(groups) - 1 - firsts)))

    def keep(self, since: int) -> pa.Table:
        """Forget ends before a time; return the others."""
        table = self._latest(self._tables)
        table = table.filter(pc.greater_equal(table.column(TIME), since)).combine_chunks()
        self._tables, self._rows, self._merged = [table], len(table), len(table)
        return table

    def own(self, table: pa.Table, owns: Owns | None) -> pa.Table:
        """Return the ends of the partitions that are wanted."""
        if owns is None:
            return table
        return table.filter(pa.array(owns([table.column(name).combine_chunks() for name in self._keys])))

    def find_open(self, events: EventBatch) -> Bools:
        """Return which events, with positions of `number`, come after the last match of their partition."""
        ends = self._latest(self._tables)
        if not len(ends) or not len(events):
            return np.ones(len(events), np.bool_)
        keys = partition_keys(events, np.arange(len(events)), self._bound)
        joined = [pa.concat_arrays([ends.column(name).combine_chunks(), key])
                  for name, key in zip(self._keys, keys, strict=True)]  # fmt: skip
        groups, _ = number_rows(joined, len(ends) + len(events))
        times, numbers = np.full((2, groups.max() + 1), np.iinfo(np.int64).min)
        times[groups[: len(ends)]] = ends.column(TIME).to_numpy()
        numbers[groups[: len(ends)]] = ends.column(NUMBER).to_numpy()
        own = groups[len(ends) :]
        found: Bools = (events.times > times[own]) | (
            (events.times == times[own]) & (events.positions > numbers[own])
        )
        return found
