"""Reads the row groups of a slice in place, one at a time, and yields their events in stream order.

Matching reads only the columns that it needs. The other returned columns are read afterwards, for matched
events only: each event carries the place of its row group and its row there as one number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.limits import DEFAULT, Limits
from cerise.errors import CeriseError, DataError
from cerise.events import EventBatch, read_times, sort_by_time_and_number
from cerise.files.lake import Group
from cerise.files.reader import BITS, GroupReader, Ints, ReadCounts, Reading
from cerise.plan.router import Router, router_of
from cerise.plan.slicing import MAX_TIME, MIN_TIME, Halo, Slice, place_of

ROW = "__cerise_row"  # the column of row numbers: the place of the row group, and the row
WORTH_A_FILTER = 0.5  # share of events: if a filter keeps more, the matcher judges them itself


class RowFilter(Protocol):
    """Tells which rows may matter, by some columns: a router, or the filter of passes."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it reads."""
        ...

    @property
    def word_column(self) -> str | None:
        """A column whose strings decide that their rows go, or may stay; None: no column does."""
        ...

    @property
    def is_sure(self) -> bool:
        """Whether these strings alone decide."""
        ...

    def judge_words(self, words: pa.Array) -> npt.NDArray[np.uint8]:
        """Return for each string 0 if its rows go."""
        ...

    def mask(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """Return which rows of a table to keep: a superset of those that matter."""
        ...


@dataclass(slots=True)
class _Piece:
    """Events in stream order, with the numbers of their rows; rows is None where nothing needs them."""

    table: pa.Table
    times: Ints
    rows: Ints | None

    def slice(self, start: int, stop: int) -> _Piece:
        rows = None if self.rows is None else self.rows[start:stop]
        return _Piece(self.table.slice(start, stop - start), self.times[start:stop], rows)


@dataclass(slots=True)
class Scan:
    """The scan of one task.

    Attributes:
        reading: the files and columns to read.
        groups: the row groups, sorted by their first times.
        limits: how many events a batch has.
        keep: a filter in place of that of the reading, which is never given up.
    """

    reading: Reading
    groups: Sequence[Group]
    limits: Limits = DEFAULT
    keep: RowFilter | None = None
    _router: Router | None = None
    _reader: GroupReader = field(init=False)

    def __post_init__(self) -> None:
        self._reader = GroupReader(self.reading, self.groups)
        if self.reading.needed is not None and self.keep is None:
            self._router = router_of(self.reading.needed)

    @property
    def counts(self) -> ReadCounts:
        return self._reader.counts

    def events(self, part: Slice | None, needs: Halo) -> Iterator[EventBatch]:
        """Yield the events of a slice in stream order; None: of all row groups.

        The row groups must be sorted by their first times. An event waits in memory until no unread row
        group can hold an earlier one.
        """
        at_once = self.limits.scanned_events
        waiting: list[_Piece] = []
        ready: list[_Piece] = []
        borders = _borders(self.groups, ties_by_row=not self._tied)
        overlap = any(border <= group.span.last for group, border in zip(self.groups, borders, strict=False))
        numbered = bool(self.reading.late) or overlap
        for i, group in enumerate(self.groups):
            waiting.append(_clip(self._piece(group, numbered=numbered), part, needs))
            waiting, before = _split(waiting, borders[i] if i < len(borders) else None)
            for piece in before:
                ready.append(piece)
                if sum(len(each.times) for each in ready) >= at_once:
                    yield self._batch(_concat(ready), part)
                    ready = []
        if ready:
            yield self._batch(_concat(ready), part)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the events of each row group in the order of the file, with the numbers of their rows.

        Raises:
            DataError: an event has no time.
        """
        for group in self.groups:
            yield from self._list_rows(
                group, None if group.timeless else self.keep or self._router, timed=True
            )

    def rows(self) -> Iterator[pa.Table]:
        """Yield the rows of each row group in the order of the file, with their numbers."""
        for group in self.groups:
            yield from self._list_rows(group, self.keep or self._router, timed=False)

    def _list_rows(self, group: Group, router: RowFilter | None, *, timed: bool) -> Iterator[pa.Table]:
        table, rows = self._read(group, router)
        if timed and len(table):
            self._times(group, table)
        if router is None and self.keep is not None and len(table):  # times were to be checked first
            kept = np.flatnonzero(self.keep.mask(table))
            table, rows = table.take(pa.array(kept)), kept if rows is None else rows[kept]
        if len(table):
            yield table.append_column(ROW, pa.array(_number_rows(group, rows, len(table))))

    def first_rows(self, rows: int) -> pa.Table:
        """Return the first rows of the only row group."""
        (group,) = self.groups
        return self._reader.read(group, self.reading.reads, late=False).slice(0, rows)

    def complete(self, events: EventBatch) -> EventBatch:
        """Return events with their late columns added, in the order and types of the schema."""
        late = self.reading.late
        table = events.table
        arrival = {path[0] for path in self.reading.arrival}
        columns = {name: table.column(name) for name in self.reading.reads if name not in arrival}
        if late:
            fetched = self._reader.fetch(table.column(ROW).to_numpy())
            columns |= {name: fetched.column(name) for name in late}
        schema = self.reading.columns
        names = [name for name in schema.names if name in columns]
        fields = [schema.field(name) for name in names]
        whole = pa.table({name: columns[name] for name in names}).cast(pa.schema(fields))
        return replace(events, table=whole)

    # ---- pieces

    @property
    def _tied(self) -> bool:
        """Whether attributes break ties between events of equal time before their rows do."""
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
            events = EventBatch.of(table, self.reading.roles, then=self.reading.arrival)
            return replace(events, opens=opens)
        positions = np.broadcast_to(np.int64(0), len(table))
        return EventBatch(self.reading.roles, table, piece.times, positions, opens=opens)

    def _piece(self, group: Group, *, numbered: bool) -> _Piece:
        table, rows = self._read(group, None if group.timeless else self._router)
        if not len(table):
            return _Piece(table, np.zeros(0, np.int64), None)
        times = self._times(group, table)
        piece = _Piece(table, times, _number_rows(group, rows, len(table)) if numbered else None)
        if not bool(np.all(times[1:] >= times[:-1])):
            return _reorder(piece, np.argsort(times, kind="stable"))
        return piece

    def _times(self, group: Group, table: pa.Table) -> Ints:
        try:
            return read_times(table, self.reading.roles)
        except CeriseError as error:
            raise DataError(f"{self._reader.describe(group)}: {error.problem}", hint=error.hint) from error

    def _read(self, group: Group, router: RowFilter | None) -> tuple[pa.Table, Ints | None]:
        """Read a row group; stop filtering for good once a filter keeps too many rows."""
        table, rows = self._reader.read_where(group, self.reading.reads, router)
        if router is not None and len(table) > WORTH_A_FILTER * group.span.rows:
            self._router = None
        return table, rows


def _number_rows(group: Group, rows: Ints | None, count: int) -> Ints:
    """Return the place of a row group and the number of a row as one number, for each of its rows."""
    return (group.place << BITS) + (np.arange(count) if rows is None else rows)


def _borders(groups: Sequence[Group], *, ties_by_row: bool) -> list[int]:
    """Return for each row group but the last the time from which its events must wait for the next group.

    If the row groups come in arrival order, events of equal time are in order already, unless columns break
    the tie (S1.2).
    """
    in_order = ties_by_row and all(a.place < b.place for a, b in pairwise(groups))
    return [min(each.span.first, MAX_TIME - 1) + in_order for each in groups[1:]]


def _before(times: Ints, stop: int) -> npt.NDArray[np.bool_]:
    return np.ones(len(times), bool) if stop == MAX_TIME else times < stop


def _clip(piece: _Piece, part: Slice | None, needs: Halo) -> _Piece:
    """Drop the events that a slice does not need."""
    if part is None or not len(piece.times):
        return piece
    low = 0 if part.start == MIN_TIME else place_of(piece.times, part.start - needs.before)
    high = len(piece.times)
    if part.stop != MAX_TIME and not needs.events:
        high = place_of(piece.times, part.stop + needs.after)
    if low == 0 and high == len(piece.times):
        return piece
    return piece.slice(low, high)


def _reorder(piece: _Piece, order: Ints) -> _Piece:
    rows = None if piece.rows is None else piece.rows[order]
    return _Piece(piece.table.take(pa.array(order)), piece.times[order], rows)


def _split(pieces: Sequence[_Piece], border: int | None) -> tuple[list[_Piece], list[_Piece]]:
    """Return the pieces from the border on, which must wait, and those before it; None: no piece waits.

    Only events before the border are merged: those of files that cover the same time are sorted once, not
    once for each file.
    """
    after, before = [], []
    for each in pieces:
        at = len(each.times) if border is None else int(np.searchsorted(each.times, border))
        before += [each.slice(0, at)] if at else []
        after += [each.slice(at, len(each.times))] if at < len(each.times) else []
    return after, _merge(before)


def _merge(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Merge pieces into stream order; events of equal time in the order of their rows (S1.2).

    If the last piece overlaps the others only at its start, the rest of it is not copied.
    """
    if len(pieces) <= 1:
        return list(pieces)
    *others, last = pieces
    at = int(np.searchsorted(last.times, max(each.times[-1] for each in others), "right"))
    joined = _concat([*others, last.slice(0, at)])
    assert joined.rows is not None
    merged = _reorder(joined, _sort_rows(joined.times, joined.rows))
    return [merged, last.slice(at, len(last.times))] if at < len(last.times) else [merged]


def _sort_rows(times: Ints, rows: Ints) -> Ints:
    """Return the order by time and row; a stable sort is fast on sorted pieces one after another."""
    order = np.argsort(times, kind="stable")
    times, rows = times[order], rows[order]
    if not bool(np.any((times[1:] == times[:-1]) & (rows[1:] < rows[:-1]))):
        return order
    quick = sort_by_time_and_number(times, rows)
    return order[np.lexsort((rows, times)) if quick is None else quick]


def _concat(pieces: Sequence[_Piece]) -> _Piece:
    """Concatenate pieces; each column becomes one array, or each of its readers would join the parts."""
    if len(pieces) == 1:
        return pieces[0]
    table = pa.concat_tables([each.table for each in pieces]).unify_dictionaries().combine_chunks()
    rows = [each.rows for each in pieces if each.rows is not None]
    times = np.concatenate([each.times for each in pieces])
    return _Piece(table, times, np.concatenate(rows) if rows else None)
