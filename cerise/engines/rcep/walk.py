"""Recomputation [RCEP §2.3]: when an event arrives that can be the last of a match, join what leads to it.

The joins of a left-deep plan are a walk in depth from the first variable on, over the events that pruning
left alive, each judged by the formula of its edge. So a subset of a Kleene variable's events is given up as
soon as a predicate on its newest two fails, and the matches of one event come in the order of S7.1: a
variable's events are tried in stream order, and what comes next before one more of the same.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.nfa.machine import NEVER
from cerise.engines.nfa.numbered import (
    A_COLS,
    A_NODES,
    B_AHEAD,
    B_AHEAD_END,
    B_NEGATES,
    B_PAST,
    B_PAST_END,
    E_ACCEPT_TEST,
    E_ACCEPTS,
    E_BIT,
    E_BRANCH,
    E_TARGET,
    E_TERMINAL,
    H_STARTS,
    H_STARTS_END,
    H_STATES,
    H_WAITS,
    H_WITHIN,
    N_AFTER,
    N_BEFORE,
    N_FIRST,
    N_NUMBER,
    N_POINT,
    N_RANGE,
    N_TEST,
    S_FIRST,
    S_LAST,
    S_MASK,
    SEQ,
    V_BIT,
    V_WRITE,
    branch_row,
    cand_row,
    edge_row,
    negated_row,
    negation_row,
    node_row,
    reaches,
    run_row,
    since_when,
    state_row,
    until,
)
from cerise.engines.nfa.rows import BETWEEN, LEADING
from cerise.engines.rcep.back import walk_back
from cerise.engines.rcep.desk import (
    D_ALONE,
    D_DEPTH,
    D_EVENTS,
    D_FLOORS,
    D_FREE,
    D_LATEST,
    D_LIMIT,
    D_LISTS,
    D_LOW,
    D_MADE,
    D_MASKS,
    D_MOST,
    D_NEXT,
    D_OPENS,
    D_PARTS,
    D_PATIENCE,
    D_POINTS,
    D_ROOM,
    D_STAMP,
    D_STAMPS,
    D_TESTS,
    D_TRIGGERS,
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
    list_start,
)
from cerise.engines.rcep.free import write_subsets
from cerise.engines.rcep.leaps import leap, prepare_leaps
from cerise.engines.rcep.prune import prune
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
from cerise.kernels.jit import ask, get, int64, kernel, put, void

# ---- negation (§6)


@kernel()
def is_bound(m: int, d: int, e: int) -> bool:
    """Whether one of the first d + 1 events bound is this one."""
    for i in range(d, -1, -1):
        if get(node_row(m, i), SEQ) == e:
            return True
    return False


@kernel()
def vetoed_by(edge: Any, m: int, w: int, d: int, negation: int, p: int, ahead: bool) -> bool:
    """Whether an event that a match must not have lies where it must not."""
    row, run = negation_row(m, negation), run_row(m, d + 1)
    kind, test = get(row, N_RANGE), get(row, N_TEST)
    negated = negated_row(m, get(row, N_NUMBER))
    above, below, since, most = -1, p + 1, NEVER, -NEVER - 1
    if kind == BETWEEN:
        above, below = get(run, get(row, N_AFTER)), get(run, get(row, N_BEFORE))
    elif get(m, H_WITHIN) >= 0:
        since = since_when(m, get(get(w, D_POINTS), p))
    if kind == LEADING:
        below = get(run, get(row, N_FIRST))
    if ahead:
        above, below, since = p, get(w, D_EVENTS), NEVER
        most = until(m, get(run, get(row, N_POINT)))
    var, bit = 0, get(negated, V_BIT)
    while bit > 1:
        bit >>= 1
        var += 1
    part = get(get(w, D_PARTS), p)
    end = list_start(w, var, part + 1)
    scratch, cols = cand_row(m, 0), get(m, A_COLS)
    i = first_after(get(w, D_LISTS), list_start(w, var, part), end, above)
    while i < end:
        e = get(get(w, D_LISTS), i)
        point = get(get(w, D_POINTS), e)
        if e >= below or point > most:
            return False
        i += 1
        if point < since or is_bound(m, d, e):
            continue
        if test < 0:
            return True
        ask(edge, get(negated, V_WRITE), 0, scratch, e, cols, 0)
        if ask(edge, test, run, scratch, e, cols, get(m, A_NODES)) > 0:
            return True
    return False


@kernel()
def is_vetoed(edge: Any, m: int, w: int, d: int, branch: int, p: int) -> bool:
    """Whether something that must not be is there, before or after the last event of a match."""
    row = branch_row(m, branch)
    for i in range(get(row, B_PAST), get(row, B_PAST_END)):
        if vetoed_by(edge, m, w, d, i, p, False):
            return True
    for i in range(get(row, B_AHEAD), get(row, B_AHEAD_END)):
        if vetoed_by(edge, m, w, d, i, p, True):
            return True
    return False


# ---- matches


@kernel()
def complete(edge: Any, m: int, w: int, d: int, j: int, p: int) -> None:
    """Complete a match of the d events bound with the trigger, if it passes."""
    if not passes(edge, m, w, d, j, p):
        return
    way = edge_row(m, j)
    bind(edge, m, d, j, p)
    test, branch = get(way, E_ACCEPT_TEST), get(way, E_BRANCH)
    if test >= 0 and ask(edge, test, run_row(m, d + 1), 0, p, get(m, A_COLS), get(m, A_NODES)) <= 0:
        return
    if get(branch_row(m, branch), B_NEGATES) and is_vetoed(edge, m, w, d, branch, p):
        return
    write_match(m, w, d, 1)


# ---- the walk


@kernel()
def open_list(m: int, w: int, d: int, p: int, low: int) -> None:
    """Find the events that the edge of a frame may bind: later than the newest, up to the trigger."""
    frame = frame_row(w, d)
    lay_list(m, w, d, p)
    newest = low - 1 if d == 0 else get(node_row(m, d - 1), SEQ)
    if get(edge_row(m, get(frame, F_EDGE)), E_TERMINAL):
        newest = max(newest, p - 1)
    put(frame, F_CURSOR, first_after(get(frame, F_LIST), get(frame, F_CURSOR), get(frame, F_END), newest))
    prepare_leaps(m, w, frame, d, newest + 1, p)


@kernel()
def opens_alone(m: int, w: int, p: int) -> bool:
    """Whether an event may be a match on its own."""
    point = get(get(w, D_POINTS), p)
    if not get(get(w, D_OPENS), p) or not reaches(m, point, point):
        return False
    for j in range(get(m, H_STARTS), get(m, H_STARTS_END)):
        if get(edge_row(m, j), E_ACCEPTS) and get(edge_row(m, j), E_BIT) & get(get(w, D_MASKS), p):
            return True
    return False


@kernel()
def walk(edge: Any, m: int, w: int, p: int, low: int) -> int:
    """Go on with the walk for a trigger until it ends, or more room is needed."""
    count, limit, stamp = get(w, D_EVENTS), get(w, D_LIMIT), get(w, D_STAMP)
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
            open_list(m, w, d, p, low)
        if get(get(w, D_FREE), j) >= 0:
            status = write_subsets(m, w, d, p)
            if status != DONE:
                return status
            next_edge(frame)
            continue
        c, way = get(frame, F_CURSOR), edge_row(m, j)
        if get(frame, F_LEAP):
            c = leap(get(frame, F_LEAP), get(frame, F_LIST), get(frame, F_LEFT), c, get(frame, F_END))
        e = get(get(frame, F_LIST), c) if c < get(frame, F_END) else p + 1
        if e >= p:
            if e == p and get(way, E_ACCEPTS) and (d > 0 or opens_alone(m, w, p)):
                if not has_room(w, d):
                    return FULL
                complete(edge, m, w, d, j, p)
                if limit > 0 and get(w, D_MADE) == limit:
                    put(w, D_DEPTH, -1)
                    return DONE
                if get(w, D_MADE) > get(w, D_MOST):
                    return TOO_MANY
            next_edge(frame)
            continue
        put(frame, F_CURSOR, c + 1)
        if get(get(w, D_STAMPS), j * count + e) == stamp and passes(edge, m, w, d, j, e):
            bind(edge, m, d, j, e)
            state = state_row(m, get(way, E_TARGET))
            d += 1
            begin_frame(w, d, get(state, S_FIRST), get(state, S_LAST))
    return DONE


@kernel()
def may_complete(m: int, w: int, p: int) -> bool:
    """Whether events lead to a trigger in the order of the pattern and within the window."""
    part, mask = get(get(w, D_PARTS), p), get(get(w, D_MASKS), p)
    states, floor = get(m, H_STATES), get(get(w, D_FLOORS), part)
    latest = get(w, D_LATEST) + 8 * states * part
    for s in range(get(m, H_WAITS)):
        start, state = get(latest, s), state_row(m, s)
        if start <= floor or get(state, S_MASK) & mask == 0:
            continue
        if not reaches(m, get(get(w, D_POINTS), start), get(get(w, D_POINTS), p)):
            continue
        for j in range(get(state, S_FIRST), get(state, S_LAST)):
            if get(edge_row(m, j), E_ACCEPTS) and get(edge_row(m, j), E_BIT) & mask:
                return True
    return False


@kernel()
def note_latest(m: int, w: int, e: int) -> None:
    """Let the states that an event leads to know the latest start behind it; later states come first."""
    part, mask = get(get(w, D_PARTS), e), get(get(w, D_MASKS), e)
    if part < 0 or mask == 0:
        return
    latest = get(w, D_LATEST) + 8 * get(m, H_STATES) * part
    for s in range(get(m, H_WAITS)):
        start, state = get(latest, s), state_row(m, s)
        if start < 0 or get(state, S_MASK) & mask == 0:
            continue
        for j in range(get(state, S_FIRST), get(state, S_LAST)):
            way = edge_row(m, j)
            if get(way, E_BIT) & mask and get(latest, get(way, E_TARGET)) < start:
                put(latest, get(way, E_TARGET), start)
    if get(get(w, D_OPENS), e):
        for j in range(get(m, H_STARTS), get(m, H_STARTS_END)):
            if get(edge_row(m, j), E_BIT) & mask:
                put(latest, get(edge_row(m, j), E_TARGET), e)


@kernel(void(int64, int64, int64))
def follow_kept(m: int, w: int, last: int) -> None:
    """Take note of the events before the first that may be a trigger."""
    for e in range(last):
        note_latest(m, w, e)


@kernel(int64(int64, int64, int64, int64, int64))
def recompute(edge: Any, m: int, back: int, w: int, last: int) -> int:
    """Find the matches that events complete, from the next trigger on up to an event.

    Args:
        edge: the formulas of the automaton that is walked.
        m: the machine of the query.
        back: that of the mirrored query where joins start from the last variable; 0: from the first.
        w: the desk.
        last: the event to stop before.

    Returns:
        DONE; FULL where matches must be taken away first, DEEPER where a match is longer than there is room,
        PAUSED where it takes long, TOO_MANY where one event completes more matches than is allowed.
    """
    while get(w, D_NEXT) < last:
        p = get(w, D_NEXT)
        if get(w, D_DEPTH) < 0:
            first = -1
            ends = get(get(w, D_PARTS), p) >= 0 and get(get(w, D_MASKS), p) & get(w, D_TRIGGERS) != 0
            if ends and may_complete(m, w, p):
                first = prune(m, w, p)
            if first < 0 and not (ends and opens_alone(m, w, p)):
                note_latest(m, w, p)
                put(w, D_NEXT, p + 1)
                continue
            put(w, D_LOW, first if first >= 0 else p)
            put(w, D_MADE, 0)
            walked = back or m
            begin_frame(w, 0, get(walked, H_STARTS), get(walked, H_STARTS_END))
        low = get(w, D_LOW)
        status = walk_back(edge, back, w, p, low) if back else walk(edge, m, w, p, low)
        if status != DONE:
            return status
        if get(w, D_ALONE) and get(w, D_MADE):
            put(get(w, D_FLOORS), get(get(w, D_PARTS), p), p)
        note_latest(m, w, p)
        put(w, D_NEXT, p + 1)
    return DONE
