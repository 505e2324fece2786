"""Runs one query over one stream: feeds chunks to the kernels, makes room, writes out matches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton import state
from cerise.engines.automaton.columns import Columns, Partitions
from cerise.engines.automaton.layout import JOIN
from cerise.engines.automaton.memory import Memory, Retained
from cerise.engines.automaton.program import WAYS_OUT, Program, too_many_matches
from cerise.engines.automaton.records import Machine, Match, Node
from cerise.engines.automaton.window import number_in_partition
from cerise.engines.base import EngineReport, Matches, Options, Progress, refuse_disorder
from cerise.engines.census import Census, Load
from cerise.engines.nfa import run_census, step, upkeep
from cerise.engines.nfa.machine import BARRED
from cerise.engines.nfa.match_order import apply_limit
from cerise.engines.nfa.upkeep import X_DEPTH, X_MATCH, X_WORDS, expand
from cerise.errors import PlanError
from cerise.events import EventBatch
from cerise.kernels import formulas
from cerise.pattern.show import show
from cerise.pattern.values import Fault

Ints = npt.NDArray[np.int64]


class NfaMatcher:
    """The state of a query that runs as automata."""

    def __init__(self, program: Program, options: Options) -> None:
        self.program = program
        self.options = options
        self.limits = options.limits
        self.report = EngineReport()
        self._formulas = formulas.load(program.source)
        self._mask, self._zeros, self._positions = np.zeros((3, self.limits.chunk_events), np.int64)
        self._reset()

    def _reset(self) -> None:
        program = self.program
        self._columns = Columns(program, self._on_fault, self.limits.chunk_events)
        self._partitions = Partitions(program.bound)
        self._memory = Memory(program, self.options)
        self._memory.m.cols = self._columns.chunk
        self._last: int | None = None
        self._now = np.full(1, np.iinfo(np.int64).min)
        self._retained = Retained(program.bound)
        self._tidy_at = dict.fromkeys(("runs", "nodes", "cands"), self.limits.pool_rows)
        self._upkeep = upkeep.Upkeep(program, self.options)
        self._first_new = 0  # the first node of the current batch; nodes are in the order of their making

    # ---- the interface of all engines

    def feed(self, events: EventBatch) -> Iterator[Matches]:
        """Take the next events in stream order; yield the matches that become final, in batches."""
        if not len(events):
            return
        refuse_disorder(self._last, events)
        self._last = int(events.times[-1])
        self.report.events += len(events)
        self._retained.begin(events)
        self._first_new = self._memory.m.node_count
        step = self.limits.read_events
        for start in range(0, len(events), step):
            yield from self._read(events.slice(start, start + step), start)
        yield from self._settle()
        self._retained.end(np.unique(self._events_of_nodes(self._first_new)))
        if self.program.counts_only:
            yield from self._yield_count()

    def advance(self, time: int) -> Iterator[Matches]:
        """No event before `time` will come; yield the matches that this makes final."""
        if self._last is not None and time <= self._last:
            return
        self._last = time
        if self.program.by_position:
            return
        self._now[0] = max(int(self._now[0]), time)
        self._retained.begin(self._retained.nothing)
        yield from self._settle()
        if self.program.counts_only:
            yield from self._yield_count()

    def flush(self) -> Iterator[Matches]:
        """Yield the matches that the end of the stream makes final, and reset the state."""
        self._retained.begin(self._retained.nothing)
        self._sweep(over=True)
        yield from self._write_matches()
        if self.program.counts_only:
            yield from self._yield_count()
        self._reset()

    def save(self) -> bytes:
        """Return the state, for `load` in another process."""
        held, ties = self._retained, self._retained.ties
        self._sweep(over=False)
        self._collect()
        self._prune_texts()
        return state.write(
            self.program,
            {
                **self._memory.save(),
                **state.pack_events(held.kept),
                "numbers": held.numbers,
                "now": self._now,
                "plain": state.pack_json({
                    "start": held.start,
                    "texts": self._columns.texts.table.to_pylist(),
                    "partitions": [list(key) for key in self._partitions.numbers],
                    "last": self._last,
                    "tie_time": ties.time,
                    "ties": list(ties.seen.items()),
                }),
            },
        )  # fmt: skip

    def load(self, saved: bytes) -> None:
        """Go on from a saved state of the same query."""
        arrays = state.read(self.program, saved)
        plain = state.unpack_json(arrays["plain"])
        self._reset()
        self._memory.restore(arrays)
        self._columns.texts.restore(plain["texts"])
        self._partitions.restore(tuple(key) for key in plain["partitions"])
        self._now, self._last = arrays["now"], plain["last"]
        held = self._retained
        held.restore(state.unpack_events(arrays, held.nothing), arrays["numbers"])
        held.start = plain["start"]
        held.ties.restore(plain["tie_time"], plain["ties"])

    # ---- limits

    def measure(self, *, by_partition: bool) -> Load:
        """Return upper bounds of the runs and bytes."""
        return run_census.measure_runs(self._memory, self._retained, by_partition=by_partition)

    def census(self) -> Census:
        """Drop expired runs, nodes and candidates, and count the runs."""
        self._sweep(over=False)
        self._collect()
        if self._memory.m.kinds:
            self._forget_candidates()
        return run_census.count_runs(self._memory, self._retained, self._partitions)

    def evict(self, places: Ints) -> None:
        """Drop runs of the last census."""
        run_census.drop_runs(self._memory, places)
        self._collect()

    def _prune_texts(self) -> None:
        held = [words[:] for words in self._memory.strings()]
        used = np.concatenate(held) if held else np.zeros(0, np.int64)
        self._columns.texts.keep(used, self._renumber)

    # ---- moving

    def _read(self, events: EventBatch, first: int) -> Iterator[Matches]:
        """Move runs over a slice of the batch; `first` is the position of the slice in the batch."""
        started = time.perf_counter()
        part = self._partitions.of(events)
        self._memory.spread(len(self._partitions))
        self._columns.read(events, self._renumber)
        self.report.matching_seconds += time.perf_counter() - started
        for start in range(0, len(events), self.limits.chunk_events):
            stop = min(start + self.limits.chunk_events, len(events))
            inside = self._zeros[: stop - start] if part is None else part[start:stop]
            points = self._points(events, start, inside)
            self._columns.at(start, self._retained.start + first + start, points)
            yield from self._chunk(first + start, inside, points)

    def _chunk(self, start: int, part: Ints, points: Ints) -> Iterator[Matches]:
        seq = self._retained.start + start
        mask = self._mask[: len(part)]
        assert self._formulas.fits is not None
        self._formulas.fits(len(mask), self._columns.address, mask.ctypes.data)
        self._bar(start, mask)
        advance = self._over(mask, part, points, seq)
        done, progress = 0, Progress()
        while self._goes_on(done, len(mask)):
            begun = time.perf_counter()
            with np.errstate(all="ignore"):
                done = advance(done)
            self.report.matching_seconds += time.perf_counter() - begun
            if self._memory.m.live > self.options.max_runs:
                raise self._too_many(start + self._find_stop(done))
            if self._goes_on(done, len(mask)):
                progress.check((done, self._memory.position(), self.report.reread_events))
                if self._memory.m.match_count > self._memory.m.full:
                    yield from self._write_matches()
                self._memory.make_room()
        if not self.program.by_position:
            self._now[0] = points[-1]
        yield from self._tidy()

    def _over(self, mask: Ints, part: Ints, points: Ints, seq: int) -> Callable[[int], int]:
        edge, machine, count = self._formulas.edge, self._memory.address, len(mask)
        given = (mask.ctypes.data, part.ctypes.data, points.ctypes.data)
        return lambda done: step.advance(edge, machine, done, count, *given, seq)

    def _goes_on(self, done: int, count: int) -> bool:
        return done < count

    def _find_stop(self, done: int) -> int:
        """Return the event of a chunk at which the kernel stopped, for an error message."""
        return max(done - 1, 0)

    def _bar(self, start: int, mask: Ints) -> None:
        assert self._retained.batch is not None
        if (opens := self._retained.batch.opens) is not None:
            barred = ~opens[start : start + len(mask)] & (mask & self._memory.m.start_mask != 0)
            mask[barred] |= BARRED

    def _points(self, events: EventBatch, start: int, part: Ints) -> Ints:
        """Return the points in which windows are measured: times, or positions in the partition."""
        if not self.program.by_position:
            return np.ascontiguousarray(events.times[start : start + len(part)])
        points = self._positions[: len(part)]
        number_in_partition(part, points, self._memory.counts)
        return points

    def _points_now(self) -> Ints:
        return self._memory.counts - 1 if self.program.by_position else self._now

    # ---- upkeep

    def _tidy(self) -> Iterator[Matches]:
        """Free expired runs, nodes and candidates if their pool has doubled since the last time."""
        m = self._memory.m
        if m.live > self._tidy_at["runs"] or m.node_count > self._tidy_at["nodes"]:
            self._sweep(over=False)
            yield from self._write_matches()
            self._collect()
            self._tidy_at["runs"] = max(self.limits.pool_rows, 2 * m.live)
        if m.cand_count > self._tidy_at["cands"]:
            self._forget_candidates()
            self._tidy_at["cands"] = max(self.limits.pool_rows, 2 * m.cand_count)

    def _forget_candidates(self) -> None:
        kept = np.zeros_like(self._memory.cands)  # the first row is no candidate: saved bytes must not differ
        upkeep.forget_candidates(self._memory.address, len(self._memory.counts), self._points_now(), kept)
        self._memory.keep_candidates(kept)

    def _settle(self) -> Iterator[Matches]:
        """Yield the matches that are final; free expired runs if enough is new since the last time."""
        m, known = self._memory.m, len(self._partitions)
        due = self._upkeep.is_due(m, known, int(self._now[0]))
        if due:
            self._sweep(over=False)
        elif m.waits < m.state_count:
            self._memory.make_room(matches=m.live)
            upkeep.release_matches(self._memory.address, len(self._memory.counts), self._points_now())
        yield from self._write_matches()
        if due:
            self._collect()
            if known > self._upkeep.partitions:
                self._forget_partitions()
                self._upkeep.partitions = max(self.limits.idle_partitions, 2 * len(self._partitions))
            if len(self._columns.texts) > self._upkeep.texts:
                self._prune_texts()
                self._upkeep.texts = max(self.limits.pool_rows, 2 * len(self._columns.texts))
            self._upkeep.note(m, int(self._now[0]))

    def _forget_partitions(self) -> None:
        """Drop partitions without runs and candidates; if they come again, positions count from 0."""
        if self._memory.m.kinds:
            self._forget_candidates()
        busy = self._memory.busy()
        self._partitions.keep(busy)
        self._memory.keep_partitions(busy)
        self._memory.spread(1)

    def _sweep(self, *, over: bool) -> None:
        m = self._memory.m
        self._memory.make_room(matches=m.live if m.waits < m.state_count else 0)
        upkeep.sweep(self._memory.address, self._memory.lists, self._points_now(), int(over))

    def _collect(self) -> None:
        if self._memory.m.keeps_nodes:
            upkeep.collect(self._memory.address, self._memory.lists, self._points_now())
            self._tidy_at["nodes"] = max(self.limits.pool_rows, 2 * self._memory.m.node_count)
            self._first_new = 0
            self._retained.prune(self._events_of_nodes(0))

    def _events_of_nodes(self, first: int) -> Ints:
        """Return the numbers of the events of the nodes from a first one on."""
        nodes = self._memory.nodes[first : self._memory.m.node_count]
        events: Ints = nodes[nodes[:, Node.var] != JOIN, Node.seq]
        return events

    def _renumber(self, codes: Ints) -> None:
        for words in self._memory.strings():
            words[:] = codes[np.clip(words, 0, len(codes) - 1)] if len(codes) else 0

    # ---- matches

    def _yield_count(self) -> Iterator[Matches]:
        regs = self._memory.m
        count = regs.counted + regs.match_count
        if regs.overflow:
            raise PlanError("there are more matches than a 64-bit count can hold", hint="shorten WITHIN")
        regs.counted = regs.match_count = 0
        self.report.matches += count
        yield Matches(self._retained.nothing, {}, counted=count)

    def _write_matches(self) -> Iterator[Matches]:
        """Yield the matches recorded so far, in tables of bounded size."""
        regs = self._memory.m
        self._read_registers()
        if self.program.counts_only and self.program.bound.query.limit is None:
            regs.counted += regs.match_count  # only NON_OVERLAPPING matches are recorded here
            regs.match_count = 0
            return
        if not regs.match_count:
            return
        begun = time.perf_counter()
        count = self._apply_limit()
        if self.program.counts_only:
            regs.counted += count
            regs.match_count = 0
            return
        longest = regs.node_count + 2
        at = np.zeros(X_WORDS, np.int64)
        at[X_DEPTH] = -1
        path, stack = np.empty((longest, 2), np.int64), np.empty((longest, 2), np.int64)
        variables = len(self.program.bound.variables)
        lengths = np.empty((self.limits.matches, variables), np.int64)
        events = np.empty((variables, max(self.limits.matches, longest)), np.int64)
        spelled = 0  # matches of one merged run that were written in a row
        while at[X_MATCH] < count:
            fill = np.zeros(variables, np.int64)
            before = int(at[X_MATCH])
            written = expand(self._memory.address, count, at, path, stack, lengths, events, fill)
            spelled = spelled + written if at[X_MATCH] == before else 0
            if spelled > self.options.max_runs:
                raise too_many_matches(self.program, spelled, int(self._memory.matches[before, Match.point]))
            found = self._retained.matches(lengths[:written], events, fill)
            self.report.matches += written
            self.report.matched_events += int(fill.sum())
            self.report.construction_seconds += time.perf_counter() - begun
            yield found
            begun = time.perf_counter()
        regs.match_count = 0

    def _apply_limit(self) -> int:
        limit = self.program.bound.query.limit
        return self._memory.m.match_count if limit is None else apply_limit(self._memory, limit)

    # ---- reports

    @property
    def alive(self) -> dict[str, int]:
        return {"runs": int(self._memory.m.live)}

    def _read_registers(self) -> None:
        regs, report = self._memory.m, self.report
        for register, name in _COUNTERS.items():
            setattr(report, name, getattr(report, name) + int(regs[register]))
            regs[register] = 0
        report.most_runs = max(report.most_runs, regs.most_live)
        report.uncomputable += self._columns.chunk.faults
        self._columns.chunk.faults = 0

    def _on_fault(self, _fault: Fault) -> None:
        self.report.uncomputable += 1

    def _too_many(self, event: int) -> PlanError:
        query = show(self.program.bound.query)
        batch = self._retained.batch
        assert batch is not None
        return PlanError(
            f"{self._memory.m.live} runs are alive at event {self._retained.start + event}, "
            f"time {batch.times[event]}: more than {self.options.max_runs}, of the query\n{query}",
            hint=f"{WAYS_OUT}, use skip_till_next_match, or raise Options(max_runs=…)",
        )


_COUNTERS = {
    Machine.steps: "run_steps",
    Machine.merged: "merged_runs",
    Machine.opened: "opened_runs",
    Machine.bound: "buffer_updates",
    Machine.reread: "reread_events",
}
