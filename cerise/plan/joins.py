"""Patterns as joins: what the optimiser of many queries plans, and what the engine `tree` runs.

Under skip_till_any_match a branch of a query is a join: a slot for each variable, the order between slots,
and comparisons of two slots. Two sub-patterns that select the same rows have the same key, whatever their
variables are called: that is how queries share work.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product

from cerise.pattern.expr import FLIPPED

MOST_ORDERS = 720  # of equal leaves that are tried for a key: with more, equal sub-patterns may differ in key


@dataclass(frozen=True, slots=True, order=True)
class JoinTest:
    """A comparison of two slots: `left_side` of one event, `op`, `right_side` of the other.

    Attributes:
        left: the slot on the left.
        op: a comparison.
        right: the slot on the right.
        left_side: the number of an expression over one event.
        right_side: the same, of the other event.
    """

    left: int
    op: str
    right: int
    left_side: int
    right_side: int

    def flip(self) -> JoinTest:
        return JoinTest(self.right, FLIPPED[self.op], self.left, self.right_side, self.left_side)


@dataclass(frozen=True, slots=True)
class JoinPattern:
    """A branch of a query as a join.

    Attributes:
        leaves: the number of the leaf of each slot; slots are in pattern order.
        before: for each slot the slots whose events come before its event, as a bit mask; transitive.
        tests: comparisons between two slots.
        window: how long a match may last, in the units of the rates; infinite without WITHIN.
        scope: what must be equal for two patterns to share rows: partition, order of ties, kind of window.
        kleene: the slots of Kleene variables, as a bit mask; such a slot is the last event of the variable.
        negated: the leaves of negated variables.
    """

    leaves: tuple[int, ...]
    before: tuple[int, ...]
    tests: tuple[JoinTest, ...] = ()
    window: float = math.inf
    scope: Hashable = ()
    kleene: int = 0
    negated: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.leaves)

    @property
    def all(self) -> int:
        """All slots, as a bit mask."""
        return (1 << len(self.leaves)) - 1

    def tests_between(self, left: int, right: int) -> Iterator[JoinTest]:
        """Yield the tests between two disjoint sets of slots, the slot of `left` on the left."""
        for test in self.tests:
            if left >> test.left & 1 and right >> test.right & 1:
                yield test
            elif right >> test.left & 1 and left >> test.right & 1:
                yield test.flip()


# A tree is a slot, or two trees that are joined: ((0, 2), 1) joins slots 0 and 2, then slot 1.
Tree = int | tuple["Tree", "Tree"]
Key = Hashable


def slots_of(tree: Tree) -> int:
    """Return the slots of a tree, as a bit mask."""
    return 1 << tree if isinstance(tree, int) else slots_of(tree[0]) | slots_of(tree[1])


def chain_slots(order: Sequence[int]) -> Tree:
    """Return the tree that joins slots one after another.

    >>> chain_slots([2, 0, 1])
    ((2, 0), 1)
    """
    tree: Tree = order[0]
    for slot in order[1:]:
        tree = (tree, slot)
    return tree


def bits(mask: int) -> list[int]:
    """Return the slots of a bit mask, ascending."""
    return [slot for slot in range(mask.bit_length()) if mask >> slot & 1]


def key_of(pattern: JoinPattern, mask: int) -> tuple[Key, tuple[int, ...]]:
    """Return the key of a sub-pattern, and its slots in the order of the key.

    The key holds leaves, order and tests; slots are numbered by leaf, so that the order in which a query
    lists them does not matter. Windows and the shape of a tree are not part of it.

    >>> one = JoinPattern((7, 3, 5), (0, 0b001, 0b011))  # SEQ(A, B, C)
    >>> two = JoinPattern((7, 5), (0, 0b01))  # SEQ(A, C)
    >>> key_of(one, 0b101)[0] == key_of(two, 0b11)[0]
    True
    """
    slots = sorted(bits(mask), key=lambda slot: pattern.leaves[slot])
    groups: dict[int, list[int]] = {}
    for slot in slots:
        groups.setdefault(pattern.leaves[slot], []).append(slot)
    inside = [test for test in pattern.tests if mask >> test.left & 1 and mask >> test.right & 1]
    orders: Iterator[tuple[tuple[int, ...], ...]] = (
        product(*(permutations(group) for group in groups.values()))
        if math.prod(math.factorial(len(group)) for group in groups.values()) <= MOST_ORDERS
        else iter([tuple(map(tuple, groups.values()))])
    )
    best = min((_describe(pattern, inside, order), order) for order in (sum(each, ()) for each in orders))
    leaves = tuple(pattern.leaves[slot] for slot in best[1])
    return (leaves, best[0], pattern.scope), best[1]


def _describe(pattern: JoinPattern, inside: Sequence[JoinTest], order: tuple[int, ...]) -> tuple[object, ...]:
    """Return order and tests of a sub-pattern whose slots are numbered in a given order."""
    place = {slot: number for number, slot in enumerate(order)}
    before = tuple(
        sum(1 << place[other] for other in order if pattern.before[slot] >> other & 1) for slot in order
    )
    tests = []
    for test in inside:
        moved = JoinTest(place[test.left], test.op, place[test.right], test.left_side, test.right_side)
        tests.append(min(moved, moved.flip()))
    return before, tuple(sorted(set(tests)))
