"""Runs a team of any-match queries over one stream as one plan of joins, piece by piece.

A piece of events goes to the leaves of the plan, and every node joins its new rows with all rows before any
event of the next piece is read. The state of a team is the events of its windows: pools of rows are caches,
which another plan, a saved state or a tidy memory fills again from these events.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.automaton.columns import Partitions
from cerise.engines.automaton.memory import list_events, number_events
from cerise.engines.base import EngineReport, Matches, Options, Progress, refuse_disorder
from cerise.engines.census import EMPTY, Census, weigh
from cerise.engines.tree.branches.branch_writer import join_branches
from cerise.engines.tree.branches.join_branch import Catalog
from cerise.engines.tree.branches.team_branch import chooses, counts, make_branch
from cerise.engines.tree.drawing import PlanDrawing
from cerise.engines.tree.events.leaf_rows import LeafReader, LeafRows, Number, append_rows
from cerise.engines.tree.events.numbering import ScopeNumbers
from cerise.engines.tree.events.team_events import KeptPiece, TeamEvents
from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.complete import end_piece, join_inner, release, write_matches
from cerise.engines.tree.machine.join_records import OutputRecord, Pool
from cerise.engines.tree.match_choice import Chooser
from cerise.engines.tree.planning import TeamPlan, plan_trees, sample
from cerise.engines.tree.program.node_figures import NodeFigures
from cerise.engines.tree.program.node_records import FLAGS
from cerise.engines.tree.program.tables import TeamTables
from cerise.engines.tree.program.team_memory import TeamMemory
from cerise.engines.tree.program.written_matches import (
    WrittenMatches,
    concat_written,
    copy_written,
    drain,
    map_slots,
    unpack,
)
from cerise.errors import PlanError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output
from cerise.pattern.show import show
from cerise.plan.joins import Key

__all__ = ["JoinTeam", "TeamPlan", "TeamReport"]
Ints = npt.NDArray[np.int64]
Finding = tuple[int, Matches]
ChosenEnd = tuple[int, tuple[Any, ...], int]  # a query, a partition, the number of an event
EVENT_BYTES = 24  # of a kept event besides its columns: its number, its points, whether it opens a match
ALL_NODES = 16  # times as many rows as one node may have, all nodes of a plan may have
MANY_FOUND = 8  # an eighth of the room for matches is enough to yield them after a piece
GROWTH = 8  # times as many events since the last plan
WAYS_OUT = "make the window smaller, add predicates"


@dataclass(slots=True)
class TeamReport:
    """The counters of a team.

    Attributes:
        team: of all queries together.
        matches: how many matches each query has found.
        nodes: the rows of the nodes of all plans.
        names: the variables of each node.
        planning_seconds: the time spent looking for plans.
    """

    team: EngineReport
    matches: Ints
    nodes: NodeFigures = field(default_factory=NodeFigures)
    names: dict[Key, str] = field(default_factory=dict)
    planning_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Piece:
    """Events that are read together, with their numbers, and whether their matches were given before."""

    events: EventBatch
    numbers: Ints
    opens: Ints
    points: Ints
    again: bool = False

    def __len__(self) -> int:
        return len(self.numbers)

    def slice(self, start: int, stop: int) -> _Piece:
        return replace(
            self, events=self.events.slice(start, stop), numbers=self.numbers[start:stop],
            opens=self.opens[start:stop], points=self.points[:, start:stop],
        )  # fmt: skip


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
        self.bounds, self.options, self._names = bounds, options, names
        self.catalog = Catalog()
        self.branches = [
            make_branch(number, bound, branch)
            for number, bound in enumerate(bounds)
            for branch in join_branches(bound, self.catalog)
        ]
        self._counts = np.array([counts(each) for each in bounds])
        self._choosers = {
            number: Chooser(bound.query.limit, bound.query.output is Output.NON_OVERLAPPING)
            for number, bound in enumerate(bounds)
            if chooses(bound)
        }
        scopes = list(dict.fromkeys(scope for _, scope in self.catalog.leaves))
        owners = {each.scope: bounds[each.query] for each in self.branches}
        self._scopes, self._scope_bounds = scopes, [owners[scope] for scope in scopes]
        self._slides = [any(each.slide for each in self.branches if each.scope == scope) for scope in scopes]
        self._reader = LeafReader(self.catalog)
        self.report = TeamReport(EngineReport(), np.zeros(len(bounds), np.int64))
        self.given = plan
        self.reset()

    def reset(self) -> None:
        """Forget all events."""
        self.numbers = ScopeNumbers(self._scopes, self._scope_bounds, self._slides)
        self.events = TeamEvents(self.bounds, len(self.numbers.counted))
        self.plan, self._planned = self.given, 0
        self._seen = self._pruned = 0
        self.last: int | None = None
        self._piece = self.options.limits.joined_events
        self._held: list[WrittenMatches] = []
        for chooser in self._choosers.values():
            chooser.ends.clear()
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
        piece = _Piece(events, numbers, opens, points)
        self._replan(piece)
        self.last = int(events.times[-1])
        yield from self._read(piece)
        yield from self._yield_found()
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
            yield from self._yield_found()
            end_piece(self._memory.address, time, at.MIN)

    def flush(self) -> Iterator[Finding]:
        """Yield the matches that the end of the stream makes final, and reset the state."""
        if self._memory is not None:
            yield from self._release(over=True)
            yield from self._yield_found()
            self._note_nodes()
        self.reset()

    # ---- plans

    def _replan(self, piece: _Piece) -> None:
        """Plan by the first events, and again until enough events have been seen."""
        enough = self._planned >= self.options.limits.sampled_events
        if self.given is not None or (self.plan is not None and enough):
            return
        if self.plan is not None and self._seen + len(piece) < GROWTH * self._planned:
            return
        self._planned = self._seen + len(piece)
        self.change_plan(self.make_plan(piece.events.slice(0, self.options.limits.sampled_events)))

    def make_plan(self, events: EventBatch, density: float = 1.0) -> TeamPlan:
        """Return a plan by a sample of the events.

        Args:
            events: some events that lie together in time, one or more.
            density: how many times as many events there are in their time.
        """
        found = self._reader.read(events, self._number(events))
        patterns = [each.branch.pattern for each in self.branches]
        stats = sample(self.catalog, patterns, found, events)
        stats = replace(stats, rates={leaf: rate * density for leaf, rate in stats.rates.items()})
        begun = time.perf_counter()
        trees = plan_trees(patterns, stats, self.options)
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
        tables = TeamTables(self.catalog, self.branches, plan.trees)
        self._memory = TeamMemory(tables, self.options)
        self._slots = map_slots(tables, self.bounds)
        self._owners = np.ascontiguousarray(self._memory.outputs[:, OutputRecord.query])

    def _rebuild(self) -> None:
        """Fill the memory from the kept events."""
        assert self.plan is not None
        self._lay(self.plan)
        self.numbers.forget()
        self._reader.forget_texts()
        kept = self.events.kept
        self._all_open = kept is None or bool(kept.opens.all())
        if kept is not None:
            piece = _Piece(kept.events, kept.numbers, kept.opens, kept.points, again=True)
            for _ in self._read(piece):
                pass
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

    def _read(self, piece: _Piece) -> Iterator[Finding]:
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
            last = int(some.events.times[-1])
            if not some.again:
                yield from self._release(over=False, now=last)
            end_piece(self.memory.address, last, self._last_position(some))
            start += len(some)
            self._piece = min(2 * self._piece, most)

    def _last_position(self, piece: _Piece) -> int:
        """Return the position of the last event in the stream, if a window counts events of the stream."""
        whole = (n for n, i in enumerate(self.numbers.counted) if not self._scopes[i].partition)
        found = next(whole, None)
        return at.MIN if found is None else int(piece.points[found, -1])

    def _join(self, piece: _Piece) -> bool:
        """Take a piece to the leaves, and join inner nodes; False: it is too large, and was taken back."""
        memory, m = self.memory, self.memory.m
        found = self._reader.read(piece.events, self._number(piece.events))
        memory.make_room(np.diff(found.starts))
        self._append(piece, found)
        m.piece_first, m.piece_size = piece.numbers[0], int(piece.numbers[-1] - piece.numbers[0]) + 1
        m.muted, m.opens_all = piece.again, self._all_open
        memory.begin()
        before, progress = memory.rows_in_nodes, Progress()
        while (status := join_inner(memory.address)) != at.DONE:
            progress.check((status, memory.words.tobytes(), memory.nodes.tobytes()))
            if status == at.POOL_FULL and not self._grow(before, len(piece)):
                memory.roll_back()
                return False
            self._make_room(status)
        self.report.team.uncomputable += 0 if piece.again else found.faults
        return True

    def _append(self, piece: _Piece, found: LeafRows) -> None:
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

    def _grow(self, before: int, size: int) -> bool:
        """Make room for rows of the node that lacks it; False: the piece must be cut in two first.

        Raises:
            PlanError: one event makes more rows than the budget allows.
        """
        memory, pool = self.memory, self.memory.m.needs
        room, rows = int(memory.pools[pool, Pool.room]), memory.rows_in_nodes
        if size > 1 and rows - before > self.options.limits.piece_rows:
            return False
        if 2 * room > self.options.max_runs or rows > ALL_NODES * self.options.max_runs:
            if size > 1:
                return False
            if rows > ALL_NODES * self.options.max_runs or room >= self.options.max_runs:
                raise self._too_many_rows(pool)
            memory.grow(pool, self.options.max_runs)
            return True
        memory.grow(pool, 2 * room)
        return True

    def _make_room(self, status: int) -> None:
        """Make the room that a kernel lacks, other than that of a pool."""
        memory = self.memory
        if status == at.SCRATCH_FULL:
            memory.make_scratch()
        elif status == at.STACK_FULL:
            memory.make_frames()

    def _write(self) -> Iterator[Finding]:
        """Join final nodes, and hold the matches of new rows; yield them whenever there are many."""
        memory, progress = self.memory, Progress()
        while (status := write_matches(memory.address)) != at.DONE:
            yield from self._serve(status, progress)
        if not self._choosers and MANY_FOUND * memory.m.matches > len(memory.owners):
            yield from self._yield_found()

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
        if status == at.TOO_MANY:
            raise self._too_many_matches()
        if status == at.POOL_FULL:  # of matches that wait
            room = int(memory.pools[m.needs, Pool.room])
            if room >= self.options.max_runs * ALL_NODES:
                raise self._too_many_rows(m.needs)
            memory.grow(m.needs, 2 * room)
        elif status == at.OUTPUT_FULL:
            if not m.matches:
                memory.make_words()
            elif self._choosers:
                self._hold_found()
            else:
                yield from self._yield_found()
        elif status == at.PAUSED:
            m.steps = 0
            yield 0, self._nothing(0)
        self._make_room(status)

    # ---- in another process, and limits

    @property
    def ends(self) -> list[ChosenEnd]:
        """The last event of the last match of each partition, for queries whose matches may not overlap."""
        return [(q, key, end) for q, each in self._choosers.items() for key, end in each.ends.items()]

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
            self._expire_counted()
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
            ends: see `ends`.
        """
        self.events.restore(piece)
        self.events.start, self.last = start
        self.numbers.load(positions)
        for query, key, end in ends:
            self._choosers[query].ends[key] = end
        if piece is None:
            return
        if self.plan is None:
            self.plan, self._planned = self.make_plan(piece.events), len(piece)
        self._rebuild()

    def census(self) -> Census:
        """Drop expired events, and count the others by the partitions of the first query."""
        self.prune()
        piece, bound = self.events.kept, self.bounds[0]
        if piece is None:
            return EMPTY
        partitions = Partitions(bound)
        parts = partitions.of(piece.events)
        rows = np.arange(len(piece))
        parts = np.zeros(len(piece), np.int64) if parts is None else parts
        nbytes = weigh(piece.events.table) + EVENT_BYTES * len(piece)
        return Census(
            "events", piece.events.times, piece.numbers, parts, list(partitions.numbers), rows, nbytes
        )

    def evict(self, rows: Ints) -> None:
        """Drop events of the last census; no match may start with an older one of their partition."""
        piece = self.events.kept
        if piece is None or not len(rows):
            return
        parts = Partitions(self.bounds[0]).of(piece.events)
        parts = np.zeros(len(piece), np.int64) if parts is None else parts
        gone = np.zeros(len(piece), np.bool_)
        gone[rows] = True
        newest = np.full(int(parts.max(initial=0)) + 1, -1, np.int64)
        np.maximum.at(newest, parts[rows], piece.numbers[rows])
        opens = np.where(piece.numbers <= newest[parts], 0, piece.opens)
        self.events.restore(replace(piece, opens=opens).take(np.flatnonzero(~gone)))
        self._rebuild()

    # ---- matches

    def _hold_found(self) -> None:
        """Take matches out of the memory of kernels: a query chooses among all matches of an event."""
        self._held.append(copy_written(drain(self.memory, self._owners)))

    def _yield_found(self) -> Iterator[Finding]:
        """Yield the matches that kernels have written, query by query."""
        yield from self._yield_counts()
        held, self._held = self._held, []
        if not held and (self._memory is None or not self.memory.m.matches):
            return
        begun = time.perf_counter()
        found = concat_written([*held, drain(self.memory, self._owners)])
        if len(self.bounds) > 1:
            found = found.select(np.argsort(found.owners, kind="stable"))
        queries, starts = np.unique(found.owners, return_index=True)
        self.report.team.construction_seconds += time.perf_counter() - begun
        for query, start, stop in zip(
            queries.tolist(), starts.tolist(), [*starts[1:].tolist(), len(found)], strict=True
        ):
            begun = time.perf_counter()
            matches = self._matches(query, found.select(slice(start, stop)))
            self.report.team.construction_seconds += time.perf_counter() - begun
            if len(matches):
                self._add_figures(query, len(matches))
                yield query, matches

    def _matches(self, query: int, found: WrittenMatches) -> Matches:
        """Return matches of a query with their events."""
        bound = self.bounds[query]
        lengths, events, fill = unpack(found, self._slots, len(bound.variables))
        chooser = self._choosers.get(query)
        if chooser is not None:
            keys = self._keys(query, found)
            chosen = chooser.choose(
                lengths, [row[:size] for row, size in zip(events, fill, strict=True)], keys
            )
            lengths, events, fill = unpack(found.select(chosen), self._slots, len(bound.variables))
        self.report.team.matched_events += int(fill.sum())
        taken = self.events.take(number_events(events, fill), query)
        return Matches(taken, list_events(bound, lengths, events, fill))

    def _keys(self, query: int, found: WrittenMatches) -> list[tuple[object, ...]]:
        """Return the partition of each match as values."""
        bound = self.bounds[query]
        if not bound.partition:
            return [()] * len(found)
        firsts = found.words[found.starts + 1]
        used, places = np.unique(firsts, return_inverse=True)
        some = self.events.take(used, query)
        columns = [some.column(path).to_pylist() for path in bound.partition]
        keys = [tuple(map(_comparable, row)) for row in zip(*columns, strict=True)]
        return [keys[place] for place in places.tolist()]

    def _yield_counts(self) -> Iterator[Finding]:
        """Yield how many matches have been counted, for queries that ask for the number only."""
        if self._memory is None or not self._counts.any():
            return
        outputs = self.memory.outputs
        counted = np.zeros(len(self.bounds), object)
        for owner, count in zip(
            self._owners.tolist(), outputs[:, OutputRecord.counted].tolist(), strict=True
        ):
            counted[owner] += count
        outputs[:, OutputRecord.counted] = 0
        for query in np.flatnonzero(counted).tolist():
            self._add_figures(query, int(counted[query]))
            yield query, replace(self._nothing(query), rows={}, counted=int(counted[query]))

    def _add_figures(self, query: int, count: int) -> None:
        self.report.matches[query] += count
        self.report.team.matches += count

    def _nothing(self, query: int) -> Matches:
        """Return no matches of a query."""
        bound = self.bounds[query]
        schema = bound.schema
        empty = EventBatch.in_order(schema.columns.empty_table(), schema)
        if self._counts[query]:
            return Matches(empty, {}, counted=0)
        rows = pa.array([], pa.list_(pa.int64()))
        return Matches(empty, {var.name: rows for var in bound.variables})

    # ---- memory

    def _tidy(self) -> None:
        """Drop events that no leaf holds, and numbers of values that no event has, once there are many."""
        small = self.options.limits.small_rows
        grown = len(self.events) > 2 * self._pruned + small
        if grown:
            if all(scope.in_order for scope in self._scopes):
                self.events.prune(self.memory.find_alive())
            else:
                self._expire_counted()
                self._rebuild()
            self._pruned = len(self.events)
            for chooser in self._choosers.values():
                chooser.forget(self.events.first)
        if len(self._reader.texts.known) + len(self.numbers) > 4 * len(self.events) + small:
            self._rebuild()

    def _expire_counted(self) -> None:
        """Drop the kept events that are behind the windows of all scopes, partition by partition."""
        piece = self.events.kept
        if piece is None:
            return
        used = np.zeros(len(piece), np.bool_)
        reaches = self._reaches()
        for scope in range(len(self._scopes)):
            if scope not in self.numbers.counted:
                if reaches[scope] < 0 or self.last is None:
                    used[:] = True
                else:
                    used |= piece.events.times >= self.last - reaches[scope]
                continue
            points = piece.points[self.numbers.counted.index(scope)]
            ends = self.numbers.last_positions(scope, piece.events)
            used |= (points >= ends - 1 - reaches[scope]) if reaches[scope] >= 0 else True
        self.events.prune(piece.numbers[used])
        left = piece.events.take(np.flatnonzero(used))
        for scope in self.numbers.counted:
            self.numbers.keep(scope, left)

    def _reaches(self) -> list[int]:
        """Return for each scope how far back its leaves look; -1: for ever."""
        windows = self.memory.tables.leaf_windows
        found = [0] * len(self._scopes)
        for leaf, window in enumerate(windows):
            scope = int(self._reader.scope_of[leaf])
            found[scope] = -1 if -1 in (found[scope], window) else max(found[scope], window)
        return found

    def _note_nodes(self) -> None:
        """Add the figures of the nodes of the plan to the report."""
        memory, team = self.memory, self.report.team
        self.report.nodes.add(memory.tables, memory.nodes)
        if self.plan is not None:
            drawing = PlanDrawing(self.bounds, self.branches, self.plan.trees, self.plan.stats)
            self.report.names |= drawing.name_joins()
        candidates, made = self.report.nodes.totals
        team.candidates, team.joined_rows = candidates, made
        team.most_runs = max(team.most_runs, memory.most_rows)

    # ---- errors

    def _refuse(self, query: int, problem: str, ways_out: str) -> PlanError:
        """Return the error of a query that needs too much room."""
        name = "" if self._names is None else f"{self._names[query]}: "
        text = f"{name}{problem} of the query\n{show(self.bounds[query].query)}"
        return PlanError(text, hint=f"{ways_out}, or raise Options(max_runs=…)")

    def _too_many_rows(self, pool: int) -> PlanError:
        node, users = self.memory.tables.describe(pool)
        rows = f"the plan keeps more than {self.options.max_runs:,} rows of {node}"
        return self._refuse(users[0], rows, WAYS_OUT)

    def _too_many_matches(self) -> PlanError:
        query = int(self.memory.outputs[self.memory.m.output, OutputRecord.query])
        rows = f"one event completes more than {self.options.max_runs:,} matches"
        return self._refuse(query, rows, f"{WAYS_OUT}, add LIMIT n PER EVENT")


def _comparable(value: object) -> object:
    """Return a part of a key so that NaN equals itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
