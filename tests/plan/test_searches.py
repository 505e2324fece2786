"""Searches find cheap plans of workloads, within their budgets."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from itertools import product

import pytest

from cerise.errors import PlanError
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, Tree, key_of, slots_of
from cerise.plan.multi.plan_search import PlanSearch
from cerise.plan.multi.searches import plan_workload
from cerise.plan.multi.shared import cost_of_plan
from tests.support.join_patterns import all_trees, conjunction, draw_patterns, draw_statistics, rates, seq

BY_ITSELF = PlanSearch(seconds=None)
WALKS = [
    replace(BY_ITSELF, method=method, moves=moves, neighbours=2_000)
    for method in ("anneal", "tabu")
    for moves in ("edge", "vertex4", "vertex8")
]
ALL = [replace(BY_ITSELF, method="best"), replace(BY_ITSELF, method="descend"), *WALKS]
BASELINES = [replace(BY_ITSELF, method=each) for each in ("trivial", "SH", "RE")]


def draw(seed: int, many: int, **options: float) -> tuple[list[JoinPattern], Statistics]:
    rng = random.Random(seed)
    return draw_patterns(rng, many, windows=(5.0, 10.0), **options), draw_statistics(rng)


def price(patterns: list[JoinPattern], stats: Statistics, search: PlanSearch) -> float:
    trees = plan_workload(patterns, stats, search)
    check(patterns, trees)
    return cost_of_plan(patterns, trees, stats, search.cost)


def check(patterns: list[JoinPattern], trees: tuple[Tree, ...]) -> None:
    assert [slots_of(tree) for tree in trees] == [pattern.all for pattern in patterns]


def name(search: PlanSearch) -> str:
    return f"{search.method}-{search.moves}-{search.schedule}"


# ---- Figure 3


FIGURE_3 = [seq("ABCD", window=10), seq("AECF", window=10)]
FIGURE_3_RATES = rates(A=1.0, B=3.0, C=1.2, D=1.0, E=3.0, F=1.0)


def cost_of_figure_3(search: PlanSearch) -> float:
    return price(FIGURE_3, FIGURE_3_RATES, replace(search, cost="paper", prefix_only=True))


@pytest.mark.parametrize("search", ALL[1:], ids=name)
def test_only_sharing_and_reordering_together_win(search: PlanSearch) -> None:
    """Figure 3(d) of 002: A and C first, which neither the order of the patterns nor rates suggest."""
    alone = [cost_of_figure_3(each) for each in (*BASELINES, ALL[0])]
    search = replace(search, cost="paper", prefix_only=True)
    trees = plan_workload(FIGURE_3, FIGURE_3_RATES, search)
    assert trees == ((((0, 2), 3), 1), (((0, 2), 3), 1))
    assert key_of(FIGURE_3[0], 0b101)[0] == key_of(FIGURE_3[1], 0b101)[0]
    assert cost_of_figure_3(search) < min(alone)


# ---- how good plans are


@pytest.mark.parametrize("cost", ["paper", "ours"])
@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_searches_find_the_cheapest_plan_of_few_patterns(seed: int, cost: str) -> None:
    patterns, stats = draw(seed, 3, least=3, most=4, leaves=5)
    choices = product(*(list(all_trees(range(len(each)))) for each in patterns))
    least = min(cost_of_plan(patterns, trees, stats, cost) for trees in choices)
    for search in ALL:
        assert price(patterns, stats, replace(search, cost=cost)) >= least * (1 - 1e-9)
    for search in WALKS:
        assert price(patterns, stats, replace(search, cost=cost)) == pytest.approx(least)
    assert price(patterns, stats, replace(BY_ITSELF, cost=cost)) <= least * 1.1


@pytest.mark.parametrize("prefix_only", [False, True])
@pytest.mark.parametrize("search", ALL[1:], ids=name)
def test_searches_lose_nothing_against_best_plans_alone(search: PlanSearch, prefix_only: bool) -> None:
    patterns, stats = draw(1, 40, least=1, most=6, leaves=9)
    search = replace(search, prefix_only=prefix_only)
    assert price(patterns, stats, search) <= price(patterns, stats, replace(search, method="best"))


def test_trees_of_any_shape_are_as_good_as_prefixes() -> None:
    patterns, stats = draw(1, 40, least=1, most=6, leaves=9)
    assert price(patterns, stats, BY_ITSELF) < price(patterns, stats, replace(BY_ITSELF, prefix_only=True))


def test_sub_trees_with_one_key_have_one_shape() -> None:
    patterns, stats = draw(2, 30, leaves=7)
    trees = plan_workload(patterns, stats, BY_ITSELF)
    shapes: dict[object, object] = {}

    def walk(pattern: JoinPattern, tree: Tree) -> None:
        if not isinstance(tree, int):
            halves = frozenset(key_of(pattern, slots_of(half))[0] for half in tree)
            assert shapes.setdefault(key_of(pattern, slots_of(tree))[0], halves) == halves
            walk(pattern, tree[0])
            walk(pattern, tree[1])

    for pattern, tree in zip(patterns, trees, strict=True):
        walk(pattern, tree)


def test_prefix_only_makes_left_deep_trees() -> None:
    patterns, stats = draw(3, 30)
    for search in ALL:
        for tree in plan_workload(patterns, stats, replace(search, prefix_only=True)):
            assert is_left_deep(tree)


def is_left_deep(tree: Tree) -> bool:
    if isinstance(tree, int):
        return True
    return any(isinstance(one, int) and is_left_deep(other) for one, other in (tree, tree[::-1]))


# ---- budgets and seeds


@pytest.mark.parametrize("search", WALKS, ids=name)
def test_the_same_seed_gives_the_same_plan(search: PlanSearch) -> None:
    patterns, stats = draw(4, 60, least=3, leaves=9)
    once = plan_workload(patterns, stats, search)
    assert once == plan_workload(patterns, stats, search)


def test_other_seeds_give_other_plans() -> None:
    patterns, stats = draw(4, 150, least=4, leaves=9)
    searches = [PlanSearch("tabu", neighbours=1_000, seconds=None, seed=seed) for seed in range(3)]
    assert len({plan_workload(patterns, stats, search) for search in searches}) > 1


@pytest.mark.parametrize(("schedule", "neighbours"), [("epoch", 20_000), ("step", 4_000)])
def test_annealing_has_two_schedules(schedule: str, neighbours: int) -> None:
    """It finds better plans once it is cool: by .99^1000 after a thousand epochs of 12 neighbours."""
    patterns, stats = draw(5, 12, least=3, leaves=5)
    search = PlanSearch("anneal", seconds=None, neighbours=neighbours, schedule=schedule)
    best = price(patterns, stats, replace(search, method="best"))
    assert price(patterns, stats, search) < best


@pytest.mark.parametrize("search", ALL, ids=name)
@pytest.mark.parametrize("neighbours", [0, 1, 7])
def test_a_search_that_is_stopped_has_a_plan(search: PlanSearch, neighbours: int) -> None:
    patterns, stats = draw(6, 20)
    best = price(patterns, stats, replace(search, method="best"))
    assert price(patterns, stats, replace(search, neighbours=neighbours)) <= best


@pytest.mark.parametrize("method", ["descend", "anneal", "tabu"])
def test_a_search_ends_with_its_time(method: str) -> None:
    patterns, stats = draw(7, 200, least=4, leaves=12)
    begun = time.monotonic()
    price(patterns, stats, PlanSearch(method, seconds=0.05))
    assert time.monotonic() - begun < 5.0  # numbers and costs in plain Python take longer than the search


@pytest.mark.parametrize("method", ["descend", "anneal", "tabu"])
def test_a_search_without_a_budget_ends_by_itself(method: str) -> None:
    patterns, stats = FIGURE_3, FIGURE_3_RATES
    check(patterns, plan_workload(patterns, stats, PlanSearch(method, seconds=None)))


# ---- workloads at the edges


@pytest.mark.parametrize("search", [*ALL, *BASELINES], ids=name)
def test_workloads_at_the_edges(search: PlanSearch) -> None:
    search = replace(search, neighbours=200)
    stats = draw_statistics(random.Random(0), 26)
    assert plan_workload([], stats, search) == ()
    assert plan_workload([seq("A")], stats, search) == (0,)
    assert plan_workload([seq("A"), seq("A"), seq("B")], stats, search) == (0, 0, 0)
    price([seq("ABC")], stats, search)
    twins = [seq("ABCD", window=10), seq("ABCD", window=20)]
    trees = plan_workload(twins, stats, search)
    assert trees[0] == trees[1]
    price([*twins, conjunction("AAAB"), seq("AABA"), seq("AB"), seq("CD")], stats, search)


@pytest.mark.parametrize("search", [*ALL[:3], *BASELINES], ids=name)
def test_patterns_of_twelve(search: PlanSearch) -> None:
    stats = draw_statistics(random.Random(0), 26)
    large = [conjunction("ABCDEFGHIJKL", window=3.0), seq("ABCDEFGHIJKM", window=2.0), seq("AAAABBBBAAAA")]
    price([*large, seq("ABC", window=3.0)], stats, replace(search, neighbours=20))


@pytest.mark.parametrize(
    "given", [{"method": "anneel"}, {"moves": "edges"}, {"cost": "our"}, {"schedule": "x"}]
)
def test_unknown_options_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(PlanError, match=f"unknown {next(iter(given))} of a plan search"):
        plan_workload(FIGURE_3, Statistics(), replace(PlanSearch(), **given))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(60))
def test_many_workloads(seed: int) -> None:
    """Plans of walks never cost more than best plans alone, and descent stays close to the best of all."""
    patterns, stats = draw(seed, 50, least=2, most=6, leaves=8)
    best = price(patterns, stats, ALL[0])
    found = [price(patterns, stats, replace(search, neighbours=50_000)) for search in WALKS]
    assert max(found) <= best
    assert price(patterns, stats, BY_ITSELF) <= min(found) * 1.1
