"""The records of a matcher's memory: what its kernels read and write.

Saved state has these words in this order.
"""

from __future__ import annotations

from cerise.kernels.records import Record, Rows, Table, Words


class Run(Record):
    """The computation state of a run [SASE08 §5.2.1]; the values that later edges ask for follow."""

    next: int  # in its list
    deadline: int
    node: int  # the newest
    key: int  # its list: its partition and state; -1: it is in none
    at: int  # the event that it goes on with when it was postponed
    nulls: int  # a bit for each value


class Node(Record):
    """An event bound by a run, and the node before it; values kept of the event may follow.

    Where runs are not merged, a node ends before `most`; where matches are not counted, before `least`.
    """

    prev: int
    seq: int
    var: int
    most: int
    least: int
    total: int
    stamp: int
    kept: int


class Join(Record):
    """A node that stands for either of two; its variable is `JOIN`."""

    left: int
    right: int
    var: int
    most: int
    least: int
    total: int
    stamp: int


class Match(Record):
    """A match: its newest node, the event after that (or -1) with its variable, its time and its branch."""

    node: int
    seq: int
    var: int
    point: int
    branch: int


class Candidate(Record):
    """An event that fits a negated variable; its values follow."""

    prev: int
    seq: int
    point: int
    nulls: int


class Edge(Record):
    """A step from a state to another. Formulas are numbered; -1 is none."""

    bit: int
    test: int
    result: int
    target: int
    update: int
    accepts: int
    accept_test: int
    terminal: int
    var: int
    branch: int


class State(Record):
    """A state: its edges, the variables they wait for, and the values on which a run's future depends."""

    first: int
    last: int
    mask: int
    merges: int
    slots: int
    slots_end: int
    nulls: int
    branch: int


class Branch(Record):
    """An alternative of the pattern: the state that waits for its end, and its negations."""

    wait: int
    past: int
    past_end: int
    ahead: int
    ahead_end: int
    negates: int


class Negation(Record):
    """What must not be in the past of a match, or ahead of it."""

    number: int
    range: int
    test: int
    after: int
    before: int
    first: int
    point: int


class Negated(Record):
    """A negated variable."""

    bit: int
    write: int
    kept: int


class RunList(Record):
    """The runs of a partition that wait in a state."""

    head: int
    length: int


class Chunk(Record):
    """The words of a chunk of events that generated code reads; the addresses of its columns follow."""

    nulls: int  # where the null bits of events lie
    texts: int  # where the codes of the query's strings lie
    faults: int  # counted
    seq: int  # the number of the first event
    points: int  # where the times or positions of events lie


class Machine(Record):
    """The state of a matcher: registers, settings, and where its tables lie."""

    # registers: where the tables end, and what was counted
    live: int
    free: int
    run_count: int
    node_count: int
    cand_count: int
    match_count: int
    counted: int
    most_live: int
    steps: int
    merged: int
    opened: int
    bound: int
    reread: int
    overflow: int
    need: int
    postponed: int
    at: int
    cursor: int
    best: int
    made: int
    # settings
    mode: int
    within: int
    slide: int
    by_position: int
    alone: int
    counts: int
    merges: int
    max_runs: int
    keeps_nodes: int
    state_count: int
    starts: int
    starts_end: int
    start_mask: int
    negated_mask: int
    fan: int
    full: int
    waits: int
    kinds: int
    backtracks: int
    # tables
    runs: Table[Run]
    nodes: Table[Node]
    cands: Table[Candidate]
    matches: Rows[Match]
    match_room: int
    lists: Rows[RunList]
    cand_heads: Words
    table: Words
    table_mask: int
    stack: Words
    edges: Rows[Edge]
    states: Rows[State]
    slots: Words
    branches: Rows[Branch]
    negations: Rows[Negation]
    negated: Rows[Negated]
    cols: Chunk
