"""Which events may be part of a match that one event completes: found backwards from it, before any join.

An event is alive on an edge if some later event is alive on an edge that follows, and is linked to it; the
event that completes the match, the trigger, is alive on the edges that end there. One comparison of order
between neighbours is judged by the best value seen so far: the pass is linear in the window's events. All
other predicates are left to the walk; what is alive is a superset.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.nfa.machine import H_STARTS as STARTS
from cerise.engines.nfa.machine import deadline_of, edge_row, state_row
from cerise.engines.nfa.rows import E_ACCEPTS, E_BIT, E_TARGET, E_TERMINAL, S_FIRST, S_LAST
from cerise.engines.rcep.desk import (
    AT_LEAST,
    AT_MOST,
    D_BY_RIGHT,
    D_BY_RIGHT_AT,
    D_EDGES,
    D_EVENTS,
    D_FLOORS,
    D_HAS,
    D_JUDGED,
    D_JUDGED_AT,
    D_LINK_OF,
    D_LISTS,
    D_MASKS,
    D_OPENS,
    D_PARTS,
    D_PLACES,
    D_POINTS,
    D_PRUNED,
    D_SLOTS,
    D_STAMP,
    D_STAMPS,
    D_VARS,
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
    LESS,
    MORE,
    NULL,
    holds,
    list_start,
)
from cerise.kernels.jit import Ints, get, kernel, put, void


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
def note_alive(w: int, j: int, e: int) -> None:
    """Let the edges before an edge know that an event is alive on it."""
    put(get(w, D_HAS), j, 1)
    at = get(w, D_BY_RIGHT_AT)
    for i in range(get(at, j), get(at, j + 1)):
        slot = get(w, D_SLOTS) + 8 * L_WORDS * get(get(w, D_BY_RIGHT), i)
        value, op = get(get(slot, L_RIGHT), e), get(slot, L_OP)
        if value == NULL:
            continue
        best = get(slot, L_BEST)
        below = op in (LESS, AT_MOST)
        if get(slot, L_HAS) == 0 or (value > best if below else value < best):
            put(slot, L_BEST, value)
        put(slot, L_HAS, 1)


@kernel()
def is_judged(w: int, j: int, e: int, p: int) -> bool:
    """Whether an event passes all comparisons with the trigger."""
    at = get(w, D_JUDGED_AT)
    for i in range(get(at, j), get(at, j + 1)):
        test = get(w, D_JUDGED) + 8 * J_WORDS * i
        if not holds(get(test, J_OP), get(get(test, J_LEFT), e), get(get(test, J_RIGHT), p)):
            return False
    return True


@kernel()
def leads_on(m: int, w: int, j: int, e: int) -> bool:
    """Whether some later event is alive on an edge that follows, and linked to this one."""
    state = state_row(m, get(edge_row(m, j), E_TARGET))
    edges = get(w, D_EDGES)
    for then in range(get(state, S_FIRST), get(state, S_LAST)):
        if get(get(w, D_HAS), then) == 0:
            continue
        link = get(get(w, D_LINK_OF), j * edges + then)
        if link < 0:
            return True
        slot = get(w, D_SLOTS) + 8 * L_WORDS * link
        if get(slot, L_HAS) == 0:
            continue
        op, left = get(slot, L_OP), get(get(slot, L_LEFT), e)
        ordered = op in (LESS, AT_MOST, MORE, AT_LEAST)
        if left != NULL and (not ordered or holds(op, left, get(slot, L_BEST))):
            return True
    return False


@kernel()
def prune(m: int, w: int, p: int) -> int:
    """Stamp the events that may be part of a match that event p completes.

    Returns:
        The earliest event that such a match may start with; -1: there is no such match.
    """
    edges, count, part = get(w, D_EDGES), get(w, D_EVENTS), get(get(w, D_PARTS), p)
    stamp = get(w, D_STAMP) + 1
    put(w, D_STAMP, stamp)
    for j in range(edges):
        put(get(w, D_HAS), j, 0)
        at = get(w, D_BY_RIGHT_AT)
        for i in range(get(at, j), get(at, j + 1)):
            put(get(w, D_SLOTS) + 8 * L_WORDS * get(get(w, D_BY_RIGHT), i), L_HAS, 0)
    for j in range(edges):
        way = edge_row(m, j)
        if get(way, E_ACCEPTS) and get(way, E_BIT) & get(get(w, D_MASKS), p):
            note_alive(w, j, p)
    point, floor, first = get(get(w, D_POINTS), p), get(get(w, D_FLOORS), part), -1
    for i in range(get(get(w, D_PLACES), p) - 1, list_start(w, get(w, D_VARS), part) - 1, -1):
        e = get(get(w, D_LISTS), i)
        if e <= floor or deadline_of(m, get(get(w, D_POINTS), e)) < point:
            break
        mask, alive = get(get(w, D_MASKS), e), False
        for j in range(edges):
            way = edge_row(m, j)
            if get(way, E_BIT) & mask == 0 or get(way, E_TERMINAL):
                continue
            if j >= get(m, STARTS) and get(get(w, D_OPENS), e) == 0:
                continue
            if leads_on(m, w, j, e) and is_judged(w, j, e, p):
                put(get(w, D_STAMPS), j * count + e, stamp)
                alive = True
        if not alive:
            continue
        for j in range(edges):
            if get(get(w, D_STAMPS), j * count + e) == stamp:
                note_alive(w, j, e)
                if j >= get(m, STARTS):
                    first = e
    put(w, D_PRUNED, get(w, D_PRUNED) + 1)
    return first
