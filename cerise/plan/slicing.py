"""Cuts a stream into slices of time, which tasks match independently: each match is found once.

A match belongs to the slice of its first event. So a slice needs the events of its own time, the events up
to one window after it and, if a NOT looks back, up to one window before it; only its own events may start a
match (`EventBatch.opens`). A run that starts in a slice expires before the next slice of the same task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from cerise.pattern.bound import Bound
from cerise.pattern.query import Output, Unit, Window

Ints = npt.NDArray[np.int64]
SHARE = 8  # windows in the length of a slice
AMPLIFIED = 1.25  # events that all slices together may read, as a multiple of all events
MIN_TIME, MAX_TIME = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Halo:
    """The events that a slice needs around its own.

    Attributes:
        before: the time before the slice.
        after: the time after the slice.
        events: how many events after that, for a window that counts events, or for NEXT.
        preceding: how many events before that, for PREV.
    """

    before: int = 0
    after: int = 0
    events: int = 0
    preceding: int = 0


def halo(bounds: Sequence[Bound]) -> Halo | str:
    """Return the halo of slices of a stream, or the reason why it cannot be cut by time."""
    found = [_halo(bound) for bound in bounds]
    for number, each in enumerate(found, 1):
        if isinstance(each, str):
            return each if len(found) == 1 else f"query {number}: {each}"
    halos = [each for each in found if isinstance(each, Halo)]
    return Halo(*(max(getattr(each, name) for each in halos) for name in ("before", "after", "events")))


def _halo(bound: Bound) -> Halo | str:
    if bound.query.output is Output.NON_OVERLAPPING:
        return "which matches overlap is known only from the first event on"
    if bound.query.limit is not None:
        return "LIMIT chooses among matches that start anywhere"
    if bound.within is None:
        return "without WITHIN a match may span all events"
    negations = [each for branch in bound.branches for each in branch.negations]
    if bound.within.unit is not Unit.EVENTS:
        looks_back = any(each.absence.anywhere or not each.absence.after for each in negations)
        return Halo(_size(bound.within) if looks_back else 0, _size(bound.within))
    if bound.partition:
        return "the window counts the events of each partition"
    if bound.slide is not None:
        return "SLIDE counts events from the first one on"
    if negations:
        return "a NOT looks as many events back as the window has"
    return Halo(events=_size(bound.within))


def _size(window: Window) -> int:
    assert isinstance(window.size, int)
    return window.size


def place_of(times: Ints, time: int) -> int:
    """Return how many of the sorted times are before a time, which may exceed 64 bits."""
    return len(times) if time > MAX_TIME else int(np.searchsorted(times, max(time, MIN_TIME)))


# ---- slices of one length


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of exchanged events: by key, by time, or by both.

    An event of key k at time t belongs to target (hash(k) + t // length) mod count. So several keys can
    share a task, and a key with most of the events is cut by time.

    Attributes:
        count: how many targets there are.
        length: the length of a slice of time; None: only the key decides.
        halo: the events that a slice needs around its own.
    """

    count: int
    length: int | None
    halo: Halo

    def of(self, times: Ints, keys: npt.NDArray[np.uint64] | None) -> list[tuple[Ints, Ints]]:
        """Return pairs of rows and targets: first each event's own, then the targets whose halo holds it."""
        rows = np.arange(len(times))
        base = (
            np.zeros(len(times), np.int64)
            if keys is None
            else (keys % np.uint64(self.count)).astype(np.int64)
        )
        if self.length is None or self.count == 1:
            return [(rows, base)]
        part, inside = np.divmod(times, self.length)
        sent = [(rows, (base + part) % self.count)]
        if self.halo.after:
            late = np.flatnonzero(inside < self.halo.after)
            sent.append((late, (base[late] + part[late] - 1) % self.count))
        if self.halo.before:
            early = np.flatnonzero(inside >= self.length - self.halo.before)
            sent.append((early, (base[early] + part[early] + 1) % self.count))
        return sent


# ---- files in the order of time


@dataclass(frozen=True, slots=True)
class GroupSpan:
    """A row group: its first and last times, and its number of events."""

    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of a stream: its matches start at or after `start`, and before `stop`.

    Attributes:
        start: its first time.
        stop: the first time after it.
        reads: the numbers of the row groups that it needs, in the order of their first times.
    """

    start: int
    stop: int
    reads: tuple[int, ...]


def slices(
    spans: Sequence[GroupSpan], needs: Halo, most: int, *, amplified: float = AMPLIFIED
) -> list[Slice]:
    """Cut a stream into slices of about the same number of events, as many as read little twice.

    Args:
        spans: the row groups.
        needs: the halo of a slice.
        most: how many slices there may be.
        amplified: how many events the slices together may read, as a multiple of all events.

    Returns:
        One slice or more. One: the stream is small, or its row groups overlap in time.
    """
    order = sorted(range(len(spans)), key=lambda i: (spans[i].first, spans[i].last))
    total = sum(span.rows for span in spans)
    count = min(most, len(spans))
    while count > 1:
        cut = _slice_evenly(spans, order, needs, count)
        if len(cut) == 1 or sum(spans[i].rows for each in cut for i in each.reads) <= amplified * total:
            return cut
        count = count * 2 // 3
    return _slice_evenly(spans, order, needs, 1)


def _slice_evenly(spans: Sequence[GroupSpan], order: Sequence[int], needs: Halo, count: int) -> list[Slice]:
    total = sum(span.rows for span in spans)
    borders: list[int] = []
    seen = 0
    for i in order:
        least = borders[-1] if borders else MIN_TIME
        if seen >= total * (len(borders) + 1) / count and least < spans[i].first < MAX_TIME:
            borders.append(spans[i].first)
        seen += spans[i].rows
    ends = [MIN_TIME, *borders, MAX_TIME]
    return [Slice(start, stop, _reads(spans, order, needs, start, stop)) for start, stop in pairwise(ends)]


def _reads(
    spans: Sequence[GroupSpan], order: Sequence[int], needs: Halo, start: int, stop: int
) -> tuple[int, ...]:
    low = start if start == MIN_TIME else _since(spans, start - needs.before, needs.preceding)
    high = stop if stop == MAX_TIME else _until(spans, stop + needs.after, needs.events)
    return tuple(i for i in order if spans[i].last >= low and (high >= MAX_TIME or spans[i].first < high))


def _since(spans: Sequence[GroupSpan], time: int, events: int) -> int:
    """Return the latest known time from which row groups have at least `events` events before `time`."""
    if not events:
        return time
    inner = sorted((each for each in spans if each.last < time), key=lambda each: -each.first)
    seen = accumulate(each.rows for each in inner)
    return next((each.first for each, rows in zip(inner, seen, strict=True) if rows >= events), MIN_TIME)


def _until(spans: Sequence[GroupSpan], time: int, events: int) -> int:
    """Return the earliest known time before which row groups have at least `events` events from `time` on."""
    if not events:
        return time
    inner = sorted((each for each in spans if each.first >= time), key=lambda each: each.last)
    seen = accumulate(each.rows for each in inner)
    return next((each.last + 1 for each, rows in zip(inner, seen, strict=True) if rows >= events), MAX_TIME)
