"""The events that runs still hold, kept from batch to batch, and matches as rows of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Matches
from cerise.engines.match_ids import Ties
from cerise.events import EventBatch
from cerise.kernels import arrays
from cerise.pattern.bound import Bound

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Retained:
    """Events by number: those kept of former batches, and all of the current one.

    Attributes:
        bound: the query.
        kept: events of former batches.
        numbers: their numbers in the stream, ascending.
        batch: the current batch.
        start: the number of its first event.
        ties: how often an event equal to one has occurred before.
    """

    bound: Bound
    kept: EventBatch
    numbers: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    batch: EventBatch | None = None
    start: int = 0
    ties: Ties = field(init=False)

    def __post_init__(self) -> None:
        self.ties = Ties(self.bound)

    @classmethod
    def empty(cls, bound: Bound) -> Retained:
        """Return what is kept before the first event."""
        nothing = EventBatch.in_order(bound.schema.columns.empty_table(), bound.schema)
        return cls(bound, nothing)

    def begin(self, batch: EventBatch) -> None:
        self.batch = batch

    def end(self, held: Ints) -> None:
        """Keep of the current batch the events with these numbers, and let the rest go."""
        assert self.batch is not None
        fresh = held[held >= self.start] - self.start
        if len(fresh):
            self.kept = _joined(self.kept, self._taken(fresh))
            self.numbers = np.concatenate([self.numbers, fresh + self.start])
        self.ties.follow(self.batch)
        self.start += len(self.batch)
        self.batch = None

    def prune(self, held: Ints) -> None:
        """Keep of former batches only the events with these numbers."""
        left = np.isin(self.numbers, held)
        if not left.all():
            rows = np.flatnonzero(left)
            self.kept, self.numbers = _rows(self.kept, rows), self.numbers[rows]

    def matches(self, lengths: Ints, events: Ints, fill: Ints) -> Matches:
        """Return matches.

        Args:
            lengths: how many events each match has of each variable.
            events: for each variable the numbers of these events; they are changed.
            fill: how many these are.
        """
        table = self.take(_distinct(events, fill))
        rows = {
            var.name: _lists(lengths[:, i], events[i, : fill[i]])
            for i, var in enumerate(self.bound.variables)
        }
        return Matches(table, rows)

    def take(self, used: Ints) -> EventBatch:
        """Return the events with some numbers, which ascend."""
        old = used < self.start
        parts = []
        if old.any():
            parts.append(_rows(self.kept, np.searchsorted(self.numbers, used[old])))
        if not old.all():
            parts.append(self._taken(used[~old] - self.start))
        return parts[0] if len(parts) == 1 else _joined(*parts) if parts else self.kept.slice(0, 0)

    def _taken(self, rows: Ints) -> EventBatch:
        assert self.batch is not None
        return _rows(self.batch, rows, self.ties.numbers(self.batch, rows))


def _rows(events: EventBatch, rows: Ints, equals: npt.NDArray[np.uint64] | None = None) -> EventBatch:
    if equals is None:
        assert events.equals is not None
        equals = events.equals[rows]
    return EventBatch(
        events.schema, events.table.take(pa.array(rows)), events.times[rows], events.positions[rows], equals
    )


def _joined(one: EventBatch, other: EventBatch) -> EventBatch:
    if not len(one):
        return other
    assert one.equals is not None
    assert other.equals is not None
    return EventBatch(
        one.schema,
        pa.concat_tables([one.table, other.table]),
        np.concatenate([one.times, other.times]),
        np.concatenate([one.positions, other.positions]),
        np.concatenate([one.equals, other.equals]),
    )


def _distinct(events: Ints, fill: Ints) -> Ints:
    """Return the distinct numbers in the rows of a table, which become their places among them."""
    rows = [row[:count] for row, count in zip(events, fill, strict=True) if count]
    if not rows:
        return np.zeros(0, np.int64)
    low = min(int(row.min()) for row in rows)
    span = max(int(row.max()) for row in rows) - low + 1
    if span > 64 * int(fill.sum()) + 1024:
        used = np.unique(np.concatenate(rows))
        for row in rows:
            row[:] = np.searchsorted(used, row)
        return used
    places, used = np.empty(span, np.int64), np.empty(min(span, int(fill.sum())) + 1, np.int64)
    count = arrays.number_used(events, fill, low, np.zeros(span, np.uint8), places, used)
    return used[:count]


def _lists(lengths: Ints, values: Ints) -> pa.ListArray:
    """Return lists of the given lengths, one after another; those of length 0 are null.

    The values are copied: matches outlive the memory that they were written to.
    """
    values = values.copy()
    if len(values) == len(lengths) and bool((lengths == 1).all()):
        offsets = np.arange(len(lengths) + 1, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, pa.int64()))
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = pa.array(lengths == 0) if (lengths == 0).any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, pa.int64()), mask=mask)
