"""The steps that left- and right-deep joins share: frames, binding an event, writing a match."""

from __future__ import annotations

from typing import Any

from cerise.engines.automaton.records import Machine
from cerise.engines.rcep.records import (
    JoinFrame,
    JoinWorkspace,
    list_start,
)
from cerise.kernels.jit import ask, kernel


@kernel()
def begin_frame(w: JoinWorkspace, d: int, first: int, last: int) -> None:
    """Begin a frame with the last edge of a state: the next variable comes before one more event."""
    frame = w.frames[d]
    frame.edge = last - 1
    frame.least = first
    frame.cursor = -1
    frame.size = -1
    w.depth = d
    w.deepest = max(w.deepest, d)


@kernel()
def lay_list(m: Machine, w: JoinWorkspace, d: int, p: int) -> None:
    """Give a frame the list of events for its edge: all of its variable, or those of an equal value."""
    frame = w.frames[d]
    j, part = frame.edge, w.parts[p]
    equal, var = w.equals[j], m.edges[j].var
    if equal.var < 0:
        frame.list = w.lists
        frame.cursor = list_start(w, var, part)
        frame.end = list_start(w, var, part + 1)
        return
    i = d - 1
    while m.nodes[i].var != equal.var:
        i -= 1
    earlier = m.nodes[i].seq
    frame.list = equal.list
    frame.cursor = equal.low[earlier]
    frame.end = equal.high[earlier]


@kernel()
def next_edge(frame: JoinFrame) -> None:
    """Move a frame on to its next edge."""
    frame.edge -= 1
    frame.cursor = -1
    frame.size = -1


@kernel()
def passes(formulas: Any, m: Machine, w: JoinWorkspace, d: int, j: int, e: int) -> bool:
    """Whether an edge can bind an event after the d bound events."""
    w.tests += 1
    test = m.edges[j].test
    return test < 0 or ask(formulas, test, m.runs[d], 0, e, m.cols, m.nodes.start) != 0


@kernel()
def bind(formulas: Any, m: Machine, d: int, j: int, e: int) -> None:
    """Bind an event after the d bound events: run d + 1 becomes run d with the event, node d its node."""
    edge, run, row, node = m.edges[j], m.runs[d], m.runs[d + 1], m.nodes[d]
    for i in range(m.runs.width >> 3):
        row[i] = run[i]
    node.prev = d - 1
    node.seq = e
    node.var = edge.var
    row.node = d
    if edge.update >= 0:
        ask(formulas, edge.update, run, row, e, m.cols, m.nodes.start)


@kernel()
def has_room(w: JoinWorkspace, d: int) -> bool:
    """Whether there is room to write one more match of d + 1 events."""
    if w.counts:
        return True
    if w.written >= w.rows:
        return False
    for v in range(w.variables):
        if w.fill[v] + d + 1 > w.found_room:
            return False
    return True


@kernel()
def write_match(m: Machine, w: JoinWorkspace, d: int, direction: int) -> None:
    """Write the d + 1 bound events, in stream order (1) or in reverse (-1), or only count the match."""
    w.made += 1
    w.counted += 1
    if w.counts:
        return
    variables, fill = w.variables, w.fill
    lengths = w.lengths[variables * w.written :]
    for v in range(variables):
        lengths[v] = 0
    for i in range(d + 1):
        node = m.nodes[i if direction > 0 else d - i]
        v = node.var
        at = v * w.found_room + fill[v]
        w.found[at] = w.numbers[node.seq]
        fill[v] += 1
        lengths[v] += 1
    w.written += 1
