"""Rows of all sets of slots of many patterns at once, as arrays: patterns of one size by set of slots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cerise.kernels.join_dp import PLACE_BITS, FloatArray, IntArray
from cerise.plan.cost import PaperCosts
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, bits


@dataclass(frozen=True, slots=True)
class PatternGroup:
    """Patterns of one size; slots are numbered by leaf."""

    patterns: list[tuple[JoinPattern, tuple[int, ...]]]
    events: FloatArray
    shares: FloatArray  # the share of pairs that pass all tests between two slots
    before: IntArray  # the slots before each, as a mask

    @classmethod
    def of(
        cls, patterns: list[tuple[JoinPattern, tuple[int, ...]]], stats: Statistics, cost: str
    ) -> PatternGroup:
        size = len(patterns[0][1])
        events, shares = np.zeros((len(patterns), size)), np.ones((len(patterns), size, size))
        before = np.zeros((len(patterns), size), np.int64)
        for p, (pattern, slots) in enumerate(patterns):
            place = {slot: number for number, slot in enumerate(slots)}
            plain = JoinPattern(pattern.leaves, pattern.before, window=pattern.window)
            counted = PaperCosts(pattern if cost == "paper" else plain, stats)
            events[p] = [counted.events(slot) for slot in slots]
            for test in dict.fromkeys(min(each, each.flip()) for each in pattern.tests):
                if test.left in place and test.right in place:
                    i, j = sorted((place[test.left], place[test.right]))
                    shares[p, j, i] *= stats.share(pattern, test)
            before[p] = [
                sum(1 << place[each] for each in bits(pattern.before[slot]) if each in place)
                for slot in slots
            ]
        return cls(patterns, events, shares, before)

    @property
    def size(self) -> int:
        return int(self.events.shape[1])

    def rows(self, *, timed: bool) -> FloatArray:
        """Return the rows of each mask: events, times shares, times the share of orders if `timed`."""
        rows = np.ones((len(self.events), 1 << self.size))
        for i in range(self.size):
            pairs = np.ones((len(rows), 1 << i))
            for j in range(i):
                pairs[:, 1 << j : 2 << j] = pairs[:, : 1 << j] * self.shares[:, i, j, None]
            rows[:, 1 << i : 2 << i] = rows[:, : 1 << i] * pairs * self.events[:, i, None]
        return rows * self._orders() if timed else rows

    def below(self) -> IntArray:
        """Return the slots that come before one of each mask."""
        below = np.zeros((len(self.before), 1 << self.size), np.int64)
        for i in range(self.size):
            below[:, 1 << i : 2 << i] = below[:, : 1 << i] | self.before[:, i, None]
        return below

    def _orders(self) -> FloatArray:
        """Return for each mask the share of all orders of its events that it takes."""
        below, counts = self.below(), np.zeros((len(self.before), 1 << self.size))
        counts[:, 0] = 1
        for mask in range(1, 1 << self.size):
            for slot in bits(mask):  # that comes last
                counts[:, mask] += np.where(below[:, mask] >> slot & 1, 0, counts[:, mask & ~(1 << slot)])
        counts /= [math.factorial(mask.bit_count()) for mask in range(1 << self.size)]
        return counts


@dataclass(slots=True)
class EntryFacts:
    """Arrays by entry."""

    rows: FloatArray
    made: FloatArray
    below: IntArray
    places: IntArray
    owner: IntArray

    def write(self, entries: IntArray, group: PatternGroup, owner: IntArray, *, timed: bool) -> None:
        """Write the facts of a group of patterns at its entries."""
        rows = group.rows(timed=timed)
        counts = np.array([mask.bit_count() for mask in range(1 << group.size)])
        ascending = [pack_slots(bits(mask)) for mask in range(1 << group.size)]
        self.rows[entries] = rows.ravel()
        self.made[entries] = (rows * counts if timed else rows).ravel()
        self.below[entries] = group.below().ravel()
        self.places[entries] = np.tile(ascending, len(rows))
        self.owner[entries] = owner


def pack_slots(slots: Sequence[int]) -> int:
    """Return a list of slots as one word.

    >>> hex(pack_slots([2, 0, 5]))
    '0x502'
    """
    return sum(slot << PLACE_BITS * place for place, slot in enumerate(slots))
