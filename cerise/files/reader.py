"""Columns of row groups where they lie: of all rows, or of some by the numbers of their rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cerise.errors import StoreError
from cerise.events import Path as Attribute
from cerise.events import Schema
from cerise.files import pages
from cerise.files.checksums import CheckedFile, Tail, chunk_start, read_tail
from cerise.files.lake import File, Group, opened
from cerise.files.types import leaf_paths
from cerise.plan.pushdown import Needed

Ints = npt.NDArray[np.int64]
BITS = 32
OPEN_FILES = 8
FEW = 16  # of one in so many rows integers are read without decoding the others
KEPT_GROUPS = 2  # row groups whose late columns stay in memory


@dataclass(slots=True)
class Counts:
    """What a task has read."""

    groups: int = 0
    rows: int = 0
    bytes: int = 0
    late_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a task must know to read events: a description, to be sent to where it runs.

    Attributes:
        root: the path that was given.
        files: the files of the row groups, by number.
        schema: which column plays which part; only the columns, where none plays any.
        reads: the columns that matching reads.
        late: the columns that are only returned.
        coded: those of them whose strings are read as codes.
        needed: which events are needed; None: all.
        arrival: the attributes that tell in which order events arrived, where their rows do not.
    """

    root: str
    files: dict[int, File]
    schema: Schema | pa.Schema
    reads: tuple[str, ...]
    late: tuple[str, ...] = ()
    coded: tuple[str, ...] = ()
    needed: Needed | None = None
    arrival: tuple[Attribute, ...] = ()

    @property
    def columns(self) -> pa.Schema:
        return self.schema.columns if isinstance(self.schema, Schema) else self.schema

    @property
    def roles(self) -> Schema:
        """Which column plays which part."""
        assert isinstance(self.schema, Schema)
        return self.schema

    @property
    def deleted(self) -> int:
        return sum(file.deleted for file in self.files.values())


class _Opened(NamedTuple):
    """A file that is open; its columns; their parts by number; and its bytes, where they have checksums."""

    source: pq.ParquetFile
    schema: pa.Schema
    columns: dict[str, list[int]]
    checked: CheckedFile | None

    def size(self, row_group: int, names: Sequence[str]) -> int:
        return sum(size for _, size in self.parts(row_group, names))

    def parts(self, row_group: int, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return where some columns of a row group are: places and sizes."""
        group = self.source.metadata.row_group(row_group)
        chunks = (group.column(i) for name in names for i in self.columns[name])
        return [(chunk_start(chunk), chunk.total_compressed_size) for chunk in chunks]


@dataclass(slots=True)
class Reader:
    """One task's files.

    Attributes:
        reading: what it must know to read them.
        groups: the row groups that it may be asked for.
        tails: what the ends of all files say, where that is known.
        counts: what it has read.
    """

    reading: Reading
    groups: Sequence[Group]
    tails: Sequence[Tail] = ()
    counts: Counts = field(default_factory=Counts)
    _open: OrderedDict[int, _Opened] = field(default_factory=OrderedDict)
    _kept: OrderedDict[tuple[int, tuple[str, ...]], pa.Table] = field(default_factory=OrderedDict)
    _by_place: dict[int, Group] = field(default_factory=dict)

    def read(self, group: Group, names: Sequence[str], *, late: bool) -> pa.Table:
        """Return columns of a row group; of late ones all rows, also deleted ones: they are taken by row."""
        file = self._file(group.file)
        held = [name for name in names if name in file.columns]
        kept = None if late else self.kept_rows(group)  # late columns are taken by row, so all rows stay

        table = self._rows(group, held)
        table = table if kept is None or not held else table.filter(kept)
        self.counts.groups += not late
        self.counts.rows += 0 if late else len(table) if held else group.span.rows
        size = file.size(group.number, held)
        if late:
            self.counts.late_bytes += size
        else:
            self.counts.bytes += size
        described = file.source.metadata.row_group(group.number)
        return self._shaped(table, names, group, described.num_rows if late else group.span.rows)

    def _rows(self, group: Group, names: Sequence[str]) -> pa.Table:
        """Return columns of a row group as Arrow reads them; where it cannot, blame a column."""
        file = self._file(group.file)
        if file.checked is not None and "://" in self.reading.root:
            file.checked.bring(file.parts(group.number, names))

        def read(some: Sequence[str]) -> pa.Table:
            return file.source.read_row_group(group.number, columns=list(some), use_threads=False)

        try:
            return read(names)
        except (pa.ArrowException, OSError):
            for name in names:
                _guarded(f"column '{name}' of {self.named(group)}", partial(read, [name]))
            return _guarded(self.named(group), partial(read, names))

    def kept_rows(self, group: Group) -> pa.BooleanArray | None:
        """Return which rows of a row group are not deleted; None: all."""
        kept = self.reading.files[group.file].kept
        if kept is None:
            return None
        footer = self._file(group.file).source.metadata
        sizes = [footer.row_group(i).num_rows for i in range(group.number + 1)]
        return kept.slice(sum(sizes[:-1]), sizes[-1])

    def fetched(self, rows: Ints) -> pa.Table:
        """Return the late columns of some events, by the numbers of their rows."""
        order = np.argsort(rows)
        places, inside = rows[order] >> BITS, rows[order] & ((1 << BITS) - 1)
        cuts = np.flatnonzero(np.diff(places, prepend=-1)).tolist()
        found = [
            self._late(int(places[start]), inside[start:stop]) for start, stop in pairwise([*cuts, len(rows)])
        ]
        joined = pa.concat_tables(found) if found else self._empty(self.reading.late)
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return joined.take(pa.array(back))

    def _late(self, place: int, rows: Ints) -> pa.Table:
        """Return the late columns of some rows of a row group, ascending."""
        group, names = self._of(place), self.reading.late
        picked = self._picked(group, rows) if len(rows) * FEW <= group.span.rows else {}
        rest = tuple(name for name in names if name not in picked)
        if rest or not names:
            if (place, rest) not in self._kept:
                self._kept[place, rest] = self.read(group, rest, late=True)
                while len(self._kept) > KEPT_GROUPS:
                    self._kept.popitem(last=False)
            self._kept.move_to_end((place, rest))
            picked |= dict(zip(rest, self._kept[place, rest].take(pa.array(rows)).columns, strict=True))
        return pa.table([picked[name] for name in names], names=list(names))

    def picks(self, rows: Ints) -> bool:
        """Tell whether the late columns of some events can be had without decoding all; by one row group."""
        group = self._of(int(rows[0] >> BITS))
        few = len(rows) * FEW <= group.span.rows * len(np.unique(rows >> BITS))
        return few and set(self._picked(group, np.zeros(1, np.int64))) == set(self.reading.late)

    def _picked(self, group: Group, rows: Ints) -> dict[str, pa.Array]:
        """Return those late columns of some rows that can be had without decoding all rows."""
        file = self._file(group.file)
        found = {}
        for name in self.reading.late:
            parts, kind = file.columns.get(name, []), self.reading.columns.field(name).type
            if file.checked is None or len(parts) != 1 or file.schema.field(name).type != kind:
                continue
            chunk = file.source.metadata.row_group(group.number).column(parts[0])
            read, described = file.checked.read_at, file.source.schema.column(parts[0])
            column = pages.pick(read, chunk, described, kind, rows)
            if column is not None:
                found[name] = column
                self.counts.late_bytes += chunk.total_compressed_size
        return found

    def _of(self, place: int) -> Group:
        if not self._by_place:
            self._by_place = {each.place: each for each in self.groups}
        return self._by_place[place]

    def _shaped(self, table: pa.Table, names: Sequence[str], group: Group, rows: int) -> pa.Table:
        """Return columns in the types of the schema; what a file has not is null, or in its folder's name."""
        file = self.reading.files[group.file]
        columns = []
        for name in names:
            kind = self.reading.columns.field(name).type
            if name in table.schema.names:
                column = table.column(name)
                if not (name in self.reading.coded and pa.types.is_dictionary(column.type)):
                    column = _guarded(f"column '{name}' of {self.named(group)}", _caster(column, kind))
                columns.append(column)
            else:
                value = pa.scalar(file.hive.get(name), kind)
                columns.append(pa.repeat(value, rows))
        return pa.table(columns, names=list(names))

    def _empty(self, names: Sequence[str]) -> pa.Table:
        return pa.schema([self.reading.columns.field(name) for name in names]).empty_table()

    def _file(self, number: int) -> _Opened:
        if number not in self._open:
            self._open[number] = _guarded(self.reading.files[number].path, lambda: self._opened(number))
            while len(self._open) > OPEN_FILES:
                self._open.popitem(last=False)[1].source.close()
        self._open.move_to_end(number)
        return self._open[number]

    def _opened(self, number: int) -> _Opened:
        held = self.reading.files[number]
        source = opened(self.reading.root).open_input_file(held.path)
        tail = self.tails[number] if self.tails else read_tail(source, held.path, held.expected)
        checked = None if tail.sums is None else CheckedFile(source, held.path, tail)
        file = pq.ParquetFile(
            source if checked is None else checked,
            metadata=tail.footer,
            read_dictionary=list(self.reading.coded),
            pre_buffer=checked is None and "://" in self.reading.root,
            page_checksum_verification=checked is None,
        )
        schema = file.schema_arrow
        columns: dict[str, list[int]] = {name: [] for name in schema.names}
        for i, leaf in enumerate(leaf_paths(schema)):
            columns[leaf[0]].append(i)
        return _Opened(file, schema, columns, checked)

    def named(self, group: Group) -> str:
        return f"{self.reading.files[group.file].path}, row group {group.number}"


def _caster(column: pa.ChunkedArray, kind: pa.DataType) -> Callable[[], pa.ChunkedArray]:
    return lambda: column if column.type == kind else column.cast(kind)


def _guarded(what: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise StoreError(
            f"cannot read {what}: {reason}", hint="is the file whole, and still there?"
        ) from error
