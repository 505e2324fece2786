"""Kernels on runs of ticks: sorted by key, then by first tick; both ends inside."""

from __future__ import annotations

from typing import Any

from cerise.kernels.jit import Given, Ints, Marks, int64, kernel, void

LOW_BITS = 0x7F
REST = (1 << 57) - 1  # what is left of a word after a shift by seven bits
LAST_TICK = 2**63 - 1


@kernel(int64(Ints, Ints, Ints))
def merge_runs(keys: Any, firsts: Any, lasts: Any) -> int:
    """Merge runs that overlap or touch, sorted by key and first tick, in place; return how many remain.

    Args:
        keys: the key of each run; empty if runs have none.
        firsts: the first tick of each run.
        lasts: the last tick of each run.
    """
    count, keyed = 0, len(keys) > 0
    for i in range(len(firsts)):
        if count > 0 and (not keyed or keys[i] == keys[count - 1]):
            end = lasts[count - 1]
            if end == LAST_TICK or firsts[i] <= end + 1:
                lasts[count - 1] = max(end, lasts[i])
                continue
        if keyed:
            keys[count] = keys[i]
        firsts[count] = firsts[i]
        lasts[count] = lasts[i]
        count += 1
    return count


@kernel(int64(Given, Given, Given, Given, Given, Given, Ints, Ints, Ints))
def intersect_runs(
    keys: Any,
    firsts: Any,
    lasts: Any,
    other_keys: Any,
    other_firsts: Any,
    other_lasts: Any,
    out_keys: Any,
    out_firsts: Any,
    out_lasts: Any,
) -> int:
    """Write the ticks that two sets of runs share, as runs; return how many there are."""
    count, i, j, keyed = 0, 0, 0, len(keys) > 0
    while i < len(firsts) and j < len(other_firsts):
        if keyed and keys[i] != other_keys[j]:
            if keys[i] < other_keys[j]:
                i += 1
            else:
                j += 1
            continue
        first, last = max(firsts[i], other_firsts[j]), min(lasts[i], other_lasts[j])
        if first <= last:
            if keyed:
                out_keys[count] = keys[i]
            out_firsts[count] = first
            out_lasts[count] = last
            count += 1
        if lasts[i] <= other_lasts[j]:
            i += 1
        else:
            j += 1
    return count


@kernel(void(Given, Given, Given, Given, Given, Marks))
def mark_by_key(keys: Any, starts: Any, ends: Any, wanted: Any, times: Any, inside: Any) -> None:
    """Mark each event whose time lies in an interval of its key.

    Args:
        keys: the key of each interval; intervals are sorted by key and start, and disjoint for a key.
        starts: the first time of each interval.
        ends: the last time of each interval.
        wanted: the key of each event.
        times: the time of each event.
        inside: room for the marks.
    """
    for i in range(len(times)):
        key, time = wanted[i], times[i]
        low, high = 0, len(keys)
        while low < high:  # the first interval that starts later, or has a greater key
            middle = (low + high) >> 1
            if keys[middle] > key or (keys[middle] == key and starts[middle] > time):
                high = middle
            else:
                low = middle + 1
        inside[i] = low > 0 and keys[low - 1] == key and time <= ends[low - 1]


# ---- numbers of few bytes


@kernel(int64(Given, Marks))
def write_varints(numbers: Any, out: Any) -> int:
    """Write numbers, seven bits to a byte; return how many bytes that takes.

    Args:
        numbers: the numbers, read as unsigned.
        out: room for ten bytes each.
    """
    at = 0
    for i in range(len(numbers)):
        number = numbers[i]
        while number < 0 or number > LOW_BITS:
            out[at] = (number & LOW_BITS) | 0x80
            number = (number >> 7) & REST
            at += 1
        out[at] = number
        at += 1
    return at


@kernel(int64(Marks, Ints))
def read_varints(data: Any, numbers: Any) -> int:
    """Read numbers that `write_varints` wrote; return how many bytes they take, or -1 if they do not fit."""
    at = 0
    for i in range(len(numbers)):
        number, shift, more = 0, 0, True
        while more:
            if at == len(data) or shift > 63:
                return -1
            byte = data[at]
            number |= (byte & LOW_BITS) << shift
            more = byte >= 0x80
            shift += 7
            at += 1
        numbers[i] = number
    return at
