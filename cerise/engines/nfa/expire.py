"""What is done between chunks: expired runs and what only they held are given back [SASE08 §5.3].

`now` is the newest point of each partition where windows count events, else of all of them at its place 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cerise.engines.automaton.layout import JOIN
from cerise.engines.automaton.records import Candidate, Join, Machine
from cerise.engines.automaton.window import (
    MAX,
    NEVER,
)
from cerise.engines.nfa.machine import (
    free_run,
    record,
    unlink,
)
from cerise.kernels.jit import Ints, Table, int64, kernel, void

PREV = Candidate.prev


@kernel()
def point_of(m: Machine, now: Any, part: int) -> Any:
    """Return the newest point of a partition."""
    return now[part if m.by_position else 0]


@kernel(void(int64, int64, Ints, int64))
def sweep(machine: int, lists: int, now: Any, over: int) -> None:
    """Free the runs whose window has passed; waiting matches that nothing can veto any more are made.

    Args:
        machine: the machine; it has room for as many matches as runs are alive.
        lists: how many lists of runs there are.
        now: the newest points.
        over: whether the stream has ended, so that every window has passed.
    """
    m = Machine(machine)
    states = m.state_count
    for at in range(lists):
        state = at % states
        point = point_of(m, now, at // states)
        before, r = -1, m.lists[at].head
        while r >= 0:
            row = m.runs[r]
            after = row.next
            if over or point > row.deadline:
                if state >= m.waits:
                    record(m, row.node, -1, -1, point, m.states[state].branch)
                free_run(m, r)
                unlink(m, at, before, after)
            else:
                before = r
            r = after


@kernel()
def keep_links(m: Machine, moved: Any, n: int) -> None:
    """Point a moved node at where the nodes before it went; a join with one side left becomes that side."""
    row = Join(m.nodes[n])
    if row.left >= 0:
        row.left = moved[row.left]
    if row.var != JOIN:
        return
    if row.right >= 0:
        row.right = moved[row.right]
    if row.left < 0:
        row.left = row.right
        row.right = -1


@kernel()
def mark(m: Machine, lists: int, now: Any) -> Any:
    """Return for each node the earliest point at which a run that holds it stands; MAX where none does.

    Nodes point backwards, so one pass is enough. In a merged run, the part whose starts have all expired
    is let go.
    """
    merges = m.merges
    since = np.full(m.node_count, MAX, np.int64)
    for at in range(lists):
        r = m.lists[at].head
        point = min(point_of(m, now, at // m.state_count), MAX - 1)
        while r >= 0:
            n = m.runs[r].node
            if n >= 0:
                since[n] = min(since[n], point)
            r = m.runs[r].next
    for n in range(len(since) - 1, -1, -1):
        if since[n] == MAX:
            continue
        for side in range(2 if m.nodes[n].var == JOIN else 1):
            child = Join(m.nodes[n]).right if side else m.nodes[n].prev
            if child >= 0 and (not merges or m.nodes[child].most >= since[n]):
                since[child] = min(since[child], since[n])
    return since


@kernel(void(int64, int64, Ints))
def collect(machine: int, lists: int, now: Any) -> None:
    """Move the nodes that runs still hold together, and tell the runs where theirs went."""
    m = Machine(machine)
    since = mark(m, lists, now)
    moved = np.full(len(since), -1, np.int64)
    left = 0
    for n in range(len(since)):
        if since[n] == MAX:
            continue
        moved[n] = left
        for c in range(m.nodes.width >> 3):
            m.nodes[left][c] = m.nodes[n][c]
        keep_links(m, moved, left)
        left += 1
    for at in range(lists):
        r = m.lists[at].head
        while r >= 0:
            row = m.runs[r]
            if row.node >= 0:
                row.node = moved[row.node]
            r = row.next
    m.node_count = left


@kernel(void(int64, int64, Ints, Table))
def forget_candidates(machine: int, partitions: int, now: Any, kept: Any) -> None:
    """Write the candidates that could still veto a match into another table; its row 0 stays free."""
    m = Machine(machine)
    kinds, within = m.kinds, m.within
    heads = m.cand_heads
    used = 1
    for at in range(partitions * kinds):
        point = point_of(m, now, at // kinds)
        since = point - within if within >= 0 and point > NEVER + within else NEVER
        length, c = 0, heads[at]
        while c >= 0 and m.cands[c].point >= since:
            length += 1
            c = m.cands[c].prev
        c = heads[at]
        for i in range(length):
            row = used + length - 1 - i
            for w in range(m.cands.width >> 3):
                kept[row, w] = m.cands[c][w]
            c = m.cands[c].prev
            kept[row, PREV] = row - 1 if i + 1 < length else -1
        heads[at] = used + length - 1 if length else -1
        used += length
    m.cand_count = used
