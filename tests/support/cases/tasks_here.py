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
from cerise.plan.needs import Needs
from cerise.run.access import Access, TableSource
from cerise.run.find import Exchanged, Plan, Sliced
from cerise.run.question import Questions
from cerise.run.report import Report
from cerise.spark.exchange import Cutter
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


def _exchanged(plan: Exchanged) -> Iterable[pa.RecordBatch]:
    needs, limits = plan.questions.needs, plan.options.limits
    if plan.access is None:
        assert isinstance(plan.source, HandedOver)
        names = [name for name in plan.source.table.column_names if name in (ROW, *needs.columns.names)]
        rows = plan.source.table.select(names)
        shuffled = [rows.slice(i, 3) for i in range(0, len(rows), 3)][::-1]
        blobs = list(Cutter(needs, plan.targets, True, limits)(shuffled))
    else:
        portions = plan.access.portions(3)
        cut = CutTask(Cutter(needs, plan.targets, True, limits), NONE, plan.access, portions)
        blobs = list(cut([pa.record_batch({"id": list(range(len(portions)))})]))
    by_task: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for blob in blobs:
        by_task[blob.column(0)[0].as_py()].append(blob)
    task = MatchTask(plan.questions, plan.options, NONE)
    return [each for blobs in by_task.values() for each in task(blobs)]
