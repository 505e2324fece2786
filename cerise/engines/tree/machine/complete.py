"""Makes matches of joined rows: the window of the query, Kleene variables, negated events, and the output.

The joins of a row hold for all queries that share it. Here each query tests the rest by itself: its own
window and SLIDE, tests between Kleene variables, and absences.
"""

from __future__ import annotations

from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.chains import (
    count_choices,
    fits_slots,
    is_summed,
    links_hold,
    may_join,
    reaches_back,
)
from cerise.engines.tree.machine.join import join
from cerise.engines.tree.machine.join_records import (
    ExpandFrame,
    JoinMachine,
    JoinRow,
    OutputRecord,
    RepeatRecord,
    column_of,
    earlier,
    later,
)
from cerise.engines.tree.machine.match_events import (
    FIRST,
    LATER,
    event_of,
    holds_for_all,
    is_open,
    leaf_row,
    one_window,
    seq_of,
)
from cerise.engines.tree.machine.pool_rows import expire, row_at, sort_new
from cerise.engines.tree.machine.row_skips import move_skips
from cerise.engines.tree.machine.vetoes import find_part, is_vetoed
from cerise.kernels.jit import int64, kernel, void
from cerise.kernels.records import Words

# ---- one pool, one row


@kernel()
def show_pool(m: JoinMachine, number: int) -> int:
    """Write the matches of the new rows of a pool, output by output."""
    pool = m.pools[number]
    if m.output < 0:
        m.output, m.row, m.depth = pool.outputs, pool.old, -1
    while m.output < pool.outputs_end:
        output = m.outputs[m.output]
        while m.row < pool.count:
            row = row_at(pool, m.row)
            if row.until <= later(row.since, output.window):
                if output.repeats == output.repeats_end:
                    status = finish(m, output, row)
                elif is_summed(m, output):
                    status = count_choices(m, output, row)
                else:
                    status = expand(m, output, row)
                if status != at.DONE:
                    return status
            m.row += 1
        m.output += 1
        m.row = pool.old
    m.output = -1
    return at.DONE


@kernel()
def finish(m: JoinMachine, output: OutputRecord, row: JoinRow) -> int:
    """Judge a whole match, and write it, or let it wait."""
    first, since = row.first, row.since
    for r in range(output.repeats, output.repeats_end):
        repeat = m.repeats[r]
        event = event_of(m, output, row, repeat.slot, m.sizes[repeat.slot] - 1)
        seq = Words(column_of(m, repeat.leaf, at.SEQ))[event]
        if seq < first:
            first, since = seq, Words(column_of(m, repeat.leaf, at.POINT))[event]
    if output.slide > 0 and not one_window(output, since, row.until):
        return at.DONE
    if m.opens_all == 0 and not is_open(m, output, row, first):
        return at.DONE
    for t in range(output.pairs, output.pairs_end):
        if not holds_for_all(m, output, row, m.output_tests[t], -1):
            return at.DONE
    if output.vetoes < output.vetoes_end and is_vetoed(m, output, row, first, since, 0):
        return at.DONE
    if output.waits != 0:
        if is_vetoed(m, output, row, first, since, 1):
            return at.DONE
        if (m.position if output.by_position else m.now) <= later(since, output.window):
            return wait(m, output, row)
    return at.DONE if m.muted != 0 else emit(m, output, row)


@kernel()
def wait(m: JoinMachine, output: OutputRecord, row: JoinRow) -> int:
    """Let a match wait until no event can veto it."""
    pool = m.pools[output.pending]
    if pool.count - pool.start >= pool.room:
        m.needs = output.pending
        return at.POOL_FULL
    copy_row(row, row_at(pool, pool.count), pool.width)
    pool.count += 1
    return at.DONE


@kernel()
def copy_row(row: JoinRow, to: JoinRow, width: int) -> None:
    """Copy a row."""
    for word in range(width):
        to[word] = row[word]


@kernel()
def emit(m: JoinMachine, output: OutputRecord, row: JoinRow) -> int:
    """Write a match: for each slot the number of its events, and the events' numbers in the stream."""
    if output.counts != 0:
        output.counted += 1
        return at.DONE
    if m.depth >= 0 and output.made >= m.most:
        return at.TOO_MANY
    words = output.slots
    for slot in range(output.slots):
        words += m.sizes[slot] if m.depth >= 0 else 1
    if m.matches >= m.match_room or m.found_end + words > m.found_room:
        m.needs = words
        return at.OUTPUT_FULL
    output.made += 1
    m.owners[m.matches] = m.output
    m.starts[m.matches] = m.found_end
    m.parts[m.matches] = find_part(m, output, row)
    m.matches += 1
    end = m.found_end
    for slot in range(output.slots):
        size = m.sizes[slot] if m.depth >= 0 else 1
        m.found[end] = size
        for i in range(size):
            event = event_of(m, output, row, slot, size - 1 - i)
            m.found[end + 1 + i] = seq_of(m, output, slot, event)
        end += 1 + size
    m.found_end = end
    return at.DONE


# ---- Kleene variables


@kernel()
def expand(m: JoinMachine, output: OutputRecord, row: JoinRow) -> int:
    """Choose the events of Kleene variables before their last ones, depth first, and finish each choice."""
    if m.depth < 0:
        for slot in range(output.slots):
            m.bases[slot], m.sizes[slot] = -1, 1
        output.made = 0
        open_repeat(m, output, row, output.repeats)
    while m.depth >= 0:
        frame = m.frames[m.depth]
        repeat = m.repeats[frame.repeat]
        if m.depth + 2 >= m.frame_room:
            return at.STACK_FULL
        m.sizes[repeat.slot] = frame.size
        if frame.closed == 0:
            frame.closed = 1
            full = repeat.high >= 0 and frame.size >= repeat.high
            if full or not fits_slots(m, output, row, repeat, LATER, frame.row):
                frame.cursor = -1
            if frame.size >= repeat.low and fits_slots(m, output, row, repeat, FIRST, frame.row):
                if frame.repeat + 1 < output.repeats_end:
                    open_repeat(m, output, row, frame.repeat + 1)
                    continue
                status = finish(m, output, row)
                if status != at.DONE:
                    frame.closed = 0
                    return status
        event = find_earlier(m, output, row, repeat, frame)
        if event < 0:
            m.depth -= 1
        else:
            frame.cursor = event - 1
            m.depth += 1
            deeper = m.frames[m.depth]
            deeper.repeat, deeper.row, deeper.size = frame.repeat, event, frame.size + 1
            deeper.cursor, deeper.closed = event - 1, 0
        m.steps += 1
        if m.steps >= m.patience and m.depth >= 0:
            m.steps = 0
            return at.PAUSED
    return at.DONE


@kernel()
def open_repeat(m: JoinMachine, output: OutputRecord, row: JoinRow, r: int) -> None:
    """Begin the choice of a Kleene variable's events with its last event."""
    m.depth += 1
    frame, slot = m.frames[m.depth], m.repeats[r].slot
    frame.repeat, frame.row, frame.size = r, leaf_row(m, output, row, slot), 1
    frame.cursor, frame.closed = frame.row - 1, 0
    m.bases[slot], m.sizes[slot] = m.depth, 1


@kernel()
def find_earlier(
    m: JoinMachine, output: OutputRecord, row: JoinRow, repeat: RepeatRecord, frame: ExpandFrame
) -> int:
    """Return the next event that may come before the first one of a Kleene variable; -1: none may."""
    pool = m.pools[repeat.leaf]
    seqs, points = Words(column_of(m, repeat.leaf, at.SEQ)), Words(column_of(m, repeat.leaf, at.POINT))
    after, least = reaches_back(m, output, row, repeat), earlier(row.until, output.window)
    event = frame.cursor
    while event >= pool.base:
        m.steps += 1
        if seqs[event] <= after or (pool.in_order != 0 and points[event] < least):
            return -1
        if links_hold(m, repeat, event, frame.row) and may_join(m, output, row, repeat, event):
            return event
        event -= 1
    return -1


# ---- kernels that Python calls


@kernel(int64(int64))
def join_inner(machine: int) -> int:
    """Join all nodes whose rows other nodes read; returns why it stops."""
    m = JoinMachine(machine)
    while m.node < m.inner_count:
        status = at.DONE
        if m.begun < 2:  # else its rows lacked the room to be sorted
            status = join(m, m.node)
            m.begun = 2 if status == at.DONE else m.begun
        if status == at.DONE:
            status = sort_new(m, m.pools[m.nodes[m.node].out])
        if status != at.DONE:
            return status
        m.begun = 0
        m.node += 1
    return at.DONE


@kernel(int64(int64))
def write_matches(machine: int) -> int:
    """Write the matches that new rows make; joins final nodes on the way. Returns why it stops."""
    m = JoinMachine(machine)
    while m.node < m.inner_count + m.shown_count:
        status = show_pool(m, m.shown[m.node - m.inner_count])
        if status != at.DONE:
            return status
        m.node += 1
    last = m.node_count + m.shown_count
    while m.node < last:
        n = m.node - m.shown_count
        node = m.nodes[n]
        pool = m.pools[node.out]
        status = at.DONE
        if m.output < 0:  # else it stopped while it wrote the matches of a full pool
            status = join(m, n)
            if status not in (at.DONE, at.POOL_FULL):
                return status
            m.begun += 2 if status == at.DONE else 0
        shown = show_pool(m, node.out)
        if shown != at.DONE:
            return shown
        pool.count = pool.old
        if m.begun >= 2:
            m.begun = 0
            m.node += 1
    return at.DONE


@kernel(int64(int64, int64, int64))
def release(machine: int, now: int, over: int) -> int:
    """Write the waiting matches that no event from `now` on can veto; all of them, if the stream is over.

    Where a window counts events, the position of the next event decides.
    """
    m = JoinMachine(machine)
    while m.output < m.output_count:
        output = m.outputs[m.output]
        if output.waits != 0:
            pool = m.pools[output.pending]
            if m.begun == 0:
                m.row, m.low, m.begun = pool.start, pool.start, 1
            until = m.position if output.by_position else now
            while m.row < pool.count:
                row = row_at(pool, m.row)
                if over == 0 and until <= later(row.since, output.window):
                    copy_row(row, row_at(pool, m.low), pool.width)
                    m.low += 1
                elif m.muted == 0 and not is_vetoed(m, output, row, row.first, row.since, 1):
                    status = emit(m, output, row)
                    if status != at.DONE:
                        return status
                m.row += 1
            pool.count = m.low
            pool.old = m.low
            m.begun = 0
        m.output += 1
    return at.DONE


@kernel(void(int64, int64, int64))
def end_piece(machine: int, time: int, position: int) -> None:
    """End a piece: its rows are old now, and rows whose window has passed leave."""
    m = JoinMachine(machine)
    expire(m, time, position)
    move_skips(m)
