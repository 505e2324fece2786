"""Ids for events and matches that are the same in every run, under every plan and on every machine.

The id of an event hashes its time, the attributes that the query reads, its order columns, and its number
among the events that are equal in all of these. A filter cannot change it: equal events pass together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Matches
from cerise.events import EventBatch, Path, Schema, read_column
from cerise.pattern.bound import Bound
from cerise.ties import MIX, STEP, UInts, find_ties, hash_columns, mix, sort_by_hash

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
    equals = number_repeats(events.times, ids) if events.equals is None else events.equals
    return mix(ids + equals * STEP)


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
        if differ:  # only events of earlier batches may equal one of these
            tied &= times[rows] == self.time
            equals = equals[times[equals] == self.time]
        if not len(equals):
            return numbers
        ids = _content_ids(_take(batch, equals), self._paths)
        found = number_repeats(times[equals], ids)
        again = int(np.count_nonzero(times[equals] == self.time))
        if again:
            seen = self.seen
            found[:again] += np.array([seen.get(each, 0) for each in ids[:again].tolist()], np.uint64)
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
            hashed = mix(codes[near].astype(np.int64).view(np.uint64))  # one-to-one: equal codes alone repeat
            return near, not number_repeats(batch.times[near], hashed).any()
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


def count_ties(events: EventBatch, partition: Sequence[Path]) -> int:
    """Count the events with the time, partition and order columns of an event before them (S1.2).

    In a slice, only events that a match may start with count, so that no tie counts in two slices.
    """
    tied = find_ties(events.times[1:] == events.times[:-1])
    if events.opens is not None:
        tied = tied[events.opens[tied]]
    if not len(tied):
        return 0
    paths = [*((name,) for name in events.schema.order), *partition]
    hashed = np.zeros(len(tied), np.uint64)
    if paths:
        some = events.table.select(list({path[0] for path in paths})).take(pa.array(tied))
        hashed = hash_rows(some, events.schema, paths)
    return int(np.count_nonzero(number_repeats(events.times[tied], hashed)))


def number_repeats(groups: npt.NDArray[np.int64], hashed: UInts, *, compiled_rows: int = 10_000) -> UInts:
    """Return for each row how many rows of its group before it have its hash.

    >>> number_repeats(np.array([1, 1, 1, 2]), np.array([7, 8, 7, 7], np.uint64))
    array([0, 0, 1, 0], dtype=uint64)

    Args:
        groups: the number of each row's group; numbers ascend.
        hashed: the hash of each row.
        compiled_rows: from how many rows on a kernel counts.
    """
    numbers = np.zeros(len(groups), np.int64)
    if len(groups) >= compiled_rows:
        from cerise.kernels import arrays  # this brings numba

        starts = np.append(np.flatnonzero(np.append(True, groups[1:] != groups[:-1])), len(groups))
        slots = np.full(2 << int(np.diff(starts).max()).bit_length(), -1, np.int64)
        arrays.number_repeats(starts, hashed.view(np.int64), slots, numbers)
    elif len(groups):
        order = sort_by_hash(groups, hashed)
        ranked, of = hashed[order], groups[order]
        same = np.append(False, (ranked[1:] == ranked[:-1]) & (of[1:] == of[:-1]))
        rows = np.arange(len(groups))
        numbers[order] = rows - np.maximum.accumulate(np.where(same, 0, rows))
    return numbers.view(np.uint64)


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
