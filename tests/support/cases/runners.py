"""Ways to run a bound query; every case and every engine goes through all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.engines.base import Options
from cerise.errors import UnsupportedError
from cerise.files.lake import open_lake
from cerise.files.scan import ROW
from cerise.filters.two_phase import Filtering
from cerise.kinds import COMPUTABLE, kind_of
from cerise.pattern.bound import Bound
from cerise.run.access import TableSource
from cerise.run.find import HERE, decide, find
from cerise.run.question import Questions, Work
from cerise.run.sase_search import Sase
from cerise.sources import FilesSource, StoreSource
from cerise.store.table.event_table import EventTable, index_in_place
from cerise.store.view import IndexedSnapshot, View
from cerise.streaming.live_query import check_query
from cerise.streaming.stages import is_late, stages_of
from tests.support.cases import stream_runner
from tests.support.cases.tasks_here import HandedOver, TasksHere, exchange_files

Runner = Callable[[Bound, pa.Table, Options], pa.Table]


def whole(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """All events at once."""
    return find(TableSource(table), Questions.of([Sase(bound)]), options, HERE).matches


def in_batches_of(size: int, *, reload: bool = False, advance: bool = False) -> Runner:
    """Micro-batches; with `reload`, each in a new search that loads what the one before saved.

    With `advance`, the search is told after each batch that no event before the next one will come.
    """

    def run_batches(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
        if bound.source is not None:
            table = run_batches(bound.source, table, options)
        question, options = Sase(bound), _named(options)
        events = TableSource(table).access(Questions.of([question.outer]), options).events
        search = question.start(Work(options))
        parts = []
        for start in range(0, len(events), size):
            parts += search.feed(events.slice(start, start + size))
            if reload:
                state = search.save()
                search = question.start(Work(options))
                search.load(state)
            if advance and start + size < len(events):
                parts += search.advance(int(events.times[start + size]))
        return question.finish([*parts, *search.flush()])

    return run_batches


def in_threads(count: int) -> Runner:
    """Cut by time into slices that are matched apart, where that can be."""
    return lambda bound, table, options: whole(bound, table, replace(options, threads=count))


def filtered_first(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """What fits no variable is left out before events are ordered, as it is where they are many."""
    return whole(bound, table, replace(options, limits=replace(options.limits, filtered_events=1)))


def exchanged(count: int) -> Runner:
    """What Spark's tasks do where events are exchanged: cut into blobs, by key and time, then gathered."""

    def run_exchanged(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
        if bound.source is not None:
            table = run_exchanged(bound.source, table, options)
        question = Sase(bound).outer
        ids = table.append_column(ROW, pa.array(range(len(table)), pa.int64()))
        plan = decide(HandedOver(ids), Questions.of([question]), _named(options), TasksHere(count))
        return TasksHere(count).run(plan)[0]

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
            asked = Questions.of([Sase(bound).outer])
            options = replace(_named(options), partitions=count)
            return find(FilesSource(open_lake(folder)), asked, options, TasksHere(count)).matches

    return run_from_files


def in_passes(count: int) -> Runner:
    """What Spark's tasks do with files out of order: pass over them, then exchange what is inside."""

    def run_in_passes(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
        if bound.source is not None:
            table = run_in_passes(bound.source, table, options)
        with tempfile.TemporaryDirectory() as folder:
            for number, start in enumerate(range(0, max(len(table), 1), 5)):
                part = table.slice(start, 5)
                pq.write_table(part, Path(folder) / f"{number:06}.parquet", row_group_size=2)
            asked = Questions.of([Sase(bound).outer])
            source = FilesSource(open_lake(folder))
            options = replace(_named(options), passes=count, partitions=3)
            return exchange_files(source, asked, options).matches

    return run_in_passes


def from_a_store(*, blockwise: bool) -> Runner:
    """Files that were indexed: what the index keeps is matched, or all, where it cannot help."""

    def run_from_a_store(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
        if bound.source is not None:
            table = run_from_a_store(bound.source, table, options)
        with tempfile.TemporaryDirectory() as folder:
            for number, start in enumerate(range(0, max(len(table), 1), 5)):
                pq.write_table(table.slice(start, 5), f"{folder}/{number:06}.parquet", row_group_size=3)
            schema = bound.schema
            kinds = {name: kind_of(schema.columns.field(name).type) for name in schema.columns.names}
            on = [name for name, kind in kinds.items() if kind in COMPUTABLE and name != schema.time]
            on = [name for name in on if name not in (schema.type, *schema.order) and name != "id"]
            index_in_place(folder, schema.time, schema.type, on, order=schema.order)
            view = View(IndexedSnapshot.of(EventTable.open(folder).snapshot()))
            given, threads = options.limits, 3 if blockwise else 1
            limits = replace(given, kept_share=1, stretch_events=min(3, given.stretch_events))
            options = replace(_named(options), threads=threads, limits=limits)
            source = StoreSource(view, Filtering(blockwise=blockwise))
            return find(source, Questions.of([Sase(bound).outer]), options, HERE).matches

    return run_from_a_store


def as_a_stream(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """Micro-batches in disorder, behind a watermark, with the state at rest between them.

    Totals that are known only at the end are refused on a stream, and so are queries that only the reference
    can run, if their window is not one of time: they are found in batch. The other queries that only the
    reference can run are late by a window.
    """
    question, reason = Sase(bound), ""
    try:
        check_query("q", question, Options(), unbounded=True)
    except UnsupportedError as error:
        reason = str(error)
    if reason:
        assert "totals" in reason or "it has no WITHIN" in reason or "its window counts events" in reason
        return whole(bound, table, options)
    schema = bound.schema if bound.source is None else _first(bound).schema
    late = any(is_late(each) for each in stages_of(question))
    chosen = replace(options, engine=None) if late else _named(options)
    return stream_runner.as_a_stream(question, table, schema, chosen, seed=len(table))


def _first(bound: Bound) -> Bound:
    return bound if bound.source is None else _first(bound.source)


def _named(options: Options) -> Options:
    return replace(options, engine=options.engine or "reference")


RUNNERS: dict[str, Runner] = {
    "whole": whole,
    "batches of 1": in_batches_of(1),
    "batches of 3": in_batches_of(3),
    "saved and loaded": in_batches_of(3, reload=True),
    "advanced in between": in_batches_of(2, advance=True),
    "filtered first": filtered_first,
    "2 threads": in_threads(2),
    "7 threads": in_threads(7),
    "exchanged to 2": exchanged(2),
    "exchanged to 7": exchanged(7),
    "from files, 1 slice": from_files(1),
    "from files, 7 slices": from_files(7),
    "in 2 passes": in_passes(2),
    "in 3 passes": in_passes(3),
    "as a stream": as_a_stream,
    "from a store": from_a_store(blockwise=False),
    "from a store, by stretches": from_a_store(blockwise=True),
}
