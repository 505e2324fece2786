"""Left- and right-deep plans: which queries have both, which is chosen, and that they find the same."""

from __future__ import annotations

from itertools import chain

import pytest

from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.engines.rcep.plan import Joins, plan_of
from cerise.kernels import jit
from tests.engines.test_rcep import ANY, KLEENE, answer, bound_of, events, found, stream
from tests.tiers import AT_LENGTH

FOUR = f"PATTERN SEQ(A a, B+ b[], C c, D d) {ANY}"
TWO = f"PATTERN SEQ(A a, B+ b[], C c, D+ d[]) {ANY}"


# ---- both ways


@pytest.mark.parametrize(
    "query",
    [
        f"{KLEENE} WITHIN 6",
        f"{KLEENE} WHERE a.x < b.x AND b.x < NEXT(b.x) AND c.x < FIRST(b.x) AND a.s = c.s WITHIN 12",
        f"{KLEENE} WHERE b[i].x > b[i-1].x AND LAST(b.x) > c.x WITHIN 12",
        f"{KLEENE} WHERE b[i].x > a.x WITHIN 9",  # of all but the first
        f"{KLEENE} WHERE FIRST(b.x) < LAST(b.y) AND b.LEN > 1 WITHIN 9",
        f"{KLEENE} WHERE max(b.x) - min(b.x) > c.x AND count(b) <= 3 WITHIN 9",
        f"{FOUR} WHERE b.x < c.x AND b.s <> d.s WITHIN 10",
        f"{FOUR} WHERE b.x + c.x > d.x AND [k] WITHIN 20",
        f"{FOUR} WHERE a.x = c.x AND b.k = d.k WITHIN 14",
        f"{TWO} WHERE b.x <= d.x AND d.x < NEXT(d.x) WITHIN 9",
        f"{TWO} WHERE FIRST(d.x) > LAST(b.x) AND c.x = a.x WITHIN 10",
        f"PATTERN SEQ(A+ a[]) {ANY} WHERE a.x < NEXT(a.x) WITHIN 8",
        f"PATTERN SEQ(A+ a[], B b) {ANY} WHERE a.x < b.x WITHIN 8",
        f"PATTERN SEQ(A a, B{{2,3}} b[], C c) {ANY} WHERE b.x < c.x WITHIN 12",
        f"PATTERN SEQ(A a, B? b, C+ c[]) {ANY} WHERE a.x <= c.x AND b.x < c.x WITHIN 7",
        f"PATTERN SEQ(A a, OR(B+ b[], D d), C c) {ANY} WHERE b.x < c.x WITHIN 7",
        f"{KLEENE} WHERE b.y < c.y WITHIN 4 EVENTS",
        f"{KLEENE} WHERE b.y < c.y PARTITION BY k WITHIN 12 SLIDE 4",
        f"{KLEENE} WHERE 1 / (b.x - c.x) > 0 WITHIN 8",
        f"{KLEENE} WHERE b.flag AND upper(b.s) = upper(c.s) WITHIN 20",
        f"{FOUR} WHERE b.x < c.x WITHIN 10 RETURN COUNT(*)",
        f"{KLEENE} WHERE 1 = 2",
    ],
)
def test_both_find_what_the_reference_finds(query: str) -> None:
    bound = bound_of(query)
    matchers = {name: ENGINES[name].start(bound, Options()) for name in ("rcep-left", "rcep-right")}
    for seed in range(12 if AT_LENGTH else 5):
        batch = stream(seed, 40)
        expected = answer(bound, batch)
        for name, matcher in matchers.items():
            fed = (matcher.feed(batch.slice(i, i + 9)) for i in range(0, 40, 9))
            assert found(chain(*fed, matcher.flush()), bound) == expected, f"{name}, seed {seed}"


def test_a_match_longer_than_there_is_room_at_first() -> None:
    bound = bound_of(f"{KLEENE} WHERE b.x < NEXT(b.x) AND b.x < c.x")
    batch = events("A" + 300 * "B" + "C", x=[0, *([7] * 150), *range(150), 1000])
    one = bound_of(f"{KLEENE} WHERE b.x = PREV(b.x) + 1 AND FIRST(b.x) = 0 AND b.x < c.x")
    assert answer(one, batch, "rcep-right") == answer(one, batch, "rcep-left")
    assert ENGINES["rcep-right"].why_not(bound) is None


@pytest.mark.skipif(not jit.COMPILED, reason="a quarter of a million matches are made")
def test_more_matches_than_are_written_at_a_time() -> None:
    bound = bound_of(FOUR)
    batch = events("A" + 18 * "B" + "CD")
    assert answer(bound, batch, "rcep-right").total() == 2**18 - 1
    assert answer(bound, batch, "rcep-right") == answer(bound, batch, "rcep-left")


# ---- the choice


@pytest.mark.parametrize(
    ("query", "joins"),
    [
        (KLEENE, Joins.LEFT),
        (f"{KLEENE} WHERE a.x < b.x", Joins.LEFT),
        (f"{KLEENE} WHERE b.x < c.x", Joins.LEFT),  # the trigger is known: it prunes
        (f"{KLEENE} WHERE b.x + c.x < 9", Joins.RIGHT),  # of no two sides
        (f"{FOUR} WHERE b.x < c.x", Joins.RIGHT),
        (f"{FOUR} WHERE a.x < b.x AND b.x < NEXT(b.x)", Joins.LEFT),
        (f"PATTERN SEQ(A a, B+ b[], C c, D d, E e) {ANY} WHERE b.x = d.x", Joins.RIGHT),
    ],
)
def test_joins_begin_where_fewer_partial_matches_are_to_be_expected(query: str, joins: Joins) -> None:
    assert plan_of(bound_of(query)).joins is joins


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (f"{KLEENE} LIMIT 2 PER EVENT", "chooses among matches"),
        (f"{KLEENE} OUTPUT NON_OVERLAPPING", "chooses among matches"),
        (f"PATTERN SEQ(AND(A a, B+ b[]), C c) {ANY}", "AND has no first variable"),
        (f"PATTERN SEQ(A a, ~D d, B+ b[]) {ANY}", "a NOT looks at the events around it"),
        (f"{KLEENE} WHERE b[2].x > c.x", "counts events from the first on"),
        (f"{KLEENE} WHERE b[i].x > avg(b[..i-1].x)", "counts events from the first on"),
        (f"{KLEENE} WHERE sum(b.x) > c.x", "adds values up"),
    ],
)
def test_what_depends_on_the_order_is_joined_from_the_first_variable_on(query: str, reason: str) -> None:
    said = ENGINES["rcep-right"].why_not(bound_of(query))
    assert said is not None
    assert reason in said
    plan = plan_of(bound_of(query))
    assert plan.joins is Joins.LEFT
    assert plan.why == said


def test_a_predicate_with_a_later_variable_is_judged_event_by_event() -> None:
    """No b is below c: from the first variable on, all subsets of the b's would be made first."""
    bound, size = bound_of(f"{FOUR} WHERE b.x + 0 * c.x < c.x"), 16
    batch = events("A" + size * "B" + "CD", x=[0] * (size + 3))
    tried = {}
    for name in ("rcep-left", "rcep-right", "rcep"):
        matcher = ENGINES[name].start(bound, Options())
        assert found(chain(matcher.feed(batch), matcher.flush()), bound).total() == 0
        tried[name] = matcher.report.reread_events
    assert tried["rcep"] == tried["rcep-right"] < 3 * size
    assert tried["rcep-left"] > 2**size


def test_explain_shows_which_joins_come_first_and_why() -> None:
    said = dict(ENGINES["rcep"].explain(bound_of(f"{FOUR} WHERE b.x < c.x")))
    assert said["tree"] == "a ⋈ (b+ ⋈ (c ⋈ d))"
    assert said["joins"].startswith("right-deep: about ")
    said = dict(ENGINES["rcep-left"].explain(bound_of(f"{FOUR} WHERE b.x < c.x")))
    assert said["tree"] == "((a ⋈ b+) ⋈ c) ⋈ d"
    assert said["joins"] == "left-deep: as asked"
