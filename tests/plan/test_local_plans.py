"""The generator A of 002 §4.2, §5 finds the best plan of one pattern."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from cerise.plan.cost import cost_ord, cost_tree
from cerise.plan.joins import Tree, bits, chain_slots, key_of, slots_of
from cerise.plan.multi.local_plans import best_order, best_tree, greedy
from tests.support.join_patterns import all_trees, conjunction, draw_pattern, draw_statistics, rates, seq

COSTS = ("paper", "ours")


def nodes(tree: Tree) -> list[Tree]:
    return [tree] if isinstance(tree, int) else [tree, *nodes(tree[0]), *nodes(tree[1])]


def masks(tree: Tree) -> set[int]:
    return {slots_of(node) for node in nodes(tree)}


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("seed", range(8))
def test_the_best_tree_is_the_cheapest_of_all(seed: int, cost: str) -> None:
    rng = random.Random(seed)
    pattern, stats = draw_pattern(rng, least=3), draw_statistics(rng)
    least = min(cost_tree(tree, pattern, stats, cost) for tree in all_trees(range(len(pattern))))
    assert cost_tree(best_tree(pattern, stats, cost=cost), pattern, stats, cost) == pytest.approx(least)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("seed", range(8))
def test_the_best_order_is_the_cheapest_of_all(seed: int, cost: str) -> None:
    rng = random.Random(seed)
    pattern, stats = draw_pattern(rng, least=3), draw_statistics(rng)

    def price(order: tuple[int, ...]) -> float:
        if cost == "paper":
            return cost_ord(order, pattern, stats)
        return cost_tree(chain_slots(order), pattern, stats, cost)

    for prefix in ((), (2,), (1, 0)):
        orders = [each for each in permutations(range(len(pattern))) if each[: len(prefix)] == prefix]
        best = best_order(pattern, stats, prefix, cost)
        assert best[: len(prefix)] == prefix
        assert price(best) == pytest.approx(min(map(price, orders)))
        quick = greedy(pattern, stats, prefix, cost)
        assert quick[: len(prefix)] == prefix
        assert price(quick) >= price(best) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_a_tree_holds_what_it_is_given(seed: int) -> None:
    rng = random.Random(seed)
    pattern, stats = draw_pattern(rng, least=5), draw_statistics(rng)
    for given in ([(4, 1)], [((0, 3), 2)], [(0, 4), (2, 1)]):
        fitting = [tree for tree in all_trees(range(5)) if {*map(slots_of, given)} <= masks(tree)]
        shaped = [tree for tree in fitting if all(_holds(tree, each) for each in given)]
        best = best_tree(pattern, stats, given)
        assert all(_holds(best, each) for each in given)
        least = min(cost_tree(tree, pattern, stats, "ours") for tree in shaped)
        assert cost_tree(best, pattern, stats, "ours") == pytest.approx(least)


def _holds(tree: Tree, given: Tree) -> bool:
    return masks(given) <= masks(tree)


def test_nodes_that_others_pay_for_cost_nothing() -> None:
    """B before C is rare, so A waits for it; if others have SEQ(A, B), it is free."""
    abc, stats = seq("ABC", window=10), rates(A=9, B=5, C=1)
    assert best_tree(abc, stats) == ((1, 2), 0)
    assert best_tree(abc, stats, paid=[key_of(abc, 0b011)[0]]) == ((0, 1), 2)


def test_a_tree_may_interleave() -> None:
    """SEQ(A, B, C, D) as (A, C) and (B, D): no stretch of neighbours is joined [002 §5]."""
    from cerise.plan.join_statistics import Statistics
    from cerise.plan.joins import JoinTest

    pattern = seq("ABCD", JoinTest(0, "=", 2, 0, 0), JoinTest(1, "=", 3, 0, 0), window=10)
    stats = Statistics(dict.fromkeys(range(4), 9.0), {(0, 0, "=", 2, 0): 1e-3, (1, 0, "=", 3, 0): 1e-3})
    assert best_tree(pattern, stats) == ((0, 2), (1, 3))


@pytest.mark.parametrize("cost", COSTS)
def test_small_and_large_patterns(cost: str) -> None:
    stats = draw_statistics(random.Random(1))
    assert best_tree(seq("A"), stats, cost=cost) == 0
    assert best_order(seq("A"), stats, cost=cost) == greedy(seq("A"), stats, cost=cost) == (0,)
    large = conjunction("ABCDEFGHIJKL", window=3.0)
    tree = best_tree(large, stats, cost=cost)
    order = best_order(large, stats, cost=cost)
    assert slots_of(tree) == large.all
    assert len(nodes(tree)) == 23
    assert sorted(order) == bits(large.all)
    quick = chain_slots(greedy(large, stats, cost=cost))
    assert cost_tree(tree, large, stats, cost) <= cost_tree(quick, large, stats, cost) * (1 + 1e-9)
