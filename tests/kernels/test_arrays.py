"""Passes over whole columns, compiled and as plain Python."""

from __future__ import annotations

import numpy as np

from cerise.kernels.arrays import group, number_used


def test_numbers_become_places_among_the_distinct_ones() -> None:
    """More than 255 of them: marks are bytes, and a sum of bytes must not stay one."""
    numbers = np.array([[7 + 3 * (i % 300), -1] for i in range(900)], np.int64)
    marks, places = np.zeros(900, np.uint8), np.zeros(900, np.int64)
    used = np.zeros(901, np.int64)
    assert number_used(numbers, np.ones(900, np.int64), 7, marks, places, used) == 300
    assert used[:300].tolist() == list(range(7, 907, 3))
    assert numbers[:, 0].tolist() == [i % 300 for i in range(900)]


def test_rows_are_grouped_in_their_order() -> None:
    codes = np.array([2, 0, 2, 1, 0, 2], np.int64)
    order = np.empty(6, np.int64)
    group(codes, np.array([0, 2, 3]), order)
    assert order.tolist() == [1, 4, 3, 0, 2, 5]
