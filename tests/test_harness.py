"""The comparator itself: a wrong match, a missing one and a duplicate must each fail."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import cerise
from cerise.events import Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from tests.support.cases.harness import answer_of, difference, read_answer, read_cases, read_events

EXPECTED = read_answer("a=1 b=2,3 c=4\na=1 b=2 c=4")


def test_equal_answers_in_any_order() -> None:
    assert difference(EXPECTED, read_answer("b=2 c=4 a=1\na=1 b=2,3 c=4")) == ""


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ("a=1 b=2,3 c=4", "missing: a=1 b=2 c=4 ×1"),
        ("a=1 b=2,3 c=4\na=1 b=2 c=4\na=1 b=2 c=4", "not expected: a=1 b=2 c=4 ×1"),
        ("a=1 b=2,3 c=4\na=1 b=3 c=4", "missing: a=1 b=2 c=4 ×1\nnot expected: a=1 b=3 c=4 ×1"),
        ("a=1 b=3,2 c=4\na=1 b=2 c=4", "missing: a=1 b=2,3 c=4 ×1\nnot expected: a=1 b=3,2 c=4 ×1"),
        ("a=1 c=4\na=1 b=2,3 c=4", "missing: a=1 b=2 c=4 ×1\nnot expected: a=1 c=4 ×1"),
        ("(none)", "missing: a=1 b=2 c=4 ×1\nmissing: a=1 b=2,3 c=4 ×1"),
    ],
)
def test_different_answers(found: str, said: str) -> None:
    assert difference(EXPECTED, read_answer(found)) == said


def test_no_answer_is_an_empty_multiset() -> None:
    assert read_answer("(none)") == Counter() == read_answer("")


def test_tokens_and_tables() -> None:
    assert read_events("A1 B-2").to_pydict() == {"type": ["A", "B"], "t": [1, -2]}
    table = read_events("id type t x:float p.q:int \"o d\":str\n1 A 3 nan null 'it''s'\n2 B 4 null 5 plain")
    assert table.column_names == ["id", "type", "t", "x", "p", "o d"]
    assert table.column("p").to_pylist() == [{"q": None}, {"q": 5}]
    assert table.column("o d").to_pylist() == ["it's", "plain"]
    assert table.schema.field("x").type == pa.float64()


def test_a_short_row_is_noticed() -> None:
    with pytest.raises(AssertionError):
        read_events("id type t\n1 A")


def test_a_file_of_two_cases() -> None:
    first = "# title: one\n# rules: S1.1\nPATTERN A a\n--\nA1\n--\na=1\n\n"
    one, two = read_cases("f.cer", first + "# title: two\n# error: BindError: x\nPATTERN x\n--\n")
    assert (one.title, one.rules, one.line) == ("one", ("S1.1",), 1)
    assert (two.error, two.line) == (("BindError", "x"), 9)


def test_an_answer_names_events_by_label_and_leaves_the_fixed_columns_out() -> None:
    events = read_events("id type t k\n7 A 1 red\n8 B 2 red")
    query = "PATTERN SEQ(A a, B+ b[]) PARTITION BY k"
    bound = bind(parse(query), Schema(events.schema, "t", "type"))
    found = cerise.find(events, query, time="t", type="type")
    assert answer_of(found, bound, "id") == read_answer("a=7 b=8")
