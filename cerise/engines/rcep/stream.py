"""Recomputation over a stream, piece by piece; subclasses enumerate or count the matches of a piece."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton import state
from cerise.engines.automaton.columns import Columns
from cerise.engines.automaton.records import EdgeRecord, Negated
from cerise.engines.base import EngineReport, Finding, Options, refuse_disorder
from cerise.engines.census import Census, Load
from cerise.engines.rcep.keys import Sides
from cerise.engines.rcep.plan import Plan
from cerise.engines.rcep.window_events import EventPiece, EventWindow
from cerise.events import EventBatch
from cerise.kernels import formulas
from cerise.kinds import INT64_MAX, INT64_MIN
from cerise.pattern.values import Fault
from cerise.plan.comparisons import EventComparison

Ints = npt.NDArray[np.int64]
ENGINE = "rcep"
FEW = 4  # new events are few if this many times more are kept


class Recomputing(ABC):
    """The state of a query under recomputation: the events of its window."""

    def __init__(self, plan: Plan, options: Options, compared: Sequence[EventComparison]) -> None:
        self.plan, self.program, self.options = plan, plan.program, options
        self.report = EngineReport()
        self._formulas = formulas.load(self.program.source)
        bits = {var.name: 1 << number for number, var in enumerate(self.program.bound.variables)}
        edges = self.program.tables.edges
        accepts = edges[:, EdgeRecord.accepts] != 0
        self._ends = int(np.bitwise_or.reduce(edges[accepts, EdgeRecord.bit], initial=0))
        negated = self.program.tables.negated[:, Negated.bit]
        self._negated = int(np.bitwise_or.reduce(negated, initial=0))  # a bit for each negated variable
        self._sides = Sides(compared, self.program.layout, bits)
        self._columns = Columns(self.program, self._on_fault)
        self._reset()

    def _reset(self) -> None:
        self._window = EventWindow(self.program, self.options.limits)
        self._last: int | None = None
        # the number of the first event that has not been tried as a trigger; with `by_start`, as a start
        self._done = 0

    # ---- the interface of all engines

    def feed(self, events: EventBatch) -> Iterator[Finding]:
        """Take the next events in stream order; yield the matches that become final, in batches."""
        if not len(events):
            return
        refuse_disorder(self._last, events)
        self.report.events += len(events)
        start = 0
        while start < len(events):
            stop = min(start + max(self.options.limits.joined_events, len(self._window)), len(events))
            yield from self._read(events.slice(start, stop), over=False)
            start = stop
        yield from self._yield_count()

    def advance(self, time: int) -> Iterator[Finding]:
        """No event before `time` will come; yield the matches that this makes final."""
        if self._last is not None and time <= self._last:
            return
        self._last = time
        if self.plan.waits and self._window.has_before(time - self._reach, self._done):
            yield from self._read(self._window.retained.kept.slice(0, 0), over=False)
            yield from self._yield_count()

    def flush(self) -> Iterator[Finding]:
        yield from self._read(self._window.retained.kept.slice(0, 0), over=True)
        yield from self._yield_count()
        self._reset()

    def save(self) -> bytes:
        more = {"done": np.array([self._done, self._last is not None, self._last or 0])}
        return state.write(self.program, {**self._window.save(), **more}, engine=ENGINE)

    def load(self, saved: bytes) -> None:
        """Go on from a saved state of the same query."""
        arrays = state.read(self.program, saved, engine=ENGINE)
        self._reset()
        self._window.restore(arrays)
        done, known, last = (int(each) for each in arrays["done"])
        self._done, self._last = done, last if known else None

    @property
    def alive(self) -> dict[str, int]:
        return {"events": len(self._window)}

    # ---- limits

    def measure(self, *, by_partition: bool) -> Load:  # noqa: ARG002
        """Return upper bounds of the events and bytes."""
        return Load(len(self._window), len(self._window), self._window.nbytes)

    def census(self) -> Census:
        """Drop expired events, and count those that fit no negated variable."""
        window, within = self._window, self.program.bound.within
        if self._last is not None and within is not None:
            window.expire(max(self._last - (2 if self.plan.waits else 1) * int(str(within.size)), INT64_MIN))
        vetoes = np.zeros(len(window), np.bool_)
        if self._negated and len(window):
            masks, counted = np.zeros(len(window), np.int64), self.report.uncomputable
            self._judge(window.retained.kept, np.ascontiguousarray(window.points), masks)
            self._columns.chunk.faults, self.report.uncomputable = 0, counted
            self._columns.texts.keep(np.zeros(0, np.int64), forget)
            vetoes = masks & self._negated != 0
        return window.census(vetoes)

    def evict(self, places: Ints) -> None:
        """Drop events of the last census."""
        self._window.evict(places)

    # ---- pieces

    def _read(self, fresh: EventBatch, *, over: bool) -> Iterator[Finding]:
        """Find the matches among the kept events and the new ones."""
        begun = time.perf_counter()
        piece = self._window.piece(fresh, self._select(fresh))
        if len(fresh):
            self._last = int(fresh.times[-1])
        masks = np.zeros(len(piece), np.int64)
        if len(piece):
            points = np.ascontiguousarray(piece.points)
            self._fit(piece, points, masks)
            first = int(np.searchsorted(piece.numbers, self._done))
            ready = self._ready(piece, over=over)
            wanted = self._narrow(piece, masks, first, ready)
            piece = self._window.partition(piece, wanted != 0)
            self.report.matching_seconds += time.perf_counter() - begun
            if self.plan.by_start:
                yield from self._find_by_start(piece, wanted, first, ready)
            else:
                yield from self._find(piece, wanted, first, ready)
            self._done = int(piece.numbers[ready]) if ready < len(piece) else int(piece.numbers[-1]) + 1
            begun = time.perf_counter()
            self.report.uncomputable += self._columns.chunk.faults
            self._columns.chunk.faults = 0
        self._window.keep(piece, masks != 0, 2 if self.plan.waits else 1, self._last)
        self._columns.texts.keep(np.zeros(0, np.int64), forget)
        self.report.matching_seconds += time.perf_counter() - begun

    def _select(self, fresh: EventBatch) -> Ints | None:
        """Return the kept events that matches of the new ones may bind, by row; None: look at all of them.

        It pays if new events are few, and matches stay in their partition.
        """
        program = self.program
        if self.plan.waits or program.by_position or not program.bound.partition:
            return None
        if not len(fresh) or len(self._window) < FEW * len(fresh):
            return None
        masks, counted = np.zeros(len(fresh), np.int64), self.report.uncomputable
        self._judge(fresh, np.ascontiguousarray(fresh.times), masks)
        self._columns.chunk.faults, self.report.uncomputable = 0, counted  # the piece is judged again
        return self._window.select(fresh, masks & self._ends != 0)

    def _judge(self, events: EventBatch, points: Ints, masks: Ints) -> None:
        columns = self._columns
        columns.read(events, forget)
        columns.at(0, 0, points)
        assert self._formulas.fits is not None
        self._formulas.fits(len(events), columns.address, masks.ctypes.data)

    def _fit(self, piece: EventPiece, points: Ints, masks: Ints) -> None:
        """Read the columns, and find the variables that each event fits."""
        columns = self._columns
        self._judge(piece.events, points, masks)
        assert self._formulas.fits is not None
        if piece.fresh and (faults := columns.chunk.faults):
            columns.chunk.faults = 0  # faults of kept events were counted when the events were new
            self._formulas.fits(piece.fresh, columns.address, masks.ctypes.data)
            columns.chunk.faults = faults - columns.chunk.faults

    def _ready(self, piece: EventPiece, *, over: bool) -> int:
        """Return the end of the events whose matches, by trigger or by start, no later event can change."""
        if over or not self.plan.waits:
            return len(piece)
        assert self._last is not None  # it is at least the time of the last event
        return int(np.searchsorted(piece.points, max(self._last - self._reach, INT64_MIN)))

    @property
    def _reach(self) -> int:
        within = self.program.bound.within
        assert within is not None  # a NOT at the end needs WITHIN (S6.4)
        return int(str(within.size))

    def _find_by_start(self, piece: EventPiece, masks: Ints, first: int, ready: int) -> Iterator[Finding]:
        """Find the matches that start with events whose whole window has arrived (S6.2)."""
        opens = piece.opens.copy()
        opens[:first], opens[ready:] = 0, 0
        if opens.any():
            until = min(int(piece.points[ready - 1]) + self._reach, INT64_MAX)
            last = int(np.searchsorted(piece.points, until, "right"))
            yield from self._find(replace(piece, opens=opens), masks, first, last)

    def _narrow(self, _piece: EventPiece, masks: Ints, _first: int, _last: int) -> Ints:
        return masks

    @abstractmethod
    def _find(self, piece: EventPiece, masks: Ints, first: int, last: int) -> Iterator[Finding]:
        """Find the matches that the events from `first` to `last` complete."""

    @abstractmethod
    def _yield_count(self) -> Iterator[Finding]:
        """Yield the number of matches since the last call, if the query asks only for it."""

    def _on_fault(self, _fault: Fault) -> None:
        self.report.uncomputable += 1


def forget(_codes: Ints) -> None:
    """Ignore new codes of strings: no code is kept from piece to piece."""
