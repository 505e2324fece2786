"""Look-ups: which events of a table pass the tests of a variable, and the values of events, from the index alone.

This is 000's single variable query (Algorithm 1) over all index files of a version, with the intervals that
window-aware filtering keeps (§3.3).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs

from cerise.errors import PlanError
from cerise.events import Ints
from cerise.kinds import restore_as
from cerise.plan.filters import Test
from cerise.store.index.codes import encode
from cerise.store.index.layout import Layout
from cerise.store.index.opened import OpenFiles
from cerise.store.index.parts import Parts, parts_of
from cerise.store.index.ranges import holds, intervals_of
from cerise.store.index.search import (
    J_WORDS,
    T_WORDS,
    count_events,
    gather,
    judge,
    open_contexts,
)
from cerise.store.index.selection import (
    Intervals,
    Selection,
    as_ints,
    common,
    in_time,
    judged_by,
    mask_of,
    of_types,
    types_that_hold,
)
from cerise.store.index.synopsis import Synopsis
from cerise.store.index.values import PLACE, Values

MAPPED = 4_096  # files at once


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a variable asks of an event on its own.

    Attributes:
        types: values of the type column, None among them for events without a type; None: any of these.
        tests: what must hold, all of it.
    """

    types: tuple[Any, ...] | None
    tests: tuple[Test, ...] = ()


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
    """What look-ups have touched: clusters of the right types, those that the synopsis ruled out, and the rest."""

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
    """

    def __init__(
        self, synopsis: Synopsis, layout: Layout, filesystem: pafs.FileSystem, *, mapped: int = MAPPED
    ) -> None:
        if synopsis.layout != layout:
            raise PlanError("the index holds other columns than asked", hint="index the table again")
        self.synopsis = synopsis
        self.counts = Counts()
        self._layout = layout
        self._files = OpenFiles(synopsis, filesystem, mapped)
        self._values = Values(synopsis, self._files)
        self._lock = threading.Lock()
        self._sampled: dict[str, Any] = {}

    @property
    def groups(self) -> Groups:
        """All row groups of the table."""
        return Groups(*(self.synopsis.group(name) for name in Groups._fields))

    # ---- which events

    def look_up(
        self,
        wanted: Wanted,
        within: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
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
        return _merged(found)

    def _select(
        self,
        wanted: Wanted,
        within: tuple[npt.ArrayLike, npt.ArrayLike] | None,
        groups: npt.ArrayLike | None,
    ) -> tuple[Selection, Intervals]:
        """Return the clusters that may hold what is wanted, by the synopsis alone."""
        clusters = self._of_types(wanted)
        if groups is not None:
            kept = mask_of(groups, len(self.synopsis.groups))
            clusters = clusters[kept[self.synopsis.cluster("group")[clusters]]]
        intervals = None if within is None else as_ints(within)
        if timed := self._tests_of(wanted, self._layout.time):
            intervals = common(intervals, intervals_of(timed, self._layout.type_of(self._layout.time)))
        selection = in_time(self.synopsis, clusters, intervals)
        for test in self._attribute_tests(wanted):
            selection = judged_by(selection, test, self.synopsis, self._values.thresholds)
        with self._lock:
            self.counts.considered += len(clusters)
            self.counts.pruned += len(clusters) - len(selection.clusters)
        nothing = np.empty(0, np.int64)
        return selection, intervals if intervals is not None else (nothing, nothing)

    def _of_types(self, wanted: Wanted) -> Ints:
        if self._layout.type is None and wanted.types is not None:
            raise PlanError("the table has no type column", hint="ask for any type: Wanted(None, …)")
        kept, null = types_that_hold(self.synopsis.types, wanted.types)
        tests = self._tests_of(wanted, self._layout.type)
        if tests:
            types = self.synopsis.types
            coded = encode(pa.concat_arrays([types, pa.nulls(1, types.type)]), str(self._layout.type))
            passed = np.logical_and.reduce([holds(test, coded, types.type) for test in tests])
            kept = passed[:-1] if kept is None else kept & passed[:-1]
            null = null and bool(passed[-1])
        return of_types(self.synopsis, kept, null)

    def _tests_of(self, wanted: Wanted, name: str | None) -> list[Test]:
        return [test for test in wanted.tests if test.path == (name,)]

    def _attribute_tests(self, wanted: Wanted) -> list[Test]:
        """Return the tests of attributes, those that need no dictionary first."""
        tests = [
            test for test in wanted.tests if test.path not in ((self._layout.time,), (self._layout.type,))
        ]
        for test in tests:
            if len(test.path) > 1 or test.path[0] not in self._layout.attributes:
                raise PlanError(
                    f"the index does not hold '{'.'.join(test.path)}'",
                    hint=f"it holds {', '.join(self._layout.attributes) or 'no attributes'}",
                )
        words = {
            name
            for name in self._layout.attributes
            if f"words.{self._layout.attributes.index(name)}" in self.synopsis.groups.column_names
        }
        return sorted(tests, key=lambda test: test.path[0] in words)

    def _judged(self, selection: Selection, intervals: Intervals, files: Ints) -> Events:
        """Return the events of clusters in some files that pass."""
        held = self._files.hold(files)
        self._files.verify_clusters(selection.clusters, held)
        facts = self._values.facts(selection.clusters)
        parts = parts_of(facts, self._layout)
        address = held.addresses[self._values.file_of(selection.clusters)] + facts["offset"]
        words = (facts["count"] + 63) >> 6
        jobs = np.zeros((len(words), J_WORDS), np.int64)
        columns = (
            address, facts["count"], *parts.lists["times"].frame, selection.soonest, selection.latest,
            np.cumsum(words) - words, 0, 0, selection.clusters,
        )  # fmt: skip
        for i, column in enumerate(columns):
            jobs[:, i] = column
        context = np.zeros(int(words.sum()), np.int64)
        open_contexts(jobs, *intervals, context)
        self._judge(selection, jobs, parts, context)
        self._count(selection, facts, parts)
        return _gathered(jobs, context)

    def _judge(self, selection: Selection, jobs: Ints, parts: Parts, context: Ints) -> None:
        for each in sorted(selection.judged, key=lambda each: each.share):
            slices = parts.slices[each.attribute]
            tests = np.zeros((len(jobs), T_WORDS), np.int64)
            for i, column in enumerate((jobs[:, 0] + slices.offset, slices.width, slices.marked, each.done)):
                tests[:, i] = column
            empty = each.lows > each.highs
            with np.errstate(over="ignore"):
                lows, highs = each.lows - slices.base[:, None], each.highs - slices.base[:, None]
            lows[empty], highs[empty] = -1, 0
            judge(jobs, tests, lows, highs, each.nulls, context)

    def _count(self, selection: Selection, facts: dict[str, Ints], parts: Parts) -> None:
        touched = (facts["count"] * parts.lists["times"].frame.width + 7) >> 3
        for each in selection.judged:
            slices = parts.slices[each.attribute]
            touched = touched + ((facts["count"] + 7) >> 3) * (slices.width + slices.marked) * ~each.done
        with self._lock:
            self.counts.read += len(selection.clusters)
            self.counts.bytes += int(touched.sum())

    # ---- how many

    def estimate(self, wanted: Wanted) -> float:
        """Return about how many events are wanted: by the counts of types and the samples."""
        clusters = self._of_types(wanted)
        total = int(self.synopsis.cluster("count")[clusters].sum())
        selection, _ = self._select(wanted, None, None)
        most = int(self.synopsis.cluster("count")[selection.clusters].sum())
        tests = self._attribute_tests(wanted)
        if not tests or not most:
            return float(most)
        passed = np.logical_and.reduce([self._sample_holds(test) for test in tests])
        of_type = self._sample_types(wanted)
        hits, seen = int((passed & of_type).sum()), int(of_type.sum())
        return min(float(most), total * (hits + 0.5) / (seen + 1))

    def _sample_holds(self, test: Test) -> npt.NDArray[np.bool_]:
        name = test.path[0]
        if name not in self._sampled:
            self._sampled[name] = encode(self.synopsis.sample.column(name).combine_chunks(), name)
        found: npt.NDArray[np.bool_] = holds(test, self._sampled[name], self._layout.type_of(name))
        return found

    def _sample_types(self, wanted: Wanted) -> npt.NDArray[np.bool_]:
        if wanted.types is None or self._layout.type is None:
            return np.ones(len(self.synopsis.sample), np.bool_)
        if self._layout.type not in self._sampled:
            self._sampled[self._layout.type] = np.array(
                self.synopsis.sample.column(self._layout.type).to_pylist(), object
            )
        found = np.zeros(len(self.synopsis.sample), np.bool_)
        for value in wanted.types:
            found |= self._sampled[self._layout.type] == value
        return found

    # ---- their values

    def column(self, name: str, places: Ints) -> pa.Array:
        """Return the values of an attribute, the type or the time of events, in the column's own type."""
        places = np.array(places, np.int64)
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
        """Return the row group of each event, by number in `groups`, and its row there."""
        places = np.array(places, np.int64)
        return self.synopsis.cluster("group")[places >> PLACE], self._values.numbers("rows", places)

    def sequence(self, places: Ints) -> tuple[Ints, Ints]:
        """Return when each event arrived: append and row."""
        if not self._layout.sequence:
            raise PlanError("rows carry no arrival sequence", hint="order events by row groups and rows")
        places = np.array(places, np.int64)
        arrival, rows = self._values.numbers("arrival", places), self._values.numbers("rows", places)
        return self._values.numbers("append", places), arrival + rows


def _gathered(jobs: Ints, context: Ints) -> Events:
    counts = np.zeros(len(jobs), np.int64)
    count_events(jobs, context, counts)
    times, places = np.empty((2, int(counts.sum())), np.int64)
    gather(jobs, context, times, places)
    return Events(times, places)


def _merged(found: Sequence[Events]) -> Events:
    """Return the events of all, by time and, where times are equal, by place."""
    if not found:
        return Events(np.empty(0, np.int64), np.empty(0, np.int64))
    times = np.concatenate([each.times for each in found]) if len(found) > 1 else found[0].times
    places = np.concatenate([each.places for each in found]) if len(found) > 1 else found[0].places
    if bool(np.all(times[1:] >= times[:-1])):
        return Events(times, places)
    order = np.argsort(times, kind="stable")  # finds the runs that are in order, and merges them
    return Events(times[order], places[order])
