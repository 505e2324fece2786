"""The events that a team keeps: those of its windows, once for all queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.columns import Partitions
from cerise.engines.automaton.memory import mark_members
from cerise.engines.census import EMPTY, Census, weigh
from cerise.engines.match_ids import Ties
from cerise.events import EventBatch, concat_events
from cerise.pattern.bound import Bound

Ints = npt.NDArray[np.int64]
UInts = npt.NDArray[np.uint64]
EVENT_BYTES = 24  # of a kept event besides its columns: its number, its points, whether it opens a match


@dataclass(frozen=True, slots=True)
class ReadPiece:
    """Events that are read together, with their numbers, and whether their matches were given before."""

    events: EventBatch
    numbers: Ints
    opens: Ints
    points: Ints
    again: bool = False

    def __len__(self) -> int:
        return len(self.numbers)

    def slice(self, start: int, stop: int) -> ReadPiece:
        return replace(
            self, events=self.events.slice(start, stop), numbers=self.numbers[start:stop],
            opens=self.opens[start:stop], points=self.points[:, start:stop],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeptPiece:
    """Events that were kept together.

    Attributes:
        numbers: their numbers in the stream, ascending.
        events: the events.
        opens: whether a match may start with each.
        points: for each scope whose windows count events, the position of each.
        equals: for each group of queries, how many equal events precede each.
    """

    numbers: Ints
    events: EventBatch
    opens: Ints
    points: Ints
    equals: UInts

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: Ints) -> KeptPiece:
        return KeptPiece(
            self.numbers[rows], self.events.take(rows), self.opens[rows], self.points[:, rows],
            self.equals[:, rows],
        )  # fmt: skip


def concat_pieces(pieces: Sequence[KeptPiece]) -> KeptPiece:
    """Concatenate pieces, one or more."""
    if len(pieces) == 1:
        return pieces[0]
    events = concat_events([replace(each.events, equals=each.equals[0]) for each in pieces])
    return KeptPiece(
        np.concatenate([each.numbers for each in pieces]),
        replace(events, table=events.table.combine_chunks(), equals=None),
        np.concatenate([each.opens for each in pieces]),
        np.concatenate([each.points for each in pieces], axis=1),
        np.concatenate([each.equals for each in pieces], axis=1),
    )


class TeamEvents:
    """Events by number: those kept of earlier pieces, and those of the current batch.

    Queries that read the same attributes number equal events alike, so that each group of such queries
    counts them once.

    Args:
        bounds: the queries.
        positions: how many scopes have windows that count events.
    """

    def __init__(self, bounds: Sequence[Bound], positions: int) -> None:
        self._bounds, self._positions = bounds, positions
        groups: dict[object, int] = {}
        self.group_of = [groups.setdefault((b.reads, b.schema.order), len(groups)) for b in bounds]
        first = [self.group_of.index(group) for group in range(len(groups))]
        self.ties = [Ties(bounds[number]) for number in first]
        self.start = 0
        self.batch: EventBatch | None = None
        self._pieces: list[KeptPiece] = []

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    @property
    def first(self) -> int:
        """The number of the oldest kept event; of the next event, if none is kept."""
        return int(self._pieces[0].numbers[0]) if self._pieces else self.start

    @property
    def kept(self) -> KeptPiece | None:
        """The events kept of earlier pieces; None: there are none."""
        self._pieces = [concat_pieces(self._pieces)] if self._pieces else []
        return self._pieces[0] if self._pieces else None

    def begin(self, batch: EventBatch) -> None:
        self.batch = batch

    def keep(self, rows: Ints, opens: Ints, points: Ints) -> None:
        """Keep some events of the current batch, by row, and end it.

        Args:
            rows: the events, ascending.
            opens: whether a match may start with each event of the batch.
            points: for each scope whose windows count events, the position of each event of the batch.
        """
        batch = self.batch
        assert batch is not None
        if len(rows):
            equals = np.stack([each.numbers(batch, rows) for each in self.ties])
            kept = replace(batch.take(rows), equals=None)
            self._pieces.append(KeptPiece(rows + self.start, kept, opens[rows], points[:, rows], equals))
            while len(self._pieces) > 1 and len(self._pieces[-2]) <= 2 * len(self._pieces[-1]):
                self._pieces[-2:] = [concat_pieces(self._pieces[-2:])]
        for each in self.ties:
            each.follow(batch)
        self.start += len(batch)
        self.batch = None

    def prune(self, used: Ints) -> None:
        """Drop the kept events, except those whose numbers are given, in any order."""
        left = []
        for piece in self._pieces:
            rows = np.flatnonzero(mark_members(piece.numbers, used))
            if len(rows):
                left.append(piece if len(rows) == len(piece) else piece.take(rows))
        self._pieces = left

    def restore(self, piece: KeptPiece | None) -> None:
        self._pieces = [] if piece is None else [piece]

    # ---- limits

    def census(self) -> Census:
        """Count the kept events by the partitions of the first query."""
        piece, bound = self.kept, self._bounds[0]
        if piece is None:
            return EMPTY
        partitions = Partitions(bound)
        parts = partitions.of(piece.events)
        rows = np.arange(len(piece))
        parts = np.zeros(len(piece), np.int64) if parts is None else parts
        nbytes = weigh(piece.events.table) + EVENT_BYTES * len(piece)
        return Census(
            "events", piece.events.times, piece.numbers, parts, list(partitions.numbers), rows, nbytes
        )

    def evict(self, rows: Ints) -> None:
        """Drop events of the last census; no match may start with an older one of their partition."""
        piece = self.kept
        if piece is None:
            return
        parts = Partitions(self._bounds[0]).of(piece.events)
        parts = np.zeros(len(piece), np.int64) if parts is None else parts
        gone = np.zeros(len(piece), np.bool_)
        gone[rows] = True
        newest = np.full(int(parts.max(initial=0)) + 1, -1, np.int64)
        np.maximum.at(newest, parts[rows], piece.numbers[rows])
        opens = np.where(piece.numbers <= newest[parts], 0, piece.opens)
        self.restore(replace(piece, opens=opens).take(np.flatnonzero(~gone)))

    # ---- events of matches

    def take(self, numbers: Ints, query: int) -> EventBatch:
        """Return the events with the given numbers, which ascend, as a query counts equal ones."""
        group, parts, low = self.group_of[query], [], 0
        for piece in self._pieces:
            high = int(np.searchsorted(numbers, piece.numbers[-1], "right"))
            if high > low:
                rows = np.searchsorted(piece.numbers, numbers[low:high])
                parts.append(piece.events.take(rows, piece.equals[group, rows]))
            low = high
        if low < len(numbers):
            assert self.batch is not None
            rows = numbers[low:] - self.start
            parts.append(self.batch.take(rows, self.ties[group].numbers(self.batch, rows)))
        return concat_events(parts) if parts else self._empty(query)

    def _empty(self, query: int) -> EventBatch:
        schema = self._bounds[query].schema
        return EventBatch.in_order(schema.columns.empty_table(), schema)

    @property
    def nbytes(self) -> int:
        return sum(piece.events.table.nbytes for piece in self._pieces)
