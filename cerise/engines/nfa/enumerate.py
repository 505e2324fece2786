"""Match construction [SASE08 §5.1]: from a node of the shared buffer back to the events of its matches."""

from __future__ import annotations

from typing import Any

from cerise.engines.automaton.layout import JOIN
from cerise.engines.automaton.records import Join, Machine
from cerise.kernels.jit import Ints, Table, int64, kernel

# where an expansion stands: which match, how deep its path and its stack, whether that path is to be written
X_MATCH, X_DEPTH, X_STACK, X_PENDING, X_WORDS = range(5)


@kernel()
def write_path(path: Any, depth: int, row: int, lengths: Any, events: Any, fill: Any) -> bool:
    """Write one match, if there is room for it."""
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
    for i in range(depth - 1, -1, -1):  # oldest first; count down what is left to write of each variable
        v = path[i, 0]
        events[v, fill[v] - lengths[row, v]] = path[i, 1]
        lengths[row, v] -= 1
    for i in range(depth):
        lengths[row, path[i, 0]] += 1
    return True


@kernel()
def is_alive(m: Machine, node: int, now: int) -> bool:
    """Whether a node is there and any of its starts is within the window."""
    return node >= 0 and m.nodes[node].most >= now


@kernel()
def follow(m: Machine, node: int, depth: int, now: int, at: Any, path: Any, stack: Any) -> int:
    """Write the events from a node back to a start into the path; the other sides of joins are put aside."""
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
    """Write matches as events by variable, until all are written or there is no more room.

    Args:
        machine: the machine.
        count: how many matches it has.
        at: where the expansion stands; it goes on from there when called again.
        path: room for the events of one match, newest first.
        stack: room for the other sides of joins, each with the depth it is to be taken up at.
        lengths: for each match written, how many events each variable has.
        events: for each variable, the events of all matches written, one after another.
        fill: how many of these each variable has.

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
