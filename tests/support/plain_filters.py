"""Slow twins of the filters: sets of ticks and pairs, and a dict for a table."""

from __future__ import annotations

from cerise.filters.dual.shrinking_window import ShrinkingWindow
from cerise.filters.dual.tick_runs import TickRuns
from cerise.filters.dual.window_kernels import LOW

Tick = tuple[int, int]  # the key, 0 without; the number of the tick


def ticks_of(runs: TickRuns) -> set[Tick]:
    keys = [0] * len(runs) if runs.keys is None else runs.keys.tolist()
    spans = zip(keys, runs.firsts.tolist(), runs.lasts.tolist(), strict=True)
    return {(key, tick) for key, first, last in spans for tick in range(first, last + 1)}


def plain_scramble(number: int) -> int:
    number ^= number >> 16
    number = number * 0x2C1B3C6D & LOW
    number ^= number >> 12
    number = number * 0x297A2D39 & LOW
    return number ^ number >> 15


def plain_pair(key: int, number: int) -> int:
    a, b, c, d = key & LOW, key >> 32 & LOW, number & LOW, number >> 32 & LOW
    low, high = 0x3C6EF372, 0x510E527F
    low = plain_scramble(low ^ a)
    for word in (b, d, c):
        low = plain_scramble(low ^ word)
    high = plain_scramble(high ^ c)
    for word in (d, b, a):
        high = plain_scramble(high ^ word)
    return (high >> 1) << 32 | low


class PlainTable:
    """Entries by fingerprint and the pair of their buckets: what a cuckoo table holds, wherever it lies."""

    def __init__(self, table: ShrinkingWindow) -> None:
        self.buckets, self.tag_bits = table.buckets, table.tag_bits
        self.tags: dict[tuple[int, int], int] = {}
        self.refreshed: dict[tuple[int, int], int] = {}

    def place(self, tick: Tick) -> tuple[tuple[int, int], int]:
        key, number = tick
        hashed = plain_pair(key, number // self.tag_bits)
        mine = hashed >> 32 & (1 << 32 - self.tag_bits) - 1
        bucket = hashed & self.buckets - 1
        other = (bucket ^ (plain_scramble(mine + 0x1F83D9AB) | 1)) & self.buckets - 1
        return (mine, min(bucket, other)), 1 << number % self.tag_bits

    def insert(self, ticks: set[Tick]) -> None:
        for tick in ticks:
            place, bit = self.place(tick)
            self.tags[place] = self.tags.get(place, 0) | bit

    def refresh(self, ticks: set[Tick]) -> None:
        for tick in ticks:
            place, bit = self.place(tick)
            self.refreshed[place] = self.refreshed.get(place, 0) | bit

    def clear(self) -> None:
        self.tags = {each: tag & self.refreshed.get(each, 0) for each, tag in self.tags.items()}
        self.refreshed = {}

    def holds(self, tick: Tick) -> bool:
        place, bit = self.place(tick)
        return bool(self.tags.get(place, 0) & bit)
