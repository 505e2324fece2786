"""Messages that once misled: each says what is wrong, where, and what to write instead."""

from __future__ import annotations

import pyarrow as pa
import pytest

import cerise
from cerise.errors import CeriseError

EVENTS = pa.table({"ts": [1, 2], "kind": ["A", "B"], "x": [1, 2], "u": ["p", "q"]})
SQL = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {} AS m PATTERN (A B) DEFINE B AS {})"


def said(query: str) -> str:
    roles = {} if query.startswith("SELECT") else {"time": "ts", "type": "kind"}
    with pytest.raises(CeriseError) as caught:
        cerise.find(EVENTS, query, **roles)
    assert caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize("function", ["round(a.x)", "concat(a.u, 'x')"])
def test_an_unknown_function_is_not_taken_for_count(function: str) -> None:
    told = said(f"PATTERN SEQ(A a, B b) WHERE {function} = 1")
    assert "'count'?" not in told
    assert "known: abs, avg" in told


def test_a_misspelt_function_is() -> None:
    assert "did you mean 'count'?" in said("PATTERN SEQ(A a, B+ b[]) WHERE coumt(b.x) = 1")


@pytest.mark.parametrize("word", ["RLIKE", "REGEXP", "rlike"])
def test_regular_expressions(word: str) -> None:
    assert "LIKE compares a text with a pattern" in said(f"PATTERN SEQ(A a, B b) WHERE a.u {word} 'x'")


@pytest.mark.parametrize("tail", ["WHEN a.x > 1", "WHERE CASE WHEN a.x > 1 THEN TRUE ELSE FALSE END"])
def test_when_and_case(tail: str) -> None:
    assert "if(predicate, x, y)" in said(f"PATTERN SEQ(A a, B b) {tail}")


def test_a_type_in_single_quotes() -> None:
    told = said("PATTERN SEQ('login' a, B b)")
    assert "not closed" not in told
    assert 'double quotes: "login"' in told
    assert "^^^^^^^\n" in told
    assert "not closed" in said("PATTERN SEQ(A a, B b) WHERE a.u = 'login")


def test_a_string_in_double_quotes() -> None:
    assert "single ones: 'p'" in said('PATTERN SEQ(A a, B b) WHERE a.u = "p"')
    assert "did you mean 'aa'?" in said("PATTERN SEQ(A aa, B b) WHERE aaa.x = 1")


@pytest.mark.parametrize("measure", ["A.u || 'x'", "round(LAST(B.x))", "concat(A.u, B.u)"])
def test_internal_names_are_not_shown(measure: str) -> None:
    told = said(SQL.format(measure, "x > 1"))
    assert "Spark" in told
    assert "_a" not in told.replace("MATCH_", "")


@pytest.mark.parametrize(("measure", "condition"), [("frobnicate(A.x)", "x > 1"), ("1", "frobnicate(x) > 1")])
def test_a_function_that_nobody_has(measure: str, condition: str) -> None:
    told = said(SQL.format(measure, condition))
    assert "unknown function 'frobnicate'" in told
    assert "needs Spark" not in told


def test_a_function_of_spark() -> None:
    assert "the function sha2 needs Spark" in said(SQL.format("1", "sha2(u, 256) = 'x'"))
    assert "did you mean 'regexp_extract'?" in said(SQL.format("1", "regexp_extrakt(u, 'x') = 'x'"))
