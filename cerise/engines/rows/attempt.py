"""The search for the match that starts at one row, compiled: depth first in preferment order.

A search stands at an instruction and a row, with the counts and sums that conditions ask for (registers).
What it has still to try lies on a stack. Rows of a match are neighbours, so the labels so far are an array
by row; going back overwrites it. Two searches with equal instruction, row and registers have equal futures:
once a search has been long, places are remembered, and none is searched from twice. So `(A+)+ B` is linear.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.rows.instructions import ACCEPT, CHECK, END, FIRST, MARK, ROW, SPLIT
from cerise.engines.rows.records import (
    ANY_TIME,
    DEEP,
    FORGETFUL,
    FROM_END,
    HIDDEN,
    KEYS,
    NO_MATCH,
    PAUSED,
    REGISTER,
    REGISTERS,
    Instruction,
    Workspace,
)
from cerise.kernels.jit import ask, kernel, load
from cerise.kernels.records import Rows, Words


@kernel(inline=True)
def mask_of(masks: int, wide: int, row: int) -> int:
    """Return which labels a row could have by itself; above those of the pattern, bits say nothing."""
    return load(masks + (row << wide))


@kernel()
def fails(code: Rows[Instruction], masks: int, wide: int, pc: int, row: int, high: int) -> bool:
    """Whether a row, which is there, can be seen not to have the label that an instruction asks for."""
    line = code[pc]
    if line.op != ROW or row >= high:
        return False
    return (mask_of(masks, wide, row) >> line.a) & 1 == 0


@kernel()
def expired(m: Workspace, start: int, row: int) -> bool:
    """Whether a row is not in the window that the first row of a match opens (M42)."""
    within, times, none = m.within, m.times, m.no_time
    if within == ANY_TIME or row == start:
        return False
    first, last = times[start], times[row]
    passed = last - first  # below zero where it does not fit into 64 bits
    return passed > within or passed < 0 or none in (first, last)


@kernel()
def copy_words(source: Words, target: Words, count: int) -> None:
    """Copy words to another place."""
    for i in range(count):
        target[i] = source[i]


@kernel(inline=True)
def map_row(m: Workspace, edge: Any, pc: int, row: int, progress: int, steps: int, start: int) -> int:
    """Map a row to the label of an instruction, which it could have by itself, where more is asked.

    Returns:
        1 where it can be mapped, 0 where not; else minus the reason why the search stops.
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
    if m.updates:
        ask(edge, m.label_count + label, registers, start, row, context, 0)
    return 1


@kernel()
def cut_off(m: Workspace, length: int, offset: int) -> None:
    """Keep the labels of the first way that found no further row (M46)."""
    if m.timeouts and m.cut_length == 0 and length > 0:
        copy_words(m.labels[offset:], m.cut, length)
        m.cut_length = length


@kernel()
def note_position(m: Workspace, pc: int, row: int, progress: int, depth: int, steps: int) -> None:
    """Note where a search stands when it stops, so that it goes on there."""
    m.pc = pc
    m.at = row
    m.progress = progress
    m.depth = depth
    m.steps = steps


@kernel()
def count_steps(m: Workspace, steps: int) -> None:
    """Take the steps of a long search from those that are left before the next pause."""
    m.left = m.until - steps
    m.until = m.left


@kernel()
def attempt(m: Workspace, edge: Any, low: int, high: int, start: int) -> int:
    """Return where the first match in preferment order that starts at a row ends, or NO_MATCH.

    A search that stops for another reason goes on from there when it is called again.
    """
    code, masks, wide, labels = m.code, m.masks, m.wide, m.labels
    registers, count, stack, timeouts = m.registers, m.register_count, m.stack, m.timeouts
    any_time = m.within == ANY_TIME
    asked = -1 if m.updates else m.dependent  # labels for which more is to do
    pc, row, progress, depth, steps = 0, start, -1, 0, 0
    alarm, found = m.alarm, NO_MATCH  # before this step a search is short, and nothing is counted
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
            beyond = row < high and not any_time and expired(m, start, row)
            if row >= high or beyond:
                if beyond:
                    m.touched = 1
                cut_off(m, row - start, start - low)
            elif (mask_of(masks, wide, row) >> a) & 1:
                mapped = 1
                if steps > alarm or (asked >> a) & 1:
                    if steps > m.until:
                        found = -PAUSED - 1
                        break
                    mapped = map_row(m, edge, pc, row, progress, steps, start)
                if mapped < 0:
                    found = mapped - 1
                    break
                if mapped > 0:
                    labels[row - low] = a + HIDDEN * line.hidden
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
        elif (op == FIRST and row == low) or (op == END and row == high):
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
        count_steps(m, steps + max(0, found - start))  # a row that is written down is a step too
    if found < NO_MATCH:
        note_position(m, pc, row, progress, depth, steps)
    return found


# ---- what a search has tried in vain: an instruction, a row, and all that its future depends on


@kernel()
def key_of(m: Workspace, i: int) -> int:
    """Return the i-th value on which the future of a search depends."""
    key = m.keys[i]
    which, n = key.set, key.n
    count = m.registers[which]
    if key.source == REGISTER:
        return count
    at = count - 1 - n if key.source == FROM_END else n
    if at < 0 or at >= count:
        return -1
    return m.positions[which * m.stride + at]


@kernel()
def remember(m: Workspace, pc: int, row: int, progress: int) -> int:
    """Note that a search goes on from here; return 1 where one has before, -1 where there is no room."""
    size, keys, epoch = m.memo.room, m.key_count, m.epoch
    hashed = (pc * 0x9E3779B1 + row * 0x85EBCA77 + progress * 0xC2B2AE3D) & 0x7FFFFFFFFFFF
    for i in range(keys):
        hashed = ((hashed ^ (key_of(m, i) & 0xFFFFFFFF)) * 0x9E3779B1) & 0x7FFFFFFFFFFF
    at = (hashed ^ (hashed >> 17)) & (size - 1)
    entry = m.memo[at]
    while entry.epoch == epoch:
        same = entry.pc == pc and entry.row == row and entry.progress == progress
        i = 0
        while same and i < keys:
            same = entry[KEYS + i] == key_of(m, i)
            i += 1
        if same:
            return 1
        at = (at + 1) & (size - 1)
        entry = m.memo[at]
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
def forget(m: Workspace) -> None:
    """Let nothing that was remembered hold any longer."""
    m.epoch += 1
    m.remembered = 0
