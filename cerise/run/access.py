"""How a run gets at its events: a source cut by time, a reader for each slice; tables in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from cerise.engines.base import Options
from cerise.events import EventBatch, RowBatch, read_times
from cerise.plan.needs import Needs
from cerise.plan.pushdown import Sieve
from cerise.plan.slicing import AMPLIFIED, MAX_TIME, MIN_TIME, Halo, Slice, place_of
from cerise.run.question import Batch, Note, Questions


class Reader(Protocol):
    """The events of one slice."""

    def read(self) -> Iterator[Batch]:
        """Yield the events that the slice needs, in the order that the questions need."""
        ...

    def complete(self, events: EventBatch) -> EventBatch:
        """Return matched events with the columns that are only returned."""
        ...

    def close(self, note: Note) -> None:
        """Note what was read."""
        ...


class Access(Protocol):
    """A source as questions read it. It travels to tasks, and opens files where it arrives."""

    @property
    def rows(self) -> int:
        """How many events there are to read, at most."""
        ...

    @property
    def known(self) -> dict[str, float]:
        """Figures for the report that are known before the run."""
        ...

    @property
    def worth(self) -> int:
        """How many events are worth a thread."""
        ...

    def cut(self, halo: Halo, most: int, *, amplified: float) -> list[Slice]:
        """Cut the source by time into slices of about the same size.

        Args:
            halo: what a slice needs around it.
            most: how many slices there may be.
            amplified: how much more than all events the slices may read together.

        Returns:
            One slice, or several. One: the source is small, or its parts overlap in time.
        """
        ...

    def open(self, part: Slice | None, halo: Halo) -> Reader:
        """Return a reader of a slice; of all events, where there is none."""
        ...

    def portions(self, count: int) -> Sequence[Any]:
        """Split the source into portions that tasks read, to exchange their events."""
        ...

    def tables(self, portion: Any, note: Note) -> Iterator[pa.Table]:
        """Yield the events of a portion with columns that tell the order of their arrival."""
        ...

    def counters(self) -> dict[str, int]:
        """Return counters of an index that all slices touch; they only grow."""
        ...

    def explain(self) -> dict[str, str]:
        """Say, by topic, how events are read."""
        ...


WHOLE = Slice(MIN_TIME, MAX_TIME, ())


class TableAccess:
    """An Arrow table in memory; events are put into stream order once, for all slices and questions."""

    def __init__(self, table: pa.Table, needs: Needs, options: Options) -> None:
        self.rows = len(table)
        self.known: dict[str, float] = {"events": len(table)}
        self.worth = options.limits.thread_events
        self._table, self._needs, self._options = table, needs, options

    @cached_property
    def events(self) -> EventBatch:
        """All events in stream order, but for those that cannot matter where these are many."""
        needs = self._needs
        assert needs.roles is not None
        table = self._table.select(list(needs.columns.names))
        sorts_much = needs.roles.order or needs.partition
        if needs.filter is not None and sorts_much and len(table) >= self._options.limits.filtered_events:
            read_times(table, needs.roles)  # an event without a time is an error, even if it cannot matter
            table = table.filter(pa.array(Sieve(needs.filter).kept(table)))
        return EventBatch.of(table, needs.roles, reads=needs.ties)

    def cut(self, halo: Halo, most: int, *, amplified: float = AMPLIFIED) -> list[Slice]:
        """Cut events by time into slices of about the same size; searches of rows use threads inside."""
        if self._needs.roles is None or most <= 1:
            return [WHOLE]
        events, count = self.events, most
        if len(events) < count:
            return [WHOLE]
        times = {int(events.times[len(events) * i // count]) for i in range(1, count)}
        borders = sorted(times - {MIN_TIME, MAX_TIME})  # these mean that a slice has no border
        cut = [Slice(start, stop, ()) for start, stop in pairwise([MIN_TIME, *borders, MAX_TIME])]
        read = sum(high - low for low, _, _, high in (bounds(events, each, halo) for each in cut))
        return cut if read <= amplified * len(events) else [WHOLE]

    def open(self, part: Slice | None, halo: Halo) -> TableReader:
        """Return a reader of a slice."""
        if self._needs.roles is None:
            return TableReader(RowBatch(self._table))
        events = self.events
        if part is None or (part.start, part.stop) == (MIN_TIME, MAX_TIME):
            return TableReader(events)
        low, start, stop, high = bounds(events, part, halo)
        opens = np.zeros(high - low, bool)
        opens[start - low : stop - low] = True
        return TableReader(replace(events.slice(low, high), opens=opens))

    def portions(self, count: int) -> Sequence[Any]:
        """Tables in memory are searched here, and not exchanged."""
        raise AssertionError(count)

    def tables(self, portion: Any, note: Note) -> Iterator[pa.Table]:
        """Tables in memory are searched here, and not exchanged."""
        raise AssertionError(portion, note)

    def counters(self) -> dict[str, int]:
        return {}

    def explain(self) -> dict[str, str]:
        return {}


class TableReader:
    """The events of one slice of a table."""

    def __init__(self, events: Batch) -> None:
        self._events = events

    def read(self) -> Iterator[Batch]:
        yield self._events

    def complete(self, events: EventBatch) -> EventBatch:
        """Return the events: they have all their columns."""
        return events

    def close(self, note: Note) -> None:
        """Nothing was read."""


def bounds(events: EventBatch, part: Slice, halo: Halo) -> tuple[int, int, int, int]:
    """Return where a slice is among events: where its halo starts, it starts, it ends, its halo ends."""
    times = events.times
    start = 0 if part.start == MIN_TIME else place_of(times, part.start)
    stop = len(times) if part.stop == MAX_TIME else place_of(times, part.stop)
    low, high = start, stop
    if start:
        low = place_of(times, int(times[start]) - halo.before)
    if stop < len(times):
        high = max(place_of(times, int(times[stop]) + halo.after), stop + halo.events)
    return low, start, stop, min(high, len(times))


def spread(asked: int | None) -> float:
    """Return how much slices may read together: as little as can be, unless the user asks for a number."""
    return AMPLIFIED if asked is None else math.inf


@dataclass(frozen=True, slots=True)
class TableSource:
    """An Arrow table."""

    table: pa.Table

    @property
    def columns(self) -> pa.Schema:
        return self.table.schema

    def access(self, asked: Questions, options: Options) -> TableAccess:
        return TableAccess(self.table, asked.needs, options)
