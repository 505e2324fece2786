"""A runner that carries plans out by the tasks of Spark, one after another, without Spark."""

from __future__ import annotations

import math
import pickle
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cerise.engines.base import Options
from cerise.files.scan import ROW
from cerise.filters.passes.summaries import Passes
from cerise.plan.needs import Needs
from cerise.run.access import Access, TableSource
from cerise.run.files_access import FilesAccess
from cerise.run.find import Exchanged, Plan, Sliced, Source, exchange
from cerise.run.question import Questions
from cerise.run.report import Found, Report
from cerise.spark.exchange import Cutter
from cerise.spark.passes.filter_tasks import FilterTask, MergeTask, SummaryTask
from cerise.spark.tasks import ChooseTask, CutTask, MatchTask, Records, SliceTask

NONE = Records()


@dataclass(frozen=True)
class HandedOver:
    """A table whose rows Spark would hand over: they come to `CutTask` in small batches, in another order."""

    table: pa.Table

    @property
    def columns(self) -> pa.Schema:
        return self.table.schema

    def access(self, asked: Questions, options: Options) -> str:
        return "rows are handed over"


@dataclass(frozen=True)
class TasksHere:
    """Cuts and exchanges as Spark does, into a given number of slices or targets."""

    count: int
    exchanges = True

    def slices(self, access: Access, needs: Needs, options: Options) -> tuple[int, float]:
        return self.count, math.inf

    def targets(self, source: Any, access: Access | None, options: Options) -> int:
        return self.count

    def gather(self, access: Access, needs: Needs, options: Options) -> tuple[int, str] | None:
        return None

    def cores(self) -> int:
        return self.count

    def source(self, matches: pa.Table) -> TableSource:
        return TableSource(matches)

    def run(self, plan: Plan, *, noted: bool = True) -> tuple[pa.Table, Report]:
        parts = [pa.Table.from_batches([each]) for each in _tasks(_sent(plan))]
        return plan.questions.finish_table(
            pa.concat_tables([plan.questions.partial.empty_table(), *parts])
        ), Report()

    def collect(self, plan: Plan) -> pa.Table:
        return self.run(plan)[0]

    def unite(self, answers: Sequence[pa.Table], questions: Questions) -> pa.Table:
        return questions.stack(answers)


def exchange_files(source: Source, asked: Questions, options: Options, runner: Any = None) -> Found:
    """Answer questions by an exchange, also where time could be cut into slices."""
    runner = runner or TasksHere(3)
    asked.prepare(range(len(asked.each)), options)
    access = source.access(asked, options)
    assert not isinstance(access, str)
    return Found(*runner.run(exchange(source, access, asked, options, runner, "")))


def _sent(plan: Plan) -> Plan:
    """A plan as a task receives it."""
    sent: Plan = pickle.loads(pickle.dumps(replace(plan, source=None) if isinstance(plan, Sliced) else plan))
    return sent


def _tasks(plan: Plan) -> Iterable[pa.RecordBatch]:
    if isinstance(plan, Exchanged):
        return _exchanged(plan)
    numbers = [[pa.record_batch({"id": [number]})] for number in range(len(plan.slices))]
    found = [each for number in reversed(numbers) for each in SliceTask(plan, NONE)(number)]
    if not plan.chained:
        return found
    schema, order = plan.questions.each[0].candidate_schema
    table = pa.concat_tables([schema.empty_table(), *(pa.Table.from_batches([each]) for each in found)])
    in_order = table.sort_by([(name, "ascending") for name in order])
    return ChooseTask(plan, NONE)(in_order.to_batches(max_chunksize=2))


def _pass_over(plan: Exchanged, passes: Passes) -> list[pa.RecordBatch]:
    """The blobs of events inside the filter of passes; each task runs twice, and gives the same bytes."""
    assert isinstance(plan.access, FilesAccess)
    portions = plan.access.portions(3)
    numbers, given = list(range(len(portions))), [None] * len(portions)
    for step in range(len(passes.steps)):
        summarise = SummaryTask(plan.access, portions, passes, step, NONE)
        sent = [each for task in _given(numbers, given)[::-1] for each in _twice(summarise, task)]
        (merged,) = _twice(MergeTask(passes, step, NONE), sent)
        given = merged.column(0).to_pylist() * len(portions)
    cutter = Cutter(plan.questions.needs, plan.targets, False, plan.options.limits)
    last = FilterTask(CutTask(cutter, NONE).write_blobs, plan.access, portions, passes, NONE)
    return [each for task in _given(numbers, given) for each in _twice(last, task)]


def _given(numbers: list[int], messages: list[bytes | None]) -> list[list[pa.RecordBatch]]:
    return [
        [pa.record_batch({"id": [number], **({} if message is None else {"filter": [message]})})]
        for number, message in zip(numbers, messages, strict=True)
    ]


def _twice(task: Any, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    first, second = (list(pickle.loads(pickle.dumps(task))(batches)) for _ in range(2))
    assert [each.to_pydict() for each in first] == [each.to_pydict() for each in second]
    return first


def _exchanged(plan: Exchanged) -> Iterable[pa.RecordBatch]:
    needs, limits = plan.questions.needs, plan.options.limits
    if plan.access is None:
        assert isinstance(plan.source, HandedOver)
        names = [name for name in plan.source.table.column_names if name in (ROW, *needs.columns.names)]
        rows = plan.source.table.select(names)
        shuffled = [rows.slice(i, 3) for i in range(0, len(rows), 3)][::-1]
        blobs = list(Cutter(needs, plan.targets, True, limits)(shuffled))
    elif not isinstance(plan.passes, str):
        blobs = _pass_over(plan, plan.passes)
    else:
        portions = plan.access.portions(3)
        cut = CutTask(Cutter(needs, plan.targets, True, limits), NONE, plan.access, portions)
        blobs = list(cut([pa.record_batch({"id": list(range(len(portions)))})]))
    by_task: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for blob in blobs:
        by_task[blob.column(0)[0].as_py()].append(blob)
    task = MatchTask(plan.questions, plan.options, NONE)
    return [each for blobs in by_task.values() for each in task(blobs)]
