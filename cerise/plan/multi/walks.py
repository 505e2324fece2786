"""Simulated annealing and tabu search over the plans of a workload [002 App. B].

Both are walks from plan to plan by the moves of `moves`. They keep the best plan that they have seen, so they
can be stopped at any time. All random numbers come from one seed, and are used in the order of neighbours:
the same seed and number of neighbours give the same plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cerise.kernels.jit import boolean, int64, kernel
from cerise.kernels.join_dp import (
    FloatArray,
    IntArray,
    JoinPlan,
    JoinTables,
    Plan,
    Tables,
    add_up,
    spread,
    type_of,
)
from cerise.plan.multi.budgets import SPLITS, Budget, SearchClock
from cerise.plan.multi.moves import CURSOR, NEED, Walk, WalkType, lay_out_walk, move
from cerise.plan.multi.openings import GAIN, Log, MoveLog, empty_log, undo
from cerise.plan.multi.plan_search import MOVES, PlanSearch
from cerise.plan.multi.subpatterns import Workload

ALPHA = 0.99  # the threshold after an epoch, as a share of that before [002 App. B]
FIRST = 1_000  # neighbours of the start: the first threshold is the largest difference among them
FEW = 10  # a search of few neighbours spends a tenth of them on that
AROUND = 100  # neighbours that a tabu step looks at
TABU = 10_000  # plans that tabu search remembers
COLD = 1e-9  # of the first threshold: there annealing ends, without a budget
STILL = 100  # neighbours for each pattern without a better plan: there a search ends, without a budget
PART = 1_024  # neighbours between two looks at the clock, at most
HEAT, FACTOR, BEST = 0, 1, 2  # places in `Visited.floats`
CHANGED, LOOKED, EPOCH, SINCE, OLDEST = 0, 1, 2, 3, 4  # places in `Visited.counts`


class Visited(NamedTuple):
    """The plans that a walk has seen: the best one, and those that it may not see again."""

    floats: FloatArray  # the threshold, its factor after an epoch, the cost of the best plan
    counts: IntArray  # of changed patterns, of neighbours; of an epoch; since the best; the oldest tabu
    split: IntArray  # sub-pattern → its halves in the best plan
    changed: IntArray  # patterns whose trees have changed since the best plan
    marks: IntArray  # pattern → whether it is one of them
    tabu: IntArray  # hashes of plans


VisitedType = type_of(Visited, "floats")


# ---- the best plan


@kernel()
def accept(t: JoinTables, plan: JoinPlan, w: MoveLog, seen: Visited) -> None:
    """Go on from the plan that a move has made; keep it if it is the best: O(m) for each changed tree."""
    for i in range(w.counts[0]):
        p = w.patterns[i]
        if not seen.marks[p]:
            seen.marks[p] = 1
            seen.changed[seen.counts[CHANGED]] = p
            seen.counts[CHANGED] += 1
    if plan.total[0] < seen.floats[BEST] * GAIN:
        seen.floats[BEST] = plan.total[0]
        seen.counts[SINCE] = 0
        for i in range(seen.counts[CHANGED]):
            seen.marks[seen.changed[i]] = 0
            copy_tree(t, plan, seen, seen.changed[i])
        seen.counts[CHANGED] = 0


@kernel()
def copy_tree(t: JoinTables, plan: JoinPlan, seen: Visited, p: int) -> None:
    """Write down how the tree of a pattern is split."""
    plan.stack[0], depth = (1 << t.sizes[p]) - 1, 1
    while depth:
        depth -= 1
        mask = plan.stack[depth]
        if mask & (mask - 1) == 0:
            continue
        number = t.ids[t.start[p] + mask]
        seen.split[number] = plan.split[number]
        left = spread(plan.split[number], t.places[t.start[p] + mask])
        plan.stack[depth], plan.stack[depth + 1] = left, mask ^ left
        depth += 2


# ---- kernels


@kernel(int64(Tables, Plan, Log, WalkType, VisitedType, int64))
def measure_some(t: JoinTables, plan: JoinPlan, log: MoveLog, w: Walk, seen: Visited, many: int) -> int:
    """Look at neighbours of one plan: the threshold becomes the largest difference of costs.

    Returns:
        How many were looked at: fewer than wanted if random numbers have run out.
    """
    total = plan.total[0]
    for looked in range(many):
        if w.at[CURSOR] + NEED > len(w.randoms):
            return looked
        if move(t, plan, log, w):
            seen.floats[HEAT] = max(seen.floats[HEAT], abs(plan.total[0] - total))
            undo(t, plan, log, total)
    return many


@kernel(int64(Tables, Plan, Log, WalkType, VisitedType, int64))
def anneal_some(t: JoinTables, plan: JoinPlan, log: MoveLog, w: Walk, seen: Visited, many: int) -> int:
    """Walk on: a better neighbour is taken, a worse one the more rarely the worse it is and the colder."""
    for looked in range(many):
        if w.at[CURSOR] + NEED > len(w.randoms):
            return looked
        total = plan.total[0]
        seen.counts[SINCE] += 1
        if move(t, plan, log, w):
            worse = plan.total[0] - total
            w.at[CURSOR] += 1
            if worse <= 0.0 or w.randoms[w.at[CURSOR] - 1] < np.exp(-worse / seen.floats[HEAT]):
                accept(t, plan, log, seen)
            else:
                undo(t, plan, log, total)
        seen.counts[LOOKED] += 1
        if seen.counts[LOOKED] % seen.counts[EPOCH] == 0:
            seen.floats[HEAT] *= seen.floats[FACTOR]
    return many


@kernel()
def is_tabu(seen: Visited, known: int) -> bool:
    """Whether a plan is remembered. It is asked for the cheapest neighbours only, five in a step."""
    found = False
    for i in range(len(seen.tabu)):
        found |= seen.tabu[i] == known
    return found


@kernel()
def forbid(seen: Visited, known: int) -> None:
    """Remember a plan, and forget the oldest."""
    seen.tabu[seen.counts[OLDEST]] = known
    seen.counts[OLDEST] = (seen.counts[OLDEST] + 1) % len(seen.tabu)


@kernel(boolean(Tables, Plan, Log, WalkType, VisitedType, int64))
def tabu_step(t: JoinTables, plan: JoinPlan, log: MoveLog, w: Walk, seen: Visited, many: int) -> bool:
    """Go to the cheapest of some neighbours that was not visited; False if there is none."""
    total, cheapest, chosen = plan.total[0], np.inf, -1
    for _ in range(many):
        cursor = w.at[CURSOR]
        seen.counts[SINCE] += 1
        if move(t, plan, log, w):
            if plan.total[0] < cheapest and not is_tabu(seen, plan.hashed[0]):
                cheapest, chosen = plan.total[0], cursor
            undo(t, plan, log, total)
    if chosen < 0:
        return False
    end = w.at[CURSOR]
    w.at[CURSOR] = chosen
    move(t, plan, log, w)  # the same random numbers make the same move
    w.at[CURSOR] = end
    accept(t, plan, log, seen)
    forbid(seen, plan.hashed[0])
    return True


# ---- searches


@dataclass(slots=True)
class _Walker:
    """A walk from the plan that a search starts with."""

    work: Workload
    plan: JoinPlan
    walk: Walk
    seen: Visited
    log: MoveLog
    clock: SearchClock
    rng: np.random.Generator

    @classmethod
    def of(cls, work: Workload, plan: JoinPlan, search: PlanSearch, moves: int) -> _Walker:
        """Return a walker with random numbers for some moves."""
        many = len(work.patterns)
        walk = lay_out_walk(work.tables, MOVES[search.moves], moves, deep=search.prefix_only)
        floats = np.array([0.0, ALPHA, add_up(plan)])
        counts = np.array([0, 0, max(1, len(work.active)) if search.schedule == "epoch" else 1, 0, 0])
        marks, changed = np.zeros((2, many), np.int64)
        seen = Visited(floats, counts, plan.split.copy(), changed, marks, np.full(TABU, -1))
        rng = np.random.default_rng(search.seed)
        walk.randoms[:] = rng.random(len(walk.randoms))
        clock = SearchClock(Budget(search.neighbours, search.seconds))
        return cls(work, plan, walk, seen, empty_log(work.tables), clock, rng)

    @property
    def part(self) -> int:
        """How many neighbours are looked at between two looks at the clock."""
        splits: int = int(self.walk.kind[0]) * 3 ** int(self.work.tables.sizes.max())
        return max(1, min(PART, SPLITS // splits))

    @property
    def has_moves(self) -> bool:
        return len(self.walk.vertices) > 0

    @property
    def is_still(self) -> bool:
        """Whether the walk has not found a better plan for long, and has no other end."""
        long = max(TABU, STILL * len(self.work.active))
        return self.clock.budget == Budget() and int(self.seen.counts[SINCE]) >= long

    def look(self, kernel: Looker, most: int) -> None:
        """Let a kernel look at some neighbours, as far as the budget allows."""
        many = self.clock.take(most)
        while many > 0:
            many -= kernel(self.work.tables, self.plan, self.log, self.walk, self.seen, many)
            self._renew()

    def step(self) -> None:
        """Make a step of tabu search."""
        many = self.clock.take(AROUND)
        tabu_step(self.work.tables, self.plan, self.log, self.walk, self.seen, many)
        self._renew()

    def _renew(self) -> None:
        """Replace the random numbers that were used; add up costs anew, as sums of changes drift."""
        used = int(self.walk.at[CURSOR])
        self.walk.randoms[:used] = self.rng.random(used)
        self.walk.at[CURSOR] = 0
        add_up(self.plan)

    def take_best(self) -> None:
        """Leave the best plan behind."""
        self.plan.split[:] = self.seen.split


Looker = Callable[[JoinTables, JoinPlan, MoveLog, Walk, Visited, int], int]


def anneal(work: Workload, plan: JoinPlan, search: PlanSearch) -> None:
    """Walk from a plan by simulated annealing, and leave the best plan.

    The first threshold is the largest difference of costs between the start and 1000 neighbours. It falls by
    a hundredth after as many neighbours as there are patterns, or after each, as in the paper.
    """
    walker = _Walker.of(work, plan, search, 2 * PART)
    if not walker.has_moves:
        return
    floats = walker.seen.floats
    first = FIRST if search.neighbours is None else min(FIRST, search.neighbours // FEW)
    for looked in range(0, first, walker.part):
        walker.look(measure_some, min(first - looked, walker.part))
    cold = floats[HEAT] * COLD
    while not walker.clock.is_over and not (walker.is_still and floats[HEAT] <= cold):
        walker.look(anneal_some, walker.part)
    walker.take_best()


def tabu(work: Workload, plan: JoinPlan, search: PlanSearch) -> None:
    """Walk from a plan by tabu search, and leave the best plan.

    A step looks at 100 neighbours, and goes to the cheapest one that is not among the last 10,000 plans.
    """
    walker = _Walker.of(work, plan, search, AROUND + 1)
    if not walker.has_moves:
        return
    walker.seen.tabu[-1] = plan.hashed[0]
    while not walker.clock.is_over and not walker.is_still:
        walker.step()
    walker.take_best()
