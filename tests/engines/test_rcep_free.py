"""Kleene variables of which every subset matches: they are written in Banker's order, and none is missed."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import DEFAULT
from cerise.engines.rcep import workspace
from cerise.engines.rcep.plan import plan_of
from cerise.errors import PlanError
from cerise.kernels import jit
from tests.engines.test_rcep import ANY, KLEENE, answer, bound_of, events, found, start, stream


def is_free(query: str) -> bool:
    """Whether some variable of a query is free, for an engine that wants all matches."""
    return bool((workspace._free(plan_of(bound_of(query)).program.tables) >= 0).any())


@pytest.mark.parametrize(
    ("query", "free"),
    [
        (f"{KLEENE} WITHIN 7", True),
        (f"{KLEENE} WHERE b.x > 2 AND a.flag WITHIN 9", True),  # of events by themselves
        (f"{KLEENE} PARTITION BY k WITHIN 14 SLIDE 3", True),
        (f"{KLEENE} WITHIN 5 EVENTS", True),
        (f"PATTERN SEQ(A a, D d, B+ b[], C c) {ANY} WHERE a.x < d.x WITHIN 9", True),
        (f"PATTERN SEQ(A+ a[], B+ b[], C c) {ANY} WHERE a.x < NEXT(a.x) WITHIN 7", True),
        (f"PATTERN SEQ(A a, OR(B+ b[], D d), C c) {ANY} WITHIN 7", True),
        (f"PATTERN SEQ(A a, B* b[], C c) {ANY} WITHIN 7", True),
        (f"{KLEENE} WHERE a.x < b.x WITHIN 9", False),
        (f"{KLEENE} WHERE b.x < c.x WITHIN 9", False),
        (f"{KLEENE} WHERE a.x < c.x WITHIN 9", False),
        (f"{KLEENE} WHERE count(b) > 1 WITHIN 9", False),
        (f"PATTERN SEQ(A a, B{{2,3}} b[], C c) {ANY} WITHIN 9", False),
        (
            f"PATTERN SEQ(B+ b[], C c) {ANY} WITHIN 7 SLIDE 2",
            True,
        ),  # but for the first
        (f"PATTERN SEQ(A a, B+ b[], C c, D d) {ANY} WITHIN 7", False),
        (f"PATTERN SEQ(A a, B+ b[], C+ c[]) {ANY} WITHIN 6", False),
        (f"PATTERN SEQ(A a, B+ b[], ~D d, C c) {ANY} WITHIN 9", False),
    ],
)
def test_what_is_free_and_what_is_found(query: str, free: bool) -> None:
    assert is_free(query) is free
    bound = bound_of(query)
    matcher = start(bound)
    for seed in range(10):
        batch = stream(seed, 40)
        fed = (matcher.feed(batch.slice(i, i + 11)) for i in range(0, 40, 11))
        assert found(chain(*fed, matcher.flush()), bound) == answer(bound, batch), seed


@pytest.mark.parametrize("more", ["LIMIT 3 PER EVENT", "OUTPUT NON_OVERLAPPING"])
def test_what_chooses_is_walked_in_its_order(more: str) -> None:
    bound, batch = bound_of(f"{KLEENE} WITHIN 9 {more}"), stream(3, 60)
    assert answer(bound, batch, "rcep") == answer(bound, batch)


@pytest.mark.skipif(not jit.COMPILED, reason="half a million matches are made")
def test_more_subsets_than_are_written_at_a_time() -> None:
    """They are left, and gone on with, in the middle."""
    bound = bound_of(KLEENE)
    made = answer(bound, events("A" + 17 * "B" + "CAC"), "rcep")
    assert made.total() == len(made) == 3 * (2**17 - 1) - (2**17 - 1) == 2 * (2**17 - 1)
    sizes = list(map(len, start(bound).feed(events("A" + 18 * "B" + "C"))))
    assert sum(sizes) == 2**18 - 1
    assert max(sizes) <= DEFAULT.matches


def test_a_subset_longer_than_there_is_room_at_first() -> None:
    query = f"PATTERN SEQ(A+ a[], B+ b[], C c) {ANY} WHERE a.x = PREV(a.x) + 1 AND FIRST(a.x) = 0"
    bound = bound_of(query)
    batch = events("A" * 70 + "BBB" + "C", x=[*range(70), 0, 0, 0, 0])
    assert answer(bound, batch, "rcep").total() == 70 * 7
    assert answer(bound, batch, "rcep") == answer(bound, batch, "nfa")


def test_the_budget_holds() -> None:
    bound = bound_of(KLEENE)
    matcher = ENGINES["rcep"].start(bound, Options(max_runs=1_000))
    with pytest.raises(PlanError, match="more than 1000"):
        list(matcher.feed(events("A" + 40 * "B" + "C")))


def test_subsets_come_by_their_size() -> None:
    (matches,) = start(bound_of(KLEENE)).feed(events("ABBBBC"))
    sizes = np.diff(matches.rows["b"].offsets.to_numpy())
    assert sizes.tolist() == [1] * 4 + [2] * 6 + [3] * 4 + [4]
