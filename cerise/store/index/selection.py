"""Selects the clusters that a look-up must read, by the synopsis alone (000 Algorithm 1, lines 1–3).

A cluster whose codes all lie outside the ranges of a test is never opened. A cluster whose codes all lie
inside one range passes the test without being read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.errors import PlanError
from cerise.events import Ints
from cerise.kinds import Kind
from cerise.plan.pushdown import Test
from cerise.store.index.codes import WHOLE, Coded, encode
from cerise.store.index.layout import IndexLayout
from cerise.store.index.ranges import (
    Threshold,
    comparisons,
    holds,
    intervals_of,
    passes_null,
    range_count,
    ranges_between,
    ranges_of,
)
from cerise.store.index.synopsis import Synopsis

Flags = npt.NDArray[np.bool_]
MOST_RANGES = 16  # of one attribute, tested together
Given = tuple[npt.ArrayLike, npt.ArrayLike]
Intervals = tuple[Ints, Ints]
Thresholds = Callable[[Ints, int, tuple[str, ...]], Threshold]  # from groups, an attribute and constants


@dataclass(frozen=True, slots=True)
class Criteria:
    """The criteria of a variable that one event alone can meet.

    Attributes:
        types: the allowed types, with a None for events without a type; None: any type.
        tests: the tests; all must hold.
    """

    types: tuple[Any, ...] | None
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True, slots=True)
class AttributeTest:
    """The tests of one attribute as ranges of codes in each selected cluster.

    Attributes:
        attribute: the number of the attribute.
        lows: the least code of each range, by cluster.
        highs: the greatest code; below the least if the range is empty.
        nulls: whether events without a value pass.
        done: a mask of the clusters whose events all pass.
        share: the mean share of the codes between least and greatest that pass.
    """

    attribute: int
    lows: Ints
    highs: Ints
    nulls: bool
    done: Flags
    share: float

    def take(self, kept: Flags | Ints) -> AttributeTest:
        return replace(self, lows=self.lows[kept], highs=self.highs[kept], done=self.done[kept])


@dataclass(frozen=True, slots=True)
class Selection:
    """The clusters that may hold events which meet the criteria.

    Attributes:
        clusters: their numbers.
        soonest: the first interval that overlaps each cluster; -1: the cluster lies in one interval.
        latest: the first interval after it.
        judged: the tests, by attribute.
    """

    clusters: Ints
    soonest: Ints
    latest: Ints
    judged: tuple[AttributeTest, ...]

    def take(self, kept: Flags | Ints) -> Selection:
        judged = tuple(each.take(kept) for each in self.judged)
        return Selection(self.clusters[kept], self.soonest[kept], self.latest[kept], judged)


def select_clusters(synopsis: Synopsis, criteria: Criteria, groups: npt.ArrayLike | None = None) -> Ints:
    """Return the clusters of the right types, in the given row groups or in all."""
    clusters = np.flatnonzero(select_types(synopsis, criteria)[synopsis.cluster("type")])
    if groups is None:
        return clusters
    kept = np.zeros(len(synopsis.groups), np.bool_)
    kept[np.asarray(groups, np.int64)] = True
    return clusters[kept[synopsis.cluster("group")[clusters]]]


def select_types(synopsis: Synopsis, criteria: Criteria) -> Flags:
    """Return a mask of the types that meet the criteria; its last bit is for events without a type."""
    name, types = synopsis.layout.type, synopsis.types
    if name is None and criteria.types is not None:
        raise PlanError("the table has no type column", hint="ask for any type: Criteria(None, …)")
    values = pa.concat_arrays([types, pa.nulls(1, types.type)])
    kept = np.ones(len(values), np.bool_)
    if criteria.types is not None:
        named = set(criteria.types)
        kept = np.array([value in named for value in values.to_pylist()], np.bool_)
    for test in criteria.tests:
        if test.path == (name,):
            kept &= holds(test, encode(values, str(name)), types.type)
    return kept


def attribute_tests(layout: IndexLayout, criteria: Criteria) -> list[list[Test]]:
    """Return the tests of attributes, grouped by attribute, strings last.

    Raises:
        PlanError: the index does not hold an attribute.
    """
    tests = [test for test in criteria.tests if test.path not in ((layout.time,), (layout.type,))]
    for test in tests:
        if len(test.path) > 1 or test.path[0] not in layout.attributes:
            raise PlanError(
                f"the index does not hold '{'.'.join(test.path)}'",
                hint=f"it holds {', '.join(layout.attributes) or 'no attributes'}",
            )
    groups: list[list[Test]] = []
    for test in sorted(tests, key=lambda test: (layout.kind(test.path[0]) is Kind.STRING, test.path)):
        last = groups[-1] if groups else []
        ranges = math.prod(range_count(each) for each in (*last, test))
        if last and last[0].path == test.path and ranges <= MOST_RANGES:
            last.append(test)
        else:
            groups.append([test])
    return groups


def find_intervals(layout: IndexLayout, criteria: Criteria, within: Given | None) -> Intervals | None:
    """Return the intervals to search: the given ones, cut down by tests of the time."""
    starts, ends = (None, None) if within is None else (np.array(each, np.int64) for each in within)
    given = None if starts is None or ends is None else (starts, ends)
    timed = [test for test in criteria.tests if test.path == (layout.time,)]
    if not timed:
        return given
    allowed = intervals_of(timed, layout.type_of(layout.time))
    return allowed if given is None else _common(given, allowed)


def _common(many: Intervals, few: Intervals) -> Intervals:
    """Return the intersection of many intervals with a few."""
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for low, high in zip(*(each.tolist() for each in few), strict=True):
        start, end = np.maximum(many[0], low), np.minimum(many[1], high)
        starts.append(start[start <= end])
        ends.append(end[start <= end])
    return np.concatenate(starts), np.concatenate(ends)


def select_in_time(synopsis: Synopsis, clusters: Ints, within: Intervals | None) -> Selection:
    """Return the clusters that overlap the intervals."""
    if within is None:
        return Selection(clusters, np.full(len(clusters), -1), np.zeros(len(clusters), np.int64), ())
    starts, ends = within
    first, last = synopsis.cluster("first")[clusters], synopsis.cluster("last")[clusters]
    soonest = np.searchsorted(ends, first)
    latest = np.searchsorted(starts, last, side="right")
    touching = latest > soonest
    found = Selection(clusters, soonest, latest, ()).take(touching)
    at = found.soonest
    whole = (starts[at] <= first[touching]) & (ends[at] >= last[touching])
    return replace(found, soonest=np.where(whole, -1, at))


def apply_tests(
    selection: Selection, tests: Sequence[Test], synopsis: Synopsis, words: Thresholds
) -> Selection:
    """Return the clusters that may hold events which pass tests of one attribute, with the tests added."""
    clusters = selection.clusters
    i = synopsis.layout.attributes.index(tests[0].path[0])
    least, most, nulls, count = (
        synopsis.cluster(name)[clusters] for name in (f"least.{i}", f"most.{i}", f"nulls.{i}", "count")
    )
    lows, highs = _find_ranges(clusters, tests[0], i, synopsis, words)
    for test in tests[1:]:
        low, high = _find_ranges(clusters, test, i, synopsis, words)
        shape = (len(clusters), lows.shape[1] * low.shape[1])
        lows = np.maximum(lows[:, :, None], low[:, None, :]).reshape(shape)
        highs = np.minimum(highs[:, :, None], high[:, None, :]).reshape(shape)
    lows, highs = np.maximum(lows, least[:, None]), np.minimum(highs, most[:, None])
    empty = (lows > highs) | (nulls == count)[:, None]
    null_passes = all(passes_null(test) for test in tests)
    alive = ~empty.all(axis=1) | (null_passes & (nulls > 0))
    covered = (~empty & (lows == least[:, None]) & (highs == most[:, None])).any(axis=1)
    done = (covered | (nulls == count)) & ((nulls == 0) | null_passes)
    lows[empty], highs[empty] = 0, -1
    part = np.where(empty, 0.0, highs.astype(np.float64) - lows + 1).sum(axis=1)
    share = float(np.mean(part / (most.astype(np.float64) - least + 1))) if len(clusters) else 0.0
    judged = AttributeTest(i, lows, highs, null_passes, done, share)
    return replace(selection, judged=(*selection.judged, judged)).take(alive)


def _find_ranges(
    clusters: Ints, test: Test, i: int, synopsis: Synopsis, words: Thresholds
) -> tuple[Ints, Ints]:
    """Return the least and the greatest code of each range of a test, by cluster."""
    name = synopsis.layout.attributes[i]
    groups = synopsis.cluster("group")[clusters]
    if synopsis.layout.kind(name) is Kind.STRING:
        return _find_word_ranges(groups, test, i, words)
    encodings = synopsis.group(f"encoding.{i}")[groups]
    type_ = synopsis.layout.type_of(name)
    width = len(ranges_of(test, type_, WHOLE))  # as many for every encoding
    lows, highs = np.empty((2, len(clusters), width), np.int64)
    for encoding in np.unique(encodings).tolist():
        ranges = np.array(ranges_of(test, type_, encoding), np.int64).reshape(-1, 2)
        lows[encodings == encoding], highs[encodings == encoding] = ranges.T
    return lows, highs


def _find_word_ranges(groups: Ints, test: Test, i: int, words: Thresholds) -> tuple[Ints, Ints]:
    different, which = np.unique(groups, return_inverse=True)
    lows, highs = [], []
    for each in comparisons(test):
        placed = words(different, i, tuple(map(str, each.values)))
        ends = [Threshold(placed.least[:, k], placed.above[:, k]) for k in range(len(each.values))]
        for low, high in ranges_between(each.op, ends):
            lows.append(np.broadcast_to(low, len(different))[which])
            highs.append(np.broadcast_to(high, len(different))[which])
    shape = (len(lows), len(groups))
    low_of, high_of = (np.array(each, np.int64).reshape(shape).T for each in (lows, highs))
    return np.ascontiguousarray(low_of), np.ascontiguousarray(high_of)


class Samples:
    """The samples of all files; each event weighs as much as the events that it represents."""

    def __init__(self, synopsis: Synopsis) -> None:
        self._synopsis = synopsis
        self._coded: dict[str, Coded] = {}
        self._types: Ints | None = None
        drawn = np.bincount(synopsis.sampled, minlength=len(synopsis.table_of_files))
        rows = np.asarray(synopsis.table_of_files.column("rows").combine_chunks(), np.float64)
        self._weights = (rows / np.maximum(drawn, 1))[synopsis.sampled]

    def share(self, criteria: Criteria) -> float:
        """Estimate the share of events of the right types that pass the tests of attributes; never 0."""
        seen = self._of_types(criteria)
        passed = seen.copy()
        for test in chain.from_iterable(attribute_tests(self._synopsis.layout, criteria)):
            passed &= self._holds(test.path[0], test)
        one = float(self._weights.mean()) if len(self._weights) else 1.0
        return float((self._weights[passed].sum() + one / 2) / (self._weights[seen].sum() + one))

    def _holds(self, name: str, test: Test) -> Flags:
        if name not in self._coded:
            self._coded[name] = encode(self._synopsis.sample.column(name).combine_chunks(), name)
        return holds(test, self._coded[name], self._synopsis.layout.type_of(name))

    def _of_types(self, criteria: Criteria) -> Flags:
        name = self._synopsis.layout.type
        kept = select_types(self._synopsis, criteria)
        if name is None:
            return np.full(len(self._weights), bool(kept[-1]))
        if self._types is None:
            values = self._synopsis.sample.column(name).combine_chunks()
            known = self._synopsis.types.cast(values.type)
            self._types = np.asarray(pc.index_in(values, known).fill_null(-1), np.int64)
        return kept[self._types]
