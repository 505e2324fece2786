"""A site: it holds events and answers an asker's questions about them; here as a plain object.

Covered time and filters pass between the two as bytes, so that their size is that on a wire. A site sends no
event before it is pulled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cerise.errors import PlanError
from cerise.filters.dual.covered_time import read_cover
from cerise.filters.dual.tick_runs import Bools, TickRuns
from cerise.filters.dual.window_join import Near, WindowJoin, pairs_of
from cerise.filters.rounds.dual_query import DualBranch, DualQuery, Inside
from cerise.plan.intervals import Ints
from cerise.plan.slicing import MAX_TIME, MIN_TIME

NEAR = {-1: Near.LATER, 0: Near.EITHER, 1: Near.EARLIER}  # by the order of the asking event


@dataclass(frozen=True, slots=True)
class EdgeKeys:
    """The key of each event for an edge and one of its variables, and whether it has one (no null)."""

    values: Ints
    valid: Bools


@dataclass(frozen=True, slots=True)
class SiteEvents:
    """The events of a site, as one branch of a query sees them.

    Attributes:
        times: the time of each event.
        fits: for each variable, which events pass its tests.
        keys: by number of an edge and variable.
        partitions: a hash of each event's partition; None: time is covered for all events together.
    """

    times: Ints
    fits: Mapping[str, Bools]
    keys: Mapping[tuple[int, str], EdgeKeys] = field(default_factory=dict)
    partitions: Ints | None = None


@dataclass(frozen=True, slots=True)
class JoinSize:
    """The size that filters of one edge have at all sites, so that they can be merged."""

    edge: int
    bits: int
    hashes: int


Joins = Mapping[tuple[int, str], bytes]  # by edge and the variable whose values are recorded


class Site:
    """One query at one site: candidates of each branch, as far as no round has dropped them.

    Args:
        query: the query.
        branches: the events as each branch of the query sees them.
        tick: the length of a tick.
    """

    def __init__(self, query: DualQuery, branches: Sequence[SiteEvents], tick: int) -> None:
        if any((each.partitions is not None) != query.keyed for each in branches):
            raise PlanError("a site knows partitions if, and only if, time is covered by partition")
        self.query, self.branches, self._tick = query, branches, tick
        self._alive = [{name: fits.copy() for name, fits in each.fits.items()} for each in branches]

    def __len__(self) -> int:
        return len(self.branches[0].times)

    def count(self, number: int) -> dict[str, int]:
        """Return how many events fit each variable of a branch."""
        return {name: int(self._alive[number][name].sum()) for name in self.query.branches[number].names}

    def count_pairs(self, number: int) -> dict[tuple[int, str], int]:
        """Return how many distinct pairs each edge of a branch has, for both of its variables."""
        edges = enumerate(self.query.branches[number].edges)
        return {
            (at, name): len(self._pairs(number, at, name))
            for at, each in edges
            for name in (each.left, each.right)
        }

    def count_left(self, number: int, name: str) -> int:
        """Return how many events of a variable no round has dropped."""
        return int(self._alive[number][name].sum())

    def span(self) -> tuple[int, int]:
        """Return the first and the last time; of no events, a span that adds nothing."""
        times = self.branches[0].times
        return (int(times.min()), int(times.max())) if len(times) else (MAX_TIME, MIN_TIME)

    def cover(self, number: int, name: str) -> bytes:
        """Return the time that matches of a variable's events may cover, as runs of ticks."""
        return self._runs(number, name).to_bytes()

    def record(self, number: int, name: str, size: JoinSize, covered: bytes) -> bytes:
        """Return a filter of the values of a variable's events in covered time."""
        self._drop_outside(number, name, covered)
        pairs = self._pairs(number, size.edge, name)
        join = WindowJoin.of_size(pairs, window=self.query.window, bits=size.bits, hashes=size.hashes)
        return join.to_bytes()

    def verify(self, number: int, name: str, covered: bytes, joins: Joins, *, tags: bool) -> bytes:
        """Drop events of a variable that are outside, or find no equals; return what the others cover.

        With `tags` the answer is refresh tags of the table that came, if these take fewer bytes; else runs.
        """
        self._drop_outside(number, name, covered)
        self._alive[number][name] &= self._find_equals(number, name, joins)
        runs, known = self._runs(number, name), read_cover(covered)
        if isinstance(known, TickRuns):
            return runs.shrink(known).to_bytes()
        return min([known.refresh(runs).to_bytes()] * tags + [runs.to_bytes()], key=len)

    def pull(self, covers: Sequence[bytes], joins: Sequence[Joins]) -> npt.NDArray[np.int64]:
        """Return the rows of the events that travel, given the final covered time of each branch."""
        kept = np.zeros(len(self), bool)
        for number, (branch, covered) in enumerate(zip(self.query.branches, covers, strict=True)):
            kept |= self._inside(number, covered) & self._stays(number, branch, joins[number])
        return np.flatnonzero(kept)

    def _stays(self, number: int, branch: DualBranch, joins: Joins) -> Bools:
        """Return which events travel if their time is covered."""
        if self.query.inside is Inside.ALL:
            return np.ones(len(self), bool)
        stays = np.zeros(len(self), bool)
        for name in (*branch.names, *branch.others):
            fits = self.branches[number].fits[name]
            judged = self.query.inside is Inside.JOINING and name in branch.names
            stays |= fits & self._find_equals(number, name, joins) if judged else fits
        return stays

    def _find_equals(self, number: int, name: str, joins: Joins) -> Bools:
        """Return which events find their equals by every edge that judges the variable and has a filter."""
        branch, events = self.query.branches[number], self.branches[number]
        found = np.ones(len(self), bool)
        for at in branch.edges_on(name):
            edge = branch.edges[at]
            message = joins.get((at, edge.other(name)))
            if message is None:
                continue
            keys, fits = events.keys[at, name], np.flatnonzero(found & events.fits[name])
            near = NEAR[edge.order_of(name)]
            held = WindowJoin.from_bytes(message).holds(keys.values[fits], events.times[fits], near)
            found[fits] = held & keys.valid[fits]
        return found

    def _inside(self, number: int, covered: bytes) -> Bools:
        events = self.branches[number]
        return read_cover(covered).holds(events.times, events.partitions)

    def _drop_outside(self, number: int, name: str, covered: bytes) -> None:
        events, alive = self.branches[number], np.flatnonzero(self._alive[number][name])
        partitions = None if events.partitions is None else events.partitions[alive]
        inside = read_cover(covered).holds(events.times[alive], partitions)
        self._alive[number][name][alive[~inside]] = False

    def _runs(self, number: int, name: str) -> TickRuns:
        events, alive = self.branches[number], self._alive[number][name]
        before, after = self.query.branches[number].reach(name, self.query.window)
        partitions = None if events.partitions is None else events.partitions[alive]
        return TickRuns.of(events.times[alive], before, after, tick=self._tick, keys=partitions)

    def _pairs(self, number: int, edge: int, name: str) -> Ints:
        events, keys = self.branches[number], self.branches[number].keys[edge, name]
        alive = self._alive[number][name] & keys.valid
        return pairs_of(keys.values[alive], events.times[alive], self.query.window)
