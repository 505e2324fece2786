"""What the walks of left- and right-deep plans have in common: frames, binding an event, writing a match."""

from __future__ import annotations

from typing import Any

from cerise.engines.automaton.records import Machine
from cerise.engines.rcep.records import (
    Frame,
    Workspace,
    list_start,
)
from cerise.kernels.jit import ask, kernel


@kernel()
def begin_frame(w: Workspace, d: int, first: int, last: int) -> None:
    """Begin with the last of the edges that may come next: what follows comes before one more of the same."""
    frame = w.frames[d]
    frame.edge = last - 1
    frame.least = first
    frame.cursor = -1
    frame.size = -1
    w.depth = d
    w.deepest = max(w.deepest, d)


@kernel()
def lay_list(m: Machine, w: Workspace, d: int, p: int) -> None:
    """Let a frame have the list of events that its edge asks for: by variable, or by a value."""
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
    other = m.nodes[i].seq
    frame.list = equal.list
    frame.cursor = equal.low[other]
    frame.end = equal.high[other]


@kernel()
def next_edge(frame: Frame) -> None:
    """Go on to the next edge of a frame."""
    frame.edge -= 1
    frame.cursor = -1
    frame.size = -1


@kernel()
def passes(formulas: Any, m: Machine, w: Workspace, d: int, j: int, e: int) -> bool:
    """Whether an edge lets an event follow the d events bound."""
    w.tests += 1
    test = m.edges[j].test
    return test < 0 or ask(formulas, test, m.runs[d], 0, e, m.cols, m.nodes.start) != 0


@kernel()
def bind(formulas: Any, m: Machine, d: int, j: int, e: int) -> None:
    """Bind an event after the d events bound: run d + 1 is run d with it, node d is its node."""
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
def has_room(w: Workspace, d: int) -> bool:
    """Whether one more match of d + 1 events can be written."""
    if w.counts:
        return True
    if w.written >= w.rows:
        return False
    for v in range(w.variables):
        if w.fill[v] + d + 1 > w.found_room:
            return False
    return True


@kernel()
def write_match(m: Machine, w: Workspace, d: int, direction: int) -> None:
    """Write the d + 1 events bound, in stream order (1) or against it (-1), or only count the match."""
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
