"""The joins that a team needs: a sub-pattern that several branches have is one node, found by its key.

The window of a node is the largest of its branches; each query tests its own again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cerise.engines.tree.branches.join_branch import Catalog, StreamScope
from cerise.engines.tree.branches.team_branch import TeamBranch
from cerise.plan.joins import JoinPattern, Key, Tree, key_of, slots_of

Root = tuple[int, tuple[int, ...]]  # the pool of a branch's matches, and the slots of its rows


@dataclass(slots=True)
class PlanNode:
    """A join of the plan.

    Attributes:
        key: the key of its sub-pattern.
        left: the pool on the left.
        right: the pool on the right.
        pattern: a branch that has the sub-pattern.
        slots: the slots of the sub-pattern in that branch, in the order of the rows.
        left_slots: the same, of the pool on the left.
        right_slots: the same, of the pool on the right.
        window: the largest window of the branches that have it; -1: none.
        users: the numbers of these branches, one as often as it has the sub-pattern; the slots are those of
            the first one.
        read: whether another join reads its rows.
    """

    key: Key
    left: int
    right: int
    pattern: JoinPattern
    slots: tuple[int, ...]
    left_slots: tuple[int, ...]
    right_slots: tuple[int, ...]
    window: int
    users: list[int] = field(default_factory=list)
    read: bool = False


class PlanNodes:
    """The nodes of a plan.

    Args:
        catalog: the leaves of the team; their pools come first.
        branches: all branches of all queries.
        trees: the join tree of each branch.

    Attributes:
        nodes: the nodes; those whose rows no join reads come last.
        inner: how many nodes have rows that joins read.
        roots: for each branch its pool, and the slots of the rows there.
    """

    def __init__(self, catalog: Catalog, branches: Sequence[TeamBranch], trees: Sequence[Tree]) -> None:
        self.leaves, self.branches = list(catalog.leaves), branches
        self.nodes: list[PlanNode] = []
        self.inner = 0
        self._known: dict[Key, int] = {}
        roots = [
            self._intern(branch, i, tree)
            for i, (branch, tree) in enumerate(zip(branches, trees, strict=True))
        ]
        self.roots = self._settle_finals(roots)

    def _intern(self, team: TeamBranch, user: int, tree: Tree) -> tuple[int, tuple[int, ...]]:
        """Return the pool of a tree, and the slots of its rows; a known sub-pattern keeps its own tree."""
        pattern = team.branch.pattern
        if isinstance(tree, int):
            return pattern.leaves[tree], (tree,)
        key, slots = key_of(pattern, slots_of(tree))
        if key in self._known:
            pool = self._known[key]
            self._widen(pool, team.window, user)
            return pool, slots
        left, left_slots = self._intern(team, user, tree[0])
        right, right_slots = self._intern(team, user, tree[1])
        for child in (left, right):
            if child >= len(self.leaves):
                self.nodes[child - len(self.leaves)].read = True
        pool = self._known[key] = len(self.leaves) + len(self.nodes)
        self.nodes.append(
            PlanNode(key, left, right, pattern, slots, left_slots, right_slots, team.window, [user])
        )
        return pool, slots

    def _widen(self, pool: int, window: int, user: int) -> None:
        """Let a branch use a node, and all nodes below it."""
        if pool < len(self.leaves):
            return
        node = self.nodes[pool - len(self.leaves)]
        node.window = widest(node.window, window)
        node.users.append(user)
        self._widen(node.left, window, user)
        self._widen(node.right, window, user)

    def _settle_finals(self, roots: Sequence[Root]) -> list[Root]:
        """Put nodes whose rows no join reads last; their rows need not be kept, unless a query chooses."""
        for (pool, _), branch in zip(roots, self.branches, strict=True):
            if pool >= len(self.leaves) and branch.chooses:
                self.nodes[pool - len(self.leaves)].read = True
        order = sorted(range(len(self.nodes)), key=lambda n: not self.nodes[n].read)
        moved = {old + len(self.leaves): new + len(self.leaves) for new, old in enumerate(order)}
        self.nodes = [self.nodes[old] for old in order]
        for node in self.nodes:
            node.left, node.right = moved.get(node.left, node.left), moved.get(node.right, node.right)
        self.inner = sum(node.read for node in self.nodes)
        return [(moved.get(pool, pool), slots) for pool, slots in roots]


def widest(one: int, other: int) -> int:
    """Return the larger of two windows; -1 has no end."""
    return -1 if -1 in (one, other) else max(one, other)


def scope_in(pattern: JoinPattern) -> StreamScope:
    """Return the events that a pattern joins."""
    assert isinstance(pattern.scope, StreamScope)
    return pattern.scope


def is_partitioned(pattern: JoinPattern) -> bool:
    """Whether a pattern joins only events of one partition."""
    return bool(scope_in(pattern).partition)
