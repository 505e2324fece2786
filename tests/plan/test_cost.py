"""Costs are those of 002 §3.3 and App. C, and ours follows what the engine does."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cerise.plan.cost import (
    CANDIDATE,
    PROBE,
    ROW,
    InstanceCosts,
    PaperCosts,
    TimedCosts,
    cost_ord,
    cost_to_process,
    cost_to_remove,
    cost_tree,
    count_extensions,
)
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinTest, chain_slots
from tests.support.join_patterns import A, B, C, conjunction, seq

W = 10.0
RATES = {A: 0.3, B: 0.5, C: 0.2}  # 3, 5 and 2 events in a window
STATS = Statistics(RATES, {(A, 0, "<", B, 0): 0.1, (B, 1, "=", C, 1): 0.25})
TESTS = JoinTest(0, "<", 1, 0, 0), JoinTest(1, "=", 2, 1, 1)
ABC = seq("ABC", *TESTS, window=W)


def test_an_order_costs_the_rows_of_its_states() -> None:
    assert cost_ord((0, 1, 2), ABC, STATS) == pytest.approx(3 + 3 * 5 * 0.1 + 3 * 5 * 2 * 0.1 * 0.25)
    assert cost_ord((2, 0, 1), ABC, STATS) == pytest.approx(2 + 2 * 3 + 3 * 5 * 2 * 0.1 * 0.25)


def test_an_order_costs_the_same_in_a_conjunction() -> None:
    """The paper counts rows without regard to their order."""
    both = conjunction("ABC", *TESTS, window=W)
    assert cost_ord((1, 2, 0), both, STATS) == cost_ord((1, 2, 0), ABC, STATS)


def test_a_tree_costs_its_leaves_and_nodes() -> None:
    leaves, root = 3 + 5 + 2, 3 * 5 * 2 * 0.1 * 0.25
    assert cost_tree(((0, 1), 2), ABC, STATS) == pytest.approx(leaves + 3 * 5 * 0.1 + root)
    assert cost_tree((0, (1, 2)), ABC, STATS) == pytest.approx(leaves + 5 * 2 * 0.25 + root)
    assert cost_tree(((0, 2), 1), ABC, STATS) == pytest.approx(leaves + 3 * 2 + root)


def test_kleene_counts_subsets() -> None:
    """A rate r becomes 2^(rW) / W [40]: B comes 2^5 times."""
    kleene = seq("ABC", *TESTS, window=W, kleene="B")
    assert PaperCosts(kleene, STATS).rows(0b010) == pytest.approx(2**5)
    assert cost_ord((0, 1, 2), kleene, STATS) == pytest.approx(3 + 3 * 32 * 0.1 + 3 * 32 * 2 * 0.1 * 0.25)
    assert TimedCosts(kleene, STATS).rows(0b010) == 5.0  # the engine chooses the others after the joins


def test_costs_of_many_kleene_events_stay_finite() -> None:
    pattern = replace(conjunction("ABCDEFGHIJ", window=1e6), kleene=(1 << 10) - 1)
    assert math.isfinite(cost_tree(chain_slots(range(10)), pattern, Statistics()))


def test_a_negated_event_waits_after_the_positive_ones() -> None:
    negated = replace(ABC, negated=(7,))
    last = 3 * 5 * 2 * 0.1 * 0.25
    assert cost_ord((0, 1, 2), negated, STATS) == pytest.approx(cost_ord((0, 1, 2), ABC, STATS) + last)
    plain = cost_tree(((0, 1), 2), ABC, STATS)
    assert cost_tree(((0, 1), 2), negated, STATS) == pytest.approx(plain + last + W * 1.0)


def test_count_windows_count_events_in_a_position() -> None:
    """A window of 40 events, of which A is 3 %: 1.2 of them."""
    stats = Statistics({A: 0.03, B: 0.1})
    assert cost_ord((0, 1), seq("AB", window=40.0), stats) == pytest.approx(1.2 + 1.2 * 4.0)


def test_an_infinite_window_is_as_long_as_the_events() -> None:
    assert PaperCosts(seq("A"), Statistics({A: 0.5}, longest=100.0)).rows(1) == 50.0


def test_a_node_can_have_a_larger_window_than_its_pattern() -> None:
    assert PaperCosts(ABC, STATS, 20.0).rows(0b011) == pytest.approx(4 * PaperCosts(ABC, STATS).rows(0b011))
    assert TimedCosts(ABC, STATS, 20.0).rows(0b011) == pytest.approx(4 * TimedCosts(ABC, STATS).rows(0b011))


def test_a_test_that_is_written_twice_counts_once() -> None:
    twice = seq("AB", TESTS[0], TESTS[0].flip(), window=W)
    assert PaperCosts(twice, STATS).rows(0b11) == pytest.approx(3 * 5 * 0.1)


@pytest.mark.parametrize(
    ("before", "orders"),
    [((0, 0, 0), 6), ((0, 1, 3), 1), ((0, 1, 1), 2), ((0, 0, 3), 2), ((0, 1, 0, 4), 6)],
)
def test_orders_are_linear_extensions(before: tuple[int, ...], orders: int) -> None:
    assert count_extensions(before, (1 << len(before)) - 1) == orders


def test_ours_counts_candidates_rows_and_probes() -> None:
    """A before B: half of the pairs; two rows are made for each row of a window, one candidate for a pair."""
    costs = TimedCosts(seq("AB", TESTS[0], window=W), STATS)
    pairs, rows = 3 * 5, 3 * 5 * 0.1 / 2
    assert costs.candidates(0b01, 0b10) == pytest.approx(pairs)
    assert costs.join(0b01, 0b10) == pytest.approx(CANDIDATE * pairs + ROW * 2 * rows + PROBE * (3 + 5))
    assert costs.join(0b01, 0b10) == costs.join(0b10, 0b01)


def test_ours_looks_on_both_sides_where_the_order_is_open() -> None:
    costs = TimedCosts(conjunction("AB", window=W), STATS)
    assert costs.candidates(0b01, 0b10) == pytest.approx(2 * 3 * 5)


def test_ours_uses_the_best_equality_as_an_index() -> None:
    costs = TimedCosts(ABC, STATS)
    assert costs.candidates(0b010, 0b100) == pytest.approx(5 * 2 * 0.25)


def test_an_event_costs_what_its_states_hold() -> None:
    """CP and CR of 002 §3.3."""
    costs = InstanceCosts(access=1, verify=2, create=4, remove=8)
    states = [(10.0, 0.5), (3.0, 0.0)]
    assert cost_to_process(states, costs) == 10 * (1 + 2 + 0.5 * 4) + 3 * (1 + 2)
    assert cost_to_remove(states, costs) == 10 * 0.5 * 8
