"""The reference for row patterns on clauses made by hand: what is easy to get wrong."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.reference.rows import RowMatch, find_rows, to_matches
from cerise.engines.results.value_codes import partitions
from cerise.engines.rows.prepare import prepare
from cerise.errors import DataError
from cerise.kinds import Kind
from cerise.pattern.expr import Binary, Literal
from cerise.pattern.row_pattern import (
    CLASSIFIER,
    Alternation,
    Anchor,
    Concat,
    Excluded,
    Extent,
    Label,
    MatchNumber,
    Nav,
    Order,
    Permute,
    Quantified,
    RowAgg,
    RowPattern,
    Show,
    Skip,
    SkipTo,
    atom,
)
from tests.support.strategies.row_clauses import LETTERS, A, B, C, clause, is_, optional, rows_of, seq, star

X = Label("X")  # takes any row


def found(pattern: RowPattern, text: str, **given: Any) -> list[RowMatch]:
    table = rows_of(text)
    bound = clause(pattern, table, **{"define": LETTERS, **given})
    return find_rows(bound, prepare(bound, table))


def words(pattern: RowPattern, text: str, **given: Any) -> list[str]:
    """Each match as its start and labels."""
    return [f"{each.start}:{''.join(each.labels)}" for each in found(pattern, text, **given)]


EMPTY = seq()
START, END = Anchor(True), Anchor(False)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (seq(A, star(B), C), "abbcac", ["0:ABBC", "4:AC"]),
        (seq(star(X), B), "abab", ["0:XXXB"]),
        (seq(star(X, reluctant=True), B), "abab", ["0:XB", "2:XB"]),
        (Alternation((A, seq(A, B))), "ab", ["0:A"]),
        (Alternation((seq(A, C), seq(A, B))), "ab", ["0:AB"]),
        (Quantified(A, 2, 3), "aaaaaa", ["0:AAA", "3:AAA"]),
        (Quantified(A, 2, 3, reluctant=True), "aaaaa", ["0:AA", "2:AA"]),
        (Permute((A, B, C)), "cbaabc", ["0:CBA", "3:ABC"]),
        (Permute((X, optional(A), B)), "aab", ["0:XAB"]),
        (seq(START, A), "aa", ["0:A"]),
        (seq(A, END), "aa", ["1:A"]),
        (END, "aa", []),
        (seq(star(START), A), "aa", ["0:A", "1:A"]),
        (seq(Quantified(START, 1, None), A), "aa", ["0:A"]),
        (EMPTY, "aa", ["0:", "1:"]),
        (star(B), "aba", ["0:", "1:B", "2:"]),
        (A, "", []),
    ],
)
def test_preferment(pattern: RowPattern, text: str, matches: list[str]) -> None:
    assert words(pattern, text) == matches


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (optional(Alternation((EMPTY, A))), "a", ["0:"]),  # (|A)? prefers empty
        (star(Alternation((EMPTY, A))), "a", ["0:"]),
        (star(Alternation((A, EMPTY))), "aa", ["0:AA"]),
        (seq(star(optional(A, reluctant=True)), B), "aab", ["0:AAB"]),  # (A??)* B ends
        (seq(star(star(A)), B), "aab", ["0:AAB"]),
        (
            Quantified(Alternation((EMPTY, A)), 2, 2),
            "aa",
            ["0:", "1:"],
        ),  # the minimum may be reached by empty
        (seq(Quantified(Alternation((EMPTY, A)), 2, 2), B), "aab", ["0:AAB"]),
        (seq(Quantified(Alternation((EMPTY, A)), 3, None), B), "aab", ["0:AAB"]),
        (seq(Quantified(Alternation((EMPTY, A)), 0, 2), B), "aab", ["0:AAB"]),
        (seq(Quantified(Alternation((EMPTY, A)), 1, 1), B), "aab", ["1:AB"]),
        (seq(Quantified(optional(A), 1, None, reluctant=True), B), "aab", ["0:AAB"]),
        (star(EMPTY), "a", ["0:"]),
    ],
)
def test_empty_iterations(pattern: RowPattern, text: str, matches: list[str]) -> None:
    assert words(pattern, text) == matches


def some_pattern(random: Random, depth: int) -> RowPattern:
    """A pattern whose loops are over parts that take a row: elsewhere `re` and M13 differ."""
    kind = random.randrange(7)
    if depth == 0 or kind <= 1:
        return random.choice([A, B, C, X])
    inner = [some_pattern(random, depth - 1) for _ in range(random.randint(1, 3))]
    if kind == 2:
        return Alternation((*inner, *random.choice([(), (EMPTY,)])))
    if kind == 3:
        return Permute(tuple(inner))
    if kind == 4 or as_regex(inner[0]).fullmatch(""):
        return seq(*inner)
    low = random.randint(0, 2)
    return Quantified(inner[0], low, random.choice([None, low + 1, 3]), random.random() < 0.5)


def as_regex(pattern: RowPattern) -> re.Pattern[str]:
    return re.compile(_regex(pattern))


def _regex(pattern: RowPattern) -> str:
    match pattern:
        case Label(name):
            return "." if name == "X" else name.lower()
        case Concat(items):
            return "".join(f"(?:{_regex(item)})" for item in items)
        case Alternation(items):
            return "|".join(f"(?:{_regex(item)})" for item in items)
        case Permute(items):
            return "|".join(f"(?:{_regex(Concat(order))})" for order in permutations(items))
        case Quantified(item, low, high, reluctant):
            times = f"{{{low},{'' if high is None else high}}}"
            return f"(?:{_regex(item)}){times}{'?' if reluctant else ''}"
    raise AssertionError(pattern)


@pytest.mark.parametrize("seed", range(200))
def test_regular_expressions_prefer_the_same(seed: int) -> None:
    """Python's own backtracking agrees where both speak of letters."""
    random = Random(seed)
    pattern = some_pattern(random, 3)
    text = "".join(random.choices("abc", k=random.randint(1, 8)))
    for start in range(len(text)):
        here = found(pattern, text[start:])
        expected = as_regex(pattern).match(text, start)
        first = next((each for each in here if each.start == 0), None)
        assert (None if first is None else len(first.labels)) == (
            None if expected is None else expected.end() - start
        ), (_regex(pattern), text[start:])


def test_the_row_on_trial_is_mapped_and_the_trial_leaves_no_trace() -> None:
    """M19: B's count includes its row, also after a trial that failed."""
    table = pa.table({"t": [1, 2, 3, 4], "x": [5, 5, 9, 5]})
    define = {
        "B": Binary("<=", atom("sum_b", Kind.INT), Literal(10, Kind.INT)),
        "C": is_(10, "sum_b"),
    }
    bound = clause(
        seq(star(B), C), table, define=define, atoms={"sum_b": RowAgg("sum", ("x",), frozenset("B"))}
    )
    assert [each.labels for each in find_rows(bound, table)] == [("B", "B", "C")]


def test_classifier_of_a_later_row_is_null_and_its_column_is_not() -> None:
    atoms = {"next": Nav("x", shift=1), "label": Nav(CLASSIFIER, shift=1), "own": Nav(CLASSIFIER)}
    for name, expected in [("next", ["0:AX"]), ("label", []), ("own", [])]:
        assert words(seq(A, X), "ab", atoms=atoms, define={"A": is_("b", name)}) == expected
    assert words(seq(A, X), "ab", atoms=atoms, define={"A": is_("A", "own")}) == ["0:AX"]


def test_match_number_in_a_condition_is_that_of_the_match_on_trial() -> None:
    number = {"n": MatchNumber()}
    assert words(Alternation((A, B)), "xyz", atoms=number, define={"A": is_(2, "n")}) == ["0:B", "1:A", "2:B"]


def test_navigation_does_not_leave_the_partition() -> None:
    table = pa.table({"t": [1, 1, 2, 2], "k": [1, 2, 1, 2], "x": list("abab")})
    bound = clause(
        A, table, partition=("k",), define={"A": is_("b", "before")}, atoms={"before": Nav("x", shift=-1)}
    )
    prepared = prepare(bound, table)
    assert prepared["x"].to_pylist() == ["a", "a", "b", "b"]
    assert [each.start for each in find_rows(bound, prepared)] == [3]


@pytest.mark.parametrize(
    ("skip", "matches"),
    [
        (Skip(), ["0:ABB", "3:ABB"]),
        (Skip(SkipTo.NEXT), ["0:ABB", "3:ABB"]),
        (Skip(SkipTo.FIRST, frozenset("B"), "B"), ["0:ABB", "3:ABB"]),
    ],
)
def test_skip(skip: Skip, matches: list[str]) -> None:
    assert words(seq(A, B, B), "abbabb", skip=skip) == matches


def test_skip_to_a_row_inside_the_match() -> None:
    pattern = seq(X, X, X)
    assert [each.start for each in found(pattern, "aaaaa", skip=Skip(SkipTo.NEXT))] == [0, 1, 2]
    last = Skip(SkipTo.LAST, frozenset("B"), "B")
    assert words(seq(X, B, B), "abbbb", skip=last) == ["0:XBB", "2:XBB"]


@pytest.mark.parametrize(
    ("skip", "said"),
    [
        (Skip(SkipTo.LAST, frozenset("C"), "C"), "match 1 of its partition has no row mapped to C"),
        (Skip(SkipTo.FIRST, frozenset("A"), "A"), "A is the first row of match 1"),
    ],
)
def test_skip_has_no_row_to_go_to(skip: Skip, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        found(seq(A, optional(C)), "ba", skip=skip)
    assert caught.value.hint


def test_exclusion() -> None:
    (match,) = found(seq(A, Excluded(seq(B, Excluded(B))), C), "abbc")
    assert match.excluded == (False, True, True, False)


@pytest.mark.parametrize(
    ("within", "matches"),
    [
        (Extent(3), ["0:AXXB"]),
        (Extent(3, exclusive=True), ["1:AXB"]),
        (Extent(1), []),
        (Extent(1, timeouts=True), ["0:AX", "1:AX"]),
        (Extent(9, timeouts=True), ["0:AXXB"]),
    ],
)
def test_window(within: Extent, matches: list[str]) -> None:
    pattern = seq(A, star(X, reluctant=True), B)
    assert words(pattern, "aacb", within=within) == matches


def test_timeouts() -> None:
    pattern = seq(A, star(X, reluctant=True), B)
    matches = found(pattern, "acab", within=Extent(1, timeouts=True))
    assert [(each.number, each.start, each.labels, each.status) for each in matches] == [
        (1, 0, ("A", "X"), "timeout"),
        (2, 2, ("A", "B"), "match"),
    ]
    ended = found(pattern, "ac", within=Extent(100, timeouts=True))
    assert [(each.labels, each.status) for each in ended] == [(("A", "X"), "timeout")]
    assert found(seq(A, C), "ab", within=Extent(100, timeouts=True)) == []  # a row in time broke it


def test_a_timeout_is_the_most_preferred_path() -> None:
    pattern = Alternation((seq(A, B, C), seq(A, X, C)))
    assert words(pattern, "ab", within=Extent(9, timeouts=True)) == ["0:AB"]
    greedy = seq(A, star(X), C)
    assert words(greedy, "abb", within=Extent(1, timeouts=True)) == ["0:AX"]


def test_descending_order_has_a_window_too() -> None:
    table = rows_of("bxa")
    bound = clause(
        seq(A, star(X), B), table, define=LETTERS, order=(Order("t", descending=True),), within=Extent(1)
    )
    assert find_rows(bound, prepare(bound, table)) == []
    assert len(find_rows(replace(bound, within=Extent(2)), prepare(bound, table))) == 1


def test_a_row_without_time_is_in_no_window_but_its_own() -> None:
    table = pa.table({"t": pa.array([None, 1, 2], pa.int64()), "x": list("aab")})
    bound = clause(seq(A, X), table, define=LETTERS, within=Extent(5))
    assert [each.start for each in find_rows(bound, table)] == [1]
    alone = clause(A, table, define=LETTERS, within=Extent(5))
    assert [each.start for each in find_rows(alone, table)] == [0, 1]


def test_long_matches() -> None:
    before = sys.getrecursionlimit()
    (match,) = found(seq(star(A), B), "a" * 3000 + "b", define={"B": is_("b")})
    assert len(match.labels) == 3001
    assert sys.getrecursionlimit() == before


def test_as_arrays() -> None:
    table = pa.table({"t": [1, 2, 3, 1, 2], "k": [1, 1, 1, None, None], "x": list("acbba")})
    bound = clause(
        Alternation((seq(A, Excluded(C)), optional(B))), table,
        partition=("k",), define=LETTERS, show=Show.UNMATCHED, skip=Skip(SkipTo.NEXT),
    )  # fmt: skip
    prepared = prepare(bound, table)
    offsets = partitions(bound, prepared)
    matches = to_matches(bound, find_rows(bound, prepared), offsets)
    assert offsets.tolist() == [0, 2, 5]  # null first
    assert matches.starts.tolist() == [0, 1, 2, 3, 4]
    assert matches.lengths.tolist() == [1, 0, 2, 0, 1]
    assert matches.numbers.tolist() == [1, 2, 1, 2, 3]
    assert matches.partition.tolist() == [0, 0, 1, 1, 1]
    assert [bound.labels[i] for i in matches.labels] == ["B", "A", "C", "B"]
    assert matches.excluded is not None
    assert matches.excluded.tolist() == [False, False, True, False]
    assert matches.unmatched is not None
    assert matches.unmatched.tolist() == []
    some = to_matches(bound, find_rows(bound, prepared)[:1], offsets)
    assert some.unmatched is not None
    assert np.array_equal(some.unmatched, [1, 2, 3, 4])
