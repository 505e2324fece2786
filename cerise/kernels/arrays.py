"""Kernels that pass once over whole columns."""

from __future__ import annotations

from typing import Any

from cerise.kernels.jit import Ints, int64, kernel, void
from cerise.kernels.records import Words


@kernel(void(Ints, Ints, Ints))
def group(codes: Any, places: Any, order: Any) -> None:
    """Group rows by code; within a group rows keep their order (a counting sort).

    Args:
        codes: the code of each row, below the length of `places`.
        places: the position in `order` of the first row of each code; advanced past its last row.
        order: room for the grouped rows.
    """
    for row in range(len(codes)):
        code = codes[row]
        order[places[code]] = row
        places[code] += 1


@kernel(void(Ints, Ints, Ints, Ints))
def number_repeats(starts: Any, hashes: Any, slots: Any, numbers: Any) -> None:
    """Set for each row how many rows of its group before it have its hash.

    Args:
        starts: the first row of each group, and the end of the last group.
        hashes: the hash of each row.
        slots: a hash table of -1, whose length is a power of two above twice the rows of any group. A slot
            holds the last row with a hash; a row before the group counts as an empty slot.
        numbers: the result.
    """
    mask = len(slots) - 1
    for group in range(len(starts) - 1):
        first = starts[group]
        for row in range(first, starts[group + 1]):
            at = hashes[row] & mask
            while slots[at] >= first and hashes[slots[at]] != hashes[row]:
                at = (at + 1) & mask
            numbers[row] = numbers[slots[at]] + 1 if slots[at] >= first else 0
            slots[at] = row


@kernel(void(int64, Ints, Ints, Ints, Ints))
def hash_lists(rows: int, lengths: Any, hashes: Any, words: Any, sums: Any) -> None:
    """Add to the sum of each list the mixed hashes of its (row, position in the list).

    Args:
        rows: the address of the rows of all lists, one list after another.
        lengths: how many rows each list has.
        hashes: the hash of every row.
        words: the constant that every hash adds, the step that a position adds, and the two mixing factors.
        sums: the sum of each list.
    """
    term, step, first, second = words[0], words[1], words[2], words[3]
    at = 0
    for i in range(len(lengths)):
        for place in range(lengths[i]):
            x = hashes[Words(rows)[at]] + place * step + term
            x = (x ^ ((x >> 30) & 0x3_FFFF_FFFF)) * first  # masks make the shifts unsigned
            x = (x ^ ((x >> 27) & 0x1F_FFFF_FFFF)) * second
            sums[i] += x ^ ((x >> 31) & 0x1_FFFF_FFFF)
            at += 1
