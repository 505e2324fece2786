"""The work between chunks: frees expired runs, writes out matches, collects the shared buffer.

A match is spelled from its last node back to its start [SASE08 §5.1]; nodes that only expired runs use are
freed [SASE08 §5.3].

`now` holds the newest point of each partition if windows count events, else one newest time, at index 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cerise.engines.automaton.layout import JOIN
from cerise.engines.automaton.program import Program
from cerise.engines.automaton.records import Candidate, Join, Machine
from cerise.engines.automaton.window import MAX, NEVER
from cerise.engines.base import Options
from cerise.engines.nfa.machine import free_run, record, unlink
from cerise.kernels.jit import Ints, Table, int64, kernel, void

PREV = Candidate.prev


class Upkeep:
    """Says when it pays to look for expired runs and nodes, at the cost of going through all of them.

    It pays if a quarter of them is new, so that each is looked at a few times in its life; if new runs take a
    quarter of the room that was left below the limit of runs; or if a whole window has passed.

    Attributes:
        partitions: how many partitions may be known before idle ones are forgotten.
        texts: how many strings may be known before unused ones are forgotten.
    """

    def __init__(self, program: Program, options: Options) -> None:
        bound, self._limits = program.bound, options.limits
        self._most_runs = options.max_runs
        timed = bound.within is not None and not program.by_position
        self._within = int(str(bound.within.size)) if bound.within is not None and timed else None
        self._held, self._runs, self._now = 0, 0, NEVER
        numbered = program.by_position and bound.slide is not None  # SLIDE counts positions from the first on
        self.partitions = MAX if numbered else self._limits.idle_partitions
        self.texts = self._limits.pool_rows

    def is_due(self, m: Machine, partitions: int, now: int) -> bool:
        """Whether it pays to look, given the machine, how many partitions are known, and the newest time."""
        held = m.live + m.node_count
        return (
            held <= self._limits.small_rows
            or 3 * held >= 4 * self._held
            or 4 * (m.live - self._runs) >= self._most_runs - self._runs
            or partitions > self.partitions
            or (self._within is not None and now - self._now > self._within)
        )

    def note(self, m: Machine, now: int) -> None:
        """Remember how much is left after a look."""
        self._held, self._runs, self._now = m.live + m.node_count, m.live, now


@kernel()
def point_of(m: Machine, now: Any, part: int) -> Any:
    """Return the newest point of a partition."""
    return now[part if m.by_position else 0]


@kernel(void(int64, int64, Ints, int64))
def sweep(machine: int, lists: int, now: Any, over: int) -> None:
    """Free the runs whose window has passed; record the waiting matches that no event can veto any more.

    Args:
        machine: the address of the machine; it has room for as many matches as there are live runs.
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
def end_list(m: Machine, at: int, branch: int, point: int) -> None:
    """Record the matches of a list whose deadline is before a point, and find the least deadline left."""
    least = MAX
    before, r = -1, m.lists[at].head
    while r >= 0:
        row = m.runs[r]
        after = row.next
        if point > row.deadline:
            record(m, row.node, -1, -1, point, branch)
            free_run(m, r)
            unlink(m, at, before, after)
        else:
            least = min(least, row.deadline)
            before = r
        r = after
    m.lists[at].least = least


@kernel(void(int64, int64, Ints))
def release_matches(machine: int, partitions: int, now: Any) -> None:
    """Record the waiting matches that no event can veto any more; look only at lists that have one.

    Args:
        machine: the address of the machine; it has room for as many matches as there are live runs.
        partitions: how many partitions there are.
        now: the newest points.
    """
    m = Machine(machine)
    states = m.state_count
    for part in range(partitions):
        point = point_of(m, now, part)
        for state in range(m.waits, states):
            queue = m.lists[part * states + state]
            if queue.head >= 0 and queue.least < point:
                end_list(m, part * states + state, m.states[state].branch, point)


@kernel()
def keep_links(m: Machine, moved: Any, n: int) -> None:
    """Renumber the links of a moved node; a join that lost its left side keeps its right side as its left."""
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
    """Return for each node the earliest point of the runs that use it; MAX: no run uses it.

    Nodes point backwards, so one pass is enough. It does not follow a merged run into nodes whose starts have
    all expired.
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
    """Compact the nodes that runs use, and update the runs' links to them."""
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
    """Copy the candidates that can still veto a match into another table; its row 0 stays free."""
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


# the state of an expansion: its match, the depth of its path and of its stack, whether the path is unwritten
X_MATCH, X_DEPTH, X_STACK, X_PENDING, X_WORDS = range(5)


# ---- matches


@kernel()
def write_path(path: Any, depth: int, row: int, lengths: Any, events: Any, fill: Any) -> bool:
    """Write one match; False: no room is left."""
    if row >= len(lengths):
        return False
    for v in range(len(fill)):
        lengths[row, v] = 0
    for i in range(depth):
        lengths[row, path[i, 0]] += 1
    for v in range(len(fill)):
        if fill[v] + lengths[row, v] > events.shape[1]:
            return False
    for v in range(len(fill)):
        fill[v] += lengths[row, v]
    for i in range(depth - 1, -1, -1):  # oldest first; lengths count down the events left to write
        v = path[i, 0]
        events[v, fill[v] - lengths[row, v]] = path[i, 1]
        lengths[row, v] -= 1
    for i in range(depth):
        lengths[row, path[i, 0]] += 1
    return True


@kernel()
def is_alive(m: Machine, node: int, now: int) -> bool:
    """Whether a node exists and one of its starts is within the window."""
    return node >= 0 and m.nodes[node].most >= now


@kernel()
def follow(m: Machine, node: int, depth: int, now: int, at: Any, path: Any, stack: Any) -> int:
    """Write the events from a node back to a start into the path; the stack gets the other sides of joins."""
    while node >= 0:
        row = m.nodes[node]
        if row.var == JOIN:
            left, right = row.prev, Join(row).right
            if is_alive(m, left, now) and is_alive(m, right, now):
                stack[at[X_STACK], 0], stack[at[X_STACK], 1] = right, depth
                at[X_STACK] += 1
            node = left if is_alive(m, left, now) else right
        else:
            path[depth, 0], path[depth, 1] = row.var, row.seq
            depth += 1
            node = row.prev
    return depth


@kernel(int64(int64, int64, Ints, Table, Table, Table, Table, Ints))
def expand(
    machine: int, count: int, at: Any, path: Any, stack: Any, lengths: Any, events: Any, fill: Any
) -> int:
    """Write matches as events by variable, until all are written or the room is used up.

    Args:
        machine: the address of the machine.
        count: how many matches the machine has.
        at: the state of the expansion, from which the next call goes on.
        path: room for the events of one match, newest first.
        stack: room for the other sides of joins, each with the depth of the path at the join.
        lengths: for each match written, how many events each variable has.
        events: for each variable, the events of all matches written, one after another.
        fill: how many events each variable has.

    Returns:
        How many matches were written.
    """
    m = Machine(machine)
    written = 0
    while at[X_MATCH] < count:
        if not at[X_PENDING]:
            match = m.matches[at[X_MATCH]]
            depth, node = 0, match.node
            if at[X_DEPTH] >= 0:  # another side of a join of the same match
                at[X_STACK] -= 1
                node, depth = stack[at[X_STACK], 0], stack[at[X_STACK], 1]
            elif match.seq >= 0:
                path[0, 0], path[0, 1] = match.var, match.seq
                depth = 1
            at[X_DEPTH] = follow(m, node, depth, match.point, at, path, stack)
            at[X_PENDING] = 1
        if not write_path(path, at[X_DEPTH], written, lengths, events, fill):
            return written
        written += 1
        at[X_PENDING] = 0
        if at[X_STACK] == 0:
            at[X_MATCH] += 1
            at[X_DEPTH] = -1
    return written
