"""Multi-pattern trees and multitrees share as in Figures 5, 6, 9 of 002; windows, l_T, inner final states."""

from __future__ import annotations

import random

import pytest

from cerise.plan.cost import cost_tree
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, JoinTest
from cerise.plan.multi.shared import MultiPatternTree, Multitree, TreeState, cost_of_plan
from tests.support.join_patterns import A, B, C, D, E, all_trees, draw_patterns, draw_statistics, rates, seq

ABC, ABD = seq("ABC", window=10), seq("ABD", window=20)


def grow(*orders: tuple[JoinPattern, str]) -> MultiPatternTree:
    """A tree of patterns P1, P2, … with their orders, given as types."""
    tree = MultiPatternTree()
    for number, (pattern, order) in enumerate(orders, 1):
        tree.add(f"P{number}", pattern, [pattern.leaves.index(ord(each) - ord("A")) for each in order])
    return tree


def names(tree: MultiPatternTree) -> dict[TreeState, str]:
    """The states by the types on their paths; the root is empty."""
    found = {tree.root: ""}
    for state in tree.states():
        for step, after in state.after.items():
            found[after] = found[state] + chr(ord("A") + step.leaf)
    return found


def paths(tree: MultiPatternTree) -> set[str]:
    return set(names(tree).values())


def waiting(tree: MultiPatternTree) -> dict[str, set[str]]:
    """l_T as types → names of states."""
    said = names(tree)
    return {
        chr(ord("A") + leaf): {said[state] for state in states}
        for leaf, states in tree.states_by_leaf().items()
    }


# ---- Figure 5


def test_orders_that_begin_alike_share_most() -> None:
    tree = grow((ABC, "ABC"), (ABD, "ABD"))
    assert paths(tree) == {"", "A", "AB", "ABC", "ABD"}
    assert waiting(tree) == {"A": {""}, "B": {"A"}, "C": {"AB"}, "D": {"AB"}}


def test_orders_that_begin_with_one_type_share_it() -> None:
    tree = grow((ABC, "BCA"), (ABD, "BAD"))
    assert paths(tree) == {"", "B", "BC", "BCA", "BA", "BAD"}
    # as in the text: l_A = {q2, q3}, l_B = {q1}, l_C = {q2}, l_D = {q4}
    assert waiting(tree) == {"A": {"B", "BC"}, "B": {""}, "C": {"B"}, "D": {"BA"}}


def test_other_orders_share_the_root_only() -> None:
    tree = grow((ABC, "CBA"), (ABD, "ADB"))
    assert paths(tree) == {"", "C", "CB", "CBA", "A", "AD", "ADB"}
    assert waiting(tree) == {"A": {"", "CB"}, "B": {"C", "AD"}, "C": {""}, "D": {"A"}}


def test_a_state_has_the_largest_window_of_its_patterns() -> None:
    tree = grow((ABC, "ABC"), (ABD, "ABD"))
    assert {path: state.window for state, path in names(tree).items()} == {
        "": 20, "A": 20, "AB": 20, "ABC": 10, "ABD": 20,
    }  # fmt: skip


def test_instances_are_counted_with_the_window_of_the_state() -> None:
    tree, stats = grow((ABC, "ABC"), (ABD, "ABD")), rates(A=1, B=2, C=3, D=4)
    a, ab = 20 * 1, 20**2 * 1 * 2
    assert tree.count_instances(stats) == a + ab + 10**3 * 1 * 2 * 3 + 20**3 * 1 * 2 * 4


# ---- Figure 6


def test_patterns_come_and_go() -> None:
    tree = grow((ABC, "ABC"), (ABD, "ABD"))
    tree.add("P3", seq("ACE", window=15), (0, 1, 2))
    assert paths(tree) == {"", "A", "AB", "ABC", "ABD", "AC", "ACE"}
    tree.remove("P1")
    assert paths(tree) == {"", "A", "AB", "ABD", "AC", "ACE"}
    assert waiting(tree) == {"A": {""}, "B": {"A"}, "C": {"A"}, "D": {"AB"}, "E": {"AC"}}
    tree.remove("P2")
    assert {path: state.window for state, path in names(tree).items()} == {
        "": 15, "A": 15, "AC": 15, "ACE": 15,
    }  # fmt: skip
    tree.remove("P3")
    assert paths(tree) == {""}


def test_final_states_may_be_inner_nodes() -> None:
    tree = grow((ABC, "ABC"), (seq("AB"), "AB"))
    finals = {path: state.finals for state, path in names(tree).items() if state.finals}
    assert finals == {"AB": ["P2"], "ABC": ["P1"]}
    tree.remove("P2")
    assert paths(tree) == {"", "A", "AB", "ABC"}


def test_states_are_shared_only_under_equal_conditions() -> None:
    less = JoinTest(0, "<", 1, 0, 0)
    assert paths(grow((seq("AB", less), "AB"), (seq("AB", less), "AB"))) == {"", "A", "AB"}
    tree = grow((seq("AB", less), "AB"), (seq("AB"), "AB"), (seq("BA"), "AB"))
    assert len(tree.states()) == 5  # the root, A, and three states that hold A and B


def test_events_meet_the_instances_of_waiting_states() -> None:
    less = JoinTest(0, "<", 1, 0, 0)
    tree = grow((seq("AB", less, window=10), "AB"), (seq("CB", window=10), "CB"))
    stats = Statistics({A: 1.0, B: 2.0, C: 3.0}, {(A, 0, "<", B, 0): 0.25})
    assert sorted(tree.meet(B, stats)) == [(10.0, 0.25), (30.0, 1.0)]


# ---- Figure 9


def test_a_multitree_shares_two_sub_patterns_of_one_pattern() -> None:
    """P1: SEQ(A, B, C, D) shares (A, C) with P2: SEQ(A, E, C, F), and (B, D) with P3: SEQ(G, B, H, D)."""
    shared = Multitree()
    shared.add("P1", seq("ABCD", window=10), ((0, 2), (1, 3)))
    shared.add("P2", seq("AECF", window=20), (((0, 2), 1), 3))
    shared.add("P3", seq("GBHD", window=5), (((1, 3), 0), 2))
    sharing = {
        frozenset(key[0]): {name for name, _ in node.users}  # type: ignore[index]
        for key, node in shared.nodes.items()
    }
    assert sharing[frozenset({A, C})] == {"P1", "P2"}
    assert sharing[frozenset({B, D})] == {"P1", "P3"}
    assert len(shared.nodes) == 2 + 1 + 2 + 2
    windows = {frozenset(key[0]): node.window for key, node in shared.nodes.items()}  # type: ignore[index]
    assert windows[frozenset({A, C})] == 20
    assert windows[frozenset({B, D})] == 10
    shared.remove("P1")
    assert len(shared.nodes) == 6
    assert set(shared.leaves) == {A, B, C, D, E, 5, 6, 7}
    shared.remove("P2")
    assert set(shared.leaves) == {B, D, 6, 7}


def test_each_pattern_has_its_own_root_and_inner_nodes_may_be_roots() -> None:
    shared = Multitree()
    shared.add("P1", seq("ABC"), ((0, 1), 2))
    shared.add("P2", seq("AB"), (0, 1))
    assert sorted(len(node.users) for node in shared.nodes.values()) == [1, 2]


def test_the_cost_of_a_multitree_counts_each_node_once() -> None:
    stats, abc = rates(A=1, B=2, C=3, D=4), seq("ABC", window=10)
    two = [abc, seq("ABD", window=20)]
    leaves = 20 * 1 + 20 * 2 + 10 * 3 + 20 * 4
    nodes = 20**2 * 2 + 10**3 * 6 + 20**3 * 8
    assert cost_of_plan(two, [((0, 1), 2), ((0, 1), 2)], stats, "paper") == leaves + nodes
    assert cost_of_plan([abc], [((0, 1), 2)], stats, "paper") == cost_tree(((0, 1), 2), abc, stats)


def test_a_node_of_plain_and_kleene_events_costs_the_larger() -> None:
    stats = rates(A=1, B=1)
    two = [seq("AB", window=10, kleene="B"), seq("AB", window=10)]
    expected = 10 + 2**10 + 10 * 2**10
    assert cost_of_plan(two, [(0, 1)] * 2, stats, "paper") == expected
    assert cost_of_plan(two[::-1], [(0, 1)] * 2, stats, "paper") == expected


@pytest.mark.parametrize("seed", range(5))
def test_a_multitree_that_grows_and_shrinks_is_as_if_built_anew(seed: int) -> None:
    rng = random.Random(seed)
    patterns, stats = draw_patterns(rng, 12, least=2, leaves=4, windows=(5.0, 10.0)), draw_statistics(rng)
    shared, trees = Multitree(), {}
    for name, pattern in enumerate(patterns):
        tree = rng.choice(list(all_trees(range(len(pattern)))))
        trees[name] = shared.add(name, pattern, tree)
    gone = set(rng.sample(range(12), 6))
    for name in gone:
        shared.remove(name)
    rest = [name for name in range(12) if name not in gone]
    anew = Multitree()
    for name in rest:
        assert anew.add(name, patterns[name], trees[name]) == trees[name]
    assert shared.nodes.keys() == anew.nodes.keys()
    assert {key: node.users for key, node in shared.nodes.items()} == {
        key: node.users for key, node in anew.nodes.items()
    }
    assert shared.cost(stats) == pytest.approx(anew.cost(stats))


def test_a_multi_pattern_tree_that_shrinks_is_as_if_built_anew() -> None:
    rng = random.Random(3)
    patterns = draw_patterns(rng, 20, least=1, leaves=4)
    orders = [rng.sample(range(len(each)), len(each)) for each in patterns]
    tree, anew = MultiPatternTree(), MultiPatternTree()
    for name, (pattern, order) in enumerate(zip(patterns, orders, strict=True)):
        tree.add(name, pattern, order)
        if name % 2:
            anew.add(name, pattern, order)
    for name in range(0, 20, 2):
        tree.remove(name)
    assert sorted(paths(tree)) == sorted(paths(anew))
    assert len(tree.states()) == len(anew.states())
    assert [*tree.root.users] == [*anew.root.users]


def test_an_order_of_a_pattern_has_the_cost_of_its_states() -> None:
    assert grow((ABC, "CAB")).count_instances(rates(A=1, B=2, C=3)) == 30 + 300 + 6000
    assert MultiPatternTree().count_instances(Statistics()) == 0
    assert D == 3
