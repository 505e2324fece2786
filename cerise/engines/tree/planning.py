"""Plans the joins of a team: statistics from some events, then a join tree for each branch of each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerise.engines.base import Options
from cerise.engines.tree.branches.join_branch import Catalog, StreamScope
from cerise.engines.tree.events.leaf_rows import LeafRows
from cerise.events import EventBatch
from cerise.plan.join_statistics import Compared, Statistics
from cerise.plan.joins import JoinPattern, Tree
from cerise.plan.multi.local_plans import best_tree

Ints = npt.NDArray[np.int64]
FEW = 8  # patterns that are planned one by one, without the kernels of a search
PAIRS = 1024  # that a comparison is tried on
LEAST_ROWS = 4  # fewer events of a leaf tell nothing about a comparison
_COMPARE = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal,
    "!=": np.not_equal,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """A join tree for each branch of a team, and the statistics that it follows from."""

    trees: tuple[Tree, ...]
    stats: Statistics


def plan_trees(
    patterns: Sequence[JoinPattern], stats: Statistics, options: Options, *, alone: bool
) -> tuple[Tree, ...]:
    """Return a join tree for each pattern.

    Args:
        patterns: the branches of all queries.
        stats: rates and selectivities.
        options: how to search; see `Options.plan`.
        alone: whether all are branches of one query: few are planned without the kernels of a search.
    """
    if alone and len(patterns) <= FEW and options.plan is None:
        return tuple(best_tree(each, stats) for each in patterns)
    from cerise.plan.multi.searches import plan_workload  # imports kernels

    return plan_workload(patterns, stats, options.plan)


def sample(
    catalog: Catalog, patterns: Sequence[JoinPattern], found: LeafRows, events: EventBatch
) -> Statistics:
    """Return the statistics of some events, one or more.

    A partition is matched by itself: rates count the events of one partition.

    Args:
        catalog: the leaves.
        patterns: the patterns whose comparisons are tried.
        found: the events of each leaf.
        events: the events.
    """
    span = max(1, int(events.times[-1]) - int(events.times[0]))
    scopes = [scope for _, scope in catalog.leaves]
    number = {scope: i for i, scope in enumerate(dict.fromkeys(scopes))}
    rates = {}
    for leaf, scope in enumerate(scopes):
        rows = found.of(leaf)
        partitions = max(1, len(np.unique(found.parts[number[scope]][rows]))) if scope.partition else 1
        rates[leaf] = max(len(rows), 0.5) / (len(events) if scope.by_position else span) / partitions
    rng = np.random.default_rng(0)
    shares: dict[Compared, float] = {}
    for pattern in patterns:
        assert isinstance(pattern.scope, StreamScope)
        reach = pattern.window / (len(events) if pattern.scope.by_position else span)
        for test in pattern.tests:
            left, right = pattern.leaves[test.left], pattern.leaves[test.right]
            name = (left, test.left_side, test.op, right, test.right_side)
            if name not in shares:
                share = _try_pairs(catalog, found, name, reach, rng)
                if share is not None:
                    shares[name] = share
    return Statistics(rates, shares, float(span))


def _try_pairs(
    catalog: Catalog, found: LeafRows, name: Compared, reach: float, rng: np.random.Generator
) -> float | None:
    """Return the share of pairs of near events that pass a comparison; None: events are too few to tell.

    Args:
        catalog: the leaves.
        found: the events of each leaf.
        name: the comparison.
        reach: the window, as a share of all events.
        rng: draws the pairs.
    """
    left, left_side, op, right, right_side = name
    rows, others = found.of(left), found.of(right)
    if len(rows) < LEAST_ROWS or len(others) < LEAST_ROWS:
        return None
    ones = rng.integers(0, len(rows), PAIRS)
    near = np.searchsorted(others, rows[ones])
    most = max(2, int(len(others) * min(1.0, reach)))
    twos = np.clip(near + rng.integers(-most, most, PAIRS), 0, len(others) - 1)
    one, null = found.values(left, catalog.used[left][left_side], ones)
    two, other_null = found.values(right, catalog.used[right][right_side], twos)
    passed = _COMPARE[op](one, two) & ~null & ~other_null
    return max(float(passed.mean()), 0.5 / PAIRS)
