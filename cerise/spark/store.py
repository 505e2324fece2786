"""The event store on Spark: tasks filter, read and match stretches of time; tasks write what is appended."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from cerise.engines.base import Options
from cerise.engines.limits import DEFAULT
from cerise.engines.several import Queries
from cerise.engines.totals import Ledger
from cerise.errors import StoreError
from cerise.events import EventBatch, Schema
from cerise.files.scan import ROW
from cerise.filters.finder import Finder
from cerise.filters.row_index_query import asked_rows
from cerise.filters.running import parts_of, rows_read
from cerise.filters.two_phase import Filtering
from cerise.filters.ways import Wants, Way, way_for, way_of
from cerise.kinds import plain_table
from cerise.pattern.bound import Bound
from cerise.pattern.row_pattern import BoundRows, Order
from cerise.plan.overlap import Halo, Slice, slices
from cerise.spark import rows
from cerise.spark.batch import Made, combined, given_schema, result_schema_of
from cerise.spark.frames import arrow_schema, column
from cerise.spark.matching import matched
from cerise.spark.planner import SLICES_PER_TASK
from cerise.spark.progress import progress
from cerise.spark.report import Records, SparkReport
from cerise.spark.session import parallelism, session
from cerise.spark.telling import mapped, told
from cerise.store.index.layout import SEQUENCE, SEQUENCE_FIELDS
from cerise.store.table.column_types import check
from cerise.store.table.data_file import Part, Writing, Written, write_piece
from cerise.store.table.event_table import EventTable
from cerise.store.view import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARRIVED = ("__cerise_arrived", "__cerise_arrived_as")  # columns that tell it
FILES_PER_TASK = 100
ROWS_PER_TASK = 40  # bits
WRITTEN = StructType([StructField("written", BinaryType())])


# ---- matches


def find(view: View, bounds: Sequence[Bound], options: Options) -> tuple[DataFrame, SparkReport]:
    """Return the matches of queries as a lazy DataFrame, and what their tasks will have done."""
    made = _made(view, bounds, options)
    return combined(made), made.report


def count(view: View, bound: Bound, options: Options) -> int:
    """Return how many matches a query that counts has."""
    partial = _made(view, [bound], options).rows
    with progress(partial.sparkSession, "counting"), told():
        ledger = Ledger(bound)
        ledger.merge(partial.toArrow())
    return int(Decimal(ledger.result().column(0)[0].as_py()))


def _made(view: View, bounds: Sequence[Bound], options: Options) -> Made:
    spark = session()
    way, wants = way_of(view, bounds), Wants.of(bounds)
    parts, needs = _parts(spark, view, way, bounds, options)
    records = Records.of(spark)
    task = StoreTask(Queries.of(bounds, options), view, way, wants, parts, needs, records)
    columns = from_arrow_schema(view.columns)
    found = mapped(spark.range(0, len(parts), 1, len(parts)), task, given_schema(bounds, columns))
    known = {"events": view.rows, "events indexed": view.held.synopsis.rows}
    return Made(found, bounds, result_schema_of(bounds, columns), SparkReport(known, records))


def _parts(
    spark: SparkSession, view: View, way: Way, bounds: Sequence[Bound], options: Options
) -> tuple[Sequence[Slice | None], Halo]:
    """Cut the table into stretches, one for each task; where what is looked up is rare, one task does it."""
    if options.partitions is None and not way.large:
        return [None], Halo()
    found = parts_of(view, bounds, options.partitions or SLICES_PER_TASK * parallelism(spark))
    return ([None], Halo()) if isinstance(found, str) or len(found[0]) == 1 else found


@dataclass(frozen=True, slots=True)
class StoreTask:
    """Filters, reads and matches stretches of an event table.

    Attributes:
        queries: what is looked for.
        view: the table.
        way: how events are got at.
        wants: what of them is needed.
        parts: the stretches; None: all of it.
        needs: what a stretch needs beyond its own time.
        records: where it is noted what was done.
    """

    queries: Queries
    view: View
    way: Way
    wants: Wants
    parts: Sequence[Slice | None]
    needs: Halo
    records: Records

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the matches of the stretches whose numbers are given."""
        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            finder = Finder(self.view, self.way, self.wants)
            before = self.view.index.counts.bytes
            events = finder.events(self.parts[number], self.needs)
            batches = ((each,) * len(self.queries.bounds) for each in events)
            with self.records.noted("match", number) as note:
                yield from matched(self.queries, batches, note, finder)
                note["events kept"] = finder.seen.kept
                note["bytes of the index read"] = self.view.index.counts.bytes - before


# ---- events


def candidates(view: View, way: Way, wants: Wants) -> DataFrame:
    """Return the events that a filter keeps, with all columns that are wanted."""
    spark = session()
    fields = [wants.schema.columns.field(name) for name in wants.all]
    task = CandidatesTask(view, way, wants, _spread(spark, view, way), arrived=False)
    schema = from_arrow_schema(pa.schema(fields))
    return mapped(spark.range(0, len(task.parts), 1, len(task.parts)), task, schema)


def _spread(spark: SparkSession, view: View, way: Way) -> Sequence[Slice | None]:
    """Cut the table into stretches whose events are handed on as they are."""
    if not way.large:
        return [None]
    found = slices(view.spans(), Halo(), SLICES_PER_TASK * parallelism(spark))
    return found if len(found) > 1 else [None]


@dataclass(frozen=True, slots=True)
class CandidatesTask:
    """Filters stretches of an event table, and hands on the events that are kept.

    Attributes:
        view, way, wants, parts: as in `StoreTask`.
        arrived: whether the order of their arrival is handed on too.
    """

    view: View
    way: Way
    wants: Wants
    parts: Sequence[Slice | None]
    arrived: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the events of the stretches whose numbers are given."""
        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            finder = Finder(self.view, self.way, self.wants)
            for events in finder.events(self.parts[number], Halo()):
                table = finder.complete(events).table
                if self.arrived:
                    for name, numbers in zip(ARRIVED, _arrivals(finder, events), strict=True):
                        table = table.append_column(name, numbers)
                yield from table.to_batches(max_chunksize=DEFAULT.output_rows)


def _arrivals(finder: Finder, events: EventBatch) -> list[pa.Array]:
    if SEQUENCE in events.table.schema.names:
        sequence = events.table.column(SEQUENCE).combine_chunks()
        return [sequence.field(name) for name in SEQUENCE_FIELDS]
    return [pa.array(each) for each in finder.view.arrivals(events.table.column(ROW).to_numpy())]


def find_rows(
    view: View, bound: BoundRows, schema: Schema, options: Options
) -> tuple[DataFrame, SparkReport | None]:
    """Return the result of a MATCH_RECOGNIZE clause over an event table, and an account of it."""
    spark, schema = session(), replace(schema, order=())  # ORDER BY says all, then arrival (M2)
    way = way_for(view, asked_rows(bound, schema, view.known), Filtering())
    if way.query is None and not view.arrival:
        return rows.found(view.lake, bound, options, noted=True)
    wants = Wants(schema, rows_read(bound, schema))
    task = CandidatesTask(view, way, wants, _spread(spark, view, way), arrived=True)
    fields = [schema.columns.field(name) for name in wants.all]
    columns = pa.schema([*fields, *(pa.field(name, pa.int64()) for name in ARRIVED)])
    parts = spark.range(0, len(task.parts), 1, len(task.parts))
    events = mapped(parts, task, from_arrow_schema(columns))
    ordered = replace(
        bound,
        columns=pa.schema([*bound.columns, *(columns.field(name) for name in ARRIVED)]),
        order=(*bound.order, *map(Order, ARRIVED)),
    )
    return rows.found(events, ordered, options, noted=True)


# ---- appending


def append(table: EventTable, events: DataFrame) -> int:
    """Append the events of a DataFrame, as one version: tasks write files, each of a stretch of time.

    Raises:
        StoreError: its columns are not those of the table.
        DataError: an event has no time, or a value does not fit.
    """
    columns = arrow_schema(events)
    check(columns, table.columns)
    spread = events.repartitionByRange(column((table.settings.time,)))
    task = WriteTask(table.writing, table.next_append())
    with progress(events.sparkSession, "appending"), told():
        written = mapped(spread, task, WRITTEN, columns.names).toArrow()
    return table.commit_pieces([pickle.loads(each) for each in written.column(0).to_pylist()])


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes rows as files of an append, in the order of time, with their index.

    Attributes:
        writing: where and how.
        append: the number of the append.
    """

    writing: Writing
    append: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what was written of some rows."""
        context = TaskContext.get()
        task, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        first = task << ROWS_PER_TASK
        for number, piece in enumerate(_pieces(batches, self.writing.settings.file_rows)):
            if number >= FILES_PER_TASK:
                raise StoreError(
                    f"one task was given more than {first:,} events to append",
                    hint="append them in parts, or set spark.sql.shuffle.partitions to more",
                )
            part = Part(self.append, FILES_PER_TASK * task + number, first, attempt)
            written: Written = write_piece(piece, self.writing, part)
            first += len(piece)
            yield pa.RecordBatch.from_pydict({"written": [pickle.dumps(written)]})


def _pieces(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Yield batches as tables of so many rows."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= most:
            yield plain_table(pa.Table.from_batches(held))
            held = []
    if sum(map(len, held)):
        yield plain_table(pa.Table.from_batches(held))
