"""`cerise sql`: statements over files. This process runs queries, with DuckDB; Spark any other statement."""

from __future__ import annotations

import re
import time as clock
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer

from cerise.cli import output as out
from cerise.cli.inputs import InputFiles, is_untyped
from cerise.cli.terminal import show_status
from cerise.engines.base import Options
from cerise.engines.rows.table_search import explain as explain_rows
from cerise.errors import BindError, CeriseError, ParseError, UnsupportedError, did_you_mean
from cerise.kinds import plain_table
from cerise.lang.match_recognize import Clause, bind_rows, parse_alone, parse_statement
from cerise.lang.match_recognize.tokens import name_of, read_words
from cerise.local_sql import local_statement
from cerise.local_sql import sql_verb as verbs
from cerise.pattern.row_pattern import BoundRows
from cerise.run.access import TableSource
from cerise.run.find import HERE, find
from cerise.run.question import Questions
from cerise.run.row_search import RowClause

NAME = re.compile(r"[^\W\d]\w*")
ASKS = frozenset("SELECT WITH FROM VALUES TABLE SHOW DESCRIBE DESC EXPLAIN".split())
HERE_FIRST = frozenset(("SELECT", "WITH", "VALUES", "("))  # first words of statements that run without Spark
VIEW = re.compile(
    r"\s*CREATE\s+(OR\s+REPLACE\s+)?TEMP(ORARY)?\s+VIEW\s+(?P<name>`[^`]+`|\w+)\s+AS\s+", re.IGNORECASE
)
DONE = pa.table({})  # for a statement without a result


class _NeedsSpark(Exception):
    """This process cannot run the statement."""


def answer(session: SqlSession, text: str, target: out.OutputTarget, *, explain: bool = False) -> None:
    """Run the statements of a text, and write the result of the last."""
    complete, rest = statements(text)
    *before, last = [*complete, *([rest.strip()] if rest.strip() else [])] or [""]
    if not last:
        raise ParseError("there is no statement", hint="write SELECT * FROM t MATCH_RECOGNIZE (…)")
    for each in before:
        session.run(each)
    show(session, last, target, explain=explain)


def show(session: SqlSession, text: str, target: out.OutputTarget, *, explain: bool = False) -> None:
    """Run a statement, write its result, and print a summary."""
    if explain:
        typer.echo(session.explain(text))
        return
    started = clock.perf_counter()
    rows = session.run(text)
    elapsed = clock.perf_counter() - started
    if target.format in ("json", "parquet"):
        _reject_twice(rows.column_names)
    if rows.num_columns:
        out.deliver(rows, target, None)
    typer.echo(_summary(rows, elapsed, target), err=True)


def _summary(rows: pa.Table, elapsed: float, target: out.OutputTarget) -> str:
    if not rows.num_columns:
        return f"done, {elapsed:.2f} s"
    text = f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'}, {elapsed:.2f} s"
    if target.format == "table" and 0 < target.rows < len(rows):
        text += f"; the first {target.rows} are shown, --limit-rows 0 shows all"
    return text


def _reject_twice(names: list[str]) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise CeriseError(
            f"two columns are called '{twice[0]}'", hint="name one of them otherwise: SELECT x AS y"
        )


# ---- the session


@dataclass(slots=True)
class SqlSession:
    """The tables that statements can name, and the Spark session that runs some of the statements.

    Attributes:
        sources: the files of each table, by its name.
        dialect: whose defaults clauses have.
        options: how to run.
        read: the tables that this process has read, kept for the next statements.
        views: the views that statements have made in this process, and the statements themselves, which Spark
            runs again once it is needed.
        spark: the Spark session, with the tables as views; None until a statement needs it.
        changed: whether a statement may have redefined a name, so that Spark must run the next statements.
    """

    sources: Mapping[str, InputFiles]
    dialect: str = "standard"
    options: Options = field(default_factory=Options)
    read: dict[str, pa.Table] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    spark: Any = None
    changed: bool = False

    @classmethod
    def of(cls, given: Iterable[str], layout: InputFiles, dialect: str, engine: str | None) -> SqlSession:
        """Return a session over words such as `trades=trades.csv`; `layout` describes all files."""
        if layout.written and not layout.times:
            raise typer.BadParameter("--timestamp-format needs --time, the columns that are written so")
        sources: dict[str, InputFiles] = {}
        for word in given:
            name, path = split_table(word)
            if name.lower() in map(str.lower, sources):
                raise CeriseError(f"two tables are called '{name}'", hint="say --table other=path")
            sources[name] = replace(layout, path=path)
        return cls(sources, dialect, Options(engine=engine))

    def run(self, text: str) -> pa.Table:
        try:
            bound, table = self._here(text)
        except _NeedsSpark:
            found = self._around(text)
            return self._on_spark(text) if found is None else found
        questions = Questions.of([RowClause(bound, self.options)])
        matches: pa.Table = find(TableSource(table), questions, self.options, HERE).matches
        return matches

    def explain(self, text: str) -> str:
        """Say how a statement would run."""
        try:
            bound, _ = self._here(text)
        except _NeedsSpark:
            if (tables := self._tables_of(text)) is not None:
                with suppress(UnsupportedError):
                    said = local_statement.explain_statement(text, tables, self.dialect, self.options)
                    return "\n\n".join(said)
            from cerise.spark import sql

            texts = sql.explain(self._session(), text, self.dialect, self.options)
            return "\n\n".join(texts) or "runs       on Spark, which knows all of it"
        return _format_facts({"runs": "in this process", **explain_rows(bound, self.options)})

    def table(self, name: str) -> pa.Table:
        """Return a table; the first call reads it into this process."""
        if name not in self.read:
            with show_status(f"reading {self.sources[name].path}"):
                table = self.sources[name].table()
            if is_untyped(table):
                raise _empty(self.sources[name])
            self.read[name] = plain_table(table)
        return self.read[name]

    def schema(self, name: str) -> pa.Schema:
        """Return the columns of a table; of Parquet, without reading it."""
        known = None if name in self.read else self.sources[name].schema()
        return self.table(name).schema if known is None else known

    # ---- where statements run

    def _here(self, text: str) -> tuple[BoundRows, pa.Table]:
        """Return the clause of a statement that this process can run, bound to its table.

        Raises:
            _NeedsSpark: the statement is more than a clause, or only Spark can compute an expression.
        """
        if self.changed or not parse_statement(text, self.dialect).clauses:
            raise _NeedsSpark
        try:
            clause = parse_alone(text, self.dialect)
        except UnsupportedError:
            raise _NeedsSpark from None
        table = self.table(self._only_table(clause))
        try:
            bound = bind_rows(clause, table.schema)
        except UnsupportedError as error:
            if error.problem.endswith("needs Spark"):
                raise _NeedsSpark from None
            raise
        if None in (*(each.expr for each in bound.measures), *(each.expr for each in bound.derived)):
            raise _NeedsSpark
        return bound, table

    def _around(self, text: str) -> pa.Table | None:
        """Run a statement in this process; None: only Spark can."""
        view = VIEW.match(text)
        query = text[view.end() :] if view is not None else text
        tables = self._tables_of(query)
        if tables is None:
            return None
        try:
            found = local_statement.run(query, tables, self.dialect, self.options)
        except UnsupportedError:
            return None
        if view is None:
            return found
        name = view["name"].strip("`")
        if not view[1] and name.lower() in map(str.lower, (*self.sources, *self.views)):
            raise BindError(f"there is a table '{name}'", hint="write CREATE OR REPLACE TEMP VIEW")
        self.read[name], self.views[name] = found, text
        return DONE

    def _tables_of(self, text: str) -> dict[str, local_statement.GivenTable] | None:
        """Return the tables that a statement may name; None: the statement is for Spark."""
        words = read_words(text)
        if self.changed or not words or words[0].key not in HERE_FIRST or find_spec("duckdb") is None:
            return None
        said = {name.text.lower() for word in words if (name := name_of(word)) is not None}
        known = [name for name in (*self.sources, *self.views) if name.lower() in said]
        return {name: local_statement.hold(self.table(name)) for name in known}

    def _only_table(self, clause: Clause) -> str:
        """Return the name of the table that is the input of a clause.

        Raises:
            _NeedsSpark: the input is more than one table.
        """
        source = clause.text[clause.source.start : clause.source.end]
        names = [name_of(word) for word in read_words(source) if word.key != "AS"]
        if not names or len(names) > 2 or names[0] is None or names[-1] is None:
            raise _NeedsSpark
        name = names[0].text
        for known in (*self.views, *self.sources):
            if known.lower() == name.lower():
                return known
        hint = did_you_mean(name, self.sources) if self.sources else f"say where it is: --table {name}=path"
        raise BindError(f"unknown table '{name}'", span=clause.source, text=clause.text, hint=hint)

    def _on_spark(self, text: str) -> pa.Table:
        spark = self._session()
        first = next(iter(read_words(text)), None)
        self.changed = self.changed or first is None or first.key not in ASKS
        with show_status("running on Spark"):
            frame = verbs.sql(spark, text, dialect=self.dialect, options=self.options)
            return frame.toArrow() if frame.columns else DONE

    def _session(self) -> Any:
        """Return a Spark session with the tables as views."""
        if self.spark is None:
            from cerise.spark.session import mute_errors, session

            with show_status("starting Spark"):
                spark = session()
                mute_errors(yes=True)
                for name, source in self.sources.items():
                    frame = source.frame()
                    if isinstance(frame, pa.Table):
                        raise _empty(source)
                    frame.createOrReplaceTempView(f"`{name}`")
            self.spark = spark
            for text in self.views.values():
                verbs.sql(spark, text, dialect=self.dialect, options=self.options)
        return self.spark


def split_table(word: str) -> tuple[str, str]:
    """Split `name=path`; without a name, the table has the name of the file."""
    name, equals, path = word.partition("=")
    if not equals:
        name, path = Path(word).name.split(".")[0], word
    name = name.strip()
    if not NAME.fullmatch(name) or not path.strip():
        raise CeriseError(
            f"no table can be called '{name}'", hint="say --table name=path, the name in letters"
        )
    return name, path.strip()


def statements(text: str) -> tuple[list[str], str]:
    """Return the statements of a text that end with ;, and the text after the last ;."""
    try:
        words = read_words(text)
    except ParseError:  # a string or comment is still open
        return [], text
    ends = [word.start for word in words if word.key == ";"]
    starts = [0, *(end + 1 for end in ends)]
    found = [text[start:end].strip() for start, end in zip(starts, ends, strict=False)]
    return [each for each in found if each], text[starts[-1] :]


def _format_facts(facts: Mapping[str, str]) -> str:
    return "\n".join(f"{name:<10} {text}" for name, text in facts.items())


def _empty(source: InputFiles) -> CeriseError:
    return CeriseError(
        f"{source.path} is empty: the types of its columns are unknown", hint="give a file with rows"
    )
