"""Kernels of the two filters of [DFS §IV-B]: cuckoo tables of windows, and bits of (value, window) pairs.

An entry of a table has a fingerprint in its upper bits and a slice tag in its lower ones; a tag of zero means
that the place is free, so every fingerprint can be kept. An entry lies in one of two buckets; each
follows from the other and the fingerprint: two windows that share fingerprint and buckets share one entry.
"""

from __future__ import annotations

from typing import Any

from cerise.kernels.jit import Given, HalfWords, Ints, Marks, boolean, int64, kernel, void

LOW = 0xFFFFFFFF
PLACES = 4  # entries of a bucket, d in the paper


@kernel(inline=True)
def scramble(number: int) -> int:
    """Return a number of 32 bits, mixed; the factors have 31 bits, so that no product overflows."""
    number ^= number >> 16
    number = (number * 0x2C1B3C6D) & LOW
    number ^= number >> 12
    number = (number * 0x297A2D39) & LOW
    return number ^ (number >> 15)


@kernel()
def hash_pair(key: int, number: int) -> int:
    """Return 63 mixed bits of two numbers of 64 bits."""
    a, b, c, d = key & LOW, (key >> 32) & LOW, number & LOW, (number >> 32) & LOW
    low = scramble(scramble(scramble(scramble(a ^ 0x3C6EF372) ^ b) ^ d) ^ c)
    high = scramble(scramble(scramble(scramble(c ^ 0x510E527F) ^ d) ^ b) ^ a)
    return ((high >> 1) << 32) | low


@kernel(inline=True)
def fingerprint_of(hashed: int, bits: int) -> int:
    """Return the fingerprint of a window from its hash."""
    return (hashed >> 32) & ((1 << bits) - 1)


@kernel(inline=True)
def other_bucket(bucket: int, fingerprint: int, buckets: int) -> int:
    """Return the second bucket of a fingerprint; of the second one the first."""
    return (bucket ^ (scramble(fingerprint + 0x1F83D9AB) | 1)) & (buckets - 1)


# ---- cuckoo tables


@kernel()
def put_entry(entries: Any, buckets: int, bucket: int, entry: int, tag_bits: int, kicks: int) -> bool:
    """Put an entry into one of its buckets, or add its tag to an entry of its fingerprint there.

    Return whether there was room. If not, one of the entries is lost, and the table must be made again.
    """
    tag = (1 << tag_bits) - 1
    mine = entry >> tag_bits
    second = other_bucket(bucket, mine, buckets)
    free = -1
    for side in range(2):
        start = PLACES * (second if side else bucket)
        for at in range(start, start + PLACES):
            found = entries[at]
            if found & tag == 0:
                if free < 0:
                    free = at
            elif found >> tag_bits == mine:
                entries[at] = found | (entry & tag)
                return True
    moved, here, turn = entry, bucket, 0x2545F491
    for _ in range(kicks):
        if free >= 0:
            break
        turn = scramble(turn + here)
        at = PLACES * here + (turn & (PLACES - 1))
        victim = entries[at]
        entries[at] = moved
        moved = victim
        here = other_bucket(here, victim >> tag_bits, buckets)
        for place in range(PLACES * here, PLACES * here + PLACES):
            if entries[place] & tag == 0:
                free = place
                break
    if free < 0:
        return False
    entries[free] = moved
    return True


@kernel(boolean(Given, Given, Given, HalfWords, int64, int64, int64))
def insert_runs(
    keys: Any, firsts: Any, lasts: Any, entries: Any, buckets: int, tag_bits: int, kicks: int
) -> bool:
    """Insert runs of ticks into a table; return whether there was room for all.

    Args:
        keys: the key of each run; empty if runs have none.
        firsts: the first tick of each run.
        lasts: the last tick of each run.
        entries: the table.
        buckets: how many buckets it has, a power of two.
        tag_bits: the ticks of a window.
        kicks: how many entries may make room for one.
    """
    for i in range(len(firsts)):
        key = keys[i] if len(keys) > 0 else 0
        first, last = firsts[i], lasts[i]
        for window in range(first // tag_bits, last // tag_bits + 1):
            low = max(first - window * tag_bits, 0) if window == first // tag_bits else 0
            high = last - window * tag_bits if window == last // tag_bits else tag_bits - 1
            tag = ((1 << (high + 1)) - 1) & ~((1 << low) - 1)
            hashed = hash_pair(key, window)
            entry = (fingerprint_of(hashed, 32 - tag_bits) << tag_bits) | tag
            if not put_entry(entries, buckets, hashed & (buckets - 1), entry, tag_bits, kicks):
                return False
    return True


@kernel(void(Given, Given, Given, HalfWords, HalfWords, int64, int64))
def refresh_runs(
    keys: Any, firsts: Any, lasts: Any, entries: Any, tags: Any, buckets: int, tag_bits: int
) -> None:
    """Add runs of ticks to the refresh tags of every entry that may hold their windows.

    Args:
        keys: the key of each run; empty if runs have none.
        firsts: the first tick of each run.
        lasts: the last tick of each run.
        entries: the table; runs outside of it are passed over.
        tags: the refresh tags, one for each entry.
        buckets: how many buckets the table has, a power of two.
        tag_bits: the ticks of a window.
    """
    full = (1 << tag_bits) - 1
    for i in range(len(firsts)):
        key = keys[i] if len(keys) > 0 else 0
        first, last = firsts[i], lasts[i]
        for window in range(first // tag_bits, last // tag_bits + 1):
            low = max(first - window * tag_bits, 0) if window == first // tag_bits else 0
            high = last - window * tag_bits if window == last // tag_bits else tag_bits - 1
            tag = ((1 << (high + 1)) - 1) & ~((1 << low) - 1)
            hashed = hash_pair(key, window)
            mine = fingerprint_of(hashed, 32 - tag_bits)
            bucket = hashed & (buckets - 1)
            second = other_bucket(bucket, mine, buckets)
            for side in range(2):
                start = PLACES * (second if side else bucket)
                for at in range(start, start + PLACES):
                    found = entries[at]
                    if found >> tag_bits == mine and found & full != 0:
                        tags[at] |= tag


@kernel(boolean(HalfWords, HalfWords, int64, int64, int64))
def move_entries(entries: Any, fresh: Any, buckets: int, tag_bits: int, kicks: int) -> bool:
    """Put all entries of a table into one with fewer buckets; return whether there was room.

    Args:
        entries: the table.
        fresh: the new table, empty.
        buckets: how many buckets the new table has: the old number, halved some times.
        tag_bits: the ticks of a window.
        kicks: how many entries may make room for one.
    """
    tag = (1 << tag_bits) - 1
    for at in range(len(entries)):
        entry = entries[at]
        if entry & tag != 0:
            bucket = (at // PLACES) & (buckets - 1)
            if not put_entry(fresh, buckets, bucket, entry, tag_bits, kicks):
                return False
    return True


@kernel(void(Given, Given, HalfWords, int64, int64, int64, Marks))
def look_up(times: Any, keys: Any, entries: Any, buckets: int, tag_bits: int, tick: int, inside: Any) -> None:
    """Mark each event whose time may be covered.

    Args:
        times: the time of each event; neighbours in one window are looked up once.
        keys: the key of each event; empty if the table has none.
        entries: the table.
        buckets: how many buckets it has, a power of two.
        tag_bits: the ticks of a window.
        tick: the length of a tick.
        inside: room for the marks.
    """
    full = (1 << tag_bits) - 1
    key, window, tag, begun = 0, 0, 0, False
    for i in range(len(times)):
        number = times[i] // tick
        asked = number // tag_bits
        whose = keys[i] if len(keys) > 0 else 0
        if not begun or asked != window or whose != key:
            begun, window, key, tag = True, asked, whose, 0
            hashed = hash_pair(key, window)
            mine = fingerprint_of(hashed, 32 - tag_bits)
            bucket = hashed & (buckets - 1)
            second = other_bucket(bucket, mine, buckets)
            for at in range(PLACES * bucket, PLACES * bucket + PLACES):
                found = entries[at]
                if found >> tag_bits == mine:
                    tag |= found & full
            for at in range(PLACES * second, PLACES * second + PLACES):
                found = entries[at]
                if found >> tag_bits == mine:
                    tag |= found & full
        inside[i] = (tag >> (number - asked * tag_bits)) & 1


# ---- pairs of a value and a window


@kernel(void(Given, Given, int64, Ints))
def hash_pairs(keys: Any, times: Any, window: int, pairs: Any) -> None:
    """Write a hash of each event's value and window.

    Args:
        keys: a hash of the value of each event.
        times: the time of each event.
        window: the length of a window.
        pairs: room for the hashes.
    """
    for i in range(len(keys)):
        pairs[i] = hash_pair(keys[i], times[i] // window)


@kernel(inline=True)
def position_of(pair: int, turn: int, bits: int) -> int:
    """Return the position of a pair's bit: one of several that its two halves give."""
    low, step = pair & LOW, (pair >> 32) | 1
    return (((low + turn * step) & LOW) * bits) >> 32


@kernel(void(Given, HalfWords, int64, int64))
def set_bits(pairs: Any, words: Any, bits: int, hashes: int) -> None:
    """Set the bits of pairs."""
    for i in range(len(pairs)):
        for turn in range(hashes):
            at = position_of(pairs[i], turn, bits)
            words[at >> 5] |= 1 << (at & 31)


@kernel()
def has_bits(pair: int, words: Any, bits: int, hashes: int) -> bool:
    """Tell whether all bits of a pair are set."""
    for turn in range(hashes):
        at = position_of(pair, turn, bits)
        if (words[at >> 5] >> (at & 31)) & 1 == 0:
            return False
    return True


@kernel(void(Given, Given, int64, int64, int64, HalfWords, int64, int64, Marks))
def ask_pairs(
    keys: Any,
    times: Any,
    window: int,
    back: int,
    ahead: int,
    words: Any,
    bits: int,
    hashes: int,
    found: Any,
) -> None:
    """Mark each event whose value may lie in its window or in a neighbour of it.

    Args:
        keys: a hash of the value of each event.
        times: the time of each event.
        window: the length of a window.
        back: how many windows before its own to ask, 0 or 1.
        ahead: how many windows after its own to ask, 0 or 1.
        words: the bits.
        bits: how many there are.
        hashes: how many a pair sets.
        found: room for the marks.
    """
    for i in range(len(keys)):
        own = times[i] // window
        found[i] = 0
        for near in range(-back, ahead + 1):
            if has_bits(hash_pair(keys[i], own + near), words, bits, hashes):
                found[i] = 1
                break
