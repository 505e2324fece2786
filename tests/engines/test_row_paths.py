"""Which searches for row patterns need a memo, where they test early, and which states must fail."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.rows.instructions import compile_pattern
from cerise.engines.rows.paths import HIDDEN, Lines, list_followers, mark_tests, may_come_twice
from cerise.engines.rows.program import compile_rows
from cerise.engines.rows.records import DOUBLE, EQUAL, WHOLE, MemoKey
from cerise.errors import Span
from cerise.lang.match_recognize import bind_rows, parse_statement
from cerise.lang.match_recognize.pattern import parse_pattern
from cerise.pattern.row_pattern import BoundRows, labels
from tests.support.cases.row_harness import run_reference, run_rows


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


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("A+ B", {"A": "B", "B": ""}),
        ("A X*? B", {"A": "B", "X": "B", "B": ""}),
        ("A (B | C) D", {"A": "D", "B": "D", "C": "D", "D": ""}),
        ("A B? (C D){2}", {"A": "CD", "B": "CD", "C": "D", "D": ""}),
        ("A (B C)* ", {"A": "", "B": "C", "C": ""}),
        ("(A? B?)* C", {"A": "C", "B": "C", "C": ""}),
        ("PERMUTE(A, B) A", {"A": "", "B": "A"}),
        ("^ A $", {"A": ""}),
    ],
)
def test_labels_that_must_follow(pattern: str, expected: dict[str, str]) -> None:
    number, rows = lines_of(pattern)
    found = list_followers(rows, len(number))
    assert {
        name: "".join(sorted(each for each in number if found[i] >> number[each] & 1))
        for name, i in number.items()
    } == expected


# ---- states that must fail

COLUMNS = {
    "x": (pa.int64(), (0, 1, 2, 3, -1, None)),
    "y": (pa.float64(), (0.0, -0.0, 1.5, -2.0, float("nan"), float("inf"), float("-inf"), None)),
    "d": (pa.duration("us"), (0, 1, 2, 3)),
}


def bound_of(pattern: str, define: str) -> BoundRows:
    sql = f"""SELECT * FROM t MATCH_RECOGNIZE (
        ORDER BY t MEASURES count(*) AS n ALL ROWS PER MATCH PATTERN ({pattern}) DEFINE {define})"""
    schema = pa.schema([("t", pa.int64()), *((name, kind) for name, (kind, _) in COLUMNS.items())])
    return bind_rows(parse_statement(sql, "standard").clauses[0], schema)


@pytest.mark.parametrize(
    ("define", "orders"),
    [
        ("B AS COUNT(A.*) > 3", {WHOLE}),
        ("B AS 3 > COUNT(A.*)", {-WHOLE}),
        ("B AS COUNT(A.*) = 3", {EQUAL}),
        ("B AS COUNT(A.*) > 3, A AS COUNT(A.*) < 9", {EQUAL}),
        ("B AS COUNT(A.*) + 1 > 3", {EQUAL}),  # may overflow, in general
        ("B AS MAX(A.y) > x", {DOUBLE, EQUAL}),  # and whether there was a value
        ("B AS MIN(A.x) < 0 OR x = 1", {EQUAL}),
        ("B AS x < FIRST(A.x)", {WHOLE, EQUAL}),
        ("B AS y > FIRST(A.y)", {-DOUBLE, EQUAL}),
        ("B AS x < FIRST(A.x) AND FIRST(A.x) <> 3", {EQUAL}),
        ("B AS x < LAST(A.x)", {WHOLE, EQUAL}),
        ("B AS x < LAST(A.x, 1)", {EQUAL}),
        ("B AS SUM(A.x) > 3", {EQUAL}),
    ],
)
def test_the_order_of_keys(define: str, orders: set[int]) -> None:
    keys = compile_rows(bound_of("A+ B", define)).conditions.keys
    assert {key[MemoKey.order] for key in keys} == orders


def test_what_must_fail_has_no_match() -> None:
    """As the reference finds, with a memo from the first step on, and random comparisons that look back."""
    rng, matches = Random(5), 0
    for _ in range(120):
        pattern, defined = rng.choice(PATTERNS), [f"{label} AS {condition(rng, label)}" for label in "AB"]
        bound = bound_of(pattern, ", ".join(defined).replace("X.", "X." if "X" in pattern else "A."))
        for size in (4, 9):
            drawn = {name: draw(rng, kind, values, size) for name, (kind, values) in COLUMNS.items()}
            table = pa.table({"t": sorted(rng.randrange(12) for _ in range(size)), **drawn})
            options = Options("rows", limits=Limits(patience=rng.choice((1, 3))))
            expected = run_reference(bound, table).to_pylist()
            found = run_rows(bound, table, options).to_pylist()
            assert repr(found) == repr(expected), f"{bound.text}\n{table.to_pylist()}"
            matches += len(expected)
    assert matches > 100


PATTERNS = "A+ B", "A+? B", "A X*? B", "(A | X)+ B", "A (X? A)* B", "A+ X* B", "^ A+ (B X)+ B", "(A X)+ B A?"
CALLS = "FIRST({})", "FIRST({}, 1)", "MAX({})", "MIN({})", "LAST({})", "COUNT({})"


def draw(rng: Random, kind: pa.DataType, values: tuple[object, ...], size: int) -> pa.Array:
    return pa.array([rng.choice(values) for _ in range(size)], kind)


def condition(rng: Random, label: str) -> str:
    def value() -> str:
        return rng.choice(CALLS).format(f"{rng.choice('AABX')}.{rng.choice('xy')}")

    def compared() -> str:
        if rng.random() < 0.1:
            return f"{rng.choice(('FIRST', 'MAX'))}(A.d) {rng.choice('<>')} d"
        other = rng.choice((rng.choice(("x", "y")), str(rng.randrange(4)), value()))
        sides = [value(), other]
        rng.shuffle(sides)
        return f" {rng.choice(('<', '<=', '=', '>', '>=', '<>'))} ".join(sides)

    rest = rng.choice(("", "", f" AND {compared()}", f" OR {label}.x = 2"))
    return compared() + rest if label == "B" or rng.random() < 0.4 else f"x >= {rng.randrange(-1, 2)}"
