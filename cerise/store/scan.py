"""Events read where they lie: the row groups of a slice, in stream order, one at a time.

Matching reads only the columns that it needs. What is returned besides is read afterwards, for matched
events only: each event knows its row by a number, the place of its row group and its row in it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cerise.errors import CeriseError, DataError, StoreError
from cerise.events import EventBatch, Schema, read_times
from cerise.events import Path as Attribute
from cerise.plan.filters import Needed, Sieve
from cerise.plan.overlap import MAX_TIME, MIN_TIME, Halo, Slice
from cerise.store import pages
from cerise.store.lake import File, Group, opened

Ints = npt.NDArray[np.int64]
ROW = "__cerise_row"  # where an event lies: the place of its row group, and its row
BITS = 32
OPEN_FILES = 8
AT_ONCE = 1 << 18  # events that are matched at once, where row groups are smaller
WORTH_A_FILTER = 0.5  # of the events are kept at most, or the matcher may judge them itself
FEW = 16  # of one in so many rows integers are read without decoding the others
KEPT_GROUPS = 2  # row groups whose returned columns stay in memory


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
        """The columns of all files together."""
        return self.schema.columns if isinstance(self.schema, Schema) else self.schema

    @property
    def roles(self) -> Schema:
        """Which column plays which part."""
        assert isinstance(self.schema, Schema)
        return self.schema

    @property
    def deleted(self) -> int:
        """How many rows of the files are deleted."""
        return sum(file.deleted for file in self.files.values())


class _Opened(NamedTuple):
    """A file that is open; its columns; their parts by number; and its bytes, where it is mapped."""

    source: pq.ParquetFile
    schema: pa.Schema
    columns: dict[str, list[int]]
    mapped: pa.Buffer | None

    def size(self, row_group: int, names: Sequence[str]) -> int:
        """Return how many bytes some columns have in a row group."""
        group = self.source.metadata.row_group(row_group)
        return sum(group.column(i).total_compressed_size for name in names for i in self.columns[name])


@dataclass(slots=True)
class _Piece:
    """Events in stream order, with the numbers of their rows where these are needed."""

    table: pa.Table
    times: Ints
    rows: Ints | None

    def slice(self, start: int, stop: int) -> _Piece:
        """Return some of the events."""
        rows = None if self.rows is None else self.rows[start:stop]
        return _Piece(self.table.slice(start, stop - start), self.times[start:stop], rows)


@dataclass(slots=True)
class Scan:
    """One task's reading; with the footers of all files, where they are known."""

    reading: Reading
    groups: Sequence[Group]
    footers: Sequence[Any] = ()
    counts: Counts = field(default_factory=Counts)
    _sieve: Sieve | None = None
    _filters: bool = True
    _open: OrderedDict[int, _Opened] = field(default_factory=OrderedDict)
    _kept: OrderedDict[tuple[int, tuple[str, ...]], pa.Table] = field(default_factory=OrderedDict)
    _by_place: dict[int, Group] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reading.needed is not None:
            self._sieve = Sieve(self.reading.needed, self.reading.roles)

    def events(self, part: Slice | None, needs: Halo) -> Iterator[EventBatch]:
        """Yield the events of a slice in stream order; of all row groups, where no slice is given.

        The row groups must be given with those of earlier events first. What is held back in memory are
        the events that a row group yet to be read may still precede.
        """
        waiting: list[_Piece] = []
        ready: list[_Piece] = []
        borders = _borders(self.groups, ties_by_row=not self._tied)
        overlap = any(border <= group.span.last for group, border in zip(self.groups, borders, strict=False))
        numbered = bool(self.reading.late) or overlap
        for i, group in enumerate(self.groups):
            piece = _limited(self._piece(group, numbered=numbered), part, needs)
            waiting.append(self._filtered(piece))
            waiting, before = _split(waiting, borders[i] if i < len(borders) else None)
            for piece in before:
                ready.append(piece)
                if sum(len(each.times) for each in ready) >= AT_ONCE:
                    yield self._batch(_joined(ready), part)
                    ready = []
        if ready:
            yield self._batch(_joined(ready), part)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the row groups as they are, with the numbers of their rows."""
        for group in self.groups:
            piece = self._piece(group, numbered=True)
            yield piece.table.append_column(ROW, pa.array(piece.rows))

    def rows(self) -> Iterator[pa.Table]:
        """Yield the row groups as they are, with the numbers of their rows, whatever their times."""
        for group in self.groups:
            table = self._read(group, self.reading.reads, late=False)
            yield table.append_column(ROW, pa.array(self._numbers(group, table)))

    def complete(self, events: EventBatch) -> EventBatch:
        """Return events with the columns that are only returned, in the order and types of the schema."""
        late = self.reading.late
        table = events.table
        arrival = {path[0] for path in self.reading.arrival}
        columns = {name: table.column(name) for name in self.reading.reads if name not in arrival}
        if late:
            fetched = self.fetched(table.column(ROW).to_numpy())
            columns |= {name: fetched.column(name) for name in late}
        schema = self.reading.columns
        names = [name for name in schema.names if name in columns]
        fields = [schema.field(name) for name in names]
        whole = pa.table({name: columns[name] for name in names}).cast(pa.schema(fields))
        return replace(events, table=whole)

    # ---- pieces

    @property
    def _tied(self) -> bool:
        """Whether something breaks ties between events of equal time before their rows do."""
        return bool(self.reading.roles.order or self.reading.arrival)

    def _batch(self, piece: _Piece, part: Slice | None) -> EventBatch:
        table = piece.table
        if self.reading.late:
            table = table.append_column(ROW, pa.array(piece.rows))
        opens = None
        if part is not None and not (
            part.start <= piece.times[0] and _before(piece.times[-1:], part.stop).all()
        ):
            opens = (piece.times >= part.start) & _before(piece.times, part.stop)
        if self._tied:
            roles = replace(self.reading.roles, arrival=not self.reading.arrival)
            events = EventBatch.of(table, roles, reads=self.reading.arrival)
            return replace(events, schema=self.reading.roles, opens=opens)
        positions = np.broadcast_to(np.int64(0), len(table))
        return EventBatch(self.reading.roles, table, piece.times, positions, opens=opens)

    def _piece(self, group: Group, *, numbered: bool) -> _Piece:
        table = self._read(group, self.reading.reads, late=False)
        try:
            times = read_times(table, self.reading.roles)
        except CeriseError as error:
            raise DataError(f"{self._named(group)}: {error.problem}", hint=error.hint) from error
        rows = self._numbers(group, table) if numbered else None
        if not bool(np.all(times[1:] >= times[:-1])):
            return _ordered(_Piece(table, times, rows), np.argsort(times, kind="stable"))
        return _Piece(table, times, rows)

    def _filtered(self, piece: _Piece) -> _Piece:
        """Leave out events that are not needed, as long as that leaves out many."""
        if self._sieve is None or not self._filters:
            return piece
        keep = self._sieve.kept(piece.table)
        self._filters = int(keep.sum()) <= WORTH_A_FILTER * len(keep)
        rows = None if piece.rows is None else piece.rows[keep]
        return _Piece(piece.table.filter(pa.array(keep)), piece.times[keep], rows)

    # ---- columns

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
                self._kept[place, rest] = self._read(group, rest, late=True)
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
            if file.mapped is None or len(parts) != 1 or file.schema.field(name).type != kind:
                continue
            chunk = file.source.metadata.row_group(group.number).column(parts[0])
            column = pages.pick(file.mapped, chunk, file.source.schema.column(parts[0]), kind, rows)
            if column is not None:
                found[name] = column
                self.counts.late_bytes += chunk.total_compressed_size
        return found

    def _of(self, place: int) -> Group:
        if not self._by_place:
            self._by_place = {each.place: each for each in self.groups}
        return self._by_place[place]

    def _read(self, group: Group, names: Sequence[str], *, late: bool) -> pa.Table:
        file = self._file(group.file)
        held = [name for name in names if name in file.columns]
        kept = None if late else self.kept_rows(group)  # late columns are taken by row, so all rows stay

        def rows() -> pa.Table:
            table = file.source.read_row_group(group.number, columns=held, use_threads=False)
            return table if kept is None or not held else table.filter(kept)

        table = _guarded(self._named(group), rows)
        self.counts.groups += not late
        self.counts.rows += 0 if late else len(table) if held else group.span.rows
        size = file.size(group.number, held)
        if late:
            self.counts.late_bytes += size
        else:
            self.counts.bytes += size
        described = file.source.metadata.row_group(group.number)
        return self._shaped(table, names, group, described.num_rows if late else group.span.rows)

    def kept_rows(self, group: Group) -> pa.BooleanArray | None:
        """Return which rows of a row group are not deleted; None: all."""
        kept = self.reading.files[group.file].kept
        if kept is None:
            return None
        footer = self._file(group.file).source.metadata
        sizes = [footer.row_group(i).num_rows for i in range(group.number + 1)]
        return kept.slice(sum(sizes[:-1]), sizes[-1])

    def _numbers(self, group: Group, table: pa.Table) -> Ints:
        """Return the numbers of the rows that were read of a row group."""
        kept = self.kept_rows(group)
        return (group.place << BITS) + (np.arange(len(table)) if kept is None else np.flatnonzero(kept))

    def _shaped(self, table: pa.Table, names: Sequence[str], group: Group, rows: int) -> pa.Table:
        """Return columns in the types of the schema; what a file has not is null, or in its folder's name."""
        file = self.reading.files[group.file]
        columns = []
        for name in names:
            kind = self.reading.columns.field(name).type
            if name in table.schema.names:
                column = table.column(name)
                if not (name in self.reading.coded and pa.types.is_dictionary(column.type)):
                    column = _guarded(f"column '{name}' of {self._named(group)}", _caster(column, kind))
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
        path = self.reading.files[number].path
        mapped = pa.memory_map(path) if "://" not in self.reading.root else None
        source = mapped if mapped is not None else opened(self.reading.root).open_input_file(path)
        file = pq.ParquetFile(
            source,
            metadata=self.footers[number] if self.footers else None,
            read_dictionary=list(self.reading.coded),
            pre_buffer=mapped is None,
        )
        schema = file.schema_arrow
        columns: dict[str, list[int]] = {name: [] for name in schema.names}
        for i in range(len(file.schema)):
            columns[file.schema.column(i).path.split(".")[0]].append(i)
        return _Opened(file, schema, columns, None if mapped is None else mapped.read_buffer())

    def _named(self, group: Group) -> str:
        return f"{self.reading.files[group.file].path}, row group {group.number}"


def _borders(groups: Sequence[Group], *, ties_by_row: bool) -> list[int]:
    """Return for each row group but the last the time from which events must wait for the next one.

    Where row groups follow one another as their rows do, events of equal time are in order already, unless
    columns break the tie (S1.2).
    """
    in_order = ties_by_row and all(a.place < b.place for a, b in pairwise(groups))
    return [min(each.span.first, MAX_TIME - 1) + in_order for each in groups[1:]]


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


def _before(times: Ints, stop: int) -> npt.NDArray[np.bool_]:
    return np.ones(len(times), bool) if stop == MAX_TIME else times < stop


def _limited(piece: _Piece, part: Slice | None, needs: Halo) -> _Piece:
    """Leave out the events that a slice does not need."""
    if part is None or not len(piece.times):
        return piece
    low = 0 if part.start == MIN_TIME else int(np.searchsorted(piece.times, part.start - needs.before))
    high = len(piece.times)
    if part.stop != MAX_TIME and not needs.events:
        high = int(np.searchsorted(piece.times, part.stop + needs.after))
    if low == 0 and high == len(piece.times):
        return piece
    return piece.slice(low, high)


def _ordered(piece: _Piece, order: Ints) -> _Piece:
    rows = None if piece.rows is None else piece.rows[order]
    return _Piece(piece.table.take(pa.array(order)), piece.times[order], rows)


def _split(pieces: Sequence[_Piece], border: int | None) -> tuple[list[_Piece], list[_Piece]]:
    """Return what must wait for events that come from a time on, and what is before it; None: nothing waits.

    Nothing is merged before it must be: files of one time are sorted once, not once for each.
    """
    pieces = [each for each in pieces if len(each.times)]
    if border is not None and not any(each.times[0] < border for each in pieces):
        return pieces, []
    after, before = [], []
    for each in _merged(pieces):
        at = len(each.times) if border is None else int(np.searchsorted(each.times, border))
        before += [each.slice(0, at)] if at else []
        after += [each.slice(at, len(each.times))] if at < len(each.times) else []
    return after, before


def _merged(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Put pieces into stream order; events of equal time in the order of their rows (S1.2).

    Where the last piece only touches the others, most of it stays as it is.
    """
    if len(pieces) <= 1:
        return list(pieces)
    *others, last = pieces
    at = int(np.searchsorted(last.times, max(each.times[-1] for each in others), "right"))
    joined = _joined([*others, last.slice(0, at)])
    assert joined.rows is not None
    merged = _ordered(joined, np.lexsort((joined.rows, joined.times)))
    return [merged, last.slice(at, len(last.times))] if at < len(last.times) else [merged]


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    """Return pieces one after another; their columns are not copied."""
    if len(pieces) == 1:
        return pieces[0]
    table = pa.concat_tables([each.table for each in pieces]).unify_dictionaries()
    rows = [each.rows for each in pieces if each.rows is not None]
    times = np.concatenate([each.times for each in pieces])
    return _Piece(table, times, np.concatenate(rows) if rows else None)
