"""Sources of an append: an Arrow table, a stream of batches, or the path of lake files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from cerise.errors import StoreError
from cerise.files.folder import cause_of
from cerise.files.lake import NotDirect, open_lake
from cerise.files.reader import Reading
from cerise.files.scan import ROW, Scan

STEP = 1 << 16  # events between two reports of progress
Progress = Callable[[int, int | None], None]


class AppendSource(NamedTuple):
    """Events in the order of arrival, a table at a time, and their number; None: unknown."""

    columns: pa.Schema
    tables: Iterator[pa.Table]
    rows: int | None = None


def source_of(events: Any) -> AppendSource:
    """Return the source of an append.

    Args:
        events: an object with Arrow's C stream interface (a table of pyarrow, pandas or Polars, a
            RecordBatchReader), or the path of a Parquet file, a folder of them or a Delta table.

    Raises:
        StoreError: `events` is neither, or cannot be read.
    """
    if isinstance(events, str | Path):
        return _lake(events)
    if isinstance(events, pa.RecordBatch):
        events = pa.Table.from_batches([events])
    if isinstance(events, pa.Table):
        return AppendSource(events.schema, iter([events]), len(events))
    if hasattr(events, "__arrow_c_stream__"):
        reader = _read(lambda: pa.RecordBatchReader.from_stream(events))
        return AppendSource(reader.schema, _tables(reader))
    raise StoreError(
        f"a {type(events).__name__} cannot be appended",
        hint="give an Arrow table, a RecordBatchReader, or the path of Parquet files or of a Delta table",
    )


def _tables(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    while (batch := _read(lambda: next(reader, None))) is not None:
        yield pa.Table.from_batches([batch])


def _read(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except (pa.ArrowException, OSError) as error:
        raise StoreError(
            f"the events to append cannot be read: {cause_of(error)}; nothing was appended",
            hint="check their source, and append again",
        ) from error


def _lake(path: str | Path) -> AppendSource:
    try:
        lake = open_lake(path)
    except NotDirect as error:
        raise StoreError(f"cannot read {path}: {error}", hint="append it as a Spark DataFrame") from error
    reading = Reading(lake.root, dict(enumerate(lake.files)), lake.columns, tuple(lake.columns.names))
    groups = lake.list_groups()
    tables = (table.drop_columns([ROW]) for table in Scan(reading, groups).rows())
    return AppendSource(lake.columns, tables, sum(group.span.rows for group in groups))


def report_progress(source: AppendSource, progress: Progress) -> AppendSource:
    """Return a source that reports how many of its events were read, and their total."""

    def tables() -> Iterator[pa.Table]:
        done = 0
        for table in source.tables:
            for start in range(0, len(table), STEP):
                part = table.slice(start, STEP)
                yield part
                done += len(part)
                progress(done, source.rows)

    return source._replace(tables=tables())


def regroup(tables: Iterable[pa.Table], rows: int, size: int | None = None) -> Iterator[pa.Table]:
    """Yield the same rows in tables of equal length; the last may have fewer rows, but at least one.

    Args:
        tables: the rows.
        rows: how many rows a table has.
        size: how many bytes end a table early; None: none.
    """
    waiting: list[pa.Table] = []
    held = 0
    for table in (part for whole in tables for part in _split(whole, size)):
        start = 0
        while len(table) - start >= rows - held:
            yield pa.concat_tables([*waiting, table.slice(start, rows - held)])
            start += rows - held
            waiting, held = [], 0
        if start < len(table):
            waiting.append(table.slice(start))
            held += len(table) - start
        if size is not None and sum(each.nbytes for each in waiting) >= size:
            yield pa.concat_tables(waiting)
            waiting, held = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def _split(table: pa.Table, size: int | None) -> Iterator[pa.Table]:
    rows = len(table) if size is None or table.nbytes <= size else len(table) * size // table.nbytes
    for start in range(0, len(table), max(1, rows)):
        yield table.slice(start, max(1, rows))
