"""The search through partitions, compiled: from which rows, and where it goes on after a match (M5–M8)."""

from __future__ import annotations

from typing import Any

from cerise.engines.rows.attempt import attempt, copies, mask_of
from cerise.engines.rows.layout import (
    ANYTHING,
    C_HIGH,
    C_LOW,
    C_NUMBER,
    DONE,
    ENDLESS,
    FITS,
    FORGETFUL,
    FULL,
    G_COLS,
    G_CUT,
    G_FIRST,
    G_LABELLED,
    G_LAST,
    G_MATCHES,
    G_NEEDS,
    G_NULLABLE,
    G_NUMBER,
    G_PARTITION,
    G_PARTITIONS,
    G_ROW,
    G_SECOND,
    G_SHARES,
    G_SKIP,
    G_SKIP_TO,
    G_START,
    G_STOP,
    G_TOUCHED,
    G_WALKED,
    G_WIDE,
    HIDDEN,
    NO_MATCH,
    O_LENGTH,
    O_NUMBER,
    O_PARTITION,
    O_START,
    O_TIMEOUT,
    O_WORDS,
    PAST_LAST,
    PAUSED,
    T_CUT,
    T_LABELS,
    T_MASKS,
    T_OFFSETS,
    T_OUT,
    T_OUT_LABELS,
    T_OUT_LABELS_SIZE,
    T_OUT_SIZE,
    TO_FIRST,
    TO_NEXT,
    UNMAPPED,
)
from cerise.engines.rows.remembering import forgets
from cerise.kernels.jit import ask, get, int64, kernel, load, put, void

EACH_BYTE = 0x0101010101010101
STARTS = 1 << 15  # searches, most of them short, after which the scan pauses


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
    starts = 0
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
            starts += 1
            why = PAUSED if starts > STARTS else steps_on(m, edge, low, high, start)
            if why != DONE:
                if why in (FULL, FORGETFUL):
                    forgets(m)  # what is on the way has not failed, and may be searched again
                put(m, G_WALKED, start - get(m, G_START))
                return why
        put(m, G_PARTITION, get(m, G_PARTITION) + 1)
        put(m, G_ROW, -1)
    put(m, G_WALKED, get(m, G_STOP) - get(m, G_START))
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
