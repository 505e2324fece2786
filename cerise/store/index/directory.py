"""The directory of an index file: Arrow tables of its blocks and clusters, and metadata of the file.

blocks     one row per row group: row_group, rows, first, last, step; per attribute its encoding and,
           for strings, where their dictionary is
clusters   one row per type and block: block, type, count, offset, length, checksum, first, last, …

A uniform sample of the events serves to estimate how selective tests are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from cerise.kinds import STORED, Kind, plain_table
from cerise.store.index.cluster_layout import lists_of
from cerise.store.index.layout import IndexLayout

VERSION = 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """The identity of a data file.

    Attributes:
        path: its path, relative to the table or absolute.
        size: how many bytes it has.
        modified: when it was written, in milliseconds.
        rows: how many events it holds.
    """

    path: str
    size: int
    modified: int
    rows: int


@dataclass(frozen=True, slots=True)
class Directory:
    """The content of a directory.

    Attributes:
        about: the data file.
        layout: which columns are indexed.
        blocks: one row per row group.
        clusters: one row per cluster, sorted by block.
        sample: a sample of the events: their type and attributes.
    """

    about: DataFile
    layout: IndexLayout
    blocks: pa.Table
    clusters: pa.Table
    sample: pa.Table

    def to_buffer(self) -> pa.Buffer:
        facts = {
            "version": VERSION, "layout": self.layout.to_json(), "data": asdict(self.about)
        }  # fmt: skip
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        blocks = self.blocks.replace_schema_metadata({"cerise": json.dumps(facts)})
        for table in (blocks, self.clusters, self.sample):
            with pa.ipc.new_stream(sink, table.schema, options=options) as out:
                out.write_table(table)
        return sink.getvalue()

    @classmethod
    def from_buffer(cls, buffer: pa.Buffer) -> Directory:
        source = pa.BufferReader(buffer)
        tables = []
        for _ in range(3):
            with pa.ipc.open_stream(source) as stream:
                tables.append(stream.read_all())
        blocks, clusters, sample = tables
        for table in tables:
            table.validate(full=True)
        numbers = clusters.column("block").to_numpy()
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(blocks)):
            raise ValueError("a cluster names a block that does not exist")
        facts = json.loads(blocks.schema.metadata[b"cerise"])
        layout = IndexLayout.from_json(facts["layout"])
        return cls(DataFile(**facts["data"]), layout, blocks.replace_schema_metadata(), clusters, sample)


def block_schema(layout: IndexLayout) -> pa.Schema:
    """Return the schema of the table of blocks."""
    fields: list[tuple[str, pa.DataType]] = [
        ("row_group", pa.int32()), ("rows", pa.int64()), ("first", pa.int64()), ("last", pa.int64()),
        ("step", pa.int64()),
    ]  # fmt: skip
    for i, name in enumerate(layout.attributes):
        fields.append((f"encoding.{i}", pa.int8()))
        if layout.kind(name) is Kind.STRING:
            fields += [(f"words.{i}", pa.int32()), (f"words_offset.{i}", pa.int64())]
            fields += [(f"words_length.{i}", pa.int64()), (f"words_checksum.{i}", pa.uint64())]
    return pa.schema(fields)


def cluster_schema(layout: IndexLayout) -> pa.Schema:
    """Return the schema of the table of clusters."""
    type_ = pa.null() if layout.type is None else STORED[layout.kind(layout.type)]
    fields: list[tuple[str, pa.DataType]] = [
        ("block", pa.int32()), ("type", type_), ("count", pa.int32()), ("offset", pa.int64()),
        ("length", pa.int64()), ("checksum", pa.uint64()),
    ]  # fmt: skip
    for _, least, most in lists_of(layout):
        fields += [(least, pa.int64()), (most, pa.int64())]
    for i in range(len(layout.attributes)):
        fields += [(f"least.{i}", pa.int64()), (f"most.{i}", pa.int64()), (f"nulls.{i}", pa.int32())]
    return pa.schema(fields)


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return a table whose batches are mappings from column names to arrays."""
    batches = [
        pa.record_batch(
            [pa.array(row[name], schema.field(name).type) for name in schema.names], schema=schema
        )
        for row in rows
    ]
    return pa.Table.from_batches(batches, schema).combine_chunks()


SAMPLE_SIZE = 1_024


def sample_schema(layout: IndexLayout) -> pa.Schema:
    """Return the schema of a sample: type and attributes, not dictionary-encoded."""
    names = [*([] if layout.type is None else [layout.type]), *layout.attributes]
    types = [layout.type_of(name) for name in names]
    values = [each.value_type if pa.types.is_dictionary(each) else each for each in types]
    return pa.schema(list(zip(names, values, strict=True)))


class Reservoir:
    """Draws a uniform sample of events in one pass over row groups.

    Every event gets a random number. The events with the smallest numbers stay, sorted by number, so that
    every prefix of the sample is a sample too.
    """

    def __init__(self, layout: IndexLayout, seed: str) -> None:
        self._schema = sample_schema(layout)
        self._rng = np.random.default_rng(xxhash.xxh64_intdigest(seed.encode()))
        self._keys = np.empty(0)
        self._rows = self._schema.empty_table()

    def add(self, table: pa.Table) -> None:
        """Draw from the events of a row group."""
        keys = self._rng.random(len(table))
        limit = self._keys[-1] if len(self._keys) == SAMPLE_SIZE else 1.0
        fresh = np.flatnonzero(keys < limit)
        if len(fresh) > SAMPLE_SIZE:
            fresh = fresh[np.argpartition(keys[fresh], SAMPLE_SIZE)[:SAMPLE_SIZE]]
        both = np.append(self._keys, keys[fresh])
        order = np.argsort(both)[:SAMPLE_SIZE]
        some = plain_table(table.select(self._schema.names)).take(pa.array(fresh))
        drawn = some.cast(self._schema)
        self._rows = pa.concat_tables([self._rows, drawn]).take(pa.array(order)).combine_chunks()
        self._keys = both[order]

    @property
    def events(self) -> pa.Table:
        """The events drawn so far: their type and attributes."""
        return self._rows
