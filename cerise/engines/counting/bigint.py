"""Exact numbers of any size, added without carrying.

A number is a list of limbs of `bits` bits, each in a 64-bit word, least first. The upper bits of a word hold
the carries of many additions: numbers are added word by word, several words at once, and only a finished sum
is carried, by one limb. So a limb may end up a little above its bits, or below 0 after a subtraction; the
number is right. Limbs of several lanes (numbers counted side by side) are interleaved: limb 0 of each lane,
then limb 1 of each. With A additions between carries, limbs stay below 2^(bits + 1) if A <= 2^(bits - 1), and
sums fit into a word if A < 2^(62 - bits).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.errors import PlanError
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words

Ints = npt.NDArray[np.int64]
Objects = npt.NDArray[np.object_]
LONG = 16  # words from which on a loop pays for its set-up


def limb_bits(additions: int, bits: int = 64) -> int:
    """Return how many bits a limb can have for a number of additions: `bits`, or the nearest possible."""
    needed = additions.bit_length()
    least, most = needed + 1, 61 - needed
    if least > most:
        raise PlanError(f"{additions} numbers are too many to add", hint="count fewer events at a time")
    return max(least, min(bits, most))


def to_ints(limbs: Ints, starts: Ints, bits: int) -> Objects:
    """Return numbers as Python integers.

    Args:
        limbs: the limbs of all numbers, one number after the other.
        starts: the start of each number in `limbs`, and the end of the last number.
        bits: how many bits a limb has; limbs are from 0 to 2^bits - 1.
    """
    lengths = np.diff(starts)
    numbers = np.zeros(len(lengths), np.object_)
    for limb in range(int(lengths.max(initial=0)) - 1, -1, -1):
        longer = np.flatnonzero(lengths > limb)
        numbers[longer] = (numbers[longer] << bits) + limbs[starts[longer] + limb].astype(np.object_)
    return numbers


@kernel()
def add(target: Words, source: Words, width: int) -> None:
    """Add a row to another; the length of rows is a multiple of 8 words."""
    if width < LONG:
        for w in range(0, width, 8):
            add_eight(target[w:], source[w:])
    else:
        for w in range(width):
            target[w] += source[w]


@kernel()
def add_eight(target: Words, source: Words) -> None:
    """Add eight words to others, without a loop."""
    a, b, c, d = source[0], source[1], source[2], source[3]
    e, f, g, h = source[4], source[5], source[6], source[7]
    target[0] = a + target[0]
    target[1] = b + target[1]
    target[2] = c + target[2]
    target[3] = d + target[3]
    target[4] = e + target[4]
    target[5] = f + target[5]
    target[6] = g + target[6]
    target[7] = h + target[7]


@kernel()
def accumulate(target: Words, source: Words, held: int, width: int) -> None:
    """Add a row to another whose first `held` words are in use; its other words are garbage, read as 0."""
    add(target, source, held)
    if held < width:
        for w in range(held, width):
            target[w] = source[w]


@kernel()
def subtract(target: Words, source: Words, width: int) -> None:
    """Subtract a row from another."""
    for w in range(width):
        target[w] -= source[w]


@kernel()
def clear(target: Words, width: int) -> None:
    """Set a row to 0."""
    for w in range(width):
        target[w] = 0


@kernel()
def any_above(row: Words, limb: int, lanes: int, bits: int) -> bool:
    """Whether a limb of any lane, with the carry from the limb below, is too large."""
    found, most = False, (1 << bits) - 1
    for lane in range(lanes):
        word = row[limb * lanes + lane]
        if limb > 0:
            word += row[(limb - 1) * lanes + lane] >> bits
        found = found or word > most or word < -most
    return found


@kernel()
def carry(target: Words, row: Words, limbs: int, lanes: int, bits: int) -> None:
    """Write a row with the upper bits of each limb carried to the next limb; pad it to a multiple of 8 words.

    The highest limb keeps its sign.
    """
    mask, top = (1 << bits) - 1, (limbs - 1) * lanes
    if top == 0:
        mask = -1
    for w in range(lanes):
        target[w] = row[w] & mask
    for w in range(lanes, top):
        target[w] = (row[w] & mask) + (row[w - lanes] >> bits)
    for w in range(max(top, lanes), top + lanes):
        target[w] = row[w] + (row[w - lanes] >> bits)
    for w in range(top + lanes, (top + lanes + 7) & -8):
        target[w] = 0


@kernel()
def is_zero(row: Words, width: int) -> bool:
    """Whether all words of a row are 0."""
    w = 0
    while w < width and row[w] == 0:
        w += 1
    return w >= width


@kernel()
def write(target: Words, row: Words, limbs: int, lanes: int, bits: int) -> int:
    """Write the number of a row's first lane, fully carried; return its length without zeros at the top."""
    mask = (1 << bits) - 1
    over, length, limb = 0, 0, 0
    while limb < limbs or over > 0:
        word = over + (row[limb * lanes] if limb < limbs else 0)
        target[limb] = word & mask
        over = word >> bits
        limb += 1
        if word & mask:
            length = limb
    return length
