"""Chooses the join trees of a team: of one query by dynamic programming, of several by a search."""

from __future__ import annotations

from collections.abc import Sequence

from cerise.engines.base import Options
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Tree
from cerise.plan.multi.local_plans import best_tree

FEW = 8  # patterns that are planned one by one, without the kernels of a search


def plan_trees(patterns: Sequence[JoinPattern], stats: Statistics, options: Options) -> tuple[Tree, ...]:
    """Return a join tree for each pattern.

    Args:
        patterns: the branches of all queries.
        stats: rates and selectivities.
        options: how to search; see `Options.plan`.
    """
    if len(patterns) <= FEW and options.plan is None:
        return tuple(best_tree(each, stats) for each in patterns)
    from cerise.plan.multi.searches import plan_workload  # imports kernels

    return plan_workload(patterns, stats, options.plan)
