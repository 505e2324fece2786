"""The tasks of a stream on Spark: cut events into blobs, step the state of buckets, decode matches."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from cerise.errors import CeriseError
from cerise.spark.state_homes import (
    GroupHome,
    SparkStateHome,
    StateVariables,
    batch_at_hand,
    drop_groups,
    number_at_hand,
    query_at_hand,
    task_at_hand,
)
from cerise.spark.task_errors import encode
from cerise.store.table.failpoints import mark_step
from cerise.streaming.entry import CONTROL
from cerise.streaming.query_groups import BLOBS, StreamCutter
from cerise.streaming.state.bucket_task import Blob, BucketTask
from cerise.streaming.state.state_files import FileStateHome

Batches = Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class StreamCutTask:
    """Cuts the rows of a source into blobs, each for one bucket.

    Attributes:
        cutter: cuts tables.
        has_now: whether the last column is the time of the batch by the clock on the wall.
    """

    cutter: StreamCutter
    has_now: bool

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of the rows, and for each bucket the latest time of the task."""
        rows = iter(batches)
        first = next(rows, None)
        if first is None:
            yield from self.cutter((), None)
            return
        now = first.column(first.num_columns - 1)[0].as_py() if self.has_now and len(first) else None

        def tables() -> Iterator[pa.Table]:
            yield self._settle(first)
            yield from map(self._settle, rows)

        yield from self.cutter(tables(), now)

    def _settle(self, batch: pa.RecordBatch) -> pa.Table:
        """Return rows in the types that the queries are bound to: Spark's time zone may differ."""
        columns = self.cutter.roles.columns
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(batch.columns[: len(columns)], columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=columns)


@dataclass(frozen=True)
class LakeCutTask:
    """Cuts the tables that a task reads from lake files into blobs, before Spark sees a row."""

    cutter: StreamCutter

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of the tables, and for each bucket the latest time of the task."""
        columns = self.cutter.roles.columns
        yield from self.cutter((each.select(columns.names).cast(columns) for each in tables), None)


@dataclass(frozen=True)
class HeartbeatTask:
    """Tells every bucket the time of the batch, also if no source has events."""

    keys: tuple[int, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                rows = len(self.keys)
                now = batch.column(0)[len(batch) - 1].as_py()
                columns = [
                    pa.array(self.keys, pa.int32()), pa.nulls(rows, pa.string()), pa.nulls(rows, pa.int64()),
                    pa.array([now] * rows, pa.int64()), pa.nulls(rows, pa.binary()),
                ]  # fmt: skip
                yield pa.RecordBatch.from_arrays(columns, schema=BLOBS)
                return


@dataclass(frozen=True)
class ControlTask:
    """Tells every bucket the changes of queries."""

    keys: tuple[int, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield for each bucket the changes as JSON."""
        changes = [_to_control(row) for batch in batches for row in batch.to_pylist()]
        if changes:
            rows, text = len(self.keys), json.dumps(changes).encode()
            columns = [
                pa.array(self.keys, pa.int32()), pa.array([CONTROL] * rows), pa.nulls(rows, pa.int64()),
                pa.nulls(rows, pa.int64()), pa.array([text] * rows, pa.binary()),
            ]  # fmt: skip
            yield pa.RecordBatch.from_arrays(columns, schema=BLOBS)


def _to_control(row: dict[str, Any]) -> dict[str, Any]:
    """Return a change of queries as the fields of `Control`; an unclear one becomes a query that is wrong."""
    op, name = str(row["op"]).strip().lower(), str(row["name"])
    if op not in ("add", "remove"):
        wrong = f"-- op is '{row['op']}': write add or remove"
        return {"add": True, "name": name, "query": wrong}
    try:
        params = json.loads(row["params"]) if row["params"] else None
    except ValueError:
        return {"add": True, "name": name, "query": f"-- params are not JSON: {row['params']}"}
    return {"add": op == "add", "name": name, "query": row["query"] or "", "params": params, "at": row["at"]}


class BucketProcessor(StatefulProcessor):
    """Steps buckets whose state rests in Spark's own state store.

    The first buckets of all groups of queries share a state, so do the second ones, and so on. So a state
    knows which groups the stream has had in the batch before.
    """

    def __init__(self, task: BucketTask) -> None:
        self._task = task

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._variables = StateVariables.of(handle)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Yield the matches and the reports of the buckets of a state; the state is kept first."""
        home = SparkStateHome(self._variables)
        blobs: dict[int, list[Blob]] = defaultdict(list)
        for row in rows:
            events = None if row["events"] is None else bytes(row["events"])
            blobs[row["bucket"]].append(Blob(row["source"], row["top"], row["now"], events))
        found: list[pa.RecordBatch] = []
        try:
            for bucket in sorted(blobs, key=self._task.keys.index):
                group = GroupHome(home, self._task.group_of(bucket).division.key)
                found += self._task.run(bucket, blobs.pop(bucket), group, query_at_hand(), number_at_hand())
        except CeriseError as error:
            error.add_note(encode(error))
            raise error from None
        drop_groups(home, {each.division.key for each in self._task.groups})
        home.commit()
        mark_step("state committed")
        for batch in found:
            yield from (Row(**each) for each in batch.to_pylist())
        mark_step("rows given")

    def close(self) -> None:
        """Do nothing: the live bucket stays in the cache of the process."""


@dataclass(frozen=True)
class FileStateTask:
    """Steps buckets whose state rests in versioned files.

    Attributes:
        task: the step of a bucket.
        path: the folder of the state.
        kept: how many batches can be replayed.
    """

    task: BucketTask
    path: str
    kept: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield the matches and the reports of all buckets of a task; each state is kept first."""
        blobs: dict[int, list[Blob]] = defaultdict(list)
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                blobs[row[0]].append(Blob(*row[1:]))
        query, batch_number = batch_at_hand()
        if (
            not blobs
        ):  # a batch without data, for an operator after this one: the next batch needs its version
            blobs[self.task.keys[task_at_hand()]] = []
        for key in sorted(blobs):
            number = self.task.keys.index(key)
            home = FileStateHome(
                self.path, query, number, batch_number, kept=self.kept, buckets=len(self.task.keys)
            )
            found = list(self.task.run(key, blobs.pop(key), home, query, batch_number))
            home.commit()
            mark_step("state committed")
            yield from found
            mark_step("rows given")
