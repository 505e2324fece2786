"""Which searches for row patterns need a memo, and which instructions test before they save a choice."""

from __future__ import annotations

import pytest

from cerise.engines.rows.instructions import compile_pattern
from cerise.engines.rows.paths import HIDDEN, Lines, mark_tests, may_come_twice
from cerise.errors import Span
from cerise.lang.match_recognize.pattern import parse_pattern
from cerise.pattern.row_pattern import labels


def lines_of(text: str) -> tuple[dict[str, int], Lines]:
    pattern = parse_pattern(text, Span(0, len(text)))
    return {name: i for i, name in enumerate(labels(pattern))}, compile_pattern(pattern).rows


@pytest.mark.parametrize(
    ("pattern", "known", "twice"),
    [
        ("A X*? B", "A", False),  # the row of A tells searches apart, and the way from it is the only one
        ("A X* B", "A", False),
        ("A (X Y)*? B C", "A", False),
        ("A X{2,5} B", "A", False),
        ("^ A X*? B $", "A", False),
        ("A X*? B", "", True),  # a search from another row comes to the same row as X
        ("A X*? B", "X", True),
        ("A A X*? B", "A", True),  # the last A of one search is the first of another
        ("A+ B", "A", True),
        ("A X*? B Y*? C", "A", True),  # C at one row, after any B
        ("A X? X? B", "A", True),
        ("A (X | X) B", "A", True),
        ("A (X | Y) B", "A", True),  # a row may be either
        ("A (X?)* B", "A", True),
    ],
)
def test_what_comes_to_a_state_twice(pattern: str, known: str, twice: bool) -> None:
    number, rows = lines_of(pattern)
    assert may_come_twice(rows, [{number[each] for each in known}] if known else []) is twice


def test_searches_that_share_no_states_are_looked_at_one_by_one() -> None:
    _, rows = lines_of("A+ B")
    assert not may_come_twice(rows, None)
    _, rows = lines_of("A+ A+ B")
    assert may_come_twice(rows, None)


def test_a_reluctant_loop_tests_its_end_before_it_saves_the_loop() -> None:
    number, rows = lines_of("A X*? B")
    marks = [mark_tests(rows, 1 << number[label])[:, HIDDEN].sum() for label in "ABX"]
    assert marks == [0, 1, 0]
    assert not rows[:, HIDDEN].any()
    _, greedy = lines_of("A X* B")
    assert not mark_tests(greedy, 1 << 2)[:, HIDDEN].any()
