"""Searches for a cheap plan of a whole workload of patterns [002 §4.2, App. B].

`descend` is ours: each pattern answers the nodes that the others pay for, then sub-patterns are opened and
closed. `anneal` and `tabu` are the paper's. All start from the best plans of single patterns, and return the
cheapest plan that they have seen when their budget ends. A node is one sub-pattern here, in the paper one
order of types: the space that is searched is smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cerise.errors import PlanError, did_you_mean
from cerise.kernels.join_dp import FloatArray, IntArray, JoinPlan, add_up, plan_each, write_halves
from cerise.plan.cost import COSTS
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Tree
from cerise.plan.multi.baselines import keep_order, reorder_each, share_most
from cerise.plan.multi.openings import GAIN, close_each, empty_log, open_each
from cerise.plan.multi.subpatterns import Workload, number_workload

SPLITS = 2_000_000  # that a kernel looks at between two looks at the clock: some 20 ms


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """How a workload is planned.

    Attributes:
        method: "trivial", "SH" and "RE" are the paper's baselines; "best" plans each pattern alone;
            "descend", "anneal" and "tabu" search.
        moves: of `anneal` and `tabu`: "edge", "vertex4" or "vertex8".
        prefix_only: whether trees are left-deep, so that patterns share prefixes of their orders only.
        neighbours: how many plans a search may look at; the same seed then gives the same plan.
        seconds: how long a search may take; None for a search that ends by itself or by `neighbours`.
        seed: of the random choices of `anneal` and `tabu`.
        cost: "ours", the time of the engine, or "paper", rows.
        schedule: of `anneal`: cool once an "epoch" of as many neighbours as patterns, or each "step" [002].
    """

    method: str = "descend"
    moves: str = "edge"
    prefix_only: bool = False
    neighbours: int | None = None
    seconds: float | None = 1.0
    seed: int = 0
    cost: str = "ours"
    schedule: str = "epoch"


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search may take; without limits it ends when it no longer finds better plans."""

    neighbours: int | None = None
    seconds: float | None = None


@dataclass(slots=True)
class SearchClock:
    """Counts neighbours and time against a budget."""

    budget: Budget
    neighbours: int = 0
    begun: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        most, seconds = self.budget.neighbours, self.budget.seconds
        late = seconds is not None and time.monotonic() - self.begun >= seconds
        return late or (most is not None and self.neighbours >= most)

    def parts(self, numbers: IntArray, size: int) -> Iterator[IntArray]:
        """Yield numbers in parts, and count them, until the budget ends."""
        for first in range(0, len(numbers), size):
            if self.is_over:
                return
            most = self.budget.neighbours
            left = len(numbers) if most is None else most - self.neighbours
            part = numbers[first : first + size][:left]
            self.neighbours += len(part)
            yield part


@dataclass(slots=True)
class Best:
    """The cheapest plan that a search has seen."""

    cost: float = np.inf
    split: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def look(self, plan: JoinPlan) -> bool:
        """Keep a plan if it is cheaper; return whether it is."""
        cost = add_up(plan)
        cheaper = cost < self.cost * GAIN
        if cheaper:
            self.cost, self.split = cost, plan.split.copy()
        return cheaper


def plan_workload(
    patterns: Sequence[JoinPattern], stats: Statistics, search: PlanSearch | None = None
) -> tuple[Tree, ...]:
    """Return a tree for each pattern; sub-trees with the same key are one node of the shared plan.

    Unless the method is a baseline of the paper, such sub-trees have the same shape in all trees.

    >>> abc, xbc = JoinPattern((1, 2, 3), (0, 1, 3)), JoinPattern((4, 2, 3), (0, 1, 3))
    >>> plan_workload([abc, xbc], Statistics({1: 90.0, 2: 9.0, 3: 9.0, 4: 90.0}))
    (((1, 2), 0), ((1, 2), 0))
    """
    search = PlanSearch() if search is None else search
    _check(search)
    if search.method in BASELINES:
        return BASELINES[search.method](patterns, stats, search)
    if not patterns:
        return ()
    work = number_workload(patterns, stats, search.cost)
    plan = work.empty_plan()
    SEARCHES[search.method](work, plan, search)
    halves = np.zeros(len(work.tables.ids), np.int64)
    write_halves(work.tables, plan, halves)
    return tuple(work.tree(p, halves) for p in range(len(patterns)))


def _check(search: PlanSearch) -> None:
    known = {
        "method": [*BASELINES, *SEARCHES],
        "cost": COSTS,
        "moves": MOVES,
        "schedule": SCHEDULES,
    }
    for name, allowed in known.items():
        value = getattr(search, name)
        if value not in allowed:
            raise PlanError(
                f"unknown {name} of a plan search, {value!r}", hint=did_you_mean(str(value), allowed)
            )


# ---- ours


def start(work: Workload, plan: JoinPlan, search: PlanSearch) -> None:
    """Give each pattern its best plan alone: where searches start."""
    plan_each(work.tables, plan, work.active, False, search.prefix_only)


def descend(work: Workload, plan: JoinPlan, search: PlanSearch) -> None:
    """Lower the cost until neither a pattern nor a sub-pattern can be planned better by itself.

    A round of n patterns of m slots costs O(n·3^m) for the answers, O(n·2^m·3^m) for opening and closing.
    """
    clock = SearchClock(Budget(search.neighbours, search.seconds))
    start(work, plan, search)
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


Searcher = Callable[[Workload, JoinPlan, PlanSearch], None]
BASELINES: dict[str, Callable[[Sequence[JoinPattern], Statistics, PlanSearch], tuple[Tree, ...]]] = {
    "trivial": lambda patterns, _stats, _search: keep_order(patterns),
    "SH": lambda patterns, _stats, _search: share_most(patterns),
    "RE": lambda patterns, stats, search: reorder_each(patterns, stats, search.cost),
}
SEARCHES: dict[str, Searcher] = {"best": start, "descend": descend}
MOVES = {"edge": 2, "vertex4": 4, "vertex8": 8}  # → how many patterns a move re-plans
SCHEDULES = ("epoch", "step")
