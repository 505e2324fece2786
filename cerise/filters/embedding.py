"""Where a pattern can lie around an event, judged by which events fit its variables [ACER24 Observation 1].

From an event that fits one variable, the anchor, the variables after it are found as early as they can come,
and those before it as late, each an event of its own. If what is found is longer than the window, no match
has the event there. Otherwise every such match lies in [end − window, start + window], which shrinks the
replay interval of the paper. Events of equal time may stand in any order here, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerise.kernels.time_passes import enclose, find_neighbours
from cerise.pattern.query import And, Kleene, Node, Seq, Var, variables
from cerise.plan.intervals import ALWAYS, Intervals, Ints, places_among, shift_times, union
from cerise.plan.slicing import MAX_TIME, MIN_TIME
from cerise.store.index.lookup import Events


class Points(NamedTuple):
    """For each anchor the event that is found last: when it is, which it is, and whether there is one."""

    times: Ints
    places: Ints
    found: npt.NDArray[np.bool_]


def hulls(
    pattern: Node, anchor: str, events: Mapping[str, Events], window: int, *, reaches: bool = False
) -> Intervals:
    """Return the time that matches may lie in, around the events that fit the anchor.

    Args:
        pattern: the variables.
        anchor: one of them.
        events: the events that fit variables, in time order; a variable that is not here may be anywhere.
        window: how much time a match spans at most.
        reaches: whether the query looks up to a window beyond the match.
    """
    if window > MAX_TIME:
        return ALWAYS
    anchors = events[anchor]
    here = Points(anchors.times, anchors.places, np.ones(len(anchors.times), bool))
    first, last, there = _around(pattern, anchor, here, events, window)
    there = there & first.found & last.found
    before = -1 if not reaches and is_first(pattern, anchor) else window
    after = -1 if not reaches and is_last(pattern, anchor) else window
    starts, ends = np.empty((2, len(there)), np.int64)
    least, most = np.ascontiguousarray(first.times), np.ascontiguousarray(last.times)
    where = (least.ctypes.data, most.ctypes.data)
    count = enclose(*where, there.view(np.uint8), window, before, after, starts, ends)
    return union(starts[:count], ends[:count])


def is_first(pattern: Node, name: str) -> bool:
    """Tell whether a variable is always the first event of a match."""
    return _at_edge(pattern, name, 0)


def is_last(pattern: Node, name: str) -> bool:
    """Tell whether a variable is always the last event of a match."""
    return _at_edge(pattern, name, -1)


def _at_edge(node: Node, name: str, side: int) -> bool:
    match node:
        case Var():
            return node.name == name
        case Seq(items):
            return _at_edge(items[side], name, side)
    return False


def _around(
    node: Node, anchor: str, here: Points, events: Mapping[str, Events], window: int
) -> tuple[Points, Points, npt.NDArray[np.bool_]]:
    """Return the latest start and earliest end of a pattern around an anchor, and whether all is there."""
    match node:
        case Seq(items):
            at = next(i for i, item in enumerate(items) if _names(item, anchor))
            first, last, there = _around(items[at], anchor, here, events, window)
            for item in items[at + 1 :]:
                last = _ahead(item, last, events)
            for item in reversed(items[:at]):
                first = _back(item, first, events)
            return first, last, there
        case And(items):
            (mine,) = (item for item in items if _names(item, anchor))
            first, last, there = _around(mine, anchor, here, events, window)
            for item in items:
                if item is not mine:
                    there = there & _near(item, here, events, window)
            return first, last, there
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


# ---- on and back


def _ahead(node: Node, after: Points, events: Mapping[str, Events]) -> Points:
    """Return the earliest end of a pattern whose events all come after given ones."""
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
    """Return the latest start of a pattern whose events all come before given ones."""
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
    """Return the items of an AND; variables that the same events fit follow one another, to each its own."""
    alike: dict[int, list[Node]] = {}
    for i, item in enumerate(items):
        known = events.get(item.name) if isinstance(item, Var) else None
        alike.setdefault(-i - 1 if known is None else id(known), []).append(item)
    return [each[0] if len(each) == 1 else Seq(tuple(each)) for each in alike.values()]


def _next(events: Events, after: Points) -> Points:
    """Return the first event that is not before a given one, and is another."""
    return _neighbours(events, after, back=False)


def _previous(events: Events, before: Points) -> Points:
    """Return the last event that is not after a given one, and is another."""
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
        whole = _chosen(each, whole, later)
    return whole


def _first(points: list[Points]) -> Points:
    whole = points[0]
    for each in points[1:]:
        earlier = each.times < whole.times
        whole = _chosen(each, whole, earlier)
    return whole


def _chosen(one: Points, other: Points, takes: npt.NDArray[np.bool_]) -> Points:
    return Points(
        np.where(takes, one.times, other.times),
        np.where(takes, one.places, other.places),
        one.found & other.found,
    )
