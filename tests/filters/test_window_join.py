"""The window join filter finds every value that lies at most a window away, and few others."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cerise.errors import DataError, PlanError
from cerise.filters.dual.filter_theory import bits_for, false_pair_share, hashes_for
from cerise.filters.dual.tick_runs import NOTHING
from cerise.filters.dual.window_join import (
    Near,
    WindowJoin,
    merge_joins,
    pairs_from_bytes,
    pairs_of,
    pairs_to_bytes,
    unite_pairs,
)
from cerise.plan.slicing import MAX_TIME, MIN_TIME
from tests.support.plain_filters import plain_pair

WINDOWS = (0, 1, 19, 100, 2**40)


@pytest.mark.parametrize(("seed", "window"), product(range(8), WINDOWS))
def test_no_pair_of_events_within_a_window_is_missed(seed: int, window: int) -> None:
    """In both orders, also at a distance of exactly a window, in ties, and around time zero."""
    rng = np.random.default_rng(seed)
    span = 20 * max(window, 1)
    early, late = rng.integers(-span, span, (2, 300))
    late[:150] = early[:150] + rng.choice([0, window, max(window - 1, 0)], 150)
    values, asked = rng.integers(-3, 4, (2, 300)) * (2**60 + 3)
    join = WindowJoin.of(pairs_of(values, early, window), window=window)
    back = WindowJoin.of(pairs_of(asked, late, window), window=window)
    apart = late[None, :].astype(object) - early[:, None].astype(object)
    fits = (apart >= 0) & (apart <= window) & (values[:, None] == asked[None, :])
    assert join.holds(asked, late, Near.EARLIER)[fits.any(0)].all()
    assert back.holds(values, early, Near.LATER)[fits.any(1)].all()
    near = (abs(apart) <= window) & (values[:, None] == asked[None, :])
    assert join.holds(asked, late, Near.EITHER)[near.any(0)].all()


@pytest.mark.parametrize("near", Near)
def test_only_the_asked_windows_are_looked_at(near: Near) -> None:
    """Window −1 has value 1, window 0 has value 2, window 1 has value 3; one event in window 0 asks."""
    pairs = pairs_of(np.array([1, 2, 3]), np.array([-1, 5, 10]), 10)
    join = WindowJoin.of(pairs, window=10, false_share=1e-6)
    found = join.holds(np.array([1, 2, 3, 4]), np.full(4, 9), near).tolist()
    assert found == [near is not Near.LATER, True, near is not Near.EARLIER, False]


def test_a_window_before_zero_is_as_long_as_others() -> None:
    assert len(pairs_of(np.zeros(20, np.int64), np.arange(-10, 10), 10)) == 2


def test_values_at_the_ends_are_found() -> None:
    times, values = np.array([MIN_TIME, MAX_TIME, 0, -1]), np.array([MAX_TIME, MIN_TIME, -1, 0])
    for window, near in product((0, 1, MAX_TIME), Near):
        assert WindowJoin.of(pairs_of(values, times, window), window=window).holds(values, times, near).all()


def test_pairs_are_those_of_the_twin() -> None:
    rng = np.random.default_rng(2)
    keys, times = rng.integers(MIN_TIME, MAX_TIME, (2, 500))
    plain = {plain_pair(key, time // 37) for key, time in zip(keys.tolist(), times.tolist(), strict=True)}
    assert pairs_of(keys, times, 37).tolist() == sorted(plain)
    halves = [pairs_of(keys[at::2], times[at::2], 37) for at in range(2)]
    assert unite_pairs([*halves, NOTHING]).tolist() == sorted(plain)
    assert pairs_from_bytes(pairs_to_bytes(halves[0])).tolist() == halves[0].tolist()


def test_filters_of_sites_are_merged_by_or() -> None:
    rng = np.random.default_rng(4)
    pairs = np.unique(rng.integers(0, 2**62, 1_000))
    whole = WindowJoin.of(pairs, window=10)
    size = {"window": 10, "bits": whole.bits, "hashes": whole.hashes}
    parts = [WindowJoin.of_size(pairs[at::3], **size) for at in range(3)]
    assert merge_joins(parts).to_bytes() == whole.to_bytes()
    with pytest.raises(PlanError, match="different sizes"):
        merge_joins([whole, WindowJoin.of(pairs[:10], window=10)])


def test_an_empty_filter_finds_nothing_and_none_is_too_large() -> None:
    nothing = WindowJoin.of(NOTHING, window=10)
    assert not nothing.holds(np.array([0, 1]), np.array([0, 1]), Near.EITHER).any()
    with pytest.raises(PlanError, match="optional"):
        WindowJoin.of_size(NOTHING, window=1, bits=1 << 31, hashes=1)


def test_a_cut_or_changed_filter_is_an_error() -> None:
    join = WindowJoin.of(np.arange(100), window=10)
    for message, reads in (
        (join.to_bytes(), WindowJoin.from_bytes),
        (pairs_to_bytes(NOTHING), pairs_from_bytes),
    ):
        reads(message)
        for size in range(len(message)):
            with pytest.raises(DataError):
                reads(message[:size])
        for at in range(len(message)):
            with pytest.raises(DataError):
                reads(message[:at] + bytes([message[at] ^ 4]) + message[at + 1 :])
    with pytest.raises(DataError, match="kind 5"):
        WindowJoin.from_bytes(pairs_to_bytes(NOTHING))


@pytest.mark.parametrize("bits", [500_000, 625_000, 750_000, 875_000, 1_000_000])
def test_the_share_of_false_pairs_is_that_of_eq_6(bits: int) -> None:
    rng = np.random.default_rng(6)
    values, times = rng.integers(0, 2**40, 100_000), rng.integers(0, 10**9, 100_000)
    pairs = pairs_of(values, times, 1_000)
    join = WindowJoin.of_size(pairs, window=1_000, bits=bits, hashes=hashes_for(bits, len(pairs)))
    asked = rng.integers(2**41, 2**42, 400_000), rng.integers(0, 10**9, 400_000)  # values that are nowhere
    assert float(join.holds(*asked, Near.EARLIER).mean()) == pytest.approx(
        false_pair_share(bits, len(pairs)), rel=0.1
    )


def test_the_size_follows_from_the_share() -> None:
    assert bits_for(100_000) == 958_506
    assert false_pair_share(bits_for(100_000, 0.02), 100_000) == pytest.approx(0.02, rel=0.02)
