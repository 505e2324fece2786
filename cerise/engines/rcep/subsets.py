"""Free Kleene variables, whose predicates read one event alone: every subset of their events matches.

Subsets are made in Banker's order [RCEP §2.3]: all of one event, then all of two, and so on. No event is
bound and no formula judged, so this is several times as fast as the joins; but where a predicate can reject a
subset together with all its supersets, the joins are faster.
"""

from __future__ import annotations

from cerise.engines.automaton.records import Machine
from cerise.engines.rcep.join_steps import has_room
from cerise.engines.rcep.records import (
    DEEPER,
    DONE,
    FULL,
    TOO_MANY,
    JoinWorkspace,
    first_after,
)
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words


@kernel()
def pick_from(w: JoinWorkspace, d: int, first: int, place: int) -> None:
    """Fill a subset from its event `first` on with consecutive events of the list from `place` on."""
    frame = w.frames[d]
    events, picks, taken, numbers = frame.list, w.picks, w.taken, w.numbers
    for i in range(first, frame.size):
        picks[i] = place + i - first
        taken[i] = numbers[events[place + i - first]]


@kernel()
def begin_size(w: JoinWorkspace, d: int, size: int) -> None:
    """Begin with the first subset of `size` events, if there are as many."""
    frame = w.frames[d]
    frame.size = size
    if size <= frame.end - frame.cursor:
        pick_from(w, d, 0, frame.cursor)
        w.deepest = max(w.deepest, d + size)


@kernel()
def next_subset(w: JoinWorkspace, d: int) -> None:
    """Move on to the next subset of the same size, or to the first of the next size."""
    frame, picks = w.frames[d], w.picks
    size, end = frame.size, frame.end
    i = size - 1
    while i >= 0 and picks[i] == end - size + i:
        i -= 1
    if i < 0:
        begin_size(w, d, size + 1)
    else:
        pick_from(w, d, i, picks[i] + 1)


@kernel()
def write_event(w: JoinWorkspace, lengths: Words, v: int, e: int) -> None:
    """Write a further event of a variable."""
    fill = w.fill
    w.found[v * w.found_room + fill[v]] = w.numbers[e]
    fill[v] += 1
    lengths[v] += 1


@kernel()
def write_subset(m: Machine, w: JoinWorkspace, d: int, p: int) -> None:
    """Write the match of the d bound events, a subset, and the trigger."""
    frame, fill, taken = w.frames[d], w.fill, w.taken
    j, size, variables = frame.edge, frame.size, w.variables
    lengths = w.lengths[variables * w.written :]
    for v in range(variables):
        lengths[v] = 0
    for i in range(d):
        write_event(w, lengths, m.nodes[i].var, m.nodes[i].seq)
    v = m.edges[j].var
    found = w.found[v * w.found_room + fill[v] :]
    for i in range(size):
        found[i] = taken[i]
    fill[v] += size
    lengths[v] += size
    write_event(w, lengths, m.edges[w.free[j]].var, p)
    w.written += 1
    w.made += 1
    w.counted += 1


@kernel()
def write_subsets(m: Machine, w: JoinWorkspace, d: int, p: int) -> int:
    """Continue to write the matches of the d bound events, each subset of a frame's list, and the trigger."""
    frame = w.frames[d]
    if frame.size < 0:
        end = first_after(frame.list, frame.cursor, frame.end, p - 1)
        frame.end = end
        if d + end - frame.cursor + 2 >= w.room:
            return DEEPER
        begin_size(w, d, 1)
    while frame.size <= frame.end - frame.cursor:
        if not has_room(w, d + frame.size):
            return FULL
        write_subset(m, w, d, p)
        w.tests += 1
        if w.made > w.most:
            return TOO_MANY
        next_subset(w, d)
    return DONE
