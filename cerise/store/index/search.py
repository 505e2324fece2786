"""The inner loops of a look-up: kernels over many clusters per call, anywhere in memory.

A context has a bit for each event of a cluster that is still in question. A row of `jobs` describes a
cluster; a row of `tests`, the range bitmap that one test needs in it.
"""

from __future__ import annotations

from typing import Any

from cerise.kernels.bits import lowest, ones, peek, peek_word, without_lowest
from cerise.kernels.jit import Ints, Marks, Table, boolean, int64, kernel, void
from cerise.store.index.bitmap import at_most, between, code_at
from cerise.store.index.packed import at

J_ADDRESS, J_COUNT, J_BASE, J_STEP, J_WIDTH = 0, 1, 2, 3, 4  # the list of times
J_SOONEST, J_LATEST = 5, 6  # the intervals that overlap the cluster: [soonest, latest); -1: it lies in one
J_CONTEXT, J_FROM, J_TO = 7, 8, 9  # the start of its context, and the words of it that may have ones
J_NUMBER, J_LATE, J_WORDS = 10, 11, 12  # late: intervals are tested after all other tests

T_ADDRESS, T_WIDTH, T_MARKED, T_DONE, T_WORDS = 0, 1, 2, 3, 4  # done: all events of the cluster pass

DENSE = 8  # intervals with fewer events, on average, are tested last, by the times of events that pass
SPARSE = 16  # if fewer than one word in SPARSE has ones, words are tested one by one

R_ADDRESS, R_BASE, R_STEP, R_WIDTH, R_COUNT, R_MARKED, R_EMPTY, R_WORDS = 0, 1, 2, 3, 4, 5, 6, 7


@kernel()
def time_at(jobs: Any, c: int, i: int) -> int:
    """Return the time of an event."""
    return int(jobs[c, J_BASE] + jobs[c, J_STEP] * at(jobs[c, J_ADDRESS], jobs[c, J_WIDTH], i))


@kernel()
def first_from(jobs: Any, c: int, low: int, time: int, strictly: bool) -> int:
    """Return the first event from `low` on at or after a time; only after it if `strictly`."""
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
    """Set the bits in [low, high)."""
    for word in range(low >> 6, (high + 63) >> 6):
        bits = -1
        if word == low >> 6:
            bits &= -1 << (low & 63)
        if word == high >> 6:
            bits &= (1 << (high & 63)) - 1
        context[start + word] |= bits


@kernel(void(Table, Ints, Ints, Ints))
def open_contexts(jobs: Any, starts: Any, ends: Any, context: Any) -> None:
    """Set the bits of events that lie in intervals.

    If there are many intervals, set all bits; `close_contexts` then tests the events that pass other tests.

    Args:
        jobs: the clusters; receives the words of their contexts that have ones.
        starts: the start of each interval.
        ends: its last moment.
        context: receives all contexts; must be 0.
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
    """Clear the bits of events outside all intervals, for clusters that `open_contexts` left for later."""
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
    """Test the events in question of one cluster, word by word."""
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
    """Test all events of one cluster, slice by slice."""
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
    """Clear the bits of events that fail a test.

    Args:
        jobs: the clusters.
        tests: the range bitmap of each cluster.
        lows: the least code of each range by cluster, minus the base; -1, and 0 in `highs`: an empty range.
        highs: the greatest code.
        nulls: whether events without a value pass.
        context: the contexts.
        room: work space of three rows, each as long as the largest context.
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
    """Count the set bits of each cluster."""
    for c in range(len(jobs)):
        total = 0
        for word in range(jobs[c, J_FROM], jobs[c, J_TO]):
            total += ones(context[jobs[c, J_CONTEXT] + word])
        counts[c] = total


@kernel(void(Table, Ints, Ints, Ints))
def gather(jobs: Any, context: Any, times: Any, places: Any) -> None:
    """Write times and places of the events whose bits are set, cluster by cluster."""
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
        lists: address, base, step and width of the list in some clusters.
        rows: for each cluster of the table, its row in `lists`.
        places: the places of the events.
        out: receives the numbers.
    """
    for n in range(len(places)):
        c = rows[places[n] >> 32]
        found = at(lists[c, R_ADDRESS], lists[c, R_WIDTH], places[n] & 0xFFFFFFFF)
        out[n] = lists[c, R_BASE] + lists[c, R_STEP] * found


@kernel(void(Table, Ints, Ints, Ints, Marks))
def read_codes(bitmaps: Any, rows: Any, places: Any, out: Any, valid: Any) -> None:
    """Read the code of an attribute for each place, and whether it has one; 0 if not."""
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


# ---- dictionaries: 32-bit offsets of the words and of the last end, then the bytes


@kernel()
def word_start(dictionary: int, i: int) -> int:
    """Return where a word starts in the text of a dictionary."""
    return peek(dictionary + 4 * i) & 0xFFFFFFFF


@kernel()
def order(left: int, size: int, right: int, other: int) -> int:
    """Compare two byte strings; the result is below 0, 0 or above 0."""
    for i in range(min(size, other)):
        one, two = peek(left + i) & 255, peek(right + i) & 255
        if one != two:
            return one - two
    return size - other


@kernel(void(Ints, Ints, int64, Ints, Table, Table))
def place_words(dictionaries: Any, sizes: Any, text: int, ends: Any, least: Any, above: Any) -> None:
    """Find in each dictionary the first word that is at least, and the first above, each constant.

    Args:
        dictionaries: the address of each dictionary.
        sizes: how many words it has.
        text: the address of the constants' bytes.
        ends: the offset of each constant there, and the end of the last.
        least: receives the first word that is at least a constant, by dictionary and constant.
        above: receives the first word above it.
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
    """Write the end of each code's word in the concatenation of all words."""
    total = 0
    ends[0] = 0
    for n in range(len(codes)):
        if valid[n]:
            total += word_start(dictionaries[n], codes[n] + 1) - word_start(dictionaries[n], codes[n])
        ends[n + 1] = total


@kernel(void(Ints, Ints, Ints, Ints, Marks))
def copy_words(dictionaries: Any, sizes: Any, codes: Any, ends: Any, out: Any) -> None:
    """Concatenate the words of codes."""
    for n in range(len(codes)):
        start = dictionaries[n] + 4 * (sizes[n] + 1) + word_start(dictionaries[n], codes[n])
        for i in range(ends[n + 1] - ends[n]):
            out[ends[n] + i] = peek(start + i) & 255
