"""Columns that have no type, because they are empty or hold nothing but None: an answer, never an error."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import cerise
from cerise import Options

EMPTY = pd.DataFrame({"ts": [], "kind": [], "x": []})
OBJECTS = EMPTY.astype(object)
FILTERED = pd.DataFrame({"ts": [1], "kind": ["A"], "x": [None]}).query("ts > 1")
NONE = pd.DataFrame({"ts": [1, 2, 3], "kind": ["A", "A", "B"], "x": [None, None, None]})
PREDICATES = """a.x > 1 | a.x = 'u' | a.x < b.x | a.x + 1 < 3 | 1 - a.x > 0 | a.x * b.x > 0 | a.x / 2 = 1
    | a.x % 2 = 0 | -a.x < 1 | lower(a.x) = 'u' | length(a.x) = 1 | a.x LIKE 'u%' | a.x IN ('u', 'v')
    | a.x IN (1, 2)
    | abs(a.x) > 1 | pow(a.x, 2) = 4 | floor(a.x) = 1 | CAST(a.x AS BIGINT) > 1 | CAST(a.x AS STRING) = 'u'
    | CAST(a.x AS BOOLEAN) | a.x | NOT a.x | a.x AND a.ts > 0 | a.x - a.ts > 3 | [x] | a.x BETWEEN 1 AND 2
    | greatest(a.x, b.x) + 1 > 1 | if(a.ts > 0, a.x, b.x) > 1 | a.ts > 0 AND a.x""".split("|")
HOLD = [
    "a.x IS NULL",
    "coalesce(a.x, 1) > 0",
    "greatest(a.x, 2) = 2",
    "a.x + 1 IS NULL",
    "NOT a.x IS NULL OR a.ts > 0",
]
AGGREGATES = [
    "sum(b.x) > 1",
    "avg(b.x) > 1",
    "min(b.x) > 1",
    "max(b.x) = 'u'",
    "stddev(b.x) > 0",
    "b[i].x > b[i-1].x",
]
ENGINES = ["reference", "nfa", None]


def found(events: Any, query: str, engine: str | None = None) -> int:
    given = cerise.find(events, query, time="ts", options=Options(engine=engine))
    return len(given)


@pytest.mark.parametrize("frame", [EMPTY, OBJECTS, FILTERED], ids=["floats", "objects", "filtered"])
def test_an_empty_frame_finds_nothing(frame: pd.DataFrame) -> None:
    for predicate in (*PREDICATES, *HOLD):
        assert found(frame, f"PATTERN SEQ(a, b) WHERE {predicate}") == 0
    for predicate in AGGREGATES:
        assert found(frame, f"PATTERN SEQ(a, b+) WHERE {predicate} WITHIN 5") == 0
    typed = "PATTERN SEQ(A a, B b) WHERE a.x > b.x"
    assert len(cerise.find(frame, typed, time="ts", type="kind", key="x", order="x")) == 0
    assert cerise.count(frame, typed, time="ts", type="kind") == 0
    assert len(cerise.explain_misses(frame, typed, time="ts", type="kind").table) == 0


def test_times_without_a_type_take_any_window() -> None:
    for window in ("5", "5 minutes", "5 events"):
        assert found(EMPTY, f"PATTERN SEQ(a, b) WITHIN {window}") == 0
    for window in ("5", "INTERVAL '5' MINUTE"):
        statement = (
            f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B) WITHIN {window} DEFINE A AS x > 1)"
        )
        assert len(cerise.find(EMPTY, statement.replace("ORDER", "PARTITION BY kind ORDER"))) == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_of_none_is_null_everywhere(engine: str | None) -> None:
    for predicate in PREDICATES:
        assert found(NONE, f"PATTERN SEQ(a, b) WHERE {predicate}", engine) == 0, predicate
    for predicate in HOLD:
        assert found(NONE, f"PATTERN SEQ(a, b) WHERE {predicate}", engine) == 2, predicate
    for predicate in AGGREGATES[:-1]:
        assert found(NONE, f"PATTERN SEQ(a, b+, c) WHERE {predicate}", engine) == 0, predicate
    assert found(NONE, "PATTERN SEQ(a, b+, c) WHERE sum(b.x) IS NULL AND count(b.x) = 0", engine) == 1
    assert found(NONE, "PATTERN SEQ(a?, b) WHERE a.x + 1 < 3", engine) == 3  # not applied where a is absent


def test_what_is_returned_of_a_column_of_none() -> None:
    query = "PATTERN SEQ(a, b+) RETURN a.x AS x, a.x + 1 AS y, sum(b.x) AS s, lower(a.x) AS l, b.x AS all"
    rows = cerise.find(pa.Table.from_pandas(NONE.iloc[:2]), query, time="ts").to_pylist()
    assert [{name: row[name] for name in ("x", "y", "s", "l", "all")} for row in rows] == [
        {"x": None, "y": None, "s": None, "l": None, "all": [None]}
    ]
    totals = "PATTERN SEQ(a, b) RETURN COUNT(*) AS n, COUNT(a.x) AS c, SUM(a.x) AS s, MIN(a.x) AS m"
    found = cerise.find(pa.Table.from_pandas(NONE), totals, time="ts")
    assert found.to_pylist() == [{"n": 2, "c": 0, "s": None, "m": None}]


CONDITIONS = """x > 1 | x = 'u' | x < PREV(x) | x + 1 < 3 | x - ts > 1 | lower(x) = 'u' | x LIKE 'u'
    | x IN ('u') | abs(x) > 1 | length(x) > 1 | CAST(x AS BIGINT) > 1 | x | NOT x | SUM(x) > 1 | AVG(A.x) > 1
    | MAX(x) > 1
    | -x > 1 | x > INTERVAL '1' DAY | x BETWEEN 1 AND 2 | CASE WHEN ts > 0 THEN x END > 1""".split("|")
MEASURES = ["x", "x + 1", "SUM(x)", "AVG(x)", "STDDEV(x)", "MIN(x)", "lower(x)", "FIRST(A.x)"]
ROWS = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {} AS m PATTERN (A) DEFINE A AS {})"


@pytest.mark.parametrize("engine", ["rows", "reference"])
def test_row_patterns_over_a_column_of_none(engine: str) -> None:
    for condition in CONDITIONS:
        assert len(cerise.find(NONE, ROWS.format(1, condition), options=Options(engine=engine))) == 0, (
            condition
        )
        assert len(cerise.find(EMPTY, ROWS.format(1, condition), options=Options(engine=engine))) == 0, (
            condition
        )
    for measure in MEASURES:
        told = cerise.find(NONE, ROWS.format(measure, "x IS NULL"), options=Options(engine=engine))["m"]
        assert len(told) == 3, measure
        assert told.isna().all(), measure
        assert len(cerise.find(EMPTY, ROWS.format(measure, "TRUE"), options=Options(engine=engine))) == 0


def test_arrow_columns_of_nulls_too() -> None:
    table = pa.table({"ts": [1, 2], "x": pa.nulls(2)})
    assert found(table, "PATTERN SEQ(a, b) WHERE a.x + b.x > 1") == 0
    assert found(table.slice(0, 0), "PATTERN SEQ(a, b) WHERE lower(a.x) = 'u'") == 0
