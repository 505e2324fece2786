"""Columns of strings as ranks among the sorted strings of queries: strings compare by their bytes (S4.6)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.kernels.jit import int64, kernel, load, void
from cerise.kernels.records import Record, Words
from cerise.kernels.routing import LEAST, RouteBounds, count_upto, write_bounds
from cerise.kernels.strings import LOW, address_strings, first_word


@kernel()
def order_word(word: int) -> int:
    """Return an integer that orders the first eight bytes of a string as the bytes themselves."""
    word = ((word >> 8) & 0x00FF00FF00FF00FF) | ((word & 0x00FF00FF00FF00FF) << 8)
    word = ((word >> 16) & 0x0000FFFF0000FFFF) | ((word & 0x0000FFFF0000FFFF) << 16)
    return ((word & LOW) - (1 << 31)) << 32 | (word >> 32) & LOW


@kernel()
def byte_at(address: int) -> int:
    """Return a byte; the word around it is aligned, so that it lies in one page."""
    return (load(address & -8) >> ((address & 7) << 3)) & 0xFF


@kernel()
def compare_rest(left: int, left_length: int, right: int, right_length: int) -> int:
    """Compare strings whose first eight bytes are equal; the result is below, equal to or above 0."""
    for at in range(8, min(left_length, right_length)):
        differs = byte_at(left + at) - byte_at(right + at)
        if differs != 0:
            return differs
    return left_length - right_length


class RankTable(Record):
    """The bytes of a column, and the sorted words that its strings are ranked among."""

    data: int  # the address of the column's bytes
    end: int  # how many bytes the column has
    first: Words  # the first eight bytes of each word, as integers in their order
    bounds: RouteBounds  # the same
    starts: Words  # where each word starts; the end of the last word follows
    texts: int  # the address of the words' bytes


@kernel()
def rank_among(m: RankTable, word: int, start: int, length: int) -> int:
    """Return the rank of a string; the words between two places have its first eight bytes."""
    low, high = count_upto(m.bounds, word - 1) if word != LEAST else 0, count_upto(m.bounds, word)
    starts, texts = m.starts, m.texts
    while low < high:
        middle = (low + high) >> 1
        at = starts[middle]
        order = compare_rest(start, length, texts + at, starts[middle + 1] - at)
        if order == 0:
            return 2 * middle + 1
        if order > 0:
            low = middle + 1
        else:
            high = middle
    return 2 * low


@kernel(void(int64, int64, int64, int64))
def rank_strings(table: int, offsets: int, count: int, out: int) -> None:
    """Write the rank of each string among sorted words: 2k + 1 for word k, even numbers between words.

    Args:
        table: the address of a `RankTable`: the column and the words.
        offsets: the address of the strings' offsets, 32 bits each; the end of the last string follows.
        count: how many strings the column has.
        out: room for the ranks.
    """
    m, ranks = RankTable(table), Words(out)
    data, end, first, bounds = m.data, m.end, m.first, m.bounds
    for i in range(count):
        both = load(offsets + 4 * i)
        start = both & LOW
        length = ((both >> 32) & LOW) - start
        word = order_word(first_word(data, end, start, length))
        below = count_upto(bounds, word)
        if below > 0 and first[below - 1] == word:
            ranks[i] = rank_among(m, word, data + start, length)
        else:
            ranks[i] = 2 * below


class RankedStrings:
    """Sorted words, and the ranks of strings among them; threads may share it.

    >>> out = np.empty(3, np.int64)
    >>> RankedStrings([b"b", b"d"]).find(pa.array(["a", "b", "c"]), out)
    >>> out.tolist()
    [0, 1, 2]
    """

    def __init__(self, words: Sequence[bytes]) -> None:
        self._texts = np.frombuffer(b"".join(words) + bytes(8), np.uint8)
        starts = [0, *accumulate(map(len, words))]
        first = [int.from_bytes(word[:8].ljust(8, b"\0")) + LEAST for word in words]
        self._kept = [np.array(each, np.int64) for each in (first, write_bounds(first), starts)]
        self._words = np.zeros(RankTable.WORDS, np.int64)
        self._words[RankTable.first :] = *(each.ctypes.data for each in self._kept), self._texts.ctypes.data

    def find(self, column: pa.Array, out: npt.NDArray[np.int64]) -> None:
        """Write the ranks of strings; nulls may have any."""
        data, offsets = address_strings(column)
        table = self._words.copy()
        table[RankTable.data], table[RankTable.end] = data.address, data.size
        rank_strings(table.ctypes.data, offsets, len(column), out.ctypes.data)
