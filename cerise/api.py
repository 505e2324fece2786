"""The verbs, each a short pipeline: bind the query to the events, choose how, run. Read this first."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise.engines import nfa
from cerise.engines.base import Options
from cerise.engines.choose import choose, reasons
from cerise.engines.nfa.compressed import Compressed
from cerise.engines.run import absent_types, run
from cerise.errors import BindError, CeriseWarning, DataError, UnsupportedError
from cerise.events import EventBatch, Schema
from cerise.kinds import plain_schema, plain_table
from cerise.lang import sase
from cerise.lang.builder import Draft, Variable, seq
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Count, Query
from cerise.pattern.show import show as show_query
from cerise.plan.explain import describe

Columns = str | Sequence[str]
Params = Mapping[str, Any]


def find(
    events: Any,
    query: str | Query | Draft,
    *,
    time: str,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    engine: str | None = None,
    options: Options | None = None,
) -> Any:
    """Find the matches of a query in events.

    Args:
        events: a Spark DataFrame, or any table that speaks Arrow (pyarrow, pandas, Polars, DuckDB).
        query: SASE+ text, or a query written in Python.
        time: the column that says when an event happened: timestamp, date or integer.
        type: the column that says what kind of event it is, where the pattern names types.
        key: columns that partition the events, as PARTITION BY in the query.
        order: columns that break ties between events of equal time. Without them ties are broken by the
            order of the rows, or in a Spark DataFrame by the columns that the query reads.
        params: values for the query's `:name` parameters.
        engine: the engine to use; Cerise chooses by default.
        options: how to run; see `Options`.

    Returns:
        A lazy Spark DataFrame for a Spark DataFrame, else a pyarrow Table; `schema` tells its columns.

    Raises:
        ParseError, BindError: the query is wrong, or does not fit the events.
    """
    options = _options(options, engine)
    events = _settled(events)
    bound = bind(parse(query), _known(events, time, type, key, order), params)
    if _is_spark(events):
        from cerise.spark import batch

        _warn(bound.warnings, options)
        return batch.find(events, bound, options)
    if isinstance(events, pa.Schema):
        raise UnsupportedError("a schema has no events to find anything in", hint="give the table itself")
    _warn((*bound.warnings, *absent_types(bound, events)), options)
    return run(bound, events, options)


def compressed(
    events: Any,
    query: str | Query | Draft,
    *,
    time: str,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
) -> Compressed:
    """Find the matches of a query, and return them as the shared buffer that holds them.

    Where a Kleene variable under skip_till_any_match has exponentially many matches, this stays small: it
    counts them without spelling any, and spells them one by one when iterated over. Takes what `find`
    takes, in process only.

    Returns:
        A value with `count()`, `events` (a table) and an iterator of matches: for each variable the rows of
        `events` that it binds. It pickles.
    """
    events = _settled(events)
    if _is_spark(events) or isinstance(events, pa.Schema):
        raise UnsupportedError(
            "compressed matches are made in this process", hint="give an Arrow table, or use find"
        )
    bound = bind(parse(query), _known(events, time, type, key, order), params)
    options = _options(options, None)
    if bound.source is not None:
        events = run(bound.source, events, options)
    if isinstance(bound.query.returns, Count):
        raise UnsupportedError("RETURN COUNT(*) has no matches to compress", hint="leave RETURN out")
    engine = nfa.ENGINES["nfa-merge"]
    if (reason := engine.why_not(bound)) is not None:
        raise UnsupportedError(f"the matches cannot be compressed: {reason}", hint="use find")
    return engine.compress(bound, EventBatch.of(events, bound.schema, reads=bound.ties), options)


def schema(
    query: str | Query | Draft,
    events: Any,
    *,
    time: str,
    type: str | None = None,
    key: Columns = (),
    params: Params | None = None,
) -> Any:
    """Return the schema that the matches of a query will have, without running it.

    Args:
        query: SASE+ text, or a query written in Python.
        events: what `find` takes, or only its schema: a pyarrow Schema or a Spark StructType.
        time: as in `find`.
        type: as in `find`.
        key: as in `find`.
        params: as in `find`.

    Returns:
        A Spark StructType where events are Spark's, else a pyarrow Schema.
    """
    events = _settled(events)
    bound = bind(parse(query), _known(events, time, type, key), params)
    if _is_spark(events):
        from cerise.spark import frames

        return frames.result_schema(bound, events)
    return bound.output_schema


def explain(
    events: Any,
    query: str | Query | Draft,
    *,
    time: str,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    engine: str | None = None,
    options: Options | None = None,
) -> str:
    """Say how a query would be run: its branches, predicates, partitions, columns, engine and options.

    Takes what `find` takes, and runs nothing.
    """
    options = _options(options, engine)
    events = _settled(events)
    bound = bind(parse(query), _known(events, time, type, key, order), params)
    facts = {
        "runs": _where(bound, _is_spark(events)),
        "engine": f"{choose(bound, options).name} ({reasons(bound, options)})",
        **choose(bound, options).explain(bound),
        "options": ", ".join(f"{name}={getattr(options, name)}" for name in options.__slots__),
    }
    return describe(bound, facts)


def parse(query: str | Query | Draft) -> Query:
    """Return a query: text is parsed, one written in Python is finished, a Query is returned as it is."""
    match query:
        case Query():
            return query
        case Draft(finished):
            return finished
        case Variable():
            return seq(query).query
        case str():
            return sase.parse(query)
    raise UnsupportedError(f"a {query.__class__.__name__} is no query", hint="give SASE+ text, or seq(…)")


def show(query: str | Query | Draft) -> str:
    """Return the text of a query, one clause a line."""
    return show_query(parse(query))


def _warn(said: Sequence[str], options: Options) -> None:
    """Warn the caller of `find` of what is legal but probably not meant."""
    for warning in said:
        if options.strict:
            raise BindError(warning, hint="Options(strict=True) makes this warning an error")
        warnings.warn(warning, CeriseWarning, stacklevel=3)


def _where(bound: Bound, spark: bool) -> str:
    if not spark:
        return "in this process"
    return "on Spark, partitions in parallel" if bound.partition else "on Spark, all events in one task"


def _options(options: Options | None, engine: str | None) -> Options:
    options = options or Options()
    return replace(options, engine=engine) if engine is not None else options


def _names(columns: Columns | None) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns or ())


def _is_spark(events: Any) -> bool:
    """Whether events, or their schema, are Spark's; without importing Spark."""
    return any(base.__module__.startswith("pyspark.") for base in events.__class__.__mro__)


def _settled(events: Any) -> Any:
    """Return events in the form they are used in: Spark's as they are, all others as Arrow's.

    A schema in the place of events stays a schema: `schema` and `explain` need no more.
    """
    if _is_spark(events):
        return events
    return plain_schema(events) if isinstance(events, pa.Schema) else plain_table(_arrow(events))


def _known(
    events: Any, time: str, type: str | None, key: Columns | None, order: Columns | None = ()
) -> Schema:
    """Return what is known of settled events: their columns, and the parts that these play."""
    spark = _is_spark(events)
    if spark:
        from cerise.spark import frames

        columns = frames.arrow_schema(events)
    else:
        columns = events if isinstance(events, pa.Schema) else events.schema
    return Schema(columns, time, type, _names(key), _names(order), arrival=not spark)


def _arrow(events: Any) -> pa.Table:
    """Return a table as Arrow's, by the Arrow PyCapsule protocol where it is not Arrow's own."""
    if isinstance(events, pa.Table):
        return events
    if isinstance(events, str | Path):
        raise UnsupportedError(
            f"cannot read the path '{events}' yet",
            hint="read it first: spark.read.parquet(path), or pyarrow.parquet.read_table(path)",
        )
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    try:
        if events.__class__.__module__.startswith("pandas.") and hasattr(events, "columns"):
            return pa.Table.from_pandas(events, preserve_index=False)
        if hasattr(events, "__arrow_c_stream__"):
            return pa.table(events)
    except (pa.ArrowException, TypeError, ValueError) as error:
        name = events.__class__.__name__
        raise DataError(
            f"the {name} does not become an Arrow table: {error}", hint="mend or drop the column"
        ) from error
    raise UnsupportedError(
        f"cannot find patterns in a {events.__class__.__name__}",
        hint="give a Spark DataFrame, or a table that speaks Arrow: pyarrow, pandas, Polars, a DuckDB result",
    )
