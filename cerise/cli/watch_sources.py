"""Where events come from: a folder whose files become more, lines of JSON on a pipe, or a topic of Kafka."""

from __future__ import annotations

import sys
import threading
import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any, Protocol

import pyarrow as pa

from cerise.cli.inputs import InputFiles
from cerise.errors import StoreError, UnsupportedError, did_you_mean, warn
from cerise.files import delta
from cerise.files.event_files import KNOWN, suffix
from cerise.files.topics.messages import read_messages, retention_error
from cerise.files.topics.offsets import OffsetRange, share_out
from cerise.files.topics.topic import GONE_TOPIC, Topic, TopicClient

JSON = (".json", ".jsonl", ".ndjson")
BATCH_BYTES = 256_000_000  # files of one batch
BATCH_LINES = 100_000
STANDARD_INPUT = "standard input"
PARTITION = "partition "  # begins the names under which a state remembers offsets
Stamp = tuple[int, int]  # the size of a file, and when it was changed


@dataclass(frozen=True, slots=True)
class NewEvents:
    """Events that have come since the last batch.

    Attributes:
        files: the names and stamps of their files; empty: they came as lines.
        read: reads them, as the types of a schema if there is one.
    """

    files: dict[str, Stamp]
    read: Callable[[pa.Schema | None], pa.Table]


class EventSource(Protocol):
    """Events that keep coming."""

    @property
    def is_over(self) -> bool:
        """Whether no further event can come."""
        ...

    def take(self) -> NewEvents | None:
        """Return the events that have come; None: none have."""
        ...


@dataclass
class FolderSource:
    """The files of a folder, each read once, when it has settled.

    Attributes:
        path: the folder; or one file.
        layout: how files are written.
        settle: for how many seconds a file must be unchanged before it is read.
        taken: the files that were read, with their stamps.
    """

    path: Path
    layout: InputFiles
    settle: float = 0.0
    taken: dict[str, Stamp] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if delta.is_table(self.path):
            raise UnsupportedError(
                f"{self.path} is a Delta table, and this command watches a folder of files",
                hint="cerise.stream, or cerise.watch over spark.readStream, follows the versions of a table",
            )
        if not self.path.exists():
            raise StoreError(f"no folder is at {self.path}", hint="make it first; it may be empty")

    @property
    def is_over(self) -> bool:
        return self.path.is_file() and self.path.name in self.taken

    @property
    def folder(self) -> Path:
        return self.path.parent if self.path.is_file() else self.path

    def take(self) -> NewEvents | None:
        """Return new files by name, as many as fit into a batch."""
        files: dict[str, Stamp] = {}
        for name, stamp in self._new().items():
            if files and sum(size for size, _ in files.values()) + stamp[0] > BATCH_BYTES:
                break
            files[name] = stamp
        return self.again(files) if files else None

    def again(self, files: dict[str, Stamp]) -> NewEvents:
        """Return files that were taken before, to repeat a batch.

        Raises:
            StoreError: a file is gone, or has changed.
        """
        found = self._list()
        for name, stamp in files.items():
            if found.get(name) != stamp:
                how = "is gone" if name not in found else "has changed"
                raise StoreError(
                    f"{self.folder / name} {how} since the batch that was interrupted",
                    hint="restore the file, or start with a new state",
                )
        return NewEvents(files, lambda schema: self._read(list(files), schema))

    def _new(self) -> dict[str, Stamp]:
        now = clock.time_ns()
        new = {}
        for name, stamp in sorted(self._list().items()):
            if name in self.taken:
                self._warn_of_change(name, stamp)
            elif now - stamp[1] >= self.settle * 1e9:
                new[name] = stamp
        return new

    def _warn_of_change(self, name: str, stamp: Stamp) -> None:
        if stamp != self.taken[name] and name not in self._warned:
            self._warned.add(name)
            warn(
                [f"{self.folder / name} has changed after it was read: the change is not read"], strict=False
            )

    def _list(self) -> dict[str, Stamp]:
        """Return the files of the folder with their stamps; names that start with . or _ are left out."""
        inside = [self.path] if self.path.is_file() else list(self.path.iterdir())
        found = {}
        for each in inside:
            if each.name.startswith((".", "_")) or not each.is_file():
                continue
            if not suffix(each):
                raise StoreError(f"unknown format: {each}", hint=f"known: {KNOWN}")
            status = each.stat()
            found[each.name] = (status.st_size, status.st_mtime_ns)
        return found

    def _read(self, names: list[str], schema: pa.Schema | None) -> pa.Table:
        tables: list[pa.Table] = []
        for name in names:
            file = self.folder / name
            known = schema or (tables[0].schema if tables else None)
            layout = replace(self.layout, path=str(file), types=() if known is None else tuple(known))
            table = layout.table()
            if len(table):
                table = fill_columns(table, known) if suffix(file) in JSON else table
                tables.append(table if known is None else _select(table, known, file))
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


class LinesSource:
    """Lines of JSON from a pipe; a thread reads them while the queries run.

    Args:
        file: the pipe.
        layout: how times are written.
        wait: for how many seconds to wait for lines.
    """

    def __init__(self, layout: InputFiles, wait: float, file: IO[bytes] | None = None) -> None:
        self._layout, self._wait = replace(layout, path=STANDARD_INPUT), wait
        self._lines: Queue[bytes | None] = Queue(2 * BATCH_LINES)
        self._over = False
        file = sys.stdin.buffer if file is None else file
        threading.Thread(target=self._follow, args=(file,), daemon=True).start()

    def _follow(self, file: IO[bytes]) -> None:
        for line in file:
            if line.strip():
                self._lines.put(line if line.endswith(b"\n") else line + b"\n")
        self._lines.put(None)

    @property
    def is_over(self) -> bool:
        return self._over

    def take(self) -> NewEvents | None:
        """Return the lines that have come, waiting for the first."""
        lines: list[bytes] = []
        until = clock.monotonic() + self._wait
        while not self._over and len(lines) < BATCH_LINES:
            try:
                line = self._lines.get(timeout=max(0.0, until - clock.monotonic()))
            except Empty:
                break
            if line is None:
                self._over = True
            else:
                lines.append(line)
        return NewEvents({}, lambda schema: self._read(b"".join(lines), schema)) if lines else None

    def _read(self, data: bytes, schema: pa.Schema | None) -> pa.Table:
        layout = replace(self._layout, types=() if schema is None else tuple(schema))
        return fill_columns(layout.lines(data), schema)


@dataclass
class TopicSource:
    """The events of a topic, as JSON, from its first on.

    Attributes:
        topic: the topic.
        layout: how times are written.
        latest: whether the events that the topic has at the start are left out.
        taken: the offsets that were read last, by partition: the first, and the one after the last.
    """

    topic: Topic
    layout: InputFiles
    latest: bool = False
    taken: dict[str, Stamp] = field(default_factory=dict)
    _client: TopicClient | None = None

    def __post_init__(self) -> None:
        self._client = TopicClient(self.topic)
        self._client.describe()

    @property
    def is_over(self) -> bool:
        return False

    def take(self) -> NewEvents | None:
        """Return new events, as many as fit into a batch, in step from all partitions."""
        assert self._client is not None
        newest = _name(self._client.end_offsets(self._client.describe().partitions))
        before = {name: stop for name, (_, stop) in self.taken.items()}
        if not self.taken and self.latest:
            self.taken = {name: (stop, stop) for name, stop in newest.items()}
            return None
        if not self.taken:
            before = _name(self._client.first_offsets(map(_number, newest)))
        for name, offset in before.items():
            if newest.get(name, -1) < offset:
                raise StoreError(
                    f"{name} of topic '{self.topic.name}' ends before offset {offset:,}, up to which it was "
                    "read",
                    hint=f"was the topic made again? {GONE_TOPIC}",
                )
        after = share_out(before, newest, BATCH_LINES)
        files = {name: (before.get(name, 0), stop) for name, stop in after.items()}
        return self.again(files) if any(start < stop for start, stop in files.values()) else None

    def again(self, files: dict[str, Stamp]) -> NewEvents:
        """Return the events of offsets, to read them once more.

        Raises:
            StoreError: offsets were deleted.
        """
        assert self._client is not None
        first = self._client.first_offsets(map(_number, files))
        for name, (start, stop) in files.items():
            if start < stop and first[_number(name)] > start:
                raise retention_error(self.topic, _number(name), start, first[_number(name)])
        return NewEvents(files, lambda schema: self._read(files, schema))

    def _read(self, files: Mapping[str, Stamp], schema: pa.Schema | None) -> pa.Table:
        tables: list[pa.Table] = []
        for name, (start, stop) in files.items():
            for messages in read_messages(self.topic, OffsetRange(_number(name), start, stop)):
                known = schema or (tables[0].schema if tables else None)
                layout = replace(self.layout, types=() if known is None else tuple(known))
                place = f"topic '{self.topic.name}', {name}, offsets from {messages[0].offset():,}"
                lines = b"\n".join(_check_object(each, self.topic) for each in messages)
                tables.append(fill_columns(replace(layout, path=place).lines(lines), known))
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def _select(table: pa.Table, schema: pa.Schema, file: Path) -> pa.Table:
    """Return the columns of a schema; further columns of a file are not read."""
    for name in schema.names:
        if name not in table.schema.names:
            hint = did_you_mean(name, table.schema.names) or "all files need the columns of the first"
            raise StoreError(f"column '{name}' is not in {file}", hint=hint)
    return table.select(schema.names)


def fill_columns(table: pa.Table, schema: pa.Schema | None) -> pa.Table:
    """Return objects of JSON with all columns of a schema: a name that no object has is null."""
    for column in schema or ():
        if column.name not in table.schema.names:
            table = table.append_column(column, pa.nulls(len(table), column.type))
    return table


def _check_object(message: Any, topic: Topic) -> bytes:
    """Return the value of a message, which must look like one object of JSON."""
    value = (message.value() or b"").strip()
    if value[:1] != b"{" or value[-1:] != b"}":
        raise StoreError(
            f"the event at offset {message.offset():,} in partition {message.partition()} of topic "
            f"'{topic.name}' is not an object of JSON: {value[:80]!r}",
            hint="cerise.stream(…, invalid='null') passes such events over",
        )
    return bytes(value)


def is_of_topic(files: Mapping[str, Stamp]) -> bool:
    """Whether the files that a state remembers are partitions of a topic."""
    return bool(files) and all(name.startswith(PARTITION) for name in files)


def _name(offsets: Mapping[int, int]) -> dict[str, int]:
    return {f"{PARTITION}{number}": offset for number, offset in offsets.items()}


def _number(name: str) -> int:
    return int(name.removeprefix(PARTITION))


def read_settings(path: str | None) -> dict[str, str]:
    """Return the settings of Kafka's client in a file of lines such as `security.protocol=SSL`."""
    if path is None:
        return {}
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise StoreError(f"cannot read the settings in {path}: {error}", hint="give a text file") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().partition("=")
        if name and not name.startswith("#"):
            if not equals:
                raise StoreError(f"line {number} of {path} has no =", hint="write security.protocol=SSL")
            found[name.strip()] = value.strip()
    return found
