"""What a verb was given: events of any kind and queries, bound to each other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise.engines.base import Options
from cerise.errors import BindError, DataError, StoreError, UnsupportedError, refuse_surrogates
from cerise.events import Schema
from cerise.kinds import plain_schema, plain_table
from cerise.lang import sase
from cerise.lang.builder import Draft, Variable, seq
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound, held_in, of_types
from cerise.pattern.query import Query
from cerise.pattern.row_pattern import BoundRows

Columns = str | Sequence[str]
Params = Mapping[str, Any]
AnyQuery = str | Query | Draft
LOOKED_AT = 4_096  # rows of a DataFrame whose types are looked at


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
            raise UnsupportedError(
                f"{what} is not a query", hint="give SASE+ text, seq(…), or a list of these"
            )
        parsed = [parse(each) for each in queries]
        with _telling_of_the_index(events):
            schema = _known(settled, roles)
            bounds = tuple(bind(each, schema, roles.params) for each in parsed)
        return cls(settled, bounds, options, scan)

    @property
    def on_spark(self) -> bool:
        """Whether Spark runs it."""
        return not isinstance(self.events, pa.Table | pa.Schema)

    def warnings(self) -> list[str]:
        """Return warnings about queries that are legal and probably a mistake."""
        said = [text for bound in self.bounds for text in bound.warnings]
        return [*said, *of_types(self.bounds, partial(_values, self.events), asked=True)]


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
                with _telling_of_the_index(events):
                    bound = match_recognize.bind_rows(clause, _columns(settled))
            except UnsupportedError:
                if isinstance(settled, pa.Table):
                    raise
            else:
                if isinstance(settled, pa.Table) or not bound.derived:
                    return cls(settled, bound, options)
            from cerise.spark import frames

            settled = frames.read(str(events), version, "Spark computes some of its columns")
        from cerise.spark.sql import bound_to

        return cls(settled, bound_to(clause, settled), options)


def is_sql(query: Any) -> bool:
    """Whether a query is SQL with MATCH_RECOGNIZE; its parser is only loaded for what could be."""
    if not isinstance(query, str) or "match_recognize" not in query.lower():
        return False
    from cerise.lang import match_recognize

    return match_recognize.mentions_match_recognize(query)


def asks_sql(query: Any, roles: Roles, dialect: str) -> bool:
    """Whether a query is SQL.

    Raises:
        UnsupportedError: an argument has no meaning in the language of the query.
    """
    if is_sql(query):
        reject_roles(roles)
        return True
    if dialect != "standard":
        raise UnsupportedError(
            f"dialect={dialect!r} has no meaning for SASE+", hint="leave it out: it chooses defaults of SQL"
        )
    return False


def reject_roles(roles: Roles) -> None:
    """Refuse what SQL says itself."""
    for name, said in _SAID_BY_SQL.items():
        if getattr(roles, name):
            raise UnsupportedError(
                f"{name}= has no meaning for MATCH_RECOGNIZE", hint=f"leave it out: {said}"
            )


_SAID_BY_SQL = {
    "time": "ORDER BY says when a row happened",
    "type": "DEFINE compares the column: A AS kind = 'login'",
    "key": "PARTITION BY names the columns",
    "order": "ORDER BY names all columns that order rows",
    "params": "write the values into the statement",
}


def require_session(spark: Any) -> None:
    """Refuse any object but a Spark session: SQL looks for its tables there."""
    if callable(getattr(spark, "sql", None)) and is_spark(spark):
        return
    name = spark.__class__.__name__
    hint = "cerise.find(table, 'SELECT * FROM t MATCH_RECOGNIZE (…)') looks in one table without a session"
    if is_spark(spark):
        hint = f"df.createOrReplaceTempView('t'), then cerise.sql(df.sparkSession, '… FROM t …'); or {hint}"
    elif isinstance(spark, str):
        hint = "give the session first, then the statement: cerise.sql(spark, 'SELECT …')"
    raise UnsupportedError(f"cerise.sql looks for tables in a Spark session, not in a {name}", hint=hint)


def parse(query: Any) -> Query:
    """Return a query: text is parsed, one written in Python is finished, a Query is returned as it is."""
    match query:
        case Query():
            return query
        case Draft(finished):
            return finished
        case Variable():
            return seq(query).query
        case str() if _SQL.match(query):
            raise _not_alone(query)
        case str():
            return sase.parse(query)
    raise UnsupportedError(
        f"a {query.__class__.__name__} is not a query",
        hint="give SASE+ text, or seq(…); verbs take the events first, then the query",
    )


_SQL = re.compile(r"\s*(SELECT|WITH|FROM|VALUES|CREATE)\b", re.IGNORECASE)
_QUERY = re.compile(r"\s*(PATTERN\b|SELECT\s|WITH\s.*\bSELECT\s)", re.IGNORECASE | re.DOTALL)


def _not_alone(text: str) -> UnsupportedError:
    """Return the error for SQL that a verb cannot take: without a clause, or among other queries."""
    if is_sql(text):
        return UnsupportedError(
            "SQL stands where only SASE+ can", hint="ask it alone, by find, run, count, explain or schema"
        )
    return UnsupportedError(
        "the SQL has no MATCH_RECOGNIZE",
        hint="write SELECT * FROM t MATCH_RECOGNIZE (…), or a SASE+ query, PATTERN SEQ(…); "
        "cerise.sql(spark, …) runs any statement",
    )


def settle(events: Any, version: int | None = None) -> tuple[Any, str | None]:
    """Return events in the form they are used in, and why Spark reads them where they are a path.

    A schema in the place of events stays a schema: `schema` and `explain` need no more.
    """
    if isinstance(events, str) and _QUERY.match(events):
        raise UnsupportedError(
            "a query stands where events are expected",
            hint="find, run, count and explain take the events first, then the query; schema the query first",
        )
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
    from cerise.files.lake import NotDirect, open_lake

    refuse_surrogates(path, StoreError, "the path")
    try:
        return open_lake(path, version), None
    except StoreError as error:
        if not re.fullmatch(r"\w+(\.\w+){0,2}", path) or Path(path).exists():
            raise
        hint = f"{error.hint or 'is the path right?'} A table of Spark is spark.table({path!r})"
        raise StoreError(error.problem, hint=hint) from None
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


def _values(events: Any, column: str, names: Collection[str]) -> set[str]:
    """Return which of some names settled events have in a column of text; of a DataFrame, its first rows."""
    if isinstance(events, pa.Schema) or events.__class__.__name__ == "StructType":
        return set()
    if isinstance(events, pa.Table):
        return held_in(events.column(column), names)
    if is_spark(events):
        from cerise.spark import frames

        return set(names) & frames.first_values(events, column, LOOKED_AT)
    from cerise.files.column_values import held_values

    return held_values(events, column, names)


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
            return _untyped(events, pa.Table.from_pandas(events, preserve_index=False))
        if hasattr(events, "__arrow_c_stream__"):
            return pa.table(events)
    except (pa.ArrowException, TypeError, ValueError) as error:
        name = events.__class__.__name__
        raise DataError(
            f"the {name} does not become an Arrow table: {error}", hint="mend or drop the column"
        ) from error
    name = events.__class__.__name__
    raise UnsupportedError(f"cannot find patterns in a {name}", hint=_INSTEAD.get(name, _TABLES))


_TABLES = "give a Spark DataFrame, or a table that speaks Arrow: pyarrow, pandas, Polars, a DuckDB result"
_INSTEAD = {
    "Store": "a store finds by itself: store.find_local(query), or store.find(query) on Spark",
    "LazyFrame": "collect it first: frame.collect()",
    "SparkSession": "give one of its tables: spark.table('…'); cerise.sql(spark, …) takes SQL",
}


@contextmanager
def _telling_of_the_index(events: Any) -> Iterator[None]:
    """Say of a column that is not there, where it is the index of a pandas frame, how to make it one."""
    try:
        yield
    except BindError as error:
        index = getattr(events, "index", None)
        names = [f"'{name}'" for name in getattr(index, "names", ()) if name is not None]
        missing = "not in the events" in error.problem or "unknown column" in error.problem
        held = [name for name in names if name in error.problem]
        if not missing or not (held or (not names and type(index).__name__ == "DatetimeIndex")):
            raise
        hint = f"{held[0] if held else 'the time'} is the index of the DataFrame: give frame.reset_index()"
        raise type(error)(error.problem, span=error.span, text=error.text, hint=hint) from None


def _untyped(frame: Any, table: pa.Table) -> pa.Table:
    """Return a table whose columns have no types, where a pandas frame is empty and has none of its own."""
    if len(frame) or not all(str(each) in ("object", "float64") for each in frame.dtypes):
        return table
    return pa.table({name: pa.nulls(0) for name in table.column_names})


def reject_schema(events: Any) -> None:
    """Refuse a schema in the place of events."""
    if isinstance(events, pa.Schema) or events.__class__.__name__ == "StructType":
        raise UnsupportedError("a schema has no events to find anything in", hint="give the table itself")


def one(given: Given) -> Bound:
    """Return the one query that a verb takes."""
    if len(given.bounds) != 1:
        raise BindError(f"{len(given.bounds)} queries where one is asked for", hint="give one query")
    return given.bounds[0]
