"""The inner loops of filtering: one pass over events or times for each, quick where these ascend."""

from __future__ import annotations

from typing import Any

from cerise.kernels.jit import Ints, Marks, boolean, int64, kernel, void
from cerise.kernels.records import Words

LEAST, MOST = -(2**63), 2**63 - 1


@kernel()
def place_of(numbers: Words, count: int, low: int, number: int, after: bool) -> int:
    """Return where a number comes among sorted ones, before its equals or after; from `low` on if it can."""
    if low > 0:
        last = numbers[low - 1]
        if last > number or (last == number and not after):
            low = 0  # they do not ascend
    high, step = low, 1
    while high < count:
        found = numbers[high]
        if found > number or (found == number and not after):
            break
        low = high + 1
        high += step
        step <<= 1
    high = min(high, count)
    while low < high:
        middle = (low + high) >> 1
        found = numbers[middle]
        if found > number or (found == number and not after):
            high = middle
        else:
            low = middle + 1
    return low


@kernel(void(int64, int64, int64, boolean, Ints))
def find_places(numbers: int, count: int, wanted: int, after: bool, places: Any) -> None:
    """Find where wanted numbers come among sorted ones.

    Args:
        numbers: where the sorted numbers lie.
        count: how many they are.
        wanted: where the wanted numbers lie, as many as there are places.
        after: whether the place is that of the first number above, not of the first as large.
        places: room for the places.
    """
    low = 0
    for i in range(len(places)):
        low = place_of(Words(numbers), count, low, Words(wanted)[i], after)
        places[i] = low


@kernel(void(int64, int64, int64, int64, Marks))
def mark_inside(starts: int, ends: int, count: int, times: int, inside: Any) -> None:
    """Tell of each time whether an interval holds it.

    Args:
        starts: where the starts of the intervals lie, which are sorted and apart.
        ends: where their last moments lie.
        count: how many they are.
        times: where the times lie, as many as there are marks.
        inside: room for the marks.
    """
    low = 0
    for i in range(len(inside)):
        time = Words(times)[i]
        low = place_of(Words(starts), count, low, time, True)
        inside[i] = low > 0 and time <= Words(ends)[low - 1]


@kernel(void(int64, int64, int64, boolean, int64, Ints, Ints, Marks))
def find_neighbours(
    times: int, places: int, count: int, back: bool, beyond: int, when: Any, who: Any, found: Any
) -> None:
    """Replace events by the nearest others that are not before them, or not after them.

    Args:
        times: where the times of the others lie, in order.
        places: where it lies who they are.
        count: how many they are.
        back: whether others are looked for that are not after; those not before otherwise.
        beyond: the time to write where there is none.
        when: the times of the events.
        who: who they are. Of several others of one time any may be meant: then this becomes -1, so that the
            one found is free for what follows.
        found: whether there is such an event; becomes whether there is another, too.
    """
    low = 0
    for i in range(len(when)):
        low = place_of(Words(times), count, low, when[i], back)
        at = low - 1 if back else low
        if 0 <= at < count and Words(places)[at] == who[i]:
            at += -1 if back else 1
        if not found[i] or at < 0 or at >= count:
            found[i] = 0
            when[i] = beyond
            continue
        time = Words(times)[at]
        tied = (at > 0 and Words(times)[at - 1] == time) or (at + 1 < count and Words(times)[at + 1] == time)
        when[i] = time
        who[i] = -1 if tied else Words(places)[at]


@kernel()
def moved(time: int, by: int) -> int:
    """Return a time moved, but not beyond the least and the greatest."""
    if by >= 0:
        return MOST if time > MOST - by else time + by
    return LEAST if time < LEAST - by else time + by


@kernel(int64(int64, int64, Marks, int64, int64, int64, Ints, Ints))
def enclose(
    first: int, last: int, there: Any, window: int, before: int, after: int, starts: Any, ends: Any
) -> int:
    """Write where the matches around anchors lie; return for how many anchors there may be one.

    Args:
        first: where the latest start of a match around each anchor lies.
        last: where its earliest end lies.
        there: whether all else is there.
        window: how much time a match spans at most.
        before: how much before `last` a match may start; negative: not before `first`.
        after: how much after `first` it may end; negative: not after `last`.
        starts: room for the starts.
        ends: room for the ends.
    """
    count = 0
    for i in range(len(there)):
        start, end = Words(first)[i], Words(last)[i]
        if there[i] and end <= moved(start, window):
            starts[count] = start if before < 0 else moved(end, -before)
            ends[count] = end if after < 0 else moved(start, after)
            count += 1
    return count


@kernel(int64(Ints, Ints))
def merge(starts: Any, ends: Any) -> int:
    """Replace stretches of time, in the order of their starts, by what they cover; return how many it is."""
    count = 0
    for i in range(len(starts)):
        if count > 0 and starts[i] <= ends[count - 1]:
            ends[count - 1] = max(ends[count - 1], ends[i])
        else:
            starts[count] = starts[i]
            ends[count] = ends[i]
            count += 1
    return count
