"""Strings that are only compared with the strings of a query: coded by a hash without collisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.kernels.jit import get, int64, kernel, load, put, void

Ints = npt.NDArray[np.int64]
LOW = 0xFFFFFFFF
TRIES = 64  # multipliers that are tried

# a literal: its first eight bytes, its length, where its bytes begin, its code, the next that begins alike
L_WORD, L_LENGTH, L_START, L_CODE, L_NEXT, L_WORDS = range(6)
# what the kernel is told: where the bytes of a column lie, how many they are; the table from hash to row, the
# length of a hash, its multiplier; where the literals lie (row 0 is of none) and where their bytes
C_DATA, C_END, C_TABLE, C_BITS, C_MULTIPLIER, C_ROWS, C_TEXTS, C_WORDS = range(8)


@kernel()
def first_word(data: int, end: int, start: int, length: int) -> int:
    """Return the first eight bytes of a string as one number; bytes that it does not have are 0."""
    if start + 8 <= end:
        word = load(data + start)
    else:  # never read behind the last byte
        late = 8 * min(start + 8 - end, 7)
        word = (load(data + end - 8) >> late) & ((1 << (64 - late)) - 1)
    return word & ((1 << (8 * length)) - 1) if length < 8 else word


@kernel()
def slot_of(word: int, length: int, multiplier: int, bits: int) -> int:
    """Return where the table of a hash looks for a string."""
    folded = ((word ^ (word >> 29)) + length * 0x9E37) & LOW
    return ((folded * multiplier) & LOW) >> (32 - bits)


@kernel()
def same_rest(one: int, other: int, length: int) -> bool:
    """Whether two strings of one length, longer than eight bytes, end alike."""
    for at in range(8, length - 7, 8):
        if load(one + at) != load(other + at):
            return False
    return load(one + length - 8) == load(other + length - 8)


@kernel(void(int64, int64, int64, int64))
def code_strings(m: int, offsets: int, count: int, out: int) -> None:
    """Write for each string the code of the literal that it equals, or -1.

    Args:
        m: what is known of the literals and the column: see the C_ words.
        offsets: where it is said where each string begins, in words of 32 bits; the end of the last follows.
        count: how many strings.
        out: room for the answer.
    """
    data, end, table, bits = get(m, C_DATA), get(m, C_END), get(m, C_TABLE), get(m, C_BITS)
    multiplier, rows, texts = get(m, C_MULTIPLIER), get(m, C_ROWS), get(m, C_TEXTS)
    for i in range(count):
        both = load(offsets + 4 * i)
        start = both & LOW
        length = ((both >> 32) & LOW) - start
        word = first_word(data, end, start, length)
        at = get(table, slot_of(word, length, multiplier, bits))
        differs = (get(rows + at, L_WORD) ^ word) | (get(rows + at, L_LENGTH) ^ length)
        at &= ((differs | -differs) >> 63) ^ -1  # row 0 where it differs; a branch could not be foreseen
        if length > 8:
            while at > 0 and not same_rest(data + start, texts + get(rows + at, L_START), length):
                at = get(rows + at, L_NEXT)
        put(out, i, get(rows + at, L_CODE))


class Literals:
    """The strings of a query, to be found in columns."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._texts = np.frombuffer(b"".join(words) + bytes(8), np.uint8)
        self._rows = np.zeros((len(words) + 1, L_WORDS), np.int64)
        self._rows[0, L_LENGTH] = self._rows[0, L_CODE] = -1
        starts = np.cumsum([0, *(len(word) for word in words)])
        heads: dict[tuple[int, int], int] = {}  # the first literal of each beginning and length
        for number, word in enumerate(words, 1):
            first = int.from_bytes(word[:8], "little", signed=len(word) >= 8)
            before = heads.get((first, len(word)), 0)
            self._rows[number] = first, len(word), starts[number - 1], -1, 8 * L_WORDS * before
            heads[first, len(word)] = number
        self._table, bits, multiplier = _without_collisions(heads)
        self._words = np.zeros(C_WORDS, np.int64)
        self._words[C_TABLE:] = (
            self._table.ctypes.data, bits, multiplier, self._rows.ctypes.data, self._texts.ctypes.data,
        )  # fmt: skip

    @property
    def found(self) -> bool:
        """Whether there is a hash without collisions for these strings."""
        return bool(self._words[C_BITS])

    def codes(self, column: pa.Array, start: int, codes: Ints, out: Ints) -> None:
        """Write the codes of as many strings from `start` on as there is room for; -1 for unknown ones.

        Args:
            column: the strings.
            start: the first of them.
            codes: the code of each literal.
            out: room for the answer.
        """
        self._rows[1:, L_CODE] = codes
        _, offsets, data = column.buffers()
        if data is None or data.size < 8:
            data = pa.py_buffer((b"" if data is None else data.to_pybytes()).ljust(8, b"\0"))
        self._words[C_DATA], self._words[C_END] = data.address, data.size
        where = offsets.address + 4 * (column.offset + start)
        code_strings(self._words.ctypes.data, where, len(out), out.ctypes.data)


def _without_collisions(heads: dict[tuple[int, int], int]) -> tuple[Ints, int, int]:
    """Return a table from hash to row, the length of the hash and its multiplier; length 0: there is none."""
    for bits in range(max(4, (4 * len(heads)).bit_length()), 15):
        rng = np.random.default_rng(bits)
        for multiplier in (int(each) | 1 for each in rng.integers(2**20, 2**31, TRIES)):
            slots = [_slot(word, length, multiplier, bits) for word, length in heads]
            if len(set(slots)) == len(slots):
                table = np.zeros(1 << bits, np.int64)
                table[slots] = [8 * L_WORDS * number for number in heads.values()]
                return table, bits, multiplier
    return np.zeros(1, np.int64), 0, 0


def _slot(*args: Any) -> int:
    return int(slot_of(*args))
