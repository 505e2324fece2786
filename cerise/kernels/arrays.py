"""Passes over whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from cerise.kernels.jit import Bytes, Fixed32, Ints, Marks, Table, int64, kernel, load, void


@kernel()
def first_word(data: Any, start: int, length: int) -> int:
    """Return the first eight bytes of a string as one number; bytes that it does not have are 0."""
    if start + 8 <= len(data):
        word = load(int64(data.ctypes.data) + start)
        return word & ((1 << (8 * length)) - 1) if length < 8 else word
    word = 0
    for i in range(min(length, 8)):
        word |= int64(data[start + i]) << (8 * i)
    return word


@kernel()
def same_rest(data: Any, start: int, texts: Any, first: int, length: int) -> bool:
    """Whether two strings of one length that begin alike are equal."""
    for i in range(8, length):
        if data[start + i] != texts[first + i]:
            return False
    return True


@kernel(void(Fixed32, Bytes, Ints, Bytes, Ints, Ints))
def code_literals(offsets: Any, data: Any, ends: Any, texts: Any, codes: Any, out: Any) -> None:
    """Write for each string the code of the literal that it equals, or -1.

    Args:
        offsets: where each string begins in `data`, and the end of the last.
        data: the bytes of all strings.
        ends: where each literal ends in `texts`.
        texts: the bytes of all literals.
        codes: the code of each literal.
        out: room for the answer.
    """
    words = np.empty(len(ends), np.int64)
    starts = np.zeros(len(ends) + 1, np.int64)
    for j in range(len(ends)):
        words[j] = first_word(texts, starts[j], ends[j] - starts[j])
        starts[j + 1] = ends[j]
    for i in range(len(out)):
        start, length = int64(offsets[i]), int64(offsets[i + 1] - offsets[i])
        word = first_word(data, start, length)
        code = -1
        for j in range(len(words)):
            if words[j] == word and starts[j + 1] - starts[j] == length:
                if length <= 8 or same_rest(data, start, texts, starts[j], length):
                    code = codes[j]
        out[i] = code


@kernel(int64(Table, Ints, int64, Marks, Ints))
def number_used(events: Any, fill: Any, low: int, marks: Any, used: Any) -> int:
    """Replace the numbers in each row by their places among the distinct ones; return how many there are.

    Args:
        events: rows of numbers.
        fill: how many numbers of each row count.
        low: the lowest number.
        marks: a byte, now 0, for every number from the lowest to the highest.
        used: room for a word for every number from the lowest to the highest; the distinct ones go first.
    """
    for row in range(len(fill)):
        for i in range(fill[row]):
            marks[events[row, i] - low] = 1
    count = 0
    for n in range(len(marks)):
        if marks[n]:
            used[n] = count
            count += 1
    for row in range(len(fill)):
        for i in range(fill[row]):
            events[row, i] = used[events[row, i] - low]
    count = 0
    for n in range(len(marks)):
        if marks[n]:
            used[count] = n + low
            count += 1
    return count
