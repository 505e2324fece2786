"""Range bitmaps: base-2 bit-sliced, range-encoded (000 §2.2, after [Chan98]).

Slice i of n codes is n bits, in ceil(n / 8) bytes, the first event in the lowest bit: 1 where bit i of the
code is 0. If many events are in question, all are tested slice by slice, from the lowest up, as in the paper:
one OR or AND per slice, which compilers vectorise. If few are, 64 events at a time are tested from the
highest slice down: an event is decided as soon as its code leaves the path to both ends of the range, so that
most tests touch only a few slices.
"""

from __future__ import annotations

from typing import Any

from cerise.kernels.bits import peek, peek_word
from cerise.kernels.jit import Ints, Marks, kernel, void


@kernel()
def transpose(word: int) -> int:
    """Return 8 × 8 bits with rows and columns exchanged [Delight §7-3]."""
    swap = (word ^ (word >> 7)) & 0x00AA00AA00AA00AA
    word = word ^ swap ^ (swap << 7)
    swap = (word ^ (word >> 14)) & 0x0000CCCC0000CCCC
    word = word ^ swap ^ (swap << 14)
    swap = (word ^ (word >> 28)) & 0x00000000F0F0F0F0
    return word ^ swap ^ (swap << 28)


@kernel(void(Ints, Ints, Ints, Ints, Marks))
def write_slices(codes: Any, starts: Any, widths: Any, places: Any, out: Any) -> None:
    """Write the slices of the codes of many clusters, lowest first.

    Args:
        codes: the codes of all clusters, minus the base of each.
        starts: where each cluster starts in `codes`, and where the last ends.
        widths: how many slices each cluster has.
        places: at which byte of `out` its slices start.
        out: receives all slices.
    """
    for c in range(len(widths)):
        start, end, width, place = starts[c], starts[c + 1], widths[c], places[c]
        stride = (end - start + 7) >> 3
        for group in range(stride):
            first = start + 8 * group
            some = min(8, end - first)
            kept = (1 << some) - 1
            for low in range(0, width, 8):
                word = 0
                for j in range(some):
                    word |= ((codes[first + j] >> low) & 255) << (8 * j)
                word = transpose(word)
                for i in range(low, min(low + 8, width)):
                    out[place + i * stride + group] = ~word & kept
                    word >>= 8


@kernel()
def at_most(slices: int, stride: int, width: int, most: int, state: Any, words: int) -> None:
    """Find the events whose code is at most a threshold (000 §2.2).

    Args:
        slices: the address of the first word in the lowest slice.
        stride: how many bytes a slice has.
        width: how many slices there are.
        most: the threshold, unsigned.
        state: receives a bit for each event.
        words: how many words of events there are.
    """
    i = 0
    while i < width and (most >> i) & 1:
        i += 1
    if i == width:
        for j in range(words):
            state[j] = -1
        return
    slice_ = slices + i * stride
    for j in range(words):
        state[j] = peek_word(slice_, j)
    for k in range(i + 1, width):
        slice_ = slices + k * stride
        if (most >> k) & 1:
            for j in range(words):
                state[j] |= peek_word(slice_, j)
        else:
            for j in range(words):
                state[j] &= peek_word(slice_, j)


@kernel()
def between(slices: int, stride: int, width: int, low: int, high: int, live: int) -> int:
    """Return which of 64 events have a code from low to high, both unsigned and inclusive.

    Args:
        slices: the address of the events' word in the lowest slice.
        stride: how many bytes a slice has.
        width: how many slices there are.
        low: the least code.
        high: the greatest code.
        live: the events in question; other events never pass.
    """
    i = width - 1
    while i >= 0 and live != 0 and (low >> i) & 1 == (high >> i) & 1:  # on the path to both ends
        live &= peek(slices + i * stride) ^ -((low >> i) & 1)
        i -= 1
    if i < 0 or live == 0:
        return live
    zeros = peek(slices + i * stride)
    lower, upper, inside = live & zeros, live & ~zeros, 0  # on the path to low; to high; decided
    i -= 1
    while i >= 0:
        below = (2 << i) - 1
        if low & below == 0:
            inside |= lower
            lower = 0
        if high & below == below:
            inside |= upper
            upper = 0
        if lower | upper == 0:
            break
        zeros = peek(slices + i * stride)
        low_bit, high_bit = -((low >> i) & 1), -((high >> i) & 1)
        inside |= (lower & ~zeros & ~low_bit) | (upper & zeros & high_bit)
        lower &= zeros ^ low_bit
        upper &= zeros ^ high_bit
        i -= 1
    return inside | lower | upper


@kernel()
def code_at(slices: int, stride: int, width: int, i: int) -> int:
    """Return the code of an event, minus the base of its cluster."""
    code, byte, bit = 0, slices + (i >> 3), i & 7
    for k in range(width):
        one = (~peek(byte + k * stride) >> bit) & 1
        code |= (one if k < 63 else -one) << k
    return code
