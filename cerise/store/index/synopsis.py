"""The synopsis of a table: the directories of all its index files in one.

Its tables are those of `directory`, numbered over all files. A group is a block, that is, a row group of a
data file. Loading a saved synopsis decodes nothing: its columns stay in the buffer of the file.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from cerise.errors import StoreError
from cerise.events import Ints
from cerise.store.index.directory import VERSION, DataFile, block_schema, cluster_schema, sample_schema
from cerise.store.index.file import UNREADABLE, BrokenIndex, IndexFile
from cerise.store.index.layout import IndexLayout

MAGIC = b"CERISESY"
TRAILER = struct.Struct("<QQ8s")  # checksum of all before, format version, magic
SAMPLED = 65_536  # sampled events over all files, about
FILES = pa.schema(
    [("index", pa.string()), ("index_size", pa.int64()), ("path", pa.string()), ("size", pa.int64()),
     ("modified", pa.int64()), ("rows", pa.int64())]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """The path and size of an index file, and its data file."""

    path: str
    size: int
    about: DataFile


@dataclass(frozen=True)
class Synopsis:
    """Facts about all clusters of a table.

    Attributes:
        layout: which columns are indexed.
        table_of_files: one row per data file.
        groups: one row per row group, sorted by file: the columns of `directory`, and the file.
        clusters: one row per cluster, sorted by group: the columns of `directory` with the group for the
            block, and the type as a number in `types`, -1 for none.
        types: the distinct types.
        sample: a sample of each file: type and attributes of events.
        sampled: the file of each event in the sample.
    """

    layout: IndexLayout
    table_of_files: pa.Table
    groups: pa.Table
    clusters: pa.Table
    types: pa.Array
    sample: pa.Table
    sampled: Ints

    @classmethod
    def of(cls, index_files: Iterable[IndexFile], layout: IndexLayout | None = None) -> Synopsis:
        """Return the synopsis of index files; without any file, the layout must be given."""
        files = list(index_files)
        if layout is None and not files:
            raise StoreError("no index file, so no layout", hint="give the layout: Synopsis.of([], layout)")
        return _empty(layout or files[0].layout).extend(files)

    @cached_property
    def files(self) -> tuple[IndexedFile, ...]:
        rows = zip(*(column.to_pylist() for column in self.table_of_files.columns), strict=True)
        return tuple(IndexedFile(path, size, DataFile(*about)) for path, size, *about in rows)

    @property
    def rows(self) -> int:
        return int(self.group("rows").sum())

    def group(self, name: str) -> Ints:
        return self._array(self.groups, name)

    def cluster(self, name: str) -> Ints:
        return self._array(self.clusters, name)

    @cached_property
    def _arrays(self) -> dict[tuple[int, str], Ints]:
        return {}

    def _array(self, table: pa.Table, name: str) -> Ints:
        key = (id(table), name)
        if key not in self._arrays:
            found = table.column(name).combine_chunks()
            self._arrays[key] = np.ascontiguousarray(np.asarray(found)).astype(np.int64, copy=False)
        return self._arrays[key]

    # ---- adding and removing files

    def extend(self, index_files: Iterable[IndexFile]) -> Synopsis:
        """Return a synopsis with further index files, which replace those of the same data files."""
        fresh = list(index_files)
        for each in fresh:
            if each.layout != self.layout:
                raise StoreError(
                    f"index file {each.path} holds other columns than the rest",
                    hint="index the data file again, with the layout of the table",
                )
        replaced = {each.about.path for each in fresh}
        kept = self._without(replaced) if replaced & set(self._paths) else self
        return kept._with(fresh) if fresh else kept

    def only(self, data_paths: Collection[str]) -> Synopsis:
        named = set(data_paths)
        return self._without(set(self._paths) - named)

    @property
    def _paths(self) -> list[str]:
        paths: list[str] = self.table_of_files.column("path").to_pylist()
        return paths

    def _without(self, paths: set[str]) -> Synopsis:
        files = np.array([path not in paths for path in self._paths], np.bool_)
        groups = files[self.group("file")]
        clusters = groups[self.cluster("group")]
        sampled = files[self.sampled]
        return Synopsis(
            self.layout,
            self.table_of_files.filter(pa.array(files)),
            _renumber(self.groups.filter(pa.array(groups)), "file", files),
            _renumber(self.clusters.filter(pa.array(clusters)), "group", groups),
            self.types,
            self.sample.filter(pa.array(sampled)),
            (np.cumsum(files) - 1)[self.sampled[sampled]],
        )

    def _with(self, fresh: list[IndexFile]) -> Synopsis:
        first_file, first_group = len(self.table_of_files), len(self.groups)
        files, groups, clusters = [self.table_of_files], [self.groups], [self._decode_types()]
        samples, sampled = [self.sample], [self.sampled]
        for file in fresh:
            groups.append(_number(file.blocks, 0, "file", first_file))
            clusters.append(_shift(file.clusters, first_group))
            samples.append(file.directory.sample)
            sampled.append(np.full(len(file.directory.sample), first_file))
            files.append(_about(file))
            first_file, first_group = first_file + 1, first_group + len(file.blocks)
        coded, types = _encode_types(pa.concat_tables(clusters))
        rows, numbers = _thin(pa.concat_tables(samples), np.concatenate(sampled), first_file)
        return Synopsis(
            self.layout, pa.concat_tables(files).combine_chunks(), pa.concat_tables(groups).combine_chunks(),
            coded, types, rows, numbers,
        )  # fmt: skip

    def _decode_types(self) -> pa.Table:
        codes = self.cluster("type")
        types = self.types.take(pa.array(codes, mask=codes < 0))
        return self.clusters.set_column(1, "type", types)

    # ---- as a file

    def save(self, sink: pa.NativeFile) -> None:
        parts = pa.BufferOutputStream()
        parts.write(MAGIC)
        facts = json.dumps({"version": VERSION, "layout": self.layout.to_json()})
        for table in (
            self.table_of_files.replace_schema_metadata({"cerise": facts}),
            self.groups,
            self.clusters,
            pa.table({"type": self.types}),
            self.sample.append_column("file of the sample", pa.array(self.sampled)),
        ):
            with pa.ipc.new_stream(parts, table.schema) as out:
                out.write_table(table.combine_chunks())
        data = parts.getvalue()
        sink.write(data)
        sink.write(TRAILER.pack(xxhash.xxh64_intdigest(data), VERSION, MAGIC))

    @classmethod
    def load(cls, source: pa.NativeFile | pa.Buffer) -> Synopsis:
        """Return the synopsis that `save` has written.

        Raises:
            BrokenIndex: it is damaged or of another format.
        """
        data = source if isinstance(source, pa.Buffer) else source.read_buffer()
        held = _check_trailer(data)
        try:
            return cls._read(held)
        except UNREADABLE as error:
            raise BrokenIndex(f"the synopsis cannot be read: {error}") from error

    @classmethod
    def _read(cls, held: pa.Buffer) -> Synopsis:
        parts = pa.BufferReader(held)
        parts.seek(len(MAGIC))
        tables = []
        for _ in range(5):
            with pa.ipc.open_stream(parts) as stream:
                tables.append(stream.read_all())
        files, groups, clusters, types, sample = tables
        for table in (files, types, sample):  # the others have no columns of variable length
            table.validate(full=True)
        _check_numbers(clusters, "group", len(groups))
        _check_numbers(groups, "file", len(files))
        layout = IndexLayout.from_json(json.loads(files.schema.metadata[b"cerise"])["layout"])
        last = sample.num_columns - 1
        return cls(
            layout, files.replace_schema_metadata(), groups, clusters, types.column(0).combine_chunks(),
            sample.remove_column(last), np.asarray(sample.column(last).combine_chunks(), np.int64),
        )  # fmt: skip


def _check_numbers(table: pa.Table, name: str, count: int) -> None:
    table.validate()
    numbers = np.asarray(table.column(name).combine_chunks())
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < count):
        raise ValueError(f"the number of a {name} is out of range")


def _check_trailer(data: pa.Buffer) -> pa.Buffer:
    """Check the trailer and the checksum of a saved synopsis; return the bytes before the trailer."""
    if data.size < len(MAGIC) + TRAILER.size:
        raise BrokenIndex("the synopsis is cut off")
    held = data.slice(0, data.size - TRAILER.size)
    checksum, version, magic = TRAILER.unpack(memoryview(data)[held.size :])
    if magic != MAGIC or bytes(memoryview(data)[: len(MAGIC)]) != MAGIC:
        raise BrokenIndex("this is not a synopsis, or it is cut off")
    if version != VERSION:
        raise BrokenIndex(f"the synopsis has format {version}, and this is the reader of format {VERSION}")
    if xxhash.xxh64_intdigest(held) != checksum:
        raise BrokenIndex("the synopsis is damaged")
    return held


def _empty(layout: IndexLayout) -> Synopsis:
    groups = block_schema(layout).insert(0, pa.field("file", pa.int32())).empty_table()
    clusters = _shift(cluster_schema(layout).empty_table(), 0)
    coded, types = _encode_types(clusters)
    sample = sample_schema(layout).empty_table()
    return Synopsis(layout, FILES.empty_table(), groups, coded, types, sample, np.empty(0, np.int64))


def _about(file: IndexFile) -> pa.Table:
    about = file.about
    values = (file.path, file.size, about.path, about.size, about.modified, about.rows)
    return pa.table([[value] for value in values], schema=FILES)


def _number(table: pa.Table, at: int, name: str, number: int) -> pa.Table:
    return table.add_column(at, name, pa.array(np.full(len(table), number, np.int32)))


def _shift(clusters: pa.Table, first: int) -> pa.Table:
    numbers = np.asarray(clusters.column("block").combine_chunks(), np.int32) + np.int32(first)
    return clusters.set_column(0, "group", pa.array(numbers, pa.int32()))


def _encode_types(clusters: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Return clusters with their types as numbers, and the distinct types."""
    found = clusters.column("type").combine_chunks()
    if pa.types.is_null(found.type):
        codes, types = np.full(len(found), -1, np.int32), pa.nulls(0)
    else:
        found = found.dictionary_encode()
        codes, types = np.asarray(found.indices.fill_null(-1), np.int32), found.dictionary
    return clusters.set_column(1, "type", pa.array(codes)).combine_chunks(), types


def _renumber(table: pa.Table, name: str, kept: npt.NDArray[np.bool_]) -> pa.Table:
    """Return a table whose references are renumbered after the removal of rows that are not kept."""
    numbers = (np.cumsum(kept) - 1)[np.asarray(table.column(name).combine_chunks())]
    return table.set_column(0, name, pa.array(numbers, pa.int32()))


def _thin(sample: pa.Table, files: Ints, count: int) -> tuple[pa.Table, Ints]:
    """Cut the sample of each file to its first events, so that many files stay within `SAMPLED`."""
    most = max(SAMPLED // max(count, 1), 16)
    starts = np.searchsorted(files, np.arange(count))
    kept = np.arange(len(files)) - starts[files] < most if len(files) else np.zeros(0, np.bool_)
    return sample.filter(pa.array(kept)).combine_chunks(), files[kept]
