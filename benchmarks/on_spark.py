"""Subjects on Spark: queries over files and DataFrames, and the least that any way must do there.

`scan` reads what a query over files reads, and `hand_over` brings to Python what a query over a DataFrame
brings there; neither matches anything. The session is running, and has `cores`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from binding import Work, roles

OPTIONS = ("cores", "memory")  # of the session


def session(work: Work) -> Any:
    """Return a running session."""
    import cerise

    return cerise.session(**{name: work["options"].get(name) for name in OPTIONS})


def lake_count(work: Work) -> Callable[[], int]:
    """`cerise.count` on the path of the file: planning, reading, matching, adding up."""
    import cerise

    session(work)
    given = roles(work) | {"options": _options(work)}
    return lambda: cerise.count(work["path"], work["query"]["text"], **given, spark=True)


def lake_write(work: Work) -> Callable[[], Path]:
    """`cerise.find` on the path of the file, until the matches are written as Parquet."""
    import cerise

    session(work)
    folder = tempfile.TemporaryDirectory(prefix="cerise-bench-")  # goes away with the call
    paths = (Path(folder.name, str(number)) for number in count())
    given = roles(work) | {"options": _options(work)}

    def call(_keep: Any = folder) -> Path:
        path = next(paths)
        cerise.find(work["path"], work["query"]["text"], **given, spark=True).write.parquet(str(path))
        return path

    return call


def scan(work: Work) -> Callable[[], int]:
    """Read, in as many tasks, the columns and row groups that counting the matches reads; with pyarrow."""
    spark = session(work)
    asked, plan = _planned(work, work["path"], counting=True)
    reading = plan.access.reading
    portions = [_row_groups(reading, groups) for groups in _groups(plan)]
    time = asked.bounds[0].schema.time if work["options"].get("sort") else None
    return only_read(spark, portions, reading.reads, reading.coded, time)


def only_read(
    spark: Any,
    portions: Sequence[Sequence[tuple[str, int]]],
    columns: Sequence[str],
    coded: Sequence[str],
    time: str | None = None,
) -> Callable[[], int]:
    """Return what reads row groups in tasks, and counts their rows; see `_ReadOnly`."""
    task, tasks = _ReadOnly(portions, columns, coded, time), len(portions)
    return lambda: _sum(_range(spark, tasks).mapInArrow(_by_value(task), "rows long"))


def frame(work: Work) -> Callable[[], Any]:
    """`cerise.find` on a cached DataFrame, matches brought to the driver; or `cerise.count`."""
    import cerise

    events, given = _cached(work), roles(work) | {"options": _options(work)}
    if work["options"].get("count"):
        return lambda: cerise.count(events, work["query"]["text"], **given)
    return lambda: cerise.find(events, work["query"]["text"], **given).toArrow()


def hand_over(work: Work) -> Callable[[], int]:
    """Bring to Python the rows and columns of a cached DataFrame that the query needs, and count them."""
    asked, _ = _planned(work, _cached(work), counting=work["options"].get("count", False))
    rows = asked.source.hand_over(asked.questions.needs)
    return lambda: _sum(rows.mapInArrow(_by_value(_count), "rows long"))


def rows(read: int) -> dict[str, Any]:
    """Return what a subject that matches nothing has to tell."""
    return {"rows": read}


@dataclass(frozen=True, slots=True)
class _ReadOnly:
    """A task that reads row groups and does nothing with them, or finds the order of their times.

    Attributes:
        portions: for each task its row groups, as (path, number).
        columns: the columns that are read.
        coded: those of them whose strings are read as codes.
        time: the column to sort by.
    """

    portions: Sequence[Sequence[tuple[str, int]]]
    columns: Sequence[str]
    coded: Sequence[str]
    time: str | None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            yield pa.RecordBatch.from_pydict({"rows": [sum(self._read(self.portions[number]))]})

    def _read(self, groups: Sequence[tuple[str, int]]) -> Iterator[int]:
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        files: dict[str, Any] = {}
        for path, number in groups:
            if path not in files:
                files[path] = pq.ParquetFile(pa.memory_map(path), read_dictionary=list(self.coded))
            table = files[path].read_row_group(number, columns=list(self.columns), use_threads=False)
            if self.time is not None:
                np.argsort(table[self.time].cast(pa.int64()).to_numpy(), kind="stable")
            yield len(table)


def _count(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


def _by_value(task: Any) -> Any:
    """Let a task travel to the workers, which cannot import this module."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return task


def _range(spark: Any, tasks: int) -> Any:
    return spark.range(0, tasks, 1, tasks)


def _sum(numbers: Any) -> int:
    return sum(numbers.toArrow().column(0).to_pylist())


def _cached(work: Work) -> Any:
    events = session(work).read.parquet(work["path"]).cache()
    events.count()
    return events


def _options(work: Work) -> Any:
    import cerise

    ours = cerise.Options.__slots__
    return cerise.Options(**{name: value for name, value in work["options"].items() if name in ours})


def _planned(work: Work, events: Any, *, counting: bool) -> tuple[Any, Any]:
    """Return the query with its events, and how its matches would be found, or counted."""
    from cerise.pattern.query import Count
    from cerise.run.find import decide
    from cerise.sources import How, Roles, ask, parse

    query = parse(work["query"]["text"])
    if counting:
        query = replace(query, returns=Count())
    how = How(_options(work), spark=True if isinstance(events, str) else None)
    asked = ask(events, query, Roles(**roles(work)), how)
    return asked, decide(asked.source, asked.questions, asked.options, asked.runner)


def _groups(plan: Any) -> list[Sequence[Any]]:
    """Return the row groups of each task that reads."""
    access = plan.access
    if not hasattr(plan, "slices"):
        return list(access.portions(6))
    if plan.slices == (None,):
        return [access.groups]
    return [[access.groups[i] for i in each.reads] for each in plan.slices]


def _row_groups(reading: Any, groups: Iterable[Any]) -> list[tuple[str, int]]:
    return [(reading.files[each.file].path, each.number) for each in groups]
