"""The search for the match that starts at one row, compiled: depth first in preferment order.

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
    DEEP,
    FORGETFUL,
    G_ALARM,
    G_AT,
    G_COLS,
    G_CUT,
    G_DEPENDENT,
    G_DEPTH,
    G_HEAVY,
    G_LABELS,
    G_LEFT,
    G_NO_TIME,
    G_PATIENCE,
    G_PC,
    G_PROGRESS,
    G_REGISTERS,
    G_REGS,
    G_STEPS,
    G_TIMEOUTS,
    G_TOUCHED,
    G_UNTIL,
    G_UPDATES,
    G_WIDE,
    G_WITHIN,
    HIDDEN,
    NO_MATCH,
    PAUSED,
    S_PC,
    S_PROGRESS,
    S_REGISTERS,
    S_ROW,
    T_CODE,
    T_CUT,
    T_LABELS,
    T_MASKS,
    T_STACK,
    T_STACK_SIZE,
    T_TIMES,
)
from cerise.engines.rows.remembering import remembers
from cerise.kernels.jit import ask, get, kernel, load, put


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
        put(m, G_UNTIL, get(m, G_UNTIL) - get(m, G_HEAVY))
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
def stands(m: int, pc: int, row: int, progress: int, depth: int, steps: int) -> None:
    """Note where a search stands when it stops, so that it goes on there."""
    put(m, G_PC, pc)
    put(m, G_AT, row)
    put(m, G_PROGRESS, progress)
    put(m, G_DEPTH, depth)
    put(m, G_STEPS, steps)


@kernel()
def counts(m: int, steps: int) -> None:
    """Take the steps of a long search from those that are left before the next pause."""
    put(m, G_LEFT, get(m, G_UNTIL) - steps)
    put(m, G_UNTIL, get(m, G_LEFT))


@kernel()
def attempt(m: int, edge: Any, low: int, high: int, start: int) -> int:
    """Return where the first match in preferment order that starts at a row ends, or NO_MATCH.

    A search that stops for another reason goes on from there when it is called again.
    """
    code, masks, wide, labels = get(m, T_CODE), get(m, T_MASKS), get(m, G_WIDE), get(m, T_LABELS)
    regs, registers, stack = get(m, G_REGS), get(m, G_REGISTERS), get(m, T_STACK)
    width, room, timeouts = 8 * (S_REGISTERS + registers), get(m, T_STACK_SIZE), get(m, G_TIMEOUTS)
    any_time = get(m, G_WITHIN) == ANY_TIME
    asked = -1 if get(m, G_UPDATES) else get(m, G_DEPENDENT)  # labels for which more is to do
    pc, row, progress, depth, steps = 0, start, -1, 0, 0
    alarm, found = get(m, G_ALARM), NO_MATCH  # before this step a search is short, and nothing is counted
    if get(m, G_DEPTH) >= 0:
        pc, row, progress = get(m, G_PC), get(m, G_AT), get(m, G_PROGRESS)
        depth, steps = get(m, G_DEPTH), get(m, G_STEPS)
        put(m, G_DEPTH, -1)
        put(m, G_UNTIL, steps + get(m, G_LEFT))
    else:
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
                if steps > alarm or (asked >> a) & 1:
                    if steps > get(m, G_UNTIL):
                        found = -PAUSED - 1
                        break
                    mapped = maps(m, edge, line, row, progress, steps, start)
                if mapped < 0:
                    found = mapped - 1
                    break
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
                if steps > alarm and steps > get(m, G_UNTIL):
                    found = -PAUSED - 1
                    break
                if depth >= room:
                    found = -DEEP - 1
                    break
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
            found = row
            break
        elif (op == FIRST and row == low) or (op == END and row == high):
            if steps > alarm and steps > get(m, G_UNTIL):
                found = -PAUSED - 1
                break
            pc = a
            continue
        if depth == 0:
            break
        depth -= 1
        entry = stack + width * depth
        pc, row, progress = get(entry, S_PC), get(entry, S_ROW), get(entry, S_PROGRESS)
        copies(entry + 8 * S_REGISTERS, regs, registers)
    if steps > alarm:
        counts(m, steps + max(0, found - start))  # a row that is written down is a step too
    if found < NO_MATCH:
        stands(m, pc, row, progress, depth, steps)
    return found
