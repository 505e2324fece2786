"""One inequality of a join by sorted runs: events that fail it against what is bound are leapt over.

The list of a variable's events stays in stream order, as matches need it. Above it lie the extremes of a
comparison's right side over runs of 16 events, of 256 and of 4096: a run whose extreme fails holds no event
that passes, so the next one that does is found in logarithmic time, not by looking at all between.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.engines.nfa.numbered import (
    SEQ,
    VAR,
    node_row,
)
from cerise.engines.rcep.desk import (
    AT_MOST,
    D_LEAPS,
    F_CURSOR,
    F_EDGE,
    F_END,
    F_LEAP,
    F_LEFT,
    F_LIST,
    NULL,
    X_BASE,
    X_LEFT,
    X_LONG,
    X_OP,
    X_RIGHT,
    X_RUNS,
    X_VAR,
    X_WORDS,
    first_after,
    holds,
)
from cerise.kernels.jit import get, kernel, put

Ints = npt.NDArray[np.int64]
BITS = (12, 8, 4)  # of the number of events in a run, the longest runs first
NONE = np.iinfo(np.int64).max  # where no value is, for a least one


def extremes(values: Ints, op: int) -> list[Ints]:
    """Return for runs of each length the greatest value if the right side must be large, else the least."""
    greatest = op <= AT_MOST
    filler = NULL if greatest else NONE
    found = values if greatest else np.where(values == NULL, NONE, values)
    levels: list[Ints] = []
    for _ in BITS:
        padded = np.full((-(-len(found) // 16), 16), filler, np.int64)
        padded.reshape(-1)[: len(found)] = found
        found = padded.max(axis=1) if greatest else padded.min(axis=1)
        levels.append(found)
    return levels[::-1]


@kernel()
def fails(row: int, level: int, run: int, left: int) -> bool:
    """Whether no event of a run passes."""
    return not holds(get(row, X_OP), left, get(get(row, X_RUNS + level), run))


@kernel()
def leap(row: int, events: int, left: int, place: int, end: int) -> int:
    """Return the next place in a list, up to its end, of an event that passes."""
    keys, op = get(row, X_RIGHT), get(row, X_OP)
    while place < end:
        at = place - get(row, X_BASE)
        if at & 4095 == 0 and fails(row, 0, at >> 12, left):
            place += 4096
        elif at & 255 == 0 and fails(row, 1, at >> 8, left):
            place += 256
        elif at & 15 == 0 and fails(row, 2, at >> 4, left):
            place += 16
        elif holds(op, left, get(keys, get(events, place))):
            return place
        else:
            place += 1
    return end


@kernel()
def leap_back(row: int, events: int, left: int, place: int, start: int) -> int:
    """Return one beyond the place of the last event before a place that passes; the start if none does."""
    keys, op = get(row, X_RIGHT), get(row, X_OP)
    while place > start:
        at = place - get(row, X_BASE)
        if at & 4095 == 0 and fails(row, 0, (at >> 12) - 1, left):
            place -= 4096
        elif at & 255 == 0 and fails(row, 1, (at >> 8) - 1, left):
            place -= 256
        elif at & 15 == 0 and fails(row, 2, (at >> 4) - 1, left):
            place -= 16
        elif holds(op, left, get(keys, get(events, place - 1))):
            return place
        else:
            place -= 1
    return start


@kernel()
def prepare_leaps(m: int, w: int, frame: int, d: int, first: int, last: int) -> None:
    """Let a frame leap over events that fail, where its list from the first event to the last one is long.

    The list keeps only these: nobody leaps to where no match is.
    """
    row = get(w, D_LEAPS) + 8 * X_WORDS * get(frame, F_EDGE)
    put(frame, F_LEAP, 0)
    if get(row, X_VAR) < 0 or get(frame, F_END) - get(frame, F_CURSOR) < get(row, X_LONG):
        return
    events = get(frame, F_LIST)
    start = first_after(events, get(frame, F_CURSOR), get(frame, F_END), first - 1)
    end = first_after(events, start, get(frame, F_END), last)
    put(frame, F_CURSOR, start)
    put(frame, F_END, end)
    if end - start < get(row, X_LONG):
        return
    i = d - 1
    while get(node_row(m, i), VAR) != get(row, X_VAR):
        i -= 1
    put(frame, F_LEAP, row)
    put(frame, F_LEFT, get(get(row, X_LEFT), get(node_row(m, i), SEQ)))
