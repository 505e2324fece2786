"""Look-ups: which events of a table pass the tests of a variable, and their values, from the index alone.

This is 000's single variable query (Algorithm 1) over all index files of a version, with the intervals that
window-aware filtering keeps (000 §3.3).
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
from cerise.store.index.cluster_layout import Parts
from cerise.store.index.event_values import PLACE, Values
from cerise.store.index.file_cache import OpenFiles
from cerise.store.index.layout import Layout
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
    Given,
    Intervals,
    Samples,
    Selection,
    Wanted,
    attribute_tests,
    in_question,
    in_time,
    intervals_asked,
    judged_by,
)
from cerise.store.index.synopsis import Synopsis

__all__ = ["Counts", "Events", "Groups", "Index", "Wanted"]

MAPPED = 4_096  # files at once


class Events(NamedTuple):
    """Events in the order of time, then of row groups.

    Attributes:
        times: when they happened.
        places: who they are: the number of the cluster and, in 32 bits, the position in it.
    """

    times: Ints
    places: Ints


class Groups(NamedTuple):
    """All row groups: file, number in the file, first and last time (last before first: empty), rows."""

    file: Ints
    row_group: Ints
    first: Ints
    last: Ints
    rows: Ints


@dataclass(slots=True)
class Counts:
    """What look-ups have touched: clusters of the right types, those that the synopsis ruled out, others."""

    considered: int = 0
    pruned: int = 0
    read: int = 0
    bytes: int = 0


class Index:
    """A version's synopsis with its index files opened on demand.

    Args:
        synopsis: what is known of all clusters.
        layout: which columns are indexed; that of the synopsis.
        filesystem: where the index files are.
        mapped: how many files may be open at once.
        gap: how many bytes between two parts of a file it is quicker to read than to ask again.
    """

    def __init__(
        self,
        synopsis: Synopsis,
        layout: Layout,
        filesystem: pafs.FileSystem,
        *,
        mapped: int = MAPPED,
        gap: int = 1 << 16,
    ) -> None:
        if synopsis.layout != layout:
            raise PlanError("the index holds other columns than asked", hint="index the table again")
        self.synopsis = synopsis
        self.counts = Counts()
        self._layout = layout
        self._files = OpenFiles(synopsis, filesystem, mapped, gap)
        self._values = Values(synopsis, self._files)
        self._lock = threading.Lock()
        self._samples = Samples(synopsis)

    @property
    def groups(self) -> Groups:
        return Groups(*(self.synopsis.group(name) for name in Groups._fields))

    def close(self) -> None:
        """Let go of the files; they are opened again when they are touched."""
        self._files.close()

    # ---- which events

    def look_up(
        self,
        wanted: Wanted,
        within: Given | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Events:
        """Return the events that are wanted, in the order of time.

        Args:
            wanted: what they must be.
            within: starts and last moments of intervals, sorted and disjoint: only events inside.
            groups: only events of these row groups.

        Raises:
            BrokenIndex: an index file is damaged or missing.
            PlanError: a test is on a column that the index does not hold.
        """
        selection, intervals = self._select(wanted, within, groups)
        found = []
        files = self._values.file_of(selection.clusters)
        for batch in self._values.batches(files):
            some = selection if len(batch) == len(np.unique(files)) else selection.kept(np.isin(files, batch))
            found.append(self._judged(some, intervals, batch))
        return _merge(found)

    def _select(
        self, wanted: Wanted, within: Given | None, groups: npt.ArrayLike | None
    ) -> tuple[Selection, Intervals]:
        """Return the clusters that may hold what is wanted, in the order of their first times."""
        clusters = in_question(self.synopsis, wanted, groups)
        intervals = intervals_asked(self._layout, wanted, within)
        selection = in_time(self.synopsis, clusters, intervals)
        for tests in attribute_tests(self._layout, wanted):
            selection = judged_by(selection, tests, self.synopsis, self._values.thresholds)
        with self._lock:
            self.counts.considered += len(clusters)
            self.counts.pruned += len(clusters) - len(selection.clusters)
        first = self.synopsis.cluster("first")[selection.clusters]
        nothing = np.empty(0, np.int64)
        return selection.kept(np.argsort(first, kind="stable")), intervals or (nothing, nothing)

    def _judged(self, selection: Selection, intervals: Intervals, files: Ints) -> Events:
        """Return the events of clusters in some files that pass."""
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

    def _judge(self, selection: Selection, jobs: Ints, parts: Parts, context: Ints) -> None:
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

    def _count(self, selection: Selection, facts: dict[str, Ints], parts: Parts) -> None:
        touched = (facts["count"] * parts.lists["times"].frame.width + 7) >> 3
        for each in selection.judged:
            slices = parts.slices[each.attribute]
            touched = touched + ((facts["count"] + 7) >> 3) * (slices.width + slices.marked) * ~each.done
        with self._lock:
            self.counts.read += len(selection.clusters)
            self.counts.bytes += int(touched.sum())

    def estimate(self, wanted: Wanted) -> float:
        """Return about how many events are wanted: by the counts of types and the samples."""
        clusters = in_question(self.synopsis, wanted)
        in_reach = in_time(self.synopsis, clusters, intervals_asked(self._layout, wanted, None))
        asked = attribute_tests(self._layout, wanted)
        selection = in_reach
        for tests in asked:
            if self._layout.kind(tests[0].path[0]) is not Kind.STRING:  # no file is opened for an estimate
                selection = judged_by(selection, tests, self.synopsis, self._values.thresholds)
        counts = self.synopsis.cluster("count")
        share = self._samples.share(wanted) if asked else 1.0
        return float(min(counts[selection.clusters].sum(), counts[in_reach.clusters].sum() * share))

    # ---- their values

    def column(self, name: str, places: Ints) -> pa.Array:
        """Return the values of an attribute, the type or the time of events, in the column's own type."""
        places = np.require(places, np.int64, ["C", "W"])  # kernels take no others
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
        places = np.require(places, np.int64, ["C", "W"])  # kernels take no others
        return self.synopsis.cluster("group")[places >> PLACE], self._values.numbers("rows", places)

    def sequence(self, places: Ints) -> tuple[Ints, Ints]:
        """Return when each event arrived: append and row."""
        if not self._layout.sequence:
            raise PlanError("rows carry no arrival sequence", hint="order events by row groups and rows")
        places = np.require(places, np.int64, ["C", "W"])  # kernels take no others
        arrival, rows = self._values.numbers("arrival", places), self._values.numbers("rows", places)
        return self._values.numbers("append", places), arrival + rows


def _gather(jobs: Ints, context: Ints) -> Events:
    counts = np.zeros(len(jobs), np.int64)
    count_events(jobs, context, counts)
    times, places = np.empty((2, int(counts.sum())), np.int64)
    gather(jobs, context, times, places)
    return Events(times, places)


def _merge(found: Sequence[Events]) -> Events:
    """Return the events of all, by time and, where times are equal, by place."""
    if not found:
        return Events(np.empty(0, np.int64), np.empty(0, np.int64))
    times = np.concatenate([each.times for each in found]) if len(found) > 1 else found[0].times
    places = np.concatenate([each.places for each in found]) if len(found) > 1 else found[0].places
    later = times[1:] > times[:-1]
    if bool(np.all(later | ((times[1:] == times[:-1]) & (places[1:] > places[:-1])))):
        return Events(times, places)
    order = np.lexsort((places, times))  # finds the runs that are in order, and merges them
    return Events(times[order], places[order])
