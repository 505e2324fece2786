"""Plans of one pattern, the generator A of paper 002: greedy, and by dynamic programming over sets of slots.

Orders are left-deep trees [002 §2]; trees are of any shape [002 §5]. Both can be asked for the best plan that
starts with a given prefix, or that holds given sub-trees. The cost is the paper's or ours.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from cerise.plan.cost import COSTS, Costs
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Key, Tree, bits, key_of, slots_of

MOST_ITEMS = 10  # that dynamic programming orders: the others, the dearest, follow one by one


def greedy(
    pattern: JoinPattern, stats: Statistics, prefix: Sequence[int] = (), cost: str = "ours"
) -> tuple[int, ...]:
    """Return the order that takes the slot with the cheapest next join, again and again: RE of [002 §6.2.2].

    The cost is O(m²) joins.

    >>> greedy(JoinPattern((0, 1, 2), (0, 1, 3)), Statistics({0: 9.0, 1: 5.0, 2: 0.1}))
    (2, 1, 0)
    """
    costs = COSTS[cost](pattern, stats, math.nan)
    order = list(prefix)
    while len(order) < len(pattern):
        bound = sum(1 << slot for slot in order)
        order.append(min(bits(pattern.all & ~bound), key=lambda slot: _step(costs, bound, slot)))
    return tuple(order)


def _step(costs: Costs, bound: int, slot: int) -> tuple[float, float]:
    """Return the cost of the next join; of the first slot its events."""
    return (costs.join(bound, 1 << slot) if bound else costs.rows(1 << slot)), costs.rows(1 << slot)


def best_order(
    pattern: JoinPattern, stats: Statistics, prefix: Sequence[int] = (), cost: str = "ours"
) -> tuple[int, ...]:
    """Return the cheapest order of slots that starts with a prefix.

    Dynamic programming over sets of slots costs O(m·2^m) joins. Beyond ten slots after the prefix, the last
    ones follow in the order of `greedy`.

    >>> best_order(JoinPattern((0, 1, 2), (0, 1, 3)), Statistics({0: 9.0, 1: 5.0, 2: 0.1}), cost="paper")
    (2, 1, 0)
    """
    costs = COSTS[cost](pattern, stats, math.nan)
    near = greedy(pattern, stats, prefix, cost)
    some, rest = near[len(prefix) : len(prefix) + MOST_ITEMS], near[len(prefix) + MOST_ITEMS :]
    start = sum(1 << slot for slot in prefix)
    best: dict[int, tuple[float, tuple[int, ...]]] = {start: (0.0, tuple(prefix))}
    for _ in some:
        best = _extend(best, some, costs)
    return (*best[sum(1 << slot for slot in some) | start][1], *rest)


def _extend(
    best: dict[int, tuple[float, tuple[int, ...]]], slots: Sequence[int], costs: Costs
) -> dict[int, tuple[float, tuple[int, ...]]]:
    """Return the best orders that are longer by one slot, by their sets of slots."""
    longer: dict[int, tuple[float, tuple[int, ...]]] = {}
    for bound, (paid, order) in best.items():
        for slot in slots:
            if not bound >> slot & 1:
                step = costs.join(bound, 1 << slot) if bound else costs.begin(slot)
                found = paid + step, (*order, slot)
                longer[bound | 1 << slot] = min(found, longer.get(bound | 1 << slot, found))
    return longer


def best_tree(
    pattern: JoinPattern,
    stats: Statistics,
    given: Sequence[Tree] = (),
    paid: Collection[Key] = (),
    cost: str = "ours",
) -> Tree:
    """Return the cheapest tree of a pattern, of any shape.

    Dynamic programming over sets of slots costs O(3^m) joins. Beyond ten items, slots or given trees, the
    last ones are joined one by one in the order of `greedy`.

    Args:
        pattern: the pattern.
        stats: rates and selectivities.
        given: disjoint trees that the tree holds as they are.
        paid: keys of sub-patterns that other patterns pay for: their nodes cost nothing.
        cost: the name of the cost, "ours" or "paper".

    >>> from cerise.plan.joins import JoinTest
    >>> tests = (JoinTest(0, "=", 1, 0, 0), JoinTest(2, "=", 3, 0, 0))
    >>> pattern = JoinPattern((0, 1, 2, 3), (0, 1, 3, 7), tests)
    >>> stats = Statistics(dict.fromkeys(range(4), 90.0))
    >>> best_tree(pattern, stats)
    ((0, 1), (2, 3))
    >>> best_tree(pattern, stats, given=[(0, 2)])
    (((0, 2), 1), 3)
    """
    costs = COSTS[cost](pattern, stats, math.nan)
    items = _items(pattern, stats, given, cost)
    free = frozenset(paid)
    chooser = _Chooser(pattern, costs, free, items[:MOST_ITEMS])
    tree = chooser.best()
    for item in items[MOST_ITEMS:]:
        tree = (tree, item)
    return tree


def _items(pattern: JoinPattern, stats: Statistics, given: Sequence[Tree], cost: str) -> list[Tree]:
    """Return the given trees and the other slots, in the order in which `greedy` joins them."""
    held = {slot: tree for tree in given for slot in bits(slots_of(tree))}
    order = greedy(pattern, stats, (), cost)
    return list(dict.fromkeys(held.get(slot, slot) for slot in order))


@dataclass(slots=True)
class _Chooser:
    """Dynamic programming over sets of items; an item is a slot or a given tree."""

    pattern: JoinPattern
    costs: Costs
    paid: frozenset[Key]
    items: list[Tree]

    def best(self) -> Tree:
        slots = [slots_of(item) for item in self.items]
        covers = [0]  # the slots of each set of items
        for mask in slots:
            covers += [each | mask for each in covers]
        best: list[tuple[float, Tree]] = [(0.0, 0)] * len(covers)
        for mask in range(1, len(covers)):
            if mask & (mask - 1) == 0:
                best[mask] = 0.0, self.items[mask.bit_length() - 1]
            else:
                best[mask] = self._best_of(mask, covers, best)
        return best[-1][1]

    def _best_of(self, mask: int, covers: list[int], best: list[tuple[float, Tree]]) -> tuple[float, Tree]:
        free = bool(self.paid) and key_of(self.pattern, covers[mask])[0] in self.paid
        cheapest, split = math.inf, 0
        for left in _halves(mask):
            below = best[left][0] + best[mask ^ left][0]
            if not split or below < cheapest:
                own = 0.0 if free else self.costs.join(covers[left], covers[mask ^ left])
                if not split or below + own < cheapest:
                    cheapest, split = below + own, left
        return 0.0 if free else cheapest, _pair(best[split][1], best[mask ^ split][1])


def _halves(mask: int) -> Iterator[int]:
    """Yield one of the two halves of each split of a set: the half with the lowest bit."""
    low = mask & -mask
    rest = half = mask ^ low
    while half:
        half = (half - 1) & rest
        yield low | half


def _pair(one: Tree, other: Tree) -> Tree:
    """Return two trees as one: the larger on the left, of equal ones that with the first slot."""
    order = sorted(
        (one, other), key=lambda tree: (-slots_of(tree).bit_count(), slots_of(tree) & -slots_of(tree))
    )
    return order[0], order[1]
