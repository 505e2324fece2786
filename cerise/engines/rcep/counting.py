"""Counts and aggregates without enumerating matches: counts chains of events instead (S7.2).

For each event that can complete a match, the trigger, the matcher counts the chains that lead to it within
its window, place by place. An aggregate follows from the number of chains through each event.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerise.engines.base import Finding, Matches, Options, Tally
from cerise.engines.counting.counts import count, standings
from cerise.engines.counting.machine import Room
from cerise.engines.counting.model import AnchorTest, Chains, ChainStep, Compare, End, Layer
from cerise.engines.rcep.keys import Keys
from cerise.engines.rcep.layers import Layers, layers_for, places_of_argument
from cerise.engines.rcep.plan import Plan
from cerise.engines.rcep.stream import Recomputing
from cerise.engines.rcep.window_events import EventPiece
from cerise.engines.totals.groups import LEAST, first_window, starts_early, too_early
from cerise.plan.comparisons import EventComparison

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Triggers:
    """Triggers, sorted by partition, then in stream order.

    Attributes:
        rows: the row of each trigger in the piece.
        at: the position of each trigger in the order of partition and stream.
        low: the first position at which a match of each trigger may start.
        window: the number of the window of each trigger, for PER WINDOW; None otherwise.
    """

    rows: Ints
    at: Ints
    low: Ints
    window: Ints | None


class CountingMatcher(Recomputing):
    """Counts the matches of a query without enumerating them."""

    def __init__(self, plan: Plan, options: Options) -> None:
        self.layers = layers_for(plan.program.bound)
        self._compared = list(dict.fromkeys(each for layers in self.layers for each in layers.compared))
        super().__init__(plan, options, self._compared)
        self._names = [var.name for var in self.program.bound.variables]
        self._count = 0
        limits = options.limits
        self.room = Room(
            limbs=limits.limbs, budget=limits.counted_places, lanes=limits.lanes, shown=limits.shown_places
        )

    def _find(self, piece: EventPiece, masks: Ints, first: int, last: int) -> Iterator[Finding]:
        """Count the matches that the events from `first` to `last` complete."""
        begun = time.perf_counter()
        found = self._sides.ranks(self._columns, masks, piece.fresh)
        ranks = dict(zip(self._compared, found, strict=True))
        order = _Order(piece, masks)
        for layers in self.layers:
            chains = _Chaining(self, layers, order, ranks)
            for triggers in chains.list_triggers(first, last):
                if not len(triggers.rows):
                    continue
                if self.program.counts_only:
                    self._count += sum(chains.counts(triggers))
                else:
                    for tally in chains.tallies(triggers):
                        self.report.matches += tally.count
                        yield tally
        self.report.matching_seconds += time.perf_counter() - begun

    def _yield_count(self) -> Iterator[Finding]:
        if self.program.counts_only:
            count, self._count = self._count, 0
            self.report.matches += count
            yield Matches(self._window.retained.nothing, {}, counted=count)

    def bit(self, var: str) -> int:
        return 1 << self._names.index(var)


class _Order:
    """The events of a piece that fit any variable, sorted by partition, then in stream order."""

    def __init__(self, piece: EventPiece, masks: Ints) -> None:
        fitting = np.flatnonzero((masks != 0) & (piece.parts >= 0))
        self.piece, self.masks = piece, masks
        self.rows = fitting[np.argsort(piece.parts[fitting], kind="stable")]
        self.points, ranks = np.unique(piece.points[self.rows], return_inverse=True)
        self._width = len(self.points) + 1
        self._keys = piece.parts[self.rows] * self._width + ranks  # partition and point in one number

    def events_of(self, bit: int) -> Ints:
        return np.flatnonzero(self.masks[self.rows] & bit)

    def first_at(self, parts: Ints, points: Ints) -> Ints:
        return np.searchsorted(self._keys, parts * self._width + np.searchsorted(self.points, points))


class _Chaining:
    """The chains of one branch in one piece."""

    def __init__(
        self, matcher: CountingMatcher, layers: Layers, order: _Order, ranks: dict[EventComparison, Keys]
    ) -> None:
        self.bound, self.layers, self.order, self.ranks = matcher.program.bound, layers, order, ranks
        totals = self.bound.query.totals
        self.per_window = totals is not None and totals.per.window
        self.events = [order.events_of(matcher.bit(place.var)) for place in layers.places]
        self.rows = [order.rows[events] for events in self.events]
        self.triggers = order.events_of(matcher.bit(layers.last))
        self.room = matcher.room
        self.by_position = matcher.program.by_position
        self.window_pairs = matcher.options.limits.window_pairs

    # ---- triggers

    def list_triggers(self, first: int, last: int) -> Iterator[Triggers]:
        """Yield the triggers among the events from `first` to `last`; PER WINDOW, once for each window."""
        rows = self.order.rows[self.triggers]
        at = self.triggers[(rows >= first) & (rows < last)]
        rows = self.order.rows[at]
        within, slide = self.bound.within, self.bound.slide
        if within is None:
            yield self._whole(rows, at)
            return
        size = int(str(within.size))
        points = self.order.piece.points[rows]
        if slide is None:
            yield self._since(rows, at, np.maximum(points, LEAST + size) - size + self.by_position)
            return
        step = int(str(slide.size))
        inside = points % step < size  # SLIDE may leave gaps
        rows, at, points = rows[inside], at[inside], points[inside]
        if self.per_window:
            yield from self._by_window(rows, at, size, step)
            return
        starts = first_window(points, size, step) * step
        yield self._since(rows, at, np.where(starts_early(points, size, step), LEAST, starts))

    def _whole(self, rows: Ints, at: Ints) -> Triggers:
        """Return triggers whose matches may start with any event."""
        return self._since(rows, at, np.full(len(rows), LEAST))

    def _since(self, rows: Ints, at: Ints, points: Ints, window: Ints | None = None) -> Triggers:
        """Return triggers whose matches start at the given points or later."""
        low = self.order.first_at(self.order.piece.parts[rows], points)
        return Triggers(rows, at, np.minimum(low, at), window)

    def _by_window(self, rows: Ints, at: Ints, size: int, step: int) -> Iterator[Triggers]:
        """Yield triggers with each of their windows, a bounded number of windows at a time."""
        points = self.order.piece.points[rows]
        early = starts_early(points, size, step)
        if early.any() and any(self.counts(self._whole(rows[early], at[early]))):
            raise too_early()
        lowest = first_window(points, size, step)
        windows = np.maximum(points // step - lowest + 1, 0)
        portions = np.cumsum(windows) // self.window_pairs
        for some in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(portions)) + 1):
            again, ends = np.repeat(some, windows[some]), np.cumsum(windows[some])
            window = lowest[again] + np.arange(len(again)) - np.repeat(ends - windows[some], windows[some])
            yield self._since(rows[again], at[again], window * step, window)

    # ---- chains

    def chains(self, triggers: Triggers) -> Chains:
        """Return the chains that lead to triggers."""
        layers, opens = self.layers, self.order.piece.opens
        anchors = tuple(sorted({anchor for _, anchor in layers.anchors}))
        return Chains(
            tuple(
                Layer(
                    self.events[i],
                    opens[self.rows[i]] != 0 if i == 0 else None,
                    tuple(
                        self._compare(each, self.rows[i], triggers.rows) for each in layers.tests.get(i, ())
                    ),
                )
                for i in range(len(layers.places))
            ),
            tuple(
                ChainStep(i, j, tuple(self._compare(each, self.rows[i], self.rows[j]) for each in tests))
                for (i, j), tests in layers.steps.items()
            ),
            tuple(
                End(i, tuple(self._compare(each, self.rows[i], triggers.rows) for each in tests))
                for i, tests in layers.ends.items()
            ),
            triggers.at,
            triggers.low,
            anchors,
            tuple(
                AnchorTest(i, anchor, self._compare(each, self.rows[i], self.rows[anchor]))
                for (i, anchor), tests in layers.anchors.items()
                for each in tests
            ),
        )

    def _compare(self, compared: EventComparison, left: Ints, right: Ints) -> Compare:
        keys = self.ranks[compared]
        return Compare(compared.op, keys.left[left], keys.right[right])

    def counts(self, triggers: Triggers) -> list[int]:
        """Return how many matches each trigger completes."""
        found = count(self.chains(triggers), self.room) if self.layers.places else [0] * len(triggers.rows)
        if not self.layers.alone:
            return found
        opens = (self.order.piece.opens[triggers.rows] != 0) & (triggers.low <= triggers.at)
        return [number + int(alone) for number, alone in zip(found, opens, strict=True)]

    def tallies(self, triggers: Triggers) -> Iterator[Tally]:
        """Yield how many matches each trigger completes, and the events whose values aggregates take."""
        counts = self.counts(triggers)
        wanted = [places_of_argument(self.layers, arg) for arg in self.bound.arguments]
        standing = self._count_through(triggers, sorted({i for places, _ in wanted for i in places}))
        for trigger, number in enumerate(counts):
            if not number:
                continue
            last = int(triggers.rows[trigger])
            weights = {
                arg: self._weights(standing.get(trigger, {}), places, last if own else None, number)
                for arg, (places, own) in enumerate(wanted)
            }
            window = None if triggers.window is None else int(triggers.window[trigger])
            yield Tally(self.order.piece.events, last, window, number, weights)

    def _count_through(
        self, triggers: Triggers, places: list[int]
    ) -> dict[int, dict[int, tuple[Ints, list[int]]]]:
        """Return for each trigger and place the events there, and the number of chains through each."""
        found: dict[int, dict[int, tuple[Ints, list[int]]]] = {}
        if not places:
            return found
        for each in standings(self.chains(triggers), places, self.room):
            order = np.lexsort((each.layer, each.trigger))
            trigger, layer = each.trigger[order], each.layer[order]
            borders = np.flatnonzero((np.diff(trigger) != 0) | (np.diff(layer) != 0)) + 1
            for part in np.split(order, borders):
                if len(part):
                    place = int(each.layer[part[0]])
                    rows = self.rows[place][each.event[part]]
                    found.setdefault(int(each.trigger[part[0]]), {})[place] = (rows, list(each.chains[part]))
        return found

    @staticmethod
    def _weights(
        standing: dict[int, tuple[Ints, list[int]]], places: list[int], last: int | None, count: int
    ) -> tuple[Ints, list[int]]:
        taken = [standing[i] for i in places if i in standing]
        rows = [rows for rows, _ in taken] + ([np.array([last])] if last is not None else [])
        weights = [weight for _, some in taken for weight in some] + ([count] if last is not None else [])
        return np.concatenate(rows) if rows else np.zeros(0, np.int64), weights
