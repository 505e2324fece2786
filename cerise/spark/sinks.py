"""Writes the batches of a stream into a Delta table or an event store, each exactly once, without a JVM jar.

Tasks write Parquet files, the driver commits them with the number of the batch. Tasks with few rows hand
them to the driver instead, which writes one file of them.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from cerise.errors import CeriseError, PlanError, StoreError, UnsupportedError
from cerise.files import delta_log
from cerise.files.folder import Folder
from cerise.spark.frames import arrow_schema
from cerise.spark.task_errors import encode, map_batches, translate_errors
from cerise.spark.tasks import FILES_PER_TASK, ROWS_PER_TASK, Batches, pieces_of
from cerise.store.table.batch_table import BatchTable, Begun
from cerise.store.table.commits import StreamBatch
from cerise.store.table.data_file import AppendPart, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

QUERY_ID = "sql.streaming.queryId"  # a local property that Spark sets for the batches of a stream
FEW_BYTES = 1 << 18  # a task with so few bytes hands its rows to the driver
FILE_ROWS = 1 << 20
OUTCOME = StructType([
    StructField("task", LongType()), StructField("written", BinaryType()), StructField("rows", BinaryType()),
])  # fmt: skip


def into(path: Any, *, name: str | None = None) -> Callable[[DataFrame, int], None]:
    """Return a function for `writeStream.foreachBatch` that writes each batch exactly once.

    The target is a Delta table, which the first batch creates, or an event store: then the rows are events,
    are indexed, and can be searched in turn. A batch that comes again after a crash is recognised. So
    `alerts.writeStream.foreachBatch(cerise.into("lake/alerts"))`, with a checkpoint, writes each row once.

    Args:
        path: the path or URI of a Delta table or of a store, or a `Store`.
        name: tells several sinks of one streaming query into one table apart. On Spark Connect, which does
            not tell the id of the query, it must be given, and stands for the query and its checkpoint: with
            a new checkpoint, give a new name.

    Raises:
        StoreError: a batch has other columns than the table, or cannot be written.
        UnsupportedError: `path` is neither a path nor a store, or the table wants more of its writers.
    """
    if name is not None and not (isinstance(name, str) and name):
        raise PlanError(f"name is {name!r}", hint="give a text that names this sink in its table")
    if hasattr(type(path), "view_of"):  # a Store, whose module comes after this one
        writing = path._table.writing
        return Sink(writing.root, name, writing.index_root)
    if not isinstance(path, str | Path):
        raise UnsupportedError(
            f"a stream cannot be written into a {type(path).__name__}", hint="give a path or a cerise.Store"
        )
    root = Folder.of(path).root
    delta_log.check_place(root)
    return Sink(root, name)


@dataclass(frozen=True, slots=True)
class Sink:
    """Writes batches into a table.

    Attributes:
        root: the path or URI of the table.
        name: the name of the sink; None: the id of the streaming query is enough.
        index: the folder of a store's index, if not beside the data.
    """

    root: str
    name: str | None = None
    index: str | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a batch, unless the table has it."""
        try:
            self._write(batch, number)
        except CeriseError as error:  # crosses the JVM as text
            error.add_note(encode(error))
            raise

    def _write(self, batch: DataFrame, number: int) -> None:
        known = StreamBatch(self._app(batch), number)
        columns = arrow_schema(batch)
        table = BatchTable.open(self.root, self.index, columns)
        if self._is_known(table, known):
            log.info("%s has batch %d of %s: it is left out", self.root, number, known.app)
            table.tidy_up(known)
            with translate_errors():  # operators before the sink keep their state, and Spark checks that
                batch.write.format("noop").mode("overwrite").save()
            return
        begun = table.begin(known)
        with translate_errors():
            done = map_batches(batch, SinkTask(table, begun.append), OUTCOME, columns.names).toArrow()
        if table.commit(_gather(done, table, begun), known, begun):
            table.seal_if_due()

    def _app(self, batch: DataFrame) -> str:
        """Return the name under which the table counts the batches of this stream."""
        query = query_id(batch)
        if query is None and self.name is None:
            raise PlanError(
                "Spark does not tell the id of this streaming query, by which its batches are known",
                hint="on Spark Connect, or outside of foreachBatch, give a name: into(path, name='alerts')",
            )
        return ":".join(each for each in (query, self.name) if each is not None)

    def _is_known(self, table: BatchTable, batch: StreamBatch) -> bool:
        newest = table.newest(batch.app)
        if newest is not None and newest > batch.number and batch.app == self.name:
            raise StoreError(
                f"'{batch.app}' has written batches up to {newest} into {self.root}, and now begins again at "
                f"{batch.number}: it is another streaming query",
                hint="give it a name of its own; or restart the former query with its checkpoint",
            )
        return newest is not None and newest >= batch.number


def query_id(batch: DataFrame) -> str | None:
    """Return the id of the streaming query that a batch belongs to; None: Spark does not tell."""
    context = getattr(batch.sparkSession, "_sc", None)  # None on Connect
    found: str | None = None if context is None else context.getLocalProperty(QUERY_ID)
    return found


@dataclass(frozen=True, slots=True)
class SinkTask:
    """Writes the rows of a task as files of an append, or returns them, if they are few.

    Attributes:
        table: where and how to write.
        append: the number of the append.
    """

    table: BatchTable
    append: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield each file written, or the rows."""
        context = TaskContext.get()
        task, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        first = task << ROWS_PER_TASK
        for number, piece in enumerate(pieces_of(batches, FILE_ROWS)):
            if not number and piece.nbytes <= FEW_BYTES and len(piece) < FILE_ROWS:
                yield _outcome(task, rows=_to_bytes(piece))
                return
            if number >= FILES_PER_TASK:
                raise StoreError(
                    f"one task was given more than {FILES_PER_TASK * FILE_ROWS:,} rows of a batch",
                    hint="limit the batches of the source, or set spark.sql.shuffle.partitions to more",
                )
            part = AppendPart(self.append, FILES_PER_TASK * task + number, first, attempt)
            written = self.table.write(piece, part)
            first += len(piece)
            yield _outcome(task, written=pickle.dumps(written))


def _outcome(task: int, written: bytes | None = None, rows: bytes | None = None) -> pa.RecordBatch:
    kinds = pa.schema([("task", pa.int64()), ("written", pa.binary()), ("rows", pa.binary())])
    return pa.RecordBatch.from_pydict({"task": [task], "written": [written], "rows": [rows]}, schema=kinds)


def _gather(done: pa.Table, table: BatchTable, begun: Begun) -> Sequence[Written]:
    """Return the files that tasks have written, and one more of the rows that they returned."""
    outcomes = done.to_pylist()
    written = [pickle.loads(each["written"]) for each in outcomes if each["written"] is not None]
    few = [each for each in outcomes if each["rows"] is not None]
    if not few:
        return written
    rows = pa.concat_tables([pa.ipc.open_stream(each["rows"]).read_all() for each in few])
    task = min(each["task"] for each in few)  # it has written no file, so its number is free
    part = AppendPart(begun.append, FILES_PER_TASK * task, task << ROWS_PER_TASK)
    return [*written, table.write(rows, part)]


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
