"""Strings as numbers in the order in which they first come: for columns of few distinct ones."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cerise.engines.results.row_matches import Ints
from cerise.kernels.jit import get, int64, kernel, load, put, void
from cerise.kernels.literals import LOW, first_word, same_rest

# an entry of the table: the first eight bytes of a string, its length, where it lies, its number (0: none)
E_WORD, E_LENGTH, E_START, E_NUMBER, E_WORDS = range(5)
# what the kernel is told: where the bytes of a column lie, how many they are; the table, the bits of its
# size; how many strings are known, where to note the rows of new ones, how many were known before
I_DATA, I_END, I_TABLE, I_BITS, I_KNOWN, I_ROWS, I_BEFORE, I_WORDS = range(8)

BITS, MOST_BITS = 12, 18  # of the size of the table at first, and at last
FACTOR, MASK = 0x2545F4914F6CDD1D, (1 << 63) - 1


@kernel()
def hash_of(word: int, data: int, length: int) -> int:
    """Return a number for a string, with its first eight bytes."""
    hashed = ((word ^ length) * FACTOR) & MASK
    if length > 8:
        for at in range(8, length - 7, 8):
            hashed = ((hashed ^ (hashed >> 29) ^ load(data + at)) * FACTOR) & MASK
        hashed = ((hashed ^ (hashed >> 29) ^ load(data + length - 8)) * FACTOR) & MASK
    return hashed


@kernel(int64(int64, int64, int64, int64))
def number_strings(m: int, offsets: int, count: int, out: int) -> int:
    """Write the number of each string; return how many have one: fewer where the table is full.

    Args:
        m: what is known of the table and the column: see the I_ words.
        offsets: where it is said where each string begins, in words of 32 bits; the end of the last follows.
        count: how many strings.
        out: room for the answer.
    """
    data, end, table, bits = get(m, I_DATA), get(m, I_END), get(m, I_TABLE), get(m, I_BITS)
    rows, before, known = get(m, I_ROWS), get(m, I_BEFORE), get(m, I_KNOWN)
    for i in range(count):
        both = load(offsets + 4 * i)
        start = both & LOW
        length = ((both >> 32) & LOW) - start
        word = first_word(data, end, start, length)
        at = hash_of(word, data + start, length) >> (63 - bits)
        entry = table + 8 * E_WORDS * at
        while get(entry, E_NUMBER) != 0 and not (
            get(entry, E_WORD) == word
            and get(entry, E_LENGTH) == length
            and (length <= 8 or same_rest(data + start, get(entry, E_START), length))
        ):
            at = (at + 1) & ((1 << bits) - 1)
            entry = table + 8 * E_WORDS * at
        number = get(entry, E_NUMBER)
        if number == 0:
            if 2 * known >= 1 << bits:
                return i
            known += 1
            put(m, I_KNOWN, known)
            put(entry, E_WORD, word)
            put(entry, E_LENGTH, length)
            put(entry, E_START, data + start)
            put(entry, E_NUMBER, known)
            put(rows, known - 1 - before, i)
            number = known
        put(out, i, number)
    return count


@kernel(void(int64, int64, int64))
def move(m: int, old: int, count: int) -> None:
    """Move the entries of a table to a new one."""
    table, bits = get(m, I_TABLE), get(m, I_BITS)
    for i in range(count):
        source = old + 8 * E_WORDS * i
        if get(source, E_NUMBER) != 0:
            word, length, start = get(source, E_WORD), get(source, E_LENGTH), get(source, E_START)
            at = hash_of(word, start, length) >> (63 - bits)
            while get(table + 8 * E_WORDS * at, E_NUMBER) != 0:
                at = (at + 1) & ((1 << bits) - 1)
            for k in range(E_WORDS):
                put(table + 8 * E_WORDS * at, k, get(source, k))


class Interned:
    """The strings that a column has, with their numbers from 1."""

    def __init__(self) -> None:
        self._words = np.zeros(I_WORDS, np.int64)
        self._table = np.zeros((0, E_WORDS), np.int64)
        self._kept: list[pa.Buffer] = []  # what entries point into
        self.words: list[pa.Array] = []  # some at a time, in the order of their numbers
        self._grow(BITS)

    def numbers(self, column: pa.Array, out: Ints) -> bool:
        """Write the numbers of the strings of a column, 0 where there is none; say whether there was room."""
        if column.null_count:  # there are bytes for nulls too
            out[:] = 0
            there = np.flatnonzero(column.is_valid())
            known: Ints = np.empty(len(there), np.int64)
            has_room = self.numbers(column.drop_null(), known)
            out[there] = known
            return has_room
        _, offsets, data = column.buffers()
        if data is None or data.size < 8:
            data = pa.py_buffer((b"" if data is None else data.to_pybytes()).ljust(8, b"\0"))
        self._kept.append(data)
        self._words[I_DATA], self._words[I_END] = data.address, data.size
        done = 0
        while done < len(column):
            where = offsets.address + 4 * (column.offset + done)
            done += self._numbered(column, done, where, out[done:])
            if done < len(column) and not self._grow(int(self._words[I_BITS]) + 2):
                return False
        return True

    def _numbered(self, column: pa.Array, start: int, where: int, out: Ints) -> int:
        """Number strings until the table is full, and take those that are new."""
        known = int(self._words[I_KNOWN])
        rows = np.empty(len(self._table), np.int64)
        self._words[I_ROWS], self._words[I_BEFORE] = rows.ctypes.data, known
        done = int(number_strings(self._words.ctypes.data, where, len(column) - start, out.ctypes.data))
        if new := int(self._words[I_KNOWN]) - known:
            self.words.append(column.take(pa.array(rows[:new] + start)))
        return done

    def _grow(self, bits: int) -> bool:
        """Make the table larger, unless it is as large as it may be."""
        if bits > MOST_BITS:
            return False
        old, self._table = self._table, np.zeros((1 << bits, E_WORDS), np.int64)
        self._words[I_TABLE], self._words[I_BITS] = self._table.ctypes.data, bits
        move(self._words.ctypes.data, old.ctypes.data, len(old))
        return True
