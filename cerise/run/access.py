"""How a run reads its events: an access path cuts a source by time, and a reader reads each slice."""

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
from cerise.plan.router import router_of
from cerise.plan.slicing import AMPLIFIED, MAX_TIME, MIN_TIME, Halo, Slice, place_of
from cerise.run.question import Batch, Note, Questions

ARRIVED = ("__cerise_arrived", "__cerise_arrived_as")  # columns that give the order of arrival


class SliceReader(Protocol):
    """Reads the events of one slice."""

    def read(self) -> Iterator[Batch]:
        """Yield the events of the slice and its halo, in the order that the questions need."""
        ...

    def complete(self, events: EventBatch) -> EventBatch:
        """Return matched events with the columns that are only returned."""
        ...

    def close(self, note: Note) -> None:
        """Write the figures of the reading into a note."""
        ...


class Access(Protocol):
    """An access path: reads the events of a source. It travels to tasks, which open the files."""

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

    def split(self, halo: Halo, most: int, *, amplified: float) -> list[Slice]:
        """Cut the source by time into slices of about the same size.

        Args:
            halo: the events that a slice needs around its own.
            most: how many slices there may be.
            amplified: how many events the slices together may read, as a multiple of all events.

        Returns:
            One slice, or several. One: the source is small, or its parts overlap in time.
        """
        ...

    def open(self, part: Slice | None, halo: Halo) -> SliceReader:
        """Return a reader of a slice; without a slice, of all events."""
        ...

    def portions(self, count: int) -> Sequence[Any]:
        """Split the source into portions that tasks read, to exchange their events."""
        ...

    def tables(self, portion: Any, note: Note) -> Iterator[pa.Table]:
        """Yield the events of a portion with columns that give the order of their arrival."""
        ...

    def sample(self, most: int) -> tuple[EventBatch, float] | None:
        """Return some events that lie together in time, for statistics; None: to read some costs much.

        Args:
            most: how many events are enough.

        Returns:
            The events, and how many times as dense the whole source is in their time.
        """
        ...

    def counters(self) -> dict[str, int]:
        """Return counters of the index that all slices share; they only grow."""
        ...

    def explain(self) -> dict[str, str]:
        """Return by topic how events are read."""
        ...


WHOLE = Slice(MIN_TIME, MAX_TIME, ())


class TableAccess:
    """An Arrow table in memory; events are sorted into stream order once, for all slices and questions."""

    def __init__(self, table: pa.Table, needs: Needs, options: Options) -> None:
        self.rows = len(table)
        self.known: dict[str, float] = {"events": len(table)}
        self.worth = options.limits.thread_events
        self._table, self._needs, self._options = table, needs, options

    @cached_property
    def events(self) -> EventBatch:
        """The events in stream order; a large table is filtered before it is sorted."""
        needs = self._needs
        assert needs.roles is not None
        table = self._table.select(list(needs.columns.names))
        sorts_much = needs.roles.order or needs.partition
        if needs.filter is not None and sorts_much and len(table) >= self._options.limits.filtered_events:
            read_times(table, needs.roles)  # an event without a time is an error, even if it cannot matter
            table = table.filter(pa.array(router_of(needs.filter).mask(table)))
        return EventBatch.of(table, needs.roles, reads=needs.ties)

    def split(self, halo: Halo, most: int, *, amplified: float = AMPLIFIED) -> list[Slice]:
        """Cut events by time into slices of about the same size; rows for row patterns stay one slice."""
        if self._needs.roles is None or most <= 1:
            return [WHOLE]
        events, count = self.events, most
        if len(events) < count:
            return [WHOLE]
        times = {int(events.times[len(events) * i // count]) for i in range(1, count)}
        borders = sorted(times - {MIN_TIME, MAX_TIME})  # these two mean that a slice has no border
        found = [Slice(start, stop, ()) for start, stop in pairwise([MIN_TIME, *borders, MAX_TIME])]
        read = sum(high - low for low, _, _, high in (bounds(events, each, halo) for each in found))
        return found if read <= amplified * len(events) else [WHOLE]

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
        """Fail: tables in memory are searched in this process, and never exchanged."""
        raise AssertionError(count)

    def tables(self, portion: Any, note: Note) -> Iterator[pa.Table]:
        """Fail: tables in memory are searched in this process, and never exchanged."""
        raise AssertionError(portion, note)

    def sample(self, most: int) -> tuple[EventBatch, float] | None:
        """Return the first events."""
        return (self.events.slice(0, most), 1.0) if self._needs.roles is not None and self.rows else None

    def counters(self) -> dict[str, int]:
        return {}

    def explain(self) -> dict[str, str]:
        return {}


class TableReader:
    """Reads one slice of a table."""

    def __init__(self, events: Batch) -> None:
        self._events = events

    def read(self) -> Iterator[Batch]:
        yield self._events

    def complete(self, events: EventBatch) -> EventBatch:
        """Return the events, which have all their columns."""
        return events

    def close(self, note: Note) -> None:
        """Do nothing: a table in memory has no figures of reading."""


def bounds(events: EventBatch, part: Slice, halo: Halo) -> tuple[int, int, int, int]:
    """Return four positions among events: the halo's start, the slice's start and end, the halo's end."""
    times = events.times
    start = 0 if part.start == MIN_TIME else place_of(times, part.start)
    stop = len(times) if part.stop == MAX_TIME else place_of(times, part.stop)
    low, high = start, stop
    if start:
        low = place_of(times, int(times[start]) - halo.before)
    if stop < len(times):
        high = max(place_of(times, int(times[stop]) + halo.after), stop + halo.events)
    return low, start, stop, min(high, len(times))


def amplification(count: int | None) -> float:
    """Return how many events slices may read, as a multiple: without limit if the user sets their count."""
    return AMPLIFIED if count is None else math.inf


@dataclass(frozen=True, slots=True)
class TableSource:
    """An Arrow table."""

    table: pa.Table

    @property
    def columns(self) -> pa.Schema:
        return self.table.schema

    def access(self, questions: Questions, options: Options) -> TableAccess:
        return TableAccess(self.table, questions.needs, options)
