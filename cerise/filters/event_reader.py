"""Reads the events of a query, by the index or by a scan, and yields them in stream order, in batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cerise.engines.limits import DEFAULT, Limits
from cerise.events import EventBatch
from cerise.files.scan import ROW, Scan
from cerise.filters.access_path import AccessPath, Wants
from cerise.filters.index_query import IndexQuery
from cerise.filters.two_phase import Trace, filter_by_buckets, filter_events
from cerise.plan.intervals import ALWAYS, Intervals, shift_times
from cerise.plan.slicing import MAX_TIME, MIN_TIME, Halo, Slice
from cerise.store.index.file import BrokenIndex
from cerise.store.index.lookup import Events
from cerise.store.view import View, warn


@dataclass(slots=True)
class Seen:
    """The work done for a query, for reports.

    Attributes:
        trace: the steps of the filter.
        kept: how many events were kept.
        filtering: how many seconds it took to find them.
        reading: how many seconds it took to read them.
    """

    trace: Trace = field(default_factory=Trace)
    kept: int = 0
    filtering: float = 0.0
    reading: float = 0.0


class Finder:
    """Reads the events of a query, and completes matched events with late columns."""

    def __init__(self, view: View, way: AccessPath, wants: Wants, limits: Limits = DEFAULT) -> None:
        self.view = view
        self.seen = Seen()
        self.way = way
        self.wants = wants
        self._limits = limits
        self._scan: Scan | None = None

    def events(self, part: Slice | None = None, needs: Halo = Halo()) -> Iterator[EventBatch]:  # noqa: B008
        """Yield the events of a slice, or of all time, in stream order.

        Args:
            part: the slice whose events may start a match; None: all time.
            needs: how far beyond the slice matches reach.
        """
        if self.way.query is None:
            yield from self._scan_all(part, needs)
            return
        for first, last in self._stretches(*_reach(part, needs)):
            events = self._find(self.way.query, first, last)
            if len(events):
                yield _mark_openers(events, part)

    def complete(self, events: EventBatch) -> EventBatch:
        """Return matched events with their late columns added."""
        if self._scan is not None:
            return replace(self._scan.complete(events), schema=self.wants.schema)
        columns = {name: events.table.column(name) for name in self.wants.reads}
        if self.wants.late:
            begun = time.perf_counter()
            places = events.table.column(ROW).to_numpy().copy()  # kernels reject read-only arrays
            try:
                fetched = self._cast(self.view.table(places, self.wants.late))
            except BrokenIndex as error:
                _warn_of(error)
                fetched = self._cast(self.view.from_data(places, self.wants.late))
            columns |= {name: fetched.column(name) for name in self.wants.late}
            self.seen.reading += time.perf_counter() - begun
        names = [name for name in self.wants.schema.columns.names if name in columns]
        return replace(events, table=pa.table({name: columns[name] for name in names}))

    def read_by_arrival(self) -> pa.Table:
        """Return all events in the order of arrival."""
        names, last = self.wants.reads, len(self.wants.reads)
        reading = self.view.describe_read((*names, *dict.fromkeys(path[0] for path in self.view.arrival)))
        held = [pa.schema([self.view.indexed.snapshot.columns.field(n) for n in reading.reads]).empty_table()]
        held += [each.drop_columns([ROW]) for each in Scan(reading, self.view.lake.list_groups()).rows()]
        table = pa.concat_tables(held)
        if self.view.arrival and len(table):
            sequence = table.column(last).combine_chunks()
            major, minor = (np.asarray(sequence.field(path[1])) for path in self.view.arrival)
            table = table.take(pa.array(np.lexsort((minor, major))))
        self.seen.kept += len(table)
        return self._cast(table.select(list(names)))

    # ---- by the index

    def _stretches(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield first and last times of the stretches to filter one after another."""
        inside: list[int] = []
        if self.way.blockwise:
            groups = self.view.index.groups
            order = np.argsort(groups.first, kind="stable")
            rows = np.cumsum(groups.rows[order])
            full = np.diff(rows // self._limits.stretch_events, prepend=0) > 0
            cuts = groups.first[order][full]
            inside = np.unique(cuts[(cuts > first) & (cuts <= last)]).tolist()
        for start, stop in pairwise([first, *inside, None]):
            assert start is not None
            yield start, last if stop is None else stop - 1

    def _find(self, query: IndexQuery, first: int, last: int) -> EventBatch:
        """Return the kept events between two times; warn of a broken index file and read its data."""
        while True:
            begun = time.perf_counter()
            try:
                found = self._filter(query, first, last)
                self.seen.filtering += time.perf_counter() - begun
                events = self._read(found)
            except BrokenIndex as error:
                _warn_of(error)
                self.view = View(self.view.indexed.without(error.path))
            else:
                self.seen.kept += len(events)
                return events

    def _filter(self, query: IndexQuery, first: int, last: int) -> Events:
        reach = ALWAYS
        if (first, last) != (MIN_TIME, MAX_TIME):
            # Events within a window of an event decide about it; two windows, where gaps of a window matter.
            further = (query.window or 0) * (1 if query.why_all is None else 2)
            reach = Intervals(
                shift_times(np.array([first]), -further), shift_times(np.array([last]), further)
            )
        if self.way.filtering.two_phase:
            found = filter_events(query, self.view, reach, self.seen.trace, self._limits)
        else:
            found = filter_by_buckets(query, self.view, reach)
        if reach is not ALWAYS:
            low, high = np.searchsorted(found.times, first), np.searchsorted(found.times, last, "right")
            found = Events(found.times[low:high], found.places[low:high])
        return self.view.in_order(found)

    def _read(self, found: Events) -> EventBatch:
        begun = time.perf_counter()
        schema = self.wants.schema
        table = self._cast(self.view.table(found.places, self.wants.reads))
        table = table.append_column(ROW, pa.array(found.places))
        self.seen.reading += time.perf_counter() - begun
        if schema.order:  # these columns break ties before arrival does
            return EventBatch.of(table, schema)
        return EventBatch(schema, table, found.times, np.arange(len(found.times), dtype=np.int64))

    def _cast(self, table: pa.Table) -> pa.Table:
        return table.cast(pa.schema([self.wants.schema.columns.field(name) for name in table.schema.names]))

    # ---- by reading all

    def _scan_all(self, part: Slice | None, needs: Halo) -> Iterator[EventBatch]:
        view, wants = self.view, self.wants
        arrival = dict.fromkeys(path[0] for path in view.arrival)
        reading = view.describe_read((*wants.reads, *arrival), wants.late)
        kinds = [field for field in view.roles.columns if field.name not in wants.schema.columns.names]
        roles = replace(wants.schema, columns=pa.schema([*wants.schema.columns, *kinds]))
        coded = view.lake.choose_code_columns(wants.reads)
        reading = replace(reading, schema=roles, needed=wants.needed, coded=coded)
        low, high = _reach(part, needs)
        groups = [
            each
            for each in view.lake.list_event_groups(view.roles, wants.needed)
            if each.span.last >= low and each.span.first <= high
        ]
        ordered = sorted(groups, key=lambda each: (each.span.first, each.span.last))
        self._scan = Scan(reading, ordered, self._limits)
        for events in self._scan.events(part, needs):
            self.seen.kept += len(events)
            yield replace(events, schema=wants.schema)


def _warn_of(error: BrokenIndex) -> None:
    warn(f"the index of a file is not used: {error.problem}")


def _reach(part: Slice | None, needs: Halo) -> tuple[int, int]:
    """Return the first and the last time that a slice needs."""
    if part is None:
        return MIN_TIME, MAX_TIME
    low = part.start if part.start == MIN_TIME else max(part.start - needs.before, MIN_TIME)
    high = part.stop if part.stop == MAX_TIME else min(part.stop - 1 + needs.after, MAX_TIME)
    return low, high


def _mark_openers(events: EventBatch, part: Slice | None) -> EventBatch:
    if part is None:
        return events
    opens = (events.times >= part.start) & ((events.times < part.stop) | (part.stop == MAX_TIME))
    return replace(events, opens=opens)
