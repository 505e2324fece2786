"""One query running over one stream by recomputation: matches are joined, and written out as found."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cerise.engines.base import Matches, Options
from cerise.engines.nfa.machine import A_COLS, G_NEED, G_NODES, G_RUNS, MAX
from cerise.engines.nfa.matcher import too_many_matches
from cerise.engines.nfa.tables import Memory
from cerise.engines.rcep import desk as at
from cerise.engines.rcep.plan import Plan
from cerise.engines.rcep.stream import Recomputing
from cerise.engines.rcep.tables import Desk
from cerise.engines.rcep.walk import follow_kept, recompute
from cerise.engines.rcep.window import Piece
from cerise.pattern.query import Output

Ints = npt.NDArray[np.int64]


class RcepMatcher(Recomputing):
    """A query whose matches are made."""

    def __init__(self, plan: Plan, options: Options) -> None:
        super().__init__(plan, options, plan.compared)
        program, query = self.program, self.program.bound.query
        self._memory = Memory(program, options.max_runs, backtracks=False)
        self._memory.m[A_COLS] = self._columns.address
        alone = query.output is Output.NON_OVERLAPPING
        limit = 1 if alone else query.limit or 0
        self._desk = Desk(plan, counts=program.counts_only, limit=limit, alone=alone)
        self._desk.w[at.D_MOST] = MAX if program.counts_only else options.max_runs

    def _found(self, piece: Piece, masks: Ints, first: int, last: int) -> Iterator[Matches]:
        """Find the matches that some events complete, and yield them as they fill the room for them."""
        begun = time.perf_counter()
        desk = self._desk
        desk.lay(piece, masks, self._sides.keys(self._columns, masks, piece.fresh))
        follow_kept(self._memory.address, desk.address, first)
        desk.w[at.D_NEXT], desk.w[at.D_DEPTH] = first, -1
        status = at.FULL
        while status != at.DONE:
            with np.errstate(all="ignore"):
                status = recompute(self._formulas.edge, self._memory.address, desk.address, last)
            if status == at.TOO_MANY:
                point = int(piece.points[desk.w[at.D_NEXT]])
                raise too_many_matches(self.program, self.options.max_runs, point)
            if status == at.DEEPER:
                self._deepen()
            self.report.matching_seconds += time.perf_counter() - begun
            yield from self._written()
            begun = time.perf_counter()
        self._bar_taken(piece)

    def _written(self) -> Iterator[Matches]:
        """Yield the matches written so far; none where it takes long, so that the caller has a say."""
        desk, w = self._desk, self._desk.w
        paused = w[at.D_TESTS] >= at.PATIENCE
        self.report.reread_events += int(w[at.D_TESTS])
        self.report.most_runs = max(self.report.most_runs, int(w[at.D_DEEPEST]))
        w[at.D_TESTS] = 0
        if paused:
            yield from self._counted()
        written = int(w[at.D_WRITTEN])
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

    def _bar_taken(self, piece: Piece) -> None:
        """Let no match start before the end of the last one, where matches may not overlap."""
        if self._desk.w[at.D_ALONE]:
            inside = piece.parts >= 0
            floors = self._desk.floors[np.where(inside, piece.parts, 0)]
            piece.opens[inside & (np.arange(len(piece)) <= floors)] = 0

    def _deepen(self) -> None:
        """Make room for longer matches."""
        m, depth = self._memory.m, 2 * int(self._desk.w[at.D_ROOM])
        m[G_RUNS] = m[G_NODES] = self._desk.w[at.D_ROOM]
        m[G_NEED] = depth
        self._memory.make_room()
        self._desk.deepen(depth)

    def _counted(self) -> Iterator[Matches]:
        if self.program.counts_only:
            count = int(self._desk.w[at.D_COUNTED])
            self._desk.w[at.D_COUNTED] = 0
            self.report.matches += count
            yield Matches(self._window.retained.kept.slice(0, 0), {}, counted=count)
