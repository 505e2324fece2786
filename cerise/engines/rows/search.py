"""The search for row matches, compiled: depth first in preferment order, with what failed remembered.

A search stands at an instruction and a row, with the counts and sums that conditions ask for (registers).
What it has still to try lies on a stack. Rows of a match are neighbours, so the labels so far are an array
by row; going back overwrites it. Two searches with equal instruction, row and registers have equal futures:
once a search has been long, places are remembered, and none is searched from twice. So `(A+)+ B` is linear.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.rows.instructions import (
    ACCEPT,
    CHECK,
    END,
    FIRST,
    I_A,
    I_B,
    I_HIDDEN,
    I_OP,
    I_WORDS,
    MARK,
    ROW,
    SPLIT,
)
from cerise.engines.rows.layout import (
    ANY_TIME,
    ANYTHING,
    C_HIGH,
    C_LOW,
    C_NUMBER,
    DEEP,
    DONE,
    ENDLESS,
    FITS,
    FORGETFUL,
    FULL,
    G_BUDGET,
    G_COLS,
    G_CUT,
    G_DEPENDENT,
    G_FIRST,
    G_LABELLED,
    G_LABELS,
    G_LAST,
    G_MATCHES,
    G_NEEDS,
    G_NO_TIME,
    G_NULLABLE,
    G_NUMBER,
    G_PARTITION,
    G_PARTITIONS,
    G_PATIENCE,
    G_REGISTERS,
    G_REGS,
    G_ROW,
    G_SECOND,
    G_SHARES,
    G_SKIP,
    G_SKIP_TO,
    G_START,
    G_STOP,
    G_TIMEOUTS,
    G_TOUCHED,
    G_UPDATES,
    G_WIDE,
    G_WITHIN,
    HIDDEN,
    NO_MATCH,
    O_LENGTH,
    O_NUMBER,
    O_PARTITION,
    O_START,
    O_TIMEOUT,
    O_WORDS,
    PAST_LAST,
    S_PC,
    S_PROGRESS,
    S_REGISTERS,
    S_ROW,
    SPENT,
    T_CODE,
    T_CUT,
    T_LABELS,
    T_MASKS,
    T_OFFSETS,
    T_OUT,
    T_OUT_LABELS,
    T_OUT_LABELS_SIZE,
    T_OUT_SIZE,
    T_STACK,
    T_STACK_SIZE,
    T_TIMES,
    TO_FIRST,
    TO_NEXT,
    UNMAPPED,
)
from cerise.engines.rows.remembering import forgets, remembers
from cerise.kernels.jit import ask, get, int64, kernel, load, put, void

EACH_BYTE = 0x0101010101010101


@kernel(inline=True)
def mask_of(masks: int, wide: int, row: int) -> int:
    """Return which labels a row could have by itself; above those of the pattern, bits say nothing."""
    return load(masks + (row << wide))


@kernel()
def fails(code: int, masks: int, wide: int, pc: int, row: int, high: int) -> bool:
    """Whether a row, which is there, can be seen not to have the label that an instruction asks for."""
    line = code + 8 * I_WORDS * pc
    if get(line, I_OP) != ROW or row >= high:
        return False
    return (mask_of(masks, wide, row) >> get(line, I_A)) & 1 == 0


@kernel()
def expired(m: int, start: int, row: int) -> bool:
    """Whether a row is not in the window that the first row of a match opens (M42)."""
    within, times, none = get(m, G_WITHIN), get(m, T_TIMES), get(m, G_NO_TIME)
    if within == ANY_TIME or row == start:
        return False
    first, last = get(times, start), get(times, row)
    passed = last - first  # below zero where it does not fit into 64 bits
    return passed > within or passed < 0 or none in (first, last)


@kernel()
def copies(source: int, target: int, count: int) -> None:
    """Copy some words."""
    for i in range(count):
        put(target, i, get(source, i))


@kernel()
def maps(m: int, edge: Any, line: int, row: int, progress: int, steps: int, start: int) -> int:
    """Map a row to the label of an instruction, which it could have by itself, where more is asked.

    Returns:
        1 where it can be mapped, 0 where not; else minus the reason why the search stops.
    """
    label = get(line, I_A)
    if steps > get(m, G_PATIENCE):
        if steps > get(m, G_BUDGET):
            return -SPENT
        known = remembers(m, line, row, progress)
        if known != 0:
            return 0 if known > 0 else -FORGETFUL
    regs, cols = get(m, G_REGS), get(m, G_COLS)
    if (get(m, G_DEPENDENT) >> label) & 1 and ask(edge, label, regs, start, row, cols, 0) == 0:
        return 0
    if get(m, G_UPDATES):
        ask(edge, get(m, G_LABELS) + label, regs, start, row, cols, 0)
    return 1


@kernel()
def cuts(m: int, length: int, offset: int) -> None:
    """Keep the labels of the first way that found no further row (M46)."""
    if get(m, G_TIMEOUTS) and get(m, G_CUT) == 0 and length > 0:
        copies(get(m, T_LABELS) + 8 * offset, get(m, T_CUT), length)
        put(m, G_CUT, length)


@kernel()
def attempt(m: int, edge: Any, low: int, high: int, start: int) -> int:
    """Return where the first match in preferment order that starts at a row ends, or NO_MATCH."""
    code, masks, wide, labels = get(m, T_CODE), get(m, T_MASKS), get(m, G_WIDE), get(m, T_LABELS)
    regs, registers, stack = get(m, G_REGS), get(m, G_REGISTERS), get(m, T_STACK)
    width, room, timeouts = 8 * (S_REGISTERS + registers), get(m, T_STACK_SIZE), get(m, G_TIMEOUTS)
    any_time, patience = get(m, G_WITHIN) == ANY_TIME, get(m, G_PATIENCE)
    asked = -1 if get(m, G_UPDATES) else get(m, G_DEPENDENT)  # labels for which more is to do
    pc, row, progress, depth, steps = 0, start, -1, 0, 0
    for i in range(registers):
        put(regs, i, 0)
    put(m, G_CUT, 0)
    put(m, G_TOUCHED, 0)
    while True:
        steps += 1
        line = code + 8 * I_WORDS * pc
        op, a, b = get(line, I_OP), get(line, I_A), get(line, I_B)
        if op == ROW:
            beyond = row < high and not any_time and expired(m, start, row)
            if row >= high or beyond:
                if beyond:
                    put(m, G_TOUCHED, 1)
                cuts(m, row - start, start - low)
            elif (mask_of(masks, wide, row) >> a) & 1:
                mapped = 1
                if steps > patience or (asked >> a) & 1:
                    mapped = maps(m, edge, line, row, progress, steps, start)
                if mapped < 0:
                    return mapped - 1
                if mapped > 0:
                    put(labels, row - low, a + HIDDEN * get(line, I_HIDDEN))
                    pc, row, progress = b, row + 1, -1
                    continue
        elif op == SPLIT:
            seen = high  # a row beyond the window does not fail: it may be what a time-out lacks
            if timeouts and row < high and expired(m, start, row):
                seen = row
            if fails(code, masks, wide, a, row, seen):
                pc = b
                continue
            if not fails(code, masks, wide, b, row, seen):
                if depth >= room:
                    return -DEEP - 1
                entry = stack + width * depth
                put(entry, S_PC, b)
                put(entry, S_ROW, row)
                put(entry, S_PROGRESS, progress)
                copies(regs, entry + 8 * S_REGISTERS, registers)
                depth += 1
            pc = a
            continue
        elif op == MARK:
            pc, progress = b, progress & (-1 ^ (1 << a))
            continue
        elif op == CHECK:
            pc = a if (progress >> get(line, I_HIDDEN)) & 1 else b
            continue
        elif op == ACCEPT:
            return row
        elif (op == FIRST and row == low) or (op == END and row == high):
            pc = a
            continue
        if depth == 0:
            return NO_MATCH
        depth -= 1
        entry = stack + width * depth
        pc, row, progress = get(entry, S_PC), get(entry, S_ROW), get(entry, S_PROGRESS)
        copies(entry + 8 * S_REGISTERS, regs, registers)


@kernel()
def emits(m: int, labels: int, length: int, timeout: int) -> bool:
    """Write a match down, unless there is no room."""
    at, first = get(m, G_MATCHES), get(m, G_LABELLED)
    if at >= get(m, T_OUT_SIZE) or first + length > get(m, T_OUT_LABELS_SIZE):
        return False
    put(m, G_NUMBER, get(m, G_NUMBER) + 1)
    match = get(m, T_OUT) + 8 * O_WORDS * at
    put(match, O_START, get(m, G_ROW))
    put(match, O_LENGTH, length)
    put(match, O_NUMBER, get(m, G_NUMBER))
    put(match, O_PARTITION, get(m, G_PARTITION))
    put(match, O_TIMEOUT, timeout)
    copies(labels, get(m, T_OUT_LABELS) + 8 * first, length)
    put(m, G_MATCHES, at + 1)
    put(m, G_LABELLED, first + length)
    return True


@kernel()
def resumes(m: int, labels: int, start: int, end: int) -> int:
    """Return the row at which the search goes on after a match (M39), or minus why it cannot (M40)."""
    skip = get(m, G_SKIP)
    if end == start or skip == TO_NEXT:
        return start + 1
    if skip == PAST_LAST:
        return end
    found = -1
    for i in range(end - start):
        if (get(m, G_SKIP_TO) >> (get(labels, i) & (HIDDEN - 1))) & 1:
            found = i
            if skip == TO_FIRST:
                break
    return -UNMAPPED if found < 0 else -ENDLESS if found == 0 else start + found


@kernel()
def last_start(m: int, low: int, high: int) -> int:
    """Return after which row no match starts: from there on, no row could have some label that it needs."""
    needs, masks, wide = get(m, G_NEEDS), get(m, T_MASKS), get(m, G_WIDE)
    found, row = 0, high
    while row > low and found & needs != needs:
        row -= 1
        found |= mask_of(masks, wide, row)
    return row if found & needs == needs else low - 1


@kernel()
def enters(m: int, low: int, high: int) -> None:
    """Begin with a partition."""
    put(m, G_ROW, max(low, get(m, G_START)))
    put(m, G_LAST, min(get(m, G_STOP), last_start(m, low, high) + 1, high))
    put(m, G_NUMBER, 0)
    put(get(m, G_COLS), C_LOW, low)
    put(get(m, G_COLS), C_HIGH, high)
    forgets(m)


@kernel()
def may_start(m: int, row: int, high: int) -> bool:
    """Whether the labels of a row, and those of the next, allow that a match starts there."""
    if get(m, G_NULLABLE):
        return True
    second, masks, wide = get(m, G_SECOND), get(m, T_MASKS), get(m, G_WIDE)
    if mask_of(masks, wide, row) & get(m, G_FIRST) == 0:
        return False
    return second == ANYTHING or (row + 1 < high and mask_of(masks, wide, row + 1) & second != 0)


@kernel()
def next_start(m: int, row: int, high: int, last: int) -> int:
    """Return the first row from here on whose labels, and those of the next, allow that a match starts."""
    if get(m, G_NULLABLE):
        return row
    first, second, masks, wide = get(m, G_FIRST), get(m, G_SECOND), get(m, T_MASKS), get(m, G_WIDE)
    every = first * EACH_BYTE
    if second != ANYTHING:
        last = min(last, high - 1)  # after the last row there is none
    while row < last:
        if wide == 0:
            while row + 8 <= last and load(masks + row) & every == 0:
                row += 8
        while row < last and mask_of(masks, wide, row) & first == 0:
            row += 1
        if second == ANYTHING or row >= last or mask_of(masks, wide, row + 1) & second != 0:
            break
        row += 1
    return row if row < last else high


@kernel()
def steps_on(m: int, edge: Any, low: int, high: int, start: int) -> int:
    """Search from one row; return why the search must stop here, or DONE."""
    put(get(m, G_COLS), C_NUMBER, get(m, G_NUMBER) + 1)
    end = attempt(m, edge, low, high, start)
    if end < NO_MATCH:
        return -end - 1
    if end == NO_MATCH:
        if get(m, G_CUT) and not emits(m, get(m, T_CUT), get(m, G_CUT), 1):
            return FULL
        put(m, G_ROW, start + 1)
        if get(m, G_TOUCHED) or get(m, G_SHARES) == 0:
            forgets(m)
        return DONE
    labels = get(m, T_LABELS) + 8 * (start - low)
    after = resumes(m, labels, start, end)
    if after < 0:
        return -after
    if not emits(m, labels, end - start, 0):
        return FULL
    put(m, G_ROW, after)
    forgets(m)
    return DONE


@kernel(int64(int64, int64))
def scan(m: int, edge: Any) -> int:
    """Search partition after partition, from where the last call stopped; return why this one stops."""
    while get(m, G_PARTITION) < get(m, G_PARTITIONS):
        bounds = get(m, T_OFFSETS) + 8 * get(m, G_PARTITION)
        low, high = get(bounds, 0), get(bounds, 1)
        if get(m, G_ROW) < low:
            enters(m, low, high)
        last = get(m, G_LAST)
        while get(m, G_ROW) < last:
            start = next_start(m, get(m, G_ROW), high, last)
            put(m, G_ROW, start)
            if start >= last:
                break
            why = steps_on(m, edge, low, high, start)
            if why != DONE:
                forgets(m)  # what is on the way has not failed, and will be searched again
                return why
        put(m, G_PARTITION, get(m, G_PARTITION) + 1)
        put(m, G_ROW, -1)
    return DONE


@kernel(void(*[int64] * 7))
def judges(edge: Any, cols: int, offsets: int, partition: int, start: int, stop: int, out: int) -> None:
    """Find out which labels rows could have by themselves.

    Args:
        edge: the formulas that tell.
        cols: what they are told.
        offsets: where partitions start.
        partition: that of the first row.
        start: the first row.
        stop: the row after the last.
        out: room for a word for each row.
    """
    row = start
    while row < stop:
        while get(offsets, partition + 1) <= row:
            partition += 1
        high = get(offsets, partition + 1)
        put(cols, C_LOW, get(offsets, partition))
        put(cols, C_HIGH, high)
        until = min(high, stop)
        ask(edge, FITS, out + 8 * (row - start), row, until, cols, 0)
        row = until
