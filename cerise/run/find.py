"""The whole flow on one page: questions over a source, planned once, answered slice by slice."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.threads import ALONE, Threads, Watch, draw_progress, start_threads
from cerise.errors import out_of_memory
from cerise.kernels.first_use import FIRST_USE
from cerise.plan.needs import Needs
from cerise.plan.slicing import Halo, Slice, Targets
from cerise.run.access import Access, TableSource, spread
from cerise.run.question import Batch, Note, Question, Questions, Work, add
from cerise.run.report import Report


class Source(Protocol):
    """Where events come from: a table, files, a store, a DataFrame."""

    @property
    def columns(self) -> pa.Schema:
        """The columns of the events."""
        ...

    def access(self, asked: Questions, options: Options) -> Access | str:
        """Return how events are read by time, or why they must be exchanged."""
        ...


class Runner(Protocol):
    """Who carries a plan out: this process, or Spark."""

    exchanges: bool

    def slices(self, access: Access, needs: Needs, options: Options) -> tuple[int, float]:
        """Return how many slices there may be, and how much more than all events they may read."""
        ...

    def targets(self, source: Any, access: Access | None, options: Options) -> int:
        """Return how many tasks take exchanged events."""
        ...

    def source(self, matches: Any) -> Source:
        """Return matches as events for another question."""
        ...

    def run(self, plan: Plan, *, noted: bool) -> tuple[Any, Report]:
        """Carry a plan out; return the answer and a report, which may fill later."""
        ...

    def collect(self, plan: Plan) -> pa.Table:
        """Carry a plan out now; return the answer as a table."""
        ...


@dataclass(frozen=True, slots=True)
class Sliced:
    """Each slice of time is read and searched apart.

    Attributes:
        asked: the questions.
        source: where events come from; None in a task, which needs the access only.
        access: how events are read.
        slices: the slices; the only one may be all events.
        halo: what each reads around its own time.
        why: why there are not more.
        chained: whether searches give candidates, among which one more search chooses.
        options: how to run.
    """

    asked: Questions
    source: Source | None
    access: Access
    slices: tuple[Slice | None, ...]
    halo: Halo
    why: str | None
    chained: bool
    options: Options


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Events are cut by target, brought together once, and searched there.

    Attributes:
        asked: the questions.
        source: where events come from.
        access: how tasks read them; None: the engine of the source hands them over.
        targets: where events go.
        why: why they are not read by time.
        options: how to run.
    """

    asked: Questions
    source: Source
    access: Access | None
    targets: Targets
    why: str
    options: Options


Plan = Sliced | Exchanged
ONE_TASK = Targets(1, None, Halo())


@dataclass(frozen=True, slots=True)
class Found:
    """Matches, and an account of how they were found.

    Attributes:
        matches: a pyarrow Table, or a lazy Spark DataFrame.
        report: the figures; `print(report)` shows them, `report.figures` has them by name.
    """

    matches: Any
    report: Report


def find(source: Source, asked: Questions, options: Options, runner: Runner, *, noted: bool = True) -> Found:
    """Answer questions over a source: FROM first, then plan, run, finish."""
    source, asked = resolve(source, asked, options, runner)
    if len(asked.each) > 1 and not runner.exchanges and isinstance(asked.needs.halo, str):
        return find_apart(source, asked, options, runner)  # so that those that can be cut use all threads
    return Found(*runner.run(decide(source, asked, options, runner), noted=noted))


def resolve(source: Source, asked: Questions, options: Options, runner: Runner) -> tuple[Source, Questions]:
    """Answer the inner question of FROM, whose matches become the events of the outer one."""
    inner = asked.each[0].inner
    if inner is None:
        return source, asked
    matches = find(source, Questions.of([inner]), options, runner, noted=False).matches
    return runner.source(matches), Questions.of([asked.each[0].outer])


def find_apart(source: Source, asked: Questions, options: Options, runner: Runner) -> Found:
    """Answer questions one after another."""
    found = [find(source, Questions.of([each]), options, runner) for each in asked.each]
    tables = [table for number, each in enumerate(found) for table in asked.tag(number, [each.matches])]
    notes: dict[tuple[str, Hashable], Note] = {
        (step, (number, task)): note
        for number, each in enumerate(found)
        for (step, task), note in each.report.notes().items()
    }
    report = Report(found[0].report.known, found[0].report.access, lambda: notes)
    return Found(asked.finish(tables), report)


def decide(source: Source, asked: Questions, options: Options, runner: Runner) -> Plan:
    """Cut by time where events can be read by time; otherwise exchange once."""
    needs = asked.needs
    for each in asked.each:
        each.prepare(options)
    access = source.access(asked, options)
    if isinstance(access, str):
        return exchange(source, None, asked, options, runner, access)
    halo, why = needs.halo, None
    chained = runner.exchanges and needs.chain is not None
    if chained and needs.chain is not None:
        halo = needs.chain
    cut: list[Slice | None] = [None]
    if isinstance(halo, Halo):
        most, amplified = runner.slices(access, needs, options)
        found = access.cut(halo, most, amplified=amplified) if most > 1 else []
        cut = [*found] if len(found) > 1 else [None]
        why = None if len(cut) > 1 else "row groups are few, or overlap in time"
    if len(cut) > 1:
        assert isinstance(halo, Halo)
        return Sliced(asked, source, access, tuple(cut), halo, None, chained, options)
    why = why or str(halo)
    small = access.rows <= options.limits.task_events and options.partitions is None
    if not runner.exchanges or small or options.partitions == 1 or isinstance(needs.targets(2), str):
        return Sliced(asked, source, access, (None,), Halo(), why, False, options)
    return exchange(source, access, asked, options, runner, why)


def exchange(
    source: Source, access: Access | None, asked: Questions, options: Options, runner: Runner, why: str
) -> Exchanged:
    """Plan to bring events together by key and time; to one task, where neither can part them."""
    needs = asked.needs
    count = runner.targets(source, access, options)
    targets = needs.targets(count)
    if isinstance(targets, str) or count == 1:
        return Exchanged(asked, source, access, ONE_TASK, f"all events in one task: {targets}", options)
    keys = ["key"] if needs.partition else []
    by = " and ".join([*keys, *(["time"] if targets.length is not None else [])])
    return Exchanged(
        asked, source, access, targets, f"exchanged by {by}" + (f": {why}" if why else ""), options
    )


def collect(source: Source, asked: Questions, options: Options, runner: Runner) -> pa.Table:
    """Answer questions now, and return the answer as a table wherever it is computed: for counts."""
    source, asked = resolve(source, asked, options, runner)
    return runner.collect(decide(source, asked, options, runner))


def answer(plan: Sliced, number: int, note: Note, threads: Threads = ALONE) -> Iterator[pa.Table]:
    """Answer one slice: in a thread here, in a task on Spark."""
    part = plan.slices[number]
    reader = plan.access.open(part, plan.halo)
    work = Work(plan.options, note, number, part, plan.halo, reader.complete, threads)
    searches = [start(each, work, chained=plan.chained) for each in plan.asked.each]
    for events in reader.read():
        add(note, {"events matched over": len(events)})
        for query, search in enumerate(searches):
            yield from plan.asked.tag(query, search.feed(events))
    for query, search in enumerate(searches):
        yield from plan.asked.tag(query, search.flush())
    reader.close(note)


def start(question: Question, work: Work, *, chained: bool) -> Any:
    """Start a search for matches, or for candidates."""
    return question.start_candidates(work) if chained else question.start(work)


def reread(plan: Sliced, number: int) -> tuple[Work, Iterator[Batch]]:
    """Return the events of a slice once more, for a search that chooses among candidates."""
    part = plan.slices[number]
    reader = plan.access.open(part, plan.halo)
    return Work(plan.options, {}, number, part, plan.halo, reader.complete), reader.read()


# ---- in this process


class Here:
    """Runs plans in this process, on its threads."""

    exchanges = False

    def slices(self, access: Access, needs: Needs, options: Options) -> tuple[int, float]:  # noqa: ARG002
        count = options.threads or min(os.cpu_count() or 1, access.rows // access.worth)
        return count, spread(options.threads)

    def targets(self, source: Any, access: Access | None, options: Options) -> int:
        raise AssertionError(source, access, options)

    def source(self, matches: pa.Table) -> TableSource:
        return TableSource(matches)

    def run(self, plan: Plan, *, noted: bool = True) -> tuple[pa.Table, Report]:  # noqa: ARG002
        """Answer each slice in a thread; return the answer, and a report."""
        try:
            return self._run(plan)
        except MemoryError as error:
            raise out_of_memory(error) from error
        finally:
            if FIRST_USE.compiled:
                FIRST_USE.end()

    def _run(self, plan: Plan) -> tuple[pa.Table, Report]:
        assert isinstance(plan, Sliced)
        before, count = plan.access.counters(), len(plan.slices)
        notes: dict[tuple[str, Hashable], Note] = {}

        def tables(number: int, threads: Threads = ALONE) -> list[pa.Table]:
            begun, note = time.perf_counter(), Note()
            found = list(answer(plan, number, note, threads))
            notes["match", number] = {**note, "seconds": time.perf_counter() - begun}
            return found

        if count == 1 and plan.asked.needs.roles is not None:  # an engine for events runs in one thread
            many = [tables(0)]
        else:
            with draw_progress("matching") as bar, _start_threads(plan, Watch(tell=bar)) as threads:
                many = threads.each(tables, range(count)) if count > 1 else [tables(0, threads)]
        touched = {name: value - before.get(name, 0) for name, value in plan.access.counters().items()}
        add(notes["match", 0], touched)
        report = Report(plan.access.known, plan.access.explain(), lambda: notes)
        return plan.asked.finish([each for part in many for each in part]), report

    def collect(self, plan: Plan) -> pa.Table:
        return self.run(plan)[0]


def _start_threads(plan: Sliced, watch: Watch) -> AbstractContextManager[Threads]:
    """Start a thread for each slice, or those that share the rows of the only slice."""
    options, count = plan.options, len(plan.slices)
    if count == 1:
        worth = max(1, plan.access.rows // options.limits.thread_rows)
        count = options.threads or min(os.cpu_count() or 1, worth)
    return start_threads(count, watch, options.limits)


HERE = Here()
