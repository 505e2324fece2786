"""Statistics of a workload of joins: how often events of a leaf come, and how often comparisons hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from cerise.pattern.expr import FLIPPED
from cerise.plan.joins import JoinPattern, JoinTest

# The share of pairs that pass, where it is unknown: the textbook's values [Selinger79].
HOLDS = {"=": 0.1, "!=": 0.9, "<": 0.5, "<=": 0.5, ">": 0.5, ">=": 0.5}
RATE = 1.0  # of a leaf whose rate is unknown

Compared = tuple[int, int, str, int, int]  # left leaf, left side, op, right leaf, right side


@dataclass(frozen=True, slots=True)
class Statistics:
    """Rates and selectivities; frozen, so that a search compares plans by the same numbers.

    Attributes:
        rates: for each leaf its events in a unit of windows; for count windows, its events in one position.
        selectivity: the share of pairs of events that pass a comparison; `a < b` says `b > a`, too.
        longest: the window that stands for an infinite one: how long all events last.
    """

    rates: Mapping[int, float] = field(default_factory=dict)
    selectivity: Mapping[Compared, float] = field(default_factory=dict)
    longest: float = 1.0

    def rate(self, leaf: int) -> float:
        """Return the events of a leaf in a unit of windows; 1 where it is unknown.

        >>> Statistics({7: 0.25}).rate(7)
        0.25
        """
        return self.rates.get(leaf, RATE)

    def window(self, pattern: JoinPattern) -> float:
        """Return the window of a pattern as a finite number."""
        return self.longest if math.isinf(pattern.window) else pattern.window

    def share(self, pattern: JoinPattern, test: JoinTest) -> float:
        """Return the share of pairs of events that pass a test of a pattern.

        >>> pattern = JoinPattern((3, 8), (0, 1), (JoinTest(0, "<", 1, 5, 6),))
        >>> Statistics(selectivity={(8, 6, ">", 3, 5): 0.02}).share(pattern, pattern.tests[0])
        0.02
        """
        left, right = pattern.leaves[test.left], pattern.leaves[test.right]
        held = self.selectivity.get((left, test.left_side, test.op, right, test.right_side))
        if held is None:
            flipped = (right, test.right_side, FLIPPED[test.op], left, test.left_side)
            held = self.selectivity.get(flipped, HOLDS[test.op])
        return held
