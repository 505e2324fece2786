"""Clauses without PARTITION BY, cut by time as on Spark, but run here: what tasks give and should give."""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.reference.rows import find_rows, to_matches
from cerise.engines.results.value_codes import partitions
from cerise.engines.rows.output import to_atoms
from cerise.engines.rows.prepare import prepare
from cerise.files.lake import open_lake
from cerise.files.reader import Reading
from cerise.pattern.row_pattern import BoundRows
from cerise.plan.row_slices import is_chained
from cerise.spark.row_plan import RowSlices, plan_exchange, plan_files
from cerise.spark.row_slices import RowCandidatesTask, RowChainTask, SliceRowsTask, TimeRowsTask
from cerise.spark.rows import CutRows, handed_columns
from tests.row_strategies import TIMES, Family, Writer, table_of

Rows = Counter[tuple[str, ...]]
ORDER = [("slice", "ascending"), ("part", "ascending")]


def rows_of(parts: Iterable[pa.RecordBatch | pa.Table]) -> Rows:
    """Rows in any order, by the names of their columns."""
    found: Rows = Counter()
    for part in parts:
        names = sorted(part.schema.names)
        columns = [map(repr, part.column(name).to_pylist()) for name in names]
        found.update(zip(*columns, strict=True))
    return found


SMALL = Limits(cut_events=2, blob_events=3, output_rows=2)


def by_reference(bound: BoundRows, table: pa.Table) -> Rows:
    """What measures are to be computed from, by the law."""
    prepared = prepare(bound, table)
    offsets = partitions(bound, prepared)
    matches = to_matches(bound, find_rows(bound, prepared), offsets)
    return rows_of([to_atoms(bound, prepared, offsets, matches)])


def from_files(bound: BoundRows, table: pa.Table, count: int, *, size: int = 2) -> Rows | None:
    """What tasks give that read files of five rows in row groups of some; None where they are not cut."""
    with tempfile.TemporaryDirectory() as folder:
        for number, start in enumerate(range(0, max(len(table), 1), 5)):
            pq.write_table(table.slice(start, 5), Path(folder) / f"{number:06}.parquet", row_group_size=size)
        lake, names = open_lake(folder), handed_columns(bound)
        reading = Reading(lake.root, dict(enumerate(lake.files)), lake.columns, names)
        way = plan_files(lake, bound, Options(partitions=count, limits=SMALL), reading, 2)
        return rows_of(_tasks(way)) if isinstance(way, RowSlices) else None


def _tasks(way: RowSlices) -> Iterator[pa.RecordBatch]:
    numbers = [[pa.record_batch({"id": [number]})] for number in range(len(way.slices))]
    if not is_chained(way.bound):
        yield from (each for number in numbers for each in SliceRowsTask(way)(number))
        return
    sent = [each for number in reversed(numbers) for each in RowCandidatesTask(way)(number)]
    yield from RowChainTask(way)(pa.Table.from_batches(sent).sort_by(ORDER).to_batches(max_chunksize=2))


def exchanged(bound: BoundRows, table: pa.Table, count: int) -> Rows | None:
    """What tasks give that get the rows of a frame by time; None where one gets them all."""
    targets = plan_exchange(bound, Options(partitions=count), 2).targets
    if targets.length is None:
        return None
    names = handed_columns(bound)
    columns = pa.schema([pa.field(name, bound.type_of(name)) for name in names])
    given = table.select(list(names)).cast(columns)
    by_task: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for batch in given.to_batches(max_chunksize=3)[::-1]:
        for blob in CutRows(bound, columns, targets, limits=SMALL)([batch]):
            by_task[blob.column(0)[0].as_py()].append(blob)
    task = TimeRowsTask(bound, Options(limits=SMALL), targets)
    return rows_of(each for blobs in by_task.values() for each in task(blobs))


# ---- random clauses


class CutWriter(Writer):
    """Writes clauses that mostly can be cut."""

    def __init__(self, rng: Random, time: pa.DataType) -> None:
        super().__init__(rng, time)
        self.within = self.within or self.window()

    def window(self) -> str:
        return super().window() if self.chance(40) else super().window().replace(" EMIT TIMEOUTS", "")

    def statement(self) -> str:
        return re.sub(r"PARTITION BY [^\n]*\n\s*", "", super().statement())


def cut_family(number: int, sizes: Callable[[Random], tuple[int, ...]]) -> Family:
    """The clause of a number, and tables for it."""
    rng = Random(number)
    time = rng.choice(TIMES)
    dialect = "flink" if rng.random() < 0.15 else "standard"
    sql = CutWriter(rng, time).statement()
    return Family(number, sql, dialect, tuple(table_of(rng, time, size) for size in sizes(rng)))
