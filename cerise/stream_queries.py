"""Queries and times of a stream, as users give them: names, both languages, delays as text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cerise.engines.base import Options
from cerise.errors import BindError, CeriseError, UnsupportedError
from cerise.events import Schema
from cerise.kinds import MOMENTS, Kind, kind_of
from cerise.lang.builder import Draft, Variable, window_of
from cerise.pattern.bind import bind
from cerise.pattern.query import Query, Unit
from cerise.pattern.show import show
from cerise.run.access import TableSource
from cerise.run.many.united_answers import union_schemas
from cerise.run.question import Questions
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.sources import FilesSource, How, Roles, StoreSource, is_spark, is_sql, parse, source_of, to_names
from cerise.streaming.entry import Control
from cerise.streaming.history import History
from cerise.streaming.live_query import StreamQuery, check_query, hash_text
from cerise.streaming.stages import StreamQuestion
from cerise.streaming.watermark import TimeRules

Extent = str | int | dt.timedelta
ON_ERROR = ("error", "null")  # what to do if a value of RETURN or MEASURES cannot be computed
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
BindClause = Callable[[str], RowClause]


@dataclass(frozen=True, slots=True)
class QuerySet:
    """The queries of a stream.

    Attributes:
        queries: the queries, by the names that their state is kept under.
        questions: the same, with the columns that all their matches share.
        time: the column that says when an event happened.
    """

    queries: tuple[StreamQuery, ...]
    questions: Questions
    time: str

    @property
    def needed_columns(self) -> set[str]:
        """The names of the columns that queries read or return."""
        return {name for each in self.queries for name in innermost(each.question).needs.columns.names}


def innermost(question: StreamQuestion) -> StreamQuestion:
    """Return the query that reads the stream itself, at the end of a chain of FROM."""
    inner = question.inner if isinstance(question, Sase) else None
    return question if inner is None else innermost(inner)


def bind_queries(
    given: Any, columns: pa.Schema, roles: Roles, bind_clause: BindClause, *, arrival: bool
) -> QuerySet:
    """Bind queries of either language to the columns of a stream.

    Args:
        given: one query, a list of queries, or queries by name.
        columns: the columns of the stream.
        roles: which column plays which part.
        bind_clause: binds SQL with one MATCH_RECOGNIZE clause.
        arrival: whether the order of arrival breaks ties.
    """
    named = name_queries(given)
    time = roles.time
    schema: Schema | None = None
    if time is not None:
        schema = Schema(
            columns, time, roles.type, to_names(roles.key), to_names(roles.order), arrival=arrival
        )
    found: list[StreamQuery] = []
    for name, query in named.items():
        try:
            question = bind_clause(query) if is_sql(query) else _bind_sase(query, schema, roles)
        except CeriseError as error:
            if len(named) > 1:
                error.add_note(f"in query {name}")
            raise
        time = _check_time(name, question, time)
        found.append(StreamQuery(name, question, _identify(query, question, roles)))
    assert time is not None
    return QuerySet(tuple(found), _unite(found), time)


@dataclass(frozen=True)
class ControlBinder:
    """Binds a query that is added while a stream runs; travels to tasks.

    Attributes:
        columns: the columns of the stream.
        roles: which column plays which part.
        options: how to run.
        dialect: whose defaults SQL has.
        arrival: whether the order of arrival breaks ties.
        unbounded: whether queries without WITHIN are allowed.
    """

    columns: pa.Schema
    roles: Roles
    options: Options
    dialect: str
    arrival: bool
    unbounded: bool

    def __call__(self, control: Control) -> StreamQuery:
        """Return the query of a control row.

        Raises:
            CeriseError: the query is wrong, or cannot run on a stream.
        """
        roles = replace(self.roles, params=control.params)
        sql = is_sql(control.query)
        bind_clause = clause_binder(self.columns, self.dialect, self.options, arrival=self.arrival)
        found = bind_queries(
            {control.name: control.query}, self.columns, roles, bind_clause, arrival=self.arrival
        )
        (query,) = found.queries
        if sql and not {(name,) for name in to_names(self.roles.key)} <= set(query.question.needs.partition):
            raise BindError(
                f"the clause does not say PARTITION BY {', '.join(to_names(self.roles.key))}",
                hint="events are divided by these columns",
            )
        check_query(query.name, query.question, self.options, unbounded=self.unbounded)
        query.question.prepare(self.options)
        return query


def name_queries(given: Any) -> dict[str, Any]:
    """Return queries by name: the name that the caller gave, the INTO name, or the number from 1."""
    if isinstance(given, Mapping):
        named = {str(name): query for name, query in given.items()}
    else:
        listed = [given] if isinstance(given, str | Query | Draft | Variable) else given
        if not isinstance(listed, Sequence):
            kind = listed.__class__.__name__
            raise UnsupportedError(f"a {kind} is not a query", hint="give text, a list, or {'name': query}")
        named = {}
        for number, query in enumerate(listed, 1):
            name = (None if is_sql(query) else parse(query).into) or str(number)
            if name in named:
                raise BindError(
                    f"two queries are named '{name}'", hint="give them different names after INTO"
                )
            named[name] = query
    if not named:
        raise UnsupportedError("the list of queries is empty", hint="give SASE+ text, or SQL")
    return named


def _bind_sase(query: Any, schema: Schema | None, roles: Roles) -> Sase:
    if schema is None:
        raise BindError(
            "no column says when an event happened", hint="name it: time='…'; only SQL says it by ORDER BY"
        )
    return Sase(bind(parse(query), schema, roles.params))


def _check_time(name: str, question: StreamQuestion, time: str | None) -> str:
    """Return the time column of a query, which all queries of a stream share."""
    if isinstance(question, Sase):
        assert time is not None
        return time
    own = question.bound.order[0].column if question.bound.order else None
    if own is None:
        raise UnsupportedError(f"query {name} has no ORDER BY", hint="order the rows by their time")
    if time is not None and own != time:
        raise BindError(
            f"query {name} orders rows by '{own}', but the time of the stream is '{time}'",
            hint=f"write ORDER BY {time} first",
        )
    return own


def _identify(query: Any, question: StreamQuestion, roles: Roles) -> str:
    """Return a hash of everything that a query's answer depends on, but not of how it is computed."""
    text = " ".join(query.split()) if is_sql(query) else show(parse(query))
    columns = [(each.name, str(each.type)) for each in innermost(question).needs.columns]
    given = sorted((roles.params or {}).items())
    parts = (text, given, roles.time, roles.type, to_names(roles.key), to_names(roles.order), columns)
    return hash_text(parts)


def _unite(queries: Sequence[StreamQuery]) -> Questions:
    questions = tuple(each.question for each in queries)
    if len(questions) == 1:
        return Questions(questions, None, None)
    names = tuple(each.name for each in queries)
    return Questions(questions, names, union_schemas([each.result for each in questions], names))


def open_history(given: Any, roles: Schema, *, replay: bool) -> History:
    """Return the events before a stream's first: a table, a path or a store.

    Raises:
        UnsupportedError: the events cannot be read in this process, or by tasks.
    """
    if is_spark(given):
        raise UnsupportedError(
            "history= is a DataFrame, which tasks cannot read", hint="write it to a path, and give the path"
        )
    source, _ = source_of(given, How())
    if isinstance(source, TableSource):
        return History.of_table(source.table, roles, replay=replay)
    assert isinstance(source, FilesSource | StoreSource)
    lake = source.lake if isinstance(source, FilesSource) else source.view.lake
    missing = [name for name in roles.columns.names if name not in lake.columns.names]
    if missing:
        raise BindError(
            f"column '{missing[0]}' is not in the history", hint="give events with the same columns"
        )
    return History.of_lake(lake, roles, replay=replay)


def check_on_error(on_error: str, queries: Sequence[StreamQuery] = ()) -> None:
    """Refuse an unknown `on_error`, and "null" where Spark computes the measures of a query.

    Raises:
        BindError: `on_error` is unknown.
        UnsupportedError: Spark computes measures, by its own rules.
    """
    if on_error not in ON_ERROR:
        raise BindError(f"on_error is {on_error!r}", hint='write on_error="error", or on_error="null"')
    for each in queries:
        if on_error == "null" and isinstance(each.question, RowClause) and each.question.host:
            raise UnsupportedError(
                f"on_error='null' has no effect on query {each.name}: Spark computes its MEASURES",
                hint="write functions that give null: try_divide(a, b), try_add(a, b), try_cast(a AS INT)",
            )


# ---- times


def time_rules(
    delay: Extent | Mapping[str, Extent] | None,
    idle: Extent | None,
    ahead: Extent | None,
    sources: Sequence[str],
    time_type: pa.DataType,
) -> TimeRules:
    """Return how long a stream waits for events, in the units of its time column.

    Args:
        delay: how late events may be: one extent, or one for each source.
        idle: how long a source may be silent before the others no longer wait for it.
        ahead: how far in the future events may lie.
        sources: the names of the sources.
        time_type: the type of the time column.
    """
    kind = kind_of(time_type)
    if delay is None:
        unit = "10 seconds" if kind in MOMENTS else "10"
        raise BindError(
            "how late may events be?", hint=f'say it: delay="{unit}"; 0 if they come in the order of time'
        )
    if isinstance(delay, Mapping):
        if unknown := set(delay) ^ set(sources):
            raise BindError(
                f"delay= and the sources differ in {', '.join(sorted(unknown))}",
                hint="give one delay for all, or one for each source",
            )
        delays = {name: parse_extent(delay[name], kind, "delay") for name in sources}
    else:
        delays = dict.fromkeys(sources, parse_extent(delay, kind, "delay"))
    for name, value in (("idle", idle), ("ahead", ahead)):
        if value is not None and kind not in MOMENTS:
            raise UnsupportedError(
                f"{name}= compares times with the clock, but the time column is {time_type}",
                hint=f"leave {name}= out, or use a timestamp",
            )
    return TimeRules(
        delays,
        None if idle is None else parse_extent(idle, kind, "idle"),
        None if ahead is None else parse_extent(ahead, kind, "ahead"),
    )


def parse_extent(value: Any, kind: Kind, name: str) -> int:
    """Return a duration in the units of the time column.

    >>> parse_extent("2 minutes", Kind.INSTANT, "delay")
    120000000
    """
    if not isinstance(value, str | int | dt.timedelta) or isinstance(value, bool):
        raise BindError(f"{name}={value!r} is not a duration", hint=f'write {name}="10 seconds"')
    window = window_of(value)
    size = int(str(window.size))
    timed = kind in MOMENTS
    if window.unit is Unit.EVENTS:
        raise BindError(f"{name}={value!r} counts events", hint=f'give a time: {name}="10 seconds"')
    if size and timed and window.unit is Unit.NUMBER:
        raise BindError(f"{name}={value!r} has no unit", hint=f'write {name}="{value} seconds"')
    if size and not timed and window.unit is Unit.TIME:
        raise BindError(
            f"{name}={value!r} is a duration, but the time column holds integers",
            hint="give a number in the units of the column",
        )
    return size


def parse_moment(value: Any, kind: Kind) -> int:
    """Return a moment as an integer: of an integer column the number, else microseconds since 1970."""
    if isinstance(value, dt.datetime):
        if kind not in MOMENTS:
            raise BindError(f"{value} is a moment, but the time column holds integers", hint="give a number")
        known = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (known - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BindError(f"{value!r} is not a time", hint="give a datetime, or an integer")
    return value


def clause_binder(columns: pa.Schema, dialect: str, options: Options, *, arrival: bool = True) -> BindClause:
    """Return a function that binds SQL to columns; this process computes the measures."""

    def bind_text(text: str) -> RowClause:
        from cerise.lang import match_recognize  # imports sqlglot

        bound = match_recognize.bind_rows(match_recognize.parse_alone(text, dialect), columns)
        return RowClause(replace(bound, arrival=arrival), options)

    return bind_text
