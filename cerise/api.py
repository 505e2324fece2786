"""The verbs, each a short pipeline: bind the query to the events, plan, run. Read this first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines import nfa
from cerise.engines.base import Options
from cerise.engines.misses.miss_report import Misses
from cerise.engines.nfa.compressed import Compressed
from cerise.engines.rows.prepare import without_measures
from cerise.errors import UnsupportedError, did_you_mean, out_of_memory, warn
from cerise.events import EventBatch
from cerise.kinds import in_library, library_of
from cerise.pattern.query import Query
from cerise.run import find as flow
from cerise.run.access import TableSource
from cerise.run.explained import explain as plans
from cerise.run.explained.why_not import WhyNot
from cerise.run.find import HERE
from cerise.run.many.united_answers import list_counts
from cerise.run.question import Question, Questions
from cerise.run.report import Explanation, Found, Report
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.sources import (
    AnyQuery,
    Columns,
    EventView,
    How,
    Params,
    Queries,
    Request,
    Roles,
    SchemaSource,
    ask,
    count_query,
    is_list,
    is_sql,
    only,
    parse,
    parse_list,
    reject_roles,
    reject_schema,
)
from cerise.streams import explain_stream, is_stream

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

CHECKED_FIRST = 100_000  # events: the types of a larger table are checked only after a run without matches

__all__ = [
    "Found",
    "compressed",
    "count",
    "exists",
    "explain",
    "explain_misses",
    "find",
    "parse",
    "profile",
    "schema",
]


class Keywords(TypedDict, total=False):
    """The keywords that all verbs take; `find` explains them."""

    time: str | None
    type: str | None
    key: Columns
    order: Columns
    params: Params | None
    options: Options | None
    version: int | None
    dialect: str


@overload
def find(events: pd.DataFrame, query: Queries, **keywords: Unpack[Keywords]) -> pd.DataFrame: ...


@overload
def find(events: pl.DataFrame, query: Queries, **keywords: Unpack[Keywords]) -> pl.DataFrame: ...


@overload
def find(events: pl.LazyFrame, query: Queries, **keywords: Unpack[Keywords]) -> pl.LazyFrame: ...


@overload
def find(
    events: list[dict[str, Any]], query: Queries, **keywords: Unpack[Keywords]
) -> list[dict[str, Any]]: ...


@overload
def find(
    events: pa.Table | pa.RecordBatch | str | Path | EventView,
    query: Queries,
    *,
    spark: None = None,
    **keywords: Unpack[Keywords],
) -> pa.Table: ...


@overload
def find(
    events: str | Path | EventView,
    query: Queries,
    *,
    spark: SparkSession | bool,
    **keywords: Unpack[Keywords],
) -> DataFrame: ...


@overload
def find(events: DataFrame, query: Queries, **keywords: Unpack[Keywords]) -> DataFrame: ...


@overload
def find(
    events: Any,
    query: Queries,
    *,
    spark: SparkSession | bool | None = None,
    **keywords: Unpack[Keywords],
) -> Any: ...


def find(
    events: Any,
    query: Queries,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
    spark: Any = None,
) -> Any:
    """Find the matches of a query in events.

    Args:
        events: a table that speaks Arrow (pyarrow, pandas, Polars, DuckDB), or a list of dicts; a path to
            Parquet, CSV or JSON files or to a Delta table; a `Store`; or a Spark DataFrame.
        query: SASE+ text, or a query written in Python. Or a list of queries, answered in one pass: a column
            `query` tags each match with the query's INTO name, or its number from 1; of `{"name": query}`,
            with the name in the dict, whatever INTO says. Or SQL,
            `SELECT * FROM events MATCH_RECOGNIZE (…)`, which names time, keys and order itself.
        time: the column that says when an event happened: timestamp, date or integer. A store has settings
            for time, type, key and order: leave them out.
        type: the column that holds the event's type, if the pattern names types.
        key: columns that partition the events, as PARTITION BY in the query.
        order: columns that break ties between events of equal time. Without them, the order of the rows
            breaks ties; in a Spark DataFrame, a hash of the values that the query reads.
        params: values for the query's `:name` parameters.
        options: how to run, for example the engine; see `Options`.
        version: which version of a Delta table or store; the newest by default.
        dialect: whose defaults SQL has, as in `sql`.
        spark: a Spark session whose tasks read a path or a store; True: the running session, or a new one.
            By default this process reads them.

    Returns:
        A table of the kind of `events`: pandas, Polars, or a list of dicts; a lazy Spark DataFrame if
        `events` is one or `spark` is given; for any other source a pyarrow Table.

    Raises:
        ParseError, BindError: the query is wrong, or does not fit the events.
        StoreError: the files cannot be read.

    Example:
        >>> events = pa.table({"t": [1, 2, 3], "kind": ["A", "B", "B"]})
        >>> found = find(events, "PATTERN SEQ(A a, B b) WITHIN 5", time="t", type="kind")
        >>> found["last_time"].to_pylist()
        [2]
    """
    how = How(options or Options(), version, dialect, spark)
    found = _run(ask(events, query, Roles(time, type, key, order, params), how), noted=False).matches
    return in_library(found, library_of(events))


def profile(
    events: Any,
    query: Queries,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
    spark: Any = None,
) -> Found:
    """Find the matches of a query, and count the work that it takes. Takes the arguments of `find`.

    Returns:
        `matches`, as `find` returns them; and `report`, the figures. On Spark nothing has run yet: the first
        action on the matches fills the report.

    Example:
        >>> events = pa.table({"t": [1, 2, 3], "kind": ["A", "B", "B"]})
        >>> profile(events, "PATTERN SEQ(A a, B b)", time="t", type="kind").report.figures["matches"]
        1
    """
    how = How(options or Options(), version, dialect, spark)
    found = _run(ask(events, query, Roles(time, type, key, order, params), how), noted=True)
    return replace(found, matches=in_library(found.matches, library_of(events)))


def _run(request: Request, *, noted: bool) -> Found:
    reject_schema(request.source)
    request.warn()
    later = _warn_of_types(request)
    found = flow.find(request.source, request.questions, request.options, request.runner, noted=noted)
    if later and not found.report.figures.get("matches"):
        _warn_of_types(request, anyway=True)
    return found


def _warn_of_types(request: Request, *, anyway: bool = False) -> bool:
    """Warn of types that no event of a table has.

    Returns:
        Whether the check is put off, because the table is large: repeat it with `anyway` if nothing matches.
    """
    if not isinstance(request.source, TableSource):
        return False
    table = request.source.table
    if len(table) > CHECKED_FIRST and not request.options.strict and not anyway:
        return True
    if absent := _absent(request, table):
        warn(absent, strict=request.options.strict)
    return False


def _absent(request: Request, table: pa.Table) -> list[str]:
    """Return a warning for each type of the patterns that no event has."""
    bounds = [each for each in request.bounds if each.schema.type is not None and each.source is None]
    if not bounds or not len(table):
        return []
    column = table.column(str(bounds[0].schema.type))
    types = sorted({str(each) for each in pc.unique(column).to_pylist() if each is not None})
    wanted = dict.fromkeys(type_ for bound in bounds for type_ in bound.required_types)
    absent = wanted.keys() - set(types)
    return [f"no event has type '{each}': {did_you_mean(each, types)}" for each in wanted if each in absent]


@overload
def count(events: Any, query: AnyQuery, *, spark: Any = None, **keywords: Unpack[Keywords]) -> int: ...


@overload
def count(
    events: Any,
    query: list[Any] | tuple[Any, ...] | Mapping[str, AnyQuery],
    *,
    spark: Any = None,
    **keywords: Unpack[Keywords],
) -> pa.Table: ...


def count(
    events: Any,
    query: Queries,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
    spark: Any = None,
) -> int | pa.Table:
    """Count the matches of a query without building them, as RETURN COUNT(*) does.

    Takes the arguments of `find`. The count is exact, however large. For SQL it is the number of result rows.

    Returns:
        An int; of a list of queries, or of `{"name": query}`, a pyarrow Table with the columns `query`, the
        name, and `count`, an int64, in the order of the list.

    Raises:
        DataError: a query of several has more matches than 64 bits hold; alone it can be counted.

    Example:
        >>> events = pa.table({"t": range(200), "kind": ["A"] * 200})
        >>> count(events, "PATTERN SEQ(A+ a[]) USE skip_till_any_match", time="t", type="kind") == 2**200 - 1
        True
        >>> pairs = {"up": "PATTERN SEQ(A a, A b) WITHIN 1", "late": "PATTERN A a WHERE a.t > 195"}
        >>> count(events, pairs, time="t", type="kind")["count"].to_pylist()
        [199, 4]
    """
    how = How(options or Options(), version, dialect, spark)
    roles = Roles(time, type, key, order, params)
    if is_sql(query):
        request = ask(events, query, roles, how)
        counting = Questions.of([_without_columns(only(request))])
        found = _run(replace(request, questions=counting), noted=False).matches
        return len(found) if isinstance(found, pa.Table) else int(found.count())
    if is_list(query):
        tags, found = _count(ask(events, count_queries(query), roles, how))
        return list_counts(found, tags)
    request = ask(events, query, roles, how, counts=True)
    only(request)
    return int(Decimal(_count(request)[1].column(0)[0].as_py()))


def _count(request: Request) -> tuple[tuple[str, ...], pa.Table]:
    """Count; return the names of several queries, and the counts as text."""
    reject_schema(request.source)
    request.warn()
    later = _warn_of_types(request)
    table = flow.collect(request.source, request.questions, request.options, request.runner)
    if later and set(table["count"].to_pylist()) == {"0"}:
        _warn_of_types(request, anyway=True)
    return request.questions.tags or (), table


def exists(
    events: Any,
    query: AnyQuery,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
    spark: Any = None,
) -> bool:
    """Tell whether a query has a match; stops reading events when there is one.

    Takes the arguments of `find`, and one query. RETURN and MEASURES are not computed; a query whose RETURN
    has totals is asked for the matches that it adds up.

    Returns:
        Whether there is a match; for SQL, whether the clause gives a row.

    Example:
        >>> events = pa.table({"t": [1, 2, 3], "kind": ["A", "B", "B"]})
        >>> exists(events, "PATTERN SEQ(B a, A b)", time="t", type="kind")
        False
    """
    how = How(options or Options(), version, dialect, spark)
    plain = query if is_sql(query) or is_list(query) else replace(parse(query), returns=())
    request = ask(events, plain, Roles(time, type, key, order, params), how)
    question = _without_columns(only(request))
    reject_schema(request.source)
    request.warn()
    few = replace(request.options, limits=replace(request.options.limits, row_matches=1))
    try:
        source, asked = flow.resolve(request.source, Questions.of([question]), few, request.runner)
        found = request.runner.has_rows(flow.decide(source, asked, few, request.runner))
    except MemoryError as error:
        raise out_of_memory(error) from error
    if not found:
        _warn_of_types(request, anyway=True)
    return found


def _without_columns(question: Question) -> Question:
    """Return a clause whose result has as many rows, for counting; any other question as it is."""
    if not isinstance(question, RowClause):
        return question
    return replace(question, bound=without_measures(question.bound))


def count_queries(given: Any) -> list[Query] | dict[str, Query]:
    """Return queries that count the matches of others, in a list or by name."""
    _, parsed, names = parse_list(given)
    counting = [count_query(each) for each in parsed]
    return counting if names is None else dict(zip(names, counting, strict=True))


def compressed(
    events: Any,
    query: AnyQuery,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
) -> Compressed:
    """Find the matches of a query, and return them as the shared buffer that holds them.

    The buffer stays small even if a Kleene variable under skip_till_any_match has exponentially many
    matches: it counts them without spelling any, and spells them one by one in a loop. Takes the arguments
    of `find`; the events are an Arrow table.

    Returns:
        A value with `count()`, `events` (a table) and an iterator of matches: for each variable, the rows of
        `events` that it binds. It can be pickled.

    Example:
        >>> events = pa.table({"t": [1, 2, 3], "kind": ["A", "B", "B"]})
        >>> query = "PATTERN SEQ(A a, B+ b[]) USE skip_till_any_match"
        >>> compressed(events, query, time="t", type="kind").count()
        3
    """
    request = ask(events, query, Roles(time, type, key, order, params), How(options or Options()))
    question = only(request)
    if not isinstance(request.source, TableSource):
        raise UnsupportedError(
            "compressed matches need an Arrow table", hint="give an Arrow table, or use find"
        )
    if not isinstance(question, Sase):
        raise UnsupportedError("MATCH_RECOGNIZE has no compressed matches", hint="use find")
    request.warn()
    table, bound = request.source.table, question.bound
    if question.inner is not None:
        table = flow.find(request.source, Questions.of([question.inner]), request.options, HERE).matches
    if bound.query.totals is not None:
        raise UnsupportedError(
            "RETURN COUNT(*), or other totals, have no matches to compress", hint="leave RETURN out"
        )
    engine = nfa.ENGINES["nfa-merge"]
    if (reason := engine.why_not(bound)) is not None:
        raise UnsupportedError(f"the matches cannot be compressed: {reason}", hint="use find")
    try:
        return engine.compress(bound, EventBatch.of(table, bound.schema, reads=bound.ties), request.options)
    except MemoryError as error:
        raise out_of_memory(error) from error


def schema(
    events: Any,
    query: Queries,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
    spark: Any = None,
) -> Any:
    """Return the columns that the matches of a query will have, without running it.

    Takes the arguments of `find`. Instead of events, their schema is enough: a pyarrow Schema or a Spark
    StructType.

    Returns:
        A Spark StructType if Spark would run the query, else a pyarrow Schema.

    Example:
        >>> events = pa.schema({"t": pa.int64(), "kind": pa.string()})
        >>> schema(events, "PATTERN SEQ(A a, B b) RETURN b.t - a.t AS gap", time="t", type="kind").names
        ['match_id', 'first_time', 'last_time', 'gap']
    """
    how = How(options or Options(), version, dialect, spark)
    if isinstance(events, pa.Schema) and is_sql(query):
        events = events.empty_table()
    request = ask(events, query, Roles(time, type, key, order, params), how)
    on_spark = getattr(request.source, "spark", None)
    if request.runner is HERE and on_spark is None:
        return request.questions.result
    from cerise.spark import runner

    if isinstance(request.questions.each[0], RowClause):
        return flow.find(request.source, request.questions, request.options, request.runner).matches.schema
    return runner.answer_schema(request.questions, on_spark or runner.spark_columns(request.source))


def explain(
    events: Any,
    query: Queries,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
    spark: Any = None,
    only: str | None = None,
    report: Report | None = None,
) -> str:
    """Say how a query would run: its meaning, its engine, where it runs, which events it reads and exchanges.

    Takes the arguments of `find`, and runs nothing; it reads only the footers of files, and for a list of
    queries a row group. Of a list it says which queries share a plan of joins, and the sub-patterns whose
    sharing saves most; `only` names the one query of the list to explain, and with the `report` of a run its
    tree shows how many rows each join made. Of a streaming DataFrame, or several by name, it says how
    `watch` would run: when a match is final, how far the state can grow, and what the stream waits for.

    Example:
        >>> events = pa.table({"t": [1, 2, 3], "kind": ["A", "B", "B"]})
        >>> print(explain(events, "PATTERN SEQ(A a, B b)", time="t", type="kind").splitlines()[0])
          PATTERN SEQ(A a, B b)
    """
    how = How(options or Options(), version, dialect, spark)
    roles = Roles(time, type, key, order, params)
    if is_stream(events):
        if version is not None:
            raise UnsupportedError("a stream has no versions", hint="leave version= out")
        if only is not None or report is not None:
            raise UnsupportedError(
                "only= and report= explain lists of queries in batch", hint="leave them out"
            )
        return Explanation(explain_stream(events, query, roles, how.options, dialect))
    request = ask(events, query, roles, how)
    if report is not None and request.questions.tags is None:
        raise UnsupportedError("report= shows the rows of joins of a list of queries", hint="leave it out")
    return Explanation("\n\n".join(_explain(request, request.questions, only, report)))


def _explain(
    request: Request, questions: Questions, only: str | None = None, report: Report | None = None
) -> Iterator[str]:
    """Explain questions over a source; of FROM the query that reads the source comes first."""
    inner, here = questions.each[0].inner, request.runner is HERE
    if inner is not None:
        yield from _explain(request, Questions.of([inner]))
    planless = SchemaSource if questions.tags else SchemaSource | TableSource
    if inner is not None or isinstance(request.source, planless):
        yield plans.explain(questions, request.options, None, here=here)  # a table in memory needs no plan
        return
    found = flow.decide_all(request.source, questions, request.options, request.runner)
    if questions.tags is None and only is None:
        yield plans.explain(questions, request.options, found[0].plan, here=here)
    else:
        yield plans.explain_list(questions, request.options, found, here=here, only=only, report=report)


def explain_misses(
    events: Any,
    query: AnyQuery,
    *,
    where: str | None = None,
    limit: int | None = None,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
    spark: Any = None,
) -> Misses:
    """Say why events start no match: how far the search got from each event, and why it stopped there.

    Takes the arguments of `find`; or a Spark session and an SQL statement with one MATCH_RECOGNIZE clause.

    Args:
        events: as in `find`.
        query: one query.
        where: an SQL predicate over columns that chooses the events to explain. By default, all events
            outside every match; for SASE+, all of these that could be the first event of a match.
        limit: how many events to explain at most; without a limit, more than 1,000 are an error.
        time: as in `find`.
        type: as in `find`.
        key: as in `find`.
        order: as in `find`.
        params: as in `find`.
        options: how to run; `max_steps` bounds the search from one event.
        version: as in `find`.
        dialect: as in `find`.
        spark: as in `find`.

    Returns:
        A value whose `table` has one row for each event, as a pyarrow Table or a lazy Spark DataFrame;
        `print` shows it as text.

    Raises:
        PlanError: too many events are to be explained; the error says how to ask for fewer.

    Example:
        >>> events = pa.table({"t": [1, 9], "kind": ["A", "B"]})
        >>> misses = explain_misses(events, "PATTERN SEQ(A a, B b) WITHIN 5", time="t", type="kind")
        >>> misses.table["because"].to_pylist()
        ['window']
    """
    how = How(options or Options(), version, dialect, spark)
    roles = Roles(time, type, key, order, params)
    if events.__class__.__name__ == "SparkSession":
        reject_roles(roles)
        from cerise.spark.sql import ask_clause

        source, clause, runner = ask_clause(events, str(query), dialect, how.options)
        request = Request(source, Questions.of([clause]), runner, how.options)
    else:
        request = ask(events, query, roles, how)
    question = only(request)
    reject_schema(request.source)
    request.warn()
    assert isinstance(question, Sase | RowClause)
    on_spark = request.runner is not HERE
    searched = request.source
    if on_spark:
        from cerise.spark.sql import check_predicate, frame_source

        searched = frame_source(request.source, events, how.version)
        check_predicate(searched, where)
    misses = WhyNot(question, searched.columns, where, limit, request.options, host=on_spark)
    found = flow.find(searched, Questions.of([misses]), request.options, request.runner, noted=False).matches
    if on_spark and limit is not None:
        found = found.limit(limit)
    return Misses(found, misses.start_names)
