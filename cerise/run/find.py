"""The whole flow: questions over a source are planned once, and answered slice by slice."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.threads import ALONE, Threads, Watch, draw_progress, start_threads
from cerise.errors import out_of_memory
from cerise.filters.passes.plan_passes import plan_passes
from cerise.filters.passes.summaries import Passes
from cerise.kernels.first_use import FIRST_USE
from cerise.plan.needs import Needs
from cerise.plan.slicing import AMPLIFIED, Halo, Slice, Targets
from cerise.run.access import Access, TableAccess, TableSource, amplification
from cerise.run.many.query_groups import QueryGroup, group_by_columns, group_by_slices, group_questions
from cerise.run.many.united_answers import Part
from cerise.run.question import Batch, Note, Questions, SingleSearch, Work, add, has_totals
from cerise.run.report import Found, Report, unite_reports
from cerise.run.searching import list_branches, search_events, start_searches
from cerise.run.team_plan import plan_joins
from cerise.run.team_search import prepare


class Source(Protocol):
    """Where events come from: a table, files, a store, a DataFrame."""

    @property
    def columns(self) -> pa.Schema:
        """The columns of the events."""
        ...

    def access(self, questions: Questions, options: Options) -> Access | str:
        """Return the access path that reads events by time, or the reason why events must be exchanged."""
        ...


class Runner(Protocol):
    """Carries a plan out: in this process, or on Spark."""

    exchanges: bool

    def slices(self, access: Access, needs: Needs, options: Options) -> tuple[int, float]:
        """Return how many slices there may be, and how many events they may read, as a multiple of all."""
        ...

    def targets(self, source: Any, access: Access | None, options: Options) -> int:
        """Return how many tasks take exchanged events."""
        ...

    def cores(self) -> int:
        """Return how many tasks run at a time."""
        ...

    def gather(self, access: Access, needs: Needs, options: Options) -> tuple[int, str] | None:
        """Return with how many threads one task searches all rows, and why; None: rows are exchanged."""
        ...

    def source(self, matches: Any) -> Source:
        """Return matches as events for another question."""
        ...

    def run(self, plan: Plan, *, noted: bool) -> tuple[Any, Report]:
        """Carry a plan out; return the answer and a report, which Spark fills later."""
        ...

    def collect(self, plan: Plan) -> pa.Table:
        """Carry a plan out now; return the answer as a table."""
        ...

    def has_rows(self, plan: Plan) -> bool:
        """Carry a plan out until a search gives a row; return whether one does."""
        ...

    def unite(self, answers: Sequence[Any], questions: Questions) -> Any:
        """Return the answers to groups of questions as one, with the columns of all."""
        ...


@dataclass(frozen=True, slots=True)
class Sliced:
    """A plan that reads and searches each slice of time independently.

    Attributes:
        questions: the questions.
        source: where events come from; None in a task, which needs only the access path.
        access: the access path.
        slices: the slices; a single None stands for all events.
        halo: the events that each slice reads around its own.
        why: why there are not more slices.
        chained: whether searches give candidates, among which one more search chooses.
        options: how to run.
        threads: how many threads share the rows of a task on Spark.
    """

    questions: Questions
    source: Source | None
    access: Access
    slices: tuple[Slice | None, ...]
    halo: Halo
    why: str | None
    chained: bool
    options: Options
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A plan that cuts events by target, exchanges them once, and searches at each target.

    Attributes:
        questions: the questions.
        source: where events come from.
        access: the access path of tasks; None: Spark hands the rows of a DataFrame over.
        targets: the targets of events.
        why: why events are not read by time.
        options: how to run.
        passes: the passes over files before the exchange, or why there are none.
    """

    questions: Questions
    source: Source
    access: Access | None
    targets: Targets
    why: str
    options: Options
    passes: Passes | str = ""


Plan = Sliced | Exchanged


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The plan of a group of questions."""

    group: QueryGroup
    plan: Plan


ONE_TASK = Targets(1, None, Halo())


def find(
    source: Source, questions: Questions, options: Options, runner: Runner, *, noted: bool = True
) -> Found:
    """Answer questions over a source: FROM first, then plan, run, finish."""
    source, questions = resolve(source, questions, options, runner)
    plans = decide_all(source, questions, options, runner)
    if len(plans) == 1:
        return Found(*runner.run(plans[0].plan, noted=noted))
    ran = [runner.run(each.plan, noted=noted) for each in plans]
    matches = runner.unite([found for found, _ in ran], questions)
    return Found(matches, unite_reports([report for _, report in ran]))


def resolve(
    source: Source, questions: Questions, options: Options, runner: Runner
) -> tuple[Source, Questions]:
    """Answer the inner question of FROM; its matches become the events of the outer question."""
    inner = questions.each[0].inner
    if inner is None:
        return source, questions
    matches = find(source, Questions.of([inner]), options, runner, noted=False).matches
    return runner.source(matches), replace(questions, each=(questions.each[0].outer,))


def decide_all(source: Source, questions: Questions, options: Options, runner: Runner) -> list[GroupPlan]:
    """Divide questions into groups, and plan each."""
    if len(questions.each) == 1:
        return [GroupPlan(QueryGroup((0,)), decide(source, questions, options, runner))]
    prepare(questions, options)
    plans: list[GroupPlan] = []
    parts = [tuple(range(len(questions.each)))]
    if runner.exchanges:
        parts = group_by_columns([each.partial if has_totals(each) else None for each in questions.each])
    for numbers in parts:
        some = questions if len(parts) == 1 else questions.select(numbers)
        access = source.access(some, options)
        groups = divide(source, access, some, options, runner)
        shared = access if len(groups) == 1 or isinstance(access, TableAccess) else None
        for group in groups:
            each = some if len(groups) == 1 else some.select(group.numbers)
            plan = decide(source, each, options, runner, shared)
            plans.append(GroupPlan(replace(group, numbers=tuple(numbers[i] for i in group.numbers)), plan))
    return plans


def divide(
    source: Source, access: Access | str, questions: Questions, options: Options, runner: Runner
) -> list[QueryGroup]:
    """Divide questions into groups that share one plan; one group, if nothing can be divided."""
    needs = [each.needs for each in questions.each]
    together = [QueryGroup(tuple(range(len(needs))))]
    if isinstance(access, str):
        several = runner.targets(source, None, options) > 1
        return group_questions(needs, exchanged=True) if several else together
    most, amplified = runner.slices(access, questions.needs, options)
    if most <= 1:
        return together

    def count_slices(halo: Halo) -> int:
        return len(access.split(halo, most, amplified=amplified))

    return group_by_slices(needs, count_slices, exchanges=runner.exchanges)


def decide(
    source: Source, questions: Questions, options: Options, runner: Runner, access: Access | str | None = None
) -> Plan:
    """Plan slices of time if events can be read by time, otherwise one exchange.

    Args:
        source: where events come from.
        questions: the questions, which share the plan.
        options: how to run.
        runner: this process, or Spark.
        access: the access path for these questions, or why events must be exchanged; None: ask the source.
    """
    needs = questions.needs
    if questions.tags is None:
        questions.prepare([0], options)
    else:
        prepare(questions, options)
    if access is None:
        access = source.access(questions, options)
    if isinstance(access, str):
        return exchange(source, None, questions, options, runner, access)
    halo, why = needs.halo, None
    chained = runner.exchanges and needs.chain is not None
    if chained and needs.chain is not None:
        halo = needs.chain
    cut: list[Slice | None] = [None]
    several = (options.passes or 1) > 1
    if isinstance(halo, Halo):
        most, amplified = runner.slices(access, needs, options)
        amplified = AMPLIFIED if several else amplified
        found = access.split(halo, most, amplified=amplified) if most > 1 else []
        cut = [*found] if len(found) > 1 else [None]
        why = None if len(cut) > 1 else "row groups are few, or overlap in time"
    if len(questions.each) > 1 and (len(cut) > 1 or runner.exchanges):
        questions = plan_joins(questions, access, options)
    if len(cut) > 1:
        assert isinstance(halo, Halo)
        return Sliced(questions, source, access, tuple(cut), halo, None, chained, options)
    why = why or str(halo)
    small = access.rows <= options.limits.task_events and options.partitions is None and not several
    if not runner.exchanges or small or options.partitions == 1 or isinstance(needs.targets(2), str):
        return Sliced(questions, source, access, (None,), Halo(), why, False, options)
    if not several and (gathered := runner.gather(access, needs, options)) is not None:
        threads, why = gathered
        return Sliced(questions, source, access, (None,), Halo(), why, False, options, threads)
    return exchange(source, access, questions, options, runner, why)


def exchange(
    source: Source, access: Access | None, questions: Questions, options: Options, runner: Runner, why: str
) -> Exchanged:
    """Plan an exchange of events by key and time; to one task, if neither can divide the events."""
    needs = questions.needs
    count = runner.targets(source, access, options)
    targets = needs.targets(count)
    passes = plan_passes(list_branches(questions.each), access, options, runner.cores())
    if isinstance(targets, str) or count == 1:
        why = f"all events in one task: {targets}"
        return Exchanged(questions, source, access, ONE_TASK, why, options, passes)
    by = " and ".join(["key"] * bool(needs.partition) + ["time"] * (targets.length is not None))
    why = f"exchanged by {by}" + (f": {why}" if why else "")
    return Exchanged(questions, source, access, targets, why, options, passes)


def collect(source: Source, questions: Questions, options: Options, runner: Runner) -> pa.Table:
    """Answer questions now, and return the answer as a table even if Spark computes it: for counts."""
    source, questions = resolve(source, questions, options, runner)
    plans = decide_all(source, questions, options, runner)
    if len(plans) == 1:
        return runner.collect(plans[0].plan)
    return questions.stack(runner.collect(each.plan) for each in plans)


def answer(plan: Sliced, number: int, note: Note, threads: Threads = ALONE) -> Iterator[Part]:
    """Answer one slice: in a thread here, in a task on Spark."""
    part = plan.slices[number]
    reader = plan.access.open(part, plan.halo)
    work = Work(plan.options, note, number, part, plan.halo, reader.complete, threads)

    def count_events() -> Iterator[Batch]:
        for events in reader.read():
            add(note, {"events matched over": len(events)})
            yield events

    if plan.questions.tags is None:
        alone = SingleSearch(0, plan.questions.start(0, work, chained=plan.chained))
        for events in count_events():
            yield from alone.feed(events)
        yield from alone.flush()
    else:
        searches = start_searches(plan.questions, work, chained=plan.chained)
        yield from search_events(searches, count_events())
    reader.close(note)


def reread(plan: Sliced, number: int) -> tuple[Work, Iterator[Batch]]:
    """Read the events of a slice again, for a search that chooses among candidates."""
    part = plan.slices[number]
    reader = plan.access.open(part, plan.halo)
    return Work(plan.options, {}, number, part, plan.halo, reader.complete), reader.read()


# ---- in this process


class Here:
    """Runs plans in this process, on its threads."""

    exchanges = False

    def slices(self, access: Access, needs: Needs, options: Options) -> tuple[int, float]:  # noqa: ARG002
        count = options.threads or min(os.cpu_count() or 1, access.rows // access.worth)
        return count, amplification(options.threads)

    def targets(self, source: Any, access: Access | None, options: Options) -> int:
        raise AssertionError(source, access, options)

    def cores(self) -> int:
        return os.cpu_count() or 1

    def gather(self, access: Access, needs: Needs, options: Options) -> tuple[int, str] | None:
        raise AssertionError(access, needs, options)

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

        def tables(number: int, threads: Threads = ALONE) -> list[Part]:
            begun, note = time.perf_counter(), Note()
            found = list(answer(plan, number, note, threads))
            notes["match", number] = {**note, "seconds": time.perf_counter() - begun}
            return found

        if count == 1 and plan.questions.needs.roles is not None:  # an engine for events runs in one thread
            many = [tables(0)]
        else:
            with draw_progress("matching") as bar, _start_threads(plan, Watch(tell=bar)) as threads:
                many = threads.each(tables, range(count)) if count > 1 else [tables(0, threads)]
        touched = {name: value - before.get(name, 0) for name, value in plan.access.counters().items()}
        add(notes["match", 0], touched)
        report = Report(plan.access.known, plan.access.explain(), lambda: notes)
        return plan.questions.finish([each for part in many for each in part]), report

    def collect(self, plan: Plan) -> pa.Table:
        return self.run(plan)[0]

    def has_rows(self, plan: Plan) -> bool:
        assert isinstance(plan, Sliced)
        found = (each for number in range(len(plan.slices)) for each in answer(plan, number, Note()))
        return any(len(table) for _, table in found)

    def unite(self, answers: Sequence[pa.Table], questions: Questions) -> pa.Table:
        return questions.stack(answers)


def _start_threads(plan: Sliced, watch: Watch) -> AbstractContextManager[Threads]:
    """Start a thread for each slice, or several threads that share the rows of the only slice."""
    options, count = plan.options, len(plan.slices)
    if count == 1:
        worth = max(1, plan.access.rows // options.limits.thread_rows)
        count = options.threads or min(os.cpu_count() or 1, worth)
    return start_threads(count, watch, options.limits)


HERE = Here()
