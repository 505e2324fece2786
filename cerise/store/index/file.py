"""The index of one data file: written one row group at a time, read in parts.

    magic · clusters and dictionaries, block by block · directory · trailer

Every byte is covered by a checksum or is constant; `docs/store-format.md` has the details.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import xxhash

from cerise.errors import CeriseError, StoreError
from cerise.store.index.block import Block, build
from cerise.store.index.directory import (
    VERSION,
    DataFile,
    Directory,
    Reservoir,
    block_schema,
    cluster_schema,
    table_of,
)
from cerise.store.index.layout import IndexLayout

__all__ = ["BrokenIndex", "DataFile", "IndexFile", "check", "local_path", "write_index"]

MAGIC = b"CERISEIX"
TRAILER = struct.Struct("<QQQQ8s")  # directory: offset, length, checksum; format version; magic
UNREADABLE = (pa.ArrowException, CeriseError, KeyError, TypeError, ValueError, MemoryError, OSError)
AGAIN = "the events are read from the data instead; to be quick again, index the table again"


class BrokenIndex(StoreError):
    """An index file is damaged, missing or of another format; its events must be read from the data.

    Attributes:
        path: the path of the index file.
        block: the number of the damaged block; None: all.
    """

    def __init__(self, problem: str, *, path: str = "", block: int | None = None, **rest: Any) -> None:
        super().__init__(problem, **{"hint": AGAIN, **rest})
        self.path = path
        self.block = block

    def __reduce__(self) -> tuple[Any, ...]:
        return _broken, (self.problem, self.path, self.block)


def _broken(problem: str, path: str, block: int | None) -> BrokenIndex:
    return BrokenIndex(problem, path=path, block=block)


# ---- writing


def write_index(
    row_groups: Iterable[pa.Table], layout: IndexLayout, about: DataFile, sink: pa.NativeFile
) -> None:
    """Write the index of a data file; one row group is in memory at a time.

    Args:
        row_groups: the events of the file, by row group.
        layout: which columns to index.
        about: the data file.
        sink: where to write.

    Raises:
        DataError: an event has no time, or a value does not fit.
        StoreError: the row groups are not those of the data file.
    """
    writer = _Writer(layout, sink)
    sample = Reservoir(layout, about.path)
    for table in row_groups:
        writer.add(build(table, layout))
        sample.add(table)
    if writer.rows != about.rows:
        raise StoreError(
            f"{about.path} has {about.rows} rows, but {writer.rows} were given to be indexed",
            hint="give all row groups of the file, and their number of rows",
        )
    writer.finish(about, sample.events)


class _Writer:
    def __init__(self, layout: IndexLayout, sink: pa.NativeFile) -> None:
        self._layout = layout
        self._sink = sink
        self._offset = 0
        self._blocks: list[dict[str, Any]] = []
        self._clusters: list[dict[str, Any]] = []
        self.rows = 0
        self._write(MAGIC)

    def add(self, block: Block) -> None:
        number = len(self._blocks)
        ends = np.cumsum(block.facts["length"])
        starts = (ends - block.facts["length"]).tolist()
        data = memoryview(block.data.data)
        pieces = zip(starts, ends.tolist(), strict=True)
        checksums = [xxhash.xxh64_intdigest(data[start:end]) for start, end in pieces]
        self._clusters.append(
            block.facts
            | {"block": np.full(len(starts), number), "type": block.types or pa.nulls(len(starts))}
            | {"offset": self._offset + ends - block.facts["length"]}
            | {"checksum": np.array(checksums, np.uint64)}
        )
        self._write(block.data)
        first, last = block.facts["first"], block.facts["last"]
        row = {"row_group": number, "rows": block.rows, "step": block.step}
        row |= (
            {"first": int(first.min()), "last": int(last.max())} if block.rows else {"first": 0, "last": -1}
        )
        self._blocks.append({name: [value] for name, value in (row | self._encodings(block)).items()})
        self.rows += block.rows

    def _encodings(self, block: Block) -> dict[str, int]:
        row = {}
        for i, coded in enumerate(block.coded):
            row[f"encoding.{i}"] = coded.encoding
            if coded.words is not None:
                data = _dictionary(coded.words)
                row |= {f"words.{i}": len(coded.words), f"words_offset.{i}": self._offset}
                row |= {f"words_length.{i}": len(data), f"words_checksum.{i}": xxhash.xxh64_intdigest(data)}
                self._write(data)
        return row

    def finish(self, about: DataFile, sample: pa.Table) -> None:
        blocks = table_of(self._blocks, block_schema(self._layout))
        clusters = table_of(self._clusters, cluster_schema(self._layout))
        directory = Directory(about, self._layout, blocks, clusters, sample).to_buffer()
        start = self._offset
        self._write(directory)
        self._write(TRAILER.pack(start, len(directory), xxhash.xxh64_intdigest(directory), VERSION, MAGIC))

    def _write(self, data: Any) -> None:
        self._sink.write(data)
        self._offset += memoryview(data).nbytes


def _dictionary(words: pa.Array) -> bytes:
    """Return strings in the layout of Arrow: 32-bit offsets of starts and of the last end, then the bytes."""
    if not len(words):
        return bytes(4)
    _, offsets, data = words.buffers()
    text = b"" if data is None else data.to_pybytes()
    ends = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
    return cast("bytes", (ends - ends[0]).astype("<i4").tobytes()) + text[ends[0] : ends[-1]]


# ---- reading


class IndexFile:
    """An index file with its directory in memory.

    Args:
        filesystem: its file system.
        path: its path there.

    Raises:
        BrokenIndex: it is damaged, missing or of another format.
    """

    def __init__(self, filesystem: pafs.FileSystem, path: str) -> None:
        self.path = path
        self._filesystem = filesystem
        try:
            with filesystem.open_input_file(path) as file:
                self.size = file.size()
                self.directory = _read_directory(file, path)
        except OSError as error:
            raise BrokenIndex(f"index file {path} cannot be read: {error}", path=path) from error

    @property
    def about(self) -> DataFile:
        return self.directory.about

    @property
    def layout(self) -> IndexLayout:
        return self.directory.layout

    @property
    def blocks(self) -> pa.Table:
        return self.directory.blocks

    @property
    def clusters(self) -> pa.Table:
        return self.directory.clusters

    def verify(self) -> None:
        """Check every byte.

        Raises:
            BrokenIndex: a byte is damaged.
        """
        try:
            with self._filesystem.open_input_file(self.path) as file:
                data = memoryview(file.read_buffer())
        except OSError as error:
            raise BrokenIndex(f"index file {self.path} cannot be read: {error}", path=self.path) from error
        if len(data) != self.size:
            raise BrokenIndex(
                f"index file {self.path} has {len(data)} bytes, not {self.size}", path=self.path
            )
        if bytes(data[: len(MAGIC)]) != MAGIC:
            raise BrokenIndex(f"{self.path} is not an index file", path=self.path)
        pieces = ("block", "offset", "length", "checksum")
        columns = [self.clusters.column(name).to_pylist() for name in pieces]
        for block, offset, length, checksum in zip(*columns, strict=True):
            check(data[offset : offset + length], checksum, self.path, block)
        for i in range(len(self.layout.attributes)):
            if f"words.{i}" in self.blocks.column_names:
                names = ("row_group", f"words_offset.{i}", f"words_length.{i}", f"words_checksum.{i}")
                columns = [self.blocks.column(name).to_pylist() for name in names]
                for block, offset, length, checksum in zip(*columns, strict=True):
                    check(data[offset : offset + length], checksum, self.path, block)


def check(data: memoryview, checksum: int, path: str, block: int) -> None:
    """Raise BrokenIndex if the checksum of bytes of a block differs."""
    if xxhash.xxh64_intdigest(data) != checksum:
        raise BrokenIndex(f"block {block} of index file {path} is damaged", path=path, block=block)


def local_path(filesystem: pafs.FileSystem, path: str) -> str | None:
    """Return the local path of a file; None if it is not on a local file system."""
    if isinstance(filesystem, pafs.SubTreeFileSystem):
        return local_path(filesystem.base_fs, f"{filesystem.base_path.rstrip('/')}/{path}")
    return path if isinstance(filesystem, pafs.LocalFileSystem) else None


def _read_directory(file: pa.NativeFile, path: str) -> Directory:
    if file.size() < len(MAGIC) + TRAILER.size:
        raise BrokenIndex(f"index file {path} is cut off", path=path)
    start, length, checksum, version, magic = TRAILER.unpack(
        file.read_at(TRAILER.size, file.size() - TRAILER.size)
    )
    if magic != MAGIC or file.read_at(len(MAGIC), 0) != MAGIC:
        raise BrokenIndex(f"{path} is not an index file, or cut off", path=path)
    if version != VERSION:
        raise BrokenIndex(
            f"index file {path} has format {version}, and this is the reader of format {VERSION}",
            path=path,
            hint="use the version of cerise that wrote it, or index the table again",
        )
    if start + length + TRAILER.size != file.size():
        raise BrokenIndex(f"index file {path} is cut off", path=path)
    found = file.read_at(length, start)
    if xxhash.xxh64_intdigest(found) != checksum:
        raise BrokenIndex(f"the directory of index file {path} is damaged", path=path)
    try:
        return Directory.from_buffer(pa.py_buffer(found))
    except UNREADABLE as error:
        raise BrokenIndex(f"the directory of index file {path} cannot be read: {error}", path=path) from error
