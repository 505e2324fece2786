"""Encodes doubles with few decimals as whole numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cerise.kernels.jit import Floats, Ints, boolean, int64, kernel

EXACT = 9007199254740992.0  # 2^53: up to here doubles are exact for whole numbers
MOST = 6


@kernel()
def stands_for(whole: float, power: float, value: float, narrow: bool) -> bool:
    """Tell whether a whole number over a power of ten equals the value."""
    if narrow:
        return bool(np.float32(whole / power) == np.float32(value))
    return whole / power == value


@kernel(int64(Floats, boolean, Ints))
def as_decimals(values: Any, narrow: bool, codes: Any) -> int:
    """Write values as multiples of 10^-s, for the smallest s that loses nothing.

    Args:
        values: the numbers.
        narrow: whether they are 32-bit floats, and will be decoded as such.
        codes: receives the multiples.

    Returns:
        s; -1 if no s up to 6 is lossless.
    """
    scale, power = 0, 1.0
    for i in range(len(values)):
        value = values[i]
        if not abs(value) < EXACT or (value == 0.0 and math.copysign(1.0, value) < 0.0):
            return -1
        while not stands_for(np.rint(value * power), power, value, narrow):
            scale += 1
            power *= 10.0
            if scale > MOST:
                return -1
    for i in range(len(values)):
        whole = np.rint(values[i] * power)
        if not abs(whole) < EXACT or not stands_for(whole, power, values[i], narrow):
            return -1
        codes[i] = int(whole)
    return scale
