"""Makes the matches of each query from the words that kernels have written, or counts them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.automaton.memory import list_events, number_events
from cerise.engines.base import Matches
from cerise.engines.tree.branches.team_branch import chooses, counts
from cerise.engines.tree.events.team_events import TeamEvents
from cerise.engines.tree.machine.join_records import OutputRecord
from cerise.engines.tree.match_choice import Chooser
from cerise.engines.tree.program.team_memory import TeamMemory
from cerise.engines.tree.program.team_report import TeamReport
from cerise.engines.tree.program.written_matches import (
    WrittenMatches,
    concat_written,
    copy_written,
    drain,
    map_slots,
    unpack,
)
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output

Ints = npt.NDArray[np.int64]
Finding = tuple[int, Matches]  # the number of a query, and some of its matches
ChosenEnd = tuple[int, tuple[object, ...], int]  # a query, a partition, the number of an event
MANY_FOUND = 8  # an eighth of the room for matches is enough to yield them after a piece


class TeamAnswers:
    """The answers of a team.

    Args:
        bounds: the queries.
        report: counts matches.
    """

    def __init__(self, bounds: Sequence[Bound], report: TeamReport) -> None:
        self._bounds, self._report = bounds, report
        self._counts = np.array([counts(each) for each in bounds])
        self.choosers = {
            number: Chooser(bound.query.limit, bound.query.output is Output.NON_OVERLAPPING)
            for number, bound in enumerate(bounds)
            if chooses(bound)
        }

    def reset(self, events: TeamEvents) -> None:
        """Forget all matches.

        Args:
            events: holds the events of later matches.
        """
        self._events = events
        self._held: list[WrittenMatches] = []
        self._memory: TeamMemory | None = None
        for chooser in self.choosers.values():
            chooser.ends.clear()

    def follow(self, memory: TeamMemory) -> None:
        """Read matches from a new memory from now on."""
        self._memory = memory
        self._slots = map_slots(memory.tables, self._bounds)
        self._owners = np.ascontiguousarray(memory.outputs[:, OutputRecord.query])

    @property
    def are_many(self) -> bool:
        """Whether so much room for matches is taken that it is time to yield them."""
        memory = self._memory
        return memory is not None and MANY_FOUND * memory.m.matches > len(memory.owners)

    @property
    def ends(self) -> list[ChosenEnd]:
        """The last event of the last match of each partition, for queries whose matches may not overlap."""
        return [(q, key, end) for q, each in self.choosers.items() for key, end in each.ends.items()]

    def restore(self, ends: Sequence[ChosenEnd]) -> None:
        """Take over the ends of a saved state."""
        for query, key, end in ends:
            self.choosers[query].ends[key] = end

    def forget(self, number: int) -> None:
        """Drop the ends before an event."""
        for chooser in self.choosers.values():
            chooser.forget(number)

    def hold(self) -> None:
        """Take matches out of the memory of kernels: a query chooses among all matches of an event."""
        assert self._memory is not None
        self._held.append(copy_written(drain(self._memory, self._owners)))

    def finish(self) -> Iterator[Finding]:
        """Yield the matches that kernels have written, query by query."""
        yield from self._yield_counts()
        held, self._held = self._held, []
        if self._memory is None or not (held or self._memory.m.matches):
            return
        begun = time.perf_counter()
        found = concat_written([*held, drain(self._memory, self._owners)])
        if len(self._bounds) > 1:
            found = found.select(np.argsort(found.owners, kind="stable"))
        queries, starts = np.unique(found.owners, return_index=True)
        self._report.team.construction_seconds += time.perf_counter() - begun
        for query, start, stop in zip(
            queries.tolist(), starts.tolist(), [*starts[1:].tolist(), len(found)], strict=True
        ):
            begun = time.perf_counter()
            matches = self._matches(query, found.select(slice(start, stop)))
            self._report.team.construction_seconds += time.perf_counter() - begun
            if len(matches):
                self._add_figures(query, len(matches))
                yield query, matches

    def _matches(self, query: int, found: WrittenMatches) -> Matches:
        """Return matches of a query with their events."""
        bound = self._bounds[query]
        lengths, events, fill = unpack(found, self._slots, bound)
        chooser = self.choosers.get(query)
        if chooser is not None:
            keys = self._keys(query, found)
            chosen = chooser.choose(
                lengths, [row[:size] for row, size in zip(events, fill, strict=True)], keys
            )
            lengths, events, fill = unpack(found.select(chosen), self._slots, bound)
        self._report.team.matched_events += int(fill.sum())
        taken = self._events.take(number_events(events, fill), query)
        return Matches(taken, list_events(bound, lengths, events, fill))

    def _keys(self, query: int, found: WrittenMatches) -> list[tuple[object, ...]]:
        """Return the partition of each match as values."""
        bound = self._bounds[query]
        if not bound.partition:
            return [()] * len(found)
        firsts = found.words[found.starts + 1]
        used, places = np.unique(firsts, return_inverse=True)
        some = self._events.take(used, query)
        columns = [some.column(path).to_pylist() for path in bound.partition]
        keys = [tuple(map(_comparable, row)) for row in zip(*columns, strict=True)]
        return [keys[place] for place in places.tolist()]

    def _yield_counts(self) -> Iterator[Finding]:
        """Yield how many matches have been counted, for queries that ask for the number only."""
        if self._memory is None or not self._counts.any():
            return
        outputs = self._memory.outputs
        counted = np.zeros(len(self._bounds), object)
        for owner, count in zip(
            self._owners.tolist(), outputs[:, OutputRecord.counted].tolist(), strict=True
        ):
            counted[owner] += count
        outputs[:, OutputRecord.counted] = 0
        for query in np.flatnonzero(counted).tolist():
            self._add_figures(query, int(counted[query]))
            yield query, replace(self.empty(query), rows={}, counted=int(counted[query]))

    def _add_figures(self, query: int, count: int) -> None:
        self._report.matches[query] += count
        self._report.team.matches += count

    def empty(self, query: int) -> Matches:
        """Return no matches of a query."""
        bound = self._bounds[query]
        schema = bound.schema
        empty = EventBatch.in_order(schema.columns.empty_table(), schema)
        if self._counts[query]:
            return Matches(empty, {}, counted=0)
        rows = pa.array([], pa.list_(pa.int64()))
        return Matches(empty, {var.name: rows for var in bound.variables})


def _comparable(value: object) -> object:
    """Return a part of a key so that NaN equals itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
