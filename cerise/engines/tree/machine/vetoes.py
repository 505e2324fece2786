"""Judges negated variables: no event of their leaf may lie in a stretch around or inside a match (S6)."""

from __future__ import annotations

from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import (
    JoinMachine,
    JoinRow,
    OutputRecord,
    VetoRecord,
    column_of,
    compare,
    earlier,
    later,
)
from cerise.engines.tree.machine.match_events import TRUTH, event_of, holds_for_all, leaf_row, seq_of, size_of
from cerise.engines.tree.machine.row_index import fill_index, find_keys, flags_of, is_null, mix, skip_newer
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words


@kernel()
def is_vetoed(
    m: JoinMachine, output: OutputRecord, row: JoinRow, first: int, since: int, waiting: int
) -> bool:
    """Whether an event vetoes a match.

    Args:
        m: the memory of the team.
        output: the branch.
        row: the row of the match.
        first: the number of the match's first event.
        since: the point of that event.
        waiting: whether to ask the negated variables whose stretch ends after the match, or the others.
    """
    for v in range(output.vetoes, output.vetoes_end):
        veto = m.vetoes[v]
        if veto.waits == waiting and occurs(m, output, row, veto, first, since):
            return True
    return False


@kernel()
def occurs(
    m: JoinMachine, output: OutputRecord, row: JoinRow, veto: VetoRecord, first: int, since: int
) -> bool:
    """Whether an event of a negated variable lies in its stretch, and passes its tests."""
    if m.depth < 0 and not aim(m, output, row, veto):
        return False
    if veto.around != 0:
        return lacks_room(m, output, row, veto)
    pool = m.pools[veto.leaf]
    after, before, least, most = at.MIN, at.MAX, at.MIN, at.MAX
    if veto.anywhere != 0:
        least, most = earlier(row.until, output.window), later(since, output.window)
    elif veto.after == 0:
        before, least = first, earlier(row.until, output.window)
    elif veto.before == 0:
        after, most = row.last, later(since, output.window)
    else:
        after, before = find_stretch(m, output, row, veto)
    part = find_part(m, output, row)
    seqs, points = Words(column_of(m, veto.leaf, at.SEQ)), Words(column_of(m, veto.leaf, at.POINT))
    parts = Words(column_of(m, veto.leaf, at.PART))
    if veto.index >= 0:
        index = m.indexes[veto.index]
        if index.done < pool.count:
            find_keys(m, index)
            fill_index(m, veto.index, pool.count)  # it has room: it grows with its leaf
        event = index.heads[mix(0, part) & index.mask] - 1
        event = skip_newer(index, pool, event, pool.count, before, most if pool.in_order != 0 else at.MAX)
        while event >= pool.base and seqs[event] > after:
            if pool.in_order != 0 and points[event] < least:
                return False
            if parts[event] == part and seqs[event] < before and least <= points[event] <= most:
                if vetoes(m, output, row, veto, event, seqs[event]):
                    return True
            event = index.links[event - pool.start].next - 1
        return False
    event = pool.base
    if after > at.MIN:
        event = find_at_least(seqs, event, pool.count, after + 1)
    elif pool.in_order != 0:
        event = find_at_least(points, event, pool.count, least)
    while event < pool.count and seqs[event] < before:
        if pool.in_order != 0 and points[event] > most:
            return False
        if parts[event] == part and least <= points[event] <= most:
            if vetoes(m, output, row, veto, event, seqs[event]):
                return True
        event += 1
    return False


@kernel()
def aim(m: JoinMachine, output: OutputRecord, row: JoinRow, veto: VetoRecord) -> bool:
    """Read the match's side of all tests once, not for each negated event; False: one is null."""
    for t in range(veto.tests, veto.tests_end):
        test = m.output_tests[t]
        test.values = Words(column_of(m, test.left_leaf, test.left_column))
        test.flags = Words(flags_of(m, test.left_leaf, test.left_flag))
        if test.right_slot == TRUTH:
            test.value_op, test.value = at.UNEQUAL, 0
        else:
            other = leaf_row(m, output, row, test.right_slot)
            if is_null(Words(flags_of(m, test.right_leaf, test.right_flag)), test.right_bit, other):
                return False
            test.value_op = test.op
            test.value = Words(column_of(m, test.right_leaf, test.right_column))[other]
    return True


@kernel()
def passes_all(m: JoinMachine, veto: VetoRecord, event: int) -> bool:
    """Whether a negated event passes the tests, after `aim`."""
    for t in range(veto.tests, veto.tests_end):
        test = m.output_tests[t]
        if not compare(test.value_op, test.values[event], test.value):
            return False
        if is_null(test.flags, test.left_bit, event):
            return False
    return True


@kernel()
def find_at_least(values: Words, low: int, end: int, least: int) -> int:
    """Return the first row whose value is not below a bound; values ascend."""
    while low < end:
        middle = (low + end) >> 1
        if values[middle] < least:
            low = middle + 1
        else:
            end = middle
    return low


@kernel()
def lacks_room(m: JoinMachine, output: OutputRecord, row: JoinRow, veto: VetoRecord) -> bool:
    """Whether negated events leave no room for a match around a row that lacks some of its events.

    `NOT` in an AND forbids all points from last - w to first + w (S6.3): whatever the other events are, this
    stretch holds the row and is a window long. So no negated event may lie inside the row, and those before
    and after it must be more than a window apart.
    """
    pool = m.pools[veto.leaf]
    seqs, points = Words(column_of(m, veto.leaf, at.SEQ)), Words(column_of(m, veto.leaf, at.POINT))
    then = find_at_least(seqs, pool.base, pool.count, row.first)
    before, most = then - 1, later(row.since, output.window)
    while then < pool.count and points[then] <= most:
        if vetoes(m, output, row, veto, then, seqs[then]):
            least = earlier(points[then], output.window)
            if seqs[then] < row.last:
                return True
            while before >= pool.base and points[before] >= least:
                if vetoes(m, output, row, veto, before, seqs[before]):
                    return True
                before -= 1
            return False
        then += 1
    return False


@kernel()
def find_stretch(m: JoinMachine, output: OutputRecord, row: JoinRow, veto: VetoRecord) -> tuple[int, int]:
    """Return the numbers of the events around the stretch between two parts of a match."""
    after, before = at.MIN, at.MAX
    for slot in range(output.slots):
        if veto.after >> slot & 1:
            after = max(after, seq_of(m, output, slot, leaf_row(m, output, row, slot)))
        if veto.before >> slot & 1:
            event = event_of(m, output, row, slot, size_of(m, slot) - 1)
            before = min(before, seq_of(m, output, slot, event))
    return after, before


@kernel()
def find_part(m: JoinMachine, output: OutputRecord, row: JoinRow) -> int:
    """Return the partition of a match."""
    return Words(column_of(m, m.words[output.leaves], at.PART))[leaf_row(m, output, row, 0)]


@kernel()
def vetoes(
    m: JoinMachine, output: OutputRecord, row: JoinRow, veto: VetoRecord, event: int, seq: int
) -> bool:
    """Whether an event passes the tests of a negated variable; events of the match itself never do (S6.5)."""
    if m.depth < 0:
        if not passes_all(m, veto, event):
            return False
    else:  # tests may concern several events of a Kleene variable
        for t in range(veto.tests, veto.tests_end):
            if not holds_for_all(m, output, row, m.output_tests[t], event):
                return False
    if veto.shares != 0:
        for slot in range(output.slots):
            for back in range(size_of(m, slot)):
                if seq_of(m, output, slot, event_of(m, output, row, slot, back)) == seq:
                    return False
    return True
