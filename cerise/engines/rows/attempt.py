"""The search for the match that starts at one row, compiled: depth first in preferment order.

The state of a search is an instruction, a row, and registers: the counts and sums that conditions read.
Untried alternatives wait on a stack. Rows of a match are neighbours, so the labels so far are an array by
row, which backtracking overwrites. Two states with equal instruction, row and registers have equal futures,
so a long search keeps a memo of its states and continues from none of them twice. So `(A+)+ B` is linear.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.results.context import COLUMNS
from cerise.engines.rows.instructions import ACCEPT, CHECK, END, FIRST, MARK, ROW, SPLIT
from cerise.engines.rows.records import (
    ANY_TIME,
    DEEP,
    DOUBLE,
    FORGETFUL,
    FROM_END,
    HIDDEN,
    KEYS,
    NEVER,
    NO_MATCH,
    NO_ROW,
    NULLS,
    PAUSED,
    POSITION,
    REGISTER,
    REGISTERS,
    WAITING,
    Instruction,
    SearchWorkspace,
)
from cerise.kernels.jit import ask, kernel, load
from cerise.kernels.records import Rows, Words

GREATEST, INFINITY = 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000


@kernel(inline=True)
def mask_of(masks: int, wide: int, row: int) -> int:
    """Return the mask of labels that a row could have by itself; bits above the labels are undefined."""
    return load(masks + (row << wide))


@kernel()
def fails(code: Rows[Instruction], masks: int, wide: int, pc: int, row: int, high: int) -> bool:
    """Tell whether the mask of an existing row rules out the label of an instruction."""
    line = code[pc]
    if line.op != ROW or row >= high:
        return False
    return (mask_of(masks, wide, row) >> line.a) & 1 == 0


@kernel()
def expired(m: SearchWorkspace, start: int, row: int) -> bool:
    """Tell whether a row is outside the window that the first row of a match opens (M42)."""
    within, times, none = m.within, m.times, m.no_time
    if within == ANY_TIME or row == start:
        return False
    first, last = times[start], times[row]
    passed = last - first  # negative if it overflows 64 bits
    return passed > within or passed < 0 or none in (first, last)


@kernel()
def waits(m: SearchWorkspace, start: int, row: int) -> bool:
    """Tell whether a search that needs a row must wait for rows to be added; False: it has no such row.

    A row at or after the time `now` may be outside the window that the first row opens (M42). The row may
    be known, but not the rows after it that the clause reads.
    """
    m.deadline = NEVER
    if row < m.end:
        outside = expired(m, start, row)
    elif m.within == ANY_TIME:
        outside = False
    else:
        first, now = m.times[start], m.now
        passed = now - first  # negative if it overflows 64 bits
        outside = now >= first and (passed > m.within or passed < 0)
        m.deadline = first + m.within if first < NEVER - m.within else NEVER
    if outside:
        m.touched = 1
    return not outside


@kernel()
def copy_words(source: Words, target: Words, count: int) -> None:
    """Copy words from one address to another."""
    for i in range(count):
        target[i] = source[i]


@kernel(inline=True)
def map_row(m: SearchWorkspace, edge: Any, pc: int, row: int, progress: int, steps: int, start: int) -> int:
    """Check the memo and the remaining conditions for mapping a row to the label of an instruction.

    Returns:
        1: the row is mapped; 0: it is not; negative: minus the reason why the search stops.
    """
    label = m.code[pc].a
    if steps > m.patience:
        m.until -= m.heavy
        known = remember(m, pc, row, progress)
        if known != 0:
            return 0 if known > 0 else -FORGETFUL
    registers, context = m.registers, m.context
    if (m.dependent >> label) & 1 and ask(edge, label, registers, start, row, context, 0) == 0:
        return 0
    if (m.updates >> label) & 1:
        ask(edge, m.label_count + label, registers, start, row, context, 0)
    return 1


@kernel()
def save_timeout(m: SearchWorkspace, length: int, offset: int) -> None:
    """Save the labels of the first path that found no further row, for a time-out (M46)."""
    if m.timeouts and m.cut_length == 0 and length > 0:
        copy_words(m.labels[offset:], m.cut, length)
        m.cut_length = length


@kernel()
def note_position(m: SearchWorkspace, pc: int, row: int, progress: int, depth: int, steps: int) -> None:
    """Save the state of a search that stops, so that the next call resumes it."""
    m.pc = pc
    m.at = row
    m.progress = progress
    m.depth = depth
    m.steps = steps


@kernel()
def count_steps(m: SearchWorkspace, steps: int) -> None:
    """Subtract the steps of a long search from those left before the next pause."""
    m.left = m.until - steps
    m.until = m.left


@kernel()
def attempt(m: SearchWorkspace, edge: Any, low: int, high: int, start: int) -> int:
    """Return the end of the first match in preferment order that starts at a row, or NO_MATCH.

    A search that stops for another reason resumes when called again.
    """
    code, masks, wide, labels = m.code, m.masks, m.wide, m.labels
    registers, count, stack, timeouts = m.registers, m.register_count, m.stack, m.timeouts
    any_time = m.within == ANY_TIME
    slow_labels = m.dependent | m.updates  # labels that need `map_row`
    pc, row, progress, depth, steps, inside = 0, start, -1, 0, 0, -1  # the row inside is not expired
    patience, context = m.patience, m.context
    alarm, found = m.alarm, NO_MATCH  # up to this step a search is short, and its steps are not counted
    if m.depth >= 0:
        pc, row, progress = m.pc, m.at, m.progress
        depth, steps = m.depth, m.steps
        m.depth = -1
        m.until = steps + m.left
    else:
        for i in range(count):
            registers[i] = 0
        m.cut_length = 0
        m.touched = 0
    while True:
        steps += 1
        line = code[pc]
        op, a, b = line.op, line.a, line.b
        if op == ROW:
            beyond = row < high and row != inside and not any_time and expired(m, start, row)
            if row >= high or beyond:
                if row >= high and m.open and waits(m, start, row):
                    found = -WAITING - 1
                    break
                if beyond:
                    m.touched = 1
                save_timeout(m, row - start, start - low)
            elif (mask_of(masks, wide, row) >> a) & 1:
                mapped = 1
                if steps > alarm and steps > m.until:
                    found = -PAUSED - 1
                    break
                if steps > patience or (slow_labels >> a) & 1:
                    mapped = map_row(m, edge, pc, row, progress, steps, start)
                if mapped < 0:
                    found = mapped - 1
                    break
                if mapped > 0:
                    labels[row - low] = a + HIDDEN * line.hidden
                    pc, row, progress = b, row + 1, -1
                    continue
        elif op == SPLIT:
            if line.hidden and row < high and not any_time and row != inside and not expired(m, start, row):
                inside = row
            if line.hidden and row < high and (any_time or row == inside):
                label = code[a].a
                if (mask_of(masks, wide, row) >> label) & 1 == 0 or (
                    ask(edge, label, registers, start, row, context, 0) == 0
                ):
                    pc = b
                    continue
            seen = high  # a row beyond the window must not fail here, as a time-out may end before it
            if timeouts and row < high and expired(m, start, row):
                seen = row
            if fails(code, masks, wide, a, row, seen):
                pc = b
                continue
            if not fails(code, masks, wide, b, row, seen):
                if steps > alarm and steps > m.until:
                    found = -PAUSED - 1
                    break
                if depth >= stack.room:
                    found = -DEEP - 1
                    break
                choice = stack[depth]
                choice.pc = b
                choice.row = row
                choice.progress = progress
                copy_words(registers, Words(choice)[REGISTERS:], count)
                depth += 1
            pc = a
            continue
        elif op == MARK:
            pc, progress = b, progress & (-1 ^ (1 << a))
            continue
        elif op == CHECK:
            pc = a if (progress >> line.hidden) & 1 else b
            continue
        elif op == ACCEPT:
            found = row
            break
        elif (op == FIRST and row == m.begin) or (op == END and row == m.end):
            if op == END and m.open:  # only a row, or the end of the stream, can tell
                m.deadline = NEVER
                found = -WAITING - 1
                break
            if steps > alarm and steps > m.until:
                found = -PAUSED - 1
                break
            pc = a
            continue
        if depth == 0:
            break
        depth -= 1
        choice = stack[depth]
        pc, row, progress = choice.pc, choice.row, choice.progress
        copy_words(Words(choice)[REGISTERS:], registers, count)
    if steps > alarm:
        count_steps(m, steps + max(0, found - start))  # each row of the match is a step too
    if found < NO_MATCH:
        note_position(m, pc, row, progress, depth, steps)
    return found


# ---- the memo: states from which a search has failed


@kernel()
def read_key(m: SearchWorkspace, i: int) -> int:
    """Return the value of the i-th key of the memo, as it is kept in memory."""
    key = m.keys[i]
    which, n = key.set, key.n
    count = m.registers[which]
    if key.source == REGISTER:
        return count
    at = count - 1 - n if key.source == FROM_END else n
    if at < 0 or at >= count:
        return NO_ROW
    row, column = m.positions[which * m.stride + at], key.column
    if column == POSITION:
        return row
    context = m.context
    number = column if column >= 0 else NULLS - column
    null = (Words(context.nulls + context.step * row)[0] >> number) & 1
    if column < 0:
        return null
    return 0 if null else Words(Words(context)[COLUMNS + number])[row]


@kernel()
def key_of(m: SearchWorkspace, i: int) -> int:
    """Return the i-th key of the memo: a value on which the future of a search depends."""
    value, order = read_key(m, i), m.keys[i].order
    if order in (DOUBLE, -DOUBLE):  # as a number with the order of doubles; NaN is the greatest
        value = GREATEST if value & GREATEST > INFINITY else value ^ ((value >> 63) & GREATEST)
    return -1 - value if order < 0 else value


@kernel()
def remember(m: SearchWorkspace, pc: int, row: int, progress: int) -> int:
    """Add the state to the memo; return 0, or 1 if it must fail as one there did, or -1 if the memo is full.

    A state must fail if its first keys equal those of one that failed, and none of its other keys is greater.
    """
    size, keys, equal, epoch = m.memo.room, m.key_count, m.equal_count, m.epoch
    hashed = (pc * 0x9E3779B1 + row * 0x85EBCA77 + progress * 0xC2B2AE3D) & 0x7FFFFFFFFFFF
    for i in range(equal):
        hashed = ((hashed ^ (key_of(m, i) & 0xFFFFFFFF)) * 0x9E3779B1) & 0x7FFFFFFFFFFF
    at = (hashed ^ (hashed >> 17)) & (size - 1)
    entry = m.memo[at]
    while entry.epoch == epoch:
        same = entry.pc == pc and entry.row == row and entry.progress == progress
        i = 0
        while same and i < equal:
            same = entry[KEYS + i] == key_of(m, i)
            i += 1
        above = below = same
        while (above or below) and i < keys:
            key, other = key_of(m, i), entry[KEYS + i]
            above, below = above and key <= other, below and key >= other
            i += 1
        if above:
            return 1
        if below:  # the entry says less than this state
            break
        at = (at + 1) & (size - 1)
        entry = m.memo[at]
    if entry.epoch != epoch:
        if 2 * m.remembered >= size:
            return -1
        m.remembered += 1
    entry.epoch = epoch
    entry.pc = pc
    entry.row = row
    entry.progress = progress
    for i in range(keys):
        entry[KEYS + i] = key_of(m, i)
    return 0


@kernel()
def forget(m: SearchWorkspace) -> None:
    """Clear the memo."""
    m.epoch += 1
    m.remembered = 0
