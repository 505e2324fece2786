"""Passes over whole columns."""

from __future__ import annotations

from typing import Any

from cerise.kernels.jit import Ints, int64, kernel, void
from cerise.kernels.records import Words


@kernel(void(Ints, Ints, Ints))
def group(codes: Any, places: Any, order: Any) -> None:
    """Put rows together that have equal codes, in the order that they have.

    Args:
        codes: a number below the length of `places` for each row.
        places: where the rows of each code begin in the answer; moved on.
        order: room for the answer: the rows by their codes.
    """
    for row in range(len(codes)):
        code = codes[row]
        order[places[code]] = row
        places[code] += 1


@kernel(void(int64, Ints, Ints, Ints, Ints))
def hash_lists(rows: int, lengths: Any, hashes: Any, words: Any, sums: Any) -> None:
    """Add to a sum for each list the mixed hashes of (row, its place in the list).

    Args:
        rows: where the rows in all lists lie, one list after another.
        lengths: how many each list has.
        hashes: those of all rows.
        words: what is added to all, what a place adds, and the factors of the mixture.
        sums: the sum of each list.
    """
    term, step, one, other = words[0], words[1], words[2], words[3]
    at = 0
    for i in range(len(lengths)):
        for place in range(lengths[i]):
            x = hashes[Words(rows)[at]] + place * step + term
            x = (x ^ ((x >> 30) & 0x3_FFFF_FFFF)) * one  # as words without a sign are shifted
            x = (x ^ ((x >> 27) & 0x1F_FFFF_FFFF)) * other
            sums[i] += x ^ ((x >> 31) & 0x1_FFFF_FFFF)
            at += 1
