"""MATCH_RECOGNIZE on Spark: rows of a partition are brought together as Arrow blobs, and searched there.

A partition that is alone is cut by time where that can be (`spark.row_plan`).

What measures are computed from comes back as columns; Spark itself computes the measures, so their types and
their rules are Spark's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from cerise.engines.base import Options
from cerise.engines.limits import DEFAULT, Limits
from cerise.engines.results.row_matches import Ints, joined
from cerise.engines.rows.output import MATCHED, to_atoms
from cerise.engines.rows.prepare import derived, needed_columns, prepare, read_by
from cerise.engines.rows.run import atoms_in
from cerise.engines.rows.skipping import Skipper, why_not_skipping
from cerise.engines.rows.slices import times_of
from cerise.events import raw_column
from cerise.files.lake import Lake
from cerise.files.reader import Reading
from cerise.files.scan import ROW, Scan
from cerise.kinds import COMPUTABLE, Kind, canonical, kind_of
from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import BoundRows, Nav, Show
from cerise.plan.overlap import Targets
from cerise.plan.row_slices import is_chained
from cerise.spark.exchange import BLOBS, NUMBERS, blob, gathered
from cerise.spark.frames import as_written, column
from cerise.spark.planner import portions_of
from cerise.spark.report import RESULT, Records, SparkReport, count, exchanged
from cerise.spark.row_plan import TASKS_PER_CORE, RowSlices, plan_exchange, plan_files
from cerise.spark.row_slices import (
    CANDIDATES,
    RowCandidatesTask,
    RowChainTask,
    SliceRowsTask,
    TimeRowsTask,
    tell_ties,
)
from cerise.spark.scans import lake_behind
from cerise.spark.session import parallelism, session
from cerise.spark.telling import mapped
from cerise.ties import hash_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cerise.files.lake import Group


def found(
    events: DataFrame | Lake, bound: BoundRows, options: Options, *, noted: bool
) -> tuple[DataFrame, SparkReport | None]:
    """Return the result of a clause over a DataFrame, or over files which tasks read themselves.

    Args:
        events: the rows.
        bound: the clause.
        options: how to run it.
        noted: whether tasks note what they do, for the report that is returned as well.
    """
    events = _settled(events, bound)
    spark = session() if isinstance(events, Lake) else events.sparkSession
    report = SparkReport({}, records_of(spark, bound, noted=noted))
    if isinstance(events, Lake):
        result = _read(spark, events, bound, options, report)
    else:
        result = matched(events, bound, options, parallelism(spark), report.records)
    return result, report if noted else None


def records_of(spark: SparkSession, bound: BoundRows, *, noted: bool) -> Records:
    """Return where tasks note what they do: all of it, or of rows without an order their ties alone."""
    if bound.arrival:
        return Records.of(spark) if noted else Records()
    return Records.of_frame(spark, noted=noted)


def _settled(events: DataFrame | Lake, bound: BoundRows) -> DataFrame | Lake:
    """Return files in the place of a DataFrame that is nothing else, where Spark computes no column of it."""
    if isinstance(events, Lake) or bound.derived:
        return events
    return lake_behind(events) or events


def _read(
    spark: SparkSession, lake: Lake, bound: BoundRows, options: Options, report: SparkReport
) -> DataFrame:
    names = handed_columns(bound)
    columns = pa.schema([lake.columns.field(name) for name in names])
    schema = _schema(bound, columns, from_arrow_schema(lake.columns))
    reading = _reading(lake, names)
    way = plan_files(lake, bound, options, reading, parallelism(spark))
    every = lake.every()
    report.known.update({"events": sum(each.span.rows for each in every), "row groups": len(every)})
    if isinstance(way, RowSlices):
        return _measured(_in_slices(spark, way, schema, report.records), bound)
    portions = portions_of(every, TASKS_PER_CORE * parallelism(spark))
    cut = CutRows(bound, columns, way.targets, limits=options.limits)
    read = ReadRows(cut, reading, portions, report.records)
    blobs = mapped(spark.range(0, len(portions), 1, len(portions)), read, BLOBS)
    return _measured(_gathered(blobs, bound, options, way.targets, schema, report.records), bound)


def matched(
    frame: DataFrame, bound: BoundRows, options: Options, tasks: int, records: Records | None = None
) -> DataFrame:
    """Return the result of a clause over a DataFrame, lazily; tasks note in the records what they do."""
    records = records or Records()
    names = handed_columns(bound)
    columns = pa.schema([pa.field(name, bound.type_of(name)) for name in names])
    computed = {each.name: expr(as_written(frame.sparkSession, each.sql)) for each in bound.derived}
    handed = frame.select(
        *(computed.get(name, column((name,))).alias(f"c{i}") for i, name in enumerate(names))
    )
    targets = plan_exchange(bound, options, tasks).targets
    blobs = mapped(handed, CutRows(bound, columns, targets, records, options.limits), BLOBS)
    schema = _schema(bound, columns, frame.schema)
    return _measured(_gathered(blobs, bound, options, targets, schema, records), bound)


def _gathered(
    blobs: DataFrame,
    bound: BoundRows,
    options: Options,
    targets: Targets,
    schema: StructType,
    records: Records,
) -> DataFrame:
    """Search what blobs bring to each target."""
    task: RowsTask | TimeRowsTask = RowsTask(bound, options, records)
    if targets.length is not None:
        task = TimeRowsTask(bound, options, targets, records)
    return mapped(blobs.repartition(targets.count, "place"), task, schema)


def _in_slices(spark: SparkSession, sliced: RowSlices, schema: StructType, records: Records) -> DataFrame:
    """Search slices of files; where their matches depend on those before, one more task orders these."""
    count = len(sliced.slices)
    slices = spark.range(0, count, 1, count)
    if not is_chained(sliced.bound):
        return mapped(slices, SliceRowsTask(sliced, records), schema)
    candidates = mapped(slices, RowCandidatesTask(sliced, records), CANDIDATES)
    in_order = candidates.repartition(1).sortWithinPartitions("slice", "part")
    return mapped(in_order, RowChainTask(sliced, records), schema)


def explained(events: DataFrame | Lake, bound: BoundRows, options: Options) -> str:
    """Say how the rows of a clause come to the tasks that search them."""
    events = _settled(events, bound)
    if not isinstance(events, Lake):
        return str(plan_exchange(bound, options, parallelism(events.sparkSession)))
    reading = _reading(events, handed_columns(bound))
    return str(plan_files(events, bound, options, reading, parallelism(session())))


def _reading(lake: Lake, names: tuple[str, ...]) -> Reading:
    return Reading(lake.root, dict(enumerate(lake.files)), lake.columns, names, coded=lake.coded(names))


def handed_columns(bound: BoundRows) -> tuple[str, ...]:
    """Return the columns that Spark hands over: what is needed of the input, or derived from it by Spark.

    What only conditions need, and Cerise can compute, is derived in the tasks: what cannot be computed is
    null there, and no error (S4.6).
    """
    measured = {name for each in bound.measures for name in each.atoms}
    shown = {column for name in measured for column in read_by(bound.atoms[name])}
    shown |= {*bound.partition, *(each.column for each in bound.order)}
    needed = set(needed_columns(bound))
    for each in bound.derived:
        if each.name in needed - shown and each.expr is not None:
            needed -= {each.name}
            needed |= {attr.path[0] for attr in attributes(each.expr)}
    names = [*bound.columns.names, *(each.name for each in bound.derived)]
    return tuple(name for name in names if name in needed)


def _schema(bound: BoundRows, columns: pa.Schema, given: StructType) -> StructType:
    """Return what tasks give; columns of the input keep the type that they have in Spark."""
    empty = columns.empty_table()
    nothing = to_atoms(bound, prepare(bound, empty), np.zeros(1, np.int64), joined([]))
    fields = list(from_arrow_schema(nothing.schema).fields)
    shown = {f"_s{i}": each.name for i, each in enumerate(bound.output) if not each.measure}
    known = {each.name: each.dataType for each in given.fields}
    atoms = {name: atom.column for name, atom in bound.atoms.items() if isinstance(atom, Nav)}
    return StructType(
        [
            StructField(each.name, known.get(shown.get(each.name, atoms.get(each.name, "")), each.dataType))
            for each in fields
        ]
    )


def _measured(found: DataFrame, bound: BoundRows) -> DataFrame:
    """Let Spark compute the measures."""
    sql = {each.name: f"({as_written(found.sparkSession, each.sql)})" for each in bound.measures}
    if bound.show is Show.UNMATCHED:
        sql = {name: f"CASE WHEN {MATCHED} THEN {text} END" for name, text in sql.items()}
    return found.select(
        *(
            expr(sql[each.name] if each.measure else f"_s{i}").alias(each.name)
            for i, each in enumerate(bound.output)
        )
    )


# ---- the tasks


@dataclass(frozen=True, slots=True)
class CutRows:
    """Cuts rows into blobs, each for the task that searches their partition, or their stretch of time."""

    bound: BoundRows
    columns: pa.Schema
    targets: Targets
    records: Records = Records()
    limits: Limits = DEFAULT

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield blobs, with the number by which Spark brings them to their task."""
        with self.records.noted("hand over", self.records.task()) as note:
            for table in self._tables(batches):
                count(note, "events handed over", len(table))
                yield from exchanged(self.blobs(table), note)

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        waiting: list[pa.Table] = []
        for batch in batches:
            waiting.append(self._settled(batch))
            if sum(map(len, waiting)) >= self.limits.cut_events:
                yield pa.concat_tables(waiting)
                waiting = []
        if waiting:
            yield pa.concat_tables(waiting)

    def _settled(self, batch: pa.RecordBatch) -> pa.Table:
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(batch.columns, self.columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.columns)

    def blobs(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of a table."""
        if why_not_skipping(self.bound) is None:
            kept = Skipper(self.bound).kept(derived(self.bound, table))
            table = table.filter(pa.array(kept))
        numbers = NUMBERS(self.targets.count)
        if self.targets.count == 1:
            yield blob(numbers[0], table)
            return
        rows, target = self._sent(table)
        order = np.argsort(target.astype(np.int16) if len(numbers) < 2**15 else target, kind="stable")
        moved, target = table.take(pa.array(rows[order])), target[order]
        cut = np.append(np.flatnonzero(np.diff(target, prepend=-1)), len(target))
        for start, stop in pairwise(cut.tolist()):
            yield blob(numbers[int(target[start])], moved.slice(start, stop - start))

    def _sent(self, table: pa.Table) -> tuple[Ints, Ints]:
        """Return which rows go where; one may go to several targets."""
        if self.targets.length is not None:
            sent = self.targets.of(times_of(self.bound, table, none=0), None)
            return np.concatenate([each for each, _ in sent]), np.concatenate([to for _, to in sent])
        hashed = hash_columns((_hashable(table, name) for name in self.bound.partition), len(table))
        return np.arange(len(table)), (hashed % np.uint64(self.targets.count)).astype(np.int64)


def _hashable(table: pa.Table, name: str) -> tuple[pa.Array, Kind]:
    column = raw_column(table, (name,))
    kind = kind_of(column.type)
    if kind is Kind.STRING and pa.types.is_dictionary(column.type):
        return column, kind
    if kind in COMPUTABLE:
        return canonical(column, kind, name), kind
    return column.cast(pa.string()), Kind.STRING


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Reads row groups, and cuts them into blobs."""

    cut: CutRows
    reading: Reading
    groups: Sequence[tuple[Group, ...]]
    records: Records = Records()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of the row groups whose numbers are given."""
        with self.records.noted("read", self.records.task()) as note:
            for number in (each for batch in batches for each in batch.column(0).to_pylist()):
                count(note, "row groups read", len(self.groups[number]))
                for table in Scan(self.reading, self.groups[number]).rows():
                    count(note, "events read", len(table))
                    yield from exchanged(self.cut.blobs(table), note)


@dataclass(frozen=True, slots=True)
class RowsTask:
    """Searches the partitions that blobs bring."""

    bound: BoundRows
    options: Options
    records: Records = Records()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what measures are computed from, for each row of the result."""
        with self.records.noted("match", self.records.task()) as note:
            for table in gathered(batches):
                count(note, "events matched over", len(table))
                names = [name for name in table.column_names if name != ROW]
                told = partial(tell_ties, note, self.options)
                for found in atoms_in(self.bound, table.select(names), self.options, told):
                    count(note, RESULT, len(found))
                    yield from found.to_batches(self.options.limits.output_rows)
