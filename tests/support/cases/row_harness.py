"""Cases of MATCH_RECOGNIZE: a statement, a table and the expected result; how they are read and compared."""

from __future__ import annotations

import datetime as dt
import functools
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.reference.rows import find_rows, to_matches
from cerise.engines.results.value_codes import partitions
from cerise.engines.rows.output import to_table
from cerise.engines.rows.prepare import prepare
from cerise.events import RowBatch
from cerise.files.lake import open_lake
from cerise.files.scan import ROW
from cerise.kinds import plain_schema, plain_table
from cerise.lang.match_recognize import bind_rows, parse_statement
from cerise.pattern.row_pattern import BoundRows
from cerise.run.access import TableSource
from cerise.run.find import HERE, decide, find
from cerise.run.question import Questions, Work
from cerise.run.row_search import RowClause
from cerise.sources import FilesSource
from tests.support.cases.harness import read_events, shown
from tests.support.cases.tasks_here import HandedOver, TasksHere, exchange_files
from tests.support.row_streams import can_stream, run_stream

CASES = Path(__file__).parents[2] / "cases" / "rows"
DIRECTIVES = frozenset({"title", "rules", "error", "dialect", "spark", "table"})
WORD = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|\S+""")
SIZED = re.compile(r":(decimal\(\d+,\d+\)|int8|int16|int32|float32)(?=\s|$)")
HEADING = re.compile(r"""(?:"[^"]*"|[^\s"])+""")
Row = tuple[str, ...]
Runner = Callable[[BoundRows, pa.Table], pa.Table]


@dataclass(frozen=True)
class Result:
    """What a statement gives: its columns in order, and its rows in any (None: columns that are not said)."""

    columns: Row | None
    rows: Counter[Row]


@dataclass(frozen=True)
class RowCase:
    """One case of a .mr file; `on_spark_only` has SQL around the clause.

    `arrived` tells that the answer needs the order in which rows arrive; a DataFrame has none (S1.2).
    """

    file: str
    line: int
    title: str
    statement: str
    input: pa.Table
    expected: Result
    rules: tuple[str, ...] = ()
    error: tuple[str, str] | None = None
    dialect: str = "standard"
    table: str = "t"
    on_spark_only: bool = False
    arrived: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.title}"

    def bound(self) -> BoundRows:
        """The clause, bound once: a case goes through many tests."""
        return self._bound

    @functools.cached_property
    def _bound(self) -> BoundRows:
        """Parse the statement, which must be no more than its clause, and bind it to the input."""
        statement = parse_statement(self.statement, self.dialect)
        rest = statement.rest({each.index: f"_{each.index}" for each in statement.clauses}).sql
        plain = re.fullmatch(r"SELECT\s+\*\s+FROM\s+_0(\s+(AS\s+)?\w+)?\s*;?\s*", rest, re.IGNORECASE)
        assert plain, f"{self} needs `# spark: only`: {rest}"
        return bind_rows(statement.clauses[0], self.input.schema)


def run_reference(bound: BoundRows, table: pa.Table) -> pa.Table:
    """Answer by the reference."""
    prepared = prepare(bound, table)
    offsets = partitions(bound, prepared)
    return to_table(bound, prepared, offsets, to_matches(bound, find_rows(bound, prepared), offsets))


def run_rows(bound: BoundRows, table: pa.Table, options: Options) -> pa.Table:
    """Answer a clause over a table in this process."""
    matches: pa.Table = find(
        TableSource(table), Questions.of([RowClause(bound, options)]), options, HERE
    ).matches
    return matches


def run_with(**options: Any) -> Runner:
    """The compiled engine, where it can run the clause; else what is chosen in its place."""
    return lambda bound, table: run_rows(bound, table, Options(**options))


def run_batches(size: int, *, reload: bool = False) -> Runner:
    """Rows fed a few at a time; with `reload`, to a new search that loads what the last one saved."""

    def run(bound: BoundRows, table: pa.Table) -> pa.Table:
        question = RowClause(bound, Options())
        search = question.start(Work(Options()))
        parts = []
        for start in range(0, len(table), size):
            parts += search.feed(RowBatch(table.slice(start, size)))
            if reload:
                state = search.save()
                search = question.start(Work(Options()))
                search.load(state)
        return question.finish([*parts, *search.flush()])

    return run


def run_exchanged(bound: BoundRows, table: pa.Table) -> pa.Table:
    """What Spark's tasks do with rows that are exchanged."""
    options = Options(limits=SMALL)
    asked = Questions.of([RowClause(bound, options, atoms=True)])
    rows = plain_table(table).append_column(ROW, pa.array(range(len(table)), pa.int64()))
    return TasksHere(3).run(decide(HandedOver(rows), asked, options, TasksHere(3)))[0]


def run_from_files(count: int) -> Runner:
    """What Spark's tasks do with files: slices of time, or an exchange."""

    def run(bound: BoundRows, table: pa.Table) -> pa.Table:
        options = Options(partitions=count, limits=SMALL)
        with tempfile.TemporaryDirectory() as folder:
            for number, start in enumerate(range(0, max(len(table), 1), 5)):
                path = Path(folder) / f"{number:06}.parquet"
                pq.write_table(table.slice(start, 5), path, row_group_size=2)
            source = FilesSource(open_lake(folder))
            if source.columns != plain_schema(table.schema):
                return run_rows(bound, table, options)  # files have no such types
            asked = Questions.of([RowClause(bound, options, atoms=True)])
            return find(source, asked, options, TasksHere(count)).matches

    return run


def run_in_passes(count: int) -> Runner:
    """What Spark's tasks do with files in passes, also where time could be cut into slices."""

    def run(bound: BoundRows, table: pa.Table) -> pa.Table:
        options = Options(partitions=3, passes=count, limits=SMALL)
        with tempfile.TemporaryDirectory() as folder:
            for number, start in enumerate(range(0, max(len(table), 1), 5)):
                path = Path(folder) / f"{number:06}.parquet"
                pq.write_table(table.slice(start, 5), path, row_group_size=2)
            source = FilesSource(open_lake(folder))
            if source.columns != plain_schema(table.schema):
                return run_rows(bound, table, options)  # files have no such types
            asked = Questions.of([RowClause(bound, options, atoms=True)])
            return exchange_files(source, asked, options).matches

    return run


def run_as_stream(size: int, *, reload: bool = False, limits: Limits | None = None) -> Runner:
    """Rows fed as a watermark releases them, where the clause and its rows can be a stream."""

    def run(bound: BoundRows, table: pa.Table) -> pa.Table:
        options = Options(limits=limits or Limits())
        if not can_stream(bound, table):
            return run_rows(bound, table, options)
        return run_stream(bound, table, size, options=options, reload=reload)

    return run


SMALL = Limits(cut_events=2, blob_events=3, output_rows=2)
RUNNERS: dict[str, Runner] = {
    "reference": run_reference,
    "rows": run_with(),
    "rows, 3 threads": run_with(threads=3),
    "batches of 1": run_batches(1),
    "batches of 3": run_batches(3),
    "saved and loaded": run_batches(3, reload=True),
    "exchanged": run_exchanged,
    "from files": run_from_files(1),
    "from files, 7 slices": run_from_files(7),
    "in 2 passes": run_in_passes(2),
    "in 3 passes": run_in_passes(3),
    "as a stream, row by row": run_as_stream(1),
    "as a stream, in pieces of 3": run_as_stream(3),
    "as a stream, saved and loaded": run_as_stream(2, reload=True),
    "as a stream, small limits": run_as_stream(1, limits=Limits.all(2)),
}


# ---- reading


@functools.cache
def load_row_cases() -> tuple[RowCase, ...]:
    """Read every case of tests/cases/rows."""
    return tuple(
        case
        for path in sorted(CASES.glob("*.mr"))
        for case in read_row_cases(path.name, path.read_text("utf-8"))
    )


def read_row_cases(file: str, text: str) -> list[RowCase]:
    """Read the cases of one file; a case starts at its `# title:` line."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("# title:")]
    ends = [*starts[1:], len(lines)]
    return [_read_case(file, start + 1, lines[start:end]) for start, end in zip(starts, ends, strict=True)]


def _read_case(file: str, line: int, lines: list[str]) -> RowCase:
    given = dict(_directive(each) for each in lines if each.startswith("# "))
    assert given.keys() <= DIRECTIVES, f"{file}:{line} has unknown directives: {given.keys() - DIRECTIVES}"
    body = "\n".join(each for each in lines if not each.startswith("#"))
    parts = re.split(r"^--$", body, flags=re.MULTILINE)
    assert len(parts) <= 3, f"{file}:{line} has more than three parts"
    assert len(parts) == 3 or "error" in given, f"{file}:{line} has no expected result"
    statement, input_, expected = [*parts, "", ""][:3]
    error = given["error"].partition(": ") if "error" in given else None
    return RowCase(
        file, line, given["title"], statement.strip(), read_table(input_), read_result(expected),
        tuple(given.get("rules", "").split()), (error[0], error[2]) if error else None,
        given.get("dialect", "standard"), given.get("table", "t"), given.get("spark") == "only",
        given.get("spark") == "never",
    )  # fmt: skip


def _directive(line: str) -> tuple[str, str]:
    name, _, value = line[2:].partition(":")
    return name.strip(), value.strip()


def read_table(text: str) -> pa.Table:
    """Read a typed table as `harness.read_events` does; types of a size are read as text, then cast."""
    header, newline, rows = text.strip("\n").partition("\n")
    table = read_events(SIZED.sub(":str", header) + newline + rows)
    for i, word in enumerate(HEADING.findall(header)):
        if sized := SIZED.search(word):
            column = table.column(i).cast(_type_named(sized[1]))
            table = table.set_column(i, table.column_names[i], column)
    return table


def _type_named(name: str) -> pa.DataType:
    if name.startswith("decimal"):
        return pa.decimal128(*map(int, re.findall(r"\d+", name)))
    return pa.type_for_alias(name)


def read_result(text: str) -> Result:
    """Read a header of column names and the rows under it; `(none)` alone says nothing of the columns."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or lines[0].strip() == "(none)":
        return Result(None, Counter())
    columns = tuple(word.strip('"') for word in WORD.findall(lines[0]))
    rows = [tuple(map(_expected, WORD.findall(line))) for line in lines[1:] if line.strip() != "(none)"]
    assert all(len(row) == len(columns) for row in rows), f"a row is not as long as the header: {text}"
    return Result(columns, Counter(rows))


def _expected(word: str) -> str:
    return cell(word[1:-1].replace("''", "'")) if word.startswith("'") else word


# ---- comparing


def result_of(table: pa.Table) -> Result:
    """Return a table in the form of an expected result."""
    columns = [map(cell, column.to_pylist()) for column in table.columns]
    return Result(tuple(table.column_names), Counter(zip(*columns, strict=True)))


def cell(value: Any) -> str:
    """Return a value as case files write it."""
    if isinstance(value, list):
        return f"[{','.join(map(cell, value))}]"
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")  # as SQL writes it
    return "'null'" if value == "null" else shown(value)


def difference(expected: Result, found: Result) -> str:
    """Say what is missing, wrong or found too often; empty where the results are equal."""
    lines = []
    if expected.columns is not None and expected.columns != found.columns:
        lines.append(f"columns: {found.columns} instead of {expected.columns}")
    lines += [f"missing: {' '.join(row)} ×{n}" for row, n in sorted((expected.rows - found.rows).items())]
    lines += [
        f"not expected: {' '.join(row)} ×{n}" for row, n in sorted((found.rows - expected.rows).items())
    ]
    return "\n".join(lines)
