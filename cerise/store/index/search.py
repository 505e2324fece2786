"""The inner loops of a look-up: over many clusters in one call, wherever in memory they lie.

A context is which events of a cluster are still in question: a bit for each, in words. A row of `jobs` is a
cluster; of `tests`, what one test asks of it.
"""

from __future__ import annotations

from typing import Any

from cerise.kernels.bits import lowest, ones, peek, peek_word, without_lowest
from cerise.kernels.jit import Ints, Marks, Table, boolean, int64, kernel, void
from cerise.store.index.bitmap import at_most, between, code_at
from cerise.store.index.packed import at

J_ADDRESS, J_COUNT, J_BASE, J_STEP, J_WIDTH = 0, 1, 2, 3, 4  # of its list of times
J_SOONEST, J_LATEST = 5, 6  # the intervals that it touches: from, up to; from -1: all of it is asked for
J_CONTEXT, J_FROM, J_TO = 7, 8, 9  # its context: where it starts, and which words may have ones
J_NUMBER, J_LATE, J_WORDS = 10, 11, 12  # late: the times of its events are judged last

T_ADDRESS, T_WIDTH, T_MARKED, T_DONE, T_WORDS = 0, 1, 2, 3, 4  # done: all events of the cluster pass

DENSE = 8  # where an interval has fewer events than this, on average, the times of all that pass are read
SPARSE = 16  # where fewer than one of so many words have ones, words are judged one by one

R_ADDRESS, R_BASE, R_STEP, R_WIDTH, R_COUNT, R_MARKED, R_EMPTY, R_WORDS = 0, 1, 2, 3, 4, 5, 6, 7


@kernel()
def time_at(jobs: Any, c: int, i: int) -> int:
    """Return the time of an event."""
    return int(jobs[c, J_BASE] + jobs[c, J_STEP] * at(jobs[c, J_ADDRESS], jobs[c, J_WIDTH], i))


@kernel()
def first_from(jobs: Any, c: int, low: int, time: int, strictly: bool) -> int:
    """Return the first event from `low` on that is not before a time, or strictly after it."""
    jump, count = 1, jobs[c, J_COUNT]
    high = low
    while high < count:
        found = time_at(jobs, c, high)
        if found > time or (found == time and not strictly):
            break
        low = high + 1
        high += jump
        jump *= 2
    high = min(high, count)
    while low < high:
        middle = (low + high) >> 1
        found = time_at(jobs, c, middle)
        if found > time or (found == time and not strictly):
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def fill(context: Any, start: int, low: int, high: int) -> None:
    """Set the bits from low up to high."""
    for word in range(low >> 6, (high + 63) >> 6):
        bits = -1
        if word == low >> 6:
            bits &= -1 << (low & 63)
        if word == high >> 6:
            bits &= (1 << (high & 63)) - 1
        context[start + word] |= bits


@kernel(void(Table, Ints, Ints, Ints))
def open_contexts(jobs: Any, starts: Any, ends: Any, context: Any) -> None:
    """Put the events of clusters into question that lie in intervals.

    Where intervals are many, all events are put there, for `close_contexts` to judge what other tests leave.

    Args:
        jobs: the clusters; which words of their contexts have ones is written there.
        starts: when each interval starts.
        ends: its last moment.
        context: room for all contexts, now 0.
    """
    for c in range(len(jobs)):
        start, count = jobs[c, J_CONTEXT], jobs[c, J_COUNT]
        jobs[c, J_LATE] = DENSE * (jobs[c, J_LATEST] - jobs[c, J_SOONEST]) > count and jobs[c, J_SOONEST] >= 0
        if jobs[c, J_SOONEST] < 0 or jobs[c, J_LATE]:
            fill(context, start, 0, count)
            jobs[c, J_FROM] = 0
            jobs[c, J_TO] = (count + 63) >> 6
            continue
        low, least, most = 0, count, 0
        for k in range(jobs[c, J_SOONEST], jobs[c, J_LATEST]):
            low = first_from(jobs, c, low, starts[k], False)
            if low >= count:
                break
            high = first_from(jobs, c, low, ends[k], True)
            if high > low:
                fill(context, start, low, high)
                least = min(least, low)
                most = high
            low = high
        jobs[c, J_FROM] = least >> 6
        jobs[c, J_TO] = (most + 63) >> 6


@kernel(void(Table, Ints, Ints, Ints))
def close_contexts(jobs: Any, starts: Any, ends: Any, context: Any) -> None:
    """Take events out of question that lie in no interval, where that was left for later."""
    for c in range(len(jobs)):
        if not jobs[c, J_LATE]:
            continue
        start, k, stop = jobs[c, J_CONTEXT], jobs[c, J_SOONEST], jobs[c, J_LATEST]
        for word in range(jobs[c, J_FROM], jobs[c, J_TO]):
            live, passed = context[start + word], 0
            while live != 0:
                bit = lowest(live)
                live = without_lowest(live)
                time = time_at(jobs, c, 64 * word + bit)
                while k < stop and ends[k] < time:
                    k += 1
                if k < stop and starts[k] <= time:
                    passed |= 1 << bit
            context[start + word] = passed


@kernel()
def judge_few(jobs: Any, tests: Any, c: int, lows: Any, highs: Any, nulls: bool, context: Any) -> None:
    """Judge the events of a cluster that are in question, word by word."""
    marked, stride = tests[c, T_MARKED], (jobs[c, J_COUNT] + 7) >> 3
    address, width, start = tests[c, T_ADDRESS], tests[c, T_WIDTH], jobs[c, J_CONTEXT]
    for word in range(jobs[c, J_FROM], jobs[c, J_TO]):
        live = context[start + word]
        if live == 0:
            continue
        passed = 0
        if marked:
            known = peek(address + 8 * word)
            if nulls:
                passed = live & ~known
            live &= known
        slices = address + marked * stride + 8 * word
        for k in range(lows.shape[1]):
            low, high = lows[c, k], highs[c, k]
            if low != -1 or high != 0:
                passed |= between(slices, stride, width, low, high, live & ~passed)
        context[start + word] = passed


@kernel()
def judge_many(
    jobs: Any, tests: Any, c: int, lows: Any, highs: Any, nulls: bool, context: Any, room: Any
) -> None:
    """Judge all events of a cluster, slice by slice."""
    marked, stride = tests[c, T_MARKED], (jobs[c, J_COUNT] + 7) >> 3
    width, first = tests[c, T_WIDTH], jobs[c, J_FROM]
    words = jobs[c, J_TO] - first
    address, start = tests[c, T_ADDRESS] + 8 * first, jobs[c, J_CONTEXT] + first
    slices = address + marked * stride
    passed, upper, lower = room[0], room[1], room[2]
    for j in range(words):
        passed[j] = 0
    for k in range(lows.shape[1]):
        low, high = lows[c, k], highs[c, k]
        if low == -1 and high == 0:
            continue
        at_most(slices, stride, width, high, upper, words)
        if low == 0:
            for j in range(words):
                passed[j] |= upper[j]
        else:
            at_most(slices, stride, width, int(low) - 1, lower, words)
            for j in range(words):
                passed[j] |= upper[j] & ~lower[j]
    if marked and nulls:
        for j in range(words):
            passed[j] |= ~peek_word(address, j)
    elif marked:
        for j in range(words):
            passed[j] &= peek_word(address, j)
    for j in range(words):
        context[start + j] &= passed[j]


@kernel(void(Table, Table, Table, Table, boolean, Ints, Table))
def judge(jobs: Any, tests: Any, lows: Any, highs: Any, nulls: bool, context: Any, room: Any) -> None:
    """Take events out of question that fail a test.

    Args:
        jobs: the clusters.
        tests: the range bitmaps that judge it.
        lows: the least code, from 0, of each range by cluster; -1 with a greatest of 0: an empty range.
        highs: the greatest.
        nulls: events without a value pass.
        context: the contexts.
        room: three times the words of the largest context.
    """
    for c in range(len(jobs)):
        if tests[c, T_DONE]:
            continue
        start, live = jobs[c, J_CONTEXT], 0
        for word in range(jobs[c, J_FROM], jobs[c, J_TO]):
            live += context[start + word] != 0
        if live == 0:
            continue
        if SPARSE * live < jobs[c, J_TO] - jobs[c, J_FROM]:
            judge_few(jobs, tests, c, lows, highs, nulls, context)
        else:
            judge_many(jobs, tests, c, lows, highs, nulls, context, room)


@kernel(void(Table, Ints, Ints))
def count_events(jobs: Any, context: Any, counts: Any) -> None:
    """Count the events of each cluster that are in question."""
    for c in range(len(jobs)):
        total = 0
        for word in range(jobs[c, J_FROM], jobs[c, J_TO]):
            total += ones(context[jobs[c, J_CONTEXT] + word])
        counts[c] = total


@kernel(void(Table, Ints, Ints, Ints))
def gather(jobs: Any, context: Any, times: Any, places: Any) -> None:
    """Write times and places of the events that are in question, cluster by cluster."""
    n = 0
    for c in range(len(jobs)):
        number, start = jobs[c, J_NUMBER] << 32, jobs[c, J_CONTEXT]
        address, width, base, step = jobs[c, J_ADDRESS], jobs[c, J_WIDTH], jobs[c, J_BASE], jobs[c, J_STEP]
        for word in range(jobs[c, J_FROM], jobs[c, J_TO]):
            live = context[start + word]
            while live != 0:
                i = 64 * word + lowest(live)
                live = without_lowest(live)
                times[n] = base + step * at(address, width, i)
                places[n] = number | i
                n += 1


# ---- values of events


@kernel(void(Table, Ints, Ints, Ints))
def read_list(lists: Any, rows: Any, places: Any, out: Any) -> None:
    """Read one number of a list for each place.

    Args:
        lists: the lists of some clusters.
        rows: which row of them each cluster has.
        places: the events.
        out: room for the numbers.
    """
    for n in range(len(places)):
        c = rows[places[n] >> 32]
        found = at(lists[c, R_ADDRESS], lists[c, R_WIDTH], places[n] & 0xFFFFFFFF)
        out[n] = lists[c, R_BASE] + lists[c, R_STEP] * found


@kernel(void(Table, Ints, Ints, Ints, Marks))
def read_codes(bitmaps: Any, rows: Any, places: Any, out: Any, valid: Any) -> None:
    """Read the code of an attribute, and whether there is one, for each place; 0 where there is none."""
    for n in range(len(places)):
        c, i = rows[places[n] >> 32], places[n] & 0xFFFFFFFF
        stride, marked = (bitmaps[c, R_COUNT] + 7) >> 3, bitmaps[c, R_MARKED]
        address = bitmaps[c, R_ADDRESS]
        known = bitmaps[c, R_EMPTY] == 0
        if marked:
            known = (peek(address + (i >> 3)) >> (i & 7)) & 1 == 1
        valid[n] = known
        if known:
            code = code_at(address + marked * stride, stride, bitmaps[c, R_WIDTH], i)
            out[n] = bitmaps[c, R_BASE] ^ code if bitmaps[c, R_WIDTH] == 64 else bitmaps[c, R_BASE] + code


# ---- dictionaries: where each word starts, and the last ends, in 32 bits; then their bytes


@kernel()
def word_start(dictionary: int, i: int) -> int:
    """Return where a word starts in the text of a dictionary."""
    return peek(dictionary + 4 * i) & 0xFFFFFFFF


@kernel()
def order(left: int, size: int, right: int, other: int) -> int:
    """Compare two stretches of bytes: below 0, 0 or above."""
    for i in range(min(size, other)):
        one, two = peek(left + i) & 255, peek(right + i) & 255
        if one != two:
            return one - two
    return size - other


@kernel(void(Ints, Ints, int64, Ints, Table, Table))
def place_words(dictionaries: Any, sizes: Any, text: int, ends: Any, least: Any, above: Any) -> None:
    """Find where in each dictionary the words start that are at least, and above, each constant.

    Args:
        dictionaries: the address of each.
        sizes: how many words it has.
        text: the address of the constants' bytes.
        ends: where each constant starts there, and the last ends.
        least: room for the first word that is at least a constant, by dictionary and constant.
        above: room for the first that is above it.
    """
    for d in range(len(dictionaries)):
        dictionary, words = dictionaries[d], dictionaries[d] + 4 * (sizes[d] + 1)
        for k in range(len(ends) - 1):
            constant, size = text + ends[k], ends[k + 1] - ends[k]
            low, high, equal = 0, sizes[d], 0
            while low < high:
                middle = (low + high) >> 1
                start, end = word_start(dictionary, middle), word_start(dictionary, middle + 1)
                found = order(words + start, end - start, constant, size)
                if found < 0:
                    low = middle + 1
                else:
                    high = middle
                    if found == 0:
                        equal = 1
            least[d, k] = low
            above[d, k] = low + equal


@kernel(void(Ints, Ints, Ints, Ints))
def measure_words(dictionaries: Any, codes: Any, valid: Any, ends: Any) -> None:
    """Write where the word of each code ends, if they are put one after the other."""
    total = 0
    ends[0] = 0
    for n in range(len(codes)):
        if valid[n]:
            total += word_start(dictionaries[n], codes[n] + 1) - word_start(dictionaries[n], codes[n])
        ends[n + 1] = total


@kernel(void(Ints, Ints, Ints, Ints, Marks))
def copy_words(dictionaries: Any, sizes: Any, codes: Any, ends: Any, out: Any) -> None:
    """Put the words of codes one after the other."""
    for n in range(len(codes)):
        start = dictionaries[n] + 4 * (sizes[n] + 1) + word_start(dictionaries[n], codes[n])
        for i in range(ends[n + 1] - ends[n]):
            out[ends[n] + i] = peek(start + i) & 255
