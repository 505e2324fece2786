"""Queries over a stream in this process: events come in as tables, final matches go out."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from cerise.engines.base import Options
from cerise.errors import BindError, DataError, PlanError, UnsupportedError, did_you_mean
from cerise.events import Schema
from cerise.kinds import kind_of, plain_schema, plain_table, to_arrow
from cerise.run.many.united_answers import Part, unite
from cerise.run.question import Questions, concat
from cerise.run.row_search import RowClause
from cerise.sources import Columns, Params, Roles, to_names
from cerise.stream_queries import (
    ControlBinder,
    Extent,
    QuerySet,
    bind_queries,
    check_on_error,
    clause_binder,
    open_history,
    parse_moment,
    time_rules,
)
from cerise.streaming.bucket import Bucket
from cerise.streaming.bucket_plan import BucketPlan, BucketStep, Found
from cerise.streaming.entry import ONE_SOURCE, Arrival, Control, MicroBatch, find_top
from cerise.streaming.generic_matches import generic_schema, to_generic
from cerise.streaming.limits.state_limits import UNLIMITED, StateLimits
from cerise.streaming.live_query import check_query


class Watcher:
    """Runs queries over a stream of events in this process, without Spark.

    Events come in tables, in any order within the delay. A match is given once it is final: its last event,
    and every event that could still veto it, is before the watermark. The answer is that of `cerise.find`
    over the same events, less the late ones.

    Args:
        queries: SASE+ text, SQL with MATCH_RECOGNIZE, or a query written in Python; a list of these; or a
            dict of queries by name.
        schema: the columns of the events: a pyarrow Schema, or a table.
        time: the column that says when an event happened. SQL says it by ORDER BY.
        type: the column that holds the event's type, if a pattern names types.
        key: columns that partition the events, as PARTITION BY in the query.
        order: columns that break ties between events of equal time; without them, the order of arrival.
        params: values for the queries' `:name` parameters.
        delay: how much later than the latest event so far an event may come: "10 seconds", a timedelta, or a
            number in the units of an integer time column. With several sources, a dict by their names.
        idle: how long a source may be silent before the others no longer wait for it.
        ahead: how far in the future an event may lie; a later one is set aside and moves no watermark.
        limits: how much may be kept, and what to do when it would be more; see `StateLimits`. After an error
            of a limit, load the last saved state, or begin afresh.
        history: events before the first of the stream: a table, a path or a `Store`. The stream goes on where
            it ends, and matches may begin in it.
        replay: whether matches that end in the history are given, too.
        changing: whether queries may be added and removed (`add`, `remove`). Matches of all queries then have
            one shape: the events by variable in a map, and the columns of RETURN as JSON.
        unbounded: whether queries without WITHIN are allowed, whose state may grow for ever.
        on_skip: "past_last_row" lets a stream of SQL go on where AFTER MATCH SKIP TO has no target, and
            counts such matches; by default, that is an error.
        on_error: "null" makes a value of RETURN or MEASURES that cannot be computed, such as a division by
            zero, null, and counts it; by default, that is an error.
        options: how to run; see `Options`.
        dialect: whose defaults SQL has, as in `cerise.sql`.

    Example:
        >>> events = pa.table({"t": [1, 3, 2], "kind": ["A", "C", "B"]})
        >>> watcher = Watcher("PATTERN SEQ(A a, B b) WITHIN 5", events, time="t", type="kind", delay=2)
        >>> watcher.feed(events).num_rows  # the watermark is 1: no event is before it
        0
        >>> watcher.advance(4)["last_time"].to_pylist()
        [2]
    """

    def __init__(
        self,
        queries: Any,
        schema: Any,
        *,
        time: str | None = None,
        type: str | None = None,
        key: Columns = (),
        order: Columns = (),
        params: Params | None = None,
        delay: Extent | Mapping[str, Extent] | None = None,
        idle: Extent | None = None,
        ahead: Extent | None = None,
        limits: StateLimits | None = None,
        history: Any = None,
        replay: bool = False,
        changing: bool = False,
        unbounded: bool = False,
        on_skip: str = "error",
        on_error: str = "error",
        options: Options | None = None,
        dialect: str = "standard",
    ) -> None:
        check_on_error(on_error)
        columns = plain_schema(schema if isinstance(schema, pa.Schema) else to_arrow(schema).schema)
        chosen = options or Options()
        roles = Roles(time, type, key, order, params)
        found = self._bind(queries, columns, roles, chosen, dialect, empty=changing)
        for each in found.queries:
            check_query(each.name, each.question, chosen, unbounded=unbounded)
            each.question.prepare(chosen)
        sources = list(delay) if isinstance(delay, Mapping) else [ONE_SOURCE]
        time_type = columns.field(found.time).type
        rules = time_rules(delay, idle, ahead, sources, time_type)
        needed = set(columns.names) if changing else {*found.needed_columns, found.time}
        read = Schema(pa.schema([each for each in columns if each.name in needed]), found.time)
        self._columns, self._questions, self._kind = columns, found.questions, kind_of(time_type)
        self._shape = replace(read, key=to_names(key)) if changing else None
        bind = ControlBinder(columns, roles, chosen, dialect, True, unbounded) if changing else None
        self._plan = BucketPlan(
            found.queries,
            read,
            rules,
            chosen,
            limits or UNLIMITED,
            bind=bind,
            on_skip=on_skip,
            on_error=on_error,
        )
        self._bucket = Bucket(self._plan)
        self._failed: PlanError | None = None  # a batch that was taken in part
        self._aside: list[pa.Table] = []
        self._before: list[Found] = []  # matches in the history, until the next call gives them
        if history is not None:
            past = open_history(history, read, replay=replay)
            _, before = self._bucket.begin(past.read(read, self._bucket.reach), past.cut)
            self._before = before if replay else []

    @staticmethod
    def _bind(
        queries: Any, columns: pa.Schema, roles: Roles, options: Options, dialect: str, *, empty: bool
    ) -> QuerySet:
        if empty and not queries:
            if roles.time is None:
                raise BindError("no column says when an event happened", hint="name it: time='…'")
            return QuerySet((), Questions((), (), None), roles.time)
        return bind_queries(queries, columns, roles, clause_binder(columns, dialect, options), arrival=True)

    def add(self, name: str, query: str, *, params: Params | None = None, at: Any = None) -> pa.Table:
        """Add a query while the stream runs; return the matches that are final already.

        Args:
            name: the name of the query.
            query: its text, in either language.
            params: values for its parameters.
            at: it takes events from this time on; by default, from the watermark on. Events before the
                watermark are gone: a time before it counts as the watermark.

        Raises:
            CeriseError: the query is wrong, cannot run on a stream, or its name is taken.
        """
        moment = None if at is None else parse_moment(at, self._kind)
        return self._change(Control(True, name, query, params, moment))

    def remove(self, name: str, *, at: Any = None) -> pa.Table:
        """Remove a query while the stream runs; return the matches that this makes final.

        Args:
            name: the name of the query.
            at: it takes events before this time; by default, those before the watermark.
        """
        return self._change(Control(False, name, at=None if at is None else parse_moment(at, self._kind)))

    def _change(self, control: Control) -> pa.Table:
        if self._shape is None:
            raise UnsupportedError(
                "the queries of this watcher are fixed", hint="say Watcher(…, changing=True)"
            )
        step = self._take(MicroBatch([], self._present(None), controls=[control]))
        if self._bucket.refused:
            raise BindError(self._bucket.refused[0])
        return self._tables(step.found)

    def feed(self, events: Any, *, source: str | None = None, now: int | None = None) -> pa.Table:
        """Take the next events; return the matches that become final.

        Args:
            events: a table that speaks Arrow, in any order within the delay.
            source: the name of their source, if there are several.
            now: the present in microseconds since 1970, for `idle` and `ahead`; by default, by the clock.
        """
        table = self._conform(plain_table(to_arrow(events)))
        name = self._source_name(source)
        now = self._present(now)
        top = find_top(table, self._plan.roles, self._plan.rules, now) if len(table) else None
        return self._step(MicroBatch([Arrival(name, top, table)], now))

    def advance(self, time: Any = None, *, now: int | None = None) -> pa.Table:
        """Move the watermark without events; return the matches that become final.

        Args:
            time: no event before this time will come: a datetime, or an integer as in the time column. None:
                only the clock has moved, which matters to `idle`.
            now: as in `feed`.
        """
        floor = None if time is None else parse_moment(time, self._kind)
        return self._step(MicroBatch([], self._present(now), floor))

    def flush(self) -> pa.Table:
        """End the stream; return the matches that become final by that."""
        self._check_sound()
        return self._tables([*self._take_before(), *self._bucket.flush()])

    @property
    def late(self) -> pa.Table | None:
        """The events that the last call set aside, with columns source, watermark and reason; None: none."""
        return pa.concat_tables(self._aside, promote_options="default") if self._aside else None

    @property
    def watermark(self) -> int:
        """The time before which no event is waited for, as an integer."""
        return self._bucket.watermark.time

    @property
    def figures(self) -> dict[str, Any]:
        """Counts since the stream began: events, matches and evictions by query, events held and aside."""
        return self._bucket.figures()

    def save(self) -> bytes:
        """Return the state, for `load` in another process.

        A state is of the queries by their names: a query that is new when it is loaded takes events from the
        watermark on, and the state of a query that is gone is dropped.
        """
        self._check_sound()
        return self._bucket.save()

    def load(self, state: bytes, *, replace: Iterable[str] = ()) -> None:
        """Go on from a saved state.

        Args:
            state: the bytes that `save` returned.
            replace: the names of queries whose meaning has changed, and whose saved state is dropped.

        Raises:
            StoreError: the state is damaged, or of a query with another meaning.
        """
        fresh = Bucket(self._plan.allow_replace(frozenset(replace)))
        fresh.load(state, "the saved state")
        self._bucket, self._failed = fresh, None

    def _take(self, batch: MicroBatch) -> BucketStep:
        """Take a batch; after one that a limit has ended, only a saved state is of use."""
        self._check_sound()
        try:
            return self._bucket.step(batch)
        except PlanError as error:
            self._failed = error
            raise

    def _check_sound(self) -> None:
        if self._failed is not None:
            raise PlanError(
                f"a batch was taken in part: {self._failed.problem}",
                hint="load the last saved state, or begin with a new Watcher",
            )

    def _step(self, batch: MicroBatch) -> pa.Table:
        step = self._take(batch)
        self._aside = step.aside
        return self._tables([*self._take_before(), *step.found])

    def _take_before(self) -> list[Found]:
        """Return the matches in the history, the first time that it is called."""
        before, self._before = self._before, []
        return before

    def _tables(self, found: Iterable[Found]) -> pa.Table:
        """Return matches with the columns that all queries share."""
        if self._shape is not None:
            generic = [to_generic(self._bucket.asked[name], table, self._shape) for name, table in found]
            return concat(generic, generic_schema(self._shape))
        names = [each.name for each in self._plan.queries]
        parts: list[Part] = []
        for name, table in found:
            number = names.index(name)
            question = self._questions.each[number]
            shown = question.finish([table]) if isinstance(question, RowClause) else table
            parts.append((number, shown))
        if self._questions.tags is None:
            return concat([table for _, table in parts], self._questions.result)
        return unite(parts, self._questions.tags, self._questions.result)

    def _conform(self, table: pa.Table) -> pa.Table:
        """Return events with the columns of the schema, in its types."""
        missing = [name for name in self._columns.names if name not in table.column_names]
        if missing:
            raise BindError(
                f"column '{missing[0]}' is not in the events",
                hint=did_you_mean(missing[0], table.column_names) or "give the columns of the schema",
            )
        try:
            return table.select(self._columns.names).cast(self._columns)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"the events do not fit the schema: {error}", hint="cast them first") from error

    def _source_name(self, source: str | None) -> str:
        delays = self._plan.rules.delays
        if source is None and len(delays) == 1:
            return next(iter(delays))
        if source is None or source not in delays:
            known = ", ".join(delays)
            raise BindError(f"source {source!r} has no delay", hint=f"the sources are {known}: source='…'")
        return source

    def _present(self, now: int | None) -> int | None:
        if not self._plan.rules.uses_now:
            return None
        return clock.time_ns() // 1_000 if now is None else now
