"""Sources of events, and queries bound to them: the arguments of a verb, ready to run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow as pa

from cerise.engines.base import Options
from cerise.errors import BindError, StoreError, UnsupportedError, refuse_surrogates, warn
from cerise.events import Schema
from cerise.kinds import plain_schema, plain_table, to_arrow
from cerise.lang import sase
from cerise.lang.builder import Draft, Variable, seq
from cerise.pattern.bind import bind, share_params
from cerise.pattern.bound import Bound, find_type_mistakes, names_in_column
from cerise.pattern.query import Query, Total, Totals
from cerise.run.access import TableSource
from cerise.run.find import HERE, Runner, Source
from cerise.run.many.query_names import check_names, name_errors, show_name, split_names
from cerise.run.question import Question, Questions
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase

Columns = str | Sequence[str]
Params = Mapping[str, Any]
AnyQuery = str | Query | Draft
Queries = AnyQuery | Sequence[AnyQuery] | Mapping[str, AnyQuery]
CACHED = 256  # bound texts that stay in memory
SAMPLED_ROWS = 4_096  # rows of a DataFrame in which a warning looks for types


class EventView(Protocol):
    """The part of a store that verbs use."""

    filtering: Any

    def view_of(self, version: int | None) -> Any:
        """Return the view of a version, which queries read."""
        ...


@dataclass(frozen=True, slots=True)
class Roles:
    """Which column plays which part, and the values of parameters."""

    time: str | None = None
    type: str | None = None
    key: Columns | None = ()
    order: Columns | None = ()
    params: Params | None = None


@dataclass(frozen=True, slots=True)
class How:
    """How a verb runs: its options, the version of a table, the dialect of SQL, and the Spark session."""

    options: Options = Options()
    version: int | None = None
    dialect: str = "standard"
    spark: Any = None


@dataclass(frozen=True, slots=True)
class Request:
    """Questions over a source, and the runner that answers them.

    Attributes:
        source: where events come from.
        questions: the questions.
        runner: this process, or Spark.
        options: how to run.
    """

    source: Source
    questions: Questions
    runner: Runner
    options: Options

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return tuple(each.bound for each in self.questions.each if isinstance(each, Sase))

    def warn(self) -> None:
        """Warn of queries that are legal, but probably a mistake."""
        texts = [text for number in range(len(self.questions.each)) for text in self._warnings(number)]
        if any(_reads_untyped(bound) for bound in self.bounds):
            given = not isinstance(self.source, StoreSource)
            texts += find_type_mistakes(
                self.bounds, lambda *names: values_in(self.source, *names), given=given
            )
        if texts:
            warn(texts, strict=self.options.strict)

    def _warnings(self, number: int) -> Iterator[str]:
        """Yield the warnings of a query; with its name, if there are several."""
        question, name = self.questions.each[number], self.questions.show_name(number)
        if isinstance(question, Sase):
            yield from (text if name is None else f"{name}: {text}" for text in question.bound.warnings)


def _reads_untyped(bound: Bound) -> bool:
    """Whether a variable binds events of any type; in a query over matches, a variable of the inner query."""
    return bool(bound.untyped) if bound.source is None else _reads_untyped(bound.source)


def ask(events: Any, query: Any, roles: Roles, how: How, *, counts: bool = False) -> Request:
    """Bind queries of either language to events of any kind; `counts`: to count the matches of one query."""
    source, runner = source_of(events, how, roles.time)
    if asks_sql(query, roles, how.dialect):
        source, question = _clause(events, source, runner, str(query), how)
        return Request(source, Questions.of([question]), runner, how.options)
    if is_list(query):
        questions = _bind_list(events, source, query, roles)
        return Request(source, questions, runner, how.options)
    parsed = count_query(query) if counts else parse(query)
    with _hint_at_index(events):
        question = _bind(query, parsed, _schema(source, roles), roles.params, counts=counts)
    return Request(source, Questions.of([question]), runner, how.options)


def is_list(query: Any) -> bool:
    """Whether several queries are asked, in a list or by name, and not one."""
    return not isinstance(query, str | Query | Draft | Variable)


def parse_list(given: Any) -> tuple[list[Any], list[Query], tuple[str, ...] | None]:
    """Return the queries of a list, or of a dict by name: as given, parsed, and their names if there are any.

    Raises:
        ParseError, UnsupportedError: one is wrong; the error names it.
    """
    queries, names = split_names(given)
    parsed = []
    for number, each in enumerate(queries):
        with name_errors(show_name(str(number + 1) if names is None else names[number])):
            parsed.append(parse(each))
    return queries, parsed, names


def _bind_list(events: Any, source: Source, given: Any, roles: Roles) -> Questions:
    """Bind a list of queries, or queries by name; an error says the query that it is about."""
    queries, parsed, names = parse_list(given)
    tags = names or tuple(each.into or str(number) for number, each in enumerate(parsed, 1))
    check_names(tags)
    with _hint_at_index(events):
        schema = _schema(source, roles)
        params = share_params(roles.params or {}, parsed)
        questions = []
        for tag, each, query, values in zip(tags, queries, parsed, params, strict=True):
            with name_errors(show_name(tag)):
                cached = each if len(queries) <= CACHED else query
                questions.append(_bind(cached, query, schema, values))
    return Questions.of(questions, tags)


def count_query(query: Any) -> Query:
    """Return a query that counts the matches of another; as text, because counts have no upper bound."""
    return replace(parse(query), returns=Totals((Total("count", None, "count", text=True),)))


def _bind(given: Any, parsed: Query, schema: Schema, params: Params | None, *, counts: bool = False) -> Sase:
    """Bind a query; a text without parameters is bound once."""
    if isinstance(given, str) and not params:
        return _bind_text(given, schema, counts)
    return Sase(bind(parsed, schema, params))


@lru_cache(maxsize=CACHED)
def _bind_text(query: str, schema: Schema, counts: bool) -> Sase:
    return Sase(bind(count_query(query) if counts else parse(query), schema))


@lru_cache(maxsize=CACHED)
def _bind_clause(statement: str, dialect: str, columns: pa.Schema, options: Options) -> RowClause:
    from cerise.lang import match_recognize  # imports sqlglot

    return RowClause(
        match_recognize.bind_rows(match_recognize.parse_alone(statement, dialect), columns), options
    )


def _clause(events: Any, source: Source, runner: Runner, text: str, how: How) -> tuple[Source, Question]:
    """Bind a statement's only clause to a source.

    Files become a DataFrame if only Spark can compute a column that the clause derives.
    """
    reject_schema(source)
    if runner is HERE:
        with _hint_at_index(events):
            return source, _bind_clause(text, how.dialect, source.columns, how.options)
    from cerise.lang import match_recognize
    from cerise.spark.runner import FrameSource
    from cerise.spark.sql import bind_to_frame

    clause = match_recognize.parse_alone(text, how.dialect)
    if not isinstance(source, FrameSource):
        try:
            bound = match_recognize.bind_rows(clause, source.columns)
        except UnsupportedError:
            if not isinstance(source, FilesSource):
                raise
            bound = None
        if bound is not None and not (bound.derived and isinstance(source, FilesSource)):
            return source, RowClause(bound, how.options, atoms=True)
        from cerise.spark import frames

        frame = frames.read(str(events), how.version, "Spark computes some of its columns")
        source = FrameSource(frame)
    return source, RowClause(bind_to_frame(clause, source.frame), how.options, atoms=True, host=True)


def is_sql(query: Any) -> bool:
    """Whether a query is SQL with MATCH_RECOGNIZE. The parser is imported only if the text has that word."""
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


def reject_roles(roles: Roles, where: str = "MATCH_RECOGNIZE", reason: str | None = None) -> None:
    """Refuse roles that the query or the source gives itself."""
    for name, clause in _ROLES_IN_SQL.items():
        if getattr(roles, name):
            raise UnsupportedError(
                f"{name}= has no meaning for {where}", hint=f"leave it out: {reason or clause}"
            )


_ROLES_IN_SQL = {
    "time": "ORDER BY says when a row happened",
    "type": "DEFINE compares the column: A AS kind = 'login'",
    "key": "PARTITION BY names the columns",
    "order": "ORDER BY names all columns that order rows",
    "params": "write the values into the statement",
}


def require_session(spark: Any) -> None:
    """Refuse any object but a Spark session, in which SQL finds its tables."""
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
    """Return a query from text, from a draft or variable of `cerise.dsl`, or from a Query."""
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
    """Return the error for SQL without MATCH_RECOGNIZE, or in a list of queries."""
    if is_sql(text):
        return UnsupportedError(
            "SQL stands where only SASE+ can", hint="ask it alone, by find, profile, count, explain or schema"
        )
    return UnsupportedError(
        "the SQL has no MATCH_RECOGNIZE",
        hint="write SELECT * FROM t MATCH_RECOGNIZE (…), or a SASE+ query, PATTERN SEQ(…); "
        "cerise.sql(spark, …) runs any statement",
    )


# ---- sources


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """The columns of events, without the events: enough for `schema` and `explain`.

    Attributes:
        columns: the columns.
        spark: the StructType that the columns come from; None: they come from an Arrow schema.
    """

    columns: pa.Schema
    spark: Any = None

    def access(self, questions: Questions, options: Options) -> str:
        del questions, options
        raise UnsupportedError("a schema has no events to find anything in", hint="give the table itself")


@dataclass(frozen=True, slots=True)
class FilesSource:
    """Parquet files or a Delta table, read by tasks or threads."""

    lake: Any

    @property
    def columns(self) -> pa.Schema:
        schema: pa.Schema = self.lake.columns
        return schema

    def access(self, questions: Questions, options: Options) -> Any:
        from cerise.run.files_access import FilesAccess

        return FilesAccess.of(self.lake, questions.needs, options.limits)


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A version of an event store.

    Attributes:
        view: the view of the version.
        filtering: how filtering uses the index, for experiments.
    """

    view: Any
    filtering: Any = None

    @property
    def columns(self) -> pa.Schema:
        schema: pa.Schema = self.view.columns
        return schema

    def access(self, questions: Questions, options: Options) -> Any:
        from cerise.run.stores.store_access import StoreAccess

        return StoreAccess.of(self.view, questions, self.filtering, options.limits)


def source_of(events: Any, how: How, time: str | None = None) -> tuple[Source, Runner]:
    """Return events as a source, and the runner of questions over it; `time` is a column of times.

    A schema instead of events is a source without events, which is enough for `schema` and `explain`.
    """
    if isinstance(events, str) and _QUERY.match(events):
        raise UnsupportedError(
            "a query stands where events are expected", hint="verbs take the events first, then the query"
        )
    if hasattr(type(events), "view_of"):  # asks the class: a DataFrame reads any attribute as a column
        return StoreSource(events.view_of(how.version), events.filtering), _runner(how)
    if events.__class__.__name__ == "DeltaTable":
        version = events.version() if how.version is None else how.version
        how, events = replace(how, version=version), _plain_path(events.table_uri)
    if isinstance(events, str | Path):
        return _files(str(events), how, time), _runner(how)
    if how.version is not None:
        raise UnsupportedError("only a Delta table and a store have versions", hint="give its path")
    if is_spark(events):
        return _frame(events)
    if how.spark:
        raise UnsupportedError(
            "spark= has no meaning for a table in this process",
            hint="leave it out, or make the table a DataFrame: spark.createDataFrame(…)",
        )
    if isinstance(events, pa.Schema):
        return SchemaSource(plain_schema(events)), HERE
    return TableSource(plain_table(to_arrow(events))), HERE


def _runner(how: How) -> Runner:
    if not how.spark:
        return HERE
    from cerise.spark.runner import OnSpark

    return OnSpark.of(how.spark)


def _frame(events: Any) -> tuple[Source, Runner]:
    from cerise.spark import frames
    from cerise.spark.runner import FrameSource, OnSpark

    columns = frames.arrow_schema(events)
    if events.__class__.__name__ == "StructType":
        return SchemaSource(columns, events), HERE
    return FrameSource(events), OnSpark(events.sparkSession)


def is_spark(events: Any) -> bool:
    """Whether events, or their schema, are an object of PySpark. Does not import PySpark."""
    return any(base.__module__.startswith("pyspark.") for base in events.__class__.__mro__)


def _files(path: str, how: How, time: str | None) -> Source:
    """Return the files at a path: CSV and JSON in memory, others in place; a DataFrame if only Spark can."""
    from cerise.files.lake import NotDirect, open_lake

    refuse_surrogates(path, StoreError, "the path")
    if _is_written(path):
        return _text_files(path, how, time)
    try:
        return FilesSource(open_lake(path, how.version))
    except StoreError as error:
        if not re.fullmatch(r"\w+(\.\w+){0,2}", path) or Path(path).exists():
            raise
        hint = f"{error.hint or 'is the path right?'} A table of Spark is spark.table({path!r})"
        raise StoreError(error.problem, hint=hint) from None
    except NotDirect as reason:
        if not how.spark:
            raise UnsupportedError(
                f"only Spark can read {path}: {reason}", hint="ask Spark for it: spark=True"
            ) from None
        from cerise.spark import frames
        from cerise.spark.runner import FrameSource

        return FrameSource(frames.read(path, how.version, str(reason)), str(reason))


def _plain_path(uri: str) -> str:
    """Return a URI of a file as a path; any other as it is."""
    return unquote(uri.removeprefix("file://")) if uri.startswith("file://") else uri


def _is_written(path: str) -> bool:
    """Whether a path is a CSV or JSON file, or a folder of such files."""
    from cerise.files.event_files import TEXT, suffix

    place = Path(path)
    if "://" in path or not place.is_dir():
        return suffix(place) in TEXT
    inside = [each for each in place.iterdir() if not each.name.startswith((".", "_"))]
    return bool(inside) and all(each.is_file() and suffix(each) in TEXT for each in inside)


def _text_files(path: str, how: How, time: str | None) -> Source:
    from cerise.files.event_files import read

    if how.version is not None:
        raise UnsupportedError("only a Delta table and a store have versions", hint="leave version= out")
    table = plain_table(read(path, time=(time,) if time else ()))
    if not how.spark:
        return TableSource(table)
    from cerise.spark.runner import FrameSource, OnSpark

    frame = OnSpark.of(how.spark).spark.createDataFrame(table)
    return FrameSource(frame, "this process reads CSV and JSON")


def values_in(source: Source, column: str, names: Collection[str]) -> set[str]:
    """Return the names that are values of a column; of a DataFrame, values of its first rows."""
    if isinstance(source, SchemaSource):
        return set()
    if isinstance(source, TableSource):
        return names_in_column(source.table.column(column), names)
    from cerise.files.column_values import find_values

    if isinstance(source, FilesSource):
        return find_values(source.lake, column, names)
    if isinstance(source, StoreSource):
        indexed = set(source.view.indexed.synopsis.types.to_pylist()) & set(names)
        return indexed or find_values(source.view.lake, column, names)
    from cerise.spark import frames

    frame: Any = getattr(source, "frame", None)
    return set(names) & frames.first_values(frame, column, SAMPLED_ROWS)


def _schema(source: Source, roles: Roles) -> Schema:
    """Return which column plays which part, as the caller or the store's settings say."""
    if isinstance(source, StoreSource):
        reject_roles(replace(roles, params=None), "a store", "the store knows it")
        known: Schema = source.view.roles
        return replace(known, columns=source.columns)
    if roles.time is None:
        raise BindError(
            "no column says when an event happened", hint="name it: time='…'; only SQL says it by ORDER BY"
        )
    arrival = isinstance(source, TableSource | FilesSource) or getattr(source, "spark", True) is None
    return Schema(
        source.columns, roles.time, roles.type, to_names(roles.key), to_names(roles.order), arrival=arrival
    )


def to_names(columns: Columns | None) -> tuple[str, ...]:
    """Return one name, or several, as a tuple."""
    return (columns,) if isinstance(columns, str) else tuple(columns or ())


@contextmanager
def _hint_at_index(events: Any) -> Iterator[None]:
    """Add a hint to the error for a missing column that is the index of a pandas DataFrame."""
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


def reject_schema(source: Source) -> None:
    """Refuse a schema where a verb needs events."""
    if isinstance(source, SchemaSource):
        raise UnsupportedError("a schema has no events to find anything in", hint="give the table itself")


def only(request: Request) -> Question:
    """Return the question of a verb that takes one query.

    Raises:
        BindError: the request has several.
    """
    count = len(request.questions.each)
    if count != 1:
        raise BindError(f"{count} queries where one is asked for", hint="give one query")
    return request.questions.each[0]
