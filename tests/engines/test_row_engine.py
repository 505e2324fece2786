"""The compiled engine for row patterns: long matches, many ways, little room, and what it cannot run."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.reference.rows import find_rows
from cerise.engines.rows import instructions, records
from cerise.engines.rows.prepare import prepare
from cerise.engines.rows.program import compile_rows, why_not
from cerise.errors import PlanError, UnsupportedError
from cerise.kernels.jit import COMPILED
from cerise.lang.match_recognize import bind_rows, parse_statement
from cerise.pattern.row_pattern import (
    BoundRows,
    Concat,
    Extent,
    Label,
    Order,
    Quantified,
    RowPattern,
    Show,
    Shown,
)
from tests.support.cases.row_harness import run_reference, run_rows
from tests.support.strategies.row_clauses import clause, seq, star

LETTERS = pa.table({"t": range(1, 9), "x": [1, 1, 2, 3, 1, 2, 2, 5], "s": list("acbbacab")})
EQUAL = 5000 if COMPILED else 200  # rows
compiled_only = pytest.mark.skipif(not COMPILED, reason="slow")


def bound_of(table: pa.Table, body: str, dialect: str = "standard") -> BoundRows:
    head = "" if "MEASURES" in body else "MEASURES count(*) AS n, CLASSIFIER() AS c "
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t {head}{body})"
    return bind_rows(parse_statement(sql, dialect).clauses[0], table.schema)


def found(table: pa.Table, body: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run_rows(
        bound_of(table, body), table, Options(engine="rows", **options)
    ).to_pylist()
    return rows


def plus(item: RowPattern) -> Quantified:
    return Quantified(item, 1, None)


def equal_rows(count: int) -> pa.Table:
    return pa.table({"t": range(count), "x": [1] * count})


def lacking_rows(count: int) -> pa.Table:
    """Equal rows but for the last but one: what must end with such a one is searched for in vain."""
    return pa.table({"t": range(count), "x": [1] * (count - 2) + [2, 1]})


# ---- long matches


def test_a_quantifier_of_many_iterations() -> None:
    body = "PATTERN (A{600}) DEFINE A AS x = 1"
    assert found(equal_rows(600), body) == [{"n": 600, "c": "A"}]
    assert found(equal_rows(599), body) == []


def test_a_match_longer_than_the_stack() -> None:
    """What was on the way when the stack was full has not failed."""
    rows = equal_rows(1500)
    assert found(rows, "PATTERN (A* B) DEFINE A AS TRUE") == [{"n": 1500, "c": "B"}]
    assert found(rows, "PATTERN (A* B) DEFINE A AS sum(A.x) < 700") == [{"n": 700, "c": "B"}] * 2 + [
        {"n": 100, "c": "B"}
    ]


@compiled_only
def test_a_match_of_a_million_rows() -> None:
    assert found(equal_rows(1_000_000), "PATTERN (A+) DEFINE A AS x = 1") == [{"n": 1_000_000, "c": "A"}]


# ---- many ways


@pytest.mark.parametrize(
    "body",
    [
        "PATTERN ((A+)+ B $) DEFINE B AS x = 2",
        "PATTERN (((A | B)*)* C $) DEFINE C AS x = 2",
        "PATTERN ((A* B*)* (A | B)* C $) DEFINE C AS x = 2",
        "PATTERN ((A+)+ B $) DEFINE A AS count(A.*) > 0, B AS x = 2",
    ],
)
def test_what_failed_is_not_tried_again(body: str) -> None:
    table = lacking_rows(EQUAL if "count" not in body else EQUAL // 10)
    assert found(table, body, max_steps=(400 if "count" not in body else 1000) * EQUAL) == []


def test_a_search_of_too_many_ways_is_given_up() -> None:
    """Each choice between A and B makes another sum, so that no two ways are alike."""
    powers = pa.table({"t": range(40), "x": [2**i for i in range(40)]})
    body = "PATTERN ((A | B)* C) DEFINE A AS sum(A.x) > 0, C AS sum(A.x) < 0"
    with pytest.raises(PlanError, match="took more than 10,000 steps, at row 0 "):
        found(powers, body, max_steps=10_000)
    assert found(powers.slice(0, 8), body, max_steps=10_000) == []


def test_memory_is_that_of_one_search() -> None:
    """What earlier searches have filled it with is forgotten."""
    body = "PATTERN (A+ B $) DEFINE A AS count(A.*) > 0, B AS x = 2"
    assert found(lacking_rows(150), body, limits=Limits(patience=1, memo_bytes=1 << 10)) == []


def test_memory_has_an_end() -> None:
    """Where it is full, all is forgotten and the search goes on, until it has taken too many steps."""
    few = Limits(memo_bytes=1 << 10)
    powers = pa.table({"t": range(40), "x": [2**i for i in range(40)]})
    body = "PATTERN ((A | B)* C) DEFINE A AS sum(A.x) > 0, C AS sum(A.x) < 0"
    with pytest.raises(PlanError, match="too many ways"):
        found(powers, body, max_steps=200_000, limits=few)
    assert found(powers.slice(0, 12), body, max_steps=200_000, limits=few) == []


@pytest.mark.parametrize(
    ("body", "labels"),
    [
        # from a later start the window ends later
        ("PATTERN (A+ B) WITHIN 2 DEFINE B AS x = 3", "AAB"),
        # two ways with the same last A have different ones before it
        ("PATTERN ((A | B)* C) DEFINE C AS x = 3 AND LAST(A.t, 1) = 1 AND LAST(A.t) = 3", "ABAC"),
        ("PATTERN ((A | B)* C) DEFINE C AS x = 3 AND FIRST(A.t, 1) = 3 AND FIRST(A.t) = 2", "BAAC"),
        # the label of the row before
        ("PATTERN ((A | B)* C) DEFINE C AS x = 3 AND PREV(CLASSIFIER(), 2) = 'B'", "ABAC"),
        # the start
        ("PATTERN (A+ B) DEFINE B AS x = 3 AND FIRST(t) = 3", "AB"),
        ("PATTERN (A+ B) DEFINE B AS x = 3 AND LAST(t, 2) IS NULL", "AB"),
        # an aggregate
        ("PATTERN ((A | B)* C) DEFINE C AS x = 3 AND sum(A.x) = 2 AND max(A.t) = 3", "ABAC"),
    ],
)
def test_all_that_the_future_depends_on_is_remembered(body: str, labels: str) -> None:
    table = pa.table({"t": [1, 2, 3, 4], "x": [1, 1, 1, 3]})
    bound = bound_of(table, f"MEASURES CLASSIFIER() AS c ALL ROWS PER MATCH {body}")
    answer = run_rows(bound, table, Options(engine="rows", limits=Limits(patience=1)))
    assert answer.equals(run_reference(bound, table))
    assert "".join(answer["c"].to_pylist()) == labels


# ---- little room


@pytest.mark.parametrize(
    "body",
    [
        "PATTERN (A+ B) DEFINE A AS x < 3, B AS x >= 2",
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (A* B?) DEFINE A AS x < 3, B AS sum(A.x) > 2",
        "ALL ROWS PER MATCH PATTERN ({- A -}* B) DEFINE A AS x < 3, B AS FIRST(A.x) <= x",
        "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A{3} | B) DEFINE A AS x < 3, B AS x = 5",
        "MEASURES MATCH_STATUS() AS c PATTERN (A X*? B) WITHIN 3 EMIT TIMEOUTS DEFINE A AS x = 1, B AS x = 5",
        "PATTERN ((A | B)* C) DEFINE A AS PREV(CLASSIFIER()) = 'B', B AS x < 3, C AS x = 3",
    ],
)
@pytest.mark.parametrize("room", [1, 2, 3])
def test_room_grows(body: str, room: int) -> None:
    bound = bound_of(LETTERS, body)
    expected = run_reference(bound, LETTERS)
    for patience in (1, 4, 128):
        for stack in (room, 256):
            limits = Limits(row_matches=room, match_rows=room, stack_rows=stack, patience=patience)
            assert run_rows(bound, LETTERS, Options(engine="rows", limits=limits)).equals(expected)


# ---- what is easy to get wrong


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # strings that equal no constant still have an order
        ("PATTERN (A+ B) DEFINE B AS max(A.s) = 'b'", [4]),
        # the row that is being mapped is the last of its subset
        ("PATTERN (A+ B) SUBSET U = (A, B) DEFINE B AS CLASSIFIER(U) = 'B'", [8]),
        ("PATTERN (A+ B) SUBSET U = (A, B) DEFINE B AS PREV(CLASSIFIER(U)) = 'A'", [8]),
        # labels can be counted and compared
        ("PATTERN (A+ B) DEFINE B AS max(CLASSIFIER()) = 'B'", [8]),
        ("PATTERN (A+? B) DEFINE B AS count(CLASSIFIER()) = 3", [3, 3]),
        # text of a row that is not there may still have a value
        ("PATTERN (A+ B? C) DEFINE B AS x > 9, C AS upper(coalesce(B.s, 'x')) = 'X'", [8]),
        ("PATTERN (A+ B? C) DEFINE B AS x > 9, C AS B.s LIKE '%' IS NULL", [8]),
    ],
)
def test_conditions(body: str, expected: list[int]) -> None:
    assert [row["n"] for row in found(LETTERS, body)] == expected
    reference = run_reference(bound_of(LETTERS, body), LETTERS)
    assert reference["n"].to_pylist() == expected


def test_a_row_beyond_the_window_is_lacked_though_it_does_not_fit() -> None:
    body = (
        "MEASURES FIRST(t) AS t, MATCH_STATUS() AS status PATTERN (A (B | $)) WITHIN 3 EMIT TIMEOUTS "
        "DEFINE B AS x = 7"
    )
    table = pa.table({"t": [1, 2, 3, 9], "x": [1] * 4})
    assert found(table, body) == [{"t": 3, "status": "timeout"}, {"t": 9, "status": "match"}]


def test_a_window_that_takes_no_second_row() -> None:
    body = "PATTERN (A+) WITHIN 0 DEFINE A AS x > 0"
    table = pa.table({"t": [1, 1, 2], "x": [1] * 3})
    assert [row["n"] for row in found(table, body)] == [2, 1]
    flink = bound_of(table, body, "flink")
    assert run_rows(flink, table, Options(engine="rows"))["n"].to_pylist() == [1, 1, 1]
    assert run_reference(flink, table)["n"].to_pylist() == [1, 1, 1]


def test_a_window_over_times_that_are_far_apart() -> None:
    table = pa.table({"t": [-(2**63), 2**63 - 1], "x": [1, 1]})
    assert [row["n"] for row in found(table, "PATTERN (A+) WITHIN 5 DEFINE A AS x > 0")] == [1, 1]


@pytest.mark.parametrize("ends", [(1, 2), (-(2**63), 0), (-(2**63), 2**63 - 1), (None, None)])
@pytest.mark.parametrize("nulls", ["FIRST", "LAST"])
def test_a_row_without_time_is_in_no_window_but_its_own(nulls: str, ends: tuple[int, int]) -> None:
    table = pa.table({"t": pa.array([None, *ends, None, *ends], pa.int64()), "x": [1] * 6})
    body = "MEASURES count(*) AS n, FIRST(t) AS t PATTERN (A+) WITHIN 1 DEFINE A AS x > 0"
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t NULLS {nulls} {body})"
    bound = bind_rows(parse_statement(sql, "standard").clauses[0], table.schema)
    answer = run_rows(bound, table, Options(engine="rows"))
    assert answer.equals(run_reference(bound, table))
    assert [row["n"] for row in answer.to_pylist() if row["t"] is None] == [1] * table["t"].null_count


def test_descending_order_has_a_window_too() -> None:
    table = pa.table({"t": [1, 2, 5, 9], "x": [1] * 4})
    given: dict[str, Any] = {"order": (Order("t", descending=True),), "within": Extent(3), "show": Show.ALL}
    bound = clause(plus(Label("A")), table, output=(Shown("t", False),), **given)
    answer = run_rows(bound, table, Options(engine="rows"))
    assert answer["t"].to_pylist() == [9, 5, 2, 1]
    matches = find_rows(bound, prepare(bound, table))
    assert [len(each.labels) for each in matches] == [1, 2, 1]
    assert answer.equals(run_reference(bound, table))


def test_columns_may_have_names_of_ours() -> None:
    table = pa.table({"t": [1, 2], "_t0": ["a", "b"], "_t1": ["b", "a"], "x": [1, 1]})
    body = "PATTERN (A B) DEFINE A AS upper(_t0) = 'A' AND upper(_t1) = 'B', B AS lower(_t0) = 'b'"
    assert found(table, body) == [{"n": 2, "c": "B"}]


# ---- what it cannot run


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("count(DISTINCT A.x) > 1", "count of DISTINCT values stands in DEFINE"),
        ("max_by(A.x, A.t) > 1", "max_by stands in DEFINE"),
        ("any_value(A.x) > 1", "any_value stands in DEFINE"),
        ("length(min(A.s)) > 1", "computes text from several rows"),
        ("CLASSIFIER() LIKE 'A%'", "computes text from several rows"),
        ("upper('a') = s", "computes text from constants"),
    ],
)
def test_why_not(condition: str, reason: str) -> None:
    bound = bound_of(LETTERS, f"PATTERN (A+) DEFINE A AS {condition}")
    assert reason in (why_not(bound) or "")
    with pytest.raises(UnsupportedError, match="engine 'rows' cannot run this clause"):
        run_rows(bound, LETTERS, Options(engine="rows"))
    assert run_rows(bound, LETTERS, Options()).equals(run_reference(bound, LETTERS))


def test_a_clause_is_compiled_once() -> None:
    doubles = pa.table({"t": range(3), "x": [0.5, 1.5, 2.5]})
    body = "PATTERN (A B) DEFINE B AS 1 / x > {}0.0"
    plus, minus = body.format(""), body.format("-")
    assert compile_rows(bound_of(doubles, plus)) is compile_rows(bound_of(doubles, plus))
    assert compile_rows(bound_of(LETTERS, plus)) is not compile_rows(bound_of(doubles, plus))
    assert compile_rows(bound_of(doubles, minus)) is not compile_rows(bound_of(doubles, plus))
    by_hand = clause(seq(Label("A"), Label("B")), LETTERS)
    assert compile_rows(by_hand) is compile_rows(by_hand)
    assert compile_rows(clause(seq(Label("A"), Label("B")), LETTERS)) is not compile_rows(by_hand)


def test_a_clause_is_explained_without_numba() -> None:
    clause = "MATCH_RECOGNIZE (ORDER BY t MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS x > PREV(x))"
    code = (
        "import sys, pyarrow as pa, cerise; table = pa.table({'t': [1], 'x': [1.0]});"
        f"assert 'instructions' in str(cerise.explain(table, 'SELECT * FROM e {clause}'));"
        "sys.exit('numba' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_as_many_variables_as_there_are_bits() -> None:
    table = equal_rows(70)
    labels = [Label(f"V{i}") for i in range(63)]
    assert why_not(clause(Concat(tuple(labels)), table)) == "it has more than 62 variables"
    most = clause(Concat(tuple(labels[:62])), table, measures={}, show=Show.ALL)
    assert why_not(most) is None


def test_labels_that_have_no_room_in_a_byte() -> None:
    """Masks are words then."""
    letters = [chr(ord("a") + i % 10) for i in range(60)]
    table = pa.table({"t": range(60), "x": [i % 7 for i in range(60)], "s": letters})
    names = [f"V{i}" for i in range(10)]
    define = ", ".join(f"{name} AS s = '{chr(ord('a') + i)}'" for i, name in enumerate(names))
    for pattern in (" ".join(names), f"({' | '.join(names)})+", " X*? ".join(names)):
        for rest in ("", ", V9 AS s = 'j' AND PREV(x) < x", ", V9 AS s = 'j' AND x > V0.x"):
            body = f"PATTERN ({pattern}) DEFINE {define.rsplit(', ', 1)[0]}{rest or ', V9 AS TRUE'}"
            for options in ({}, {"threads": 3}):
                expected = run_reference(bound_of(table, body), table)
                assert found(table, body, **options) == expected.to_pylist()


@pytest.mark.parametrize(
    ("pattern", "first", "second", "needs", "nullable"),
    [
        ("A B C", "A", "B", "ABC", False),
        ("A+ B", "A", "AB", "AB", False),
        ("A B?", "A", None, "A", False),
        ("(A | B) C*", "AB", None, "", False),
        ("(A B | B A) C", "AB", "AB", "ABC", False),
        ("A* B{2,3}", "AB", "AB", "B", False),
        ("PERMUTE(A, B)", "AB", "AB", "AB", False),
        ("{- A -} {- B* -} C", "A", "BC", "AC", False),
        ("^ A $", "A", None, "A", False),
        ("A*", "A", None, "", True),
    ],
)
def test_what_is_known_of_the_rows_of_a_match(
    pattern: str, first: str, second: str | None, needs: str, nullable: bool
) -> None:
    bound = bound_of(LETTERS, f"PATTERN ({pattern}) DEFINE A AS TRUE")
    code = instructions.compile_pattern(bound.pattern)

    def names(bits: int) -> str:
        return "".join(sorted(label for i, label in enumerate(bound.labels) if (bits >> i) & 1))

    assert (names(code.first), names(code.needs), code.nullable) == (first, needs, nullable)
    assert (None if code.second == records.ANYTHING else names(code.second)) == second


@pytest.mark.parametrize("threads", [2, 5, 40])
def test_a_partition_is_cut_where_each_start_is_for_itself(threads: int) -> None:
    bodies = [
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B) DEFINE A AS x < 3, B AS x >= 2",
        "ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (^ A* B | C) DEFINE B AS x > 1, C AS x = 5",
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (A* $) DEFINE A AS x > PREV(x)",
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+) WITHIN 3 EMIT TIMEOUTS DEFINE B AS x > A.x",
        "MEASURES MATCH_NUMBER() AS n AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE A AS x < 3",
        "PATTERN (A+ B) DEFINE A AS x < 3, B AS x >= 2",
    ]
    for body in bodies:
        expected = run_reference(bound_of(LETTERS, body), LETTERS)
        assert found(LETTERS, body, threads=threads) == expected.to_pylist()


def test_clauses_that_read_no_column() -> None:
    """There are rows all the same."""
    table = pa.table({"x": [1, 2, 3]})
    for condition, count in (("TRUE", 3), ("x > 1", 2)):
        sql = f"SELECT * FROM t MATCH_RECOGNIZE (MEASURES count(*) AS n PATTERN (A+) DEFINE A AS {condition})"
        bound = bind_rows(parse_statement(sql, "standard").clauses[0], table.schema)
        for engine_name in ("rows", "reference"):
            assert run_rows(bound, table, Options(engine_name)).to_pylist() == [{"n": count}]


def test_patterns_that_are_too_large() -> None:
    table = equal_rows(1)
    deep: RowPattern = star(Label("A"))
    for _ in range(63):
        deep = star(seq(deep, star(Label("A"))))
    with pytest.raises(PlanError, match="more than 62 quantifiers are nested"):
        why_not(clause(deep, table))
    written_out = bound_of(table, "PATTERN ((A{100}){20}) DEFINE A AS TRUE").pattern
    with pytest.raises(PlanError, match="more than 1000 steps when its quantifiers are written out"):
        instructions.compile_pattern(written_out, most=1000)
