"""The state of a bucket in Spark's own state store, as `transformWithState` hands it to a stateful processor.

Two state variables: an index of the parts, and the parts cut into chunks. Spark copies a value several times
on its way through the JVM, so that a value of 60 MB can exhaust a heap of 2 GB. Listing the keys of a map
reads all its values, so that the index is a value of its own.

States in files need to know which micro-batch a task belongs to: `batch_at_hand` asks Spark.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import TaskContext

from cerise.errors import CeriseWarning, StoreError, UnsupportedError
from cerise.spark.session import INSTALL, ROCKS, STATE_STORE
from cerise.streaming.state.state_files import checksum

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, ValueState

FORMAT = 1
MESSAGES = "pyspark.sql.streaming.proto.StateMessage_pb2"  # asks for a version of protobuf
PARTITIONS = "spark.sql.shuffle.partitions"
CHUNK = 1 << 20  # bytes of a value
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"  # local properties of a stream's jobs


def check_state_store(spark: Any, buckets: int) -> None:
    """Refuse a session whose own state store cannot keep the state of a stream.

    Raises:
        UnsupportedError: Spark would keep the state elsewhere than in RocksDB, or lacks protobuf.
    """
    provider = spark.conf.get(STATE_STORE, "")
    if provider != ROCKS:
        raise UnsupportedError(
            "Spark keeps the state of a stream only in RocksDB",
            hint=f"spark.conf.set('{STATE_STORE}', '{ROCKS}'), or keep the state in files: state='path'",
        )
    _check_protobuf()
    _warn_of_partitions(spark, buckets)


def _check_protobuf() -> None:
    """Refuse a stream whose state Spark would hand over by a package that is missing: its workers crash."""
    try:
        import_module(MESSAGES)
    except Exception as error:
        raise UnsupportedError(
            f"Spark hands the state of a stream over by protobuf, which cannot be used: {error}",
            hint=f"{INSTALL}, or keep the state in files: state='path'",
        ) from error


def _warn_of_partitions(spark: Any, buckets: int) -> None:
    """Warn of a batch that opens many more state stores than it has buckets."""
    stores = int(spark.conf.get(PARTITIONS, "200"))
    if stores > 4 * buckets:
        text = (
            f"each batch of this stream opens {stores} state stores for {buckets} buckets: set {PARTITIONS} "
            f"to {buckets} before the stream first starts, or keep the state in files: state='path'"
        )
        warnings.warn(text, CeriseWarning, stacklevel=6)


class ChunkedPart(NamedTuple):
    """A part of the state: how many bytes it has, their checksum, and in how many chunks they are kept."""

    size: int
    checksum: str
    chunks: int


@dataclass(frozen=True, slots=True)
class StateVariables:
    """The two state variables of a stateful processor; they hold the state of the bucket at hand."""

    index: ValueState
    chunks: MapState

    @classmethod
    def of(cls, handle: StatefulProcessorHandle) -> StateVariables:
        """Declare the variables: in `init` of the processor, which Spark calls on the driver, too."""
        return cls(
            handle.getValueState("cerise_index", "parts string"),
            handle.getMapState("cerise_chunks", "part string, number int", "data binary"),
        )


class SparkStateHome:
    """The state of one bucket, kept in Spark's state store.

    `read`, `names` and `stamp` see the version that the batch before has left, whatever is written meanwhile.
    `write` and `delete` change the next version; `commit` hands it to Spark, which keeps it with the batch.

    Args:
        variables: the state variables, while Spark handles the rows of the bucket.
        chunk: how many bytes a value may have.

    Raises:
        StoreError: the state is damaged, or a newer Cerise has written it.
    """

    def __init__(self, variables: StateVariables, *, chunk: int = CHUNK) -> None:
        self._variables, self._chunk = variables, chunk
        found = variables.index.get()
        self._text = "" if found is None else str(found[0])
        self._before = _decode(self._text) if self._text else {}
        self._written: dict[str, bytes] = {}
        self._deleted: set[str] = set()

    @property
    def stamp(self) -> str:
        """The checksum of the version that the batch starts from; empty at the first batch."""
        return checksum(self._text.encode()) if self._text else ""

    def names(self) -> list[str]:
        """Return the names of all parts."""
        return sorted(self._before)

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a part; None: the state has no part of that name.

        Raises:
            StoreError: Spark gives other bytes than it was given.
        """
        part = self._before.get(name)
        if part is None:
            return None
        data = b"".join(self._read_chunks(name, part.chunks))
        if (len(data), checksum(data)) != (part.size, part.checksum):
            raise StoreError(
                f"'{name}' in Spark's state store differs from its checksum",
                hint="restore the checkpoint from a copy, or start with a new one",
            )
        return data

    def write(self, name: str, data: bytes) -> None:
        """Write a part, instead of the one that has its name; equal bytes are not written again."""
        self._written[name] = bytes(data)
        self._deleted.discard(name)

    def delete(self, name: str) -> None:
        """Leave a part out of the next version, if the state has it."""
        self._written.pop(name, None)
        self._deleted.add(name)

    def commit(self) -> str:
        """Hand the next version to Spark; return its stamp."""
        after = {name: part for name, part in self._before.items() if name not in self._deleted}
        for name in sorted(self._deleted & self._before.keys()):
            self._remove_chunks(name, 0, self._before[name].chunks)
        for name, data in sorted(self._written.items()):
            after[name] = self._write_chunks(name, data)
        text = json.dumps({"format": FORMAT, "parts": after}, sort_keys=True)
        if text != self._text:
            self._variables.index.update((text,))
        return checksum(text.encode())

    def _read_chunks(self, name: str, count: int) -> Iterator[bytes]:
        for number in range(count):
            found = self._variables.chunks.getValue((name, number))
            yield b"" if found is None else bytes(found[0])

    def _write_chunks(self, name: str, data: bytes) -> ChunkedPart:
        before = self._before.get(name)
        count = -(-len(data) // self._chunk)
        part = ChunkedPart(len(data), checksum(data), count)
        if before is not None and before[:2] == part[:2]:
            return before
        for number in range(count):
            piece = data[number * self._chunk : (number + 1) * self._chunk]
            self._variables.chunks.updateValue((name, number), (piece,))
        self._remove_chunks(name, count, 0 if before is None else before.chunks)
        return part

    def _remove_chunks(self, name: str, first: int, end: int) -> None:
        for number in range(first, end):
            self._variables.chunks.removeKey((name, number))


@dataclass(frozen=True, slots=True)
class GroupHome:
    """The state of one group of queries, in a home that several groups share.

    Attributes:
        home: the home.
        key: the attributes of the key of the group's queries.
    """

    home: SparkStateHome
    key: str

    def _name(self, name: str) -> str:
        return f"{self.key}/{name}"

    def names(self) -> list[str]:
        """Return the names of the parts of the group."""
        split = (each.rpartition("/") for each in self.home.names())
        return [name for key, _, name in split if key == self.key]

    def read(self, name: str) -> bytes | None:
        return self.home.read(self._name(name))

    def write(self, name: str, data: bytes) -> None:
        self.home.write(self._name(name), data)

    def delete(self, name: str) -> None:
        self.home.delete(self._name(name))

    def former(self) -> Sequence[GroupHome]:
        """Return nothing: Spark hands a bucket its own state only."""
        return ()


def drop_groups(home: SparkStateHome, keys: Collection[str]) -> None:
    """Delete the state of groups that a stream no longer has: a group that comes again starts anew.

    Args:
        home: the home of the groups.
        keys: the keys of the groups that the stream has.
    """
    for name in home.names():
        if name.rpartition("/")[0] not in keys:
            home.delete(name)


def _decode(text: str) -> dict[str, ChunkedPart]:
    """Return the parts that an index lists."""
    try:
        body: dict[str, Any] = json.loads(text)
        version = int(body["format"])
        if version <= FORMAT:
            return {name: ChunkedPart(*part) for name, part in body["parts"].items()}
    except (ValueError, TypeError, KeyError):
        raise StoreError(
            "the index of the state in Spark's state store is damaged",
            hint="restore the checkpoint from a copy, or start with a new one",
        ) from None
    raise StoreError(
        f"a newer Cerise has written this state: it has format {version}, "
        f"and this Cerise reads up to {FORMAT}",
        hint="install the version of Cerise that wrote it, or a later one",
    )


def task_at_hand() -> int:
    """Return the number of the task in its stage."""
    task = TaskContext.get()
    return 0 if task is None else task.partitionId()


def query_at_hand() -> str:
    """Return the id of the streaming query that a task belongs to, or "stream" if Spark does not say."""
    task = TaskContext.get()
    return (None if task is None else task.getLocalProperty(QUERY)) or "stream"


def number_at_hand() -> int | None:
    """Return the number of the micro-batch that a task belongs to; None: Spark does not say."""
    task = TaskContext.get()
    batch = None if task is None else task.getLocalProperty(BATCH)
    return None if batch is None else int(batch)


def batch_at_hand() -> tuple[str, int]:
    """Return the id of the streaming query and the number of the micro-batch that a task belongs to.

    Raises:
        UnsupportedError: Spark does not say.
    """
    task = TaskContext.get()
    query, batch = (None if task is None else task.getLocalProperty(name) for name in (QUERY, BATCH))
    if query is None or batch is None:
        raise UnsupportedError(
            "states in files need the number of the micro-batch, and Spark does not tell it to this task",
            hint="leave state= out, so that Spark keeps the state; or, where foreachBatch runs on Spark "
            "Connect or in a thread of its own, write to another sink",
        )
    return query, int(batch)
