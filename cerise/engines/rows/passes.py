"""Kernels in one pass over arrays: they sort rows, and find rows of matches by their labels."""

from __future__ import annotations

from typing import Any

from cerise.kernels.jit import Ints, Marks, int64, kernel, void
from cerise.kernels.records import Words

MOVES = 16  # per row: with more, the rows are not nearly sorted


@kernel(void(Ints, Ints))
def tally(codes: Any, counts: Any) -> None:
    """Count how often each code occurs."""
    for row in range(len(codes)):
        counts[codes[row]] += 1


@kernel(void(Ints, int64, Ints, Ints))
def deal(codes: Any, first: int, places: Any, order: Any) -> None:
    """Write rows sorted by their codes; the sort is stable.

    Args:
        codes: the codes of neighbouring rows.
        first: the number of the first row.
        places: the next position in `order` for each code; updated.
        order: receives the rows.
    """
    for row in range(len(codes)):
        code = codes[row]
        order[places[code]] = first + row
        places[code] += 1


# ---- rows that are nearly sorted


@kernel()
def precedes(keys: Words, count: int, row: int, other: int) -> bool:
    """Tell whether a row sorts before another, by keys, the first key first."""
    for i in range(count):
        key = Words(keys[i])
        mine, theirs = key[row], key[other]
        if mine != theirs:
            return mine < theirs
    return False


@kernel()
def insert(keys: Words, count: int, order: Any, low: int, at: int) -> int:
    """Insert a row among the sorted rows before it; return how far it moved."""
    row = order[at]
    to = at
    while to > low and precedes(keys, count, row, order[to - 1]):
        order[to] = order[to - 1]
        to -= 1
    order[to] = row
    return at - to


@kernel(int64(int64, int64, Ints, int64, int64))
def settle(key: int, count: int, order: Any, low: int, high: int) -> int:
    """Sort nearly sorted rows by insertion; return 0, or 1 if they are not nearly sorted and it gave up.

    Args:
        key: the address of the keys' addresses.
        count: how many keys there are.
        order: the rows; sorted in place, stable.
        low: the first position to sort.
        high: the position after the last.
    """
    keys, moves = Words(key), 0
    for at in range(low + 1, high):
        moves += insert(keys, count, order, low, at)
        if moves > MOVES * (at - low) + 1024:
            return 1
    return 0


@kernel(int64(int64, int64, Ints, int64, int64))
def join(key: int, count: int, order: Any, middle: int, high: int) -> int:
    """Merge two sorted neighbouring stretches by insertion, like `settle`; the first begins at row 0."""
    keys, moves = Words(key), 0
    for at in range(middle, high):
        moved = insert(keys, count, order, 0, at)
        if moved == 0:  # the later rows are in place too
            return 0
        moves += moved
        if moves > MOVES * high:
            return 1
    return 0


# ---- rows that partitions of a stream hold


@kernel(void(Ints, Ints, Ints, Ints))
def follow_back(before: Any, last: Any, ends: Any, rows: Any) -> None:
    """Write the rows of partitions, partition after partition.

    Args:
        before: for each row the row before it in its partition.
        last: the last row of each partition.
        ends: where the rows of each partition end in `rows`.
        rows: receives the rows.
    """
    start = 0
    for i in range(len(last)):
        row = last[i]
        for at in range(ends[i] - 1, start - 1, -1):
            rows[at] = row
            row = before[row]
        start = ends[i]


# ---- partitions without a match


@kernel(void(Ints, Marks, Marks))
def note(codes: Any, masks: Any, present: Any) -> None:
    """Collect for each partition the labels that one of its rows could have."""
    for row in range(len(codes)):
        present[codes[row]] |= masks[row]


@kernel(int64(Ints, Marks, int64, int64, Ints))
def choose(codes: Any, present: Any, needs: int, first: int, chosen: Any) -> int:
    """Write the rows of partitions that have all labels that a match needs; return how many."""
    count = 0
    for row in range(len(codes)):
        chosen[count] = first + row
        count += 1 if present[codes[row]] & needs == needs else 0
    return count


# ---- rows of each match by their labels


@kernel(void(Marks, Ints, Ints, int64, int64, Ints))
def reach(labels: Any, firsts: Any, ends: Any, chosen: int, nth: int, out: Any) -> None:
    """Find in each match the n-th row with one of the chosen labels.

    Args:
        labels: the labels of the rows of all matches, two bytes each; only the low byte is used.
        firsts: where the rows of each match begin.
        ends: where they end.
        chosen: a bit for each chosen label.
        nth: which row: 0 is the first, -1 the last.
        out: receives the position among the rows of all matches; -1: no such row.
    """
    step = -1 if nth < 0 else 1
    for i in range(len(firsts)):
        left = -1 - nth if nth < 0 else nth
        out[i] = -1
        at = ends[i] - 1 if nth < 0 else firsts[i]
        while firsts[i] <= at < ends[i]:
            if (chosen >> labels[2 * at]) & 1:
                if left == 0:
                    out[i] = at
                    break
                left -= 1
            at += step


@kernel(void(Marks, Ints, Ints, int64, Ints))
def count_labels(labels: Any, firsts: Any, ends: Any, chosen: int, out: Any) -> None:
    """Count in each match the rows with one of the chosen labels; the arguments are those of `reach`."""
    for i in range(len(firsts)):
        count = 0
        for at in range(firsts[i], ends[i]):
            count += (chosen >> labels[2 * at]) & 1
        out[i] = count
