"""Ways to run a bound query; every case and every engine goes through all of them (style.md §8)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cerise.engines.base import Finding, Matcher, Matches, Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.output import to_table
from cerise.engines.run import run
from cerise.engines.several import Queries
from cerise.engines.totals import Ledger, Positions
from cerise.events import EventBatch
from cerise.files.lake import open_lake
from cerise.files.scan import ROW
from cerise.filters import finder, ways
from cerise.filters.running import run_view
from cerise.filters.two_phase import Filtering
from cerise.kinds import COMPUTABLE, kind_of
from cerise.pattern.bound import Bound
from cerise.plan import overlap
from cerise.plan.filters import needed
from cerise.plan.nodes import LakePlan, Slices
from cerise.spark.chain import ORDER, CandidateTask, ChainTask, candidate_schema
from cerise.spark.exchange import Cutter
from cerise.spark.matching import MatchTask, ReadTask, SliceTask
from cerise.spark.planner import plan_lake
from cerise.spark.report import Records
from cerise.store.table.event_table import EventTable, index_in_place
from cerise.store.view import Held, View

Runner = Callable[[Bound, pa.Table, Options], pa.Table]


def whole(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """All events at once."""
    return run(bound, table, options)


def in_batches_of(size: int, *, reload: bool = False) -> Runner:
    """Micro-batches; with `reload`, each in a new matcher that loads what the one before saved."""

    def run_batches(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
        if bound.source is not None:
            table = run_batches(bound.source, table, options)
        events = EventBatch.of(table, bound.schema, reads=bound.ties)
        matcher, positions = _start(bound, options), Positions(bound)
        parts = []
        for start in range(0, len(events), size):
            batch = positions(events.slice(start, start + size))
            parts += [_part(each, bound, options.limits) for each in matcher.feed(batch)]
            if reload:
                state = matcher.save()
                matcher = _start(bound, options)
                matcher.load(state)
        parts += [_part(each, bound, options.limits) for each in matcher.flush()]
        return _joined(parts, bound)

    return run_batches


def in_threads(count: int) -> Runner:
    """Cut by time into parts that are matched apart, where that can be."""
    return lambda bound, table, options: run(bound, table, replace(options, threads=count))


def filtered_first(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """What fits no variable is left out before events are ordered, as it is where they are many."""
    return run(bound, table, replace(options, limits=replace(options.limits, filtered_events=1)))


def exchanged(count: int) -> Runner:
    """What Spark's tasks do where events are exchanged: cut into blobs, by key and time, then gathered."""

    def run_exchanged(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
        if bound.source is not None:
            table = run_exchanged(bound.source, table, options)
        targets = overlap.targets([bound], count)
        if isinstance(targets, str):
            targets = overlap.Targets(1, None, overlap.Halo())
        rows = table.append_column(ROW, pa.array(range(len(table)), pa.int64()))
        shuffled = [rows.slice(i, 3) for i in range(0, len(rows), 3)][::-1]
        cutter = Cutter(bound.schema, bound.partition, targets, needed([bound]), options.limits)
        blobs = list(cutter(shuffled))
        by_task: dict[int, list[pa.RecordBatch]] = {}
        for blob in blobs:
            by_task.setdefault(blob.column(0)[0].as_py(), []).append(blob)
        task = MatchTask(Queries.of([bound], _named(options)), Records())
        return _joined([pa.Table.from_batches([b]) for each in by_task.values() for b in task(each)], bound)

    return run_exchanged


def from_files(count: int) -> Runner:
    """What Spark's tasks do with files: read their row groups in slices of time, or exchange them."""

    def run_from_files(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
        if bound.source is not None:
            table = run_from_files(bound.source, table, options)
        with tempfile.TemporaryDirectory() as folder:
            for number, start in enumerate(range(0, max(len(table), 1), 5)):
                part = table.slice(start, 5)
                pq.write_table(part, Path(folder) / f"{number:06}.parquet", row_group_size=2)
            lake = open_lake(folder)
            plan = plan_lake([bound], lake, replace(_named(options), partitions=count), 2)
            found = [pa.Table.from_batches([each]) for each in _tasks_of(bound, plan, _named(options))]
            return _joined(found, bound)

    return run_from_files


def _tasks_of(bound: Bound, plan: LakePlan, options: Options) -> Iterator[pa.RecordBatch]:
    queries = Queries.of([bound], options)
    reading = replace(plan.reading, schema=bound.schema)
    if isinstance(plan.way, Slices) and plan.way.chained:
        yield from _chained(bound, plan, plan.way, replace(options, threads=None))
        return
    if isinstance(plan.way, Slices):
        task = SliceTask(queries, reading, plan.way.slices, plan.way.needs, Records())
        for number in range(len(plan.way.slices)):
            yield from task([pa.record_batch({"id": [number]})])
        return
    cutter = Cutter(bound.schema, bound.partition, plan.way.targets, plan.needed, options.limits)
    read = ReadTask(cutter, reading, plan.way.reads, Records())
    numbers = [pa.record_batch({"id": list(range(len(plan.way.reads)))})]
    by_task: dict[int, list[pa.RecordBatch]] = {}
    for blob in read(numbers):
        by_task.setdefault(blob.column(0)[0].as_py(), []).append(blob)
    for blobs in by_task.values():
        yield from MatchTask(queries, Records())(blobs)


def _chained(bound: Bound, plan: LakePlan, way: Slices, options: Options) -> Iterator[pa.RecordBatch]:
    reading = replace(plan.reading, schema=bound.schema)
    task = CandidateTask(bound, options, reading, way.slices, way.needs, Records())
    empty = candidate_schema(bound).empty_table()
    found = [
        pa.Table.from_batches([b])
        for i in range(len(way.slices))
        for b in task([pa.record_batch({"id": [i]})])
    ]
    in_order = pa.concat_tables([empty, *found]).sort_by([(name, "ascending") for name in ORDER])
    yield from ChainTask(bound, Records())(in_order.to_batches(max_chunksize=2))


def from_a_store(*, blockwise: bool) -> Runner:
    """Files that were indexed: what the index keeps is matched, or all, where it cannot help."""

    def run_from_a_store(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
        if bound.source is not None:
            table = run_from_a_store(bound.source, table, options)
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(ways, "WORTH_READING", 2.0)
            patch.setattr(finder, "STRETCH", 3)
            for number, start in enumerate(range(0, max(len(table), 1), 5)):
                pq.write_table(table.slice(start, 5), f"{folder}/{number:06}.parquet", row_group_size=3)
            schema = bound.schema
            kinds = {name: kind_of(schema.columns.field(name).type) for name in schema.columns.names}
            on = [name for name, kind in kinds.items() if kind in COMPUTABLE and name != schema.time]
            on = [name for name in on if name not in (schema.type, *schema.order) and name != "id"]
            index_in_place(folder, schema.time, schema.type, on, order=schema.order)
            view = View(Held.of(EventTable.open(folder).snapshot()))
            threads = replace(_named(options), threads=3 if blockwise else 1)
            return run_view(view, bound, threads, Filtering(blockwise=blockwise))[0]

    return run_from_a_store


def _named(options: Options) -> Options:
    return replace(options, engine=options.engine or "reference")


def _start(bound: Bound, options: Options) -> Matcher:
    return ENGINES[options.engine or "reference"].start(bound, options)


def _part(found: Finding, bound: Bound, limits: Limits) -> pa.Table:
    """Matches as a table, or their part of the totals."""
    if bound.query.totals is None:
        assert isinstance(found, Matches)
        return to_table(found, bound)
    ledger = Ledger(bound, limits)
    ledger.add(found)
    return ledger.partial()


def _joined(parts: list[pa.Table], bound: Bound) -> pa.Table:
    if bound.query.totals is None:
        return pa.concat_tables([bound.output_schema.empty_table(), *parts])
    whole = Ledger(bound)
    for part in parts:
        whole.merge(part)
    return whole.result()


RUNNERS: dict[str, Runner] = {
    "whole": whole,
    "batches of 1": in_batches_of(1),
    "batches of 3": in_batches_of(3),
    "saved and loaded": in_batches_of(3, reload=True),
    "filtered first": filtered_first,
    "2 threads": in_threads(2),
    "7 threads": in_threads(7),
    "exchanged to 2": exchanged(2),
    "exchanged to 7": exchanged(7),
    "from files, 1 slice": from_files(1),
    "from files, 7 slices": from_files(7),
    "from a store": from_a_store(blockwise=False),
    "from a store, by stretches": from_a_store(blockwise=True),
}
