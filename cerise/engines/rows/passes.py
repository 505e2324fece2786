"""Kernels that pass over arrays: they bring rows into order, and find rows of matches by their labels."""

from __future__ import annotations

from typing import Any

from cerise.kernels.jit import Ints, Marks, int64, kernel, void
from cerise.kernels.records import Words

MOVES = 16  # for each row; where more are needed, rows are not nearly in order


@kernel(void(Ints, Ints))
def tally(codes: Any, counts: Any) -> None:
    """Count how often each code occurs."""
    for row in range(len(codes)):
        counts[codes[row]] += 1


@kernel(void(Ints, int64, Ints, Ints))
def deal(codes: Any, first: int, places: Any, order: Any) -> None:
    """Put rows together that have equal codes, in the order that they have.

    Args:
        codes: those of some neighbouring rows.
        first: the number of the first of these rows.
        places: where the rows of each code begin in the answer; moved on.
        order: room for the answer: the rows by their codes.
    """
    for row in range(len(codes)):
        code = codes[row]
        order[places[code]] = first + row
        places[code] += 1


# ---- rows that are nearly in order


@kernel()
def precedes(keys: Words, count: int, row: int, other: int) -> bool:
    """Whether a row comes before another, by some keys, the first of them first."""
    for i in range(count):
        key = Words(keys[i])
        one, two = key[row], key[other]
        if one != two:
            return one < two
    return False


@kernel()
def insert(keys: Words, count: int, order: Any, low: int, at: int) -> int:
    """Move a row to its place among those before it, which are in order; return how far it went."""
    row = order[at]
    to = at
    while to > low and precedes(keys, count, row, order[to - 1]):
        order[to] = order[to - 1]
        to -= 1
    order[to] = row
    return at - to


@kernel(int64(int64, int64, Ints, int64, int64))
def settle(key: int, count: int, order: Any, low: int, high: int) -> int:
    """Sort rows that are nearly in order; return 0, or 1 where they are not, and some are left as they were.

    Args:
        key: where the addresses of the keys lie.
        count: how many keys.
        order: the rows; equal ones keep the order that they have.
        low: the first to sort.
        high: the one after the last.
    """
    keys, moves = Words(key), 0
    for at in range(low + 1, high):
        moves += insert(keys, count, order, low, at)
        if moves > MOVES * (at - low) + 1024:
            return 1
    return 0


@kernel(int64(int64, int64, Ints, int64, int64))
def join(key: int, count: int, order: Any, middle: int, high: int) -> int:
    """Sort two neighbouring stretches that are in order, as `settle` does; the first begins with row 0."""
    keys, moves = Words(key), 0
    for at in range(middle, high):
        moved = insert(keys, count, order, 0, at)
        if moved == 0:  # nor will a later one
            return 0
        moves += moved
        if moves > MOVES * high:
            return 1
    return 0


# ---- partitions without a match


@kernel(void(Ints, Marks, Marks))
def note(codes: Any, masks: Any, present: Any) -> None:
    """Note for each partition which labels some row of it could have."""
    for row in range(len(codes)):
        present[codes[row]] |= masks[row]


@kernel(int64(Ints, Marks, int64, int64, Ints))
def choose(codes: Any, present: Any, needs: int, first: int, chosen: Any) -> int:
    """Write down the rows of partitions that have all labels that a match needs; return how many."""
    count = 0
    for row in range(len(codes)):
        chosen[count] = first + row
        count += 1 if present[codes[row]] & needs == needs else 0
    return count


# ---- rows of matches by their labels, each match for itself


@kernel(void(Marks, Ints, Ints, int64, int64, Ints))
def reach(labels: Any, firsts: Any, ends: Any, chosen: int, nth: int, out: Any) -> None:
    """Find in each match the n-th row that has one of some labels.

    Args:
        labels: those of the rows of all matches; two bytes each, of which the first tells.
        firsts: where the rows of each match begin.
        ends: where they end.
        chosen: a bit for each of the labels.
        nth: which of these rows, from 0 for the first, or from -1 backwards for the last.
        out: room for the answer: which of the rows of all matches; -1 where there is none.
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
    """Count in each match the rows that have one of some labels; arguments are those of `reach`."""
    for i in range(len(firsts)):
        count = 0
        for at in range(firsts[i], ends[i]):
            count += (chosen >> labels[2 * at]) & 1
        out[i] = count
