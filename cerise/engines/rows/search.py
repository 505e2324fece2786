"""Kernels that search partitions or slices: choose start rows, and resume after each match."""

from __future__ import annotations

from typing import Any

from cerise.engines.results.context import Context
from cerise.engines.rows.attempt import attempt, copy_words, forget, mask_of
from cerise.engines.rows.records import (
    ANYTHING,
    DONE,
    ENDLESS,
    FITS,
    FORGETFUL,
    FULL,
    HIDDEN,
    NEVER,
    NO_MATCH,
    PAST_LAST,
    PAUSED,
    TO_FIRST,
    TO_NEXT,
    UNMAPPED,
    WAITING,
    Entries,
    SearchWorkspace,
)
from cerise.kernels.jit import Ints, Marks, ask, int64, kernel, load, void
from cerise.kernels.records import Words

EACH_BYTE = 0x0101010101010101
STARTS = 1 << 15  # searches, most of them short, after which the scan pauses


@kernel()
def emit(m: SearchWorkspace, labels: Words, length: int, timeout: int) -> bool:
    """Write a match; return False if the tables are full."""
    at, first = m.match_count, m.labelled
    if at >= m.found.room or first + length > m.labels_room:
        return False
    m.number += 1
    match = m.found[at]
    match.start = m.row
    match.length = length
    match.number = m.number
    match.partition = m.partition
    match.timeout = timeout
    copy_words(labels, m.found_labels[first:], length)
    m.match_count = at + 1
    m.labelled = first + length
    return True


@kernel()
def resume_after(m: SearchWorkspace, labels: Words, start: int, end: int) -> int:
    """Return the row at which the search resumes after a match (M39), or minus the error's reason (M40)."""
    skip = m.skip
    if end == start or skip == TO_NEXT:
        return start + 1
    if skip == PAST_LAST:
        return end
    found = -1
    for i in range(end - start):
        if (m.skip_to >> (labels[i] & (HIDDEN - 1))) & 1:
            found = i
            if skip == TO_FIRST:
                break
    return -UNMAPPED if found < 0 else -ENDLESS if found == 0 else start + found


@kernel()
def last_start(m: SearchWorkspace, low: int, high: int) -> int:
    """Return the last row at which a match can start: the rows from there on could have all needed labels."""
    needs, masks, wide = m.needs, m.masks, m.wide
    found, row = 0, high
    while row > low and found & needs != needs:
        row -= 1
        found |= mask_of(masks, wide, row)
    return row if found & needs == needs else low - 1


@kernel()
def enter(m: SearchWorkspace, low: int, high: int) -> None:
    """Start the search of a partition."""
    m.row = max(low, m.start)
    m.last = min(m.stop, last_start(m, low, high) + 1, high)
    m.number = 0
    place(m, low, low, high)
    forget(m)


@kernel()
def place(m: SearchWorkspace, begin: int, low: int, high: int) -> None:
    """Set the bounds of the partition under way, given its first row, its first known row, and its end."""
    m.begin = begin
    m.end = high
    m.context.low = low
    m.context.high = high


@kernel()
def may_start(m: SearchWorkspace, row: int, high: int) -> bool:
    """Tell whether a match can start at a row, by the masks of this row and the next."""
    if m.nullable:
        return True
    second, masks, wide = m.second, m.masks, m.wide
    if mask_of(masks, wide, row) & m.first == 0:
        return False
    return second == ANYTHING or (row + 1 < high and mask_of(masks, wide, row + 1) & second != 0)


@kernel()
def next_start(m: SearchWorkspace, row: int, high: int, last: int) -> int:
    """Return the first row from here on at which a match can start, by its mask and that of the next row."""
    if m.nullable:
        return row
    first, second, masks, wide = m.first, m.second, m.masks, m.wide
    every = first * EACH_BYTE
    if second != ANYTHING:
        last = min(last, high - 1)  # the last row has no next row
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
def search_from(m: SearchWorkspace, edge: Any, low: int, high: int, start: int) -> int:
    """Search from one row; return DONE, or the reason to stop."""
    m.context.number = m.number + 1
    end = attempt(m, edge, low, high, start)
    if end < NO_MATCH:
        return -end - 1
    if end == NO_MATCH:
        if m.cut_length and not emit(m, m.cut, m.cut_length, 1):
            return FULL
        m.row = start + 1
        if m.touched or m.shares == 0:
            forget(m)
        return DONE
    labels = m.labels[start - low :]
    after = resume_after(m, labels, start, end)
    if after < 0 and m.forgives == 0:
        forget(m)  # states of the match have not failed: a chain of slices may search this row again
        return -after
    if not emit(m, labels, end - start, 0):
        return FULL
    if after < 0:
        m.forgiven += 1
        after = end
    m.row = after
    forget(m)
    return DONE


@kernel(int64(int64, int64))
def scan(workspace: int, edge: Any) -> int:
    """Search partition after partition, from where the last call stopped; return the reason to stop."""
    m, starts = SearchWorkspace(workspace), 0
    while m.partition < m.partitions:
        low, high = m.offsets[m.partition], m.offsets[m.partition + 1]
        if m.row < low:
            enter(m, low, high)
        last = m.last
        while m.row < last:
            start = next_start(m, m.row, high, last)
            m.row = start
            if start >= last:
                break
            starts += 1
            why = PAUSED if starts > STARTS else search_from(m, edge, low, high, start)
            if why != DONE:
                if why in (FULL, FORGETFUL):
                    forget(m)  # states of the present path have not failed
                m.walked = start - m.start
                return why
        m.partition += 1
        m.row = -1
    m.walked = m.stop - m.start
    return DONE


@kernel()
def next_open_start(m: SearchWorkspace, row: int, high: int) -> int:
    """Return the first row from here on at which a match can start, if rows may be added after the last."""
    while row < high and not (may_start(m, row, high) or (row + 1 == high and opens(m, row))):
        row += 1
    return row


@kernel()
def opens(m: SearchWorkspace, row: int) -> bool:
    """Tell whether a row could be the first of a match, by its own mask."""
    return mask_of(m.masks, m.wide, row) & m.first != 0


@kernel(int64(int64, int64))
def scan_open(workspace: int, edge: Any) -> int:
    """Search partitions to which rows may be added, like `scan`, until a search waits for rows.

    A search of one partition keeps the state of a search that waits, and resumes it.
    """
    m, starts = SearchWorkspace(workspace), 0
    while m.partition < m.partitions:
        low, end = m.offsets[m.partition], m.offsets[m.partition + 1]
        high = max(low, end - m.reach) if m.open else end
        state = m.states[m.partition]
        place(m, state.first, low, end)
        if m.row < low:
            m.row = state.row
            m.number = state.number
            forget(m)
        state.deadline = NEVER
        while m.row < high:
            start = next_open_start(m, m.row, high) if m.open else next_start(m, m.row, high, high)
            if start != m.row:
                m.depth = -1  # the row at which a search waited starts no match
            m.row = start
            if start >= high:
                break
            starts += 1
            why = PAUSED if starts > STARTS else search_from(m, edge, low, high, start)
            if why == WAITING:
                state.deadline = m.deadline
                break
            if why != DONE:
                if why in (FULL, FORGETFUL):
                    forget(m)  # states of the present path have not failed
                m.walked = start - m.start
                return why
        state.row = m.row
        state.number = m.number
        m.partition += 1
        if m.keeps == 0:
            m.row = -1
            m.depth = -1
    m.walked = m.stop - m.start
    return DONE


@kernel(void(*[int64] * 7))
def judge_rows(edge: Any, context: int, offset: int, partition: int, start: int, stop: int, out: int) -> None:
    """Compute the masks of rows: the labels that each could have by itself.

    Args:
        edge: the generated code.
        context: the address of its context: the columns.
        offset: the address of the offsets of partitions.
        partition: the partition of the first row.
        start: the first row.
        stop: the row after the last.
        out: the address of a word for each row, which receives its mask.
    """
    values, offsets, masks, row = Context(context), Words(offset), Words(out), start
    while row < stop:
        while offsets[partition + 1] <= row:
            partition += 1
        high = offsets[partition + 1]
        values.low = offsets[partition]
        values.high = high
        until = min(high, stop)
        ask(edge, FITS, masks[row - start :], row, until, values, 0)
        row = until


# ---- the search of slices, and the chain from match to match


UNKNOWN, KNOWN, STOPPED = range(3)  # of a row: not searched from, searched from, the search stopped there


@kernel(int64(int64, int64, Marks, int64))
def search_entries(workspace: int, edge: Any, known: Any, entry: int) -> int:
    """Search from each entry, by AFTER MATCH SKIP, until a row that was searched from already.

    Args:
        workspace: the workspace of a search in a part of one partition.
        edge: the generated code of the clause.
        known: for each row of the part whether it was searched from; updated.
        entry: the entries: the rows of the part to begin at, unless known by then, and the room for matches.

    Returns:
        The reason to stop; called again, it resumes.
    """
    m, entries = SearchWorkspace(workspace), Entries(entry)
    first, stop, high = m.start, m.stop, m.offsets[1]
    if m.row < 0:
        enter(m, 0, high)
        m.row = first + entries.next
    searched = 0
    while True:
        start = m.row
        if start >= stop or known[start - first] != UNKNOWN:
            row = entries.next
            while row < entries.end and known[row] != UNKNOWN:
                row += 1
            entries.next = row
            if row >= entries.end or entries.room < 0:
                return DONE
            m.row = first + row
            forget(m)
        elif start >= m.last or not may_start(m, start, high):
            known[start - first] = KNOWN
            m.row = start + 1
            m.walked += 1
        else:
            labelled = m.labelled
            searched += 1
            why = PAUSED if searched > STARTS else search_from(m, edge, 0, high, start)
            if why != DONE:
                if why in (FULL, FORGETFUL):
                    forget(m)  # states of the present path have not failed
                return why
            known[start - first] = KNOWN
            m.walked += m.row - start
            entries.room -= m.labelled - labelled


@kernel(int64(Ints, Ints, Marks, int64, Marks))
def follow_matches(starts: Any, resumes: Any, known: Any, row: int, taken: Any) -> int:
    """Follow the chain of matches; return the row where it leaves the slice or meets an unsearched row.

    Args:
        starts: where matches start, ascending.
        resumes: where the search resumes after each.
        known: for each row whether it was searched from.
        row: where the chain begins.
        taken: receives for each match whether it is on the chain.
    """
    for i in range(len(starts)):
        while row < starts[i]:
            if known[row] != KNOWN:
                return row
            row += 1
        if row == starts[i]:
            taken[i] = 1
            row = resumes[i]
    while row < len(known) and known[row] == KNOWN:
        row += 1
    return row
