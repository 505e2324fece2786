"""What the walks of left- and right-deep plans have in common: frames, binding an event, writing a match."""

from __future__ import annotations

from typing import Any

from cerise.engines.nfa.numbered import (
    A_COLS,
    A_NODES,
    A_RUN_BYTES,
    E_TEST,
    E_UPDATE,
    E_VAR,
    NODE,
    PREV,
    SEQ,
    VAR,
    edge_row,
    node_row,
    run_row,
)
from cerise.engines.rcep.desk import (
    D_COUNTED,
    D_COUNTS,
    D_DEEPEST,
    D_DEPTH,
    D_EQUALS,
    D_FILL,
    D_FOUND,
    D_FOUND_ROOM,
    D_FRAMES,
    D_LENGTHS,
    D_LISTS,
    D_MADE,
    D_NUMBERS,
    D_PARTS,
    D_ROWS,
    D_TESTS,
    D_VARS,
    D_WRITTEN,
    F_CURSOR,
    F_EDGE,
    F_END,
    F_LEAST,
    F_LIST,
    F_SIZE,
    F_WORDS,
    Q_HIGH,
    Q_LIST,
    Q_LOW,
    Q_VAR,
    Q_WORDS,
    list_start,
)
from cerise.kernels.jit import ask, get, kernel, put


@kernel()
def frame_row(w: int, d: int) -> int:
    """Return where the frame of a depth lies."""
    return get(w, D_FRAMES) + 8 * F_WORDS * d


@kernel()
def begin_frame(w: int, d: int, first: int, last: int) -> None:
    """Begin with the last of the edges that may come next: what follows comes before one more of the same."""
    frame = frame_row(w, d)
    put(frame, F_EDGE, last - 1)
    put(frame, F_LEAST, first)
    put(frame, F_CURSOR, -1)
    put(frame, F_SIZE, -1)
    put(w, D_DEPTH, d)
    if d > get(w, D_DEEPEST):
        put(w, D_DEEPEST, d)


@kernel()
def lay_list(m: int, w: int, d: int, p: int) -> None:
    """Let a frame have the list of events that its edge asks for: by variable, or by a value."""
    frame = frame_row(w, d)
    j, part = get(frame, F_EDGE), get(get(w, D_PARTS), p)
    equal, var = get(w, D_EQUALS) + 8 * Q_WORDS * j, get(edge_row(m, j), E_VAR)
    if get(equal, Q_VAR) < 0:
        put(frame, F_LIST, get(w, D_LISTS))
        put(frame, F_CURSOR, list_start(w, var, part))
        put(frame, F_END, list_start(w, var, part + 1))
        return
    i = d - 1
    while get(node_row(m, i), VAR) != get(equal, Q_VAR):
        i -= 1
    other = get(node_row(m, i), SEQ)
    put(frame, F_LIST, get(equal, Q_LIST))
    put(frame, F_CURSOR, get(get(equal, Q_LOW), other))
    put(frame, F_END, get(get(equal, Q_HIGH), other))


@kernel()
def next_edge(frame: int) -> None:
    """Go on to the next edge of a frame."""
    put(frame, F_EDGE, get(frame, F_EDGE) - 1)
    put(frame, F_CURSOR, -1)
    put(frame, F_SIZE, -1)


@kernel()
def passes(edge: Any, m: int, w: int, d: int, j: int, e: int) -> bool:
    """Whether an edge lets an event follow the d events bound."""
    put(w, D_TESTS, get(w, D_TESTS) + 1)
    test = get(edge_row(m, j), E_TEST)
    return test < 0 or ask(edge, test, run_row(m, d), 0, e, get(m, A_COLS), get(m, A_NODES)) != 0


@kernel()
def bind(edge: Any, m: int, d: int, j: int, e: int) -> None:
    """Bind an event after the d events bound: run d + 1 is run d with it, node d is its node."""
    way, run, row, node = edge_row(m, j), run_row(m, d), run_row(m, d + 1), node_row(m, d)
    for i in range(get(m, A_RUN_BYTES) >> 3):
        put(row, i, get(run, i))
    put(node, PREV, d - 1)
    put(node, SEQ, e)
    put(node, VAR, get(way, E_VAR))
    put(row, NODE, d)
    if get(way, E_UPDATE) >= 0:
        ask(edge, get(way, E_UPDATE), run, row, e, get(m, A_COLS), get(m, A_NODES))


@kernel()
def has_room(w: int, d: int) -> bool:
    """Whether one more match of d + 1 events can be written."""
    if get(w, D_COUNTS):
        return True
    if get(w, D_WRITTEN) >= get(w, D_ROWS):
        return False
    for v in range(get(w, D_VARS)):
        if get(get(w, D_FILL), v) + d + 1 > get(w, D_FOUND_ROOM):
            return False
    return True


@kernel()
def write_match(m: int, w: int, d: int, way: int) -> None:
    """Write the d + 1 events bound, in stream order (1) or against it (-1), or only count the match."""
    put(w, D_MADE, get(w, D_MADE) + 1)
    put(w, D_COUNTED, get(w, D_COUNTED) + 1)
    if get(w, D_COUNTS):
        return
    variables, fill = get(w, D_VARS), get(w, D_FILL)
    lengths = get(w, D_LENGTHS) + 8 * variables * get(w, D_WRITTEN)
    for v in range(variables):
        put(lengths, v, 0)
    for i in range(d + 1):
        node = node_row(m, i if way > 0 else d - i)
        v = get(node, VAR)
        at = v * get(w, D_FOUND_ROOM) + get(fill, v)
        put(get(w, D_FOUND), at, get(get(w, D_NUMBERS), get(node, SEQ)))
        put(fill, v, get(fill, v) + 1)
        put(lengths, v, get(lengths, v) + 1)
    put(w, D_WRITTEN, get(w, D_WRITTEN) + 1)
