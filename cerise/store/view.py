"""A version of an event table for queries: looks events up, sorts them into stream order and reads them.

Indexed columns are decoded from the index. Parquet is opened only for other columns, and only for row groups
with kept events. A view is pickled as a description; tasks open the files themselves.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.errors import CeriseWarning, StoreError
from cerise.events import Path as Attribute
from cerise.events import Schema, sort_by_time_and_number
from cerise.files.folder import Folder
from cerise.files.lake import Group, Lake, lake_of
from cerise.files.reader import BITS, GroupReader, Reading
from cerise.plan.intervals import Ints
from cerise.plan.slicing import GroupSpan
from cerise.store.index.layout import SEQUENCE, SEQUENCE_FIELDS
from cerise.store.index.lookup import Criteria, Events, Index
from cerise.store.index.synopsis import Synopsis
from cerise.store.table.snapshot import Snapshot, file_of
from cerise.store.table.synopses import load_index
from cerise.store.unindexed import Unindexed

ROWS = (1 << BITS) - 1
ESTIMATES = 10_000  # size of the cache of estimates
WORTH_A_THREAD = 3  # row groups: a thread for fewer costs more than it saves
ARRIVAL: tuple[Attribute, ...] = tuple((SEQUENCE, name) for name in SEQUENCE_FIELDS)


@dataclass(frozen=True, slots=True)
class IndexedSnapshot:
    """A version and its index.

    Attributes:
        snapshot: the version: its files.
        synopsis: the synopsis of its usable index files.
        plain: the paths of files without a usable index.
    """

    snapshot: Snapshot
    synopsis: Synopsis
    plain: frozenset[str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> IndexedSnapshot:
        """Return a snapshot with its index; warn of an index that cannot be used."""
        loaded = load_index(snapshot)
        if loaded.broken:
            (path, problem), *more = loaded.broken.items()
            others = f", nor that of {len(more):,} other file{'s' * (len(more) > 1)}" if more else ""
            warn(f"the index of {path} is not used: {problem}{others}")
        return cls(snapshot, loaded.synopsis, frozenset(each.path for each in loaded.plain))

    def without(self, index_path: str) -> IndexedSnapshot:
        bad = {each.about.path for each in self.synopsis.files if each.path == index_path}
        return IndexedSnapshot(self.snapshot, self.synopsis, self.plain | bad)  # places do not change


def warn(problem: str, advice: str = "index the table again, or compact it") -> None:
    """Warn that an index cannot be used, with advice."""
    warnings.warn(f"{problem} (the data is read instead; {advice})", CeriseWarning, stacklevel=2)


class View:
    """A version that answers look-ups and reads events by their places.

    The place of an event is the number of its cluster and its position there; for an event without an index,
    a number beyond all clusters and its row.
    """

    def __init__(self, indexed: IndexedSnapshot) -> None:
        self.indexed = indexed
        self._clusters = len(indexed.synopsis.clusters)
        self._estimates: dict[Criteria, float] = {}

    def __reduce__(self) -> tuple[type[View], tuple[IndexedSnapshot]]:
        return View, (self.indexed,)

    # ---- the version

    @property
    def rows(self) -> int:
        return self.indexed.snapshot.rows

    @property
    def columns(self) -> pa.Schema:
        """The columns of the events, without their sequence."""
        every = self.indexed.snapshot.columns
        return pa.schema([field for field in every if field.name != SEQUENCE])

    @property
    def known(self) -> tuple[str, ...]:
        """The columns that the index holds."""
        layout = self.indexed.synopsis.layout
        return tuple(name for name in (layout.time, layout.type, *layout.attributes) if name is not None)

    @property
    def roles(self) -> Schema:
        """The columns, with the sequence, and the parts that they play."""
        return self.indexed.snapshot.writing.settings.roles(self.indexed.snapshot.columns)

    @property
    def arrival(self) -> tuple[Attribute, ...]:
        """The attributes that give the order of arrival; empty: it is the order of rows."""
        return ARRIVAL if self.indexed.synopsis.layout.sequence else ()

    @cached_property
    def index(self) -> Index:
        """The index, which opens its files on demand."""
        synopsis, root = self.indexed.synopsis, self.indexed.snapshot.writing.index_root
        return Index(synopsis, synopsis.layout, Folder.of(root).system)

    @cached_property
    def lake(self) -> Lake:
        root = self.indexed.snapshot.writing.root
        inside = Folder.of(root)
        files = [file_of(each, inside) for each in self.indexed.snapshot.files]
        return lake_of(root, files, self.indexed.snapshot.columns)

    @cached_property
    def pool(self) -> Unindexed:
        """The events without an index."""
        plain = {i for i, each in enumerate(self.indexed.snapshot.files) if each.path in self.indexed.plain}
        groups = [each for each in self.lake.list_event_groups(self.roles, None) if each.file in plain]
        return Unindexed(self.describe_read(self.known), groups)

    def describe_read(self, reads: Sequence[str], late: Sequence[str] = ()) -> Reading:
        root, files = self.indexed.snapshot.writing.root, dict(enumerate(self.lake.files))
        return Reading(root, files, self.roles, tuple(reads), tuple(late), arrival=self.arrival)

    def spans(self) -> list[GroupSpan]:
        groups = self.index.groups
        known = zip(groups.first.tolist(), groups.last.tolist(), groups.rows.tolist(), strict=True)
        found = [GroupSpan(*each) for each in known if each[2]]
        return found + ([each.span for each in self.pool.groups] if self.indexed.plain else [])

    # ---- which events

    @cached_property
    def _sound(self) -> Ints | None:
        """The row groups whose index can be used; None: all."""
        bad = np.array([each.about.path in self.indexed.plain for each in self.indexed.synopsis.files], bool)
        return np.flatnonzero(~bad[self.index.groups.file]) if bad.any() else None

    def estimate(self, criteria: Criteria) -> float:
        """Return about how many events meet the criteria."""
        if criteria not in self._estimates:
            if len(self._estimates) >= ESTIMATES:
                self._estimates.clear()
            known = self.indexed.synopsis.rows
            found = self.index.estimate(criteria) if known else 0.0
            share = found / known if known else 0.1
            self._estimates[criteria] = found + share * (self.pool.rows if self.indexed.plain else 0)
        return self._estimates[criteria]

    def look_up(self, criteria: Criteria, within: tuple[Ints, Ints] | None = None) -> Events:
        """Return the events that meet the criteria, in the order of time.

        Raises:
            BrokenIndex: an index file is damaged or missing.
        """
        found = self._apply_deletions(self.index.look_up(criteria, within, self._sound))
        if not self.indexed.plain:
            return found
        base = self._clusters << BITS
        fresh = [
            Events(e.times, e.places + base) for e in self.pool.look_up(criteria, within) if len(e.times)
        ]
        return _merge([found, *fresh]) if fresh else found

    def _apply_deletions(self, events: Events) -> Events:
        """Drop the events that a deletion vector deletes."""
        if all(each.kept is None for each in self.indexed.snapshot.files) or not len(events.times):
            return events
        rows = self._rows(events.places)
        keep = np.ones(len(rows), bool)
        groups = {group.place: group for group in self._groups}
        reader = GroupReader(self.describe_read((), self.known), list(groups.values()))
        for place in np.unique(rows >> BITS).tolist():
            at = np.flatnonzero(rows >> BITS == place)
            kept = reader.read_kept_rows(groups[place]) if place in groups else pa.array(np.zeros(0, bool))
            if kept is not None:
                keep[at] = np.asarray(kept)[rows[at] & ROWS] if len(kept) else False
        return Events(events.times[keep], events.places[keep])

    def in_order(self, events: Events) -> Events:
        """Return events in the order of time, with those of equal time in the order of arrival (S1.2)."""
        same = events.times[1:] == events.times[:-1]
        if not same.any():
            return events
        at = np.flatnonzero(np.append(False, same) | np.append(same, False))
        major, minor = self.arrivals(events.places[at])
        order = sort_by_time_and_number(events.times[at], minor) if (major == major[0]).all() else None
        if order is None:
            order = np.lexsort((minor, major, events.times[at]))
        places = events.places.copy()
        places[at] = places[at][order]
        return Events(events.times, places)

    def arrivals(self, places: Ints) -> tuple[Ints, Ints]:
        """Return two numbers for each event; compared in turn, they give the order of arrival."""
        if not self.arrival:
            rows = self._rows(places)
            return rows >> BITS, rows & ROWS
        major, minor = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
        fresh = self._is_fresh(places)
        major[~fresh], minor[~fresh] = self.index.sequence(places[~fresh])
        if fresh.any():
            sequence = self._fetch(self._rows(places[fresh]), (SEQUENCE,)).column(0).combine_chunks()
            major[fresh], minor[fresh] = (np.asarray(sequence.field(name)) for name in SEQUENCE_FIELDS)
        return major, minor

    def _is_fresh(self, places: Ints) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (places >> BITS) >= self._clusters
        return found

    # ---- their columns

    def table(self, places: Ints, names: Sequence[str]) -> pa.Table:
        """Return columns of events, from the index if it holds them, else from the data."""
        fresh = self._is_fresh(places)
        if not fresh.any():
            return self._read_columns(places, names)
        parts = [
            self._read_columns(places[~fresh], names),
            self._fetch(self._rows(places[fresh]), tuple(names)),
        ]
        back = np.empty(len(places), np.int64)
        back[np.concatenate([np.flatnonzero(~fresh), np.flatnonzero(fresh)])] = np.arange(len(places))
        return pa.concat_tables(parts).take(pa.array(back))

    def from_data(self, places: Ints, names: Sequence[str]) -> pa.Table:
        return self._fetch(self._rows(places), tuple(names))

    def _read_columns(self, places: Ints, names: Sequence[str]) -> pa.Table:
        """Return columns of indexed events, from the index if it holds them, else from the data."""
        held = {name: self.index.column(name, places) for name in names if name in self.known}
        rest = tuple(name for name in names if name not in held)
        if rest:
            fetched = self._fetch(self._rows(places), rest)
            held |= {name: fetched.column(name) for name in rest}
        fields = [self.indexed.snapshot.columns.field(name) for name in names]
        return pa.table([held[name] for name in names], names=list(names)).cast(pa.schema(fields))

    def _fetch(self, rows: Ints, names: tuple[str, ...]) -> pa.Table:
        reading, groups = self.describe_read((), names), np.unique(rows >> BITS)

        def reader() -> GroupReader:
            return GroupReader(reading, self._groups, self.lake.tails)

        count = min(os.cpu_count() or 1, len(groups) // WORTH_A_THREAD)
        alone = reader()
        if count <= 1 or alone.picks(rows):
            return alone.fetch(rows)
        turn = np.searchsorted(groups, rows >> BITS) * count // len(groups)
        some = [np.flatnonzero(turn == i) for i in range(count)]
        with ThreadPoolExecutor(count) as pool:
            tables = list(pool.map(lambda at: reader().fetch(rows[at]), some))
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(some)] = np.arange(len(rows))
        return pa.concat_tables(tables).take(pa.array(back))

    @cached_property
    def _groups(self) -> list[Group]:
        return self.lake.list_groups()

    def _rows(self, places: Ints) -> Ints:
        """Return the row numbers of events in the data files: the place of the row group, and the row."""
        fresh = self._is_fresh(places)
        rows = places - (self._clusters << BITS)
        groups, inside = self.index.rows(places[~fresh])
        rows[~fresh] = (self._places[groups] << BITS) | inside
        return rows

    @cached_property
    def _places(self) -> Ints:
        """The place of each row group of the index among the row groups of all data files."""
        counts = [footer.num_row_groups for footer in self.lake.footers]
        firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        number = {each.path: i for i, each in enumerate(self.indexed.snapshot.files)}
        files = np.array([number[each.about.path] for each in self.indexed.synopsis.files], np.int64)
        self._check_groups(files)
        groups = self.index.groups
        found: Ints = firsts[files[groups.file]] + groups.row_group
        return found

    def _check_groups(self, files: Ints) -> None:
        """Refuse data files whose row groups differ from those of their index."""
        groups = self.index.groups
        rows = np.split(groups.rows, np.searchsorted(groups.file, np.arange(1, len(files))))
        for number, known in zip(files.tolist(), rows, strict=False):
            footer = self.lake.footers[number]
            counts = (footer.row_group(i).num_rows for i in range(footer.num_row_groups))
            if [count for count in counts if count] != known.tolist():  # an index has no empty row groups
                raise StoreError(
                    f"{self.lake.files[number].path} is not the file that was indexed: "
                    "it has other row groups",
                    hint="who has replaced it? Put the right one in its place, or index the table again",
                )


def _merge(several: Sequence[Events]) -> Events:
    times = np.concatenate([each.times for each in several])
    places = np.concatenate([each.places for each in several])
    order = np.argsort(times, kind="stable")
    return Events(times[order], places[order])
