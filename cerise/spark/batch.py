"""Queries on Spark: which tasks there are, and how events come to them.

Three ways, which `cerise.plan.nodes` describes: slices of files in the order of time, each read and matched
by one task; files out of order, read and cut into blobs, exchanged once; and any DataFrame, whose rows are
handed over to Python, cut and exchanged in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from cerise.engines.base import Options
from cerise.engines.several import TAG, Queries
from cerise.engines.totals import Ledger, group_names, partial_schema
from cerise.errors import UnsupportedError
from cerise.files.lake import Lake
from cerise.pattern.bound import Bound
from cerise.plan.filters import as_sql
from cerise.plan.nodes import Estimate, FramePlan, LakePlan, Plan, Slices
from cerise.plan.overlap import common_partition
from cerise.spark.chain import ORDER, CandidateTask, ChainTask, candidate_schema
from cerise.spark.exchange import BLOBS, Cutter
from cerise.spark.frames import as_written, column, quoted, result_schema
from cerise.spark.matching import CombineTask, CutTask, MatchTask, ReadTask, SliceTask
from cerise.spark.planner import needs_of, plan_frame, plan_lake
from cerise.spark.progress import progress
from cerise.spark.report import Records, SparkReport, warn_of_ties
from cerise.spark.session import parallelism, session
from cerise.spark.telling import mapped, told

UNKNOWN_BYTES = 1 << 50  # what Spark says where it does not know

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def find(
    events: DataFrame | Lake, bounds: Sequence[Bound], options: Options, *, scan: str | None, noted: bool
) -> tuple[DataFrame, SparkReport | None]:
    """Return the matches of queries as a lazy DataFrame.

    Args:
        events: where to look.
        bounds: the queries; several are looked for in one pass, their matches tagged.
        options: how to run them.
        scan: why files are read by Spark, where they are.
        noted: whether tasks note what they do, for the report that is returned as well.
    """
    made = _made(events, bounds, options, scan, partial(records_of, events, noted=noted))
    return combined(made), made.report if noted else None


def records_of(events: DataFrame | Lake, spark: SparkSession, *, noted: bool) -> Records:
    """Return where tasks note what they do: all of it, or of a DataFrame its ties alone."""
    if isinstance(events, Lake):  # its rows have an order
        return Records.of(spark) if noted else Records()
    return Records.of_frame(spark, noted=noted)


def count(events: DataFrame | Lake, bound: Bound, options: Options, *, scan: str | None) -> int:
    """Return how many matches a query that counts has; the tasks' counts are summed here, without a stage."""
    made = _made(events, [bound], options, scan, Records.of)
    with progress(made.rows.sparkSession, "counting"), told():
        ledger = Ledger(bound)
        ledger.merge(made.rows.toArrow())
    warn_of_ties(made.report.records)
    return int(Decimal(ledger.result().column(0)[0].as_py()))


@dataclass(frozen=True, slots=True)
class Made:
    """What the tasks of queries give.

    Attributes:
        rows: matches, or partial totals.
        bounds: the queries.
        schema: the columns of their results.
        report: what the tasks fill.
    """

    rows: DataFrame
    bounds: Sequence[Bound]
    schema: StructType
    report: SparkReport


def _made(
    events: DataFrame | Lake,
    bounds: Sequence[Bound],
    options: Options,
    scan: str | None,
    records_of: Callable[[SparkSession], Records],
) -> Made:
    of_matches = any(bound.source is not None for bound in bounds)
    if of_matches:
        events, bounds = _matches_of_source(events, bounds, options, scan)
    plan = plan_of(events, bounds, options, scan)
    spark = session() if isinstance(events, Lake) else events.sparkSession
    records = records_of(spark)
    if isinstance(plan, LakePlan):
        rows = _in_lake(spark, bounds, plan, options, records)
        schema = result_schema_of(bounds, from_arrow_schema(plan.columns))
        return Made(rows, bounds, schema, SparkReport(plan.known, records))
    assert not isinstance(events, Lake)
    rows = _in_frame(events, bounds, plan, options, records, counts_ties=not of_matches)
    return Made(rows, bounds, result_schema_of(bounds, events), SparkReport({}, records))


def _matches_of_source(
    events: DataFrame | Lake, bounds: Sequence[Bound], options: Options, scan: str | None
) -> tuple[DataFrame, Sequence[Bound]]:
    """Return the matches that a query looks in, and the query."""
    if len(bounds) > 1:
        raise UnsupportedError(
            "a query over the matches of another cannot be one of several", hint="call find for it alone"
        )
    assert bounds[0].source is not None
    matches, _ = find(events, [bounds[0].source], options, scan=scan, noted=False)
    return matches, [replace(bounds[0], source=None)]


def plan_of(
    events: DataFrame | Lake, bounds: Sequence[Bound], options: Options, scan: str | None = None
) -> Plan:
    """Return how queries would be run."""
    if isinstance(events, Lake):
        return plan_lake(bounds, events, options, parallelism(session()))
    if isinstance(events, StructType):
        raise UnsupportedError("a schema has no events to find anything in", hint="give the DataFrame itself")
    return plan_frame(bounds, options, parallelism(events.sparkSession), _estimated(events), scan)


# ---- the tasks


def _in_lake(
    spark: SparkSession, bounds: Sequence[Bound], plan: LakePlan, options: Options, records: Records
) -> DataFrame:
    schema = given_schema(bounds, from_arrow_schema(plan.columns))
    queries = Queries.of(bounds, options)
    way = plan.way
    if isinstance(way, Slices) and way.chained:
        return _in_chain(spark, bounds[0], plan, way, options, records)
    if isinstance(way, Slices):
        task = SliceTask(queries, plan.reading, way.slices, way.needs, records)
        count = len(way.slices)
        return mapped(spark.range(0, count, 1, count), task, schema)
    cutter = Cutter(queries.schema, common_partition(bounds), way.targets, plan.needed, options.limits)
    read = ReadTask(cutter, plan.reading, way.reads, records)
    count = len(way.reads)
    blobs = mapped(spark.range(0, count, 1, count), read, BLOBS)
    return mapped(blobs.repartition(way.targets.count, "place"), MatchTask(queries, records), schema)


def _in_chain(
    spark: SparkSession, bound: Bound, plan: LakePlan, way: Slices, options: Options, records: Records
) -> DataFrame:
    """Matches that do not overlap: candidates by slices, then one task that chooses."""
    schema = given_schema([bound], from_arrow_schema(plan.columns))
    places = [StructField(name, LongType(), False) for name in ORDER]
    wanted = StructType([*schema, *places])
    if bound.query.totals is not None:
        wanted = from_arrow_schema(candidate_schema(bound))
    task = CandidateTask(bound, options, plan.reading, way.slices, way.needs, records)
    count = len(way.slices)
    candidates = mapped(spark.range(0, count, 1, count), task, wanted)
    in_order = candidates.repartition(1).sortWithinPartitions(*ORDER)
    return mapped(in_order, ChainTask(bound, records), schema, wanted.names)


def _in_frame(
    events: DataFrame,
    bounds: Sequence[Bound],
    plan: FramePlan,
    options: Options,
    records: Records,
    *,
    counts_ties: bool,
) -> DataFrame:
    schema = given_schema(bounds, events)
    queries = Queries.of(bounds, options)
    names = needs_of(bounds)
    columns = pa.schema([queries.schema.columns.field(name) for name in names])
    targets = plan.exchange.targets
    cutter = Cutter(queries.schema, common_partition(bounds), targets, None, options.limits)
    chosen = _chosen(events, bounds, names, plan)
    blobs = mapped(chosen, CutTask(cutter, columns, records), BLOBS, names)
    task = MatchTask(queries, records, counts_ties)
    return mapped(blobs.repartition(targets.count, "place"), task, schema)


def _chosen(events: DataFrame, bounds: Sequence[Bound], names: Sequence[str], plan: FramePlan) -> DataFrame:
    """Return what must cross to Python: the columns and rows that the queries need."""
    for path in set.intersection(*(set(bound.not_null) for bound in bounds)):
        events = events.where(column(path).isNotNull())
    if plan.needed is not None:
        paths = {test.path for tests in plan.needed for test in tests}
        wanted = as_sql(plan.needed, {path: quoted(path) for path in paths})
        nowhen = column((bounds[0].schema.time,)).isNull()  # such events are refused, not lost
        events = events.where(expr(as_written(events.sparkSession, wanted)) | nowhen)
    return events.select(*(column((name,)) for name in names))


# ---- the results


def given_schema(bounds: Sequence[Bound], events: DataFrame | StructType) -> StructType:
    """Return the columns of what tasks give: matches, or partial totals."""
    totals = [bound for bound in bounds if bound.query.totals is not None]
    return from_arrow_schema(partial_schema(totals[0])) if totals else result_schema_of(bounds, events)


def result_schema_of(bounds: Sequence[Bound], events: DataFrame | StructType) -> StructType:
    """Return the columns of the results of all queries together."""
    found = [result_schema(bound, events) for bound in bounds]
    if len(found) == 1:
        return found[0]
    fields: dict[str, StructField] = {TAG: StructField(TAG, StringType(), False)}
    for each in (each for schema in found for each in schema):
        fields.setdefault(each.name, StructField(each.name, each.dataType, True))
    return StructType(list(fields.values()))


def combined(made: Made) -> DataFrame:
    """Return the matches; of totals, what the tasks' parts of them are together."""
    bound = made.bounds[0]
    if bound.query.totals is None:
        return made.rows
    groups = group_names(bound)
    if groups:
        together = made.rows.repartition(*(column((name,)) for name in groups))
        names = partial_schema(bound).names
        return mapped(together, CombineTask(bound, nested=False), made.schema, names)
    listed = made.rows.agg(expr("collect_list(struct(*)) AS parts"))  # a row also where there is nothing
    return mapped(listed, CombineTask(bound, nested=True), made.schema)


# ---- what Spark tells


def _estimated(events: DataFrame) -> Estimate:
    """Return how large Spark expects a DataFrame to be; it does not always say."""
    frame = getattr(events, "_jdf", None)
    if frame is None:
        return Estimate()
    with told():
        known = frame.queryExecution().optimizedPlan().stats()
    size, rows = int(str(known.sizeInBytes())), known.rowCount()
    return Estimate(
        size if size < UNKNOWN_BYTES else None, int(str(rows.get())) if rows.isDefined() else None
    )
