"""The records of joins, which their kernels read and write.

A pool holds the rows of a leaf or of a join, in the order of their last events: rows of new events are
appended, and rows whose window has passed leave at the front. A row binds an event to each slot of a
sub-pattern, as the number of a row of the slot's leaf; the columns of a leaf hold all values that tests read.
Rows have numbers that never change: a pool counts from the first row of the stream.
"""

from __future__ import annotations

from cerise.kernels.jit import kernel
from cerise.kernels.records import Record, Rows, Words

LESS, AT_MOST, MORE, AT_LEAST, EQUAL, UNEQUAL = range(6)
OPS = {"<": LESS, "<=": AT_MOST, ">": MORE, ">=": AT_LEAST, "=": EQUAL, "!=": UNEQUAL}
MAX, MIN = 2**63 - 1, -(2**63)
MIXED, LEFT_FIRST, RIGHT_FIRST = range(3)  # the order of the two sides of a join
DONE, POOL_FULL, INDEX_FULL, SCRATCH_FULL, OUTPUT_FULL = range(5)  # why a kernel stops
STACK_FULL, TOO_MANY, PAUSED, UNCOUNTABLE = range(5, 9)
SEQ, POINT, PART, OPENS, SIDES = range(5)  # columns of a leaf; its sides follow, then flags of nulls


class JoinRow(Record):
    """A row of a pool; the numbers of its events' rows follow, one for each slot."""

    first: int  # the number of its first event in the stream
    last: int
    since: int  # the point, time or position, of its first event
    until: int


HEAD, LAST_EVENT = JoinRow.WORDS, int(JoinRow.last)  # words before the slots; the word of the last event


class LeafRow(Record):
    """A row of a leaf's pool."""

    first: int
    last: int
    since: int
    until: int
    row: int  # its own number


class Pool(Record):
    """Rows in the order of their last events."""

    rows: Words  # the address of row `start`
    width: int  # words of a row
    start: int  # the number of the first row in memory
    base: int  # of the first row that has not expired
    old: int  # of the first new row
    count: int  # of the next row
    room: int
    window: int  # how long rows are kept, -1: for ever
    in_order: int  # whether points never fall
    by_position: int  # whether points are positions in the stream, and not times
    shift: int  # rows that have just left memory
    outputs: int  # the first of the outputs whose matches its rows are
    outputs_end: int


class LeafColumns(Record):
    """The columns of a leaf, each of `room` words; row r is word r - start."""

    columns: Words
    room: int
    width: int  # how many columns
    first_flags: int  # the first column of flags
    nulls: int  # whether a side was null in any event


class ChainLink(Record):
    """A row of a chain: 1 + the numbers of two older rows of it; 0: none.

    The jumps lead to any older row in a logarithmic number of steps [Myers83].
    """

    next: int
    jump: int
    depth: int  # how many rows of the chain are older


class PoolIndex(Record):
    """Rows of a pool by the hash of their key: chains of row numbers, the newest first."""

    pool: int
    heads: Words  # 1 + the number of a row; 0: none
    mask: int
    links: Rows[ChainLink]  # for each row in memory
    room: int  # of `links`
    done: int  # the number of the first row that the index lacks
    keys: int  # the first of its keys
    keys_end: int


class KeyColumn(Record):
    """A column that is part of a key: the word of a row that holds the event, its leaf, the column."""

    word: int
    leaf: int
    column: int
    flag: int  # the column with the flags of its nulls, -1: never null
    bit: int
    values: Words  # set by `find_columns`
    flags: Words


class SkipIndex(Record):
    """The extremes of a column over runs of 16, 256 and 4096 rows of a pool, of as many rows or fewer."""

    pool: int
    word: int  # of a row that holds the event
    leaf: int
    column: int
    greatest: int  # whether the extremes are maxima
    values: Words  # set by `fill_skips`: the column at row 0
    by_16: Words
    by_256: Words
    by_4096: Words
    done: int  # the number of the first row that the extremes lack


class JoinNode(Record):
    """A join of two pools into a third."""

    left: int
    right: int
    out: int
    window: int
    order: int  # MIXED, LEFT_FIRST or RIGHT_FIRST
    tests: int
    tests_end: int
    left_index: int  # of the rows on the left, by the columns that equal columns on the right; -1: none
    right_index: int
    skip_test: int  # the inequality by which runs of rows are skipped, -1: none
    left_skip: int  # the extremes of its left column over the rows on the left
    right_skip: int
    slots: int
    moves: int  # the first of `slots` words: a word of the left row, or -1 - a word of the right row
    guards: int  # negated variables that veto its rows, each as an output of one branch
    guards_end: int
    final: int  # whether no join reads its rows: they leave when they are written out
    candidates: int  # how many pairs of rows were tested
    made: int  # how many of them passed


class NodeTest(Record):
    """A comparison of a column of the left row with a column of the right row."""

    op: int
    left_word: int
    left_leaf: int
    left_column: int
    left_flag: int  # the column with the flags of its nulls, -1: never null
    left_bit: int
    right_word: int
    right_leaf: int
    right_column: int
    right_flag: int
    right_bit: int
    left: Words  # set by `find_columns`: the column at row 0
    right: Words
    left_flags: Words  # 0: no event has a null
    right_flags: Words


class OutputRecord(Record):
    """The matches of one branch of a query, as rows of a pool."""

    query: int
    window: int  # of the query, -1: none
    within: int
    slide: int  # 0: none
    slots: int
    words: int  # the first of `slots` words: which word of the row each slot is
    leaves: int  # the first of `slots` words: the leaf of each slot
    pairs: int  # tests of pairs of events that the joins do not make
    pairs_end: int
    repeats: int
    repeats_end: int
    vetoes: int
    vetoes_end: int
    waits: int
    by_position: int  # whether its window counts events
    pending: int  # the pool of rows that wait for the end of their window, -1: none
    counts: int  # whether matches are only counted
    summed: int  # whether the choices of its one Kleene variable can be added up
    counted: int
    made: int  # matches of one row


class OutputTest(Record):
    """A comparison of two events of a match, or of a match and a negated event.

    A slot of -1 is the negated event; a right slot of -2 means that the left column holds a truth value.
    """

    op: int
    left_slot: int
    left_which: int
    left_leaf: int
    left_column: int
    left_flag: int
    left_bit: int
    right_slot: int
    right_which: int
    right_leaf: int
    right_column: int
    right_flag: int
    right_bit: int
    values: (
        Words  # set by `aim`, of a negated variable: its column, flags of nulls, the value to compare with
    )
    flags: Words
    value: int
    value_op: int


class RepeatRecord(Record):
    """A Kleene variable of an output."""

    slot: int
    leaf: int
    low: int
    high: int  # -1: any number
    before: int  # the slots whose events come before its own, as a bit mask
    links: int  # comparisons of an event with the next one
    links_end: int
    tests: int  # of an event with the slots
    tests_end: int


class VetoRecord(Record):
    """A negated variable of an output, or of a row of a join: its leaf, and where it may not occur."""

    leaf: int
    after: int  # the slots before the stretch, as a bit mask; 0: the start of the window
    before: int
    anywhere: int
    around: int  # whether the row lacks events of the match, whose reach holds all of the row and a window
    waits: int
    shares: int  # whether an event of the match can be an event of its leaf
    tests: int
    tests_end: int
    index: int  # of its rows by partition, -1: none


class ExpandFrame(Record):
    """A level of the expansion of Kleene variables: an event, and the next one to try before it."""

    repeat: int
    row: int
    size: int
    cursor: int
    closed: int


class JoinMachine(Record):
    """The memory of a team of queries."""

    pools: Rows[Pool]
    pool_count: int
    leaves: Rows[LeafColumns]
    leaf_count: int
    nodes: Rows[JoinNode]
    node_count: int
    tests: Rows[NodeTest]
    keys: Rows[KeyColumn]
    indexes: Rows[PoolIndex]
    index_count: int
    skips: Rows[SkipIndex]
    skip_count: int
    words: Words
    outputs: Rows[OutputRecord]
    output_count: int
    output_tests: Rows[OutputTest]
    repeats: Rows[RepeatRecord]
    vetoes: Rows[VetoRecord]
    guards: Rows[OutputRecord]
    scratch: Words
    scratch_room: int
    frames: Rows[ExpandFrame]
    frame_room: int
    depth: int
    bases: Words  # for each slot of the match under trial, the first frame of its Kleene variable; -1: none
    sizes: Words  # for each slot, how many events it has
    # matches: for each the output, where its words begin; the words: for each slot a size and its events
    found: Words
    found_room: int
    found_end: int
    owners: Words
    starts: Words
    parts: Words  # the partition of each match
    match_room: int
    matches: int
    # where a kernel goes on
    node: int
    phase: int
    begun: int
    outer: int
    inner: int
    low: int
    output: int
    row: int
    needs: int  # the pool, the index, or the words of scratch that lack room
    steps: int  # since the last pause
    patience: int  # steps after which a kernel returns to its caller
    # settings
    shown: Words  # the pools with outputs that are not of a final node
    shown_count: int
    inner_count: int  # how many nodes are not final; they come first
    muted: int  # whether matches are not written: events are fed again
    most: int  # matches of one row before a kernel stops
    opens_all: int
    now: int  # no event before this time will come
    position: int  # of the next event of the stream
    piece_first: int  # the number of the first event of the piece
    piece_size: int


@kernel()
def compare(op: int, left: int, right: int) -> bool:
    """Whether a comparison of two words holds."""
    if op == LESS:
        return left < right
    if op == AT_MOST:
        return left <= right
    if op == MORE:
        return left > right
    if op == AT_LEAST:
        return left >= right
    if op == EQUAL:
        return left == right
    return left != right


@kernel()
def later(point: int, window: int) -> int:
    """Return the last point that is within a window of a point; a window of -1 has no end."""
    return MAX if window < 0 or point > MAX - window else point + window


@kernel()
def earlier(point: int, window: int) -> int:
    """Return the first point that is within a window of a point."""
    return MIN if window < 0 or point < MIN + window else point - window


@kernel()
def column_of(m: JoinMachine, leaf: int, column: int) -> int:
    """Return the address at which row 0 of a column of a leaf would lie."""
    columns = m.leaves[leaf]
    return int(columns.columns) + 8 * (column * columns.room - m.pools[leaf].start)
