"""Right-deep joins [RCEP §2.2]: from the trigger back to the first event of a match.

They follow the automaton of the mirrored query: the trigger is bound first, and each further event is earlier
than the one before. So a predicate between a Kleene variable and a later variable is judged event by event as
they are bound; left-deep joins judge it at the end, subset by subset.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.automaton.records import Machine
from cerise.engines.automaton.window import reaches
from cerise.engines.rcep.join_steps import (
    begin_frame,
    bind,
    has_room,
    lay_list,
    next_edge,
    passes,
    write_match,
)
from cerise.engines.rcep.records import (
    DEEPER,
    DONE,
    FULL,
    PAUSED,
    TOO_MANY,
    Inequality,
    JoinWorkspace,
    first_after,
)
from cerise.engines.rcep.skip_index import leap_back, prepare_leaps
from cerise.kernels.jit import ask, kernel


@kernel()
def open_list_back(m: Machine, w: JoinWorkspace, d: int, p: int, low: int) -> None:
    """Find the events that the edge of a frame may bind: the trigger first, then ever earlier events.

    The cursor of a frame is one beyond its next event, and moves down to the start of the list.
    """
    frame = w.frames[d]
    lay_list(m, w, d, p)
    frame.leap = 0
    if d > 0:
        before = m.nodes[d - 1].seq - 1
        prepare_leaps(m, w, frame, d, low, before)
        start = frame.cursor
        frame.cursor = first_after(frame.list, start, frame.end, before)
        frame.end = start
        return
    events, start, end = frame.list, frame.cursor, frame.end
    place = first_after(events, start, end, p - 1)
    fits = place < end and events[place] == p
    frame.cursor = place + 1 if fits else place
    frame.end = place


@kernel()
def may_begin(m: Machine, w: JoinWorkspace, e: int, p: int) -> bool:
    """Whether an event may be the first of a match that the trigger completes."""
    points = w.points
    return w.opens[e] != 0 and reaches(m, points[e], points[p])


@kernel()
def is_accepted(formulas: Any, m: Machine, d: int, j: int, e: int) -> bool:
    """Whether the d + 1 bound events pass the tests of a complete match."""
    test = m.edges[j].accept_test
    return test < 0 or ask(formulas, test, m.runs[d + 1], 0, e, m.cols, m.nodes.start) > 0


@kernel()
def walk_back(formulas: Any, m: Machine, w: JoinWorkspace, p: int, low: int) -> int:
    """Continue the search for a trigger until it ends, or the caller must act; see `left_deep.recompute`."""
    count, stamp, alive = w.events, w.stamp, w.alive
    d = w.depth
    while d >= 0:
        frame = w.frames[d]
        j = frame.edge
        if j < frame.least:
            d -= 1
            w.depth = d
            continue
        if d + 2 >= w.room:
            return DEEPER
        if w.tests >= w.patience:
            return PAUSED
        if frame.cursor < 0:
            open_list_back(m, w, d, p, low)
        c, edge = frame.cursor, m.edges[j]
        if frame.leap:
            c = leap_back(Inequality(frame.leap), frame.list, frame.left, c, frame.end)
        e = frame.list[c - 1] if c > frame.end else -1
        if e < low:
            next_edge(frame)
            continue
        begins = edge.accepts != 0 and may_begin(m, w, e, p)
        if begins and not has_room(w, d):
            return FULL
        frame.cursor = c - 1
        if d > 0 and alive[edge.var * count + e] != stamp:
            continue
        if not passes(formulas, m, w, d, j, e):
            continue
        bind(formulas, m, d, j, e)
        if begins and is_accepted(formulas, m, d, j, e):
            write_match(m, w, d, -1)
            if w.made > w.most:
                return TOO_MANY
        if edge.terminal == 0 and e > low:
            state = m.states[edge.target]
            d += 1
            begin_frame(w, d, state.first, state.last)
    return DONE
