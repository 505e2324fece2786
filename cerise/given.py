"""What a verb was given: events of any kind and queries, bound to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise.engines.base import Options
from cerise.errors import BindError, DataError, UnsupportedError
from cerise.events import Schema
from cerise.kinds import plain_schema, plain_table
from cerise.lang import sase
from cerise.lang.builder import Draft, Variable, seq
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Query
from cerise.pattern.rows import BoundRows

Columns = str | Sequence[str]
Params = Mapping[str, Any]
AnyQuery = str | Query | Draft


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns play which part, and what parameters are worth."""

    time: str | None
    type: str | None = None
    key: Columns | None = ()
    order: Columns | None = ()
    params: Params | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """Events and queries that fit each other.

    Attributes:
        events: a pyarrow Table or Schema, a Spark DataFrame or StructType, or a Lake.
        bounds: the queries.
        options: how to run them.
        scan: why files are read by Spark, where they are.
    """

    events: Any
    bounds: tuple[Bound, ...]
    options: Options
    scan: str | None = None

    @classmethod
    def of(
        cls,
        events: Any,
        query: AnyQuery | Sequence[AnyQuery],
        roles: Roles,
        options: Options | None = None,
        engine: str | None = None,
        version: int | None = None,
    ) -> Given:
        """Settle events and bind queries to them."""
        options = options or Options()
        if engine is not None:
            options = replace(options, engine=engine)
        settled, scan = settle(events, version)
        queries = [query] if isinstance(query, str | Query | Draft | Variable) else query
        if not isinstance(queries, Sequence) or not queries:
            what = "an empty list" if isinstance(query, Sequence) else f"a {query.__class__.__name__}"
            raise UnsupportedError(f"{what} is no query", hint="give SASE+ text, seq(…), or a list of these")
        schema = _known(settled, roles)
        bounds = tuple(bind(parse(each), schema, roles.params) for each in queries)
        return cls(settled, bounds, options, scan)

    @property
    def on_spark(self) -> bool:
        """Whether Spark runs it."""
        return not isinstance(self.events, pa.Table | pa.Schema)


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Events and a MATCH_RECOGNIZE clause that fit each other; the rest as in `Given`."""

    events: Any
    bound: BoundRows
    options: Options

    @classmethod
    def of(
        cls,
        events: Any,
        text: str,
        options: Options | None,
        engine: str | None = None,
        version: int | None = None,
        dialect: str = "standard",
    ) -> GivenRows:
        """Settle events and bind the one clause of a statement to them."""
        options = options or Options()
        if engine is not None:
            options = replace(options, engine=engine)
        settled, _ = settle(events, version)
        reject_schema(settled)
        from cerise.lang import match_recognize  # brings sqlglot

        clause = match_recognize.parse_alone(text, dialect)
        if not is_spark(settled):
            try:
                bound = match_recognize.bind_rows(clause, _columns(settled))
            except UnsupportedError:
                if isinstance(settled, pa.Table):
                    raise
            else:
                if isinstance(settled, pa.Table) or not bound.derived:
                    return cls(settled, bound, options)
            from cerise.spark import frames

            settled = frames.read(str(events), version, "Spark computes some of its columns")
        from cerise.spark.sql import SparkHost

        bound = match_recognize.bind_rows(clause, _columns(settled), SparkHost(settled))
        return cls(settled, bound, options)


def is_sql(query: Any) -> bool:
    """Whether a query is SQL with MATCH_RECOGNIZE; its parser is only loaded for what could be."""
    if not isinstance(query, str) or "match_recognize" not in query.lower():
        return False
    from cerise.lang import match_recognize

    return match_recognize.mentions_match_recognize(query)


def reject_roles(roles: Roles) -> None:
    """Refuse what SQL says itself."""
    given = {"type": roles.type, "key": roles.key, "order": roles.order, "params": roles.params}
    for name, value in given.items():
        if value:
            raise UnsupportedError(
                f"{name}= has no meaning for MATCH_RECOGNIZE",
                hint="say it in PARTITION BY, ORDER BY or DEFINE",
            )


def parse(query: Any) -> Query:
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


def settle(events: Any, version: int | None = None) -> tuple[Any, str | None]:
    """Return events in the form they are used in, and why Spark reads them where they are a path.

    A schema in the place of events stays a schema: `schema` and `explain` need no more.
    """
    if isinstance(events, str | Path):
        return _at(str(events), version)
    if version is not None:
        raise UnsupportedError("only a Delta table has versions", hint="give its path")
    if is_spark(events):
        return events, None
    return (plain_schema(events) if isinstance(events, pa.Schema) else plain_table(_arrow(events))), None


def is_spark(events: Any) -> bool:
    """Whether events, or their schema, are Spark's; without importing Spark."""
    return any(base.__module__.startswith("pyspark.") for base in events.__class__.__mro__)


def _at(path: str, version: int | None) -> tuple[Any, str | None]:
    """Return the files at a path; as Spark reads them where Python cannot."""
    from cerise.store.lake import NotDirect, open_lake

    try:
        return open_lake(path, version), None
    except NotDirect as reason:
        from cerise.spark import frames

        return frames.read(path, version, str(reason)), str(reason)


def _columns(events: Any) -> pa.Schema:
    """Return the columns of settled events."""
    if is_spark(events):
        from cerise.spark import frames

        return frames.arrow_schema(events)
    if isinstance(events, pa.Schema):
        return events
    return events.schema if isinstance(events, pa.Table) else events.columns


def _known(events: Any, roles: Roles) -> Schema:
    """Return what is known of settled events: their columns, and the parts that these play."""
    columns, arrival = _columns(events), not is_spark(events)
    if roles.time is None:
        raise BindError(
            "no column says when an event happened", hint="name it: time='…'; only SQL says it by ORDER BY"
        )
    return Schema(columns, roles.time, roles.type, _names(roles.key), _names(roles.order), arrival=arrival)


def _names(columns: Columns | None) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns or ())


def _arrow(events: Any) -> pa.Table:
    """Return a table as Arrow's, by the Arrow PyCapsule protocol where it is not Arrow's own."""
    if isinstance(events, pa.Table):
        return events
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


def reject_schema(events: Any) -> None:
    """Refuse a schema in the place of events."""
    if isinstance(events, pa.Schema) or events.__class__.__name__ == "StructType":
        raise UnsupportedError("a schema has no events to find anything in", hint="give the table itself")


def one(given: Given) -> Bound:
    """Return the one query that a verb takes."""
    if len(given.bounds) != 1:
        raise BindError(f"{len(given.bounds)} queries where one is asked for", hint="give one query")
    return given.bounds[0]
