"""The multi-pattern graph: Figure 7 of 002 by what its text says, and the examples of 002 §4.1, App. A."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from cerise.plan.joins import JoinPattern, JoinTest, Key, bits, key_of
from cerise.plan.multi.pattern_graph import PatternGraph, find_common
from tests.support.join_patterns import conjunction, draw_patterns, seq, slots_in


def parts(pattern: JoinPattern, *several: str) -> set[Key]:
    """The keys of some sub-patterns, given as types."""
    return {key_of(pattern, slots_in(pattern, types))[0] for types in several}


def keys(one: JoinPattern, other: JoinPattern) -> set[Key]:
    return set(find_common(one, other))


def grow(patterns: dict[str, JoinPattern]) -> PatternGraph:
    graph = PatternGraph()
    for name, pattern in patterns.items():
        graph.add(name, pattern)
    return graph


def test_the_example_of_common_sub_patterns() -> None:
    """002 §4.1: SEQ(A, B, C, D) and SEQ(A, E, C, D) have SEQ(A, C, D) in common; SEQ(C, A) conflicts."""
    one, other = seq("ABCD", window=10), seq("AECD", window=20)
    assert keys(one, other) == parts(one, "ACD")
    assert keys(one, seq("CEA")) == parts(one, "A", "C")


def test_a_conflicting_predicate_takes_its_type_out() -> None:
    """App. A: AND(A, B, C) with A.x < 10 and AND(A, D, C) with A.x >= 10 have C in common.

    The paper prints {A, B} and AND(B) for {A, C} and AND(C). Predicates on one event belong to leaves: the
    events of A below 10 are leaf 0 here, the others leaf 9.
    """
    one, other = conjunction("ABC"), conjunction("JDC")
    assert keys(one, other) == parts(one, "C")


def test_two_maximal_sub_patterns() -> None:
    """App. A: SEQ(A, B) and SEQ(A, C) are maximal in SEQ(A, B, C) and SEQ(A, C, B)."""
    one, other = seq("ABC"), seq("ACB")
    assert keys(one, other) == parts(one, "AB") | parts(one, "AC")


def test_tests_between_two_events_divide_sub_patterns() -> None:
    less, more = JoinTest(0, "<", 1, 0, 0), JoinTest(0, ">", 1, 0, 0)
    one = conjunction("ABC", less)
    assert keys(one, conjunction("ABC", more)) == parts(one, "AC") | parts(one, "BC")
    assert keys(one, conjunction("ABC", less)) == parts(one, "ABC")


FIGURE_7 = {  # the picture is lost; these patterns have the properties that its caption names
    "P1": seq("ABC"),
    "P2": seq("AEC"),
    "P3": seq("AHCIJ"),
    "P4": seq("IKHJ"),
    "P5": seq("LMN"),
    "P6": seq("LN"),
}


def test_figure_7() -> None:
    graph = grow(FIGURE_7)
    (ac,) = parts(FIGURE_7["P1"], "AC")
    assert set(graph.holders[ac]) == {"P1", "P2", "P3"}
    assert set(graph.find_common("P3", "P4")) == parts(FIGURE_7["P3"], "HJ", "IJ")
    assert set(graph.find_common("P5", "P6")) == parts(FIGURE_7["P6"], "LN")
    assert graph.find_common("P1", "P5") == {}
    assert sorted(graph.find_peers("P3")) == ["P1", "P2", "P4"]
    assert graph.split_into_components() == [["P1", "P2", "P3", "P4"], ["P5", "P6"]]


def test_patterns_come_and_go() -> None:
    graph = grow(FIGURE_7)
    graph.remove("P3")
    assert graph == grow({name: each for name, each in FIGURE_7.items() if name != "P3"})
    assert [sorted(each) for each in graph.split_into_components()] == [["P1", "P2"], ["P4"], ["P5", "P6"]]
    for name in ("P1", "P2", "P4", "P5", "P6"):
        graph.remove(name)
    assert graph == PatternGraph()


def find_slowly(one: JoinPattern, other: JoinPattern) -> set[Key]:
    """Of all sub-patterns with equal keys those that no larger one holds."""
    mine = {key_of(one, mask)[0]: mask for mask in range(1, 1 << len(one))}
    theirs = {key_of(other, mask)[0] for mask in range(1, 1 << len(other))}
    both = mine.keys() & theirs
    inside = {
        key_of(one, sum(1 << slot for slot in chosen))[0]
        for key in both
        for mask in range(1, 1 << len(one))
        if key_of(one, mask)[0] == key
        for size in range(1, mask.bit_count())
        for chosen in combinations(bits(mask), size)
    }
    return both - inside


@pytest.mark.parametrize("seed", range(6))
def test_common_sub_patterns_are_those_with_equal_keys(seed: int) -> None:
    rng = random.Random(seed)
    patterns = draw_patterns(rng, 8, leaves=4, most=4)
    graph = grow({str(number): each for number, each in enumerate(patterns)})
    for (i, one), (j, other) in combinations(enumerate(patterns), 2):
        expected = find_slowly(one, other)
        assert keys(one, other) == expected
        assert set(graph.find_common(str(i), str(j))) == set(graph.find_common(str(j), str(i))) == expected


@pytest.mark.parametrize("seed", range(4))
def test_a_graph_that_shrinks_is_as_if_built_anew(seed: int) -> None:
    rng = random.Random(seed)
    patterns = {str(number): each for number, each in enumerate(draw_patterns(rng, 12, leaves=5, twice=0))}
    graph = grow(patterns)
    gone = rng.sample(sorted(patterns), 5)
    for name in gone:
        graph.remove(name)
    assert graph == grow({name: each for name, each in patterns.items() if name not in gone})


def test_scopes_do_not_mix() -> None:
    other = JoinPattern((0, 1), (0, 1), scope="by ticker")
    assert find_common(seq("AB"), other) == {}
