"""Writes and reads data files of an event table: Parquet files in stream order, each with an index file.

This module does not commit. `Written` describes a written file, and can be sent between processes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cerise.errors import StoreError
from cerise.events import EventBatch
from cerise.files.checksums import Expected, Summing, open_parquet, read_tail
from cerise.files.delta import LoggedFile
from cerise.files.folder import Folder, attempt, milliseconds
from cerise.store.index.file import DataFile, write_index
from cerise.store.index.layout import SEQUENCE
from cerise.store.table.column_types import check, complete, fit_columns
from cerise.store.table.failpoints import mark_step
from cerise.store.table.settings import SEQUENCE_FIELD, Settings, index_name
from cerise.store.table.statistics import statistics

NAME = re.compile(r"^(?P<append>[0-9a-f]{16})-[0-9]{6}(-[0-9a-f]{16})?(?P<fresh>\.fresh)?\.parquet$")
SAMPLED = 4_096  # rows of the sample that estimates how many distinct values a column has
MANY_VALUES = 0.125  # share of rows: with more distinct values, a dictionary costs more than it saves
NOISE = 10  # random bits of an append's number
ROWS = f"{SEQUENCE}.row"  # rows of an append are mostly consecutive: their packed differences are tiny


@dataclass(frozen=True, slots=True)
class Writing:
    """The description of a table that the driver sends to writers.

    Attributes:
        root: the path or URI of the table.
        index_root: the folder of its index files.
        columns: its columns, with the sequence.
        settings: its settings.
        only: the one file in `root` that is the table; None: all files.
    """

    root: str
    index_root: str
    columns: pa.Schema
    settings: Settings
    only: str | None = None


class AppendPart(NamedTuple):
    """The position of a piece in its append.

    Attributes:
        append: the number of the append.
        number: the number of the piece's file in the append.
        first: the row of its first event in the append; rows of different pieces must differ.
        attempt: the number of the attempt, if Spark may run the task twice; None: only one attempt.
    """

    append: int
    number: int
    first: int
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written and not yet committed.

    Attributes:
        path: its path in the table.
        size: how many bytes it has.
        modified: when it was written, in milliseconds since 1970.
        statistics: facts about its columns for Delta's log, as JSON.
        rows: how many events it has.
        new: whether its events are new; False: they come from files that the commit removes.
        index: the name of its index file; None: it has no index.
    """

    path: str
    size: int
    modified: int
    statistics: str
    rows: int
    new: bool = True
    index: str | None = None


# ---- names, which sort in the order of appends


def data_name(append: int, number: int, *, made: int | None = None, fresh: bool = False) -> str:
    """Return the name of a data file.

    Args:
        append: the newest append with events in it.
        number: its number among the files written together.
        made: the number of the compaction, or of the attempt at a task, that writes it; None: an append.
        fresh: whether it has no index.
    """
    rewritten = "" if made is None else f"-{made:016x}"
    return f"{append:016x}-{number:06d}{rewritten}{'.fresh' if fresh else ''}.parquet"


def is_ours(name: str) -> bool:
    """Tell whether the name of a data file is one that Cerise gives."""
    return NAME.match(name) is not None


def is_fresh(name: str) -> bool:
    """Tell whether a data file is fresh: written by Cerise without an index."""
    found = NAME.match(name)
    return found is not None and found["fresh"] is not None


def newest_append(names: Iterable[str]) -> int:
    """Return the newest append with events in the files; 0: no file is by Cerise."""
    return max((int(found["append"], 16) for name in names if (found := NAME.match(name))), default=0)


def next_append(newest: int, noise: int, clock: Callable[[], int] = time.time_ns) -> int:
    """Return the number of a new append, which grows with the clock and exceeds all earlier ones.

    Args:
        newest: the newest append that the table has.
        noise: a random number of `NOISE` bits, so that appends of one microsecond differ.
        clock: returns the time in nanoseconds.
    """
    return max((clock() // 1000) << NOISE, newest + 1) + noise


# ---- writing


def write_piece(table: pa.Table, writing: Writing, part: AppendPart, *, fresh: bool = False) -> Written:
    """Write a piece of an append as one file, in stream order.

    Args:
        table: the events, in the order of arrival.
        writing: the table to write to.
        part: the position of the piece in the append.
        fresh: whether to leave out the index.

    Raises:
        StoreError: the columns differ from those of the table.
        DataError: an event has no time, or a value does not fit.
    """
    check(table.schema, writing.columns)
    events = fit_columns(table, writing.columns, writing.settings.time, part.first)
    rows = pa.array(np.arange(part.first, part.first + len(events)))
    appends = pa.array(np.full(len(events), part.append))
    sequence = pa.StructArray.from_arrays([appends, rows], fields=list(SEQUENCE_FIELD.type))
    events = events.append_column(SEQUENCE_FIELD, sequence).select(writing.columns.names)
    ordered = EventBatch.of(events, writing.settings.roles(writing.columns)).table
    name = data_name(part.append, part.number, made=part.attempt, fresh=fresh)
    groups = partial(row_groups, ordered, writing.settings.block_rows)
    return write_file(groups(), writing, name, again=None if fresh else groups)


def row_groups(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Yield slices of a table with the given number of rows."""
    for start in range(0, len(table), rows):
        yield table.slice(start, rows)


def write_file(
    groups: Iterable[pa.Table],
    writing: Writing,
    name: str,
    *,
    again: Callable[[], Iterable[pa.Table]] | None,
    new: bool = True,
) -> Written:
    """Write events in stream order as a file, with its index; if that fails, remove both.

    Args:
        groups: the row groups of the file.
        writing: the table to write to.
        name: the name of the file.
        again: returns the row groups once more, for the index; None: write no index.
        new: whether the events are new to the table.

    Raises:
        StoreError: a file cannot be written.
    """
    try:
        with attempt(f"write {name} in {writing.root}", "nothing of it is in the table"):
            file = write_data(groups, writing.root, writing.columns, name, new=new)
            index = None if again is None else write_its_index(again(), writing, file)
    except BaseException:
        Folder.of(writing.root).tidy(name)
        Folder.of(writing.index_root).tidy(index_name(name))
        raise
    return replace(file, index=index)


def read_file(writing: Writing, name: str, size: int | None = None) -> Iterator[pa.Table]:
    """Yield the row groups of a file that Cerise has written, and verify their checksums.

    Args:
        writing: the table.
        name: the name of the file.
        size: how many bytes it must have; None: any.

    Raises:
        StoreError: the file cannot be read, or is another file.
    """
    try:
        with Folder.of(writing.root).open_input(name) as source:
            file = open_parquet(source, name, read_tail(source, name, Expected(size, name)))
            for i in range(file.num_row_groups):
                yield complete(file.read_row_group(i, use_threads=False), writing.columns)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(
            f"cannot read {name} in {writing.root}: {error}", hint="verify() lists all other damage"
        ) from error


def write_data(
    groups: Iterable[pa.Table], root: str, columns: pa.Schema, name: str, *, new: bool = True
) -> Written:
    """Write a Parquet file, without an index.

    Args:
        groups: its row groups.
        root: the path or URI of its table.
        columns: the columns of its table.
        name: its name.
        new: whether the events are new to the table.
    """
    folder = Folder.of(root)
    described: list[Any] = []
    leaves = list(_leaves(columns))
    groups = iter(groups)
    first = next(groups, columns.empty_table())
    packed = dict(_choose_encodings(first))
    with folder.open_output(name) as sink:
        summing = Summing(sink, name)
        writer = pq.ParquetWriter(
            summing,
            columns,
            metadata_collector=described,
            compression={each: packed.get(each, "zstd") for each in leaves},
            write_page_checksum=True,
            use_dictionary=[each for each in leaves if each not in packed],
            column_encoding={each: "DELTA_BINARY_PACKED" for each in leaves if each in packed},
        )
        try:
            for group in chain([first] if len(first) else [], groups):
                writer.write_table(group.cast(columns), row_group_size=max(1, len(group)))
                mark_step("row group written")
            summing.end()
            writer.close()
        finally:
            writer.is_open = False  # else it is closed again, which hides the first error
        summing.finish()
    folder.settle(name)
    mark_step("data written")
    found = folder.stat(name)
    facts = statistics(described[0], columns)
    return Written(name, found.size, milliseconds(found), facts, described[0].num_rows, new)


def _choose_encodings(events: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield the columns to encode as packed differences, and the compression of each.

    These are integers and times with many distinct values, as packed differences decode faster. If the
    differences have many distinct values too, compression would gain nothing; without it, `pages` can read
    single values.
    """
    yield ROWS, "zstd"
    some = events.take(pa.array(np.arange(0, len(events), len(events) // SAMPLED + 1)))
    for field, column in zip(events.schema, some.columns, strict=True):
        kind = field.type
        whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind)
        if whole and kind.bit_width >= 32 and _has_many(column):
            near = events.column(field.name)[:SAMPLED].drop_null().combine_chunks()
            bits = near.view(pa.int32() if kind.bit_width == 32 else pa.int64())  # for unsigned types too
            yield field.name, "none" if _has_many(pc.subtract(bits[1:], bits[:-1])) else "zstd"


def _has_many(values: pa.Array | pa.ChunkedArray) -> bool:
    return bool(pc.count_distinct(values).as_py() > len(values) * MANY_VALUES)


def _leaves(columns: Iterable[pa.Field], before: str = "") -> Iterator[str]:
    """Yield the Parquet paths of all leaf columns."""
    for each in columns:
        path, kind = f"{before}{each.name}", each.type
        if pa.types.is_struct(kind):
            yield from _leaves(kind, f"{path}.")
        elif pa.types.is_map(kind):
            yield from _leaves([kind.key_field.with_name("key")], f"{path}.key_value.")
            yield from _leaves([kind.item_field.with_name("value")], f"{path}.key_value.")
        elif pa.types.is_list(kind):
            yield from _leaves([kind.value_field.with_name("element")], f"{path}.list.")
        else:
            yield path


def write_its_index(groups: Iterable[pa.Table], writing: Writing, file: Written | LoggedFile) -> str:
    """Write the index of a data file; return its name."""
    folder = Folder.of(writing.index_root)
    name = index_name(file.path)
    about = DataFile(file.path, file.size, file.modified, file.rows)
    with folder.whole(name) as sink:
        write_index(groups, writing.settings.layout(writing.columns), about, sink)
    mark_step("index written")
    return name


def discard(written: Iterable[Written], writing: Writing) -> None:
    """Remove files that were written and will not be committed."""
    data, index = Folder.of(writing.root), Folder.of(writing.index_root)
    for each in written:
        data.tidy(each.path)
        if each.index is not None:
            index.tidy(each.index)
