"""Lists of integers in as few bits as they need, each to be read on its own.

A list is (value − base) / step in `width` bits each, lowest bit first; a list whose numbers would take more
than 56 bits is written as it is, in 64. So a number and what it shares bytes with lie in one word of memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cerise.events import Ints as IntArray
from cerise.kernels.bits import peek, poke
from cerise.kernels.jit import Ints, Marks, kernel, void

WIDEST = 56


class Frame(NamedTuple):
    """How many lists are written: one number of each for each list."""

    base: IntArray
    step: IntArray
    width: IntArray


def frames(least: IntArray, most: IntArray, step: IntArray | int, *, compress: bool) -> Frame:
    """Return how lists with given least and greatest values are written."""
    steps = np.broadcast_to(np.asarray(step, np.int64), least.shape)
    with np.errstate(over="ignore"):
        widths = bits(((most - least).view(np.uint64) // steps.view(np.uint64)).view(np.int64))
    raw = (widths > WIDEST) if compress else np.ones(least.shape, np.bool_)
    return Frame(np.where(raw, 0, least), np.where(raw, 1, steps), np.where(raw, 64, widths))


def sizes(counts: IntArray, width: IntArray) -> IntArray:
    """Return how many bytes lists take."""
    return (counts * width + 7) >> 3


def bits(numbers: IntArray) -> IntArray:
    """Return how many bits numbers without sign have."""
    rest = np.ascontiguousarray(numbers).view(np.uint64).copy()
    found = np.zeros(rest.shape, np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        large = rest >= np.uint64(1 << shift)
        found += shift * large
        rest = np.where(large, rest >> np.uint64(shift), rest)
    return found + (rest > 0)


@kernel()
def at(address: int, width: int, i: int) -> int:
    """Return the i-th number of a list, without base and step."""
    bit = i * width
    word = peek(address + (bit >> 3))
    return word if width == 64 else (word >> (bit & 7)) & ((1 << width) - 1)


@kernel(void(Ints, Ints, Ints, Ints, Marks))
def pack(values: Any, starts: Any, widths: Any, places: Any, out: Any) -> None:
    """Write lists of numbers that have no base and step any more.

    Args:
        values: the numbers of all lists.
        starts: where each list starts among them, and where the last ends.
        widths: how many bits the numbers of each list take.
        places: at which byte of `out` each list starts.
        out: room for all lists.
    """
    address = out.ctypes.data
    for c in range(len(widths)):
        width, place = widths[c], places[c]
        if width == 0:
            continue
        word, fill = 0, 0
        for i in range(starts[c], starts[c + 1]):
            word |= values[i] << fill
            fill += width
            if fill >= 64:
                poke(address + place, word)
                place += 8
                fill -= 64
                word = values[i] >> (width - fill) if fill else 0
        while fill > 0:
            out[place] = word & 255
            word >>= 8
            place += 1
            fill -= 8
