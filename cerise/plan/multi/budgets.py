"""How a search for a plan is asked for, how long it may take, and the best plan that it has seen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from cerise.kernels.join_dp import IntArray, JoinPlan, add_up
from cerise.plan.multi.openings import GAIN

SPLITS = 2_000_000  # that a kernel looks at between two looks at the clock: some 20 ms


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may take; without limits it ends when it no longer finds better plans."""

    neighbours: int | None = None
    seconds: float | None = None


@dataclass(slots=True)
class SearchClock:
    """Counts neighbours and time against a budget."""

    budget: Budget
    neighbours: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        most, seconds = self.budget.neighbours, self.budget.seconds
        late = seconds is not None and time.monotonic() - self.begun >= seconds
        return late or (most is not None and self.neighbours >= most)

    def take(self, most: int) -> int:
        """Count neighbours that are about to be looked at, as far as the budget allows; return how many."""
        if self.is_over:
            return 0
        limit = self.budget.neighbours
        many = most if limit is None else min(most, limit - self.neighbours)
        self.neighbours += many
        return many

    def parts(self, numbers: IntArray, size: int) -> Iterator[IntArray]:
        """Yield numbers in parts, and count them, until the budget ends."""
        for first in range(0, len(numbers), size):
            part = numbers[first : first + size]
            part = part[: self.take(len(part))]
            if not len(part):
                return
            yield part


@dataclass(slots=True)
class Best:
    """The cheapest plan that a search has seen."""

    cost: float = np.inf
    split: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def look(self, plan: JoinPlan) -> bool:
        """Keep a plan if it is cheaper; return whether it is."""
        cost = add_up(plan)
        cheaper = cost < self.cost * GAIN
        if cheaper:
            self.cost, self.split = cost, plan.split.copy()
        return cheaper
