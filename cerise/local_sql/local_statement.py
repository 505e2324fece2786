"""A statement in this process: Cerise answers MATCH_RECOGNIZE, DuckDB all around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.rows.output import MATCHED
from cerise.errors import CeriseError, Span
from cerise.lang.match_recognize import Clause, Cut, bind_rows, parse_statement
from cerise.lang.match_recognize.tokens import name_of, read_words
from cerise.local_sql import duck
from cerise.local_sql.relations import LocalQuery, NamedTable, translate_query
from cerise.local_sql.scalars import Known, Scope, translate
from cerise.local_sql.syntax import parse_scalar
from cerise.local_sql.values.typed_value import Typed
from cerise.local_sql.values.value_types import (
    duck_name,
    is_computable,
    spark_table,
    spark_type,
    store_table,
)
from cerise.pattern.row_pattern import BoundRows, Show
from cerise.run.access import TableSource
from cerise.run.explained.explain import explain
from cerise.run.find import HERE, Source, decide, find
from cerise.run.question import Questions
from cerise.run.row_search import RowClause

CACHED = 128  # planned statements that stay in memory
Columns = tuple[tuple[str, pa.Schema], ...]


@dataclass(frozen=True)
class GivenTable:
    """A table that a statement can name.

    Attributes:
        source: where its rows come from.
        read: reads all of it; DuckDB gets it so.
    """

    source: Source
    read: Callable[[], pa.Table]

    @cached_property
    def stored(self) -> pa.Table:
        """The rows as DuckDB takes them."""
        return store_table(spark_table(self.read()))


def hold(table: pa.Table) -> GivenTable:
    """Return a table in memory as one that a statement can name."""
    return GivenTable(TableSource(table), lambda: table)


class AtomsOf(RowClause):
    """A clause whose answer is the atoms of its measures: DuckDB computes the measures."""

    def finish(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Return the atoms of all searches."""
        return self._decode(
            pa.concat_tables([self.partial.empty_table(), *parts]) if parts else self.partial.empty_table()
        )


@dataclass(frozen=True, slots=True)
class ClauseStep:
    """How a clause is answered.

    Attributes:
        question: the clause, bound to its input.
        table: the table that is its input; None: `rows` says how DuckDB makes the input.
        rows: the query of the input.
        derived: the columns that DuckDB computes from each row of the input.
        measured: the query of its answer, over the atoms that the search gives.
    """

    question: AtomsOf
    table: str | None
    rows: LocalQuery | None
    derived: LocalQuery | None
    measured: LocalQuery


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """A statement, planned: its clauses in the order in which they run, and the query around them."""

    steps: tuple[ClauseStep, ...]
    rest: LocalQuery
    result: pa.Schema


def run(text: str, tables: Mapping[str, GivenTable], dialect: str, options: Options) -> pa.Table:
    """Run a statement over tables, by their names.

    Raises:
        ParseError, BindError: the statement is wrong; nothing has run.
        UnsupportedError: only Spark runs it.
        PlanError: DuckDB is not installed.
    """
    plan = plan_for(text, tables, dialect, options)
    held = _Held(tables)
    for number, step in enumerate(plan.steps):
        found = _search(step, held, options)
        held.results[_atoms_name(number)] = store_table(spark_table(found))
    return held.run(plan.rest, plan.result)


def plan_for(text: str, tables: Mapping[str, GivenTable], dialect: str, options: Options) -> LocalPlan:
    """Plan a statement by the columns of its tables; see `run`."""
    duck.require_duckdb()
    known = tuple((name, each.source.columns) for name, each in tables.items())
    return _plan(text, known, dialect, options)


def explain_statement(
    text: str, tables: Mapping[str, GivenTable], dialect: str, options: Options
) -> list[str]:
    """Say how a statement would run: each clause, and DuckDB around them."""
    plan = plan_for(text, tables, dialect, options)
    said = []
    for step in plan.steps:
        questions = Questions.of([step.question])
        decided = None
        if step.table is not None:
            decided = decide(tables[step.table].source, questions, options, HERE)
        said.append(explain(questions, options, decided, here=True))
    return [*said, "around     DuckDB, in this process, in Spark's dialect"]


def _search(step: ClauseStep, held: _Held, options: Options) -> pa.Table:
    """Return the atoms of a clause's measures."""
    if step.table is not None and step.derived is None:
        source = held.tables[step.table].source
    else:
        if step.table is not None:
            rows = held.tables[step.table].read()
        else:
            assert step.rows is not None
            rows = held.run(step.rows, step.rows.schema())
        if step.derived is not None:
            held.results["_input"] = store_table(spark_table(rows))
            more = held.run(step.derived, step.derived.schema())
            for name in more.column_names:
                rows = rows.append_column(name, more.column(name))
        source = TableSource(rows)
    matches: pa.Table = find(source, Questions.of([step.question]), options, HERE, noted=False).matches
    return matches


@dataclass(slots=True)
class _Held:
    """The tables of a run, and the answers of the clauses so far."""

    tables: Mapping[str, GivenTable]
    results: dict[str, pa.Table]

    def __init__(self, tables: Mapping[str, GivenTable]) -> None:
        self.tables, self.results = tables, {}

    def run(self, query: LocalQuery, columns: pa.Schema) -> pa.Table:
        """Run a query; DuckDB gets the tables that it names."""
        named = {_table_name(i): each for i, each in enumerate(self.tables.values())}
        wanted = {name: each.stored for name, each in named.items() if f"{name} " in query.sql}
        wanted |= {name: table for name, table in self.results.items() if f"{name} " in query.sql}
        return duck.run(query, columns, wanted)


def _table_name(number: int) -> str:
    return f"_given_{number}_"


def _atoms_name(number: int) -> str:
    return f"_atoms_{number}_"


# ---- planning


@lru_cache(maxsize=CACHED)
def _plan(text: str, tables: Columns, dialect: str, options: Options) -> LocalPlan:
    statement = parse_statement(text, dialect)
    views = {
        name.lower(): NamedTable(_table_name(i), _sql_columns(columns))
        for i, (name, columns) in enumerate(tables)
    }
    names: dict[int, str] = {}
    steps = []
    for clause in statement.clauses:
        step, view = _step(clause, statement.input(clause.index, names), tables, views, options)
        names[clause.index] = f"_cerise_{clause.index}"
        views[names[clause.index]] = view
        steps.append(step)
    rest = _translate(statement.rest(names), text, views)
    with _locate_in(statement.rest(names), text):
        plan = LocalPlan(tuple(steps), rest, rest.schema())
    _rehearse(plan, tables)
    return plan


def _sql_columns(columns: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(each.name, spark_type(each.type)) for each in columns])


def _step(
    clause: Clause, cut: Cut, tables: Columns, views: Mapping[str, NamedTable], options: Options
) -> tuple[ClauseStep, NamedTable]:
    """Return how a clause is answered, and its answer as a table of the statement."""
    table = _only_table(clause, tables)
    if table is not None:
        rows, columns = None, dict(tables)[table]
        arrival = True
    else:
        rows = _translate(cut, clause.text, views)
        with _locate_in(cut, clause.text):
            columns = rows.schema()
        arrival = rows.arrival
    bound = replace(bind_rows(clause, columns, DuckHost(columns)), arrival=arrival)
    question = AtomsOf(bound, options, atoms=True, host=True)
    measured = _measures(bound, _sql_columns(question.partial), clause)
    view = NamedTable(
        f"({measured.sql.replace(' FROM _atoms ', f' FROM {_atoms_name(clause.index)} ')})", measured.schema()
    )
    return ClauseStep(question, table, rows, _derive_query(question, columns), measured), view


def _only_table(clause: Clause, tables: Columns) -> str | None:
    """Return the table that is the whole input of a clause."""
    words = read_words(clause.text[clause.source.start : clause.source.end])
    names = [name_of(word) for word in words if word.key != "AS"]
    first = names[0] if names else None
    if first is None or len(names) > 2 or names[-1] is None or first.text.lower() in clause.ctes:
        return None
    return next((name for name, _ in tables if name.lower() == first.text.lower()), None)


def _derive_query(question: AtomsOf, columns: pa.Schema) -> LocalQuery | None:
    """Return the query of the columns that are computed from single rows before the search."""
    wanted = {*question.needs.columns.names}
    derived = [each for each in question.bound.derived if each.name in wanted]
    if not derived:
        return None
    scope = _scope_of(columns)
    shown = ", ".join(
        f"CAST({translate(parse_scalar(each.sql), scope).sql} AS {duck_name(spark_type(each.type))}) AS c{i}"
        for i, each in enumerate(derived)
    )
    names, kinds = tuple(each.name for each in derived), tuple(each.type for each in derived)
    return LocalQuery(f"SELECT {shown} FROM _input ", names, kinds)


def _measures(bound: BoundRows, atoms: pa.Schema, clause: Clause) -> LocalQuery:
    """Return the query that makes the answer of a clause from the atoms of its measures."""
    scope = _scope_of(atoms)
    values = {}
    for each in bound.measures:
        with _point_at(each.span, clause.text):
            values[each.name] = translate(parse_scalar(each.sql), scope)
    shown, kinds = [], []
    for i, column in enumerate(bound.output):
        value = values[column.name] if column.measure else scope_column(scope, f"_s{i}")
        sql = value.sql if value.type != pa.null() else "CAST(NULL AS INTEGER)"
        if is_computable(value.type) and value.type != pa.null():
            sql = f"CAST({sql} AS {duck_name(value.type)})"
        if column.measure and bound.show is Show.UNMATCHED:
            sql = f"CASE WHEN {scope_column(scope, MATCHED).sql} THEN {sql} END"
        shown.append(f"{sql} AS c{i}")
        kinds.append(value.type)
    names = tuple(each.name for each in bound.output)
    return LocalQuery(f"SELECT {', '.join(shown)} FROM _atoms ", names, tuple(kinds), arrival=True)


def _scope_of(columns: pa.Schema) -> Scope:
    return Scope(
        tuple(
            Known(frozenset(), field.name, Typed(f"c{i}", spark_type(field.type), field.name))
            for i, field in enumerate(columns)
        )
    )


def scope_column(scope: Scope, name: str) -> Typed:
    """Return the column of a scope that has exactly this name."""
    return next(each.value for each in scope.columns if each.name == name)


@dataclass(frozen=True, slots=True)
class DuckHost:
    """DuckDB as the database that computes columns of a clause's input, by Spark's rules."""

    columns: pa.Schema

    def type_of(self, sql: str) -> pa.DataType:
        """Return the type of an expression over one row."""
        return translate(parse_scalar(sql), _scope_of(self.columns)).type


def _rehearse(plan: LocalPlan, tables: Columns) -> None:
    """Run DuckDB's parts over no rows, so that what DuckDB refuses is refused before anything runs."""
    held = _Held({name: _empty(columns) for name, columns in tables})
    for number, step in enumerate(plan.steps):
        if step.rows is not None:
            held.run(step.rows, step.rows.schema())
        if step.derived is not None:
            held.results["_input"] = store_table(spark_table(_input_schema(step, tables).empty_table()))
            held.run(step.derived, step.derived.schema())
        atoms = step.question.partial.empty_table()
        held.results[_atoms_name(number)] = store_table(spark_table(atoms))
    held.run(plan.rest, plan.result)


def _input_schema(step: ClauseStep, tables: Columns) -> pa.Schema:
    return dict(tables)[step.table] if step.table is not None else step.rows.schema()  # type: ignore[union-attr]


def _empty(columns: pa.Schema) -> GivenTable:
    return hold(columns.empty_table())


# ---- errors that point into the statement


def _translate(cut: Cut, text: str, views: Mapping[str, NamedTable]) -> LocalQuery:
    with _locate_in(cut, text):
        return translate_query(cut.sql, views)


@contextmanager
def _locate_in(cut: Cut, text: str) -> Iterator[None]:
    """Make errors in a piece of the statement point into the statement."""
    try:
        yield
    except CeriseError as error:
        if error.text is not None:
            raise
        span = error.span
        if span is not None:
            span = Span(cut.place(span.start), cut.place(max(span.start, span.end - 1)) + 1)
        raise type(error)(error.problem, span=span, text=text, hint=error.hint) from None


@contextmanager
def _point_at(span: Span | None, text: str) -> Iterator[None]:
    """Make errors in an expression of a clause point at the expression."""
    try:
        yield
    except CeriseError as error:
        raise type(error)(error.problem, span=span, text=text, hint=error.hint) from None
