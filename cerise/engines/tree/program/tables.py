"""The plan of a team of queries as tables of records: pools, joins, tests, indexes and outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cerise.engines.tree.branches.join_branch import Catalog
from cerise.engines.tree.branches.team_branch import TeamBranch
from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import JoinRow, LeafRow, Pool
from cerise.engines.tree.program.node_records import FLAGS, NodeRecords
from cerise.engines.tree.program.output_records import OutputRecords
from cerise.engines.tree.program.plan_nodes import PlanNodes, scope_in, widest
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import Tree

Ints = npt.NDArray[np.int64]


class TeamTables:
    """The tables of a plan.

    Args:
        catalog: the leaves and columns of the team.
        branches: all branches of all queries.
        trees: the join tree of each branch.
        stats: the statistics that the trees follow from.
    """

    def __init__(
        self, catalog: Catalog, branches: Sequence[TeamBranch], trees: Sequence[Tree], stats: Statistics
    ) -> None:
        self.catalog, self.branches = catalog, branches
        plan = PlanNodes(catalog, branches, trees)
        self.leaves, self.plan, self.inner = plan.leaves, plan.nodes, plan.inner
        joins = NodeRecords(catalog, plan, stats)
        outputs = OutputRecords(plan, joins)
        self.nodes, self.tests, self.keys, self.indexes = joins.nodes, joins.tests, joins.keys, joins.indexes
        self.skips, self.index_count, self.skip_count = joins.skips, joins.index_count, joins.skip_count
        self.words = np.array(joins.words or [0], np.int64)
        self.outputs, self.output_tests = outputs.outputs, outputs.output_tests
        self.repeats, self.vetoes, self.guards = outputs.repeats, outputs.vetoes, outputs.guards
        self.order, self.waiting, self.leaf_windows = outputs.order, outputs.waiting, outputs.leaf_windows
        self._lay_pools(outputs.roots)

    def columns_of(self, leaf: int) -> int:
        """Return how many columns a leaf has, flags of nulls included."""
        sides = len(self.catalog.used[leaf])
        return at.SIDES + sides + -(-sides // FLAGS)

    def find_reaches(self, scope_of: Ints, scopes: int) -> list[int]:
        """Return for each scope how far back its leaves look; -1: for ever.

        Args:
            scope_of: the scope of each leaf.
            scopes: how many there are.
        """
        found = [0] * scopes
        for scope, window in zip(scope_of.tolist(), self.leaf_windows, strict=True):
            found[scope] = widest(found[scope], window)
        return found

    def describe(self, pool: int) -> tuple[str, list[int]]:
        """Return the variables of a pool's rows in one of its queries, and the queries that use it."""
        node = pool - len(self.leaves)
        if node >= len(self.plan):
            team = self.branches[self.order[self.waiting[node - len(self.plan)]]]
            return "matches that wait for the end of their window", [team.query]
        plan = self.plan[node]
        users = list(dict.fromkeys(self.branches[user].query for user in plan.users))
        names = self.branches[plan.users[0]].branch.names
        return " ⋈ ".join(names[slot] for slot in sorted(plan.slots)), users

    def _lay_pools(self, all_roots: Sequence[int]) -> None:
        """Lay out the pools: of leaves, of nodes, and of matches that wait."""
        leaves, nodes = len(self.leaves), len(self.plan)
        self.pools = np.zeros((leaves + nodes + len(self.waiting), Pool.WORDS), np.int64)
        for pool, (_, scope) in enumerate(self.leaves):
            words = [Pool.width, Pool.window, Pool.in_order, Pool.by_position]
            self.pools[pool, words] = (
                LeafRow.WORDS, self.leaf_windows[pool], scope.in_order, scope.by_position,
            )  # fmt: skip
        for n, node in enumerate(self.plan):
            scope = scope_in(node.pattern)
            words = [Pool.width, Pool.window, Pool.in_order, Pool.by_position]
            width = JoinRow.WORDS + len(node.slots)
            self.pools[leaves + n, words] = width, node.window, scope.in_order, scope.by_position
        for place, o in enumerate(self.waiting):
            self.pools[leaves + nodes + place, Pool.width] = self.pools[all_roots[o], Pool.width]
            self.pools[leaves + nodes + place, Pool.window] = -1
        roots = np.array(all_roots, np.int64)
        for pool in dict.fromkeys(all_roots):
            places = np.flatnonzero(roots == pool)
            self.pools[pool, [Pool.outputs, Pool.outputs_end]] = places[0], places[-1] + 1
        kept = [pool for pool in dict.fromkeys(all_roots) if pool < leaves + self.inner]
        self.shown = np.array(kept or [0], np.int64)
        self.shown_count = len(kept)
