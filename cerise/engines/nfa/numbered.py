"""The numbers of words and the addresses of rows, for the kernels that do not use records yet."""

from __future__ import annotations

from cerise.engines.nfa import machine
from cerise.engines.nfa.records import Branch, Chunk, Edge, Machine, Negated, Negation, Node, Run, State
from cerise.kernels.jit import kernel
from cerise.kernels.records import number

A_COLS = number(Machine.cols)
A_NODES = number(Machine.nodes)
A_RUN_BYTES = number(Machine.runs) + 1
B_AHEAD = Branch.ahead
B_AHEAD_END = Branch.ahead_end
B_NEGATES = Branch.negates
B_PAST = Branch.past
B_PAST_END = Branch.past_end
COL_FAULTS = Chunk.faults
E_ACCEPTS = Edge.accepts
E_ACCEPT_TEST = Edge.accept_test
E_BIT = Edge.bit
E_BRANCH = Edge.branch
E_TARGET = Edge.target
E_TERMINAL = Edge.terminal
E_TEST = Edge.test
E_UPDATE = Edge.update
E_VAR = Edge.var
G_NEED = Machine.need
G_NODES = Machine.node_count
G_RUNS = Machine.run_count
H_STARTS = Machine.starts
H_STARTS_END = Machine.starts_end
H_STATES = Machine.state_count
H_WAITS = Machine.waits
H_WITHIN = Machine.within
NODE = Run.node
N_AFTER = Negation.after
N_BEFORE = Negation.before
N_FIRST = Negation.first
N_NUMBER = Negation.number
N_POINT = Negation.point
N_RANGE = Negation.range
N_TEST = Negation.test
PREV = Node.prev
SEQ = Node.seq
S_FIRST = State.first
S_LAST = State.last
S_MASK = State.mask
VAR = Node.var
V_BIT = Negated.bit
V_WRITE = Negated.write


@kernel()
def branch_row(m: int, i: int) -> int:
    """Return where a row lies."""
    return Machine(m).branches[i]  # type: ignore[return-value]


@kernel()
def cand_row(m: int, i: int) -> int:
    """Return where a row lies."""
    return Machine(m).cands[i]  # type: ignore[return-value]


@kernel()
def edge_row(m: int, i: int) -> int:
    """Return where a row lies."""
    return Machine(m).edges[i]  # type: ignore[return-value]


@kernel()
def negated_row(m: int, i: int) -> int:
    """Return where a row lies."""
    return Machine(m).negated[i]  # type: ignore[return-value]


@kernel()
def negation_row(m: int, i: int) -> int:
    """Return where a row lies."""
    return Machine(m).negations[i]  # type: ignore[return-value]


@kernel()
def node_row(m: int, i: int) -> int:
    """Return where a row lies."""
    return Machine(m).nodes[i]  # type: ignore[return-value]


_reaches = machine.reaches


@kernel()
def reaches(m: int, point: int, later: int) -> bool:
    """Ask the machine."""
    return _reaches(Machine(m), point, later)


@kernel()
def run_row(m: int, i: int) -> int:
    """Return where a row lies."""
    return Machine(m).runs[i]  # type: ignore[return-value]


_since_when = machine.since_when


@kernel()
def since_when(m: int, point: int) -> int:
    """Ask the machine."""
    return _since_when(Machine(m), point)


@kernel()
def state_row(m: int, i: int) -> int:
    """Return where a row lies."""
    return Machine(m).states[i]  # type: ignore[return-value]


_until = machine.until


@kernel()
def until(m: int, point: int) -> int:
    """Ask the machine."""
    return _until(Machine(m), point)
