"""SQL statements with MATCH_RECOGNIZE on Spark: clauses become views, and Spark runs the rest."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type

from cerise.engines.base import Options
from cerise.engines.misses.chosen import refuse
from cerise.errors import BindError, Span, UnsupportedError
from cerise.kinds import plain
from cerise.lang.match_recognize import Clause, Cut, Statement, bind_rows, parse_statement
from cerise.run.explained.explain import explain as explain_plan
from cerise.run.find import decide, find
from cerise.run.question import Questions
from cerise.run.row_search import RowClause
from cerise.spark.frames import UTC, arrow_schema, as_written, quote_name, read, reject_stream
from cerise.spark.runner import FrameSource, OnSpark
from cerise.spark.session import mute_errors
from cerise.spark.task_errors import spark_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cerise.pattern.row_pattern import BoundRows

CONNECT_NAME = (
    59  # letters of PySpark's names for DataFrames in a statement: equal lengths keep positions right
)
VIEW = re.compile(
    r"\s*CREATE\s+(?P<replace>OR\s+REPLACE\s+)?(?P<temp>(?:GLOBAL\s+)?TEMP(?:ORARY)?\s+)?VIEW\s+"
    r"(?P<name>`[^`]+`|\w+)\s+AS\s+",
    re.IGNORECASE,
)


def sql(spark: SparkSession, text: str, dialect: str, options: Options) -> DataFrame:
    """Run a statement; without MATCH_RECOGNIZE, Spark runs it unchanged."""
    if (view := VIEW.match(text)) is not None:
        return _create_view(spark, text, view, dialect, options)
    statement = parse_statement(text, dialect)
    with _create_views(spark, statement, options) as views:
        return views.run(statement.rest(views.names), text)


def explain(spark: SparkSession, text: str, dialect: str, options: Options) -> list[str]:
    """Say how each clause of a statement would run, without running it."""
    statement, views, runner = parse_statement(text, dialect), _Views(spark), OnSpark(spark)
    texts = []
    try:
        for clause in statement.clauses:
            rows = views.run(statement.input(clause.index, views.names), statement.text)
            questions = Questions.of([RowClause(bind_to_frame(clause, rows), options, atoms=True, host=True)])
            plan = decide(FrameSource(rows), questions, options, runner)
            texts.append(explain_plan(questions, options, plan, here=False))
            views.add(clause.index, runner.run(plan, noted=False)[0])
    finally:
        views.drop()
    return texts


class _Views:
    """The results of clauses as views with unique names, which the statement around them reads.

    A classic plan is resolved when it is made, so the views are dropped right after. On Connect a plan is
    only a description: it carries the DataFrames of the results, and needs no view.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.names: dict[int, str] = {}
        self.frames: dict[str, DataFrame] = {}

    def add(self, index: int, frame: DataFrame) -> None:
        """Make the result of a clause a view."""
        name = f"_cerise_{uuid.uuid4().hex}"
        self.names[index] = name if _is_classic(self.spark) else name.ljust(CONNECT_NAME, "_")
        self.frames[self.names[index]] = frame
        if _is_classic(self.spark):
            frame.createTempView(name)

    def run(self, cut: Cut, text: str) -> DataFrame:
        """Run a part of a statement that may name results."""
        if _is_classic(self.spark) or not self.frames:
            return _run(self.spark, cut, text)
        template = cut.sql.replace("{", "{{").replace("}", "}}")
        for name in self.frames:
            template = template.replace(name, f"{{{name}}}")
        with _locate_errors(cut, text):
            return self.spark.sql(template, None, **self.frames)

    def drop(self) -> None:
        for name in self.frames if _is_classic(self.spark) else ():
            self.spark.catalog.dropTempView(name)


def _is_classic(spark: SparkSession) -> bool:
    return getattr(spark, "_sc", None) is not None


@contextmanager
def _create_views(spark: SparkSession, statement: Statement, options: Options) -> Iterator[_Views]:
    """Make the result of each clause of a statement a view, and drop the views afterwards."""
    views = _Views(spark)
    try:
        for clause in statement.clauses:
            rows = views.run(statement.input(clause.index, views.names), statement.text)
            questions = Questions.of([RowClause(bind_to_frame(clause, rows), options, atoms=True, host=True)])
            views.add(clause.index, _answer(rows, clause, questions, options))
        yield views
    finally:
        views.drop()


def _answer(rows: DataFrame, clause: Clause, questions: Questions, options: Options) -> DataFrame:
    """Return the answer of a clause: a table's, or a stream's while it grows."""
    if not rows.isStreaming:
        found = find(FrameSource(rows), questions, options, OnSpark(rows.sparkSession), noted=False)
        batch: DataFrame = found.matches
        return batch
    from cerise.spark.stream_plan import watch_clause

    (question,) = questions.each
    assert isinstance(question, RowClause)
    return watch_clause(rows, question, clause.text[clause.span.start : clause.span.end], options)


def ask_clause(
    spark: SparkSession, text: str, dialect: str, options: Options
) -> tuple[FrameSource, RowClause, OnSpark]:
    """Return the input of a statement's only clause, the clause, and the runner.

    Raises:
        UnsupportedError: the statement has several clauses, or none.
    """
    statement = parse_statement(text, dialect)
    if len(statement.clauses) != 1:
        raise UnsupportedError(
            f"the statement has {len(statement.clauses)} MATCH_RECOGNIZE clauses, where one is asked for",
            hint="take one at a time: make the result of the others a view",
        )
    rows = _run(spark, statement.input(0, {}), text)
    reject_stream(rows)
    question = RowClause(bind_to_frame(statement.clauses[0], rows), options, atoms=True, host=True)
    return FrameSource(rows), question, OnSpark(spark)


def bind_to_frame(clause: Clause, frame: DataFrame) -> BoundRows:
    """Bind a clause to a DataFrame, whose rows have no order of their own (S1.2)."""
    return replace(bind_rows(clause, arrow_schema(frame, streams=True), SparkHost(frame)), arrival=False)


class SparkHost:
    """Spark, which knows the types of expressions over a DataFrame."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame

    def type_of(self, sql: str) -> pa.DataType:
        """Return the type of an expression over one row."""
        try:
            text = as_written(self.frame.sparkSession, f"{sql} AS c")
            found = self.frame.selectExpr(text).schema[0].dataType
        except PySparkException as error:
            raise BindError(spark_message(error)) from error
        return plain(to_arrow_type(found, **UTC))


def frame_source(source: Any, events: Any, version: int | None) -> FrameSource:
    """Return a source as a DataFrame, so that Spark can compute a predicate over its rows."""
    if isinstance(source, FrameSource):
        return source
    if not isinstance(events, str | Path):
        raise UnsupportedError("misses in a store are explained in this process", hint="leave spark= out")
    return FrameSource(read(str(events), version, "explain_misses reads files by Spark"))


def check_predicate(source: FrameSource, where: str | None) -> None:
    """Refuse SQL that is not a predicate over the rows of a DataFrame."""
    if where is not None and SparkHost(source.frame).type_of(f"({where})") != pa.bool_():
        raise refuse(where)


def _create_view(
    spark: SparkSession, text: str, view: re.Match[str], dialect: str, options: Options
) -> DataFrame:
    query = text[view.end() :]
    if not parse_statement(query, dialect).clauses:
        return _run(spark, parse_statement(text, dialect).rest({}), text)
    if view["temp"] is None or view["temp"].upper().startswith("GLOBAL"):
        raise UnsupportedError(
            "a view that outlives the session cannot hold MATCH_RECOGNIZE, which Spark does not know",
            span=Span(*view.span()), text=text, hint="CREATE TEMPORARY VIEW, or CREATE TABLE … AS SELECT …",
        )  # fmt: skip
    frame = sql(spark, query, dialect, options)
    name = view["name"].strip("`")
    if view["replace"]:
        frame.createOrReplaceTempView(quote_name(name))
    else:
        frame.createTempView(quote_name(name))
    return spark.createDataFrame([], "name string").where("false")


def _run(spark: SparkSession, cut: Cut, text: str) -> DataFrame:
    with _locate_errors(cut, text):
        return spark.sql(cut.sql)


@contextmanager
def _locate_errors(cut: Cut, text: str) -> Iterator[None]:
    """Turn Spark's errors into errors that point into the user's text, without logging them."""
    before = mute_errors(yes=True)
    try:
        yield
    except PySparkException as error:
        span = _span(error, cut)
        raise BindError(spark_message(error), span=span, text=text) from error
    finally:
        mute_errors(yes=before)


def _span(error: PySparkException, cut: Cut) -> Span | None:
    for context in error.getQueryContext() or []:
        try:
            start, stop = context.startIndex(), context.stopIndex()
        except (AttributeError, PySparkException):
            continue
        if start >= 0 and cut.sql[start : stop + 1] == context.fragment():
            return Span(cut.place(start), cut.place(stop) + 1)
    found = re.search(r"line (\d+),? pos (\d+)", str(error))
    if found is None:
        return None
    lines = cut.sql.splitlines(keepends=True)
    at = cut.place(sum(map(len, lines[: int(found[1]) - 1])) + int(found[2]))
    return Span(at, at + 1)
