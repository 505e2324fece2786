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
from cerise.events import EventBatch

Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]
MAX = np.iinfo(np.int64).max
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
    """

    events: EventBatch
    numbers: Ints
    parts: Ints
    partitions: int
    points: Ints
    opens: Ints
    fresh: int

    def __len__(self) -> int:
        return len(self.numbers)


class EventWindow:
    """The events kept of a stream; memory is linear in the events of a window that fit a variable."""

    def __init__(self, program: Program, pool_rows: int) -> None:
        bound = program.bound
        self.program, self._pool_rows = program, pool_rows
        self.retained = Retained.empty(bound)
        self.points = np.zeros(0, np.int64)
        self.opens = np.zeros(0, np.int64)
        self._partitions = Partitions(program)
        self._counts = np.zeros(1, np.int64)
        self._within = None if bound.within is None else int(str(bound.within.size))

    def __len__(self) -> int:
        return len(self.points)

    def piece(self, fresh: EventBatch) -> EventPiece:
        """Return the kept events with the next events after them."""
        held = self.retained
        held.begin(fresh)
        events = _concat(held.kept, fresh)
        parts, partitions = np.full(len(events), UNKNOWN, np.int64), 0
        if self.program.by_position:
            parts, partitions = _or_one(self._partitions.of(events), events), len(self._partitions)
        kept = len(held.kept)
        points = self._points(fresh, parts[kept:])
        opens = np.ones(len(fresh), np.int64) if fresh.opens is None else fresh.opens.astype(np.int64)
        numbers = np.arange(held.start, held.start + len(fresh))
        return EventPiece(
            events, np.concatenate([held.numbers, numbers]), parts, partitions,
            np.concatenate([self.points, points]), np.concatenate([self.opens, opens]), kept,
        )  # fmt: skip

    def partition(self, piece: EventPiece, wanted: Marks) -> EventPiece:
        """Number the partitions of the wanted events only: numbering all would cost more than matching."""
        if self.program.by_position:
            return piece
        rows = np.flatnonzero(wanted)
        some = EventBatch(
            piece.events.schema, piece.events.table.take(pa.array(rows)), piece.events.times[rows],
            piece.events.positions[rows],
        )  # fmt: skip
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

    def keep(self, piece: EventPiece, fits: Marks, windows: int) -> Marks:
        """Drop all events of a piece except those that fit and lie within the last `windows` windows.

        Returns:
            Whether each event was kept.
        """
        kept: Marks = fits & (piece.parts != -1)
        if self._within is not None and len(piece):
            reach = windows * self._within
            if self.program.by_position:
                kept &= piece.points >= self._counts[piece.parts] - 1 - min(reach, int(MAX))
            else:
                kept &= piece.points >= int(piece.events.times[-1]) - reach
        held = piece.numbers[kept]
        self.retained.prune(held)
        self.retained.end(held)
        self.points, self.opens = piece.points[kept], piece.opens[kept]
        self._forget(piece.parts[kept])
        return kept

    def _forget(self, busy: Ints) -> None:
        """Drop partitions without events once there are many, unless SLIDE counts their positions."""
        if not self.program.by_position or self.program.bound.slide is not None:
            return
        if len(self._partitions) > max(self._pool_rows, 4 * len(busy)) and self._partitions.paths:
            which = np.zeros(len(self._partitions), bool)
            which[busy] = True
            self._counts = self._counts[: len(which)][which]
            self._partitions.keep(which)

    # ---- in another process

    def save(self) -> state.Arrays:
        """Return everything that the query alone does not determine."""
        held, ties = self.retained, self.retained.ties
        return {
            **state.pack_events(held.kept), "numbers": held.numbers, "points": self.points,
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
        held.kept, held.numbers = state.unpack_events(arrays, held.kept), arrays["numbers"]
        held.start = plain["start"]
        held.ties.restore(plain["tie_time"], plain["ties"])
        self.points, self.opens = arrays["points"], arrays["opens"]
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
