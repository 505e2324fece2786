"""The inner loops of filtering: each is one pass over events or times, fast where these ascend."""

from __future__ import annotations

from typing import Any

from cerise.kernels.jit import Ints, Marks, boolean, int64, kernel, void
from cerise.kernels.records import Words

LEAST, MOST = -(2**63), 2**63 - 1


@kernel()
def place_of(numbers: Words, count: int, low: int, number: int, after: bool) -> int:
    """Return the position of a number among sorted numbers, before or after its equals.

    The search gallops from `low`, so ascending numbers cost O(1) each where they are close.
    """
    if low > 0:
        last = numbers[low - 1]
        if last > number or (last == number and not after):
            low = 0  # the numbers searched for do not ascend: start over
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
    """Find the positions of wanted numbers among sorted numbers.

    Args:
        numbers: the address of the sorted numbers.
        count: how many sorted numbers there are.
        wanted: the address of the wanted numbers, as many as `places` has room for.
        after: whether to find the first number above the wanted one, not the first at least as large.
        places: room for the positions.
    """
    low = 0
    for i in range(len(places)):
        low = place_of(Words(numbers), count, low, Words(wanted)[i], after)
        places[i] = low


@kernel(void(int64, int64, int64, int64, Marks))
def mark_inside(starts: int, ends: int, count: int, times: int, inside: Any) -> None:
    """Mark each time that lies in an interval.

    Args:
        starts: the address of the intervals' starts; intervals are sorted and disjoint.
        ends: the address of the intervals' last moments.
        count: how many intervals there are.
        times: the address of the times, as many as there are marks.
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
    """Replace each event by its nearest neighbour among other events: the next one, or the previous one.

    Args:
        times: the address of the other events' times, in order.
        places: the address of the other events' identities.
        count: how many other events there are.
        back: whether to find the nearest event that is not later; otherwise the nearest that is not earlier.
        beyond: the time to write for an event without neighbour.
        when: the times of the events; becomes the times of the neighbours.
        who: the identities of the events; becomes those of the neighbours, or -1 where several events share
            the neighbour's time: any of them may be the neighbour, so a later step may use each of them.
        found: whether each event exists; becomes whether its neighbour exists, too.
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
def shift_time(time: int, by: int) -> int:
    """Return a time moved by a duration, clamped to the least and the greatest time."""
    if by >= 0:
        return MOST if time > MOST - by else time + by
    return LEAST if time < LEAST - by else time + by


@kernel(int64(int64, int64, Marks, int64, int64, int64, Ints, Ints))
def enclose(
    first: int, last: int, there: Any, window: int, before: int, after: int, starts: Any, ends: Any
) -> int:
    """Write the interval of possible matches around each anchor; return how many anchors have one.

    Args:
        first: the address of the latest possible start of a match around each anchor.
        last: the address of the earliest possible end of a match around each anchor.
        there: whether each anchor has all other events that a match needs.
        window: the longest time that a match may span.
        before: how long before `last` a match may start; negative: not before `first`.
        after: how long after `first` a match may end; negative: not after `last`.
        starts: room for the starts of the intervals.
        ends: room for the ends of the intervals.
    """
    count = 0
    for i in range(len(there)):
        start, end = Words(first)[i], Words(last)[i]
        if there[i] and end <= shift_time(start, window):
            starts[count] = start if before < 0 else shift_time(end, -before)
            ends[count] = end if after < 0 else shift_time(start, after)
            count += 1
    return count


@kernel(int64(Ints, Ints))
def merge(starts: Any, ends: Any) -> int:
    """Merge overlapping intervals, sorted by their starts, in place; return how many remain."""
    count = 0
    for i in range(len(starts)):
        if count > 0 and starts[i] <= ends[count - 1]:
            ends[count - 1] = max(ends[count - 1], ends[i])
        else:
            starts[count] = starts[i]
            ends[count] = ends[i]
            count += 1
    return count
