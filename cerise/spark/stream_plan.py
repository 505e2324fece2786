"""Streams on Spark: a streaming DataFrame of events becomes a streaming DataFrame of matches.

    source ─ select, where ─ cut ─┐
    source ─ select, where ─ cut ─┼─ by bucket ─ step (state) ─ observe ─ where ─ decode ─ measures
    heartbeat, if idle= is given ─┘

Events travel as Arrow blobs, one for each bucket of keys. There are about as many buckets as cores, never one
for each key.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from cerise.engines.base import Options
from cerise.errors import BindError, UnsupportedError
from cerise.events import Schema
from cerise.kinds import plain_schema
from cerise.plan.needs import any_filter
from cerise.plan.pushdown import as_sql
from cerise.run.question import Questions
from cerise.run.row_search import RowClause
from cerise.spark.exchange import NUMBERS, number_states
from cerise.spark.frames import LAKE, UTC, arrow_schema, as_written, column, quote_path
from cerise.spark.runner import answer_schema, compute_measures, partial_schema
from cerise.spark.session import parallelism
from cerise.spark.state_homes import check_state_store
from cerise.spark.stream_tasks import (
    BucketProcessor,
    ControlTask,
    FileStateTask,
    HeartbeatTask,
    LakeCutTask,
    StreamCutTask,
)
from cerise.spark.task_errors import install, map_batches
from cerise.streaming.bucket_plan import BindControl, BucketPlan
from cerise.streaming.entry import ONE_SOURCE, SOURCE
from cerise.streaming.generic_matches import generic_schema
from cerise.streaming.history import History
from cerise.streaming.limits.state_limits import UNLIMITED, StateLimits
from cerise.streaming.live_query import StreamQuery, check_query, hash_text
from cerise.streaming.query_groups import BLOBS, StreamCutter, StreamGroup, group_queries, needs_of
from cerise.streaming.state.bucket_task import MATCH, OUTPUT, PAYLOAD, BucketTask, decode
from cerise.streaming.watermark import TimeRules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from cerise.spark.kafka_stream import KafkaStream
    from cerise.spark.lake_stream import LakeStream

KEPT = "spark.sql.streaming.minBatchesToRetain"
STATE = "state"  # the column of the number that stands for a state in Spark's state store
OBSERVED = "cerise"  # the name of the figures in a streaming query's progress


@dataclass(frozen=True)
class StreamPlan:
    """A stream and the queries over it, ready to be made a DataFrame.

    Attributes:
        frames: the sources by name, each with the columns of the stream.
        columns: the columns of the stream.
        queries: the queries.
        questions: the same, with the columns that all their matches share.
        time: the time column.
        rules: how long the stream waits for events.
        options: how queries run.
        buckets: how many buckets the keys of a group are divided into.
        state: the folder of the state; None: Spark's own state store.
        late: the folder for events that are set aside; None: they are only counted.
        limits: how much a bucket may keep.
        on_skip: what to do if AFTER MATCH SKIP has no target.
        on_error: what to do if a value of RETURN or MEASURES cannot be computed.
        replaced: the names of queries whose saved state may be dropped.
        controls: a streaming DataFrame of changes, if queries come and go while the stream runs.
        bind: binds a query that comes.
        shape: the columns of the stream and the parts they play, if queries come and go.
        history: the events before the stream's first.
    """

    frames: Mapping[str, DataFrame]
    columns: pa.Schema
    queries: tuple[StreamQuery, ...]
    questions: Questions
    time: str
    rules: TimeRules
    options: Options
    buckets: int
    state: str | None = None
    late: str | None = None
    limits: StateLimits = UNLIMITED
    on_skip: str = "error"
    on_error: str = "error"
    replaced: frozenset[str] = frozenset()
    controls: DataFrame | None = None
    bind: BindControl | None = None
    shape: Schema | None = None
    history: History | None = None

    @property
    def spark(self) -> Any:
        return next(iter(self.frames.values())).sparkSession


def as_frames(given: Any) -> dict[str, DataFrame]:
    """Return streaming DataFrames by name, as the user gave them."""
    return dict(given) if isinstance(given, Mapping) else {ONE_SOURCE: given}


def unite_sources(given: Any, type_column: str | None) -> tuple[dict[str, DataFrame], str | None]:
    """Return streaming DataFrames by name, with the same columns; and the type column.

    Several sources without a type column get the column `source`, which is the type of their events.
    """
    frames = as_frames(given)
    if not frames:
        raise UnsupportedError("the dict of streams is empty", hint="give a streaming DataFrame")
    for name, frame in frames.items():
        if not getattr(frame, "isStreaming", False):
            raise UnsupportedError(
                f"source '{name}' is not a streaming DataFrame",
                hint="spark.readStream makes one; cerise.find searches a table that does not grow",
            )
    if len(frames) == 1:
        return frames, type_column
    if type_column is None:
        if any(SOURCE in frame.columns for frame in frames.values()):
            raise BindError(
                f"a column '{SOURCE}' would be the type of events, but a source has one",
                hint="name the type column: type='…'",
            )
        frames = {name: frame.withColumn(SOURCE, f.lit(name)) for name, frame in frames.items()}
        type_column = SOURCE
    empty = reduce(
        lambda one, other: one.unionByName(other, allowMissingColumns=True),
        (frame.where("false") for frame in frames.values()),
    )
    types = {each.name: each.dataType for each in empty.schema}
    return {name: _conform(frame, types) for name, frame in frames.items()}, type_column


def _conform(frame: DataFrame, types: Mapping[str, Any]) -> DataFrame:
    """Return a source with the columns of all sources; columns that it lacks are null."""
    known = {name: column((name,)) if name in frame.columns else f.lit(None) for name in types}
    return frame.select(*(known[name].cast(kind).alias(name) for name, kind in types.items()))


def stream_columns(frames: Mapping[str, DataFrame]) -> pa.Schema:
    """Return the columns of a stream as Arrow types."""
    return arrow_schema(next(iter(frames.values())), streams=True)


def find_delays(frames: Mapping[str, DataFrame], time: str) -> dict[str, Any] | None:
    """Return the delays that `withWatermark` has set on the time columns; None: a source has none."""
    delays: dict[str, Any] = {}
    for name, frame in frames.items():
        found = [each.metadata.get("spark.watermarkDelayMs") for each in frame.schema if each.name == time]
        if not found or found[0] is None:
            return None
        delays[name] = dt.timedelta(milliseconds=int(found[0]))
    return delays


def frame_binder(frame: DataFrame, dialect: str, options: Options) -> Callable[[str], RowClause]:
    """Return a function that binds SQL to a DataFrame; Spark computes columns and measures."""

    def bind_text(text: str) -> RowClause:
        from cerise.lang import match_recognize
        from cerise.spark.sql import bind_to_frame

        clause = match_recognize.parse_alone(text, dialect)
        return RowClause(bind_to_frame(clause, frame), options, atoms=True, host=True)

    return bind_text


def watch_clause(rows: DataFrame, question: RowClause, text: str, options: Options) -> DataFrame:
    """Return the rows of a clause over a streaming view, as a streaming DataFrame.

    Args:
        rows: the streaming DataFrame.
        question: the clause, bound to it.
        text: the text of the clause.
        options: how to run.
    """
    check_query("of MATCH_RECOGNIZE", question, options, unbounded=False)
    time = question.bound.order[0].column
    delays = find_delays({ONE_SOURCE: rows}, time)
    if delays is None:
        raise BindError(
            f"how late may events be? The stream has no watermark on '{time}'",
            hint=f'set one before the view: df.withWatermark("{time}", "10 seconds"); or use cerise.watch',
        )
    moved = {name: each // dt.timedelta(microseconds=1) for name, each in delays.items()}
    query = StreamQuery("1", question, hash_text((" ".join(text.split()), rows.schema.simpleString())))
    plan = StreamPlan(
        {ONE_SOURCE: rows}, arrow_schema(rows, streams=True), (query,), Questions((question,), None, None),
        time, TimeRules(moved), options, choose_buckets(rows.sparkSession, options.partitions),
    )  # fmt: skip
    return build(plan)


def choose_buckets(spark: Any, asked: int | None) -> int:
    """Return how many buckets the keys are divided into: as asked, or as many as tasks run at once."""
    return asked or parallelism(spark)


def build(plan: StreamPlan) -> DataFrame:
    """Return the matches of a stream as a streaming DataFrame."""
    install()
    groups = _groups(plan)
    keys = tuple(NUMBERS(groups[-1].first + groups[-1].buckets))
    blobs = _blobs(plan, groups, keys)
    plans = tuple(_bucket_plan(plan, each) for each in groups)
    task = BucketTask(groups, plans, plan.questions, keys, plan.late, plan.shape, plan.history)
    measured = _clause_with_measures(plan)
    columns = _match_columns(plan, measured)
    if plan.state:
        lists = replace(task, listed=plain_schema(to_arrow_schema(columns, **UTC)))
        matches = _observe(_step_in_files(plan, blobs, lists)).select(f.inline(PAYLOAD))
    else:
        matches = map_batches(_observe(_step_in_spark(plan, blobs, task)).select(PAYLOAD), decode, columns)
    return matches if measured is None else compute_measures(matches, measured.bound)


def _clause_with_measures(plan: StreamPlan) -> RowClause | None:
    """Return the only query, if it is a clause whose measures Spark computes."""
    first = plan.questions.each[0] if plan.shape is None and plan.questions.tags is None else None
    return first if isinstance(first, RowClause) and first.atoms else None


def _match_columns(plan: StreamPlan, measured: RowClause | None) -> StructType:
    """Return the columns of matches as the tasks give them."""
    if plan.shape is not None:
        return from_arrow_schema(generic_schema(plan.shape))
    events = next(iter(plan.frames.values())).schema
    return (answer_schema if measured is None else partial_schema)(plan.questions, events)


def _observe(stepped: DataFrame) -> DataFrame:
    """Return the rows of matches; the figures of reports go into the progress of the streaming query."""
    return stepped.observe(OBSERVED, *_metrics()).where(f.col("kind") == MATCH)


def _groups(plan: StreamPlan) -> tuple[StreamGroup, ...]:
    """Return the groups of queries; queries that come and go share one, by the key of the stream."""
    if plan.shape is None:
        return group_queries(plan.queries, plan.buckets)
    partition = tuple((name,) for name in plan.shape.key)
    return (StreamGroup((), partition, plan.buckets if partition else 1, 0, tuple(plan.columns.names)),)


def _bucket_plan(plan: StreamPlan, group: StreamGroup) -> BucketPlan:
    columns = pa.schema([each for each in _all_columns(plan) if each.name in {*group.names, plan.time}])
    return BucketPlan(
        group.queries, Schema(columns, plan.time), plan.rules, plan.options, plan.limits,
        counts_ties=True, bind=plan.bind, on_skip=plan.on_skip, on_error=plan.on_error,
        replaced=plan.replaced,
    )  # fmt: skip


def _all_columns(plan: StreamPlan) -> pa.Schema:
    """Return the columns of the stream, then those that Spark computes for clauses."""
    computed: dict[str, pa.Field] = {}
    for query in plan.queries:
        needs = needs_of(query)
        computed |= {
            name: needs.columns.field(name) for name in needs.computed if name in needs.columns.names
        }
    return pa.schema(
        [*plan.columns, *(each for each in computed.values() if each.name not in plan.columns.names)]
    )


def _blobs(plan: StreamPlan, groups: Sequence[StreamGroup], keys: tuple[int, ...]) -> DataFrame:
    """Return the blobs of all sources."""
    needed = {name for each in groups for name in each.names} | {plan.time}
    columns = pa.schema([each for each in _all_columns(plan) if plan.late or each.name in needed])
    parts = []
    for name, frame in plan.frames.items():
        cutter = StreamCutter(
            name, tuple(groups), Schema(columns, plan.time), plan.rules, keys, plan.options.limits
        )
        parts.append(_list_blobs(plan, frame, cutter))
    if plan.rules.idle is not None:
        beats = (
            plan.spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
        )
        now = beats.select(f.expr("unix_micros(current_timestamp())").alias("now"))
        parts.append(map_batches(now, HeartbeatTask(keys), from_arrow_schema(BLOBS)))
    if plan.controls is not None:
        rows = plan.controls.select(*_control_columns(plan))
        parts.append(map_batches(rows, ControlTask(keys), from_arrow_schema(BLOBS)))
    return reduce(lambda one, other: one.unionAll(other), parts)


def _list_blobs(plan: StreamPlan, frame: DataFrame, cutter: StreamCutter) -> DataFrame:
    """Return the blobs of one source; the tasks that read files or a topic cut them, and no row crosses."""
    lake: LakeStream | KafkaStream | None = vars(frame).get(LAKE)
    columns = cutter.roles.columns
    computed = {name for each in plan.queries for name in needs_of(each).computed}
    if lake is not None and not plan.rules.uses_now and not computed.intersection(columns.names):
        needed = replace(lake, columns=pa.schema([lake.columns.field(name) for name in columns.names]))
        return needed.frame(plan.spark, LakeCutTask(cutter), from_arrow_schema(BLOBS))
    rows = _hand_over(plan, frame, columns)
    return map_batches(rows, StreamCutTask(cutter, plan.rules.uses_now), from_arrow_schema(BLOBS))


def _control_columns(plan: StreamPlan) -> list[Any]:
    """Return the columns of a change of queries, as text and numbers.

    Raises:
        BindError: a column is missing.
    """
    assert plan.controls is not None
    known = {each.name: each.dataType.simpleString() for each in plan.controls.schema}
    for name in ("op", "name", "query"):
        if name not in known:
            raise BindError(
                f"the stream of queries has no column '{name}'",
                hint="its columns are op ('add', 'remove'), name, query, and if wanted params and at",
            )
    at = f.lit(None).cast("bigint")
    if "at" in known:
        at = f.expr("unix_micros(at)") if known["at"] == "timestamp" else f.col("at").cast("bigint")
    params = f.col("params").cast("string") if "params" in known else f.lit(None).cast("string")
    return [f.col("op"), f.col("name"), f.col("query"), params.alias("params"), at.alias("at")]


def _hand_over(plan: StreamPlan, frame: DataFrame, columns: pa.Schema) -> DataFrame:
    """Return the columns and rows that cross to Python; a pushed filter must not hide the time."""
    computed = {name: sql for each in plan.queries for name, sql in needs_of(each).computed.items()}
    wanted = any_filter([needs_of(each).filter for each in plan.queries]) if plan.queries else None
    if wanted is not None:
        paths = {test.path for tests in wanted for test in tests}
        sql = as_sql(wanted, {path: quote_path(path) for path in paths})
        time = f.expr(computed[plan.time]) if plan.time in computed else column((plan.time,))
        sampled = f.pmod(f.xxhash64(time), f.lit(plan.options.limits.clock_events)) == 0
        frame = frame.where(f.expr(as_written(plan.spark, sql)) | time.isNull() | sampled)
    chosen = [
        (f.expr(as_written(plan.spark, computed[name])) if name in computed else column((name,))).alias(
            f"c{i}"
        )
        for i, name in enumerate(columns.names)
    ]
    now = [f.expr("unix_micros(current_timestamp())").alias("now")] if plan.rules.uses_now else []
    return frame.select(*chosen, *now)


def _step_in_files(plan: StreamPlan, blobs: DataFrame, task: BucketTask) -> DataFrame:
    assert plan.state is not None
    kept = int(plan.spark.conf.get(KEPT, "100"))
    moved = blobs.repartition(len(task.keys), "bucket")
    return map_batches(moved, FileStateTask(task, plan.state, kept), from_arrow_schema(task.output))


def _step_in_spark(plan: StreamPlan, blobs: DataFrame, task: BucketTask) -> DataFrame:
    check_state_store(plan.spark, max(each.buckets for each in task.groups))
    numbers, place = number_states(plan.buckets), []
    for key in task.keys:  # the first buckets of all groups share a state, so do the second ones, and so on
        place += [f.lit(key), f.lit(numbers[task.keys.index(key) - task.group_of(key).first])]
    grouped = blobs.withColumn(STATE, f.create_map(*place)[f.col("bucket")]).groupBy(STATE)
    return grouped.transformWithState(
        BucketProcessor(task), from_arrow_schema(OUTPUT), outputMode="append", timeMode="none"
    )


def _metrics() -> list[Any]:
    """Return the figures of a batch, which Spark puts into the progress of the streaming query."""
    sums = ("events", "matches", "aside", "held", "state_bytes", "evicted")
    return [
        *(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in sums),
        f.max("watermark").alias("watermark"),
        f.to_json(f.collect_list("detail")).alias("buckets"),
    ]
