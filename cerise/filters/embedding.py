"""Intervals that hold all matches around an event, from events that fit variables [ACER24 Observation 1].

Start from an event that fits one variable, the anchor. Find the earliest events for the variables after it
and the latest for those before it, a distinct event for each. If these span more than the window, no match
binds the event to the anchor. Otherwise every such match lies in [end − window, start + window], which is
narrower than the replay interval of the paper. Events of equal time may come in any order here, so no match
is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerise.filters.match_ends import is_first, is_last
from cerise.kernels.time_passes import enclose, find_neighbours
from cerise.pattern.query import And, Kleene, Node, Seq, Var, variables
from cerise.plan.intervals import ALWAYS, Intervals, Ints, places_among, shift_times, union
from cerise.plan.slicing import MAX_TIME, MIN_TIME
from cerise.store.index.lookup import Events


class Points(NamedTuple):
    """For each anchor the outermost event found so far: its time, its place, and whether one was found."""

    times: Ints
    places: Ints
    found: npt.NDArray[np.bool_]


def hulls(
    pattern: Node, anchor: str, events: Mapping[str, Events], window: int, *, reaches: bool = False
) -> Intervals:
    """Return the intervals that may hold matches, around the events that fit the anchor.

    Args:
        pattern: the pattern.
        anchor: a variable of the pattern.
        events: the events that fit each variable, in time order; a missing variable fits any event.
        window: how much time a match spans at most.
        reaches: whether the query looks at events up to a window beyond the match.
    """
    if window > MAX_TIME:
        return ALWAYS
    anchors = events[anchor]
    here = Points(anchors.times, anchors.places, np.ones(len(anchors.times), bool))
    first, last, complete = _around(pattern, anchor, here, events, window)
    complete = complete & first.found & last.found
    before = -1 if not reaches and is_first(pattern, anchor) else window
    after = -1 if not reaches and is_last(pattern, anchor) else window
    starts, ends = np.empty((2, len(complete)), np.int64)
    least, most = np.ascontiguousarray(first.times), np.ascontiguousarray(last.times)
    where = (least.ctypes.data, most.ctypes.data)
    count = enclose(*where, complete.view(np.uint8), window, before, after, starts, ends)
    return union(starts[:count], ends[:count])


def _around(
    node: Node, anchor: str, here: Points, events: Mapping[str, Events], window: int
) -> tuple[Points, Points, npt.NDArray[np.bool_]]:
    """Return the latest start and earliest end of a pattern around an anchor, and whether it is complete."""
    match node:
        case Seq(items):
            at = next(i for i, item in enumerate(items) if _names(item, anchor))
            first, last, complete = _around(items[at], anchor, here, events, window)
            for item in items[at + 1 :]:
                last = _ahead(item, last, events)
            for item in reversed(items[:at]):
                first = _back(item, first, events)
            return first, last, complete
        case And(items):
            (mine,) = (item for item in items if _names(item, anchor))
            first, last, complete = _around(mine, anchor, here, events, window)
            for item in items:
                if item is not mine:
                    complete = complete & _near(item, here, events, window)
            return first, last, complete
        case Kleene(_, low):
            return here, here, _enough(low, here, events[anchor], window)
    return here, here, here.found


def _names(node: Node, anchor: str) -> bool:
    return any(var.name == anchor for var in variables(node))


def _near(node: Node, here: Points, events: Mapping[str, Events], window: int) -> npt.NDArray[np.bool_]:
    before = Points(shift_times(here.times, -window), np.full(len(here.times), -1), here.found)
    end = _ahead(node, before, events)
    found: npt.NDArray[np.bool_] = end.found & (end.times <= shift_times(here.times, window))
    return found


def _enough(low: int, here: Points, events: Events, window: int) -> npt.NDArray[np.bool_]:
    low_end = places_among(events.times, shift_times(here.times, -window), after=False)
    high_end = places_among(events.times, shift_times(here.times, window), after=True)
    found: npt.NDArray[np.bool_] = high_end - low_end >= low
    return found


# ---- forward and back


def _ahead(node: Node, after: Points, events: Mapping[str, Events]) -> Points:
    """Return the earliest end of a pattern whose events all come after the given points."""
    match node:
        case Var(name):
            return _next(events[name], after) if name in events else after
        case Kleene(var, low):
            for _ in range(low):
                after = _ahead(var, after, events)
            return after
        case Seq(items):
            for item in items:
                after = _ahead(item, after, events)
            return after
        case And(items):
            return _last([_ahead(item, after, events) for item in _apart(items, events)])
    raise AssertionError(node)


def _back(node: Node, before: Points, events: Mapping[str, Events]) -> Points:
    """Return the latest start of a pattern whose events all come before the given points."""
    match node:
        case Var(name):
            return _previous(events[name], before) if name in events else before
        case Kleene(var, low):
            for _ in range(low):
                before = _back(var, before, events)
            return before
        case Seq(items):
            for item in reversed(items):
                before = _back(item, before, events)
            return before
        case And(items):
            return _first([_back(item, before, events) for item in _apart(items, events)])
    raise AssertionError(node)


def _apart(items: tuple[Node, ...], events: Mapping[str, Events]) -> list[Node]:
    """Return the items of an AND; variables with the same events become a Seq, so that each binds its own."""
    alike: dict[int, list[Node]] = {}
    for i, item in enumerate(items):
        known = events.get(item.name) if isinstance(item, Var) else None
        alike.setdefault(-i - 1 if known is None else id(known), []).append(item)
    return [each[0] if len(each) == 1 else Seq(tuple(each)) for each in alike.values()]


def _next(events: Events, after: Points) -> Points:
    """Return for each point the first other event that is not before it."""
    return _neighbours(events, after, back=False)


def _previous(events: Events, before: Points) -> Points:
    """Return for each point the last other event that is not after it."""
    return _neighbours(events, before, back=True)


def _neighbours(events: Events, given: Points, *, back: bool) -> Points:
    near = Points(given.times.copy(), given.places.copy(), given.found.copy())
    times, places = np.ascontiguousarray(events.times), np.ascontiguousarray(events.places)
    where = (times.ctypes.data, places.ctypes.data, len(times))
    find_neighbours(*where, back, MIN_TIME if back else MAX_TIME, *near[:2], near.found.view(np.uint8))
    return near


def _last(points: list[Points]) -> Points:
    whole = points[0]
    for each in points[1:]:
        later = each.times > whole.times
        whole = _choose(each, whole, later)
    return whole


def _first(points: list[Points]) -> Points:
    whole = points[0]
    for each in points[1:]:
        earlier = each.times < whole.times
        whole = _choose(each, whole, earlier)
    return whole


def _choose(left: Points, right: Points, takes_left: npt.NDArray[np.bool_]) -> Points:
    return Points(
        np.where(takes_left, left.times, right.times),
        np.where(takes_left, left.places, right.places),
        left.found & right.found,
    )
