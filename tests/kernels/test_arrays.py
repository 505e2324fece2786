"""Passes over whole columns, compiled and as plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from cerise.engines.automaton.memory import number_distinct
from cerise.kernels.arrays import group
from cerise.kinds import INT64_MAX
from cerise.plan.intervals import places_among


def test_numbers_become_places_among_the_distinct_ones() -> None:
    """More than 255 of them: marks are bytes, and a sum of bytes must not stay one."""
    numbers = np.array([[7 + 3 * (i % 300), -1] for i in range(900)], np.int64)
    marks, places = np.zeros(900, np.uint8), np.zeros(900, np.int64)
    used = np.zeros(901, np.int64)
    assert number_distinct(numbers, np.ones(900, np.int64), 7, marks, places, used) == 300
    assert used[:300].tolist() == list(range(7, 907, 3))
    assert numbers[:, 0].tolist() == [i % 300 for i in range(900)]


def test_rows_are_grouped_in_their_order() -> None:
    codes = np.array([2, 0, 2, 1, 0, 2], np.int64)
    order = np.empty(6, np.int64)
    group(codes, np.array([0, 2, 3]), order)
    assert order.tolist() == [1, 4, 3, 0, 2, 5]


@pytest.mark.parametrize("after", [False, True])
def test_places_among_sorted_numbers(after: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        numbers = np.sort(rng.integers(0, 20, rng.integers(0, 30)))
        wanted = rng.integers(-2, 22, rng.integers(0, 30))
        if rng.random() < 0.7:
            wanted.sort()
        if len(wanted) and len(numbers) and rng.random() < 0.3:
            numbers[-1], wanted[-1] = INT64_MAX, rng.choice([INT64_MAX, INT64_MAX - 1])
        expected = np.searchsorted(numbers, wanted, "right" if after else "left")
        assert places_among(numbers, wanted, after=after).tolist() == expected.tolist()
