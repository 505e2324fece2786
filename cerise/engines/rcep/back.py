"""The walk of a right-deep plan [RCEP §2.2]: joins from the trigger back to the first event of a match.

It walks the automaton of the mirrored query: the trigger is bound first, and each further event is earlier
than the one before. So a predicate between a Kleene variable and a later one is judged for each of its
events as it is bound, where the walk from the first variable on knows only in the end which subsets fail.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.nfa.numbered import (
    A_COLS,
    A_NODES,
    E_ACCEPT_TEST,
    E_ACCEPTS,
    E_TARGET,
    E_TERMINAL,
    E_VAR,
    S_FIRST,
    S_LAST,
    SEQ,
    edge_row,
    node_row,
    reaches,
    run_row,
    state_row,
)
from cerise.engines.rcep.desk import (
    D_ALIVE,
    D_DEPTH,
    D_EVENTS,
    D_MADE,
    D_MOST,
    D_OPENS,
    D_PATIENCE,
    D_POINTS,
    D_ROOM,
    D_STAMP,
    D_TESTS,
    DEEPER,
    DONE,
    F_CURSOR,
    F_EDGE,
    F_END,
    F_LEAP,
    F_LEAST,
    F_LEFT,
    F_LIST,
    FULL,
    PAUSED,
    TOO_MANY,
    first_after,
)
from cerise.engines.rcep.leaps import leap_back, prepare_leaps
from cerise.engines.rcep.steps import (
    begin_frame,
    bind,
    frame_row,
    has_room,
    lay_list,
    next_edge,
    passes,
    write_match,
)
from cerise.kernels.jit import ask, get, kernel, put


@kernel()
def open_list_back(m: int, w: int, d: int, p: int, low: int) -> None:
    """Find the events that the edge of a frame may bind: earlier than the newest bound; first the trigger.

    The cursor of a frame is one beyond its next event, and goes down to where the list begins.
    """
    frame = frame_row(w, d)
    lay_list(m, w, d, p)
    put(frame, F_LEAP, 0)
    if d > 0:
        before = get(node_row(m, d - 1), SEQ) - 1
        prepare_leaps(m, w, frame, d, low, before)
        start = get(frame, F_CURSOR)
        put(frame, F_CURSOR, first_after(get(frame, F_LIST), start, get(frame, F_END), before))
        put(frame, F_END, start)
        return
    events, start, end = get(frame, F_LIST), get(frame, F_CURSOR), get(frame, F_END)
    place = first_after(events, start, end, p - 1)
    fits = place < end and get(events, place) == p
    put(frame, F_CURSOR, place + 1 if fits else place)
    put(frame, F_END, place)


@kernel()
def may_begin(m: int, w: int, e: int, p: int) -> bool:
    """Whether an event may be the first of a match that the trigger completes."""
    points = get(w, D_POINTS)
    return get(get(w, D_OPENS), e) != 0 and reaches(m, get(points, e), get(points, p))


@kernel()
def is_accepted(edge: Any, m: int, d: int, j: int, e: int) -> bool:
    """Whether what is judged only when a match is complete holds of the d + 1 events bound."""
    test = get(edge_row(m, j), E_ACCEPT_TEST)
    return test < 0 or ask(edge, test, run_row(m, d + 1), 0, e, get(m, A_COLS), get(m, A_NODES)) > 0


@kernel()
def walk_back(edge: Any, m: int, w: int, p: int, low: int) -> int:
    """Go on with the walk for a trigger until it ends, or more room is needed."""
    count, stamp, alive = get(w, D_EVENTS), get(w, D_STAMP), get(w, D_ALIVE)
    d = get(w, D_DEPTH)
    while d >= 0:
        frame = frame_row(w, d)
        j = get(frame, F_EDGE)
        if j < get(frame, F_LEAST):
            d -= 1
            put(w, D_DEPTH, d)
            continue
        if d + 2 >= get(w, D_ROOM):
            return DEEPER
        if get(w, D_TESTS) >= get(w, D_PATIENCE):
            return PAUSED
        if get(frame, F_CURSOR) < 0:
            open_list_back(m, w, d, p, low)
        c, way = get(frame, F_CURSOR), edge_row(m, j)
        if get(frame, F_LEAP):
            c = leap_back(get(frame, F_LEAP), get(frame, F_LIST), get(frame, F_LEFT), c, get(frame, F_END))
        e = get(get(frame, F_LIST), c - 1) if c > get(frame, F_END) else -1
        if e < low:
            next_edge(frame)
            continue
        begins = get(way, E_ACCEPTS) != 0 and may_begin(m, w, e, p)
        if begins and not has_room(w, d):
            return FULL
        put(frame, F_CURSOR, c - 1)
        if d > 0 and get(alive, get(way, E_VAR) * count + e) != stamp:
            continue
        if not passes(edge, m, w, d, j, e):
            continue
        bind(edge, m, d, j, e)
        if begins and is_accepted(edge, m, d, j, e):
            write_match(m, w, d, -1)
            if get(w, D_MADE) > get(w, D_MOST):
                return TOO_MANY
        if get(way, E_TERMINAL) == 0 and e > low:
            state = state_row(m, get(way, E_TARGET))
            d += 1
            begin_frame(w, d, get(state, S_FIRST), get(state, S_LAST))
    return DONE
