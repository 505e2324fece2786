"""The records of a search, which kernels and generated code read and write by field."""

from __future__ import annotations

from cerise.engines.results.context import Context
from cerise.kernels.records import Record, Rows, Table, Words

FITS = -1  # asks generated code for the masks of rows d to e; r: where to write them
BYTE = 8  # labels that a mask of one byte has room for; masks of more labels are words
ANYTHING = -1  # as the labels of a second row: any, or the match has one row
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = range(4)
DONE, FULL, DEEP, FORGETFUL, PAUSED, UNMAPPED, ENDLESS, WAITING = range(8)
NO_MATCH = -1  # result of an attempt; -2 and below: -1 minus the reason why it stopped
NEVER = 1 << 62  # as a number of steps, or a deadline
ANY_TIME = -2  # as a window: unbounded; -1 admits no second row
HIDDEN = 1 << 14  # in a label: the row is not shown
REGISTER, FROM_END, FROM_START = range(3)  # sources of keys
POSITION, NULLS = -1, -2
NO_ROW = -1  # as a key: the set has no such row
EQUAL, WHOLE, DOUBLE = range(
    3
)  # orders of keys: only equal ones will do; whole numbers; doubles. Negative: falling


class Instruction(Record):
    """A step of a pattern (see `instructions`)."""

    op: int
    a: int
    b: int
    hidden: int  # for ROW: whether the row is hidden; CHECK: the bit of an iteration; SPLIT: see `mark_tests`


class Choice(Record):
    """An untried alternative: instruction, row, and iterations that have mapped a row; registers follow."""

    pc: int
    row: int
    progress: int


class Tried(Record):
    """A state from which a search has failed, and its epoch; the values of its keys follow."""

    epoch: int
    pc: int
    row: int
    progress: int


class MemoKey(Record):
    """A value on which the future of a search depends: a register, or the n-th row of a set from an end.

    Of a row it is the position, the value of a column, or whether that is null.
    """

    source: int
    set: int
    n: int
    column: int  # the number of a column; POSITION; or NULLS - the number of a column
    order: int  # EQUAL; or the order of keys, if a state fails where one with a key that is not less has


class FoundMatch(Record):
    """A match."""

    start: int
    length: int
    number: int
    partition: int
    timeout: int


class Entries(Record):
    """The rows at which searches of a slice begin: the next one, the end, and the room for matches."""

    next: int
    end: int
    room: int  # rows of matches that are left before no further search begins


class OpenPartition(Record):
    """A partition to which rows may be added, before and after a search."""

    row: int  # where the search goes on
    first: int  # its first row; -1: that row is gone
    number: int  # how many matches it has had
    deadline: int  # the search waits for a row, or for the time after this one


class SearchWorkspace(Record):
    """The state of a search."""

    # the clause
    first: int  # a bit for each label that the first row of a match can have
    second: int  # a bit for each label that the second row can have
    needs: int  # a bit for each label without which a partition has no match
    nullable: int
    dependent: int  # a bit for each label with a condition that is tested during the search
    updates: int  # a bit for each label whose rows change registers
    label_count: int
    register_count: int
    key_count: int
    equal_count: int  # how many keys, the first ones, must be equal
    skip: int
    skip_to: int  # a bit for each label of the row to skip to
    within: int
    no_time: int  # the number that stands for null
    timeouts: int
    shares: int  # whether the memo stays valid for searches from later rows
    forgives: int  # whether a skip without a target goes past the last row, and is counted
    reach: int  # how many rows after a row of a match the clause reads
    # limits
    heavy: int  # further steps that a look-up in the memo counts as
    alarm: int  # steps after which a search checks its limits
    patience: int  # steps after which a search uses the memo
    # rows
    start: int
    stop: int
    partitions: int
    stride: int
    wide: int  # the logarithm of the bytes of a mask
    # tables
    context: Context
    masks: int
    code: Rows[Instruction]
    offsets: Words
    times: Words
    registers: Words
    positions: Words
    keys: Rows[MemoKey]
    stack: Table[Choice]
    memo: Table[Tried]
    labels: Words  # of the present path, by row of the partition
    cut: Words  # the labels of a time-out
    found: Table[FoundMatch]
    found_labels: Words
    states: Rows[OpenPartition]  # of the partitions of a stream
    labels_room: int
    # state between calls
    partition: int
    row: int
    last: int
    number: int
    epoch: int
    remembered: int
    match_count: int
    labelled: int
    cut_length: int
    touched: int
    pc: int
    at: int
    progress: int
    depth: int
    steps: int
    left: int
    until: int
    walked: int
    # the partition under way
    begin: int  # its first row; -1: that row is gone
    end: int  # the row after its last known one
    open: int  # whether rows may be added
    now: int  # the time before which no row will be added
    deadline: int
    forgiven: int
    keeps: int  # whether a search that waits keeps its state for the next call


REGISTERS = Choice.WORDS
KEYS = Tried.WORDS
