"""The events of a Kleene variable before its last one: which may be chosen, and how many choices there are.

Where matches are only counted, the choices are added up instead of made: those that begin with an event are
as many as those that begin with any later event that may follow it.
"""

from __future__ import annotations

from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import (
    JoinMachine,
    JoinRow,
    OutputRecord,
    RepeatRecord,
    column_of,
    earlier,
)
from cerise.engines.tree.machine.match_events import (
    EVERY,
    FIRST,
    LATER,
    compare_events,
    event_of,
    is_open,
    leaf_row,
    one_window,
    seq_of,
)
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words

MOST_COUNTED = 2**61  # matches of one query before they are taken out: sums of two stay within a word


@kernel()
def reaches_back(m: JoinMachine, output: OutputRecord, row: JoinRow, repeat: RepeatRecord) -> int:
    """Return the number of the event that all events of a Kleene variable come after."""
    after = at.MIN
    for slot in range(output.slots):
        if repeat.before >> slot & 1:
            after = max(after, seq_of(m, output, slot, leaf_row(m, output, row, slot)))
    return after


@kernel()
def may_join(m: JoinMachine, output: OutputRecord, row: JoinRow, repeat: RepeatRecord, event: int) -> bool:
    """Whether an event may be one of a Kleene variable, whatever its neighbours are."""
    points, parts = Words(column_of(m, repeat.leaf, at.POINT)), Words(column_of(m, repeat.leaf, at.PART))
    return (
        parts[event] == parts[leaf_row(m, output, row, repeat.slot)]
        and points[event] >= earlier(row.until, output.window)
        and is_new(m, output, row, Words(column_of(m, repeat.leaf, at.SEQ))[event])
        and fits_slots(m, output, row, repeat, EVERY, event)
    )


@kernel()
def is_new(m: JoinMachine, output: OutputRecord, row: JoinRow, seq: int) -> bool:
    """Whether an event is not part of the match yet (S1.4)."""
    for slot in range(output.slots):
        for i in range(m.sizes[slot]):
            if seq_of(m, output, slot, event_of(m, output, row, slot, i)) == seq:
                return False
    return True


@kernel()
def links_hold(m: JoinMachine, repeat: RepeatRecord, event: int, then: int) -> bool:
    """Whether two neighbours among the events of a Kleene variable pass their tests."""
    for t in range(repeat.links, repeat.links_end):
        if not compare_events(m, m.output_tests[t], event, then):
            return False
    return True


@kernel()
def fits_slots(
    m: JoinMachine, output: OutputRecord, row: JoinRow, repeat: RepeatRecord, which: int, event: int
) -> bool:
    """Whether an event of a Kleene variable passes tests against single variables."""
    for t in range(repeat.tests, repeat.tests_end):
        test = m.output_tests[t]
        if test.left_which == which:
            other = -1 if test.right_slot == -2 else leaf_row(m, output, row, test.right_slot)
            if not compare_events(m, test, event, other):
                return False
    return True


# ---- counting


@kernel()
def is_summed(m: JoinMachine, output: OutputRecord) -> bool:
    """Whether choices are only added up: no event of the Kleene variable decides when the match starts."""
    if output.summed == 0:
        return False
    return m.repeats[output.repeats].before != 0 or (m.opens_all != 0 and output.slide == 0)


@kernel()
def count_choices(m: JoinMachine, output: OutputRecord, row: JoinRow) -> int:
    """Count the choices of a Kleene variable's events before its last one; returns why it stops.

    A frame is an event that may be chosen, with the number of choices that begin with it.
    """
    repeat = m.repeats[output.repeats]
    for slot in range(output.slots):
        m.bases[slot], m.sizes[slot] = -1, 1
    if m.muted != 0 or (m.opens_all == 0 and not is_open(m, output, row, row.first)):
        return at.DONE
    if output.slide > 0 and not one_window(output, row.since, row.until):
        return at.DONE
    seqs, points = Words(column_of(m, repeat.leaf, at.SEQ)), Words(column_of(m, repeat.leaf, at.POINT))
    pool = m.pools[repeat.leaf]
    after, least = reaches_back(m, output, row, repeat), earlier(row.until, output.window)
    event = leaf_row(m, output, row, repeat.slot)
    kept, total, ways = 0, 0, 1
    while True:
        if ways > 0:
            if kept + 2 >= m.frame_room:
                return at.STACK_FULL
            frame = m.frames[kept]
            frame.row, frame.size = event, ways
            kept += 1 if fits_slots(m, output, row, repeat, LATER, event) else 0
            total += ways if fits_slots(m, output, row, repeat, FIRST, event) else 0
            if total > MOST_COUNTED - output.counted:
                return at.UNCOUNTABLE
        event -= 1
        if event < pool.base or seqs[event] <= after or (pool.in_order != 0 and points[event] < least):
            break
        ways = 0
        if may_join(m, output, row, repeat, event):
            ways = sum_choices(m, repeat, event, kept)
            if ways < 0:
                return at.UNCOUNTABLE
    output.counted += total
    return at.DONE


@kernel()
def sum_choices(m: JoinMachine, repeat: RepeatRecord, event: int, kept: int) -> int:
    """Return how many choices an event makes when it comes before those of the frames; -1: too many."""
    ways = 0
    for i in range(kept):
        frame = m.frames[i]
        if links_hold(m, repeat, event, frame.row):
            if ways > MOST_COUNTED - frame.size:
                return -1
            ways += frame.size
    return ways
