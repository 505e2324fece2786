"""Numbers the partitions of events, and their positions where a window counts events, scope by scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.columns import Partitions
from cerise.engines.automaton.window import number_in_partition
from cerise.engines.tree.branches.join_branch import StreamScope
from cerise.events import EventBatch
from cerise.kinds import INT64_MIN
from cerise.pattern.bound import Bound

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Keys = list[list[Any]]


class ScopeNumbers:
    """The partitions and positions of the scopes of a team.

    Args:
        scopes: the scopes.
        bounds: for each scope a query that has it.
        slides: for each scope whether a query of it has SLIDE, whose windows begin at position 0.
    """

    def __init__(
        self, scopes: Sequence[StreamScope], bounds: Sequence[Bound], slides: Sequence[bool]
    ) -> None:
        self._scopes, self._bounds, self._slides = scopes, bounds, slides
        self.counted = [i for i, each in enumerate(scopes) if each.by_position]
        self._positions = {i: Partitions(bounds[i]) for i in self.counted}
        self._counts = {i: np.zeros(1, np.int64) for i in self.counted}
        self.forget()

    def forget(self) -> None:
        """Number the partitions of leaves anew: their rows are read again."""
        self._partitions = [Partitions(bound) for bound in self._bounds]

    def __len__(self) -> int:
        """How many partitions are known, and could be forgotten."""
        positions = (len(each) for i, each in self._positions.items() if not self._slides[i])
        return sum(map(len, self._partitions)) + sum(positions)

    def count(self, events: EventBatch) -> Ints:
        """Return for each scope that counts events the position of each event, and move on."""
        points = np.zeros((len(self.counted), len(events)), np.int64)
        for row, scope in zip(points, self.counted, strict=True):
            partitions = self._positions[scope]
            parts = partitions.of(events)
            parts = np.zeros(len(events), np.int64) if parts is None else np.ascontiguousarray(parts)
            counts = self._counts[scope]
            if len(counts) < len(partitions):
                counts = np.concatenate([counts, np.zeros(2 * len(partitions) - len(counts), np.int64)])
                self._counts[scope] = counts
            number_in_partition(parts, row, counts)
        return points

    def count_all(self) -> int:
        """Return how many events the stream has had; INT64_MIN if no window counts all of them."""
        found = (int(self._counts[i][0]) for i in self.counted if not self._scopes[i].partition)
        return next(found, INT64_MIN)

    def partition(self, scope: int, events: EventBatch, rows: Ints) -> Ints | None:
        """Return the partition of each event; -1 for one without; None: all share one.

        Args:
            scope: the number of the scope.
            events: the events.
            rows: the events that are asked for; those of others are arbitrary.
        """
        partitions = self._partitions[scope]
        if not partitions.paths:
            return None
        parts = np.zeros(len(events), np.int64)
        if len(rows):
            found = partitions.of(events.take(rows))
            assert found is not None
            parts[rows] = found
        return parts

    def last_positions(self, scope: int, events: EventBatch) -> Ints:
        """Return for each event how many events its partition has had in a scope that counts events."""
        parts = self._positions[scope].of(events)
        return self._counts[scope][np.zeros(len(events), np.int64) if parts is None else parts]

    def find_in_reach(
        self, events: EventBatch, points: Ints, reaches: Sequence[int], last: int | None
    ) -> Bools:
        """Return which events some scope still looks back at.

        Args:
            events: kept events.
            points: for each scope that counts events, their positions.
            reaches: how far back each scope looks; -1: for ever.
            last: the time before which no event will come; None: any may.
        """
        used = np.zeros(len(events), np.bool_)
        for scope, reach in enumerate(reaches):
            if reach >= 0 and scope in self.counted:
                ends = self.last_positions(scope, events)
                used |= points[self.counted.index(scope)] >= ends - 1 - reach
            elif reach >= 0 and last is not None:
                used |= events.times >= last - reach
            else:
                used[:] = True
        return used

    def keep(self, scope: int, events: EventBatch) -> None:
        """Drop the positions of partitions that have none of these events.

        Positions are compared within a window only, so a partition that starts over starts at 0.
        """
        partitions = self._positions[scope]
        if not partitions.paths or self._slides[scope]:
            return
        parts = partitions.of(events)
        assert parts is not None
        which = np.zeros(len(partitions), bool)
        which[parts[parts >= 0]] = True
        self._counts[scope] = self._counts[scope][: len(which)][which]
        partitions.keep(which)

    def save(self) -> list[tuple[Keys, list[int]]]:
        """Return the partitions and positions of each scope that counts events, as plain values."""
        return [
            ([list(key) for key in self._positions[i].numbers],
             self._counts[i][: max(1, len(self._positions[i]))].tolist())
            for i in self.counted
        ]  # fmt: skip

    def load(self, saved: Sequence[tuple[Keys, list[int]]]) -> None:
        """Take over what `save` has returned."""
        for scope, (keys, counts) in zip(self.counted, saved, strict=True):
            if self._positions[scope].paths:
                self._positions[scope].restore(tuple(key) for key in keys)
            self._counts[scope] = np.array(counts or [0], np.int64)
