"""Sub-patterns have the same key if and only if they select the same rows."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from cerise.plan.joins import JoinPattern, JoinTest, chain_slots, key_of, slots_of
from tests.support.join_patterns import conjunction, draw_pattern, seq, slots_in


def key(pattern: JoinPattern, types: str) -> object:
    return key_of(pattern, slots_in(pattern, types))[0]


def test_keys_do_not_depend_on_where_slots_are() -> None:
    assert key(seq("ABCD"), "ACD") == key(seq("AECD"), "ACD")
    assert key(conjunction("ABC"), "AC") == key(conjunction("CDA"), "AC")


def test_keys_tell_orders_apart() -> None:
    assert key(seq("ABCD"), "AC") != key(seq("CBA"), "AC")
    assert key(seq("ABCD"), "AC") != key(conjunction("AC"), "AC")


def test_keys_tell_tests_apart_but_not_the_sides_they_are_written_on() -> None:
    less, more = JoinTest(0, "<", 1, 7, 8), JoinTest(1, ">", 0, 8, 7)
    assert key(seq("AB", less), "AB") == key(seq("AB", more), "AB") == key(seq("AB", less, more), "AB")
    for other in (JoinTest(0, "<=", 1, 7, 8), JoinTest(0, "<", 1, 8, 7), JoinTest(0, ">", 1, 7, 8)):
        assert key(seq("AB", less), "AB") != key(seq("AB", other), "AB")
    assert key(seq("ABC", JoinTest(0, "<", 2, 7, 8)), "AB") == key(seq("AB"), "AB")  # it speaks of C


def test_windows_are_no_part_of_a_key_but_scopes_are() -> None:
    one = seq("AB", window=10)
    assert key(one, "AB") == key(replace(one, window=20), "AB")
    assert key(one, "AB") != key(replace(one, scope="another stream"), "AB")


def test_equal_leaves_in_any_order_have_one_key() -> None:
    """A conjunction of three As, one of them before B: whichever it is."""
    keys = set()
    for first in range(3):
        before = (0, 0, 0, 1 << first)
        keys.add(key_of(JoinPattern((0, 0, 0, 1), before), 0b1111)[0])
    assert len(keys) == 1


@pytest.mark.parametrize("seed", range(5))
def test_moving_the_slots_of_a_pattern_keeps_its_key(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        pattern = draw_pattern(rng, least=2, most=4, leaves=3)
        order = rng.choice(list(permutations(range(len(pattern)))))
        place = {slot: number for number, slot in enumerate(order)}
        moved = JoinPattern(
            tuple(pattern.leaves[slot] for slot in order),
            tuple(
                sum(1 << place[each] for each in order if pattern.before[slot] >> each & 1) for slot in order
            ),
            tuple(replace(each, left=place[each.left], right=place[each.right]) for each in pattern.tests),
            pattern.window,
        )
        one, other = key_of(pattern, pattern.all), key_of(moved, moved.all)
        assert one[0] == other[0]
        # the slots that stand at one place of the key do the same in both patterns
        assert [pattern.leaves[slot] for slot in one[1]] == [moved.leaves[slot] for slot in other[1]]


def test_three_trees_of_a_sequence_are_one_sub_pattern() -> None:
    """Figure 8 of 002: what differs is the inner node."""
    abc = seq("ABC")
    trees = [((0, 1), 2), (0, (1, 2)), ((0, 2), 1)]
    assert {key_of(abc, slots_of(tree))[0] for tree in trees} == {key(abc, "ABC")}
    assert len({key_of(abc, mask)[0] for mask in (0b011, 0b110, 0b101)}) == 3
    assert chain_slots([0, 2, 1]) == trees[2]
