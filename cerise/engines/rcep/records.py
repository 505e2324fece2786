"""The records of recomputation, which its kernels read and write, and basic operations on them.

Events are numbered within a piece: the kept events of the window first, then the new events. Each variable
has, for each partition, a list of the events that fit it.
"""

from __future__ import annotations

from cerise.kernels.jit import kernel
from cerise.kernels.records import Record, Rows, Words


class JoinFrame(Record):
    """One level of the joins: the edge under trial, the first edge of its state, the events it may bind."""

    edge: int
    least: int
    list: Words
    cursor: int  # a position in the list
    end: int  # the end of the list
    size: int  # the size of a subset of a free variable's events
    leap: int  # the address of the inequality that finds the next event; 0: none
    left: int  # the left side of that inequality


class EdgeLink(Record):
    """A comparison of neighbours: its sides by event, and the best right side among events alive, if any."""

    op: int
    left: Words
    right: Words
    has: int
    best: int


class PruneEdge(Record):
    """An edge, for pruning: its variable, whether it completes matches (and only that), its next edges."""

    var: int
    bit: int
    accepts: int
    terminal: int
    first: int
    last: int
    links: Words  # the link to each next edge, or -1
    judged: int  # the first of its comparisons with the trigger
    judged_end: int
    right: int  # the first of the links from earlier edges
    right_end: int


class TriggerTest(Record):
    """A comparison of an event with the trigger."""

    op: int
    left: Words
    right: Words


class Equality(Record):
    """An equality: its variable, events by (partition, value), and the range of each event's equals."""

    var: int
    list: Words
    low: Words
    high: Words


class Inequality(Record):
    """An inequality: the variable on its left, its sides by event, and the extremes of its right side."""

    op: int
    var: int
    left: Words
    right: Words
    long: int  # shorter lists are scanned event by event
    base: int  # the start of the list of the variable on the right
    by_4096: Words  # extremes over runs of 4096 events of that list
    by_256: Words
    by_16: Words


class JoinWorkspace(Record):
    """The memory of recomputation, without the runs and nodes of the joins."""

    # the piece
    events: int
    masks: Words
    parts: Words
    points: Words
    numbers: Words
    opens: Words
    floors: Words
    # lists of events: their events, the start of each list, the position of each event in the list of all
    lists: Words
    starts: Words
    partitions: int
    variables: int
    positions: Words
    # pruning: for each edge and event, and for each variable and event, the stamp of the last trigger
    stamps: Words
    alive: Words
    stamp: int
    edge_count: int
    edges: Rows[PruneEdge]
    links: Rows[EdgeLink]
    link_count: int
    by_right: Words
    judged: Rows[TriggerTest]
    has: Words
    equals: Rows[Equality]
    leaps: Rows[Inequality]
    # for each edge that begins a free Kleene variable the edge that ends the match, else -1
    free: Words
    picks: Words  # the positions of a subset's events in their list
    taken: Words  # the numbers of a subset's events
    latest: Words  # for each partition and state the latest start that leads there, without predicates
    # the joins: frames, their depth, the first event a match may start with, the matches of this trigger
    frames: Rows[JoinFrame]
    room: int
    depth: int
    low: int
    made: int
    next: int
    deepest: int
    # settings
    triggers: int
    limit: int
    most: int
    alone: int
    counts: int
    right_deep: int
    # output: its arrays, their room, how much is written
    lengths: Words
    rows: int
    found: Words
    found_room: int
    fill: Words
    written: int
    counted: int
    tests: int
    patience: int  # tests after which the kernel returns to its caller


LESS, AT_MOST, MORE, AT_LEAST, EQUAL, UNEQUAL = range(6)
OPS = {"<": LESS, "<=": AT_MOST, ">": MORE, ">=": AT_LEAST, "=": EQUAL, "!=": UNEQUAL}
NULL = -(2**63)
DONE, FULL, DEEPER, PAUSED, TOO_MANY = range(5)


@kernel()
def holds(op: int, left: int, right: int) -> bool:
    """Whether a comparison of two keys holds; it never holds with a null."""
    if NULL in (left, right):
        return False
    if op == LESS:
        return left < right
    if op == AT_MOST:
        return left <= right
    if op == MORE:
        return left > right
    if op == AT_LEAST:
        return left >= right
    return left == right if op == EQUAL else left != right


@kernel()
def first_after(events: Words, low: int, high: int, e: int) -> int:
    """Return the first position in a list, from low up to high, of an event later than e."""
    while low < high:
        middle = (low + high) >> 1
        if events[middle] > e:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def list_start(w: JoinWorkspace, var: int, part: int) -> int:
    """Return the start of the list of a variable's events in a partition; the next list starts at its end."""
    return w.starts[var * (w.partitions + 1) + part]
