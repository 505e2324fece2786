"""Columns of strings as numbers: the codes of a query's own strings, or numbers in the order of first sight.

`Literals` knows its strings beforehand and finds each by a perfect hash; `InternedStrings` learns its
strings, for columns of few distinct strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.kernels.jit import int64, kernel, load, void
from cerise.kernels.records import BYTES, Record, Rows, Words

Ints = npt.NDArray[np.int64]
LOW = 0xFFFFFFFF
TRIES = 64  # multipliers that are tried
KEPT = 256  # hashes that stay in memory


class LiteralEntry(Record):
    """A string of a query: its first eight bytes, its length, the start of its bytes, its code."""

    word: int
    length: int
    start: int
    code: int
    next: int  # byte offset of the next literal with the same beginning and length


class LiteralTable(Record):
    """The bytes of a column, the literals, and the hash that finds a literal."""

    data: int  # the address of the column's bytes
    end: int  # how many bytes the column has
    slots: Words  # from hash to the byte offset of a literal, which saves a multiplication; 0: none
    bits: int  # of the hash
    multiplier: int
    literals: int  # their address; literal 0 stands for "none"
    texts: int  # the address of their bytes


@kernel()
def first_word(data: int, end: int, start: int, length: int) -> int:
    """Return the first eight bytes of a string as one number; bytes beyond its end are 0."""
    if start + 8 <= end:
        word = load(data + start)
    else:  # never read beyond the last byte
        late = 8 * min(start + 8 - end, 7)
        word = (load(data + end - 8) >> late) & ((1 << (64 - late)) - 1)
    return word & ((1 << (8 * length)) - 1) if length < 8 else word


@kernel()
def slot_of(word: int, length: int, multiplier: int, bits: int) -> int:
    """Return the slot in which the hash table looks for a string."""
    folded = ((word ^ (word >> 29)) + length * 0x9E37) & LOW
    return ((folded * multiplier) & LOW) >> (32 - bits)


@kernel()
def same_rest(left: int, right: int, length: int) -> bool:
    """Whether two strings of one length above eight are equal after their first eight bytes."""
    for at in range(8, length - 7, 8):
        if load(left + at) != load(right + at):
            return False
    return load(left + length - 8) == load(right + length - 8)


@kernel(void(int64, int64, int64, int64))
def code_strings(table: int, offsets: int, count: int, out: int) -> None:
    """Write for each string the code of the literal that it equals, or -1.

    Args:
        table: the address of a `LiteralTable`: the literals and the column.
        offsets: the address of the strings' offsets, 32 bits each; the end of the last string follows.
        count: how many strings the column has.
        out: room for the codes.
    """
    m, codes = LiteralTable(table), Words(out)
    data, end, slots, bits = m.data, m.end, m.slots, m.bits
    multiplier, literals, texts = m.multiplier, m.literals, m.texts
    for i in range(count):
        both = load(offsets + 4 * i)
        start = both & LOW
        length = ((both >> 32) & LOW) - start
        word = first_word(data, end, start, length)
        at = slots[slot_of(word, length, multiplier, bits)]
        literal = LiteralEntry(literals + at)
        differs = (literal.word ^ word) | (literal.length ^ length)
        at &= ((differs | -differs) >> 63) ^ -1  # literal 0 where it differs; a branch would mispredict
        if length > 8:
            while at > 0 and not same_rest(data + start, texts + LiteralEntry(literals + at).start, length):
                at = LiteralEntry(literals + at).next
        codes[i] = LiteralEntry(literals + at).code


class Literals:
    """The strings of a query, and the hash that finds them in columns."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._texts = np.frombuffer(b"".join(words) + bytes(8), np.uint8)
        self._rows = np.zeros((len(words) + 1, LiteralEntry.WORDS), np.int64)
        self._rows[0, LiteralEntry.length] = -1
        self._rows[:, LiteralEntry.code] = np.arange(-1, len(words))
        starts = np.cumsum([0, *(len(word) for word in words)])
        heads: dict[tuple[int, int], int] = {}  # the last literal of each beginning and length
        for number, word in enumerate(words, 1):
            first = int.from_bytes(word[:8], "little", signed=len(word) >= 8)
            before = heads.get((first, len(word)), 0)
            self._rows[number] = (
                first,
                len(word),
                starts[number - 1],
                number - 1,
                BYTES * LiteralEntry.WORDS * before,
            )
            heads[first, len(word)] = number
        self._slots, bits, multiplier = _find_hash(tuple(heads.items()))
        self._words = np.zeros(LiteralTable.WORDS, np.int64)
        self._table = LiteralTable(self._words.ctypes.data)
        self._table.slots, self._table.bits = Words(self._slots.ctypes.data), bits
        self._table.multiplier, self._table.texts = multiplier, self._texts.ctypes.data
        self._table.literals = self._rows.ctypes.data

    @property
    def found(self) -> bool:
        """Whether these strings have a hash without collisions."""
        return bool(self._table.bits)

    def codes(self, column: pa.Array, start: int, codes: Ints, out: Ints) -> None:
        """Write the codes of the strings from `start` on, until `out` is full; -1 for unknown strings.

        Args:
            column: the strings.
            start: the row of the first string to code.
            codes: the code of each literal.
            out: room for the codes.
        """
        self._rows[1:, LiteralEntry.code] = codes
        _code(self._words, column, start, out)

    def find(self, column: pa.Array, out: Ints) -> None:
        """Write the place of the literal that each string equals, or -1; nulls may have any.

        Threads may share literals that only this method is asked of.
        """
        _code(self._words.copy(), column, 0, out)


def _code(words: Ints, column: pa.Array, start: int, out: Ints) -> None:
    data, offsets = address_strings(column)
    words[LiteralTable.data], words[LiteralTable.end] = data.address, data.size
    code_strings(words.ctypes.data, offsets + 4 * start, len(out), out.ctypes.data)


def address_strings(column: pa.Array) -> tuple[pa.Buffer, int]:
    """Return the bytes of a column of strings, at least eight, and the address of its first offset."""
    _, offsets, data = column.buffers()
    if data is None or data.size < 8:
        data = pa.py_buffer((b"" if data is None else data.to_pybytes()).ljust(8, b"\0"))
    return data, (0 if offsets is None else offsets.address) + 4 * column.offset  # none: it is empty


@lru_cache(maxsize=KEPT)
def _find_hash(heads: tuple[tuple[tuple[int, int], int], ...]) -> tuple[Ints, int, int]:
    """Search a hash without collisions: its table of literals, its bits (0: none was found), its multiplier.

    Args:
        heads: the beginning and length of literals, each with the last literal that has them.
    """
    folded = np.array([_fold(word, length) for (word, length), _ in heads], np.uint64)
    for bits in range(max(4, (4 * len(heads)).bit_length()), 15):
        rng = np.random.default_rng(bits)
        for multiplier in (int(each) | 1 for each in rng.integers(2**20, 2**31, TRIES)):
            slots = ((folded * np.uint64(multiplier)) & np.uint64(LOW)) >> np.uint64(32 - bits)
            if len(np.unique(slots)) == len(slots):
                table = np.zeros(1 << bits, np.int64)
                table[slots.astype(np.int64)] = [BYTES * LiteralEntry.WORDS * number for _, number in heads]
                return table, bits, multiplier
    return np.zeros(1, np.int64), 0, 0


def _fold(word: int, length: int) -> int:
    """Return the number that `slot_of` multiplies."""
    return ((word ^ (word >> 29)) + length * 0x9E37) & LOW


# ---- strings numbered in the order of first sight

FACTOR, MASK = 0x2545F4914F6CDD1D, (1 << 63) - 1


class Entry(Record):
    """A known string: its first eight bytes, its length, its address, its number (0: the entry is free)."""

    word: int
    length: int
    start: int
    number: int


class InternTable(Record):
    """The bytes of a column, and the hash table of the strings known so far."""

    data: int  # the address of the column's bytes
    end: int  # how many bytes the column has
    entries: Rows[Entry]
    bits: int  # log2 of the number of entries
    known: int  # how many strings have a number
    rows: Words  # for each new string, its row in the column
    before: int  # how many strings were known before the column


ENTRY = Entry.WORDS


@kernel()
def hash_of(word: int, data: int, length: int) -> int:
    """Return the hash of a string; `word` is its first eight bytes."""
    hashed = ((word ^ length) * FACTOR) & MASK
    if length > 8:
        for at in range(8, length - 7, 8):
            hashed = ((hashed ^ (hashed >> 29) ^ load(data + at)) * FACTOR) & MASK
        hashed = ((hashed ^ (hashed >> 29) ^ load(data + length - 8)) * FACTOR) & MASK
    return hashed


@kernel(int64(int64, int64, int64, int64))
def number_strings(table: int, offsets: int, count: int, out: int) -> int:
    """Write the number of each string; return how many strings have one: fewer if the table is full.

    Args:
        table: the address of an `InternTable`: the known strings and the column.
        offsets: the address of the strings' offsets, 32 bits each; the end of the last string follows.
        count: how many strings the column has.
        out: room for the numbers.
    """
    m, numbers = InternTable(table), Words(out)
    data, end, entries, bits = m.data, m.end, m.entries, m.bits
    rows, before, known = m.rows, m.before, m.known
    for i in range(count):
        both = load(offsets + 4 * i)
        start = both & LOW
        length = ((both >> 32) & LOW) - start
        word = first_word(data, end, start, length)
        at = hash_of(word, data + start, length) >> (63 - bits)
        entry = entries[at]
        while entry.number != 0 and not (
            entry.word == word
            and entry.length == length
            and (length <= 8 or same_rest(data + start, entry.start, length))
        ):
            at = (at + 1) & ((1 << bits) - 1)
            entry = entries[at]
        found = entry.number
        if found == 0:
            if 2 * known >= 1 << bits:
                return i
            known += 1
            m.known = known
            entry.word = word
            entry.length = length
            entry.start = data + start
            entry.number = known
            rows[known - 1 - before] = i
            found = known
        numbers[i] = found
    return count


@kernel(void(int64, int64, int64, int64))
def find_strings(table: int, offsets: int, count: int, out: int) -> None:
    """Write the number of each string less one, -1 for a string that the table does not hold.

    Args:
        table: the address of an `InternTable`: the known strings and the column.
        offsets: the address of the strings' offsets, 32 bits each; the end of the last string follows.
        count: how many strings the column has.
        out: room for the numbers.
    """
    m, numbers = InternTable(table), Words(out)
    data, end, entries, bits = m.data, m.end, m.entries, m.bits
    for i in range(count):
        both = load(offsets + 4 * i)
        start = both & LOW
        length = ((both >> 32) & LOW) - start
        word = first_word(data, end, start, length)
        at = hash_of(word, data + start, length) >> (63 - bits)
        while True:
            entry = entries[at]
            differs = (entry.word ^ word) | (entry.length ^ length)
            if differs & (-entry.number >> 63) == 0:  # it is equal or free; two branches would mispredict
                if length <= 8 or entry.number == 0 or same_rest(data + start, entry.start, length):
                    break
            at = (at + 1) & ((1 << bits) - 1)
        numbers[i] = entry.number - 1


@kernel(void(int64, int64, int64))
def move(table: int, old: int, count: int) -> None:
    """Move the entries of a table to a new one."""
    m, sources = InternTable(table), Words(old)
    entries, bits = m.entries, m.bits
    for i in range(count):
        source = Entry(sources[ENTRY * i :])
        if source.number != 0:
            at = hash_of(source.word, source.start, source.length) >> (63 - bits)
            while entries[at].number != 0:
                at = (at + 1) & ((1 << bits) - 1)
            target = entries[at]
            target.word = source.word
            target.length = source.length
            target.start = source.start
            target.number = source.number


def _bits_for(strings: int) -> int:
    """Return the bits of the size of a table that is half full with these strings."""
    return (2 * strings - 1).bit_length()


class InternedStrings:
    """The distinct strings of a column, numbered from 1 in the order of first sight.

    Args:
        rows: how many rows the column has.
        first: how many distinct strings there is room for at the start.
        most: how many there is room for at most.
    """

    def __init__(self, rows: int, first: int, most: int) -> None:
        self._most_bits = _bits_for(most)
        self._words = np.zeros(InternTable.WORDS, np.int64)
        self._table = InternTable(self._words.ctypes.data)
        self._entries = np.zeros((0, Entry.WORDS), np.int64)
        self._kept: list[pa.Buffer] = []  # the buffers that entries point into
        self.words: list[pa.Array] = []  # the strings in the order of their numbers, in chunks
        self._grow(min(_bits_for(first), self._most_bits, (2 * rows + 1).bit_length()))

    def numbers(self, column: pa.Array, out: Ints) -> bool:
        """Write the numbers of the strings of a column, 0 for nulls; False: the table cannot hold them."""
        if column.null_count:  # a null may have bytes too
            out[:] = 0
            valid = np.flatnonzero(column.is_valid())
            known: Ints = np.empty(len(valid), np.int64)
            has_room = self.numbers(column.drop_null(), known)
            out[valid] = known
            return has_room
        data, offsets = address_strings(column)
        self._kept.append(data)
        self._table.data, self._table.end = data.address, data.size
        done = 0
        while done < len(column):
            done += self._number(column, done, offsets + 4 * done, out[done:])
            if done < len(column) and not self._grow(self._table.bits + 2):
                return False
        return True

    def find(self, column: pa.Array, out: Ints) -> None:
        """Write the numbers of known strings less one, -1 for other strings; nulls may have any.

        Threads may share a table that no more strings are added to.
        """
        data, offsets = address_strings(column)
        words = self._words.copy()
        words[InternTable.data], words[InternTable.end] = data.address, data.size
        find_strings(words.ctypes.data, offsets, len(column), out.ctypes.data)

    def _number(self, column: pa.Array, start: int, where: int, out: Ints) -> int:
        """Number strings until the table is full, and add the new strings to `words`."""
        known = self._table.known
        rows = np.empty(len(self._entries), np.int64)
        self._table.rows, self._table.before = Words(rows.ctypes.data), known
        done = int(number_strings(int(self._table), where, len(column) - start, out.ctypes.data))
        if new := self._table.known - known:
            self.words.append(column.take(pa.array(rows[:new] + start)))
        return done

    def _grow(self, bits: int) -> bool:
        """Enlarge the table; return False if it would pass its largest size."""
        if bits > self._most_bits:
            return False
        old, self._entries = self._entries, np.zeros((1 << bits, Entry.WORDS), np.int64)
        self._table.entries, self._table.bits = Rows(Entry, self._entries.ctypes.data), bits
        move(int(self._table), old.ctypes.data, len(old))
        return True
