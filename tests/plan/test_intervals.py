"""Intervals: sets of moments, compared with plain sets; nothing wraps at the ends of time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cerise.plan.intervals import ALWAYS, NEVER, Intervals, shift_times, union, union_of
from cerise.plan.slicing import MAX_TIME, MIN_TIME
from tests.test_agreement import examples

MOMENTS = range(-5, 40)
stretches = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=8)


def made(pairs: list[tuple[int, int]]) -> Intervals:
    starts = np.array([start for start, _ in pairs], np.int64)
    return union(starts, starts + np.array([length for _, length in pairs], np.int64))


def moments(intervals: Intervals) -> set[int]:
    times = np.array(MOMENTS, np.int64)
    return set(times[intervals.holds(times)].tolist())


@examples(300)
@given(stretches)
def test_a_union_holds_what_its_parts_hold(pairs: list[tuple[int, int]]) -> None:
    found = made(pairs)
    assert moments(found) == {t for start, length in pairs for t in range(start, start + length + 1)}
    assert (found.starts[1:] > found.ends[:-1]).all()


@examples(300)
@given(stretches, stretches, st.integers(-2, 32), st.integers(-2, 32))
def test_joined_and_limited(one: list[tuple[int, int]], two: list[tuple[int, int]], a: int, b: int) -> None:
    assert moments(union_of([made(one), made(two)])) == moments(made(one)) | moments(made(two))
    low, high = min(a, b), max(a, b)
    assert moments(made(one).clip(low, high)) == {t for t in moments(made(one)) if low <= t <= high}


@examples(300)
@given(stretches, st.integers(0, 5), st.integers(1, 4))
def test_coalesced_holds_more_and_is_less(pairs: list[tuple[int, int]], gap: int, most: int) -> None:
    before = made(pairs)
    after = before.coalesce(gap)
    assert moments(before) <= moments(after)
    assert all(start - end > gap for start, end in zip(after.starts[1:], after.ends[:-1], strict=True))
    few = before.coalesce(gap, most)
    assert len(few) <= max(most, 1)
    assert moments(after) <= moments(few)


def test_the_ends_of_time() -> None:
    times = np.array([MIN_TIME, -1, 0, MAX_TIME])
    assert shift_times(times, MAX_TIME).tolist() == [-1, MAX_TIME - 1, MAX_TIME, MAX_TIME]
    assert shift_times(times, -MAX_TIME).tolist() == [MIN_TIME, MIN_TIME, -MAX_TIME, 0]
    far = union(np.array([MIN_TIME, MAX_TIME]), np.array([MIN_TIME, MAX_TIME]))
    assert len(far.coalesce(MAX_TIME)) == 2
    assert ALWAYS.holds(times).all()
    assert not NEVER.holds(times).any()
