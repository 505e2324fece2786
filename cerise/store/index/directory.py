"""What an index file says of its blocks and clusters: two Arrow tables, with the file's own facts beside.

blocks     one row per row group: row_group, rows, first, last, step; per attribute its encoding and,
           for strings, where their dictionary lies
clusters   one row per type and block: block, type, count, offset, length, checksum, first, last, …

A sample of the events, drawn evenly, tells how selective tests are.
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
from cerise.store.index.layout import Layout

VERSION = 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file as its table names it.

    Attributes:
        path: where it is, relative to the table or absolute.
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
    """What an index file holds.

    Attributes:
        about: the data file.
        layout: which columns are indexed.
        blocks: one row per row group.
        clusters: one row per cluster, by block.
        sample: some events: their type and attributes.
    """

    about: DataFile
    layout: Layout
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
            raise ValueError("a cluster is of a block that is not there")
        facts = json.loads(blocks.schema.metadata[b"cerise"])
        layout = Layout.from_json(facts["layout"])
        return cls(DataFile(**facts["data"]), layout, blocks.replace_schema_metadata(), clusters, sample)


def block_schema(layout: Layout) -> pa.Schema:
    """Return the columns of the table of blocks."""
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


def cluster_schema(layout: Layout) -> pa.Schema:
    """Return the columns of the table of clusters."""
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
    """Return a table of mappings from its columns to arrays."""
    batches = [
        pa.record_batch(
            [pa.array(row[name], schema.field(name).type) for name in schema.names], schema=schema
        )
        for row in rows
    ]
    return pa.Table.from_batches(batches, schema).combine_chunks()


SAMPLE_SIZE = 1_024


def sample_schema(layout: Layout) -> pa.Schema:
    """Return the columns of a sample: type and attributes, without dictionaries."""
    names = [*([] if layout.type is None else [layout.type]), *layout.attributes]
    types = [layout.type_of(name) for name in names]
    values = [each.value_type if pa.types.is_dictionary(each) else each for each in types]
    return pa.schema(list(zip(names, values, strict=True)))


class Reservoir:
    """Draws events evenly from row groups, of which each is seen once.

    Every event gets a random number; those with the smallest stay, in the order of these numbers, so that
    the first few are a sample too.
    """

    def __init__(self, layout: Layout, seed: str) -> None:
        self._schema = sample_schema(layout)
        self._rng = np.random.default_rng(xxhash.xxh64_intdigest(seed.encode()))
        self._keys = np.empty(0)
        self._rows = self._schema.empty_table()

    def add(self, table: pa.Table) -> None:
        """Draw from some more events."""
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
