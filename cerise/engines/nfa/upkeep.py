"""What is done between chunks: expired runs and what only they held are given back [SASE08 §5.3].

`now` is the newest point of each partition where windows count events, else of all of them at its place 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cerise.engines.nfa.layout import (
    CAND_POINT,
    CAND_PREV,
    DEADLINE,
    JOIN,
    MOST,
    NEXT,
    NODE,
    PREV,
    RIGHT,
    VAR,
)  # fmt: skip
from cerise.engines.nfa.machine import (
    A_CAND_BYTES,
    A_CAND_HEADS,
    A_NODE_BYTES,
    G_CANDS,
    G_NODES,
    H_BY_POSITION,
    H_KINDS,
    H_MERGES,
    H_STATES,
    H_WAITS,
    H_WITHIN,
    L_HEAD,
    MAX,
    NEVER,
    cand_row,
    free_run,
    list_row,
    node_row,
    record,
    run_row,
    state_row,
    unlink,
)  # fmt: skip
from cerise.engines.nfa.rows import S_BRANCH
from cerise.kernels.jit import Ints, Table, get, int64, kernel, put, void


@kernel()
def point_of(m: int, now: Any, part: int) -> Any:
    """Return the newest point of a partition."""
    return now[part if get(m, H_BY_POSITION) else 0]


@kernel(void(int64, int64, Ints, int64))
def sweep(m: int, lists: int, now: Any, over: int) -> None:
    """Free the runs whose window has passed; waiting matches that nothing can veto any more are made.

    Args:
        m: the machine; it has room for as many matches as runs are alive.
        lists: how many lists of runs there are.
        now: the newest points.
        over: whether the stream has ended, so that every window has passed.
    """
    states = get(m, H_STATES)
    for at in range(lists):
        state = at % states
        point = point_of(m, now, at // states)
        before, r = -1, get(list_row(m, at), L_HEAD)
        while r >= 0:
            row = run_row(m, r)
            after = get(row, NEXT)
            if over or point > get(row, DEADLINE):
                if state >= get(m, H_WAITS):
                    record(m, get(row, NODE), -1, -1, point, get(state_row(m, state), S_BRANCH))
                free_run(m, r)
                unlink(m, at, before, after)
            else:
                before = r
            r = after


@kernel()
def keep_links(m: int, moved: Any, n: int) -> None:
    """Point a moved node at where the nodes before it went; a join with one side left becomes that side."""
    row = node_row(m, n)
    if get(row, PREV) >= 0:
        put(row, PREV, moved[get(row, PREV)])
    if get(row, VAR) != JOIN:
        return
    if get(row, RIGHT) >= 0:
        put(row, RIGHT, moved[get(row, RIGHT)])
    if get(row, PREV) < 0:
        put(row, PREV, get(row, RIGHT))
        put(row, RIGHT, -1)


@kernel()
def mark(m: int, lists: int, now: Any) -> Any:
    """Return for each node the earliest point at which a run that holds it stands; MAX where none does.

    Nodes point backwards, so one pass is enough. In a merged run, the part whose starts have all expired
    is let go.
    """
    merges = get(m, H_MERGES)
    since = np.full(get(m, G_NODES), MAX, np.int64)
    for at in range(lists):
        r = get(list_row(m, at), L_HEAD)
        point = min(point_of(m, now, at // get(m, H_STATES)), MAX - 1)
        while r >= 0:
            n = get(run_row(m, r), NODE)
            if n >= 0:
                since[n] = min(since[n], point)
            r = get(run_row(m, r), NEXT)
    for n in range(len(since) - 1, -1, -1):
        if since[n] == MAX:
            continue
        for side in range(2 if get(node_row(m, n), VAR) == JOIN else 1):
            child = get(node_row(m, n), RIGHT if side else PREV)
            if child >= 0 and (not merges or get(node_row(m, child), MOST) >= since[n]):
                since[child] = min(since[child], since[n])
    return since


@kernel(void(int64, int64, Ints))
def collect(m: int, lists: int, now: Any) -> None:
    """Move the nodes that runs still hold together, and tell the runs where theirs went."""
    since = mark(m, lists, now)
    moved = np.full(len(since), -1, np.int64)
    left = 0
    for n in range(len(since)):
        if since[n] == MAX:
            continue
        moved[n] = left
        for c in range(get(m, A_NODE_BYTES) >> 3):
            put(node_row(m, left), c, get(node_row(m, n), c))
        keep_links(m, moved, left)
        left += 1
    for at in range(lists):
        r = get(list_row(m, at), L_HEAD)
        while r >= 0:
            row = run_row(m, r)
            if get(row, NODE) >= 0:
                put(row, NODE, moved[get(row, NODE)])
            r = get(row, NEXT)
    put(m, G_NODES, left)


@kernel(void(int64, int64, Ints, Table))
def forget_candidates(m: int, partitions: int, now: Any, kept: Any) -> None:
    """Write the candidates that could still veto a match into another table; its row 0 stays free."""
    kinds, within = get(m, H_KINDS), get(m, H_WITHIN)
    heads = get(m, A_CAND_HEADS)
    used = 1
    for at in range(partitions * kinds):
        point = point_of(m, now, at // kinds)
        since = point - within if within >= 0 and point > NEVER + within else NEVER
        length, c = 0, get(heads, at)
        while c >= 0 and get(cand_row(m, c), CAND_POINT) >= since:
            length += 1
            c = get(cand_row(m, c), CAND_PREV)
        c = get(heads, at)
        for i in range(length):
            row = used + length - 1 - i
            for w in range(get(m, A_CAND_BYTES) >> 3):
                kept[row, w] = get(cand_row(m, c), w)
            c = get(cand_row(m, c), CAND_PREV)
            kept[row, CAND_PREV] = row - 1 if i + 1 < length else -1
        put(heads, at, used + length - 1 if length else -1)
        used += length
    put(m, G_CANDS, used)


@kernel(void(Ints, Ints, Ints))
def number_in_partition(part: Any, points: Any, counts: Any) -> None:
    """Write the position of each event in its partition, and count on."""
    for e in range(len(part)):
        if part[e] >= 0:
            points[e] = counts[part[e]]
            counts[part[e]] += 1
