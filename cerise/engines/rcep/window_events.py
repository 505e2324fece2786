"""Keeps the events that may still be part of a match, from batch to batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.automaton import state
from cerise.engines.automaton.columns import Partitions
from cerise.engines.automaton.memory import Retained
from cerise.engines.automaton.program import Program
from cerise.engines.automaton.window import number_in_partition
from cerise.engines.census import Census, weigh
from cerise.engines.limits import Limits
from cerise.events import EventBatch
from cerise.kinds import INT64_MIN

Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
MAX = np.iinfo(np.int64).max
OWN_WORDS = 3  # that a window keeps beside each event: its number, point, and whether it opens a match
UNKNOWN = -2  # the partition of an event before `Window.partition` numbers it


@dataclass(frozen=True, slots=True)
class EventPiece:
    """The events that are matched together: the kept events, then new ones.

    Attributes:
        events: the events, in stream order.
        numbers: the number of each event in the stream.
        parts: the partition of each event, -1 for none, numbered within the piece; UNKNOWN until
            `Window.partition` numbers it.
        partitions: how many partitions there are.
        points: the time of each event, or its position in the partition if the window counts events.
        opens: whether a match may start with each event.
        fresh: the first new event.
        rows: the kept events that the piece has, by row of the window; None: all of them.
    """

    events: EventBatch
    numbers: Ints
    parts: Ints
    partitions: int
    points: Ints
    opens: Ints
    fresh: int
    rows: Ints | None = None

    def __len__(self) -> int:
        return len(self.numbers)


class EventWindow:
    """The events kept of a stream; memory is linear in the events of a window that fit a variable."""

    def __init__(self, program: Program, limits: Limits) -> None:
        bound = program.bound
        self.program, self._limits = program, limits
        self.retained = Retained(bound)
        self.numbers = np.zeros(0, np.int64)
        self.points = np.zeros(0, np.int64)
        self.opens = np.zeros(0, np.int64)
        self._partitions = Partitions(program.bound)
        self._counts = np.zeros(1, np.int64)
        self._within = None if bound.within is None else int(str(bound.within.size))
        self._unite()

    def _unite(self) -> None:
        """Forget the partitions of kept events, which `select` numbers by need."""
        self._by_key = Partitions(self.program.bound)
        self._parts: Ints | None = None
        self._more: Ints | None = None  # of the new events

    def __len__(self) -> int:
        return len(self.points)

    @property
    def nbytes(self) -> int:
        """The bytes of the kept events, at most."""
        return self.retained.nbytes + 8 * OWN_WORDS * len(self)

    def expire(self, since: int) -> None:
        """Drop all kept events before a time, unless the window counts events: then none is left to drop."""
        if self._within is not None and not self.program.by_position:
            expired = int(np.searchsorted(self.points, since))
            if expired:
                self._drop(np.arange(len(self)) < expired)

    def census(self, vetoes: Marks) -> Census:
        """Count the kept events, except those that may veto a match, which must stay."""
        rows, kept = np.flatnonzero(~vetoes), self.retained.kept
        parts = self._find_parts()
        nbytes = weigh(kept.table) + 8 * OWN_WORDS * len(self)
        times, keys = kept.times[rows], list(self._by_key.numbers)
        return Census("events", times, self.numbers[rows], parts[rows], keys, rows, nbytes)

    def evict(self, rows: Ints) -> None:
        """Drop kept events; no match may start with an event of their partition that is older, and stays."""
        parts, gone = self._find_parts(), np.zeros(len(self), np.bool_)
        gone[rows] = True
        newest = np.full(int(parts.max(initial=0)) + 1, -1, np.int64)
        np.maximum.at(newest, parts[rows], self.numbers[rows])
        self.opens[self.numbers <= newest[parts]] = 0
        self._drop(gone)

    def _find_parts(self) -> Ints:
        """Return the partitions of kept events."""
        if self._parts is None:
            self._parts = _or_one(self._by_key.of(self.retained.kept), self.retained.kept)
        return self._parts

    def select(self, fresh: EventBatch, ends: Marks) -> Ints:
        """Return the kept events in the window and the partition of a new event that may end a match, by row.

        Args:
            fresh: the new events.
            ends: whether each may end a match.
        """
        parts = self._find_parts()
        self._more = _or_one(self._by_key.of(fresh), fresh)
        wanted = np.zeros(len(self._by_key) + 1, np.bool_)  # the last is for events without a partition
        wanted[self._more[ends]] = True
        wanted[-1] = False
        if not wanted.any():
            return np.zeros(0, np.int64)
        first = 0
        if self._within is not None:
            since = int(fresh.times[np.argmax(ends)]) - self._within
            first = int(np.searchsorted(self.points, max(since, INT64_MIN)))
        return np.flatnonzero(wanted[parts[first:]]) + first

    def piece(self, fresh: EventBatch, rows: Ints | None = None) -> EventPiece:
        """Return kept events, all or those at some rows, with the next events after them."""
        held = self.retained
        held.begin(fresh)
        some: slice | Ints = slice(None) if rows is None else rows
        events = _concat(held.kept if rows is None else held.take(self.numbers[rows]), fresh)
        parts, partitions = np.full(len(events), UNKNOWN, np.int64), 0
        if self.program.by_position:
            parts, partitions = _or_one(self._partitions.of(events), events), len(self._partitions)
        kept = len(events) - len(fresh)
        points = self._points(fresh, parts[kept:])
        opens = np.ones(len(fresh), np.int64) if fresh.opens is None else fresh.opens.astype(np.int64)
        numbers = np.arange(held.start, held.start + len(fresh))
        return EventPiece(
            events, np.concatenate([self.numbers[some], numbers]), parts, partitions,
            np.concatenate([self.points[some], points]), np.concatenate([self.opens[some], opens]),
            kept, rows,
        )  # fmt: skip

    def partition(self, piece: EventPiece, wanted: Marks) -> EventPiece:
        """Number the partitions of the wanted events only: numbering all would cost more than matching."""
        if self.program.by_position:
            return piece
        rows = np.flatnonzero(wanted)
        some = piece.events.take(rows)
        found, partitions = self._partitions.among(some)
        parts = piece.parts.copy()
        parts[rows] = _or_one(found, some)
        return replace(piece, parts=parts, partitions=partitions)

    def _points(self, fresh: EventBatch, parts: Ints) -> Ints:
        if not self.program.by_position:
            return fresh.times
        if len(self._counts) < len(self._partitions):
            more = 2 * len(self._partitions) - len(self._counts)
            self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])
        points = np.zeros(len(fresh), np.int64)
        number_in_partition(np.ascontiguousarray(parts), points, self._counts)
        return points

    def has_before(self, time: int, number: int) -> bool:
        """Whether an event is kept that is before a time, and has a number or a higher one."""
        place = int(np.searchsorted(self.numbers, number))
        return place < len(self) and int(self.points[place]) < time

    def keep(self, piece: EventPiece, fits: Marks, windows: int, now: int | None) -> None:
        """Keep the events of a piece that fit and lie within the last `windows` windows.

        Where many are kept, older events stay until they are a quarter: to drop them is to copy the others.

        Args:
            piece: the events.
            fits: whether each event fits a variable.
            windows: how many windows are kept.
            now: the time before which no event will come.
        """
        kept: Marks = fits & (piece.parts != -1)
        gone = ~kept[: piece.fresh] if piece.rows is None else np.zeros(len(self), np.bool_)
        if self._within is not None and len(piece) and now is not None:
            reach = windows * self._within
            if self.program.by_position:
                kept &= piece.points >= self._counts[piece.parts] - 1 - min(reach, int(MAX))
                gone |= ~kept[: piece.fresh]
            else:
                since = max(now - reach, INT64_MIN)
                kept &= piece.points >= since
                expired = int(np.searchsorted(self.points, since))
                if 4 * expired >= len(self) or len(self) <= self._limits.small_rows:
                    gone[:expired] = True
        self.opens[slice(None) if piece.rows is None else piece.rows] = piece.opens[: piece.fresh]
        if gone.any():
            self._drop(gone)
        self._append(piece, np.flatnonzero(kept[piece.fresh :]))
        self._forget(piece.parts[kept])

    def _drop(self, gone: Marks) -> None:
        """Drop kept events."""
        left = np.flatnonzero(~gone)
        self.numbers, self.points, self.opens = self.numbers[left], self.points[left], self.opens[left]
        self.retained.prune(self.numbers)
        self._unite()

    def _append(self, piece: EventPiece, rows: Ints) -> None:
        """Keep some of the new events of a piece, by row, and end it."""
        at = rows + piece.fresh
        self.numbers = np.concatenate([self.numbers, piece.numbers[at]])
        self.points = np.concatenate([self.points, piece.points[at]])
        self.opens = np.concatenate([self.opens, piece.opens[at]])
        if self._parts is not None and self._more is not None:
            self._parts = np.concatenate([self._parts, self._more[rows]])
        else:
            self._unite()
        self._more = None
        self.retained.end(piece.numbers[at])

    def _forget(self, busy: Ints) -> None:
        """Drop partitions without events once there are many, unless SLIDE counts their positions."""
        if not self.program.by_position or self.program.bound.slide is not None:
            return
        if len(self._partitions) > max(self._limits.pool_rows, 4 * len(busy)) and self._partitions.paths:
            which = np.zeros(len(self._partitions), bool)
            which[busy] = True
            self._counts = self._counts[: len(which)][which]
            self._partitions.keep(which)

    # ---- in another process

    def save(self) -> state.Arrays:
        """Return everything that the query alone does not determine."""
        held, ties = self.retained, self.retained.ties
        return {
            **state.pack_events(held.kept), "numbers": self.numbers, "points": self.points,
            "opens": self.opens, "counts": self._counts[: len(self._partitions)],
            "plain": state.pack_json({
                "start": held.start, "partitions": self._keys(), "tie_time": ties.time,
                "ties": list(ties.seen.items()),
            }),
        }  # fmt: skip

    def _keys(self) -> list[list[object]]:
        return [list(key) for key in self._partitions.numbers] if self.program.by_position else []

    def restore(self, arrays: state.Arrays) -> None:
        """Take over saved events."""
        held, plain = self.retained, state.unpack_json(arrays["plain"])
        held.restore(state.unpack_events(arrays, held.nothing), arrays["numbers"])
        held.start = plain["start"]
        held.ties.restore(plain["tie_time"], plain["ties"])
        self.numbers, self.points, self.opens = arrays["numbers"], arrays["points"], arrays["opens"].copy()
        if self.program.by_position:
            self._counts = arrays["counts"]
            if self._partitions.paths:
                self._partitions.restore(tuple(key) for key in plain["partitions"])


def _or_one(parts: Ints | None, events: EventBatch) -> Ints:
    return np.zeros(len(events), np.int64) if parts is None else np.ascontiguousarray(parts)


def _concat(kept: EventBatch, fresh: EventBatch) -> EventBatch:
    if not len(kept):
        return fresh
    return EventBatch(
        fresh.schema,
        pa.concat_tables([kept.table, fresh.table]),
        np.concatenate([kept.times, fresh.times]),
        np.concatenate([kept.positions, fresh.positions]),
    )
