"""Left-deep joins [RCEP §2.3]: when a trigger arrives, joins the events that lead to it.

The joins are a depth-first search from the first variable on, over the events that pruning left alive; the
formula of an edge judges each event. So the search drops a subset of a Kleene variable's events as soon as a
predicate on its newest two fails, and finds the matches of one trigger in the order of S7.1: it tries a
variable's events in stream order, and the next variable before a further event of the same.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.automaton.layout import BETWEEN, LEADING
from cerise.engines.automaton.records import Machine
from cerise.engines.automaton.window import NEVER, reaches, since_when, until
from cerise.engines.rcep.join_steps import (
    begin_frame,
    bind,
    has_room,
    lay_list,
    next_edge,
    passes,
    write_match,
)
from cerise.engines.rcep.prune import prune
from cerise.engines.rcep.records import (
    DEEPER,
    DONE,
    FULL,
    PAUSED,
    TOO_MANY,
    Inequality,
    JoinWorkspace,
    first_after,
    list_start,
)
from cerise.engines.rcep.right_deep import walk_back
from cerise.engines.rcep.skip_index import leap, prepare_leaps
from cerise.engines.rcep.subsets import write_subsets
from cerise.kernels.jit import ask, int64, kernel, void

# ---- negation: events that must not occur (S6)


@kernel()
def is_bound(m: Machine, d: int, e: int) -> bool:
    """Whether an event is among the first d + 1 bound events."""
    for i in range(d, -1, -1):
        if m.nodes[i].seq == e:
            return True
    return False


@kernel()
def vetoed_by(
    formulas: Any, m: Machine, w: JoinWorkspace, d: int, negation: int, p: int, ahead: bool
) -> bool:
    """Whether an event in the range of a negation vetoes a match."""
    row, run = m.negations[negation], m.runs[d + 1]
    kind, test = row.range, row.test
    negated = m.negated[row.number]
    above, below, since, most = -1, p + 1, NEVER, -NEVER - 1
    if kind == BETWEEN:
        above, below = run[row.after], run[row.before]
    elif m.within >= 0:
        since = since_when(m, w.points[p])
    if kind == LEADING:
        below = run[row.first]
    if ahead:
        above, below, since = p, w.events, NEVER
        most = until(m, run[row.point])
    var, bit = 0, negated.bit
    while bit > 1:
        bit >>= 1
        var += 1
    part = w.parts[p]
    end = list_start(w, var, part + 1)
    scratch, cols = m.cands[0], m.cols
    i = first_after(w.lists, list_start(w, var, part), end, above)
    while i < end:
        e = w.lists[i]
        point = w.points[e]
        if e >= below or point > most:
            return False
        i += 1
        if point < since or is_bound(m, d, e):
            continue
        if test < 0:
            return True
        ask(formulas, negated.write, 0, scratch, e, cols, 0)
        if ask(formulas, test, run, scratch, e, cols, m.nodes.start) > 0:
            return True
    return False


@kernel()
def is_vetoed(formulas: Any, m: Machine, w: JoinWorkspace, d: int, branch: int, p: int) -> bool:
    """Whether any negation vetoes a match, by an event before or after its last event."""
    row = m.branches[branch]
    for i in range(row.past, row.past_end):
        if vetoed_by(formulas, m, w, d, i, p, False):
            return True
    for i in range(row.ahead, row.ahead_end):
        if vetoed_by(formulas, m, w, d, i, p, True):
            return True
    return False


# ---- matches


@kernel()
def complete(formulas: Any, m: Machine, w: JoinWorkspace, d: int, j: int, p: int) -> None:
    """Complete a match of the d bound events with the trigger, if the trigger passes."""
    if not passes(formulas, m, w, d, j, p):
        return
    edge = m.edges[j]
    bind(formulas, m, d, j, p)
    test, branch = edge.accept_test, edge.branch
    if test >= 0 and ask(formulas, test, m.runs[d + 1], 0, p, m.cols, m.nodes.start) <= 0:
        return
    if m.branches[branch].negates and is_vetoed(formulas, m, w, d, branch, p):
        return
    write_match(m, w, d, 1)


# ---- the walk


@kernel()
def open_list(m: Machine, w: JoinWorkspace, d: int, p: int, low: int) -> None:
    """Find the events that the edge of a frame may bind: after the newest bound event, up to the trigger."""
    frame = w.frames[d]
    lay_list(m, w, d, p)
    newest = low - 1 if d == 0 else m.nodes[d - 1].seq
    if m.edges[frame.edge].terminal:
        newest = max(newest, p - 1)
    frame.cursor = first_after(frame.list, frame.cursor, frame.end, newest)
    prepare_leaps(m, w, frame, d, newest + 1, p)


@kernel()
def opens_alone(m: Machine, w: JoinWorkspace, p: int) -> bool:
    """Whether an event may be a match on its own."""
    point = w.points[p]
    if not w.opens[p] or not reaches(m, point, point):
        return False
    for j in range(m.starts, m.starts_end):
        if m.edges[j].accepts and m.edges[j].bit & w.masks[p]:
            return True
    return False


@kernel()
def walk(formulas: Any, m: Machine, w: JoinWorkspace, p: int, low: int) -> int:
    """Continue the search for a trigger until it ends, or the caller must act; see `recompute`."""
    count, limit, stamp = w.events, w.limit, w.stamp
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
            open_list(m, w, d, p, low)
        if w.free[j] >= 0:
            status = write_subsets(m, w, d, p)
            if status != DONE:
                return status
            next_edge(frame)
            continue
        c, edge = frame.cursor, m.edges[j]
        if frame.leap:
            c = leap(Inequality(frame.leap), frame.list, frame.left, c, frame.end)
        e = frame.list[c] if c < frame.end else p + 1
        if e >= p:
            if e == p and edge.accepts and (d > 0 or opens_alone(m, w, p)):
                if not has_room(w, d):
                    return FULL
                complete(formulas, m, w, d, j, p)
                if limit > 0 and w.made == limit:
                    w.depth = -1
                    return DONE
                if w.made > w.most:
                    return TOO_MANY
            next_edge(frame)
            continue
        frame.cursor = c + 1
        if w.stamps[j * count + e] == stamp and passes(formulas, m, w, d, j, e):
            bind(formulas, m, d, j, e)
            state = m.states[edge.target]
            d += 1
            begin_frame(w, d, state.first, state.last)
    return DONE


@kernel()
def may_complete(m: Machine, w: JoinWorkspace, p: int) -> bool:
    """Whether events lead to a trigger in the order of the pattern and within the window (no predicates)."""
    part, mask = w.parts[p], w.masks[p]
    states, floor = m.state_count, w.floors[part]
    latest = w.latest[states * part :]
    for s in range(m.waits):
        start, state = latest[s], m.states[s]
        if start <= floor or state.mask & mask == 0:
            continue
        if not reaches(m, w.points[start], w.points[p]):
            continue
        for j in range(state.first, state.last):
            if m.edges[j].accepts and m.edges[j].bit & mask:
                return True
    return False


@kernel()
def note_latest(m: Machine, w: JoinWorkspace, e: int) -> None:
    """Update for each state that an event leads to its latest start; later states come first."""
    part, mask = w.parts[e], w.masks[e]
    if part < 0 or mask == 0:
        return
    latest = w.latest[m.state_count * part :]
    for s in range(m.waits):
        start, state = latest[s], m.states[s]
        if start < 0 or state.mask & mask == 0:
            continue
        for j in range(state.first, state.last):
            edge = m.edges[j]
            if edge.bit & mask and latest[edge.target] < start:
                latest[edge.target] = start
    if w.opens[e]:
        for j in range(m.starts, m.starts_end):
            if m.edges[j].bit & mask:
                latest[m.edges[j].target] = e


@kernel(void(int64, int64, int64))
def follow_kept(machine: int, workspace: int, last: int) -> None:
    """Note the latest starts of the events before the first possible trigger."""
    m, w = Machine(machine), JoinWorkspace(workspace)
    for e in range(last):
        note_latest(m, w, e)


@kernel(int64(int64, int64, int64, int64, int64))
def recompute(formulas: Any, machine: int, mirror: int, workspace: int, last: int) -> int:
    """Find the matches of all triggers, from the next trigger up to `last`.

    Args:
        formulas: the compiled formulas of the automaton whose edges are joined.
        machine: the address of the machine of the query.
        mirror: the address of the machine of the mirrored query for right-deep joins; 0: left-deep joins.
        workspace: the address of the workspace.
        last: the event to stop before.

    Returns:
        DONE; FULL: the caller must take matches first; DEEPER: a match is longer than there is room; PAUSED:
        the tests have used up the patience; TOO_MANY: one event completes more matches than the budget.
    """
    m, back, w = Machine(machine), Machine(mirror), JoinWorkspace(workspace)
    while w.next < last:
        p = w.next
        if w.depth < 0:
            first = -1
            ends = w.parts[p] >= 0 and w.masks[p] & w.triggers != 0
            if ends and may_complete(m, w, p):
                first = prune(m, w, p)
            if first < 0 and not (ends and opens_alone(m, w, p)):
                note_latest(m, w, p)
                w.next = p + 1
                continue
            w.low = first if first >= 0 else p
            w.made = 0
            walked = back if mirror else m
            begin_frame(w, 0, walked.starts, walked.starts_end)
        low = w.low
        status = walk_back(formulas, back, w, p, low) if mirror else walk(formulas, m, w, p, low)
        if status != DONE:
            return status
        if w.alone and w.made:
            w.floors[w.parts[p]] = p
        note_latest(m, w, p)
        w.next = p + 1
    return DONE
