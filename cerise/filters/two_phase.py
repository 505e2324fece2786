"""Two-phase filtering: intervals from the rarest variable, then only what lies in them [ACER24 §3.3].

Beyond the paper the intervals shrink after every variable, before the next one is looked up; what is found in
them is in the order that the pattern asks for, and each variable has an event of its own (`embedding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cerise.engines.limits import DEFAULT, Limits
from cerise.filters.embedding import hulls, is_first, is_last
from cerise.filters.index_query import ANYTHING, Asked, AskedBranch
from cerise.plan.intervals import ALWAYS, NEVER, Intervals, Ints, shift_times, union, union_of
from cerise.plan.slicing import MIN_TIME
from cerise.store.index.lookup import Events, Wanted

EDGE_COUNTS = 0.5  # an interval of the first or last variable is half as long [ACER24 Eq. 1]
MOST_INTERVALS = 1 << 20


class Source(Protocol):
    """Where events are looked up."""

    def estimate(self, wanted: Wanted) -> float:
        """Return how many events are expected."""
        ...

    def look_up(self, wanted: Wanted, within: tuple[Ints, Ints] | None = None) -> Events:
        """Return the events that are wanted, in time order: those in some intervals, where they are given."""
        ...


@dataclass(frozen=True, slots=True)
class Filtering:
    """How events are filtered; for experiments, as the defaults are best.

    Args:
        two_phase: whether intervals are found variable by variable; False: buckets of time.
        blockwise: whether all variables are looked up in one stretch of time before the next [O2]; None:
            where the rarest variable is not rare.
    """

    two_phase: bool = True
    blockwise: bool | None = None


@dataclass(slots=True)
class Trace:
    """What the filter saw, for reports: how many events fit each variable, and how many intervals were left.

    Attributes:
        order: the variables in the order in which they were looked up, with the events found.
        intervals: how many intervals there were after each.
    """

    order: list[tuple[str, int]] = field(default_factory=list)
    intervals: list[int] = field(default_factory=list)


def kept(
    query: Asked,
    source: Source,
    reach: Intervals = ALWAYS,
    trace: Trace | None = None,
    limits: Limits = DEFAULT,
) -> Events:
    """Return the events that can be part of a match, or decide about one; in time order.

    Args:
        query: what is asked.
        source: where to look.
        reach: the time to look in.
        trace: what is seen is noted there.
        limits: tell where intervals are not narrowed down.
    """
    known = _Known(source, reach, limits)
    found = [_branch(each, query, known, trace or Trace()) for each in query.branches]
    if query.why_all is None:
        return merged([several for _, several in found])
    return _all_in([intervals for intervals, _ in found], query, known)


def _all_in(parts: list[Intervals], query: Asked, known: _Known) -> Events:
    """Return every event of some intervals.

    Those that are further apart than a window no match can span: what lies between them changes nothing.
    """
    assert query.window is not None
    return known.look_up(ANYTHING, union_of(parts).coalesce(query.window, MOST_INTERVALS))


def rarest(branch: AskedBranch, source: Source) -> tuple[str, float]:
    """Return the variable that intervals start from, and how many events it is expected to have."""
    order = _ordered(branch, source)
    return order[0], source.estimate(branch.wants[order[0]])


Fitting = tuple[Wanted, Events]  # what is asked, and the events that fit it


@dataclass(slots=True)
class _Known:
    """Where events are looked up, when, and what was found there that another branch may ask for again."""

    source: Source
    reach: Intervals
    limits: Limits = DEFAULT
    everywhere: dict[Wanted, Events] = field(default_factory=dict)

    def look_up(self, wanted: Wanted, intervals: Intervals) -> Events:
        if intervals is not self.reach:
            return self.source.look_up(wanted, (intervals.starts, intervals.ends))
        if wanted not in self.everywhere:
            within = None if intervals is ALWAYS else (intervals.starts, intervals.ends)
            self.everywhere[wanted] = self.source.look_up(wanted, within)
        return self.everywhere[wanted]

    def limited(self, intervals: Intervals) -> Intervals:
        if self.reach is ALWAYS:
            return intervals
        ends = zip(self.reach.starts.tolist(), self.reach.ends.tolist(), strict=True)
        return union_of([intervals.clip(first, last) for first, last in ends])


def _branch(
    branch: AskedBranch, query: Asked, known: _Known, trace: Trace
) -> tuple[Intervals, list[Fitting]]:
    """Return the intervals of a branch, and the events in them that fit a variable of it."""
    intervals, found = _first_phase(branch, query.window, known, trace)
    if not len(intervals):
        return NEVER, []
    if query.why_all is not None:
        return intervals, []
    # The second phase: pairs outside of the intervals go; what was not needed to find them is looked up.
    inside = {branch.wants[name]: events for name, events in found.items()}
    absent = {each: known.look_up(each, intervals) for each in branch.absent if each not in inside}
    return intervals, [(each, _within(events, intervals)) for each, events in (inside | absent).items()]


def _first_phase(
    branch: AskedBranch, window: int | None, known: _Known, trace: Trace
) -> tuple[Intervals, dict[str, Events]]:
    intervals, found = known.reach, dict[str, Events]()
    anchor: str | None = None
    for name in _ordered(branch, known.source):
        wanted = branch.wants[name]
        if wanted == ANYTHING:
            continue
        alike = next((each for each in found if branch.wants[each] == wanted), None)
        found[name] = found[alike] if alike is not None else known.look_up(wanted, intervals)
        trace.order.append((name, len(found[name].times)))
        anchor = anchor or name
        if window is not None and (name == anchor or not _hopeless(found[anchor], intervals, known.limits)):
            around = hulls(branch.pattern, anchor, found, window, reaches=branch.reaches)
            intervals = known.limited(around)
        if not len(found[name].times):
            intervals = NEVER
        trace.intervals.append(len(intervals))
        if not len(intervals):
            break
    return intervals, found


def _hopeless(anchors: Events, intervals: Intervals, limits: Limits) -> bool:
    """Tell whether intervals of many events run into one another, so that none is likely to go."""
    return len(anchors.times) >= max(limits.anchor_events, limits.interval_events * len(intervals))


def _ordered(branch: AskedBranch, source: Source) -> list[str]:
    """Return the variables, those first that are expected to leave the least time."""
    edges = {name for name in branch.wants if is_first(branch.pattern, name) or is_last(branch.pattern, name)}

    def cost(name: str) -> float:
        if branch.wants[name] == ANYTHING:
            return float("inf")
        return source.estimate(branch.wants[name]) * (EDGE_COUNTS if name in edges else 1.0)

    return sorted(branch.wants, key=cost)


def _within(events: Events, intervals: Intervals) -> Events:
    inside = intervals.holds(events.times)
    return events if inside.all() else Events(events.times[inside], events.places[inside])


def merged(branches: Sequence[Sequence[Fitting]]) -> Events:
    """Return events that fit one variable or another of some branches, in time order, each once."""
    wider = [each for branch in branches for each in _widest(branch)]
    if len(wider) == 1:
        return wider[0][1]
    times = np.concatenate([np.zeros(0, np.int64), *(events.times for _, events in wider)])
    places = np.concatenate([np.zeros(0, np.int64), *(events.places for _, events in wider)])
    order = np.argsort(times, kind="stable")  # runs that are in order already are merged
    times, places = times[order], places[order]
    return Events(times, places) if _apart([wanted for wanted, _ in wider]) else _once(times, places)


def _widest(branch: Sequence[Fitting]) -> list[Fitting]:
    """Return what a branch keeps, without events that fit a variable which asks for less, and come anyway."""
    left: list[Fitting] = []
    for each in sorted(branch, key=lambda fitting: len(fitting[0].tests)):
        if not any(_covers(other, each[0]) for other, _ in left):
            left.append(each)
    return left


def _covers(wide: Wanted, narrow: Wanted) -> bool:
    types = wide.types is None or (narrow.types is not None and set(narrow.types) <= set(wide.types))
    return types and set(wide.tests) <= set(narrow.tests)


def _apart(wants: Sequence[Wanted]) -> bool:
    types = [each for wanted in wants for each in set(wanted.types or ())]
    return all(wanted.types is not None for wanted in wants) and len(set(types)) == len(types)


def _once(times: Ints, places: Ints) -> Events:
    """Leave out events that come again, as those that fit two variables do; times are in order."""
    if not len(times):
        return Events(times, places)
    order = np.lexsort((places, times))
    again = np.append(False, (places[order][1:] == places[order][:-1]))
    keep = np.ones(len(times), bool)
    keep[order[again]] = False
    return Events(times[keep], places[keep])


# ---- buckets, for comparison [ACER24 §4.2: ACER-F]


def bucketized(query: Asked, source: Source, reach: Intervals = ALWAYS) -> Events:
    """Return the events in buckets of time, one window long, that with their neighbours have every variable.

    The filter that the paper compares with: every variable is looked up everywhere.
    """
    if query.window is None:
        return kept(query, source, reach)
    known = _Known(source, reach)
    parts, several = list[Intervals](), list[list[Fitting]]()
    for branch in query.branches:
        found = {each: known.look_up(each, reach) for each in branch.wants.values() if each != ANYTHING}
        parts.append(_buckets(list(found.values()), max(query.window, 1)))
        absent = {} if query.why_all else {each: known.look_up(each, reach) for each in branch.absent}
        several.append([(each, _within(events, parts[-1])) for each, events in (found | absent).items()])
    return merged(several) if query.why_all is None else _all_in(parts, query, known)


def _buckets(found: Sequence[Events], length: int) -> Intervals:
    good: Ints | None = None
    for events in found:
        own = np.unique(events.times // length)
        near = np.unique(np.concatenate([shift_times(own, -1), own, shift_times(own, 1)]))
        good = near if good is None else np.intersect1d(good, near, assume_unique=True)
    assert good is not None
    starts = np.maximum(good, MIN_TIME // length + 2) * length
    return union(shift_times(starts, -length), shift_times(starts, 2 * length - 1))
