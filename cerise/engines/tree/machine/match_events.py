"""The events of the match under trial: the rows of its slots, and the chosen events of Kleene variables."""

from __future__ import annotations

from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import (
    JoinMachine,
    JoinRow,
    OutputRecord,
    OutputTest,
    column_of,
    compare,
    later,
)
from cerise.engines.tree.machine.row_index import flags_of, is_null
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words

EVERY, FIRST, LAST, LATER = range(4)  # join_branch.Which
TRUTH = -2  # the right slot of a test whose left column holds a truth value
NEGATED = -1  # the slot of a negated event


@kernel()
def leaf_row(m: JoinMachine, output: OutputRecord, row: JoinRow, slot: int) -> int:
    """Return the row of a slot's event in its leaf; of a Kleene variable, that of its last event."""
    return row[m.words[output.words + slot]]


@kernel()
def seq_of(m: JoinMachine, output: OutputRecord, slot: int, event: int) -> int:
    """Return the number in the stream of an event of a slot."""
    return Words(column_of(m, m.words[output.leaves + slot], at.SEQ))[event]


@kernel()
def event_of(m: JoinMachine, output: OutputRecord, row: JoinRow, slot: int, back: int) -> int:
    """Return the row of a slot's event, counted back from its last one."""
    if back == 0 or m.bases[slot] < 0:
        return leaf_row(m, output, row, slot)
    return m.frames[m.bases[slot] + back].row


@kernel()
def size_of(m: JoinMachine, slot: int) -> int:
    """Return how many events a slot has."""
    return m.sizes[slot] if m.depth >= 0 else 1


@kernel()
def is_open(m: JoinMachine, output: OutputRecord, row: JoinRow, first: int) -> bool:
    """Whether a match may start with its first event: another slice owns it otherwise."""
    for slot in range(output.slots):
        event = event_of(m, output, row, slot, size_of(m, slot) - 1)
        if seq_of(m, output, slot, event) == first:
            return Words(column_of(m, m.words[output.leaves + slot], at.OPENS))[event] != 0
    return False


@kernel()
def compare_events(m: JoinMachine, test: OutputTest, one: int, other: int) -> bool:
    """Whether a test holds for two events, given as rows of their leaves."""
    if is_null(Words(flags_of(m, test.left_leaf, test.left_flag)), test.left_bit, one):
        return False
    left = Words(column_of(m, test.left_leaf, test.left_column))[one]
    if test.right_slot == TRUTH:
        return left != 0
    if is_null(Words(flags_of(m, test.right_leaf, test.right_flag)), test.right_bit, other):
        return False
    return compare(test.op, left, Words(column_of(m, test.right_leaf, test.right_column))[other])


@kernel()
def first_back(m: JoinMachine, slot: int, which: int) -> int:
    """Return the first of the events that a test concerns, counted back from the last event of its slot."""
    if slot < 0:
        return 0
    return size_of(m, slot) - 1 if which == FIRST else 0


@kernel()
def last_back(m: JoinMachine, slot: int, which: int) -> int:
    """Return the end of the events that a test concerns, counted back from the last event of its slot."""
    if slot < 0 or which == LAST:
        return 1
    return size_of(m, slot) - 1 if which == LATER else size_of(m, slot)


@kernel()
def holds_for_all(m: JoinMachine, output: OutputRecord, row: JoinRow, test: OutputTest, negated: int) -> bool:
    """Whether a test holds for all events that it concerns; `negated` is the row of a negated event."""
    for i in range(
        first_back(m, test.left_slot, test.left_which), last_back(m, test.left_slot, test.left_which)
    ):
        one = negated if test.left_slot == NEGATED else event_of(m, output, row, test.left_slot, i)
        for j in range(
            first_back(m, test.right_slot, test.right_which), last_back(m, test.right_slot, test.right_which)
        ):
            other = -1 if test.right_slot < 0 else event_of(m, output, row, test.right_slot, j)
            if not compare_events(m, test, one, other):
                return False
    return True


@kernel()
def one_window(output: OutputRecord, since: int, until: int) -> bool:
    """Whether a window [k·s, k·s + w) holds two points (S5.3)."""
    into = since % output.slide
    return into < output.within and until <= later(since, output.within - 1 - into)
