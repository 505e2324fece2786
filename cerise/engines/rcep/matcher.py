"""Runs one query over one stream by recomputation, and writes out matches as the joins find them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.columns import Columns
from cerise.engines.automaton.memory import Memory
from cerise.engines.automaton.program import (
    Program,
    too_many_matches,
)
from cerise.engines.automaton.window import MAX
from cerise.engines.base import Matches, Options, Progress
from cerise.engines.rcep.left_deep import follow_kept, recompute
from cerise.engines.rcep.plan import Plan
from cerise.engines.rcep.prune import keep_near
from cerise.engines.rcep.records import DEEPER, DONE, FULL, TOO_MANY
from cerise.engines.rcep.stream import Recomputing, forget
from cerise.engines.rcep.window_events import EventPiece
from cerise.engines.rcep.workspace import WorkspaceMemory
from cerise.kernels import formulas
from cerise.pattern.query import Output
from cerise.pattern.values import Fault

Ints = npt.NDArray[np.int64]


class _Mirror:
    """The mirrored query of right-deep joins: its formulas, its runs, and its columns."""

    def __init__(self, program: Program, options: Options, on_fault: Callable[[Fault], None]) -> None:
        self.formulas = formulas.load(program.source)
        self.memory = Memory(program, options)
        self._columns = Columns(program, on_fault)
        self.memory.m.cols = self._columns.chunk

    def read(self, piece: EventPiece) -> None:
        self._columns.texts.keep(np.zeros(0, np.int64), forget)
        self._columns.read(piece.events, forget)
        self._points = np.ascontiguousarray(piece.points)
        self._columns.at(0, 0, self._points)

    def faults(self) -> int:
        """Return how many values could not be computed since the last call."""
        count = self._columns.chunk.faults
        self._columns.chunk.faults = 0
        return count


class RcepMatcher(Recomputing):
    """Enumerates the matches of a query by recomputation."""

    def __init__(self, plan: Plan, options: Options) -> None:
        super().__init__(plan, options, plan.compared + (plan.mirror.compared if plan.mirror else ()))
        program, query = self.program, self.program.bound.query
        self._memory = Memory(program, options)
        self._memory.m.cols = self._columns.chunk
        self._mirror = _Mirror(plan.mirror.program, options, self._on_fault) if plan.mirror else None
        within = None if program.by_position or plan.waits else program.bound.within
        self._within = None if within is None else int(str(within.size))  # bounds the events of a trigger
        alone = query.output is Output.NON_OVERLAPPING
        limit = 1 if alone else query.limit or 0
        self._space = WorkspaceMemory(
            plan, options.limits, counts=program.counts_only, limit=limit, alone=alone
        )
        self._space.w.most = MAX if program.counts_only else options.max_runs

    def _narrow(self, piece: EventPiece, masks: Ints, first: int, last: int) -> Ints:
        """Return the variables that events fit; an event outside the window of every trigger fits none."""
        if self._within is None:
            return masks
        near = masks.copy()
        keep_near(near, piece.points, first, last, self._space.w.triggers, self._within)
        return near

    def _find(self, piece: EventPiece, masks: Ints, first: int, last: int) -> Iterator[Matches]:
        """Find the matches that events complete; yield them whenever the room for matches is full."""
        begun = time.perf_counter()
        space = self._space
        space.lay(piece, masks, self._sides.keys(self._columns, masks, piece.fresh))
        edge, back = self._formulas.edge, 0
        if self._mirror is not None:
            self._mirror.read(piece)
            edge, back = self._mirror.formulas.edge, self._mirror.memory.address
        follow_kept(self._memory.address, space.address, first)
        space.w.next, space.w.depth = first, -1
        status, progress = FULL, Progress()
        while status != DONE:
            with np.errstate(all="ignore"):
                status = recompute(edge, self._memory.address, back, space.address, last)
            if status == TOO_MANY:
                point = int(piece.points[space.w.next])
                raise too_many_matches(self.program, self.options.max_runs, point)
            progress.check((status, space.words.tobytes(), space.frames.tobytes(), self.report.reread_events))
            if status == DEEPER:
                self._deepen()
            self.report.matching_seconds += time.perf_counter() - begun
            yield from self._write_matches()
            begun = time.perf_counter()
        if self._mirror is not None:
            self.report.uncomputable += self._mirror.faults()
        self._bar_taken(piece)

    def _write_matches(self) -> Iterator[Matches]:
        """Yield the matches written so far; after a pause even if there are none: the caller may stop."""
        space, w = self._space, self._space.w
        paused = w.tests >= w.patience
        self.report.reread_events += w.tests
        self.report.most_runs = max(self.report.most_runs, w.deepest)
        w.tests = 0
        if paused:
            yield from self._yield_count()
        written = w.written
        if not (written or paused) or self.program.counts_only:
            return
        begun = time.perf_counter()
        self.report.matched_events += int(space.fill.sum())
        self.report.matches += written
        found = self._window.retained.matches(space.lengths[:written], space.found, space.fill)
        space.fill[:] = 0
        w.written = 0
        self.report.construction_seconds += time.perf_counter() - begun
        yield found

    def _bar_taken(self, piece: EventPiece) -> None:
        """Bar later matches from starting before the end of the last one, if matches must not overlap."""
        if self._space.w.alone:
            inside = piece.parts >= 0
            floors = self._space.floors[np.where(inside, piece.parts, 0)]
            piece.opens[inside & (np.arange(len(piece)) <= floors)] = 0

    def _deepen(self) -> None:
        """Make room for longer matches."""
        memory = self._mirror.memory if self._mirror else self._memory
        depth = 2 * self._space.w.room
        memory.m.run_count = memory.m.node_count = self._space.w.room
        memory.m.need = depth
        memory.make_room()
        self._space.deepen(depth)

    def _yield_count(self) -> Iterator[Matches]:
        if self.program.counts_only:
            count = self._space.w.counted
            self._space.w.counted = 0
            self.report.matches += count
            yield Matches(self._window.retained.nothing, {}, counted=count)
