"""The records of recomputation: what its kernels read and write, and the smallest steps on them.

Events are numbered within a piece: those of the window that are kept, then the new ones. Each variable has,
for each partition, the list of the events that fit it.
"""

from __future__ import annotations

from cerise.kernels.jit import kernel
from cerise.kernels.records import Record, Rows, Words


class Frame(Record):
    """A step of a walk: the edge tried, the least of its state, and the events that it may bind."""

    edge: int
    least: int
    list: Words
    cursor: int  # a position in the list
    end: int  # where the list ends
    size: int  # of a subset of a free variable's events
    leap: int  # the address of the inequality that finds the next event; 0: none does
    left: int  # the left side of that inequality


class Link(Record):
    """A comparison of neighbours: its sides by event, and the best right side of the events alive, if any."""

    op: int
    left: Words
    right: Words
    has: int
    best: int


class Step(Record):
    """An edge, for pruning: its variable, whether it ends matches (and only that), the edges that follow."""

    var: int
    bit: int
    accepts: int
    terminal: int
    first: int
    last: int
    links: Words  # the link to each edge that follows, or -1
    judged: int  # comparisons with the trigger
    judged_end: int
    right: int  # the links from edges before
    right_end: int


class Judged(Record):
    """A comparison with the event that completes a match."""

    op: int
    left: Words
    right: Words


class Equality(Record):
    """An equality: its variable, events by (partition, value), and for each event its equals among them."""

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
    long: int  # a list of fewer events is gone through one by one
    base: int  # where the list of the variable on the right begins
    by_4096: Words  # extremes over so many events of that list
    by_256: Words
    by_16: Words


class Workspace(Record):
    """The memory of recomputation, but for the runs and nodes of the walk."""

    # the piece
    events: int
    masks: Words
    parts: Words
    points: Words
    numbers: Words
    opens: Words
    floors: Words
    # lists of events: all of them, where each begins, and the position of each event in the list of all
    lists: Words
    starts: Words
    partitions: int
    variables: int
    positions: Words
    # pruning: for each edge and event, and for each variable and event, the trigger they may lead to
    stamps: Words
    alive: Words
    stamp: int
    edge_count: int
    edges: Rows[Step]
    links: Rows[Link]
    link_count: int
    by_right: Words
    judged: Rows[Judged]
    has: Words
    equals: Rows[Equality]
    leaps: Rows[Inequality]
    # for each edge that begins a free Kleene variable the edge that ends the match, else -1
    free: Words
    picks: Words  # the positions of a subset's events in their list
    taken: Words  # their numbers
    latest: Words  # for each partition and state the latest start that leads there, whatever predicates say
    # the walk: frames, how deep, where its matches may start, how many there are
    frames: Rows[Frame]
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
    # what is found: where it is written, how much room there is, how much was written
    lengths: Words
    rows: int
    found: Words
    found_room: int
    fill: Words
    written: int
    counted: int
    tests: int
    patience: int  # tests after which the caller is asked whether to go on


LESS, AT_MOST, MORE, AT_LEAST, EQUAL, UNEQUAL = range(6)
OPS = {"<": LESS, "<=": AT_MOST, ">": MORE, ">=": AT_LEAST, "=": EQUAL, "!=": UNEQUAL}
NULL = -(2**63)
DONE, FULL, DEEPER, PAUSED, TOO_MANY = range(5)


@kernel()
def holds(op: int, left: int, right: int) -> bool:
    """Whether two keys compare so; no comparison holds of a null."""
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
    """Return the first place in a list, from low up to high, of an event later than e."""
    while low < high:
        middle = (low + high) >> 1
        if events[middle] > e:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def list_start(w: Workspace, var: int, part: int) -> int:
    """Return where the list of a variable's events in a partition starts; it ends where the next one does."""
    return w.starts[var * (w.partitions + 1) + part]
