"""Which events may be part of a match that one event completes: found backwards from it, before any join.

An event is alive on an edge if some later event is alive on an edge that follows, and is linked to it; the
event that completes the match, the trigger, is alive on the edges that end there. One comparison of order
between neighbours is judged by the best value seen so far: the pass is linear in the window's events. All
other predicates are left to the walk; what is alive is a superset.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.nfa.numbered import (
    H_STARTS,
    reaches,
)
from cerise.engines.rcep.desk import (
    AT_LEAST,
    AT_MOST,
    D_ALIVE,
    D_BY_RIGHT,
    D_EDGES,
    D_EVENTS,
    D_FLOORS,
    D_HAS,
    D_JUDGED,
    D_LISTS,
    D_MASKS,
    D_OPENS,
    D_PARTS,
    D_PLACES,
    D_POINTS,
    D_SLOT_COUNT,
    D_SLOTS,
    D_STAMP,
    D_STAMPS,
    D_VARS,
    D_WAYS,
    J_LEFT,
    J_OP,
    J_RIGHT,
    J_WORDS,
    L_BEST,
    L_HAS,
    L_LEFT,
    L_OP,
    L_RIGHT,
    L_WORDS,
    NULL,
    P_ACCEPTS,
    P_BIT,
    P_FIRST,
    P_JUDGED,
    P_JUDGED_END,
    P_LAST,
    P_LINKS,
    P_RIGHT,
    P_RIGHT_END,
    P_TERMINAL,
    P_VAR,
    P_WORDS,
    holds,
    list_start,
)
from cerise.kernels.jit import Ints, get, int64, kernel, put, void


@kernel(void(Ints, Ints, int64, int64, int64, int64))
def keep_near(masks: Any, times: Any, first: int, last: int, triggers: int, within: int) -> None:
    """Let the events that no trigger has in its window fit no variable.

    Args:
        masks: which variables each event fits.
        times: its time.
        first: the first event that may be a trigger.
        last: the event to stop before.
        triggers: the variables that can be last.
        within: how long the window is.
    """
    trigger = len(masks)  # the next one; a difference of times that overflows is small, so its event is kept
    for e in range(len(masks) - 1, -1, -1):
        if first <= e < last and masks[e] & triggers:
            trigger = e
        elif trigger == len(masks) or times[trigger] - times[e] > within:
            masks[e] = 0


@kernel(void(Ints, Ints, Ints, Ints, Ints))
def fill_lists(masks: Any, parts: Any, starts: Any, lists: Any, places: Any) -> None:
    """List the events that fit each variable by partition, and last those that fit any.

    Args:
        masks: which variables each event fits.
        parts: its partition, -1 where it has none.
        starts: room for where each list starts: variables and one more, by partitions and one more.
        lists: room for the events of all lists.
        places: room for the place of each event in the list of all.
    """
    width, variables = starts[0] + 1, starts[1]  # given there, as they are needed only here
    for i in range(len(starts)):
        starts[i] = 0
    for e in range(len(masks)):
        if parts[e] >= 0 and masks[e]:
            for v in range(variables):
                if (masks[e] >> v) & 1:
                    starts[v * width + parts[e]] += 1
            starts[variables * width + parts[e]] += 1
    total = 0
    for i in range(len(starts)):
        count = starts[i]
        starts[i] = total
        total += count
    for e in range(len(masks)):
        if parts[e] >= 0 and masks[e]:
            for v in range(variables):
                if (masks[e] >> v) & 1:
                    at = v * width + parts[e]
                    lists[starts[at]] = e
                    starts[at] += 1
            at = variables * width + parts[e]
            lists[starts[at]] = e
            places[e] = starts[at]
            starts[at] += 1
    for i in range(len(starts) - 1, 0, -1):
        starts[i] = starts[i - 1]
    starts[0] = 0


@kernel()
def note_alive(slots: int, by_right: int, way: int, e: int) -> None:
    """Let the edges before an edge know the best value of the events that are alive on it."""
    for i in range(get(way, P_RIGHT), get(way, P_RIGHT_END)):
        slot = slots + 8 * L_WORDS * get(by_right, i)
        value = get(get(slot, L_RIGHT), e)
        if value == NULL:
            continue
        best, op = get(slot, L_BEST), get(slot, L_OP)
        if get(slot, L_HAS) == 0 or (value > best if op <= AT_MOST else value < best):
            put(slot, L_BEST, value)
            put(slot, L_HAS, 1)


@kernel()
def is_judged(judged: int, way: int, e: int, p: int) -> bool:
    """Whether an event passes all comparisons with the trigger."""
    for i in range(get(way, P_JUDGED), get(way, P_JUDGED_END)):
        test = judged + 8 * J_WORDS * i
        if not holds(get(test, J_OP), get(get(test, J_LEFT), e), get(get(test, J_RIGHT), p)):
            return False
    return True


@kernel()
def leads_on(has: int, slots: int, way: int, e: int) -> bool:
    """Whether some later event is alive on an edge that follows, and linked to this one."""
    links = get(way, P_LINKS)
    for then in range(get(way, P_FIRST), get(way, P_LAST)):
        if get(has, then) == 0:
            continue
        link = get(links, then)
        if link < 0:
            return True
        slot = slots + 8 * L_WORDS * link
        if get(slot, L_HAS) == 0:
            continue
        op, left = get(slot, L_OP), get(get(slot, L_LEFT), e)
        if left != NULL and (op > AT_LEAST or holds(op, left, get(slot, L_BEST))):
            return True
    return False


@kernel()
def begin_with(w: int, p: int) -> None:
    """Let nothing be alive but the trigger, on the edges that end there."""
    ways, has, slots = get(w, D_WAYS), get(w, D_HAS), get(w, D_SLOTS)
    for i in range(get(w, D_SLOT_COUNT)):
        put(slots + 8 * L_WORDS * i, L_HAS, 0)
    for j in range(get(w, D_EDGES)):
        way = ways + 8 * P_WORDS * j
        ends = get(way, P_ACCEPTS) and get(way, P_BIT) & get(get(w, D_MASKS), p)
        put(has, j, 1 if ends else 0)
        if ends:
            note_alive(slots, get(w, D_BY_RIGHT), way, p)


@kernel()
def prune(m: int, w: int, p: int) -> int:
    """Stamp the events that may be part of a match that event p completes.

    Returns:
        The earliest event that such a match may start with; -1: there is no such match.
    """
    begin_with(w, p)
    ways, has, slots, by_right = get(w, D_WAYS), get(w, D_HAS), get(w, D_SLOTS), get(w, D_BY_RIGHT)
    lists, points, masks = get(w, D_LISTS), get(w, D_POINTS), get(w, D_MASKS)
    edges, count, part = get(w, D_EDGES), get(w, D_EVENTS), get(get(w, D_PARTS), p)
    opens, stamps, judged, starts = get(w, D_OPENS), get(w, D_STAMPS), get(w, D_JUDGED), get(m, H_STARTS)
    of_variables = get(w, D_ALIVE)
    stamp = get(w, D_STAMP) + 1
    put(w, D_STAMP, stamp)
    point, floor, first = get(points, p), get(get(w, D_FLOORS), part), -1
    for i in range(get(get(w, D_PLACES), p) - 1, list_start(w, get(w, D_VARS), part) - 1, -1):
        e = get(lists, i)
        if e <= floor or not reaches(m, get(points, e), point):
            break
        mask, alive = get(masks, e), False
        for j in range(edges):
            way = ways + 8 * P_WORDS * j
            if get(way, P_BIT) & mask == 0 or get(way, P_TERMINAL) or (j >= starts and get(opens, e) == 0):
                continue
            if is_judged(judged, way, e, p) and leads_on(has, slots, way, e):
                put(stamps, j * count + e, stamp)
                alive = True
        if not alive:
            continue
        for j in range(edges):
            if get(stamps, j * count + e) == stamp:
                put(has, j, 1)
                note_alive(slots, by_right, ways + 8 * P_WORDS * j, e)
                if of_variables:
                    put(of_variables, get(ways + 8 * P_WORDS * j, P_VAR) * count + e, stamp)
                if j >= starts:
                    first = e
    return first
