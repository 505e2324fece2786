"""The verbs of streams on Spark: `watch` runs queries over a streaming DataFrame, `watched` reports on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import replace as with_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cerise.engines.base import Options
from cerise.errors import BindError, UnsupportedError
from cerise.events import Schema
from cerise.run.question import Questions
from cerise.sources import Columns, How, Params, Roles, is_spark, is_sql, to_names
from cerise.stream_queries import (
    ControlBinder,
    Extent,
    QuerySet,
    bind_queries,
    check_on_error,
    clause_binder,
    name_queries,
    open_history,
    time_rules,
)
from cerise.streaming.limits.state_limits import UNLIMITED, StateLimits
from cerise.streaming.live_query import check_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cerise.spark.stream_plan import StreamPlan
    from cerise.spark.watched import Watched


def watch(
    stream: DataFrame | Mapping[str, DataFrame],
    queries: Any,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    delay: Extent | Mapping[str, Extent] | None = None,
    idle: Extent | None = None,
    ahead: Extent | None = None,
    late: str | None = None,
    state: str | None = None,
    buckets: int | None = None,
    limits: StateLimits | None = None,
    history: Any = None,
    replay: bool = False,
    unbounded: bool = False,
    on_skip: str = "error",
    on_error: str = "error",
    replace: Iterable[str] = (),
    options: Options | None = None,
    dialect: str = "standard",
) -> DataFrame:
    """Watch a stream for the matches of queries: a streaming DataFrame in, a streaming DataFrame out.

    A match is given once it is final: its last event, and every event that could still veto it, is before
    the watermark, which is the latest time seen less the delay. The answer is that of `find` over the same
    events, less the late ones, exactly once, after any restart from the checkpoint.

    Args:
        stream: a streaming DataFrame, or several by name. Without a type column, the events of several
            sources have their source's name as type.
        queries: one query of either language, a list, or a dict of queries by name. The state of a query is
            kept under its name. Or a streaming DataFrame with columns `op` ("add", "remove"), `name`, `query`
            and, if wanted, `params` (JSON) and `at` (a time): queries come and go while the stream runs. Or
            the path of a folder of `.cer` and `.sql` files, whose changes are followed. Matches of such
            queries have one shape: the events by variable in a map, and the columns of RETURN as JSON.
        time: the column that says when an event happened. SQL says it by ORDER BY.
        type: the column that holds the event's type, if a pattern names types.
        key: columns that partition the events, as PARTITION BY in the query.
        order: columns that break ties between events of equal time.
        params: values for the queries' `:name` parameters.
        delay: how much later than the latest event an event may come: "10 seconds", or a number in the units
            of an integer time column; one for all sources, or a dict. By default, that of `withWatermark`.
        idle: how long a source may be silent before the others no longer wait for it. With it a batch runs
            every second, also without events.
        ahead: how far in the future an event may lie; a later one is set aside and moves no watermark.
        late: a folder for the events that are set aside, as Parquet files; without it, they are counted.
        state: a folder for the state, which all workers can read and write. By default, Spark's own state
            store keeps the state in the checkpoint.
        buckets: how many buckets the keys are divided into; as many as tasks run at once, by default.
        limits: how much each bucket may keep, and what to do when it would keep more; see `StateLimits`.
        history: the events before the first of the stream: a path or a `Store`. The stream goes on where it
            ends: matches may begin in it, and events of the stream before its end are set aside.
        replay: whether matches that end in the history are given, too.
        unbounded: whether queries without WITHIN are allowed, whose state may grow for ever.
        on_skip: "past_last_row" lets a stream of SQL go on where AFTER MATCH SKIP TO has no target, and
            counts such matches; by default, that is an error.
        on_error: "null" makes a value of RETURN that cannot be computed, such as a division by zero, null,
            and counts it; by default, that is an error. Spark computes the MEASURES of SQL that stands alone:
            write `try_divide` and the like there.
        replace: the names of queries whose meaning has changed since the checkpoint, and whose state is
            dropped.
        options: how to run; see `Options`.
        dialect: whose defaults SQL has, as in `sql`.

    Returns:
        A streaming DataFrame with the columns of `find`.

    Raises:
        ParseError, BindError: a query is wrong, or does not fit the events.
        UnsupportedError: a query cannot run on a stream; the error says why, and what to write.
    """
    roles, how = Roles(time, type, key, order, params), How(options or Options(), dialect=dialect)
    plan = plan_stream(stream, queries, roles, how, Waiting(delay, idle, ahead), unbounded=unbounded)
    check_on_error(on_error, plan.queries)
    from cerise.spark.stream_plan import build, choose_buckets

    if history is not None:
        plan = with_fields(
            plan, history=open_history(history, Schema(plan.columns, plan.time), replay=replay)
        )
    return build(
        with_fields(
            plan, state=state, late=late, limits=limits or UNLIMITED, on_skip=on_skip, on_error=on_error,
            replaced=frozenset(replace), buckets=choose_buckets(plan.spark, buckets),
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long a stream waits for events, as the caller of `watch` says it."""

    delay: Any = None
    idle: Any = None
    ahead: Any = None


def plan_stream(
    stream: Any, queries: Any, roles: Roles, how: How, waiting: Waiting, *, unbounded: bool
) -> StreamPlan:
    """Bind queries to a stream; return the plan that `build` makes a DataFrame of."""
    if not isinstance(stream, Mapping) and not is_spark(stream):
        raise UnsupportedError(
            f"a {stream.__class__.__name__} is not a streaming DataFrame",
            hint="cerise.Watcher takes tables in this process, without Spark",
        )
    from cerise.spark.stream_plan import StreamPlan, as_frames, find_delays, stream_columns, unite_sources

    frames, type_column = unite_sources(stream, roles.type)
    columns, roles = stream_columns(frames), with_fields(roles, type=type_column)
    if is_changing(queries):
        return _plan_control(frames, columns, queries, roles, how, waiting, unbounded=unbounded)
    found = _bind(queries, frames, columns, roles, how)
    for each in found.queries:
        check_query(each.name, each.question, how.options, unbounded=unbounded)
        each.question.prepare(how.options)
    delay = find_delays(as_frames(stream), found.time) if waiting.delay is None else waiting.delay
    rules = time_rules(delay, waiting.idle, waiting.ahead, list(frames), _time_type(found, columns))
    return StreamPlan(frames, columns, found.queries, found.questions, found.time, rules, how.options, 1)


def is_changing(queries: Any) -> bool:
    """Whether queries come from a streaming DataFrame, or from a folder."""
    if not isinstance(queries, str | Path):
        return is_stream(queries)
    try:
        return Path(queries).is_dir()
    except OSError:  # the text of a query is too long for the name of a file
        return False


def _plan_control(
    frames: Mapping[str, Any],
    columns: pa.Schema,
    queries: Any,
    roles: Roles,
    how: How,
    waiting: Waiting,
    *,
    unbounded: bool,
) -> StreamPlan:
    """Return the plan of a stream whose queries come and go."""
    from cerise.spark.rule_folder import read_folder
    from cerise.spark.stream_plan import StreamPlan, find_delays

    if roles.time is None:
        raise BindError("no column says when an event happened", hint="name it: time='…'")
    shape = Schema(columns, roles.time, roles.type, to_names(roles.key), to_names(roles.order), arrival=False)
    delay = find_delays(frames, roles.time) if waiting.delay is None else waiting.delay
    time_type = columns.field(roles.time).type
    rules = time_rules(delay, waiting.idle, waiting.ahead, list(frames), time_type)
    spark = next(iter(frames.values())).sparkSession
    controls = read_folder(spark, str(queries)) if isinstance(queries, str | Path) else queries
    bind = ControlBinder(columns, roles, how.options, how.dialect, arrival=False, unbounded=unbounded)
    return StreamPlan(
        frames, columns, (), Questions((), None, None), roles.time, rules, how.options, 1,
        controls=controls, bind=bind, shape=shape,
    )  # fmt: skip


def _time_type(found: QuerySet, columns: pa.Schema) -> pa.DataType:
    if found.time in columns.names:
        return columns.field(found.time).type
    return found.queries[0].question.needs.columns.field(found.time).type


def _bind(queries: Any, frames: Mapping[str, Any], columns: pa.Schema, roles: Roles, how: How) -> QuerySet:
    """Bind queries; Spark computes the measures of a clause that stands alone, by its own rules."""
    alone = list(name_queries(queries).values())
    if len(alone) == 1 and is_sql(alone[0]):
        from cerise.spark.stream_plan import frame_binder

        bind_clause = frame_binder(next(iter(frames.values())), how.dialect, how.options)
    else:
        bind_clause = clause_binder(columns, how.dialect, how.options, arrival=False)
    return bind_queries(queries, columns, roles, bind_clause, arrival=False)


def explain_stream(stream: Any, queries: Any, roles: Roles, options: Options, dialect: str) -> str:
    """Say how queries would run over a stream: their meaning and engines, state, delay and buckets."""
    from cerise.kinds import kind_of
    from cerise.spark.stream_plan import as_frames, choose_buckets, find_delays, stream_columns, unite_sources
    from cerise.streaming.reports import explain

    frames, type_column = unite_sources(stream, roles.type)
    columns = stream_columns(frames)
    roles = with_fields(roles, type=type_column)
    found = _bind(queries, frames, columns, roles, How(options, dialect=dialect))
    time_type = _time_type(found, columns)
    given = find_delays(as_frames(stream), found.time)
    delays = None if given is None else time_rules(given, None, None, list(frames), time_type).delays
    buckets = choose_buckets(next(iter(frames.values())).sparkSession, None)
    setting = explain.StreamSetting(kind_of(time_type), delays, buckets, options.limits.clock_events, options)
    return explain.explain_stream(found.queries, setting)


def is_stream(events: Any) -> bool:
    """Whether events are a streaming DataFrame, or several by name."""
    frames = list(events.values()) if isinstance(events, Mapping) else [events]
    return bool(frames) and all(is_spark(each) and getattr(each, "isStreaming", False) for each in frames)


def watched(query: Any) -> Watched:
    """Report on a running stream: its watermark, the source that holds it back, state, late events, matches.

    Args:
        query: the StreamingQuery that `writeStream.start()` returned for the matches of `watch`.

    Returns:
        A value with the figures of the last batch: `watermark`, `lag`, `batch`, `status`, `error`, and
        `figures`, a dict of all; `print` shows it as a table.

    Raises:
        UnsupportedError: the value is not a streaming query, or one of others.

    Example:
        alerts = cerise.watch(stream, query, time="ts", type="kind", delay="10 seconds")
        running = alerts.writeStream.format("parquet").option("path", "alerts").start()
        print(cerise.watched(running))
        cerise.watched(running).figures["matches"]
    """
    from cerise.spark.watched import report_on

    return report_on(query)
