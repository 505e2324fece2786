"""Reads columns of row groups in place: all rows of a row group, or given rows by number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cerise.errors import StoreError
from cerise.events import Path as Attribute
from cerise.events import Schema
from cerise.files.checksums import CheckedFile, Tail, chunk_start, read_tail
from cerise.files.lake import File, Group, open_file_system
from cerise.files.types import leaf_paths
from cerise.plan.pushdown import Needed

if TYPE_CHECKING:
    from cerise.files.pages import ColumnPages
    from cerise.files.scan import RowFilter

Ints = npt.NDArray[np.int64]
BITS = 32
OPEN_FILES = 8
FEW = 16  # up to one row in FEW, late columns are read without decoding the other rows
MANY = 0.9  # share of rows: of more, Arrow decodes all faster
KEPT_GROUPS = 2  # row groups whose late columns stay in memory


@dataclass(slots=True)
class ReadCounts:
    """How much a task has read."""

    groups: int = 0
    rows: int = 0
    bytes: int = 0
    late_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """The description of a read that the driver sends to a task.

    Attributes:
        root: the path of the table, as given.
        files: the files of the row groups, by number.
        schema: the columns with the parts that they play (time, type, …), or the columns alone.
        reads: the columns that matching reads.
        late: the columns that are only returned, and read for matched events alone.
        coded: the columns whose strings are read as codes.
        needed: the filter that events must pass; None: all events.
        arrival: the attributes that give the order of arrival; empty: it is the order of rows.
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
        """The columns with the parts that they play."""
        assert isinstance(self.schema, Schema)
        return self.schema

    @property
    def deleted(self) -> int:
        return sum(file.deleted for file in self.files.values())


@dataclass(slots=True)
class _OpenFile:
    """An open file, its schema, the leaf numbers of each column, and its bytes if they have checksums.

    `read` returns bytes by offset and size; it is None where only Arrow reads the file.
    """

    source: pq.ParquetFile
    schema: pa.Schema
    columns: dict[str, list[int]]
    checked: CheckedFile | None
    read: Callable[[int, int], Any] | None
    _items: dict[str, int | None] = field(default_factory=dict)

    def size(self, row_group: int, names: Sequence[str]) -> int:
        return sum(size for _, size in self.parts(row_group, names))

    def parts(self, row_group: int, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return offsets and sizes of the named columns of a row group."""
        group = self.source.metadata.row_group(row_group)
        chunks = (group.column(i) for name in names for i in self.columns[name])
        return [(chunk_start(chunk), chunk.total_compressed_size) for chunk in chunks]

    def open_pages(self, row_group: int, name: str) -> ColumnPages | None:
        """Return the pages of a column of a row group; None: Arrow must read it."""
        if self.read is None or len(self.columns.get(name, ())) != 1:
            return None
        from cerise.files import pages  # imports numba

        (leaf,) = self.columns[name]
        kind = self.schema.field(name).type
        if name not in self._items:
            self._items[name] = pages.item_of(self.source.schema.column(leaf), kind)
        item = self._items[name]
        if item is None:
            return None
        chunk = self.source.metadata.row_group(row_group).column(leaf)
        optional = bool(self.source.schema.column(leaf).max_definition_level)
        return pages.open_pages(self.read, chunk, kind, item, optional=optional, summed=self.checked is None)


@dataclass(slots=True)
class GroupReader:
    """Reads the row groups of one task, with few files open at a time.

    Attributes:
        reading: the files and columns to read.
        groups: the row groups that the task may read.
        tails: the footers and checksums of all files, if known.
        counts: how much it has read.
    """

    reading: Reading
    groups: Sequence[Group]
    tails: Sequence[Tail] = ()
    counts: ReadCounts = field(default_factory=ReadCounts)
    _open: OrderedDict[int, _OpenFile] = field(default_factory=OrderedDict)
    _kept: OrderedDict[tuple[int, tuple[str, ...]], pa.Table] = field(default_factory=OrderedDict)
    _by_place: dict[int, Group] = field(default_factory=dict)
    _paged: tuple[int, dict[str, ColumnPages | None]] = field(
        default_factory=lambda: (-1, {})
    )  # the row group read last, and its pages

    def read(self, group: Group, names: Sequence[str], *, late: bool) -> pa.Table:
        """Return columns of a row group: if late, with deleted rows, as rows have numbers; else without."""
        file = self._file(group.file)
        held = [name for name in names if name in file.columns]
        kept = None if late else self.read_kept_rows(group)
        table = self._rows(group, held)
        table = table if kept is None or not held else table.filter(kept)
        self.counts.groups += not late
        self.counts.rows += 0 if late else len(table) if held else group.span.rows
        size = file.size(group.number, held)
        if late:
            self.counts.late_bytes += size
        else:
            self.counts.bytes += size
        rows = file.source.metadata.row_group(group.number).num_rows if late else group.span.rows
        return self._shape(table, names, group, rows)

    def read_where(
        self, group: Group, names: Sequence[str], router: RowFilter | None
    ) -> tuple[pa.Table, Ints | None]:
        """Return columns of the rows of a row group that are not deleted and that a router keeps.

        The columns that the router tests are decoded first, a column of strings before the others, and the
        other columns only at the rows that are left.

        Args:
            group: the row group.
            names: the columns.
            router: keeps a superset of the rows that matter; None: all rows matter.

        Returns:
            The columns, and the number of each row in the row group, None: all. Without rows, some columns
            may be missing.
        """
        kept = self.read_kept_rows(group)
        first = [] if router is None else [name for name in names if name in router.names]
        if router is None or not first:
            table = self.read(group, names, late=False)
            return table, None if kept is None else np.flatnonzero(kept)
        self.counts.groups += 1
        self.counts.rows += group.span.rows
        rows = self._find_rows(group, router)
        if rows is not None and kept is not None:
            rows = rows[np.asarray(kept)[rows]]
        tested: dict[str, pa.ChunkedArray] = {}
        if rows is None or not (router.is_sure and len(rows)):
            tested = self._read_at(group, first, rows)
            mask = router.mask(pa.table(tested))
            if rows is None and kept is not None:
                mask &= np.asarray(kept)
            left = np.flatnonzero(mask)
            if len(left) < len(mask):
                at = pa.array(left)
                tested = {name: column.take(at) for name, column in tested.items()}
            rows = left if rows is None else rows[left]
        rest = [name for name in names if name not in tested]
        if len(rows) and rest:
            tested |= self._read_at(group, rest, rows)
        return pa.table({name: tested[name] for name in names if name in tested}), rows

    def _find_rows(self, group: Group, router: RowFilter) -> Ints | None:
        """Return the rows of a row group whose strings fit a router; None: its columns must be decoded."""
        column = None if router.word_column is None else self._open_pages(group, router.word_column)
        return None if column is None else column.find_rows(router.judge_words)

    def _read_at(self, group: Group, names: Sequence[str], rows: Ints | None) -> dict[str, pa.ChunkedArray]:
        """Return columns of a row group at ascending rows; None: at all rows."""
        found: dict[str, pa.ChunkedArray] = {}
        if rows is not None and len(rows) <= MANY * group.span.rows:
            for name in names:
                column = self._open_pages(group, name)
                taken = None if column is None else column.take(rows)
                if taken is not None:
                    plain = taken if name in self.reading.coded else _decode(taken)
                    found[name] = pa.chunked_array([plain])
        rest = [name for name in names if name not in found]
        if rest:
            whole = self._read_whole(group, rest)
            if rows is not None and len(rows) < len(whole):
                whole = whole.take(pa.array(rows))
            found |= dict(zip(rest, whole.columns, strict=True))
        count = 0 if rows is None else len(rows)
        shaped = self._shape(pa.table(found), names, group, count)
        return dict(zip(names, shaped.columns, strict=True))

    def _open_pages(self, group: Group, name: str) -> ColumnPages | None:
        """Return the pages of a column of a row group; None: Arrow must read it."""
        if self._paged[0] != group.place:
            self._paged = group.place, {}
        held = self._paged[1]
        if name not in held:
            held[name] = found = self._file(group.file).open_pages(group.number, name)
            if found is not None:
                self.counts.bytes += found.content.size
        return held[name]

    def _read_whole(self, group: Group, names: Sequence[str]) -> pa.Table:
        """Return columns of all rows of a row group, and count their bytes."""
        file = self._file(group.file)
        held = [name for name in names if name in file.columns]
        self.counts.bytes += file.size(group.number, held)
        rows = file.source.metadata.row_group(group.number).num_rows
        return self._shape(self._rows(group, held), names, group, rows)

    def _rows(self, group: Group, names: Sequence[str]) -> pa.Table:
        """Return columns of a row group as Arrow reads them; an error names the column that fails."""
        file = self._file(group.file)
        if file.checked is not None and "://" in self.reading.root:
            file.checked.prefetch(file.parts(group.number, names))

        def read(some: Sequence[str]) -> pa.Table:
            return file.source.read_row_group(group.number, columns=list(some), use_threads=False)

        try:
            return read(names)
        except (pa.ArrowException, OSError):
            for name in names:
                _guard(f"column '{name}' of {self.describe(group)}", partial(read, [name]))
            return _guard(self.describe(group), partial(read, names))

    def read_kept_rows(self, group: Group) -> pa.BooleanArray | None:
        """Return a mask of the rows of a row group that are not deleted; None: all."""
        kept = self.reading.files[group.file].kept
        if kept is None:
            return None
        footer = self._file(group.file).source.metadata
        sizes = [footer.row_group(i).num_rows for i in range(group.number + 1)]
        return kept.slice(sum(sizes[:-1]), sizes[-1])

    def fetch(self, rows: Ints) -> pa.Table:
        """Return the late columns of events, by the numbers of their rows."""
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
        """Return the late columns of a row group at ascending rows."""
        group, names = self._of(place), self.reading.late
        picked = self._pick(group, rows) if len(rows) * FEW <= group.span.rows else {}
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
        """Tell whether single values of all late columns are cheap, judging by the first row group."""
        group = self._of(int(rows[0] >> BITS))
        few = len(rows) * FEW <= group.span.rows * len(np.unique(rows >> BITS))
        columns = [self._open_pages(group, name) for name in self.reading.late] if few else []
        return few and all(
            each is not None and each.codec is None and each.take(np.zeros(1, np.int64)) for each in columns
        )

    def _pick(self, group: Group, rows: Ints) -> dict[str, pa.Array]:
        """Return at given rows the late columns whose single values can be read."""
        file, found = self._file(group.file), {}
        for name in self.reading.late:
            column = file.open_pages(group.number, name)
            taken = None if column is None else column.take(rows)
            if column is not None and taken is not None:
                found[name] = _decode(taken).cast(self.reading.columns.field(name).type)
                self.counts.late_bytes += column.content.size
        return found

    def _of(self, place: int) -> Group:
        if not self._by_place:
            self._by_place = {each.place: each for each in self.groups}
        return self._by_place[place]

    def _shape(self, table: pa.Table, names: Sequence[str], group: Group, rows: int) -> pa.Table:
        """Return columns in the types of the schema; a missing one is null, or given by the folder's name."""
        file = self.reading.files[group.file]
        columns = []
        for name in names:
            kind = self.reading.columns.field(name).type
            if name in table.schema.names:
                column = table.column(name)
                if not (name in self.reading.coded and pa.types.is_dictionary(column.type)):
                    column = _guard(f"column '{name}' of {self.describe(group)}", _caster(column, kind))
                columns.append(column)
            else:
                value = pa.scalar(file.hive.get(name), kind)
                columns.append(pa.repeat(value, rows))
        return pa.table(columns, names=list(names))

    def _empty(self, names: Sequence[str]) -> pa.Table:
        return pa.schema([self.reading.columns.field(name) for name in names]).empty_table()

    def _file(self, number: int) -> _OpenFile:
        if number not in self._open:
            held, tail = self.reading.files[number], self.tails[number] if self.tails else None
            self._open[number] = _guard(
                held.path, lambda: _open_file(self.reading.root, held, tail, self.reading.coded)
            )
            while len(self._open) > OPEN_FILES:
                self._open.popitem(last=False)[1].source.close()
        self._open.move_to_end(number)
        return self._open[number]

    def describe(self, group: Group) -> str:
        return f"{self.reading.files[group.file].path}, row group {group.number}"


def _decode(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _caster(column: pa.ChunkedArray, kind: pa.DataType) -> Callable[[], pa.ChunkedArray]:
    return lambda: column if column.type == kind else column.cast(kind)


def _guard(what: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise StoreError(
            f"cannot read {what}: {reason}", hint="is the file whole, and still there?"
        ) from error


def _open_file(root: str, held: File, tail: Tail | None, coded: Sequence[str]) -> _OpenFile:
    source = open_file_system(root).open_input_file(held.path)
    tail = tail or read_tail(source, held.path, held.expected)
    checked = None if tail.sums is None else CheckedFile(source, held.path, tail)
    file = pq.ParquetFile(
        source if checked is None else checked,
        metadata=tail.footer,
        read_dictionary=list(coded),
        pre_buffer=checked is None and "://" in root,
        page_checksum_verification=checked is None,
    )
    schema = file.schema_arrow
    columns: dict[str, list[int]] = {name: [] for name in schema.names}
    for i, leaf in enumerate(leaf_paths(schema)):
        columns[leaf[0]].append(i)
    if checked is not None:
        return _OpenFile(file, schema, columns, checked, checked.read_at)
    local = None if "://" in root else lambda start, size: source.read_at(size, start)
    return _OpenFile(file, schema, columns, checked, local)
