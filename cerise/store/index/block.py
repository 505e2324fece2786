"""Builds a block of the index from a row group: clusters of one type, with lists and range bitmaps.

A cluster is the events of one type in the order of time, then of rows (000 §3.1). Every step handles all
clusters of the block at once, as a block may have thousands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.errors import DataError
from cerise.events import Ints, Schema, raw_column, read_times
from cerise.kernels.arrays import group
from cerise.kinds import INT64_MAX, INT64_MIN, Kind, canonical
from cerise.store.index.bitmap import write_slices
from cerise.store.index.cluster_layout import ClusterParts, lists_of, parts_of
from cerise.store.index.codes import Coded, encode
from cerise.store.index.layout import SEQUENCE, SEQUENCE_FIELDS, IndexLayout
from cerise.store.index.packed import Packing, pack

SOME = 1_000  # differences of times in one call of gcd
FAR = 1 << 62
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Block:
    """A block: its bytes, and its entries in the directory.

    Attributes:
        data: the clusters, one after the other.
        facts: the directory's facts about each cluster, by column.
        types: the type of each cluster; None: the table has no type column.
        rows: how many events the block has.
        step: a divisor of all differences of times.
        coded: the attributes as integers, by row.
    """

    data: Bytes
    facts: dict[str, Ints]
    types: pa.Array | None
    rows: int
    step: int
    coded: tuple[Coded, ...]


@dataclass(frozen=True, slots=True)
class _Clusters:
    """The rows of a block by cluster."""

    order: Ints
    starts: Ints
    types: pa.Array | None

    @property
    def counts(self) -> Ints:
        return np.diff(self.starts)

    def least(self, values: Ints) -> Ints:
        return np.minimum.reduceat(values, self.starts[:-1]) if len(values) else values

    def most(self, values: Ints) -> Ints:
        return np.maximum.reduceat(values, self.starts[:-1]) if len(values) else values

    def each(self, numbers: Ints) -> Ints:
        return np.repeat(numbers, self.counts)


def build(table: pa.Table, layout: IndexLayout) -> Block:
    """Return the block of a row group.

    Raises:
        DataError: an event has no time, or a value does not fit.
    """
    table = _as_laid_out(table, layout)
    times = read_times(table, Schema(layout.columns, layout.time))
    clusters = _cluster(table, layout, times)
    coded = tuple(encode(raw_column(table, (name,)), name) for name in layout.attributes)
    lists = _lists(table, layout, times, clusters)
    step = _step(times)
    facts = {"count": clusters.counts, "step": np.full(len(clusters.counts), step)}
    for name, least, most in lists_of(layout):
        facts |= {least: clusters.least(lists[name]), most: clusters.most(lists[name])}
    columns = [_in_clusters(each, clusters) for each in coded]
    for i, (codes, valid) in enumerate(columns):
        facts |= _attribute_facts(codes, valid, clusters, i)
    parts = parts_of(facts, layout)
    data = _write(lists, columns, parts, clusters)
    return Block(data, facts | {"length": parts.length}, clusters.types, len(times), step, coded)


def _as_laid_out(table: pa.Table, layout: IndexLayout) -> pa.Table:
    """Return the indexed columns in the types of the layout; an older data file may have other types."""
    for name in layout.names():
        if name not in table.column_names:
            raise DataError(
                f"the row group has no column '{name}'",
                hint="give the columns of the table, null where absent",
            )
        column, type_ = table.column(name), layout.columns.field(name).type
        if column.type != type_:
            table = table.set_column(table.column_names.index(name), name, _cast(column, type_, name))
    return table


def _cast(column: pa.ChunkedArray, type_: pa.DataType, name: str) -> pa.ChunkedArray:
    try:
        return column.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"column '{name}' of a data file has type {column.type}, and is {type_} in the table: {error}",
            hint="write the file again in the types of the table",
        ) from error


def _cluster(table: pa.Table, layout: IndexLayout, times: Ints) -> _Clusters:
    in_order = bool(np.all(times[1:] >= times[:-1]))
    order = np.arange(len(times)) if in_order else np.argsort(times, kind="stable")
    if layout.type is None:
        return _Clusters(order, np.array([0, len(times)] if len(times) else [0]), None)
    codes, types = _types(table, layout.type, layout.kind(layout.type))
    codes = codes if in_order else codes[order]
    counts = np.bincount(codes, minlength=len(types))
    starts = np.append(0, np.cumsum(counts))
    grouped = np.empty(len(times), np.int64)
    group(codes, starts[:-1].copy(), grouped)
    held = counts > 0
    kept = np.append(starts[:-1][held], len(times))
    return _Clusters(order[grouped], kept, types.filter(pa.array(held)))


def _types(table: pa.Table, name: str, kind: Kind) -> tuple[Ints, pa.Array]:
    """Return the type of each row as a number, and the distinct types, null last."""
    column = raw_column(table, (name,))
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    found = canonical(column, kind, name).dictionary_encode()
    codes = np.array(found.indices.fill_null(len(found.dictionary)), np.int64)
    return codes, pa.concat_arrays([found.dictionary, pa.nulls(1, found.dictionary.type)])


def _step(times: Ints) -> int:
    """Return the greatest common divisor of all differences of times, at least 1."""
    if not len(times) or int(times.max()) - int(times.min()) >= FAR:
        return 1
    gaps = np.diff(times)
    found = 0
    while found != 1 and len(odd := gaps[(gaps if found == 0 else gaps % found) != 0]):
        found = math.gcd(found, *odd[:SOME].tolist())
    return max(found, 1)


def _lists(table: pa.Table, layout: IndexLayout, times: Ints, clusters: _Clusters) -> dict[str, Ints]:
    lists = {"times": times[clusters.order], "rows": clusters.order}
    if layout.sequence:
        append, row = _sequence(table)
        with np.errstate(over="ignore"):
            lists |= {"append": append[clusters.order], "arrival": row[clusters.order] - clusters.order}
    return lists


def _sequence(table: pa.Table) -> tuple[Ints, Ints]:
    found = []
    for field in SEQUENCE_FIELDS:
        values = raw_column(table, (SEQUENCE, field))
        if values.null_count:
            raise DataError(
                f"{values.null_count} rows have no {SEQUENCE}.{field}",
                hint="the column is written by the store alone; write the rows again through it",
            )
        found.append(np.asarray(values.cast(pa.int64())))
    return found[0], found[1]


def _in_clusters(coded: Coded, clusters: _Clusters) -> tuple[Ints, npt.NDArray[np.bool_] | None]:
    valid = None if coded.valid is None else coded.valid[clusters.order]
    return coded.codes[clusters.order], valid


def _attribute_facts(
    codes: Ints, valid: npt.NDArray[np.bool_] | None, clusters: _Clusters, i: int
) -> dict[str, Ints]:
    if valid is None:
        least, most = clusters.least(codes), clusters.most(codes)
        return {f"least.{i}": least, f"most.{i}": most, f"nulls.{i}": np.zeros(len(least), np.int64)}
    least = clusters.least(np.where(valid, codes, INT64_MAX))
    most = clusters.most(np.where(valid, codes, INT64_MIN))
    nulls = np.add.reduceat((~valid).astype(np.int64), clusters.starts[:-1])
    none = nulls == clusters.counts
    least[none] = most[none] = 0
    return {f"least.{i}": least, f"most.{i}": most, f"nulls.{i}": nulls}


def _write(lists: dict[str, Ints], columns: list[Any], parts: ClusterParts, clusters: _Clusters) -> Bytes:
    ends = np.cumsum(parts.length)
    data = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    places = ends - parts.length
    for name, (frame, offset) in parts.lists.items():
        pack(_frame(lists[name], frame, clusters), clusters.starts, frame.width, places + offset, data)
    for (codes, valid), slices in zip(columns, parts.slices, strict=True):
        at = places + slices.offset
        if valid is not None:
            write_slices((~valid).astype(np.int64), clusters.starts, slices.marked, at, data)
        with np.errstate(over="ignore"):
            from_base = codes - clusters.each(slices.base)
        if valid is not None:
            from_base[~valid] = 0
        marks = ((clusters.counts + 7) >> 3) * slices.marked
        write_slices(from_base, clusters.starts, slices.width, at + marks, data)
    return data


def _frame(values: Ints, frame: Packing, clusters: _Clusters) -> Ints:
    with np.errstate(over="ignore"):
        from_base = values - clusters.each(frame.base)
    steps = frame.step[frame.step != 1]
    if len(steps) == len(frame.step) and len(steps):
        return from_base // int(steps[0])
    return from_base // clusters.each(frame.step) if len(steps) else from_base
