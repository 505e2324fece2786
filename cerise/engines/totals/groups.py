"""The groups of totals: the event, partition or windows for which a match counts (S7.2).

A group is identified by its keys, which are the same on every machine: the id of an event and its time, the
values of a partition, the number of a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.automaton.automaton import looks_ahead
from cerise.engines.base import Matches
from cerise.engines.match_ids import event_ids
from cerise.engines.totals.exact import Ints
from cerise.errors import DataError
from cerise.events import EventBatch, read_column
from cerise.kinds import STORED
from cerise.pattern.bound import Bound
from cerise.pattern.query import Per, Unit

EVENT, TIME, WINDOW = "event", "time", "window"
POSITION = "__cerise_position"  # the column of positions that count windows are measured in
LEAST = int(np.iinfo(np.int64).min)


def per(bound: Bound) -> Per:
    """Return the PER clause of a query's totals."""
    assert bound.query.totals is not None
    return bound.query.totals.per


def key_schema(bound: Bound) -> pa.Schema:
    """Return the columns that identify a group."""
    wanted = per(bound)
    fields = [(EVENT, pa.int64()), (TIME, pa.int64())] if wanted is Per.EVENT else []
    if wanted.partition:
        kinds = (bound.schema.kind(path) for path in bound.partition)
        fields += [(f"key_{number}", STORED[kind]) for number, kind in enumerate(kinds)]
    return pa.schema(fields + ([(WINDOW, pa.int64())] if wanted.window else []))


@dataclass(frozen=True, slots=True)
class MatchGroups:
    """Groups, and the group of each member.

    Attributes:
        keys: the key columns of the groups, in the order of `key_schema`.
        numbers: the group of each member.
        size: how many groups there are.
    """

    keys: list[pa.Array]
    numbers: Ints
    size: int

    @classmethod
    def of(cls, events: EventBatch, last: Ints, windows: Ints | None, bound: Bound) -> MatchGroups:
        """Return the groups of members by their last events and their windows."""
        rows, places = np.unique(last, return_inverse=True)
        keys = _keys(events, rows, bound)
        marks = [pa.array(number_rows(keys, len(rows))[0][places])]
        if windows is not None:
            marks.append(pa.array(windows))
        numbers, firsts = number_rows(marks, len(last))
        chosen = [key.take(pa.array(places[firsts])) for key in keys]
        return cls([*chosen, *(mark.take(pa.array(firsts)) for mark in marks[1:])], numbers, len(firsts))

    @classmethod
    def apart(cls, events: EventBatch, last: Ints, windows: Ints | None, bound: Bound) -> MatchGroups:
        keys = [*_keys(events, last, bound), *([] if windows is None else [pa.array(windows)])]
        return cls(keys, np.arange(len(last)), len(last))

    @classmethod
    def merge(cls, keys: Sequence[Sequence[pa.Array]], rows: int) -> MatchGroups:
        """Merge groups with equal keys."""
        columns = [pa.concat_arrays(parts) for parts in zip(*keys, strict=True)]
        numbers, firsts = number_rows(columns, rows)
        return cls([column.take(pa.array(firsts)) for column in columns], numbers, len(firsts))


def number_rows(columns: Sequence[pa.Array], rows: int) -> tuple[Ints, Ints]:
    """Number rows from 0 on, equal rows alike; return the numbers, and the first row of each number."""
    numbers = np.zeros(rows, np.int64)
    for column in columns if rows else ():
        codes = column.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64) + 1
        numbers = np.unique(numbers * (codes.max() + 1) + codes, return_inverse=True)[1]
    _, firsts, numbers = np.unique(numbers, return_index=True, return_inverse=True)
    return numbers, firsts


def _keys(events: EventBatch, rows: Ints, bound: Bound) -> list[pa.Array]:
    wanted, found = per(bound), []
    if wanted is Per.EVENT:
        found = [pa.array(_names(events, rows, bound).view(np.int64)), pa.array(events.times[rows])]
    return found + (partition_keys(events, rows, bound) if wanted.partition else [])


def _names(events: EventBatch, rows: Ints, bound: Bound) -> Any:
    if events.equals is None:
        return event_ids(events, bound)[rows]  # the order of all events tells equal ones apart
    some = EventBatch(
        events.schema, events.table.take(pa.array(rows)), events.times[rows], events.positions[rows],
        events.equals[rows],
    )  # fmt: skip
    return event_ids(some, bound)


def partition_keys(events: EventBatch, rows: Ints, bound: Bound) -> list[pa.Array]:
    """Return the partition values of the given rows, normalised as GROUP BY compares them."""
    if not bound.partition:
        return []
    names = list(dict.fromkeys(path[0] for path in bound.partition))
    some = events.table.select(names).take(pa.array(rows))
    return [normal(read_column(some, bound.schema, path)) for path in bound.partition]


def normal(values: pa.Array) -> pa.Array:
    """Return canonical values with a single zero and a single NaN."""
    if not pa.types.is_floating(values.type):
        return values
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    return pa.array(np.where(np.isnan(numbers), np.nan, numbers), mask=np.asarray(values.is_null()))


# ---- groups of a stream


def find_final(
    keys: Sequence[pa.Array], bound: Bound, time: int, *, late: bool = False
) -> npt.NDArray[np.bool_]:
    """Return which groups get no further match, if no event before a time will come.

    The group of an event is final when the event is before that time, the group of a window when the window
    ends by then; one window later where a NOT may wait that long for a veto (S6.2), or where an engine is
    late. Other groups never are.
    """
    named = dict(zip(key_schema(bound).names, keys, strict=True))
    reach = 0 if bound.within is None else int(str(bound.within.size))
    known = time - reach if late or any(looks_ahead(branch) for branch in bound.branches) else time
    if per(bound) is Per.EVENT:
        return np.asarray(np.asarray(named[TIME]) < known)
    assert per(bound).window
    assert bound.slide is not None
    return np.asarray(np.asarray(named[WINDOW]) <= (known - reach) // int(str(bound.slide.size)))


def why_never_final(bound: Bound) -> str | None:
    """Say why the totals of a query over a stream are never final; None: each row is, at some time."""
    wanted, counted = per(bound), bound.within is not None and bound.within.unit is Unit.EVENTS
    if wanted in (Per.ALL, Per.PARTITION):
        return f"its totals {wanted.value} are final at the end of the stream, which has none"
    waits = any(looks_ahead(branch) for branch in bound.branches)
    if counted and (wanted.window or waits):
        return f"its totals {wanted.value} are of windows that count events, and time does not end them"
    return None


# ---- windows


def windows_of(matches: Matches, first: Ints, last: Ints, bound: Bound) -> tuple[Ints, Ints]:
    """Return the first and the last window [k·s, k·s + w) that holds a whole match, by number k.

    Raises:
        DataError: a window starts before the least time.
    """
    assert bound.within is not None
    assert bound.slide is not None
    size, step = int(str(bound.within.size)), int(str(bound.slide.size))
    points = matches.events.times
    if bound.within.unit is Unit.EVENTS:
        points = matches.events.table.column(POSITION).to_numpy()
    if starts_early(points[last], size, step).any():
        raise too_early()
    return first_window(points[last], size, step), points[first] // step


def first_window(points: Ints, size: int, step: int) -> Ints:
    """Return the number of the first window that holds each point and starts at a possible time."""
    low = (np.maximum(points, LEAST + size) - size) // step + 1
    return np.where(points < LEAST + size, -(-LEAST // step), low)


def starts_early(points: Ints, size: int, step: int) -> npt.NDArray[np.bool_]:
    """Return whether a window that holds each point starts before the least time."""
    latest = (-(-LEAST // step) - 1) * step  # the start of the last such window
    held: npt.NDArray[np.bool_] = points < latest + size
    return held


def too_early() -> DataError:
    """Return the error for a match in a window that starts before the least time."""
    return DataError("a window starts before the first time there is", hint="leave out events at such times")


class Positions:
    """Numbers the events of each partition from 0, over all batches of a stream, for count windows."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.seen: dict[str, int] = {}

    @staticmethod
    def wanted(bound: Bound) -> bool:
        counted = bound.within is not None and bound.within.unit is Unit.EVENTS
        return counted and bound.query.totals is not None and bound.query.totals.per.window

    def __call__(self, events: EventBatch) -> EventBatch:
        """Return the next events with a column of their positions."""
        if not len(events):
            return events
        keys = partition_keys(events, np.arange(len(events)), self.bound)
        numbers, firsts = number_rows(keys, len(events))
        order = np.argsort(numbers, kind="stable")
        sizes = np.bincount(numbers)
        places = np.empty(len(events), np.int64)
        places[order] = np.arange(len(events)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        listed = (key.take(pa.array(firsts)).to_pylist() for key in keys)
        starts = []
        for key, size in zip(map(repr, zip(*listed, strict=True) if keys else [()]), sizes, strict=True):
            starts.append(self.seen.get(key, 0))
            self.seen[key] = starts[-1] + int(size)
        column = pa.array(places + np.array(starts)[numbers])
        return replace(events, table=events.table.append_column(POSITION, column))
