"""Runs a team of any-match queries over one stream as one plan of joins, piece by piece.

A piece of events goes to the leaves of the plan, and every node joins its new rows with all rows before any
event of the next piece is read. The state of a team is the events of its windows: pools of rows are caches,
which another plan, a saved state or a tidy memory fills again from these events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cerise.engines.base import EngineReport, Options, Progress, refuse_disorder
from cerise.engines.census import Census
from cerise.engines.tree.answers import ChosenEnd, Finding, TeamAnswers
from cerise.engines.tree.drawing import PlanDrawing
from cerise.engines.tree.events.leaf_rows import LeafRows, Number, append_rows
from cerise.engines.tree.events.numbering import ScopeNumbers
from cerise.engines.tree.events.team_events import KeptPiece, ReadPiece, TeamEvents
from cerise.engines.tree.growth import Growth
from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.complete import end_piece, join_inner, release, write_matches
from cerise.engines.tree.planning import TeamPlan, plan_trees, sample
from cerise.engines.tree.program.node_records import FLAGS
from cerise.engines.tree.program.tables import TeamTables
from cerise.engines.tree.program.team_memory import TeamMemory
from cerise.engines.tree.program.team_report import TeamReport
from cerise.engines.tree.team_parts import write_parts
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.plan.join_statistics import Statistics

__all__ = ["JoinTeam", "TeamPlan", "TeamReport"]
Ints = npt.NDArray[np.int64]
GROWTH = 8  # times as many events since the last plan


class JoinTeam:
    """The state of a team of queries.

    Args:
        bounds: the queries.
        options: how to run.
        plan: the plan; None: the first events decide.
        names: the names of the queries, for errors; None: there is one query.
    """

    def __init__(
        self,
        bounds: Sequence[Bound],
        options: Options,
        plan: TeamPlan | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.bounds, self.names, self.options = bounds, names, options
        parts = write_parts(bounds)
        self.catalog, self.branches = parts.catalog, parts.branches
        scopes = list(dict.fromkeys(scope for _, scope in self.catalog.leaves))
        owners = {each.scope: bounds[each.query] for each in self.branches}
        self._scopes, self._scope_bounds = scopes, [owners[scope] for scope in scopes]
        self._slides = [any(each.slide for each in self.branches if each.scope == scope) for scope in scopes]
        self._reader = parts.reader.fresh()
        self.report = TeamReport(EngineReport(), np.zeros(len(bounds), np.int64))
        self.answers = TeamAnswers(bounds, self.report)
        self._growth = Growth(bounds, names, options)
        self.given = plan
        self.reset()

    def reset(self) -> None:
        """Forget all events."""
        self.numbers = ScopeNumbers(self._scopes, self._scope_bounds, self._slides)
        self.events = TeamEvents(self.bounds, len(self.numbers.counted))
        self.plan, self._planned = self.given, 0
        self._seen = self._pruned = 0
        self.last: int | None = None
        self._position = at.MIN
        self._piece = self.options.limits.joined_events
        self.answers.reset(self.events)
        self._memory: TeamMemory | None = None
        self._reader.forget_texts()
        self._all_open = True
        if self.plan is not None:
            self._lay(self.plan)

    # ---- the interface of all engines, with the number of the query

    def feed(self, events: EventBatch) -> Iterator[Finding]:
        """Take the next events in stream order; yield the matches that become final, query by query."""
        if not len(events):
            return
        refuse_disorder(self.last, events)
        self.report.team.events += len(events)
        self.events.begin(events)
        opens = np.ones(len(events), np.int64) if events.opens is None else events.opens.astype(np.int64)
        points = self.numbers.count(events)
        numbers = np.arange(self.events.start, self.events.start + len(events))
        piece = ReadPiece(events, numbers, opens, points)
        self._replan(piece)
        self.last = int(events.times[-1])
        yield from self._read(piece)
        yield from self.answers.finish()
        self._seen += len(events)
        alive = self.memory.find_alive(self.events.start)
        self.events.keep(alive - self.events.start, opens, points)
        self._tidy()

    def advance(self, time: int) -> Iterator[Finding]:
        """No event before `time` will come; yield the matches that this makes final."""
        if self.last is not None and time <= self.last:
            return
        self.last = time
        if self._memory is not None:
            yield from self._release(over=False)
            yield from self.answers.finish()
            end_piece(self._memory.address, time, at.MIN)

    def flush(self) -> Iterator[Finding]:
        """Yield the matches that the end of the stream makes final, and reset the state."""
        if self._memory is not None:
            yield from self._release(over=True)
            yield from self.answers.finish()
            self._note_nodes()
        self.reset()

    # ---- plans

    def _replan(self, piece: ReadPiece) -> None:
        """Plan by the first events, and again until enough events have been seen."""
        enough = self._planned >= self.options.limits.sampled_events
        if self.given is not None or (self.plan is not None and enough):
            return
        if self.plan is not None and self._seen + len(piece) < GROWTH * self._planned:
            return
        self._planned = self._seen + len(piece)
        self.change_plan(self.make_plan(piece.events.slice(0, self.options.limits.sampled_events)))

    def sample(self, events: EventBatch, density: float = 1.0) -> Statistics:
        """Return the statistics of some events; see `make_plan`."""
        found = self._reader.read(events, self._number(events))
        patterns = [each.branch.pattern for each in self.branches]
        stats = sample(self.catalog, patterns, found, events)
        return replace(stats, rates={leaf: rate * density for leaf, rate in stats.rates.items()})

    def make_plan(self, events: EventBatch, density: float = 1.0) -> TeamPlan:
        """Return a plan by a sample of the events.

        Args:
            events: some events that lie together in time, one or more.
            density: how many times as many events there are in their time.
        """
        stats = self.sample(events, density)
        patterns = [each.branch.pattern for each in self.branches]
        begun = time.perf_counter()
        trees = plan_trees(patterns, stats, self.options, alone=len(self.bounds) == 1)
        self.report.planning_seconds += time.perf_counter() - begun
        return TeamPlan(trees, stats)

    def change_plan(self, plan: TeamPlan) -> None:
        """Go on with another plan; the answer does not depend on plans.

        Call it between two batches.
        """
        same = self.plan is not None and self.plan.trees == plan.trees
        self.plan = plan
        if not same:
            self._rebuild()

    def _lay(self, plan: TeamPlan) -> None:
        """Lay out empty memory for a plan."""
        if self._memory is not None:
            self._note_nodes()
        tables = TeamTables(self.catalog, self.branches, plan.trees, plan.stats)
        self._memory = TeamMemory(tables, self.options)
        self.answers.follow(self._memory)

    def _rebuild(self) -> None:
        """Fill the memory from the kept events."""
        assert self.plan is not None
        self._lay(self.plan)
        self.numbers.forget()
        self._reader.forget_texts()
        kept = self.events.kept
        self._all_open = kept is None or bool(kept.opens.all())
        if kept is not None:
            piece = ReadPiece(kept.events, kept.numbers, kept.opens, kept.points, again=True)
            for _ in self._read(piece):
                pass
            self.memory.m.position = self._position
            if self.last is not None:
                for _ in self._release(over=False, again=True):
                    pass
                end_piece(self.memory.address, self.last, at.MIN)
        self.memory.forget_figures()

    @property
    def memory(self) -> TeamMemory:
        assert self._memory is not None
        return self._memory

    # ---- pieces

    def _number(self, events: EventBatch) -> Number:
        return lambda scope, rows: self.numbers.partition(scope, events, rows)

    def _read(self, piece: ReadPiece) -> Iterator[Finding]:
        """Read events piece by piece; a piece whose joins need too much room is cut in two."""
        start, most = 0, self.options.limits.joined_events
        while start < len(piece):
            some = piece.slice(start, min(start + self._piece, len(piece)))
            begun = time.perf_counter()
            fits = self._join(some)
            self.report.team.matching_seconds += time.perf_counter() - begun
            if not fits:
                self._piece = max(1, len(some) // 2)
                continue
            yield from self._write()
            last, position = int(some.events.times[-1]), self._last_position(some)
            if not some.again:
                self._position = position + 1
                yield from self._release(over=False, now=last)
            end_piece(self.memory.address, last, position)
            start += len(some)
            self._piece = min(2 * self._piece, most)

    def _last_position(self, piece: ReadPiece) -> int:
        """Return the position of the last event in the stream, if a window counts events of the stream."""
        whole = (n for n, i in enumerate(self.numbers.counted) if not self._scopes[i].partition)
        found = next(whole, None)
        return at.MIN if found is None else int(piece.points[found, -1])

    def _join(self, piece: ReadPiece) -> bool:
        """Take a piece to the leaves, and join inner nodes; False: it is too large, and was taken back."""
        memory, m = self.memory, self.memory.m
        found = self._reader.read(piece.events, self._number(piece.events))
        memory.make_room(np.diff(found.starts))
        self._append(piece, found)
        m.piece_first, m.piece_size = piece.numbers[0], int(piece.numbers[-1] - piece.numbers[0]) + 1
        m.muted, m.opens_all, m.now = piece.again, self._all_open, int(piece.events.times[-1])
        m.position = self._last_position(piece) + 1
        memory.begin()
        before, progress = memory.rows_in_nodes, Progress()
        while (status := join_inner(memory.address)) != at.DONE:
            progress.check((status, memory.words.tobytes(), memory.nodes.tobytes()))
            if status != at.POOL_FULL:
                self._growth.make(memory, status)
            elif not self._growth.make_rows(memory, before, len(piece)):
                memory.roll_back()
                return False
        self.report.team.uncomputable += 0 if piece.again else found.faults
        return True

    def _append(self, piece: ReadPiece, found: LeafRows) -> None:
        points = np.empty((len(self._scopes), len(piece)), np.int64)
        for scope in range(len(self._scopes)):
            counted = self.numbers.counted
            points[scope] = piece.points[counted.index(scope)] if scope in counted else piece.events.times
        self._all_open = self._all_open and bool(piece.opens.all())
        append_rows(
            self.memory.address, found.starts, found.rows, np.ascontiguousarray(piece.numbers),
            np.ascontiguousarray(piece.opens), points, found.parts, self._reader.scope_of, found.sources,
            FLAGS,
        )  # fmt: skip

    def _write(self) -> Iterator[Finding]:
        """Join final nodes, and hold the matches of new rows; yield them whenever there are many."""
        memory, progress = self.memory, Progress()
        while (status := write_matches(memory.address)) != at.DONE:
            yield from self._serve(status, progress)
        if self.answers.are_many and not self.answers.choosers:
            yield from self.answers.finish()

    def _release(self, *, over: bool, now: int | None = None, again: bool = False) -> Iterator[Finding]:
        """Hold the waiting matches that no later event can veto."""
        memory, progress = self.memory, Progress()
        if not memory.tables.waiting:
            return
        memory.begin()
        memory.m.output, memory.m.muted = 0, again
        until = self.last if now is None else now
        while (status := release(memory.address, at.MIN if until is None else until, over)) != at.DONE:
            yield from self._serve(status, progress)
        memory.m.output = -1

    def _serve(self, status: int, progress: Progress) -> Iterator[Finding]:
        """Make the room that a kernel lacks while it writes matches; let the caller stop after a pause."""
        memory, m = self.memory, self.memory.m
        progress.check((
            status, memory.words.tobytes(), memory.nodes.tobytes(), memory.frames.tobytes(), m.matches,
            len(memory.found),
        ))  # fmt: skip
        if status == at.PAUSED:
            m.steps = 0
            yield 0, self.answers.empty(0)
        elif status != at.OUTPUT_FULL or not m.matches:
            self._growth.make(memory, status)
        elif self.answers.choosers:
            self.answers.hold()
        else:
            yield from self.answers.finish()

    # ---- in another process, and limits

    @property
    def nbytes(self) -> int:
        """The bytes of all that the team keeps."""
        return self.events.nbytes + (0 if self._memory is None else self._memory.nbytes)

    def prune(self) -> None:
        """Drop all events that are behind the windows of all queries."""
        if self._memory is None:
            return
        if all(scope.in_order for scope in self._scopes):
            self.events.prune(self.memory.find_alive())
        else:
            self._drop_old_events()
            self._rebuild()

    def census(self) -> Census:
        """Drop expired events, and count the others by the partitions of the first query."""
        self.prune()
        return self.events.census()

    def evict(self, rows: Ints) -> None:
        """Drop events of the last census; no match may start with an older one of their partition."""
        if len(self.events) and len(rows):
            self.events.evict(rows)
            self._rebuild()

    def restore(
        self,
        piece: KeptPiece | None,
        positions: Sequence[Any],
        start: tuple[int, int | None],
        ends: Sequence[ChosenEnd],
    ) -> None:
        """Take over the state of a team, after `reset`.

        Args:
            piece: the kept events.
            positions: see `ScopeNumbers.save`.
            start: the number of the next event, and the time before which no event will come.
            ends: see `TeamAnswers.ends`.
        """
        self.events.restore(piece)
        self.events.start, self.last = start
        self.numbers.load(positions)
        self._position = self.numbers.count_all()
        self.answers.restore(ends)
        if piece is None:
            return
        if self.plan is None:
            self.plan, self._planned = self.make_plan(piece.events), len(piece)
        self._rebuild()

    # ---- memory

    def _tidy(self) -> None:
        """Drop events that no leaf holds, and numbers of values that no event has, once there are many."""
        small = self.options.limits.small_rows
        grown = len(self.events) > 2 * self._pruned + small
        if grown:
            self.prune()
            self._pruned = len(self.events)
            self.answers.forget(self.events.first)
        if len(self._reader.texts.known) + len(self.numbers) > 4 * len(self.events) + small:
            self._rebuild()

    def _drop_old_events(self) -> None:
        """Drop the kept events that are behind the windows of all scopes, partition by partition."""
        piece = self.events.kept
        if piece is None:
            return
        reaches = self.memory.tables.find_reaches(self._reader.scope_of, len(self._scopes))
        used = self.numbers.find_in_reach(piece.events, piece.points, reaches, self.last)
        self.events.prune(piece.numbers[used])
        left = piece.events.take(np.flatnonzero(used))
        for scope in self.numbers.counted:
            self.numbers.keep(scope, left)

    def _note_nodes(self) -> None:
        """Add the figures of the nodes of the plan to the report."""
        memory, team = self.memory, self.report.team
        self.report.nodes.add(memory.tables, memory.nodes)
        if self.plan is not None:
            drawing = PlanDrawing(self.bounds, self.branches, self.plan.trees, self.plan.stats, self.names)
            self.report.names |= drawing.name_joins()
        candidates, made = self.report.nodes.totals
        team.candidates, team.joined_rows = candidates, made
        team.most_runs = max(team.most_runs, memory.most_rows)
