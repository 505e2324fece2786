"""Costs of plans of joins: as paper 002 counts them, and as the engine `tree` spends its time.

Both are sums over the nodes of a tree, and both say the cost of a node from the slots below it, so that one
search serves both. With a count window, rates are events in one position and the window is a number of
positions; the formulas stay the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Tree, bits, slots_of

CANDIDATE, ROW, PROBE = 4.0, 15.0, 25.0  # nanoseconds: a pair looked at, a row written, a row looked up for
MOST_DOUBLINGS = 60.0  # of subsets of Kleene events that are told apart: products of ten stay finite


class Costs(Protocol):
    """The costs of the nodes of one pattern's trees."""

    def rows(self, mask: int) -> float:
        """Return how many rows of some slots a window holds."""

    def leaf(self, slot: int) -> float:
        """Return the cost of a leaf."""

    def begin(self, slot: int) -> float:
        """Return the cost of the first slot of an order, as far as it depends on the order."""

    def join(self, left: int, right: int) -> float:
        """Return the cost of a node that joins two disjoint sets of slots."""


def count_extensions(before: Sequence[int], mask: int) -> int:
    """Return in how many orders the slots of a mask can come: 1 for a sequence, k! for a conjunction.

    Both take O(k²); other orders take the time of all sets of slots that can come first.

    >>> count_extensions((0, 0b001, 0b001), 0b111)  # A before B and before C
    2
    """
    return _count_extensions(before, mask, {0: 1})


def _count_extensions(before: Sequence[int], mask: int, known: dict[int, int]) -> int:
    if mask in known:
        return known[mask]
    slots, last = bits(mask), []
    for slot in slots:
        if not any(before[each] >> slot & 1 for each in slots):
            last.append(slot)
            if before[slot] & mask == 0:  # it can come anywhere
                last = [slot] * len(slots)
                break
    if len(set(last)) == 1:
        known[mask] = len(last) * _count_extensions(before, mask & ~(1 << last[0]), known)
    else:
        known[mask] = sum(_count_extensions(before, mask & ~(1 << slot), known) for slot in last)
    return known[mask]


@dataclass(slots=True)
class PaperCosts:
    """Cost_tree of [002 App. C]: a node costs its rows, without regard to the order of events.

    A predicate on one event is part of its leaf, so a rate is after it. A Kleene variable comes 2^(rW) times
    in a window [40].
    """

    pattern: JoinPattern
    stats: Statistics
    window: float = math.nan  # of the node, if it is not the pattern's: the largest of those who share it
    _rows: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if math.isnan(self.window):
            self.window = self.stats.window(self.pattern)

    def events(self, slot: int) -> float:
        """Return how many events of a slot a window holds."""
        events = self.stats.rate(self.pattern.leaves[slot]) * self.window
        return 2.0 ** min(events, MOST_DOUBLINGS) if self.pattern.kleene >> slot & 1 else events

    def rows(self, mask: int) -> float:
        if mask not in self._rows:
            self._rows[mask] = math.prod(map(self.events, bits(mask))) * self._share(mask)
        return self._rows[mask]

    def _share(self, mask: int) -> float:
        tests = dict.fromkeys(min(each, each.flip()) for each in self.pattern.tests)
        inside = (each for each in tests if mask >> each.left & 1 and mask >> each.right & 1)
        return math.prod(self.stats.share(self.pattern, each) for each in inside)

    def leaf(self, slot: int) -> float:
        return self.events(slot)

    def begin(self, slot: int) -> float:
        return self.events(slot)  # Cost_ord counts the first state, and no other leaf

    def join(self, left: int, right: int) -> float:
        return self.rows(left | right)


@dataclass(slots=True)
class TimedCosts:
    """The nanoseconds that the engine spends on a node while one window of time passes.

    Of the k! orders of k independent events a sub-pattern takes its linear extensions, so `rows`, the rows in
    one window, are fewer than the paper counts. While a window passes, k rows are made for each of them: the
    first of the k events falls into that time, the others up to a window later. A row is compared with the
    rows whose last event lies in its window: after its own last event where that order is known, on both
    sides where it is not. A test for equality makes an index, which leaves the share of pairs that are equal.
    The events of a Kleene variable before its last are chosen after the joins, in every plan alike.
    """

    pattern: JoinPattern
    stats: Statistics
    window: float = math.nan
    _rows: dict[int, float] = field(default_factory=dict)
    _paper: PaperCosts = field(init=False)

    def __post_init__(self) -> None:
        single = JoinPattern(
            self.pattern.leaves, self.pattern.before, self.pattern.tests, self.pattern.window
        )
        self._paper = PaperCosts(single, self.stats, self.window)
        self.window = self._paper.window

    def rows(self, mask: int) -> float:
        if mask not in self._rows:
            orders = count_extensions(self.pattern.before, mask) / math.factorial(mask.bit_count())
            self._rows[mask] = self._paper.rows(mask) * orders
        return self._rows[mask]

    def count_made(self, mask: int) -> float:
        """Return how many rows are made while one window passes."""
        return mask.bit_count() * self.rows(mask)

    def candidates(self, left: int, right: int) -> float:
        """Return how many pairs of rows are looked at while one window passes."""
        equal = (each for each in self.pattern.tests_between(left, right) if each.op == "=")
        share = min((self.stats.share(self.pattern, each) for each in equal), default=1.0)
        return self.rows(left) * self.rows(right) * self._reach(left, right) * share

    def _reach(self, left: int, right: int) -> float:
        """Return how many windows of rows a row looks at, times the rows made of the looking side."""
        one, other = left.bit_count(), right.bit_count()
        if self._ends_before(left, right):
            return other
        return one if self._ends_before(right, left) else one * other + (one + other) / 2

    def _ends_before(self, mask: int, other: int) -> bool:
        """Whether every event of a row is before some event of another, and so is its last one."""
        return all(any(self.pattern.before[late] >> slot & 1 for late in bits(other)) for slot in bits(mask))

    def leaf(self, slot: int) -> float:
        return ROW * self._paper.events(slot)

    def begin(self, slot: int) -> float:  # noqa: ARG002 (every order has the same leaves)
        return 0.0

    def join(self, left: int, right: int) -> float:
        probes = self.count_made(left) + self.count_made(right)
        return CANDIDATE * self.candidates(left, right) + ROW * self.count_made(left | right) + PROBE * probes


COSTS: dict[str, Callable[[JoinPattern, Statistics, float], Costs]] = {
    "paper": PaperCosts,
    "ours": TimedCosts,
}


# ---- whole plans of one pattern


def cost_ord(order: Sequence[int], pattern: JoinPattern, stats: Statistics) -> float:
    """Return Cost_ord of an order of slots [002 §3.3]: the rows of all its prefixes.

    A negated variable is judged after the positive ones: it adds a state in which their rows wait.

    >>> pattern = JoinPattern((0, 1), (0, 1), window=10)  # SEQ(A, B) with 20 and 30 events in a window
    >>> cost_ord((1, 0), pattern, Statistics({0: 2.0, 1: 3.0}))
    630.0
    """
    costs = PaperCosts(pattern, stats)
    states = [costs.rows(sum(1 << slot for slot in order[: k + 1])) for k in range(len(order))]
    return sum(states) + len(pattern.negated) * states[-1]


def cost_tree(tree: Tree, pattern: JoinPattern, stats: Statistics, cost: str = "paper") -> float:
    """Return Cost_tree of a tree [002 App. C], or our cost of it; a negated variable adds a leaf and a node.

    >>> pattern = JoinPattern((0, 1), (0, 1), window=10)
    >>> cost_tree((0, 1), pattern, Statistics({0: 2.0, 1: 3.0}))
    650.0
    """
    costs = COSTS[cost](pattern, stats, math.nan)
    rows, events = costs.rows(slots_of(tree)), PaperCosts(pattern, stats).window
    absent = sum(rows + events * stats.rate(leaf) for leaf in pattern.negated)
    return _add_up(tree, costs) + absent


def _add_up(tree: Tree, costs: Costs) -> float:
    if isinstance(tree, int):
        return costs.leaf(tree)
    own = costs.join(slots_of(tree[0]), slots_of(tree[1]))
    return own + _add_up(tree[0], costs) + _add_up(tree[1], costs)


# ---- one event of a multi-pattern tree


@dataclass(frozen=True, slots=True)
class InstanceCosts:
    """The costs of an instance [002 §3.3]: to access it, verify its predicates, create it and remove it."""

    access: float = 1.0
    verify: float = 1.0
    create: float = 1.0
    remove: float = 1.0


Waiting = tuple[float, float]  # the instances of a state, and the share of them that take an event


def cost_to_process(states: Iterable[Waiting], costs: InstanceCosts) -> float:
    """Return CP(T): the cost of an event of a type, from the states that wait for it.

    >>> cost_to_process([(10.0, 0.5)], InstanceCosts(access=1, verify=2, create=4))
    50.0
    """
    return sum(count * (costs.access + costs.verify + share * costs.create) for count, share in states)


def cost_to_remove(states: Iterable[Waiting], costs: InstanceCosts) -> float:
    """Return CR(T): the cost of removing the instances that an event of a type made, once they expire."""
    return sum(count * share * costs.remove for count, share in states)
