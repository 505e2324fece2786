"""The records in a matcher's memory, which its kernels read and write.

Saved state holds these words in this order.
"""

from __future__ import annotations

from cerise.kernels.records import Record, Rows, Table, Words


class Run(Record):
    """The computation state of a run [SASE08 §5.2.1]; the values that later edges read follow."""

    next: int  # the next run of its list
    deadline: int
    node: int  # its newest node
    key: int  # its list, as partition and state; -1: it is in no list
    at: int  # the event with which a postponed run goes on
    nulls: int  # a bit for each value


class Node(Record):
    """An event bound by a run, and the node before it; values of the event may follow.

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
    """A node that stands for either of two nodes; its variable is `JOIN`."""

    left: int
    right: int
    var: int
    most: int
    least: int
    total: int
    stamp: int


class Match(Record):
    """A match: its newest node, its last event and variable if that has no node (or -1), time and branch."""

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


class EdgeRecord(Record):
    """An edge between two states. Formulas are numbered; -1 stands for no formula."""

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


class StateRecord(Record):
    """A state: its edges, the variables of these edges, and the values on which a run's future depends."""

    first: int
    last: int
    mask: int
    merges: int
    slots: int
    slots_end: int
    nulls: int
    branch: int


class BranchRecord(Record):
    """A branch of the pattern: the state in which its matches wait for a veto, and its negations."""

    wait: int
    past: int
    past_end: int
    ahead: int
    ahead_end: int
    negates: int


class NegationRecord(Record):
    """An absence that vetoes a match: before its end, or after it."""

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
    least: int  # of matches that wait for a veto: no deadline is before it


class Chunk(Record):
    """The words of a chunk of events that generated code reads; the addresses of its columns follow."""

    nulls: int  # the address of the events' null bits
    texts: int  # the address of the codes of the query's strings
    faults: int  # how many values could not be computed
    seq: int  # the number of the first event
    points: int  # the address of the events' times or positions


class Machine(Record):
    """The state of a matcher: registers, settings, and the addresses of its tables."""

    # registers: the ends of the tables, and counters
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
    edges: Rows[EdgeRecord]
    states: Rows[StateRecord]
    slots: Words
    branches: Rows[BranchRecord]
    negations: Rows[NegationRecord]
    negated: Rows[Negated]
    cols: Chunk
