"""Clauses without PARTITION BY, cut by time as on Spark, but run here: what tasks give and should give."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.files.lake import open_lake
from cerise.files.scan import ROW
from cerise.kinds import plain_table
from cerise.pattern.row_pattern import BoundRows
from cerise.run.find import Exchanged, Sliced, decide
from cerise.run.question import Questions
from cerise.run.row_search import RowClause as Question
from cerise.sources import FilesSource
from tests.support.cases.row_harness import run_reference
from tests.support.cases.tasks_here import HandedOver, TasksHere
from tests.support.strategies.rows import TIMES, Family, Writer, table_of

Rows = Counter[tuple[str, ...]]


def rows_of(parts: Iterable[pa.RecordBatch | pa.Table]) -> Rows:
    """Rows in any order, by the names of their columns."""
    found: Rows = Counter()
    for part in parts:
        order = sorted(range(part.num_columns), key=lambda i: part.schema.names[i])
        columns = [map(repr, part.column(i).to_pylist()) for i in order]
        found.update(zip(*columns, strict=True))
    return found


SMALL = Limits(cut_events=2, blob_events=3, output_rows=2)


def by_reference(bound: BoundRows, table: pa.Table) -> Rows:
    """The answer, by the law."""
    return rows_of([run_reference(bound, table)])


def from_files(
    bound: BoundRows, table: pa.Table, count: int, *, size: int = 2, limits: Limits = SMALL
) -> Rows | None:
    """What tasks give that read files of five rows in row groups of some; None where they are not cut."""
    options = Options(partitions=count, limits=limits)
    with tempfile.TemporaryDirectory() as folder:
        for number, start in enumerate(range(0, max(len(table), 1), 5)):
            pq.write_table(table.slice(start, 5), Path(folder) / f"{number:06}.parquet", row_group_size=size)
        asked = Questions.of([Question(bound, options, atoms=True)])
        plan = decide(FilesSource(open_lake(folder)), asked, options, TasksHere(count))
        cut = isinstance(plan, Sliced) and len(plan.slices) > 1
        return rows_of([TasksHere(count).run(plan)[0]]) if cut else None


def exchanged(bound: BoundRows, table: pa.Table, count: int, *, limits: Limits = SMALL) -> Rows | None:
    """What tasks give that get the rows of a frame by time; None where one gets them all."""
    options = Options(partitions=count, limits=limits)
    rows = plain_table(table).append_column(ROW, pa.array(range(len(table)), pa.int64()))
    asked = Questions.of([Question(bound, options, atoms=True)])
    plan = decide(HandedOver(rows), asked, options, TasksHere(count))
    assert isinstance(plan, Exchanged)
    return None if plan.targets.length is None else rows_of([TasksHere(count).run(plan)[0]])


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
