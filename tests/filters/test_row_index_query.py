"""Rows that a MATCH_RECOGNIZE clause cannot need are left out, and its answer stays the same."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from cerise.events import EventBatch, Schema
from cerise.filters.index_query import IndexQuery
from cerise.filters.row_index_query import build_row_index_query
from cerise.filters.two_phase import filter_by_buckets, filter_events
from cerise.lang.match_recognize import bind_rows, parse_statement
from cerise.pattern.row_pattern import BoundRows
from tests.filters.memory import InMemory
from tests.support.strategies.rows import table_of
from tests.test_row_agreement import answer

PAIRS = int(os.environ.get("CERISE_EXAMPLES", "200"))
PATTERNS = (
    "A B", "A B C", "A+ B", "A Z* B",
    "A Z*? B Z*? C", "A {-Z*-} B {-Z*-} C", "A (B | C) A", "A{2} B?", "B A+? C",
    "PERMUTE(A, B) C", "A (B C)* A", "A B A", "(A | B) C", "A Z{0,2} B", "(A | B) Z* C",
    "A Z* (B | C)",
)  # fmt: skip
TESTS = (
    "s = 'a'",
    "s = 'b'",
    "s IN ('a', 'c')",
    "x > 1",
    "x = 1 AND s = 'b'",
    "y <= 1",
    "x >= A.x",
    "s <> 'a'",
)
SHOWN = ("ONE ROW PER MATCH", "ALL ROWS PER MATCH")
SIZES = ("", ", COUNT(*) AS size")
SKIPS = ("PAST LAST ROW", "TO NEXT ROW")


def clause(rng: Random) -> str:
    pattern = rng.choice(PATTERNS)
    defines = [
        f"{label} AS {rng.choice(TESTS)}" for label in "ABC" if label in pattern and rng.random() < 0.85
    ]
    return f"""SELECT * FROM events MATCH_RECOGNIZE (
        {rng.choice(("", "PARTITION BY k"))} ORDER BY t
        MEASURES MATCH_NUMBER() AS n, FIRST(t) AS first, LAST(t) AS last{rng.choice(SIZES)}
        {rng.choice(SHOWN)} AFTER MATCH SKIP {rng.choice(SKIPS)}
        PATTERN ({pattern}) WITHIN {rng.choice((0, 1, 2, 3, 5))}
        DEFINE {", ".join(defines or ["A AS x > 0"])})"""


def bound_of(text: str, columns: pa.Schema) -> BoundRows:
    return bind_rows(parse_statement(text, "standard").clauses[0], columns)


def test_what_is_kept_has_the_same_answer() -> None:
    seen: Counter[str] = Counter()
    rng = Random(PAIRS)
    for _ in range(PAIRS):
        text, table = clause(rng), table_of(rng, pa.int64(), rng.choice((0, 1, 5, 9, 14)))
        if table.column("t").null_count:
            continue
        bound, schema = bound_of(text, table.schema), Schema(table.schema, "t", "s")
        query = build_row_index_query(bound, schema, table.schema.names)
        if isinstance(query, str):
            seen[query] += 1
            continue
        source = InMemory(EventBatch.of(table, schema).table, schema)
        expected = answer(bound, source.table, "reference")
        for keep in (filter_events, filter_by_buckets):
            rows = source.rows(keep(query, source))
            found = answer(bound, source.table.take(rows), "reference")
            assert found == expected, (
                f"{text}\n{source.table.to_pylist()}\n{rows}\n{found}\ninstead of\n{expected}"
            )
            seen["fewer"] += len(rows) < len(table)
            seen["matches"] += len(rows) < len(table) and expected[2][0] != "[]"
        seen["asked"] += 1
    for what, share in {"asked": 2, "fewer": 2, "matches": 20}.items():
        assert seen[what] > PAIRS // share, seen


COLUMNS = pa.schema({"t": pa.int64(), "s": pa.string(), "x": pa.int64()})


def asked(pattern: str, define: str, rest: str = "") -> IndexQuery | str:
    text = f"""SELECT * FROM events MATCH_RECOGNIZE (ORDER BY t MEASURES A.x AS n {rest}
        PATTERN ({pattern}) {"" if "WITHIN" in pattern else "WITHIN 5"} DEFINE {define})"""
    text = text.replace("WITHIN 0)", ")")
    return build_row_index_query(bound_of(text, COLUMNS), Schema(COLUMNS, "t", "s"), ["x"])


@pytest.mark.parametrize(
    ("pattern", "define", "rest", "why"),
    [
        ("A B", "A AS x > PREV(x)", "", "PREV and NEXT"),
        ("A B", "A AS MATCH_NUMBER() > 1", "", "MATCH_NUMBER"),
        ("^ A", "A AS x > 1", "", "ends of a partition"),
        ("A", "A AS x > 1", "ALL ROWS PER MATCH WITH UNMATCHED ROWS", "in no match"),
        ("A*", "A AS x > 1", "", "the pattern requires no row"),
        ("A B", "B AS x > A.x", "", "no variable asks"),
    ],
)
def test_where_an_index_cannot_help(pattern: str, define: str, rest: str, why: str) -> None:
    found = asked(pattern, define, rest)
    assert isinstance(found, str)
    assert why in found


def test_rows_that_are_skipped_over_go() -> None:
    found = asked("A Z* B", "A AS s = 'a', B AS s = 'b' AND x > A.x")
    assert isinstance(found, IndexQuery)
    assert found.why_all is None


def test_rows_between_others_stay() -> None:
    found = asked("A Z* B", "A AS s = 'a', B AS s = 'b', Z AS x > 0")
    assert isinstance(found, IndexQuery)
    assert found.why_all == "the variable of the rows that are skipped over has a condition"
