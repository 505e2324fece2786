"""Two-phase filtering: intervals around the rarest variable, then look-ups inside them [ACER24 §3.3].

Beyond the paper, the intervals shrink after every variable, before the next look-up: an interval stays only
if it holds a distinct event for each variable, in the order of the pattern (`embedding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cerise.engines.limits import DEFAULT, Limits
from cerise.filters.embedding import hulls
from cerise.filters.index_query import ANYTHING, IndexQuery, IndexQueryBranch
from cerise.filters.match_ends import is_first, is_last
from cerise.plan.intervals import ALWAYS, NEVER, Intervals, Ints, shift_times, union, union_of
from cerise.plan.slicing import MIN_TIME
from cerise.store.index.lookup import Criteria, Events

EDGE_COUNTS = 0.5  # the interval around a first or last variable is half as long [ACER24 Eq. 1]
MOST_INTERVALS = 1 << 20


class LookupSource(Protocol):
    """An index that answers look-ups."""

    def estimate(self, criteria: Criteria) -> float:
        """Return about how many events meet the criteria."""
        ...

    def look_up(self, criteria: Criteria, within: tuple[Ints, Ints] | None = None) -> Events:
        """Return the events that meet the criteria, in time order; if given, only inside the intervals."""
        ...


@dataclass(frozen=True, slots=True)
class Filtering:
    """Options of the filter, for experiments; the defaults are best.

    Args:
        two_phase: whether intervals shrink variable by variable; False: buckets of time.
        blockwise: whether all variables are looked up in one stretch of time before the next [O2]; None:
            only where the rarest variable is not rare.
    """

    two_phase: bool = True
    blockwise: bool | None = None


@dataclass(slots=True)
class Trace:
    """The steps of the filter, for reports.

    Attributes:
        order: the variables in the order of look-up, with how many events fit each.
        intervals: how many intervals were left after each look-up.
    """

    order: list[tuple[str, int]] = field(default_factory=list)
    intervals: list[int] = field(default_factory=list)


def filter_events(
    query: IndexQuery,
    source: LookupSource,
    reach: Intervals = ALWAYS,
    trace: Trace | None = None,
    limits: Limits = DEFAULT,
) -> Events:
    """Return the events that can be part of a match, or can prevent one, in time order.

    Args:
        query: the index query.
        source: the index.
        reach: the time to search.
        trace: receives the steps of the filter.
        limits: from how many events on intervals are not narrowed further.
    """
    known = _Lookups(source, reach, limits)
    found = [_branch(each, query, known, trace or Trace()) for each in query.branches]
    if query.why_all is None:
        return merge([several for _, several in found])
    return _all_in([intervals for intervals, _ in found], query, known)


def _all_in(parts: list[Intervals], query: IndexQuery, known: _Lookups) -> Events:
    """Return all events in the intervals.

    No match spans two intervals that are further apart than a window: events between them do not matter.
    """
    assert query.window is not None
    return known.look_up(ANYTHING, union_of(parts).coalesce(query.window, MOST_INTERVALS))


def rarest(branch: IndexQueryBranch, source: LookupSource) -> tuple[str, float]:
    """Return the variable that the filter starts from, and about how many events fit it."""
    order = _order_variables(branch, source)
    return order[0], source.estimate(branch.wants[order[0]])


Fitting = tuple[Criteria, Events]  # criteria, and the events that meet them


@dataclass(slots=True)
class _Lookups:
    """The index, the time to search, and a cache of look-ups over all that time, which branches share."""

    source: LookupSource
    reach: Intervals
    limits: Limits = DEFAULT
    everywhere: dict[Criteria, Events] = field(default_factory=dict)

    def look_up(self, criteria: Criteria, intervals: Intervals) -> Events:
        if intervals is not self.reach:
            return self.source.look_up(criteria, (intervals.starts, intervals.ends))
        if criteria not in self.everywhere:
            within = None if intervals is ALWAYS else (intervals.starts, intervals.ends)
            self.everywhere[criteria] = self.source.look_up(criteria, within)
        return self.everywhere[criteria]

    def clip(self, intervals: Intervals) -> Intervals:
        if self.reach is ALWAYS:
            return intervals
        ends = zip(self.reach.starts.tolist(), self.reach.ends.tolist(), strict=True)
        return union_of([intervals.clip(first, last) for first, last in ends])


def _branch(
    branch: IndexQueryBranch, query: IndexQuery, known: _Lookups, trace: Trace
) -> tuple[Intervals, list[Fitting]]:
    """Return the intervals of a branch, and the events in them that fit one of its variables."""
    intervals, found = _first_phase(branch, query.window, known, trace)
    if not len(intervals):
        return NEVER, []
    if query.why_all is not None:
        return intervals, []
    # The second phase: drop events outside of the intervals, and look up the negated variables inside them.
    inside = {branch.wants[name]: events for name, events in found.items()}
    absent = {each: known.look_up(each, intervals) for each in branch.absent if each not in inside}
    return intervals, [(each, _within(events, intervals)) for each, events in (inside | absent).items()]


def _first_phase(
    branch: IndexQueryBranch, window: int | None, known: _Lookups, trace: Trace
) -> tuple[Intervals, dict[str, Events]]:
    intervals, found = known.reach, dict[str, Events]()
    anchor: str | None = None
    for name in _order_variables(branch, known.source):
        criteria = branch.wants[name]
        if criteria == ANYTHING:
            continue
        alike = next((each for each in found if branch.wants[each] == criteria), None)
        found[name] = found[alike] if alike is not None else known.look_up(criteria, intervals)
        trace.order.append((name, len(found[name].times)))
        anchor = anchor or name
        if window is not None and (name == anchor or not _hopeless(found[anchor], intervals, known.limits)):
            around = hulls(branch.pattern, anchor, found, window, reaches=branch.reaches)
            intervals = known.clip(around)
        if not len(found[name].times):
            intervals = NEVER
        trace.intervals.append(len(intervals))
        if not len(intervals):
            break
    return intervals, found


def _hopeless(anchors: Events, intervals: Intervals, limits: Limits) -> bool:
    """Tell whether the intervals overlap so much that shrinking them is unlikely to drop any."""
    return len(anchors.times) >= max(limits.anchor_events, limits.interval_events * len(intervals))


def _order_variables(branch: IndexQueryBranch, source: LookupSource) -> list[str]:
    """Return the variables, sorted by how much time their intervals are expected to cover."""
    edges = {name for name in branch.wants if is_first(branch.pattern, name) or is_last(branch.pattern, name)}

    def cost(name: str) -> float:
        if branch.wants[name] == ANYTHING:
            return float("inf")
        return source.estimate(branch.wants[name]) * (EDGE_COUNTS if name in edges else 1.0)

    return sorted(branch.wants, key=cost)


def _within(events: Events, intervals: Intervals) -> Events:
    inside = intervals.holds(events.times)
    return events if inside.all() else Events(events.times[inside], events.places[inside])


def merge(branches: Sequence[Sequence[Fitting]]) -> Events:
    """Return the events that fit any variable of the branches, in time order, each once."""
    wider = [each for branch in branches for each in _widest(branch)]
    if len(wider) == 1:
        return wider[0][1]
    times = np.concatenate([np.zeros(0, np.int64), *(events.times for _, events in wider)])
    places = np.concatenate([np.zeros(0, np.int64), *(events.places for _, events in wider)])
    order = np.argsort(times, kind="stable")  # merges the sorted stretches
    times, places = times[order], places[order]
    return Events(times, places) if _apart([criteria for criteria, _ in wider]) else _once(times, places)


def _widest(branch: Sequence[Fitting]) -> list[Fitting]:
    """Return the events of a branch by criteria, without criteria that others of the branch cover."""
    left: list[Fitting] = []
    for each in sorted(branch, key=lambda fitting: len(fitting[0].tests)):
        if not any(_covers(other, each[0]) for other, _ in left):
            left.append(each)
    return left


def _covers(wide: Criteria, narrow: Criteria) -> bool:
    types = wide.types is None or (narrow.types is not None and set(narrow.types) <= set(wide.types))
    return types and set(wide.tests) <= set(narrow.tests)


def _apart(wants: Sequence[Criteria]) -> bool:
    types = [each for criteria in wants for each in set(criteria.types or ())]
    return all(criteria.types is not None for criteria in wants) and len(set(types)) == len(types)


def _once(times: Ints, places: Ints) -> Events:
    """Drop repeated events, such as those that fit two variables; the times are sorted."""
    if not len(times):
        return Events(times, places)
    order = np.lexsort((places, times))
    again = np.append(False, (places[order][1:] == places[order][:-1]))
    keep = np.ones(len(times), bool)
    keep[order[again]] = False
    return Events(times[keep], places[keep])


# ---- buckets, for comparison [ACER24 §4.2: ACER-F]


def filter_by_buckets(query: IndexQuery, source: LookupSource, reach: Intervals = ALWAYS) -> Events:
    """Return the events in buckets of one window, where a bucket and its neighbours hold every variable.

    This is the filter that the paper compares with: it looks up every variable everywhere.
    """
    if query.window is None:
        return filter_events(query, source, reach)
    known = _Lookups(source, reach)
    parts, several = list[Intervals](), list[list[Fitting]]()
    for branch in query.branches:
        found = {each: known.look_up(each, reach) for each in branch.wants.values() if each != ANYTHING}
        parts.append(_buckets(list(found.values()), max(query.window, 1)))
        absent = {} if query.why_all else {each: known.look_up(each, reach) for each in branch.absent}
        several.append([(each, _within(events, parts[-1])) for each, events in (found | absent).items()])
    return merge(several) if query.why_all is None else _all_in(parts, query, known)


def _buckets(found: Sequence[Events], length: int) -> Intervals:
    good: Ints | None = None
    for events in found:
        own = np.unique(events.times // length)
        near = np.unique(np.concatenate([shift_times(own, -1), own, shift_times(own, 1)]))
        good = near if good is None else np.intersect1d(good, near, assume_unique=True)
    assert good is not None
    starts = np.maximum(good, MIN_TIME // length + 2) * length
    return union(shift_times(starts, -length), shift_times(starts, 2 * length - 1))
