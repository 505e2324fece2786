"""Ids for events and matches that are the same in every run, under every plan and on every machine.

The id of an event hashes its time, the attributes that the query reads, its order columns, and its number
among the events that are equal in all of these. A filter cannot change it: equal events pass together.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Matches
from cerise.events import EventBatch, Path, Schema, read_column
from cerise.pattern.bound import Bound
from cerise.ties import MIX, STEP, UInts, hash_columns, mix

STEP_VARIABLE = np.uint64(0xA5A3_564E_27F8_8689)


def match_ids(matches: Matches, bound: Bound) -> pa.Array:
    """Return a 64-bit id for each match: a hash of the events bound to each variable."""
    events = event_ids(matches.events, bound)
    salts = np.arange(1, len(matches.rows) + 1, dtype=np.uint64) * STEP_VARIABLE
    total = np.zeros(len(matches), dtype=np.uint64)
    for number, rows in enumerate(matches.rows.values()):
        total += _hash_lists(rows, events, salts[number : number + 1])
    return pa.array(mix(total).view(np.int64))


def event_ids(events: EventBatch, bound: Bound) -> UInts:
    """Return a 64-bit id for each event."""
    ids = _content_ids(events, _identity_paths(bound))
    return mix(ids + (_number_among_equals(ids) if events.equals is None else events.equals) * STEP)


def _identity_paths(bound: Bound) -> tuple[Path, ...]:
    """Return the attributes that identify an event, besides its time."""
    return tuple(dict.fromkeys((*((name,) for name in bound.schema.order), *bound.reads)))


def _content_ids(events: EventBatch, paths: Iterable[Path]) -> UInts:
    return mix(events.times.view(np.uint64) + hash_rows(events.table, events.schema, paths))


class Ties:
    """How many equal events came before an event, over all batches of a stream.

    Equal events have equal times, so only the events at the last time of a batch are remembered.
    """

    def __init__(self, bound: Bound) -> None:
        self._paths = _identity_paths(bound)
        self.time: int | None = None
        self._seen: dict[int, int] = {}
        self._tails: list[EventBatch] = []  # not counted in `_seen` yet, because ties are rare

    @property
    def seen(self) -> dict[int, int]:
        """How often each event at the last time has occurred."""
        for tail in self._tails:
            for each in _content_ids(tail, self._paths).tolist():
                self._seen[each] = self._seen.get(each, 0) + 1
        self._tails.clear()
        return self._seen

    def restore(self, time: int | None, seen: Iterable[tuple[int, int]]) -> None:
        self.time, self._seen, self._tails = time, {int(k): n for k, n in seen}, []

    def numbers(self, batch: EventBatch, rows: npt.NDArray[np.int64]) -> UInts:
        """Return for the given rows of a batch how many equal events came before them."""
        times = batch.times
        numbers = np.zeros(len(rows), dtype=np.uint64)
        tied = (rows > 0) & (times[rows - 1] == times[rows])
        if self.time is not None and times[0] == self.time:
            tied |= times[rows] == self.time
        if not tied.any():
            return numbers
        equals, differ = _candidates(batch, rows[tied], self._paths)
        if differ and times[equals[0]] != self.time:
            return numbers
        ids = _content_ids(_take(batch, equals), self._paths)
        found = _number_among_equals(ids)
        if self.time is not None and times[equals[0]] == self.time:
            seen = self.seen
            found += np.array([seen.get(each, 0) for each in ids.tolist()], np.uint64)
        numbers[tied] = found[np.searchsorted(equals, rows[tied])]
        return numbers

    def follow(self, batch: EventBatch) -> None:
        """Remember the events at the last time of a batch."""
        if not len(batch):
            return
        last = int(batch.times[-1])
        if last != self.time:
            self.restore(last, ())
        self._tails.append(_take(batch, np.arange(np.searchsorted(batch.times, last), len(batch))))


def _candidates(
    batch: EventBatch, rows: npt.NDArray[np.int64], paths: Iterable[Path]
) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the rows, ascending, that may equal a given row and come no later; and whether all differ."""
    starts = np.searchsorted(batch.times, batch.times[rows])
    changes = np.flatnonzero(np.diff(starts, prepend=-1))
    first, last = starts[changes], np.maximum.reduceat(rows, changes)
    lengths = last - first + 1
    near = np.repeat(first - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    for path in paths:  # one column tells most events apart; the caller compares all columns of the rest
        codes = _codes(batch.table, path)
        if codes is not None:
            near = near[np.isin(codes[near], codes[rows])]
            order = np.lexsort((codes[near], batch.times[near]))
            values, times = codes[near][order], batch.times[near][order]
            return near, not bool(np.any((values[1:] == values[:-1]) & (times[1:] == times[:-1])))
    return near, False


def _codes(table: pa.Table, path: Path) -> npt.NDArray[np.int64] | None:
    """Return a column of integers or dictionary codes as it is; None for other columns and for nulls."""
    column = table.column(path[0])
    if len(path) > 1 or column.null_count:
        return None
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
        return np.concatenate([np.zeros(0, np.int32), *(chunk.indices for chunk in column.chunks)])
    return column.to_numpy() if pa.types.is_integer(column.type) else None


def _take(batch: EventBatch, rows: npt.NDArray[np.int64]) -> EventBatch:
    return EventBatch(
        batch.schema, batch.table.take(pa.array(rows)), batch.times[rows], batch.positions[rows]
    )


def hash_rows(table: pa.Table, schema: Schema, paths: Iterable[Path]) -> UInts:
    """Return a hash of the given attributes of each row; rows that GROUP BY would unite hash alike."""
    columns = ((read_column(table, schema, path), schema.kind(path)) for path in paths)
    return hash_columns(columns, len(table))


def _hash_lists(rows: pa.ListArray, events: UInts, salt: UInts, *, compiled_events: int = 10_000) -> UInts:
    """Return for each list of rows the sum of the hashes of (event, position in the list).

    Args:
        rows: the lists.
        events: the hashes of events, by row.
        salt: makes the hashes of this variable differ from those of others.
        compiled_events: from how many events in lists on a kernel hashes them.
    """
    lengths = rows.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = rows.flatten().to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    if len(flat) >= compiled_events:
        from cerise.kernels.arrays import hash_lists  # this brings numba

        words, sums = np.array([*(salt + MIX[0]), STEP, *MIX[1:]]), np.zeros(len(rows), np.int64)
        with np.errstate(over="ignore"):
            hash_lists(flat.ctypes.data, lengths, events.view(np.int64), words.view(np.int64), sums)
        return sums.view(np.uint64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    place = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    hashed = mix(events[flat] + place.astype(np.uint64) * STEP + salt)
    sums_to = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashed)])
    result: UInts = sums_to[starts[1:]] - sums_to[starts[:-1]]
    return result


def _number_among_equals(ids: UInts) -> UInts:
    """Return for each id how often it has occurred before."""
    order = np.argsort(ids, kind="stable")
    ranked = ids[order]
    starts = (
        np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]])) if len(ids) else np.zeros(0, int)
    )
    sizes = np.diff(np.append(starts, len(ids)))
    numbers = np.empty(len(ids), dtype=np.uint64)
    numbers[order] = (np.arange(len(ids)) - np.repeat(starts, sizes)).astype(np.uint64)
    return numbers
