"""Shared plans as the paper describes them: the multi-pattern tree of orders, the multitree of trees.

Both grow and shrink pattern by pattern, in time O(m) for a pattern of m slots, whatever the number of
patterns. They are the plain form of a plan: for explanations, for changes one by one, and for tests of the
tables that searches work on.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from cerise.pattern.expr import FLIPPED
from cerise.plan.cost import COSTS, PaperCosts, Waiting
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Key, Tree, bits, key_of, slots_of

Name = Hashable

# ---- prefixes of orders


@dataclass(frozen=True, slots=True)
class OrderStep:
    """The edge into a state: its leaf, and order and tests between it and the steps before.

    Attributes:
        leaf: the leaf of the step's slot.
        before: the numbers of earlier steps whose events come before it, as a bit mask.
        after: the same, of those whose events come after it.
        tests: comparisons with earlier steps: the number of the step, op, own side, the step's side.
        scope: the scope of the pattern.
    """

    leaf: int
    before: int
    after: int
    tests: frozenset[tuple[int, str, int, int]]
    scope: Hashable

    @classmethod
    def of(cls, pattern: JoinPattern, order: Sequence[int]) -> OrderStep:
        """Return the step of the last slot of an order."""
        *earlier, slot = order
        place = {each: number for number, each in enumerate(earlier)}
        before = sum(1 << place[each] for each in earlier if pattern.before[slot] >> each & 1)
        after = sum(1 << place[each] for each in earlier if pattern.before[each] >> slot & 1)
        tests = set()
        for test in pattern.tests:
            if test.left == slot and test.right in place:
                tests.add((place[test.right], test.op, test.left_side, test.right_side))
            elif test.right == slot and test.left in place:
                tests.add((place[test.left], FLIPPED[test.op], test.right_side, test.left_side))
        return cls(pattern.leaves[slot], before, after, frozenset(tests), pattern.scope)


@dataclass(slots=True, eq=False)
class TreeState:
    """A state of a multi-pattern tree: all patterns whose orders begin alike share it."""

    users: dict[Name, tuple[JoinPattern, tuple[int, ...]]] = field(default_factory=dict)  # and their prefixes
    after: dict[OrderStep, TreeState] = field(default_factory=dict)
    finals: list[Name] = field(default_factory=list)

    @property
    def window(self) -> float:
        """The largest window of the patterns that share the state: its rows expire by it."""
        return max((pattern.window for pattern, _ in self.users.values()), default=math.inf)

    def instances(self, stats: Statistics) -> float:
        """Return Cost_ord^k of the state, with the window of the state; 1 for the root."""
        return max(
            PaperCosts(pattern, stats).rows(sum(1 << slot for slot in prefix))
            for pattern, prefix in self.users.values()
        )


@dataclass(slots=True)
class MultiPatternTree:
    """Orders of many patterns that share all their prefixes [002 §3.2]."""

    root: TreeState = field(default_factory=TreeState)
    orders: dict[Name, tuple[JoinPattern, tuple[int, ...]]] = field(default_factory=dict)

    def add(self, name: Name, pattern: JoinPattern, order: Sequence[int]) -> None:
        """Add a pattern with its order: only states that are missing are made.

        >>> tree = MultiPatternTree()
        >>> tree.add("P1", JoinPattern((0, 1, 2), (0, 1, 3)), (0, 1, 2))
        >>> tree.add("P2", JoinPattern((0, 1, 3), (0, 1, 3)), (0, 1, 2))
        >>> len(tree.states())  # the root, A, AB, ABC, ABD
        5
        """
        self.orders[name] = pattern, tuple(order)
        for state, prefix in self._path(name):
            state.users[name] = pattern, prefix
        state.finals.append(name)

    def remove(self, name: Name) -> None:
        """Remove a pattern: states that no other pattern shares go with it."""
        path = [state for state, _ in self._path(name)]
        del self.orders[name]
        path[-1].finals.remove(name)
        for state in path:
            del state.users[name]
            state.after = {step: each for step, each in state.after.items() if each.users.keys() - {name}}

    def _path(self, name: Name) -> Iterator[tuple[TreeState, tuple[int, ...]]]:
        """Yield the states of a pattern with its prefixes; those that are missing are made."""
        pattern, order = self.orders[name]
        state = self.root
        yield state, ()
        for end in range(1, len(order) + 1):
            state = state.after.setdefault(OrderStep.of(pattern, order[:end]), TreeState())
            yield state, order[:end]

    def states(self) -> list[TreeState]:
        """Return all states, the root first, then level by level."""
        found = [self.root]
        for state in found:
            found += state.after.values()  # the list grows while it is read
        return found

    def states_by_leaf(self) -> dict[int, list[TreeState]]:
        """Return l_T: for each leaf the states that wait for its events."""
        waiting: dict[int, list[TreeState]] = {}
        for state in self.states():
            for leaf in dict.fromkeys(step.leaf for step in state.after):
                waiting.setdefault(leaf, []).append(state)
        return waiting

    def count_instances(self, stats: Statistics) -> float:
        """Return #inst, the cost of the tree: the instances of all states but the root's single one."""
        return sum(state.instances(stats) for state in self.states()[1:])

    def meet(self, leaf: int, stats: Statistics) -> list[Waiting]:
        """Return the instances that an event of a leaf meets, and the share that takes it, for CP and CR."""
        met = []
        for state in self.states_by_leaf().get(leaf, ()):
            for step, after in state.after.items():
                if step.leaf == leaf:
                    pattern, prefix = next(iter(after.users.values()))
                    tests = pattern.tests_between(1 << prefix[-1], sum(1 << slot for slot in prefix[:-1]))
                    share = math.prod(stats.share(pattern, test) for test in tests)
                    met.append((state.instances(stats), share))
        return met


# ---- trees


@dataclass(slots=True, eq=False)
class SharedNode:
    """A node of a multitree: one sub-pattern, of all patterns whose trees hold it.

    Attributes:
        half: the slots on one side of the join, numbered as in the key.
        users: the patterns that use the node, with the slots that it has in them.
    """

    half: frozenset[int]
    users: dict[tuple[Name, int], JoinPattern] = field(default_factory=dict)

    @property
    def window(self) -> float:
        return max(pattern.window for pattern in self.users.values())

    def split(self, order: Sequence[int]) -> tuple[int, int]:
        """Return the two halves of a pattern's slots, which come in the order of the key."""
        left = sum(1 << order[place] for place in self.half)
        return left, sum(1 << slot for slot in order) ^ left


@dataclass(slots=True)
class Multitree:
    """Trees of many patterns that share their sub-trees [002 §5]; a node is found by its sub-pattern's key.

    The first tree that brings a sub-pattern decides the shape of its node.
    """

    nodes: dict[Key, SharedNode] = field(default_factory=dict)
    leaves: dict[int, dict[tuple[Name, int], JoinPattern]] = field(default_factory=dict)
    trees: dict[Name, tuple[JoinPattern, Tree]] = field(default_factory=dict)

    def add(self, name: Name, pattern: JoinPattern, tree: Tree) -> Tree:
        """Add a pattern with its tree; return its tree with the shapes of nodes that were there.

        >>> shared = Multitree()
        >>> shared.add("P1", JoinPattern((0, 1, 2), (0, 1, 3)), ((0, 2), 1))
        ((0, 2), 1)
        >>> shared.add("P2", JoinPattern((0, 5, 2, 1), (0, 1, 3, 0)), (((0, 1), 2), 3))
        (((0, 1), 2), 3)
        >>> len(shared.nodes)
        5
        """
        tree = self._add(name, pattern, tree)
        self.trees[name] = pattern, tree
        return tree

    def _add(self, name: Name, pattern: JoinPattern, tree: Tree) -> Tree:
        if isinstance(tree, int):
            self.leaves.setdefault(pattern.leaves[tree], {})[name, tree] = pattern
            return tree
        mask = slots_of(tree)
        key, order = key_of(pattern, mask)
        if key in self.nodes:
            tree = self._like(pattern, mask)
        else:
            left = slots_of(tree[0])
            places = (place for place, slot in enumerate(order) if left >> slot & 1)
            self.nodes[key] = SharedNode(frozenset(places))
        self.nodes[key].users[name, mask] = pattern
        assert not isinstance(tree, int)
        return self._add(name, pattern, tree[0]), self._add(name, pattern, tree[1])

    def _like(self, pattern: JoinPattern, mask: int) -> Tree:
        """Return the tree of some slots of a pattern that is there already."""
        if mask & (mask - 1) == 0:
            return bits(mask)[0]
        key, order = key_of(pattern, mask)
        one, other = self.nodes[key].split(order)
        return self._like(pattern, one), self._like(pattern, other)

    def remove(self, name: Name) -> None:
        """Remove a pattern: nodes and leaves that no other pattern uses go with it."""
        pattern, tree = self.trees.pop(name)
        ahead = [tree]
        while ahead:
            each = ahead.pop()
            if isinstance(each, int):
                leaf = pattern.leaves[each]
                del self.leaves[leaf][name, each]
                if not self.leaves[leaf]:
                    del self.leaves[leaf]
            else:
                mask = slots_of(each)
                key = key_of(pattern, mask)[0]
                del self.nodes[key].users[name, mask]
                if not self.nodes[key].users:
                    del self.nodes[key]
                ahead += each

    def cost(self, stats: Statistics, cost: str = "ours") -> float:
        """Return the cost of the plan: each node and each leaf once, with the largest window of its users."""
        costs = {name: COSTS[cost](pattern, stats, math.nan) for name, (pattern, _) in self.trees.items()}
        joins = sum(
            max(
                costs[name].join(*node.split(key_of(pattern, mask)[1]))
                for (name, mask), pattern in node.users.items()
            )
            for node in self.nodes.values()
        )
        return joins + sum(
            max(costs[name].leaf(slot) for name, slot in users) for users in self.leaves.values()
        )


def cost_of_plan(
    patterns: Sequence[JoinPattern], trees: Sequence[Tree], stats: Statistics, cost: str = "ours"
) -> float:
    """Return the cost of a plan of a workload: one tree for each pattern, equal sub-patterns shared.

    >>> two = [JoinPattern((0, 1), (0, 1)), JoinPattern((0, 1), (0, 1))]
    >>> cost_of_plan(two, [(0, 1), (0, 1)], Statistics({0: 2.0, 1: 3.0}), "paper")
    11.0
    """
    shared = Multitree()
    for number, (pattern, tree) in enumerate(zip(patterns, trees, strict=True)):
        shared.add(number, pattern, tree)
    return shared.cost(stats, cost)
