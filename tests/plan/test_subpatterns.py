"""The tables that searches work on say the same as keys and costs in plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from cerise.kernels.join_dp import JoinPlan, add_up, plan_each, write_halves
from cerise.plan.cost import COSTS
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Tree, bits, key_of
from cerise.plan.multi.openings import close_each, open_each
from cerise.plan.multi.plan_search import PlanSearch
from cerise.plan.multi.shared import cost_of_plan
from cerise.plan.multi.subpatterns import Workload, number_workload
from cerise.plan.multi.walks import BEST, HEAT, _Walker, anneal_some, measure_some, tabu_step
from tests.support.join_patterns import draw_patterns, draw_statistics, seq

WINDOWS = (4.0, 10.0, 10.0, math.inf)


def draw(seed: int, many: int = 12, **options: float) -> tuple[list[JoinPattern], Statistics]:
    rng = random.Random(seed)
    return draw_patterns(rng, many, leaves=5, windows=WINDOWS, **options), draw_statistics(rng)


def trees_of(work: Workload, plan: JoinPlan) -> list[Tree]:
    halves = np.zeros(len(work.tables.ids), np.int64)
    write_halves(work.tables, plan, halves)
    return [work.tree(p, halves) for p in range(len(work.patterns))]


def add_leaves(patterns: Sequence[JoinPattern], stats: Statistics, cost: str) -> float:
    """Leaves cost the same in every plan; tables leave them out."""
    costs: dict[int, float] = {}
    for pattern in patterns:
        priced = COSTS[cost](pattern, stats, math.nan)
        for slot, leaf in enumerate(pattern.leaves):
            costs[leaf] = max(costs.get(leaf, 0.0), priced.leaf(slot))
    return sum(costs.values())


def check_cost(work: Workload, plan: JoinPlan, stats: Statistics, cost: str) -> None:
    """The cost of a plan is the sum over its distinct nodes, each with the largest window."""
    plain = cost_of_plan(work.patterns, trees_of(work, plan), stats, cost)
    plain -= add_leaves(work.patterns, stats, cost)
    assert float(plan.total[0]) == pytest.approx(plain, rel=1e-6)
    assert add_up(plan) == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_sub_patterns_have_one_number_if_they_have_one_key(seed: int) -> None:
    patterns, stats = draw(seed)
    work = number_workload(patterns, stats)
    numbers: dict[object, int] = {}
    for p, pattern in enumerate(patterns):
        for mask in range(1, 1 << len(pattern)):
            number = int(work.tables.ids[work.tables.start[p] + mask])
            slots = sum(1 << work.slots[p][place] for place in bits(mask))
            if mask.bit_count() == 1:
                assert number == -1
            else:
                assert numbers.setdefault(key_of(pattern, slots)[0], number) == number
    assert len(set(numbers.values())) == len(numbers)


@pytest.mark.parametrize("cost", ["paper", "ours"])
def test_rows_are_those_of_costs(cost: str) -> None:
    patterns, stats = draw(7)
    patterns.append(seq("ABC", window=3.0, kleene="B"))
    work = number_workload(patterns, stats, cost)
    for p, pattern in enumerate(patterns):
        priced = COSTS[cost](pattern, stats, math.nan)
        for mask in range(1, 1 << len(pattern)):
            slots = sum(1 << work.slots[p][place] for place in bits(mask))
            entry = work.tables.start[p] + mask
            assert work.tables.rows[entry] == pytest.approx(priced.rows(slots))


@pytest.mark.parametrize("cost", ["paper", "ours"])
@pytest.mark.parametrize("seed", range(4))
def test_the_cost_of_a_plan_is_the_sum_of_its_nodes(seed: int, cost: str) -> None:
    """After plans alone, answers to others, openings, closings and random moves."""
    patterns, stats = draw(seed)
    if cost == "paper":
        patterns += [seq("ABC", window=4.0), seq("ABCD", window=4.0, kleene="B")]
    work = number_workload(patterns, stats, cost)
    plan, t = work.empty_plan(), work.tables
    for free in (False, True):
        plan_each(t, plan, work.active, free, False)
        check_cost(work, plan, stats, cost)
    walker = _Walker.of(work, plan, PlanSearch(seed=seed, moves="vertex4"), 2_000)
    numbers = np.flatnonzero(np.diff(t.holder_first) > 1)
    open_each(t, plan, walker.log, numbers, False)
    check_cost(work, plan, stats, cost)
    close_each(t, plan, walker.log, numbers, False)
    check_cost(work, plan, stats, cost)
    walker.seen.floats[HEAT] = math.inf  # every move is taken
    for _ in range(10):
        anneal_some(t, plan, walker.log, walker.walk, walker.seen, 5)
        check_cost(work, plan, stats, cost)


def state_of(work: Workload, plan: JoinPlan) -> list[object]:
    """All that a plan says: of sub-patterns in use."""
    used = plan.users > 0
    weights = work.tables.weights[plan.top[used]]
    return [*map(np.ndarray.tolist, (plan.users, plan.split[used], weights, plan.present, plan.hashed))]


@pytest.mark.parametrize("moves", ["edge", "vertex4", "vertex8"])
@pytest.mark.parametrize("seed", range(3))
def test_a_move_that_is_undone_leaves_the_plan_as_it_was(seed: int, moves: str) -> None:
    patterns, stats = draw(seed, 20)
    work = number_workload(patterns, stats)
    plan, t = work.empty_plan(), work.tables
    plan_each(t, plan, work.active, True, False)
    walker = _Walker.of(work, plan, PlanSearch(seed=seed, moves=moves), 500)
    for _ in range(40):
        walker.seen.floats[HEAT] = math.inf
        anneal_some(t, plan, walker.log, walker.walk, walker.seen, 1)
        before, costs, total = state_of(work, plan), plan.costs[plan.users > 0], float(plan.total[0])
        assert measure_some(t, plan, walker.log, walker.walk, walker.seen, 3) == 3
        assert state_of(work, plan) == before
        assert plan.costs[plan.users > 0] == pytest.approx(costs, rel=1e-9)
        assert plan.total[0] == total
    used = plan.users > 0
    codes = (int(c) * (2 * int(s) + 1) for c, s in zip(t.codes[used], plan.split[used], strict=True))
    assert int(plan.hashed[0]) == sum(codes) % 2**62


@pytest.mark.parametrize("moves", ["edge", "vertex8"])
def test_a_move_makes_its_patterns_share_a_sub_pattern(moves: str) -> None:
    """Or they cease to. It changes the plan; only where others' nodes are in the way is it not held."""
    patterns, stats = draw(5, 20, least=3, twice=0)
    work = number_workload(patterns, stats)
    plan, t = work.empty_plan(), work.tables
    plan_each(t, plan, work.active, False, False)
    walker = _Walker.of(work, plan, PlanSearch(moves=moves), 500)
    walk, held, empty = walker.walk, 0, 0
    most = {"edge": 2, "vertex8": 8}[moves]
    for _ in range(200):
        walker.seen.floats[HEAT] = math.inf
        known = int(plan.hashed[0])
        anneal_some(t, plan, walker.log, walk, walker.seen, 1)
        walker._renew()
        assert int(plan.hashed[0]) != known
        chosen = walk.patterns[: walk.at[1]].tolist()
        assert len(chosen) == len(set(chosen)) <= most
        entries = t.start[chosen] + walk.masks[: len(chosen)]
        if walk.masks[0]:
            (number,) = set(t.ids[entries].tolist())  # all have it
            held += plan.users[number] >= len(chosen)
        else:
            empty += 1
    assert 0 < empty < 60
    assert held > 0.8 * (200 - empty)


def test_the_best_plan_is_written_down_tree_by_tree() -> None:
    """Its cost is that of the plan that is left behind."""
    patterns, stats = draw(2, 20)
    work = number_workload(patterns, stats)
    plan = work.empty_plan()
    plan_each(work.tables, plan, work.active, False, False)
    start = float(plan.total[0])
    walker = _Walker.of(work, plan, PlanSearch(), 500)
    for _ in range(3):
        tabu_step(work.tables, plan, walker.log, walker.walk, walker.seen, 50)
        walker._renew()
    walker.seen.floats[HEAT] = math.inf
    anneal_some(work.tables, plan, walker.log, walker.walk, walker.seen, 20)
    walker.take_best()
    cost = cost_of_plan(patterns, trees_of(work, plan), stats) - add_leaves(patterns, stats, "ours")
    assert cost == pytest.approx(float(walker.seen.floats[BEST]), rel=1e-6)
    assert cost <= start


def test_equal_patterns_are_planned_once_by_the_largest_window() -> None:
    patterns = [seq("AB", window=5), seq("AB", window=10), seq("BA"), seq("A")]
    work = number_workload(patterns, Statistics())
    assert work.active.tolist() == [1, 2]
    assert work.tables.flat.tolist() == [1, 1]  # the first is not asked


def test_trees_and_halves_are_inverse() -> None:
    patterns, stats = draw(4, most=6)
    work = number_workload(patterns, stats)
    plan = work.empty_plan()
    plan_each(work.tables, plan, work.active, False, False)
    trees = trees_of(work, plan)
    halves = work.halves(trees)
    assert [work.tree(p, halves) for p in range(len(patterns))] == trees
