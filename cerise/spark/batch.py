"""A query over a Spark DataFrame: one exchange by partition, then matching inside Python tasks.

The wiring only: what a task does is `Task`, a function from Arrow batches to Arrow batches. Columns are
written as SQL throughout, so the same code runs on classic and on Connect DataFrames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.functions import expr
from pyspark.sql.types import StructType

from cerise.engines.base import Options
from cerise.engines.choose import choose
from cerise.engines.identity import hash_rows
from cerise.engines.output import to_result
from cerise.errors import DataError, UnsupportedError
from cerise.events import EventBatch, Path, raw_column, read_times
from cerise.kinds import Kind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Count
from cerise.spark.frames import quote_name, quoted, result_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_AT_ONCE = 65_536
KEY = "__cerise_key_"


def find(events: DataFrame, bound: Bound, options: Options) -> DataFrame:
    """Return the matches of a query as a lazy DataFrame."""
    if isinstance(events, StructType):
        raise UnsupportedError("a schema has no events to find anything in", hint="give the DataFrame itself")
    schema = result_schema(bound, events)
    if bound.source is not None:
        events = find(events, bound.source, options)
    matches = _exchange(events, bound, options).mapInArrow(Task(bound, options), schema)
    return _summed(matches, bound.columns[0].name) if isinstance(bound.query.returns, Count) else matches


@dataclass(frozen=True, slots=True)
class Task:
    """What one task does: its rows come sorted by partition, then in stream order."""

    bound: Bound
    options: Options

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the matches of whole partitions, some thousand rows at a time."""
        columns = pa.schema([self.bound.schema.columns.field(name) for name in self.bound.needs])
        tables = (_settled(batch, columns) for batch in batches)
        for table in whole_partitions(tables, self.bound):
            yield from self._matches(table).to_batches(max_chunksize=ROWS_AT_ONCE)

    def _matches(self, table: pa.Table) -> pa.Table:
        _reject_null_times(table, self.bound)
        matcher = choose(self.bound, self.options).start(self.bound, self.options)
        # Rows of one partition are in stream order, so a stable sort by time keeps that order.
        order = np.argsort(read_times(table, self.bound.schema), kind="stable")
        events = EventBatch.in_order(table.take(pa.array(order)), self.bound.schema)
        return to_result(chain(matcher.feed(events), matcher.flush()), self.bound)


def _settled(batch: pa.RecordBatch, columns: pa.Schema) -> pa.Table:
    """Return the needed columns in the types that the query was bound to: Spark's zone may be another."""
    arrays = [batch.column(i) for i in range(len(columns))]
    cast = [
        a if a.type == field.type else a.cast(field.type) for a, field in zip(arrays, columns, strict=True)
    ]
    return pa.Table.from_arrays(cast, schema=columns)


def whole_partitions(tables: Iterable[pa.Table], bound: Bound) -> Iterator[pa.Table]:
    """Join and cut a sorted sequence of tables so that each holds whole partitions, many if small."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(len(each) for each in waiting) < ROWS_AT_ONCE or not bound.partition:
            continue
        joined = pa.concat_tables(waiting)
        border = _last_border(joined, bound)
        if border:
            yield joined.slice(0, border)
        waiting = [joined.slice(border)]
    if waiting:
        yield pa.concat_tables(waiting)


def _last_border(table: pa.Table, bound: Bound) -> int:
    """Return the row at which the last partition starts."""
    keys = hash_rows(table, bound.schema, bound.partition)
    changes = np.flatnonzero(keys[1:] != keys[:-1])
    return int(changes[-1]) + 1 if len(changes) else 0


def _reject_null_times(table: pa.Table, bound: Bound) -> None:
    """A DataFrame's rows have no numbers: show the rows themselves."""
    times = raw_column(table, (bound.schema.time,))
    if times.null_count:
        shown = table.filter(times.is_null()).slice(0, 3).to_pylist()
        raise DataError(
            f"{times.null_count} events have no time: '{bound.schema.time}' is null, as in {shown}",
            hint=f"filter them out first: df.where('{quoted((bound.schema.time,))} IS NOT NULL')",
        )


def _exchange(events: DataFrame, bound: Bound, options: Options) -> DataFrame:
    """Bring the rows of each partition together, in stream order, with only the columns that are needed."""
    for path in bound.not_null:
        events = events.where(f"{quoted(path)} IS NOT NULL")
    keys = [f"{KEY}{i}" for i in range(len(bound.partition))]
    columns = [f"{quoted((name,))} AS {_safe(name, i)}" for i, name in enumerate(bound.needs)]
    partition = [f"{_key(path, bound)} AS {key}" for path, key in zip(bound.partition, keys, strict=True)]
    chosen = events.selectExpr(*columns, *partition)
    if not keys:
        parted = chosen.repartition(1)
    elif options.partitions:
        parted = chosen.repartition(options.partitions, *keys)
    else:
        parted = chosen.repartition(*keys)
    return parted.sortWithinPartitions(*(expr(each) for each in (*keys, *_stream_order(bound))))


def _stream_order(bound: Bound) -> list[str]:
    """Return what orders the events of one partition (S1.2), as SQL over the exchanged columns."""
    paths = dict.fromkeys([(bound.schema.time,), *((name,) for name in bound.schema.order), *bound.ties])
    roots = {name: _safe(name, i) for i, name in enumerate(bound.needs)}
    columns = {path: ".".join([roots[path[0]], *map(quote_name, path[1:])]) for path in paths}
    return [_by_code_point(column, bound.schema.kind(path)) for path, column in columns.items()]


def _by_code_point(column: str, kind: Kind) -> str:
    """Return a column as our law compares it, whatever its collation (S4.6)."""
    return f"{column} COLLATE UTF8_BINARY" if kind is Kind.STRING else column


def _safe(name: str, number: int) -> str:
    """Return the name of an exchanged column; mapInArrow stumbles over dots and backticks."""
    return f"__cerise_column_{number}" if set(name) & {".", "`"} else quote_name(name)


def _key(path: Path, bound: Bound) -> str:
    """Return a partition column as SQL; Spark hashes 0.0 and -0.0 apart, though they are equal."""
    name, kind = quoted(path), bound.schema.kind(path)
    if kind is Kind.FLOAT:
        return f"IF({name} = 0, CAST(0 AS DOUBLE), CAST({name} AS DOUBLE))"
    return _by_code_point(name, kind)


def _summed(counts: DataFrame, name: str) -> DataFrame:
    """Return one row: the sum of the tasks' counts, 0 where there are none."""
    summed = f"coalesce(sum({quote_name(name)}), 0L) AS {quote_name(name)}"
    return counts.agg(expr(summed))
