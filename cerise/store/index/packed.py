"""Bit-packed lists of integers with random access.

A list stores (value − base) / step in `width` bits per number, lowest bit first. A list that would need more
than 56 bits per number is written unpacked, in 64, so that one 64-bit load reads any number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cerise.events import Ints as IntArray
from cerise.kernels.bits import peek, poke
from cerise.kernels.jit import Ints, Marks, kernel, void

WIDEST = 56


class Packing(NamedTuple):
    """The packing of many lists: base, step and bit width of each list."""

    base: IntArray
    step: IntArray
    width: IntArray


def frames(least: IntArray, most: IntArray, step: IntArray | int, *, compress: bool) -> Packing:
    """Choose the packing of lists with the given least and greatest values."""
    steps = np.broadcast_to(np.asarray(step, np.int64), least.shape)
    with np.errstate(over="ignore"):
        widths = bits(((most - least).view(np.uint64) // steps.view(np.uint64)).view(np.int64))
    raw = (widths > WIDEST) if compress else np.ones(least.shape, np.bool_)
    return Packing(np.where(raw, 0, least), np.where(raw, 1, steps), np.where(raw, 64, widths))


def sizes(counts: IntArray, width: IntArray) -> IntArray:
    """Return how many bytes lists take."""
    return (counts * width + 7) >> 3


def bits(numbers: IntArray) -> IntArray:
    """Return how many bits unsigned numbers have."""
    rest = np.ascontiguousarray(numbers).view(np.uint64).copy()
    found = np.zeros(rest.shape, np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        large = rest >= np.uint64(1 << shift)
        found += shift * large
        rest = np.where(large, rest >> np.uint64(shift), rest)
    return found + (rest > 0)


@kernel()
def at(address: int, width: int, i: int) -> int:
    """Return the i-th packed number of a list, before base and step are applied."""
    bit = i * width
    word = peek(address + (bit >> 3))
    return word if width == 64 else (word >> (bit & 7)) & ((1 << width) - 1)


@kernel(void(Ints, Ints, Ints, Ints, Marks))
def pack(values: Any, starts: Any, widths: Any, places: Any, out: Any) -> None:
    """Write packed lists.

    Args:
        values: the numbers of all lists, with base and step removed.
        starts: where each list starts in `values`, and where the last ends.
        widths: how many bits a number of each list takes.
        places: at which byte of `out` each list starts.
        out: receives all lists.
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
