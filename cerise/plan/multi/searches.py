"""Searches for a cheap plan of a whole workload of patterns [002 §4.2, App. B].

`descend` is ours: each pattern answers the nodes that the others pay for, then sub-patterns are opened and
closed. `anneal` and `tabu` are the paper's. All start from the best plans of single patterns, and return the
cheapest plan that they have seen when their budget ends. A node is one sub-pattern here, in the paper one
order of types: the space that is searched is smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cerise.kernels.join_dp import FloatArray, IntArray, JoinPlan, plan_each, write_halves
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Tree
from cerise.plan.multi.baselines import keep_order, reorder_each, share_most
from cerise.plan.multi.budgets import SPLITS, Best, Budget, SearchClock
from cerise.plan.multi.openings import close_each, empty_log, open_each
from cerise.plan.multi.plan_search import PlanSearch
from cerise.plan.multi.subpatterns import Workload, number_workload


def plan_workload(
    patterns: Sequence[JoinPattern], stats: Statistics, search: PlanSearch | None = None
) -> tuple[Tree, ...]:
    """Return a tree for each pattern; sub-trees with the same key are one node of the shared plan.

    Unless the method is a baseline of the paper, such sub-trees have the same shape in all trees.

    >>> abc, xbc = JoinPattern((1, 2, 3), (0, 1, 3)), JoinPattern((4, 2, 3), (0, 1, 3))
    >>> plan_workload([abc, xbc], Statistics({1: 90.0, 2: 9.0, 3: 9.0, 4: 90.0}))
    (((1, 2), 0), ((1, 2), 0))
    >>> plan_workload([abc, xbc], Statistics({2: 9.0}), PlanSearch("tabu", neighbours=200, seconds=None))
    (((0, 2), 1), ((0, 2), 1))
    """
    search = PlanSearch() if search is None else search
    if search.method in BASELINES:
        return BASELINES[search.method](patterns, stats, search)
    if not patterns:
        return ()
    work = number_workload(patterns, stats, search.cost)
    plan = work.empty_plan()
    plan_each(work.tables, plan, work.active, False, search.prefix_only)
    SEARCHES[search.method](work, plan, search)
    halves = np.zeros(len(work.tables.ids), np.int64)
    write_halves(work.tables, plan, halves)
    return tuple(work.tree(p, halves) for p in range(len(patterns)))


# ---- ours


def descend(work: Workload, plan: JoinPlan, search: PlanSearch) -> None:
    """Lower the cost until neither a pattern nor a sub-pattern can be planned better by itself.

    A round of n patterns of m slots costs O(n·3^m) for the answers, O(n·2^m·3^m) for opening and closing.
    """
    clock = SearchClock(Budget(search.neighbours, search.seconds))
    best, t, log, deep = Best(), work.tables, empty_log(work.tables), search.prefix_only
    best.look(plan)
    size = max(1, SPLITS // 3 ** int(t.sizes.max()))
    shared = _shareable(work)
    lists = max(1, int(np.diff(t.holder_first)[shared].mean())) if len(shared) else 1
    while not clock.is_over:
        for part in clock.parts(work.active, size):
            plan_each(t, plan, part, True, deep)
        if best.look(plan):
            continue
        for part in clock.parts(shared, max(1, size // lists)):
            open_each(t, plan, log, part, deep)
        for part in clock.parts(shared, max(1, size // lists)):
            close_each(t, plan, log, part, deep)
        if not best.look(plan):
            break
    plan.split[:] = best.split


def _shareable(work: Workload) -> IntArray:
    """Return the sub-patterns of two patterns or more, those first that save most if all share them."""
    t = work.tables
    holders = np.diff(t.holder_first)
    several = np.flatnonzero(holders > 1)
    rows = t.made[t.holders[t.holder_first[several]]] if len(several) else np.zeros(0)
    savings: FloatArray = (holders[several] - 1) * rows
    return several[np.argsort(-savings, kind="stable")]


def anneal(work: Workload, plan: JoinPlan, search: PlanSearch) -> None:
    """Walk by simulated annealing [002 App. B.1]."""
    from cerise.plan.multi import walks  # compiles kernels that `descend` does not need

    walks.anneal(work, plan, search)


def tabu(work: Workload, plan: JoinPlan, search: PlanSearch) -> None:
    """Walk by tabu search [002 App. B.2]."""
    from cerise.plan.multi import walks

    walks.tabu(work, plan, search)


Searcher = Callable[[Workload, JoinPlan, PlanSearch], None]
BASELINES: dict[str, Callable[[Sequence[JoinPattern], Statistics, PlanSearch], tuple[Tree, ...]]] = {
    "trivial": lambda patterns, _stats, _search: keep_order(patterns),
    "SH": lambda patterns, _stats, _search: share_most(patterns),
    "RE": lambda patterns, stats, search: reorder_each(patterns, stats, search.cost),
}
SEARCHES: dict[str, Searcher] = {  # each leaves the best plan that it has seen
    "best": lambda _work, _plan, _search: None,
    "descend": descend,
    "anneal": anneal,
    "tabu": tabu,
}
