"""A skip index for one inequality of a join: skips runs of events that fail it against a bound event.

The list of a variable's events stays in stream order, which matches need. The index holds the extremes of the
comparison's right side over runs of 16, 256 and 4096 events: if the extreme of a run fails, all its events
fail, so the next event that passes is found in logarithmic time, without testing all events between.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.records import Machine
from cerise.engines.rcep.records import (
    AT_MOST,
    NULL,
    Inequality,
    JoinFrame,
    JoinWorkspace,
    first_after,
    holds,
)
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words

Ints = npt.NDArray[np.int64]
BITS = (12, 8, 4)  # log2 of the number of events in a run, the longest runs first
NONE = np.iinfo(np.int64).max  # stands for null in a minimum


def extremes(values: Ints, op: int) -> list[Ints]:
    """Return the extremes of runs of each length: maxima if the right side must be large, else minima."""
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
def fails(op: int, extremes: Words, run: int, left: int) -> bool:
    """Whether all events of a run fail."""
    return not holds(op, left, extremes[run])


@kernel()
def leap(row: Inequality, events: Words, left: int, place: int, end: int) -> int:
    """Return the position of the next event of a list that passes, or its end."""
    keys, op = row.right, row.op
    while place < end:
        at = place - row.base
        if at & 4095 == 0 and fails(op, row.by_4096, at >> 12, left):
            place += 4096
        elif at & 255 == 0 and fails(op, row.by_256, at >> 8, left):
            place += 256
        elif at & 15 == 0 and fails(op, row.by_16, at >> 4, left):
            place += 16
        elif holds(op, left, keys[events[place]]):
            return place
        else:
            place += 1
    return end


@kernel()
def leap_back(row: Inequality, events: Words, left: int, place: int, start: int) -> int:
    """Return one beyond the position of the last event before `place` that passes; the start if none does."""
    keys, op = row.right, row.op
    while place > start:
        at = place - row.base
        if at & 4095 == 0 and fails(op, row.by_4096, (at >> 12) - 1, left):
            place -= 4096
        elif at & 255 == 0 and fails(op, row.by_256, (at >> 8) - 1, left):
            place -= 256
        elif at & 15 == 0 and fails(op, row.by_16, (at >> 4) - 1, left):
            place -= 16
        elif holds(op, left, keys[events[place - 1]]):
            return place
        else:
            place -= 1
    return start


@kernel()
def prepare_leaps(m: Machine, w: JoinWorkspace, frame: JoinFrame, d: int, first: int, last: int) -> None:
    """Cut the list of a frame to the events from `first` to `last`; a long list gets the skip index."""
    row = w.leaps[frame.edge]
    frame.leap = 0
    if row.var < 0 or frame.end - frame.cursor < row.long:
        return
    events = frame.list
    start = first_after(events, frame.cursor, frame.end, first - 1)
    end = first_after(events, start, frame.end, last)
    frame.cursor = start
    frame.end = end
    if end - start < row.long:
        return
    i = d - 1
    while m.nodes[i].var != row.var:
        i -= 1
    frame.leap = int(row)
    frame.left = row.left[m.nodes[i].seq]
