"""Which clusters a look-up must touch, as the synopsis tells (000 Algorithm 1, lines 1–3).

A cluster whose least and greatest codes lie outside what a test asks is never opened; one that lies wholly
inside passes that test unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.events import Ints
from cerise.kinds import Kind
from cerise.plan.filters import Test
from cerise.store.index.ranges import (
    Threshold,
    comparisons,
    passes_null,
    ranges_between,
    ranges_of,
)
from cerise.store.index.synopsis import Synopsis

Flags = npt.NDArray[np.bool_]
Intervals = tuple[Ints, Ints]
Thresholds = Callable[[Ints, int, tuple[str, ...]], Threshold]  # of groups, an attribute and constants


@dataclass(frozen=True, slots=True)
class Judged:
    """What one test asks of each selected cluster.

    Attributes:
        attribute: the number of its attribute.
        lows: the least code of each range, by cluster.
        highs: the greatest; below the least where the range is empty.
        nulls: events without a value pass.
        done: the clusters of which all events pass.
        share: how many codes pass, of those that there could be.
    """

    attribute: int
    lows: Ints
    highs: Ints
    nulls: bool
    done: Flags
    share: float

    def kept(self, kept: Flags) -> Judged:
        """Return the same for some of the clusters."""
        return replace(self, lows=self.lows[kept], highs=self.highs[kept], done=self.done[kept])


@dataclass(frozen=True, slots=True)
class Selection:
    """The clusters that may hold what is wanted.

    Attributes:
        clusters: their numbers.
        soonest: the first interval that each touches; -1: it lies wholly in one.
        latest: the first interval after it.
        judged: what each test asks of them.
    """

    clusters: Ints
    soonest: Ints
    latest: Ints
    judged: tuple[Judged, ...]

    def kept(self, kept: Flags) -> Selection:
        """Return some of the clusters."""
        judged = tuple(each.kept(kept) for each in self.judged)
        return Selection(self.clusters[kept], self.soonest[kept], self.latest[kept], judged)


def in_time(synopsis: Synopsis, clusters: Ints, within: Intervals | None) -> Selection:
    """Return which of some clusters touch intervals."""
    if within is None:
        return Selection(clusters, np.full(len(clusters), -1), np.zeros(len(clusters), np.int64), ())
    starts, ends = within
    first, last = synopsis.cluster("first")[clusters], synopsis.cluster("last")[clusters]
    soonest = np.searchsorted(ends, first)
    latest = np.searchsorted(starts, last, side="right")
    touching = latest > soonest
    found = Selection(clusters, soonest, latest, ()).kept(touching)
    at = found.soonest
    whole = (starts[at] <= first[touching]) & (ends[at] >= last[touching])
    return replace(found, soonest=np.where(whole, -1, at))


def judged_by(selection: Selection, test: Test, synopsis: Synopsis, words: Thresholds) -> Selection:
    """Return the clusters that may hold events which pass a test, with what it asks of them."""
    clusters = selection.clusters
    i = synopsis.layout.attributes.index(test.path[0])
    least, most, nulls, count = (
        synopsis.cluster(name)[clusters] for name in (f"least.{i}", f"most.{i}", f"nulls.{i}", "count")
    )
    lows, highs = _asked(clusters, test, i, synopsis, words)
    lows, highs = np.maximum(lows, least[:, None]), np.minimum(highs, most[:, None])
    empty = (lows > highs) | (nulls == count)[:, None]
    null_passes = passes_null(test)
    alive = ~empty.all(axis=1) | (null_passes & (nulls > 0))
    covered = (~empty & (lows == least[:, None]) & (highs == most[:, None])).any(axis=1)
    done = (covered | (nulls == count)) & ((nulls == 0) | null_passes)
    lows[empty], highs[empty] = 0, -1
    part = np.where(empty, 0.0, highs.astype(np.float64) - lows + 1).sum(axis=1)
    share = float(np.mean(part / (most.astype(np.float64) - least + 1))) if len(clusters) else 0.0
    judged = Judged(i, lows, highs, null_passes, done, share)
    return replace(selection, judged=(*selection.judged, judged)).kept(alive)


def _asked(clusters: Ints, test: Test, i: int, synopsis: Synopsis, words: Thresholds) -> tuple[Ints, Ints]:
    """Return the least and the greatest code of each range that a test asks for, by cluster."""
    name = synopsis.layout.attributes[i]
    groups = synopsis.cluster("group")[clusters]
    if synopsis.layout.kind(name) is Kind.STRING:
        return _asked_words(groups, test, i, words)
    encodings = synopsis.group(f"encoding.{i}")[groups]
    type_ = synopsis.layout.type_of(name)
    width = len(ranges_of(test, type_, 0)) if not len(encodings) else -1
    for encoding in np.unique(encodings).tolist():
        ranges = np.array(ranges_of(test, type_, encoding), np.int64).reshape(-1, 2)
        if width < 0:
            width = len(ranges)
            lows, highs = np.empty((2, len(clusters), width), np.int64)
        lows[encodings == encoding], highs[encodings == encoding] = ranges.T
    return (
        (lows, highs) if len(encodings) else (np.empty((0, width), np.int64), np.empty((0, width), np.int64))
    )


def _asked_words(groups: Ints, test: Test, i: int, words: Thresholds) -> tuple[Ints, Ints]:
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


def of_types(synopsis: Synopsis, kept: Flags | None, null: bool) -> Ints:
    """Return the clusters of some types.

    Args:
        synopsis: what is known of all clusters.
        kept: which of its types; None: any, and none too.
        null: events without a type, too.
    """
    if kept is None:
        return np.arange(len(synopsis.clusters))
    return np.flatnonzero(np.append(kept, null)[synopsis.cluster("type")])


def common(one: Intervals | None, other: Intervals) -> Intervals:
    """Return where intervals overlap with a few others."""
    if one is None:
        return other
    starts, ends = [], []
    for low, high in zip(*(each.tolist() for each in other), strict=True):
        start, end = np.maximum(one[0], low), np.minimum(one[1], high)
        starts.append(start[start <= end])
        ends.append(end[start <= end])
    nothing = [np.empty(0, np.int64)]
    return np.concatenate(starts or nothing), np.concatenate(ends or nothing)


def as_ints(intervals: tuple[npt.ArrayLike, npt.ArrayLike]) -> Intervals:
    """Return intervals as the kernels take them."""
    starts, ends = (np.array(each, np.int64) for each in intervals)
    return starts, ends


def mask_of(groups: npt.ArrayLike, count: int) -> Flags:
    """Return which of all row groups are named."""
    found = np.zeros(count, np.bool_)
    found[np.asarray(groups, np.int64)] = True
    return found


def types_that_hold(values: pa.Array, wanted: tuple[object, ...] | None) -> tuple[Flags | None, bool]:
    """Return which types are named, and whether none is."""
    if wanted is None:
        return None, True
    named = set(wanted)
    return np.array([value in named for value in values.to_pylist()], np.bool_), None in named
