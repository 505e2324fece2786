"""Kleene variables of which nothing is asked but what each event is: every subset of their events matches.

Subsets are made in Banker's order [RCEP §2.3]: all of one event, then all of two, and so on. No event is
bound and nothing is judged on the way, so this is some times as fast as the walk; where a predicate can give
up a subset with all that contain it, the walk is faster.
"""

from __future__ import annotations

from cerise.engines.nfa.numbered import (
    E_VAR,
    SEQ,
    VAR,
    edge_row,
    node_row,
)
from cerise.engines.rcep.desk import (
    D_COUNTED,
    D_DEEPEST,
    D_FILL,
    D_FOUND,
    D_FOUND_ROOM,
    D_FREE,
    D_LENGTHS,
    D_MADE,
    D_MOST,
    D_NUMBERS,
    D_PICKS,
    D_ROOM,
    D_TAKEN,
    D_TESTS,
    D_VARS,
    D_WRITTEN,
    DEEPER,
    DONE,
    F_CURSOR,
    F_EDGE,
    F_END,
    F_LIST,
    F_SIZE,
    FULL,
    TOO_MANY,
    first_after,
)
from cerise.engines.rcep.steps import frame_row, has_room
from cerise.kernels.jit import get, kernel, put


@kernel()
def pick_from(w: int, d: int, first: int, place: int) -> None:
    """Let a subset have, from one of its events on, those from a place in the list on."""
    frame = frame_row(w, d)
    events, picks, taken, numbers = get(frame, F_LIST), get(w, D_PICKS), get(w, D_TAKEN), get(w, D_NUMBERS)
    for i in range(first, get(frame, F_SIZE)):
        put(picks, i, place + i - first)
        put(taken, i, get(numbers, get(events, place + i - first)))


@kernel()
def begin_size(w: int, d: int, size: int) -> None:
    """Begin with the first subset of so many events, if there are as many."""
    frame = frame_row(w, d)
    put(frame, F_SIZE, size)
    if size <= get(frame, F_END) - get(frame, F_CURSOR):
        pick_from(w, d, 0, get(frame, F_CURSOR))
        put(w, D_DEEPEST, max(get(w, D_DEEPEST), d + size))


@kernel()
def next_subset(w: int, d: int) -> None:
    """Go on to the next subset of as many events, or to the first of one more."""
    frame, picks = frame_row(w, d), get(w, D_PICKS)
    size, end = get(frame, F_SIZE), get(frame, F_END)
    i = size - 1
    while i >= 0 and get(picks, i) == end - size + i:
        i -= 1
    if i < 0:
        begin_size(w, d, size + 1)
    else:
        pick_from(w, d, i, get(picks, i) + 1)


@kernel()
def write_event(w: int, lengths: int, v: int, e: int) -> None:
    """Write one more event of a variable."""
    fill = get(w, D_FILL)
    put(get(w, D_FOUND), v * get(w, D_FOUND_ROOM) + get(fill, v), get(get(w, D_NUMBERS), e))
    put(fill, v, get(fill, v) + 1)
    put(lengths, v, get(lengths, v) + 1)


@kernel()
def write_subset(m: int, w: int, d: int, p: int) -> None:
    """Write the match of the d events bound, a subset, and the trigger."""
    frame, fill, taken = frame_row(w, d), get(w, D_FILL), get(w, D_TAKEN)
    j, size, variables = get(frame, F_EDGE), get(frame, F_SIZE), get(w, D_VARS)
    lengths = get(w, D_LENGTHS) + 8 * variables * get(w, D_WRITTEN)
    for v in range(variables):
        put(lengths, v, 0)
    for i in range(d):
        write_event(w, lengths, get(node_row(m, i), VAR), get(node_row(m, i), SEQ))
    v = get(edge_row(m, j), E_VAR)
    found = get(w, D_FOUND) + 8 * (v * get(w, D_FOUND_ROOM) + get(fill, v))
    for i in range(size):
        put(found, i, get(taken, i))
    put(fill, v, get(fill, v) + size)
    put(lengths, v, get(lengths, v) + size)
    write_event(w, lengths, get(edge_row(m, get(get(w, D_FREE), j)), E_VAR), p)
    put(w, D_WRITTEN, get(w, D_WRITTEN) + 1)
    put(w, D_MADE, get(w, D_MADE) + 1)
    put(w, D_COUNTED, get(w, D_COUNTED) + 1)


@kernel()
def write_subsets(m: int, w: int, d: int, p: int) -> int:
    """Go on with the matches of the d events bound, every subset of the list of a frame, and the trigger."""
    frame = frame_row(w, d)
    if get(frame, F_SIZE) < 0:
        end = first_after(get(frame, F_LIST), get(frame, F_CURSOR), get(frame, F_END), p - 1)
        put(frame, F_END, end)
        if d + end - get(frame, F_CURSOR) + 2 >= get(w, D_ROOM):
            return DEEPER
        begin_size(w, d, 1)
    while get(frame, F_SIZE) <= get(frame, F_END) - get(frame, F_CURSOR):
        if not has_room(w, d + get(frame, F_SIZE)):
            return FULL
        write_subset(m, w, d, p)
        put(w, D_TESTS, get(w, D_TESTS) + 1)
        if get(w, D_MADE) > get(w, D_MOST):
            return TOO_MANY
        next_subset(w, d)
    return DONE
