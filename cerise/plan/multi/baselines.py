"""Plans that a search must beat [002 §6.2.2]: the trivial one, sharing alone, reordering alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Key, Tree, chain_slots, key_of
from cerise.plan.multi.local_plans import greedy


def keep_order(patterns: Sequence[JoinPattern]) -> tuple[Tree, ...]:
    """Return the trivial plan: each pattern left-deep, in the order of its slots.

    >>> keep_order([JoinPattern((7, 3, 5), (0, 0b001, 0b011))])
    (((0, 1), 2),)
    """
    return tuple(chain_slots(range(len(each))) for each in patterns)


def reorder_each(patterns: Sequence[JoinPattern], stats: Statistics, cost: str = "ours") -> tuple[Tree, ...]:
    """Return RE: each pattern left-deep in its greedy order, without regard to the others."""
    return tuple(chain_slots(greedy(each, stats, (), cost)) for each in patterns)


def share_most(patterns: Sequence[JoinPattern]) -> tuple[Tree, ...]:
    """Return SH: the slots stay in order, and as many nodes as possible are shared.

    Without reordering, a node holds neighbouring slots. A tree has the nodes that save most: one that h
    patterns hold saves each of them 1 - 1/h of a node. Costs are not asked. A pattern takes O(m³).

    >>> abc, xbc = JoinPattern((1, 2, 3), (0, 1, 3)), JoinPattern((4, 2, 3), (0, 1, 3))
    >>> share_most([abc, xbc])
    (((1, 2), 0), ((1, 2), 0))
    """
    stretches = [_Stretches.of(each) for each in patterns]
    holders: dict[Key, int] = defaultdict(int)
    for each in stretches:
        for key in set(each.keys.values()):
            holders[key] += 1
    return tuple(each.best(0, len(each.pattern), holders)[1] for each in stretches)


@dataclass(slots=True)
class _Stretches:
    """The stretches of neighbouring slots of a pattern, by their first slot and the slot after the last."""

    pattern: JoinPattern
    keys: dict[tuple[int, int], Key]
    known: dict[tuple[int, int], tuple[float, Tree]] = field(default_factory=dict)

    @classmethod
    def of(cls, pattern: JoinPattern) -> _Stretches:
        count = len(pattern)
        ends = ((start, end) for start in range(count) for end in range(start + 2, count + 1))
        return cls(pattern, {(a, b): key_of(pattern, (1 << b) - (1 << a))[0] for a, b in ends})

    def best(self, start: int, end: int, holders: dict[Key, int]) -> tuple[float, Tree]:
        """Return the nodes that the tree of a stretch saves, and the tree: of equal ones the left-deep."""
        if end - start == 1:
            return 0.0, start
        if (start, end) not in self.known:
            halves = (
                (self.best(start, middle, holders), self.best(middle, end, holders))
                for middle in range(end - 1, start, -1)
            )
            (one, left), (other, right) = max(halves, key=lambda each: each[0][0] + each[1][0])
            own = 1 - 1 / holders[self.keys[start, end]]
            tree: Tree = (
                (left, right) if not isinstance(left, int) or isinstance(right, int) else (right, left)
            )
            self.known[start, end] = one + other + own, tree
        return self.known[start, end]
