"""Look-ups: find the events of a table that meet criteria, and their values, from the index alone.

This is 000's single variable query (Algorithm 1) over all index files of a version, limited to the intervals
of window-aware filtering (000 §3.3).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from cerise.errors import PlanError
from cerise.events import Ints
from cerise.kinds import Kind, restore_as
from cerise.store.index.cluster_layout import ClusterParts
from cerise.store.index.event_values import PLACE, EventValues
from cerise.store.index.file_cache import OpenFiles
from cerise.store.index.layout import IndexLayout
from cerise.store.index.search import (
    J_COUNT,
    J_WORDS,
    T_WORDS,
    close_contexts,
    count_events,
    gather,
    judge,
    open_contexts,
)
from cerise.store.index.selection import (
    Criteria,
    Given,
    Intervals,
    Samples,
    Selection,
    apply_tests,
    attribute_tests,
    find_intervals,
    select_clusters,
    select_in_time,
)
from cerise.store.index.synopsis import Synopsis

__all__ = ["Criteria", "Events", "Index", "LookupCounts", "RowGroups"]

MAPPED = 4_096  # index files in memory at once


class Events(NamedTuple):
    """Events in the order of time, then of row groups.

    Attributes:
        times: their times.
        places: their identity: the number of the cluster and, in the low 32 bits, the position in it.
    """

    times: Ints
    places: Ints


class RowGroups(NamedTuple):
    """All row groups: file, number in the file, first and last time (empty: last < first), rows."""

    file: Ints
    row_group: Ints
    first: Ints
    last: Ints
    rows: Ints


@dataclass(slots=True)
class LookupCounts:
    """How many clusters look-ups considered, pruned by the synopsis and read, and the bytes read."""

    considered: int = 0
    pruned: int = 0
    read: int = 0
    bytes: int = 0


class Index:
    """A version's synopsis with its index files opened on demand.

    Args:
        synopsis: facts about all clusters.
        layout: which columns are indexed; must equal that of the synopsis.
        filesystem: the file system of the index files.
        mapped: how many index files may be in memory at once.
        gap: up to how many bytes between two parts of a file one read is quicker than two.
    """

    def __init__(
        self,
        synopsis: Synopsis,
        layout: IndexLayout,
        filesystem: pafs.FileSystem,
        *,
        mapped: int = MAPPED,
        gap: int = 1 << 16,
    ) -> None:
        if synopsis.layout != layout:
            raise PlanError("the index holds other columns than asked", hint="index the table again")
        self.synopsis = synopsis
        self.counts = LookupCounts()
        self._layout = layout
        self._files = OpenFiles(synopsis, filesystem, mapped, gap)
        self._values = EventValues(synopsis, self._files)
        self._lock = threading.Lock()
        self._samples = Samples(synopsis)

    @property
    def groups(self) -> RowGroups:
        return RowGroups(*(self.synopsis.group(name) for name in RowGroups._fields))

    def close(self) -> None:
        """Release the files; later look-ups load them again."""
        self._files.close()

    # ---- which events

    def look_up(
        self,
        criteria: Criteria,
        within: Given | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Events:
        """Return the events that meet the criteria, in the order of time.

        Args:
            criteria: the type and the tests.
            within: starts and last moments of intervals, sorted and disjoint; events outside are dropped.
            groups: the row groups to search; None: all.

        Raises:
            BrokenIndex: an index file is damaged or missing.
            PlanError: a test is on a column that the index does not hold.
        """
        selection, intervals = self._select(criteria, within, groups)
        found = []
        files = self._values.file_of(selection.clusters)
        for batch in self._values.batches(files):
            some = selection if len(batch) == len(np.unique(files)) else selection.take(np.isin(files, batch))
            found.append(self._search(some, intervals, batch))
        return _merge(found)

    def _select(
        self, criteria: Criteria, within: Given | None, groups: npt.ArrayLike | None
    ) -> tuple[Selection, Intervals]:
        """Return the clusters that may hold such events, by first time, and the intervals to search."""
        clusters = select_clusters(self.synopsis, criteria, groups)
        intervals = find_intervals(self._layout, criteria, within)
        selection = select_in_time(self.synopsis, clusters, intervals)
        for tests in attribute_tests(self._layout, criteria):
            selection = apply_tests(selection, tests, self.synopsis, self._values.thresholds)
        with self._lock:
            self.counts.considered += len(clusters)
            self.counts.pruned += len(clusters) - len(selection.clusters)
        first = self.synopsis.cluster("first")[selection.clusters]
        nothing = np.empty(0, np.int64)
        return selection.take(np.argsort(first, kind="stable")), intervals or (nothing, nothing)

    def _search(self, selection: Selection, intervals: Intervals, files: Ints) -> Events:
        """Return the events that pass, of selected clusters in a batch of files."""
        held = self._files.hold(files)
        self._files.verify_clusters(selection.clusters, held)
        facts = self._values.facts(selection.clusters)
        parts = self._values.parts(selection.clusters)
        address = held.addresses[self._values.file_of(selection.clusters)] + facts["offset"]
        words = (facts["count"] + 63) >> 6
        jobs = np.zeros((len(words), J_WORDS), np.int64)
        columns = (
            address, facts["count"], *parts.lists["times"].frame, selection.soonest, selection.latest,
            np.cumsum(words) - words, 0, 0, selection.clusters, 0,
        )  # fmt: skip
        for i, column in enumerate(columns):
            jobs[:, i] = column
        context = np.zeros(int(words.sum()), np.int64)
        open_contexts(jobs, *intervals, context)
        self._judge(selection, jobs, parts, context)
        close_contexts(jobs, *intervals, context)
        self._count(selection, facts, parts)
        return _gather(jobs, context)

    def _judge(self, selection: Selection, jobs: Ints, parts: ClusterParts, context: Ints) -> None:
        room = np.empty((3, (int(jobs[:, J_COUNT].max(initial=0)) + 63) >> 6), np.int64)
        for each in sorted(selection.judged, key=lambda each: each.share):
            slices = parts.slices[each.attribute]
            tests = np.zeros((len(jobs), T_WORDS), np.int64)
            for i, column in enumerate((jobs[:, 0] + slices.offset, slices.width, slices.marked, each.done)):
                tests[:, i] = column
            empty = each.lows > each.highs
            lows, highs = each.lows - slices.base[:, None], each.highs - slices.base[:, None]  # may wrap
            lows[empty], highs[empty] = -1, 0
            judge(jobs, tests, lows, highs, each.nulls, context, room)

    def _count(self, selection: Selection, facts: dict[str, Ints], parts: ClusterParts) -> None:
        touched = (facts["count"] * parts.lists["times"].frame.width + 7) >> 3
        for each in selection.judged:
            slices = parts.slices[each.attribute]
            touched = touched + ((facts["count"] + 7) >> 3) * (slices.width + slices.marked) * ~each.done
        with self._lock:
            self.counts.read += len(selection.clusters)
            self.counts.bytes += int(touched.sum())

    def estimate(self, criteria: Criteria) -> float:
        """Estimate how many events meet the criteria, from the synopsis and its sample."""
        clusters = select_clusters(self.synopsis, criteria)
        in_reach = select_in_time(self.synopsis, clusters, find_intervals(self._layout, criteria, None))
        tests_by_attribute = attribute_tests(self._layout, criteria)
        selection = in_reach
        for tests in tests_by_attribute:
            if self._layout.kind(tests[0].path[0]) is not Kind.STRING:  # no file is opened for an estimate
                selection = apply_tests(selection, tests, self.synopsis, self._values.thresholds)
        counts = self.synopsis.cluster("count")
        share = self._samples.share(criteria) if tests_by_attribute else 1.0
        return float(min(counts[selection.clusters].sum(), counts[in_reach.clusters].sum() * share))

    # ---- their values

    def column(self, name: str, places: Ints) -> pa.Array:
        """Return the values of an indexed column for events, in the column's own type."""
        places = np.require(places, np.int64, ["C", "W"])  # as kernels require
        if name == self._layout.time:
            return restore_as(pa.array(self._values.numbers("times", places)), self._layout.type_of(name))
        if name == self._layout.type:
            return self._values.types(places)
        if name not in self._layout.attributes:
            raise PlanError(
                f"the index does not hold '{name}'",
                hint=f"it holds {self._layout.time}, {', '.join(self._layout.attributes)}",
            )
        return self._values.column(self._layout.attributes.index(name), places)

    def rows(self, places: Ints) -> tuple[Ints, Ints]:
        places = np.require(places, np.int64, ["C", "W"])  # as kernels require
        return self.synopsis.cluster("group")[places >> PLACE], self._values.numbers("rows", places)

    def sequence(self, places: Ints) -> tuple[Ints, Ints]:
        """Return the arrival of each event: append and row."""
        if not self._layout.sequence:
            raise PlanError("rows carry no arrival sequence", hint="order events by row groups and rows")
        places = np.require(places, np.int64, ["C", "W"])  # as kernels require
        arrival, rows = self._values.numbers("arrival", places), self._values.numbers("rows", places)
        return self._values.numbers("append", places), arrival + rows


def _gather(jobs: Ints, context: Ints) -> Events:
    counts = np.zeros(len(jobs), np.int64)
    count_events(jobs, context, counts)
    times, places = np.empty((2, int(counts.sum())), np.int64)
    gather(jobs, context, times, places)
    return Events(times, places)


def _merge(found: Sequence[Events]) -> Events:
    """Merge events by time and, on equal times, by place."""
    if not found:
        return Events(np.empty(0, np.int64), np.empty(0, np.int64))
    times = np.concatenate([each.times for each in found]) if len(found) > 1 else found[0].times
    places = np.concatenate([each.places for each in found]) if len(found) > 1 else found[0].places
    later = times[1:] > times[:-1]
    if bool(np.all(later | ((times[1:] == times[:-1]) & (places[1:] > places[:-1])))):
        return Events(times, places)
    order = np.lexsort((places, times))  # merges the sorted stretches
    return Events(times[order], places[order])
