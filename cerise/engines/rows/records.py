"""The memory of a search: the records that kernels and generated code read and write, by name."""

from __future__ import annotations

from cerise.engines.results.context import Context
from cerise.kernels.records import Record, Rows, Table, Words

FITS = -1  # asks generated code for the labels that each row from d to e could have; r: where to write them
BYTE = 8  # labels that a mask of one byte has room for; masks of more labels are words
ANYTHING = -1  # as the labels of a second row: a match may have one row only
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = range(4)
DONE, FULL, DEEP, FORGETFUL, PAUSED, UNMAPPED, ENDLESS = range(7)
NO_MATCH = -1  # of an attempt; -2 and below: it stopped, for the reason of that number
NEVER = 1 << 62  # as a number of steps
ANY_TIME = -2  # as a window; -1 takes no second row
HIDDEN = 1 << 14  # in a label: the row is not shown
REGISTER, FROM_END, FROM_START = range(3)  # sources of keys


class Instruction(Record):
    """A step of a pattern (see `instructions`)."""

    op: int
    a: int
    b: int
    hidden: int  # of a row: whether it is not shown; of CHECK: the bit of an iteration


class Choice(Record):
    """Where to go on, at which row, which iterations have mapped a row; the registers follow."""

    pc: int
    row: int
    progress: int


class Tried(Record):
    """A place from which a search has failed, and when; the values of its keys follow."""

    epoch: int
    pc: int
    row: int
    progress: int


class Key(Record):
    """A value on which the future of a search depends: a register, or the n-th row of a set from an end."""

    source: int
    set: int
    n: int


class Found(Record):
    """A match."""

    start: int
    length: int
    number: int
    partition: int
    timeout: int


class Entries(Record):
    """Where searches through a slice begin: the next row, the row after the last, and room for matches."""

    next: int
    end: int
    room: int  # rows that matches may have before no further search begins


class Workspace(Record):
    """All that a search knows."""

    # the clause
    first: int  # a bit for each label that the first row of a match can have
    second: int  # and the second one
    needs: int  # a bit for each label without which a partition has no match
    nullable: int
    dependent: int  # a bit for each label that is asked about during the search
    updates: int  # whether a mapped row changes registers
    label_count: int
    register_count: int
    key_count: int
    skip: int
    skip_to: int  # a bit for each label of the row to skip to
    within: int
    no_time: int  # the number that stands for no time
    timeouts: int
    shares: int  # whether places stay tried for the searches from later rows
    # limits
    heavy: int  # further steps that it counts as to remember a place
    alarm: int  # steps after which a search counts them
    patience: int  # steps after which a search remembers places
    # which rows
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
    keys: Rows[Key]
    stack: Table[Choice]
    memo: Table[Tried]
    labels: Words  # of the rows of the match under way, by row of the partition
    cut: Words  # the labels of a match that time cut off
    found: Table[Found]
    found_labels: Words
    labels_room: int
    # where it stands between calls
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


REGISTERS = Choice.WORDS
KEYS = Tried.WORDS
