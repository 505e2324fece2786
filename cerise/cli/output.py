"""Prints matches as a table, or writes them as JSON lines, CSV or Parquet."""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from cerise.cli.match_view import MatchView, console, json_text, look
from cerise.errors import CeriseError, StoreError
from cerise.pattern.output import EXACT
from cerise.pattern.query import Per, Query, Totals, absent_names, variables

SUFFIXES = {
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".txt": "table",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """The format of the output, its file if any, and how many rows a table shows."""

    format: str
    output: str | None
    rows: int

    @classmethod
    def of(cls, format_: str | None, output: str | None, rows: int) -> OutputTarget:
        """Return the target; without a format, by the suffix of the output file."""
        suffix = Path(output).suffix.lower() if output else ".txt"
        if format_ is None and suffix not in SUFFIXES:
            raise CeriseError(f"no format is known for {output}", hint="say --format json, csv or parquet")
        chosen = format_ or SUFFIXES[suffix]
        if chosen == "parquet" and output is None:
            raise CeriseError(
                "Parquet cannot be printed", hint="say where to put it: --output matches.parquet"
            )
        return cls(chosen, output, rows)


def deliver(matches: pa.Table, target: OutputTarget, view: MatchView | None) -> None:
    """Write matches to standard output or to a file; without a view, the rows of any table."""
    if target.format != "table":
        _to(target.output, lambda file: _WRITERS[target.format](matches, file))
    elif target.output is not None:
        text = look(matches, view, target.rows or len(matches))
        save(target.output, lambda file: console(file).print(text), mode="w")
    elif len(matches):
        console(sys.stdout).print(look(matches, view, target.rows or len(matches)))


def summary(matches: pa.Table, where: str, elapsed: float, target: OutputTarget) -> str:
    """Say how many matches, or rows of totals, were found, in which events, and in how many seconds."""
    counted = matches.schema.names == ["count"] and pa.types.is_decimal(matches.schema.field(0).type)
    what = ("match", "matches") if counted or "match_id" in matches.schema.names else ("row", "rows")
    number = matches["count"][0].as_py() if counted else len(matches)
    text = f"{number:,} {what[number != 1]}{where}, {elapsed:.2f} s"
    if target.format == "table" and not counted and 0 < target.rows < number:
        text += f"; the first {target.rows} are shown, --limit-rows 0 shows all"
    return text


def of_events(events: Any) -> str:
    """Say how many events were searched, if that is known."""
    return f" in {events.num_rows:,} events" if isinstance(events, pa.Table) else ""


def in_order(matches: pa.Table) -> pa.Table:
    """Sort matches, or totals, by time, so that every run writes them in the same order."""
    known = ("first_time", "last_time", "window_start", "match_id")
    keys = [name for name in known if name in matches.schema.names]
    return matches.sort_by([(name, "ascending") for name in keys]) if keys else matches


def _to(output: str | None, writer: Callable[[IO[Any]], None]) -> None:
    if output is not None:
        save(output, writer)
        return
    writer(sys.stdout.buffer)
    sys.stdout.buffer.flush()


def save(output: str, writer: Callable[[IO[Any]], None], *, mode: str = "wb") -> None:
    """Write a file completely or, if anything fails, not at all."""
    target = Path(output)
    fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with fresh.open(mode) as file:
            writer(file)
        fresh.replace(target)
    except OSError as error:
        raise StoreError(
            f"cannot write {output}: {error.strerror or error}",
            hint="is there space, and may you write there?",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink()


def _write_json(matches: pa.Table, file: IO[bytes]) -> None:
    for batch in matches.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            file.write(json_text(row).encode() + b"\n")


def _write_csv(matches: pa.Table, file: IO[bytes], *, header: bool = True) -> None:
    pa.csv.write_csv(flatten(matches), file, pa.csv.WriteOptions(include_header=header))


def _write_parquet(matches: pa.Table, file: IO[bytes]) -> None:
    pq.write_table(matches, file)


_WRITERS = {"json": _write_json, "csv": _write_csv, "parquet": _write_parquet}


def write_rows(matches: pa.Table, file: IO[bytes], format_: str, *, header: bool = True) -> None:
    """Write matches to an open file, as JSON lines, CSV or Parquet; `header` is for CSV."""
    if format_ == "csv":
        _write_csv(matches, file, header=header)
    else:
        _WRITERS[format_](matches, file)


def flatten(matches: pa.Table) -> pa.Table:
    """Return matches without nesting: a column per field of a struct, and lists as JSON text."""
    while any(map(pa.types.is_struct, matches.schema.types)):
        matches = matches.flatten()
    columns = [_flat(column) for column in matches.columns]
    return pa.Table.from_arrays(columns, names=matches.schema.names)


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    types = pa.types
    simple = types.is_primitive(column.type) and not types.is_duration(column.type)
    if simple or any(test(column.type) for test in (types.is_string, types.is_decimal, types.is_null)):
        return column
    texts = [None if value is None else json_text(value) for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def empty_result(query: Query) -> pa.Table:
    """Return the result of a query over no events, whose columns are unknown."""
    if isinstance(query.returns, Totals):
        return _no_totals(query, query.returns)
    absent = absent_names(query.pattern)
    bound = [var.name for var in variables(query.pattern) if var.name not in absent]
    columns = [item.name for item in query.returns] if query.returns is not None else bound
    return pa.table({name: pa.nulls(0) for name in ("match_id", "first_time", "last_time", *columns)})


def _no_totals(query: Query, totals: Totals) -> pa.Table:
    rows = 1 if totals.per is Per.ALL else 0
    names = [
        *(["last_time"] if totals.per is Per.EVENT else []),
        *(".".join(path) for path in query.partition_by if totals.per.partition),
        *(["window_start", "window_end"] if totals.per.window else []),
    ]
    columns = {name: pa.nulls(0) for name in names}
    for each in totals.items:
        counted = pa.array([0] * rows, EXACT)
        columns[each.name] = counted if each.function == "count" else pa.nulls(rows)
    return pa.table(columns)
