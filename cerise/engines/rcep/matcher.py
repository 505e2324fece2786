"""One query running over one stream by recomputation: it keeps events, never runs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cerise.engines.base import Matches, Options, Report
from cerise.engines.nfa import state
from cerise.engines.nfa.columns import Columns
from cerise.engines.nfa.layout import COL_FAULTS
from cerise.engines.nfa.machine import A_COLS, G_NEED, G_NODES, G_RUNS
from cerise.engines.nfa.tables import Memory
from cerise.engines.rcep import desk as at
from cerise.engines.rcep.plan import Plan
from cerise.engines.rcep.sides import Sides
from cerise.engines.rcep.tables import Desk
from cerise.engines.rcep.walk import follow_kept, recompute
from cerise.engines.rcep.window import Piece, Window
from cerise.errors import DataError
from cerise.events import EventBatch
from cerise.kernels import formulas
from cerise.pattern.query import Output
from cerise.pattern.values import Fault

Ints = npt.NDArray[np.int64]
ENGINE = "rcep"
READ = 1 << 16  # new events that are looked at together, or as many as are kept


class RcepMatcher:
    """All state of a query that is recomputed: the events of its window."""

    def __init__(self, plan: Plan, options: Options) -> None:
        program = plan.program
        self.plan, self.program, self.options = plan, program, options
        self.report = Report()
        self._formulas = formulas.load(program.source)
        self._sides = Sides(plan.compared, program.layout)
        self._columns = Columns(program, self._on_fault, whole=True)
        self._memory = Memory(program, options.max_runs, backtracks=False)
        self._memory.m[A_COLS] = self._columns.address
        alone = program.bound.query.output is Output.NON_OVERLAPPING
        limit = 1 if alone else program.bound.query.limit or 0
        self._desk = Desk(plan, counts=program.counts_only, limit=limit, alone=alone)
        self._reset()

    def _reset(self) -> None:
        self._window = Window(self.program)
        self._last: int | None = None
        self._done = 0  # the number of the first event that has not been tried as the last of a match

    # ---- the interface of all engines

    def feed(self, events: EventBatch) -> Iterator[Matches]:
        """Take the next events in stream order; yield the matches that become final, some at a time."""
        if not len(events):
            return
        if self._last is not None and events.times[0] < self._last:
            raise DataError(
                f"events go back in time, from {self._last} to {events.times[0]}",
                hint="feed batches in stream order",
            )
        self.report.events += len(events)
        start = 0
        while start < len(events):
            stop = min(start + max(READ, len(self._window)), len(events))
            yield from self._read(events.slice(start, stop), over=False)
            start = stop
        if self.program.counts_only:
            yield self._counted()

    def flush(self) -> Iterator[Matches]:
        """Yield the matches that the end of the stream makes final, and forget everything."""
        yield from self._read(self._window.retained.kept.slice(0, 0), over=True)
        if self.program.counts_only:
            yield self._counted()
        self._reset()

    def save(self) -> bytes:
        """Return the state, for `load` in another process."""
        more = {"done": np.array([self._done, self._last is not None, self._last or 0])}
        return state.write(self.program, {**self._window.saved(), **more}, engine=ENGINE)

    def load(self, saved: bytes) -> None:
        """Go on from a saved state of the same query."""
        arrays = state.read(self.program, saved, engine=ENGINE)
        self._reset()
        self._window.restore(arrays)
        done, known, last = (int(each) for each in arrays["done"])
        self._done, self._last = done, last if known else None

    # ---- pieces

    def _read(self, fresh: EventBatch, *, over: bool) -> Iterator[Matches]:
        """Look at what is kept and at some new events."""
        begun = time.perf_counter()
        piece = self._window.piece(fresh)
        masks = np.zeros(len(piece), np.int64)
        if len(piece):
            if len(fresh):
                self._last = int(fresh.times[-1])
            self._lay(piece, masks)
            self.report.matching_seconds += time.perf_counter() - begun
            yield from self._found(piece, self._ready(piece, over=over))
            begun = time.perf_counter()
            self._close(piece)
        self._window.keep(piece, masks != 0, 2 if self.plan.waits else 1)
        self._columns.texts.keep(np.zeros(0, np.int64), _forget)
        self.report.matching_seconds += time.perf_counter() - begun

    def _lay(self, piece: Piece, masks: Ints) -> None:
        """Make columns, fits, lists and comparisons ready."""
        columns, words = self._columns, self._columns.words
        columns.read(piece.events, _forget)
        columns.at(0, 0, np.ascontiguousarray(piece.points))
        assert self._formulas.fits is not None
        faults = int(words[COL_FAULTS])
        self._formulas.fits(len(piece), columns.address, masks.ctypes.data)
        before = int(words[COL_FAULTS]) if piece.fresh == 0 else faults
        keys = self._sides.keys(len(piece), columns.address)
        words[COL_FAULTS] = before  # what pruning cannot compute is counted where it is judged
        self._desk.lay(piece, masks, keys)
        first = int(np.searchsorted(piece.numbers, self._done))
        follow_kept(self._memory.address, self._desk.address, first)
        self._desk.w[at.D_NEXT], self._desk.w[at.D_DEPTH] = first, -1

    def _ready(self, piece: Piece, *, over: bool) -> int:
        """Return up to which event all is known that matches which it completes depend on."""
        if over or not self.plan.waits:
            return len(piece)
        within = self.program.bound.within
        assert within is not None  # a NOT at the end needs one (S6.4)
        return int(np.searchsorted(piece.points, int(piece.points[-1]) - int(str(within.size))))

    def _found(self, piece: Piece, last: int) -> Iterator[Matches]:
        """Find the matches that events up to one complete, and yield them as they fill the room for them."""
        desk, status = self._desk, at.FULL
        while status != at.DONE:
            begun = time.perf_counter()
            with np.errstate(all="ignore"):
                status = recompute(self._formulas.edge, self._memory.address, desk.address, last)
            if status == at.DEEPER:
                self._deepen()
            self.report.matching_seconds += time.perf_counter() - begun
            yield from self._written()
        self._done = int(piece.numbers[last]) if last < len(piece) else self._next_number(piece)

    def _next_number(self, piece: Piece) -> int:
        return int(piece.numbers[-1]) + 1

    def _written(self) -> Iterator[Matches]:
        """Yield the matches written so far; none where it takes long, so that the caller has a say."""
        desk, w = self._desk, self._desk.w
        paused = w[at.D_TESTS] >= at.PATIENCE
        self.report.reread_events += int(w[at.D_TESTS])
        self.report.most_runs = max(self.report.most_runs, int(w[at.D_DEEPEST]))
        w[at.D_TESTS] = 0
        written = int(w[at.D_WRITTEN])
        if paused and self.program.counts_only:
            yield self._counted()
        if not (written or paused) or self.program.counts_only:
            return
        begun = time.perf_counter()
        self.report.matched_events += int(desk.fill.sum())
        self.report.matches += written
        found = self._window.retained.matches(desk.lengths[:written], desk.found, desk.fill)
        desk.fill[:] = 0
        w[at.D_WRITTEN] = 0
        self.report.construction_seconds += time.perf_counter() - begun
        yield found

    def _close(self, piece: Piece) -> None:
        """Note what the piece leaves behind: what could not be computed, and where matches may start."""
        self.report.uncomputable += int(self._columns.words[COL_FAULTS])
        self._columns.words[COL_FAULTS] = 0
        if self._desk.w[at.D_ALONE]:
            floors = self._desk.floors
            inside = piece.parts >= 0
            taken = inside & (np.arange(len(piece)) <= floors[np.where(inside, piece.parts, 0)])
            piece.opens[taken] = 0

    def _deepen(self) -> None:
        """Make room for longer matches."""
        m, depth = self._memory.m, 2 * int(self._desk.w[at.D_ROOM])
        m[G_RUNS] = m[G_NODES] = self._desk.w[at.D_ROOM]
        m[G_NEED] = depth
        self._memory.make_room()
        self._desk.deepen(depth)

    def _counted(self) -> Matches:
        count = int(self._desk.w[at.D_COUNTED])
        self._desk.w[at.D_COUNTED] = 0
        self.report.matches += count
        return Matches(self._window.retained.kept.slice(0, 0), {}, counted=count)

    def _on_fault(self, _fault: Fault) -> None:
        self.report.uncomputable += 1


def _forget(_codes: Ints) -> None:
    """No string is remembered from piece to piece."""
