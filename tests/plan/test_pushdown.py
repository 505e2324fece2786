"""Which events and row groups may be left out: never one that could be bound (semantics.md §9)."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import pyarrow as pa
import pytest

from cerise.events import Schema
from cerise.kinds import Kind
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.expr import Attr, Binary, In, Literal
from cerise.plan.pushdown import Comparison, Range, Sieve, as_sql, may_hold, needed, why_all

COLUMNS = pa.schema([("t", pa.int64()), ("kind", pa.string()), ("x", pa.int64()), ("y", pa.float64())])
SCHEMA = Schema(COLUMNS, "t", "kind")
NUMBERS = [-1.0, 0.0, 0.5, 1.0, 2.0]


def bound(text: str) -> Any:
    return bind(parse(text), SCHEMA)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("PATTERN SEQ(A a, B b) USE strict_contiguity WITHIN 5", "contiguity counts"),
        ("PATTERN SEQ(A a, B b) WITHIN 5 EVENTS", "window counts"),
        ("PATTERN SEQ(A a, b) WHERE b.x > a.x WITHIN 5", "b fits every event"),
        ("PATTERN SEQ(A a, NOT n, B b) WHERE n.x = a.x WITHIN 5", "n fits every event"),
        ("PATTERN OR(A a, b) WITHIN 5", "b fits every event"),
    ],
)
def test_where_every_event_counts(query: str, why: str) -> None:
    assert why in (why_all([bound(query)]) or "")
    assert needed([bound(query)]) is None


def test_what_is_needed_is_what_some_variable_of_some_query_could_be() -> None:
    first = bound("PATTERN SEQ(A a, NOT C n, b) WHERE 3 < b.x AND b.x + 1 > a.x AND n.y IN (1, 2.5) WITHIN 5")
    second = bound("PATTERN A a WITHIN 5")
    found = needed([first, second])
    a = Comparison(("kind",), Kind.STRING, "=", ("A",))
    x = Comparison(("x",), Kind.INT, ">", (3,))
    assert found is not None
    assert set(found) == {
        (a,),
        (x,),
        (Comparison(("kind",), Kind.STRING, "=", ("C",)), Comparison(("y",), Kind.FLOAT, "in", (1.0, 2.5))),
    }  # fmt: skip
    table = pa.table(
        {"t": [1, 2, 3, 4], "kind": ["A", "B", "C", None], "x": [0, 3, None, 4], "y": [None, 1.0, 2.5, 2.0]},
        COLUMNS,
    )
    assert Sieve(found).mask(table).tolist() == [True, False, True, True]


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">=", "in"])
def test_a_sieve_judges_as_the_evaluator_does(op: str, *, coded: bool) -> None:
    texts = pa.array(["", "A", None, "AB", "ÄÖ", "a longer string", "A"], pa.string())
    numbers = pa.array([0, -1, 2**53 + 1, None, 3, 1, -(2**63)], pa.int64())
    doubles = pa.array([float("nan"), -0.0, 1.5, None, float("inf"), 2.0, -1.0], pa.float64())
    flags = pa.array([True, None, False, True, None, False, True])
    columns = {"t": pa.array(range(7)), "kind": texts, "x": numbers, "y": doubles, "flag": flags}
    schema = Schema(COLUMNS.append(pa.field("flag", pa.bool_())), "t", "kind")
    if coded:
        columns["kind"] = texts.dictionary_encode()
    table = pa.table(columns)
    constants: dict[str, list[Any]] = {
        "kind": ["", "A", "ÄÖ", "a longer string", "none"], "x": [0, 2**53 + 1, 3], "y": [0.0, 1.5, 2.0],
        "flag": [True, False],
    }  # fmt: skip
    for name, values in constants.items():
        kind = schema.kind((name,))
        for given in [values] if op == "in" else [[value] for value in values]:
            literals = tuple(Literal(value, kind) for value in given)
            attr = Attr("a", (name,), kind=kind)
            expr = In(attr, literals) if op == "in" else Binary(op, attr, literals[0])
            truth = compile_expr(expr, lambda fault: None)
            rows = {(name,): columns[name].to_pylist()}
            expected = [truth(rows, {"a": (i,)}, {}) is True for i in range(7)]
            test = Comparison((name,), kind, op, tuple(given))
            assert Sieve(((test,),)).mask(table).tolist() == expected, test


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">=", "in"])
def test_statistics_never_hide_a_value_that_holds(op: str) -> None:
    compare = {
        "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
        ">=": operator.ge, "in": operator.eq,
    }[op]  # fmt: skip
    ranges = list(itertools.combinations_with_replacement(NUMBERS, 2))
    for constant, (low, high) in itertools.product(NUMBERS, ranges):
        for kind in (Kind.FLOAT, Kind.INT):
            test = ((Comparison(("y",), kind, op, (constant,)),),)
            inside = [value for value in NUMBERS if low <= value <= high]
            if any(compare(value, constant) for value in inside):
                assert may_hold(test, {("y",): Range(low, high)})
    beyond = ((Comparison(("x",), Kind.INT, "=", (7,)),),)
    assert not may_hold(beyond, {("x",): Range(0, 6)})
    assert may_hold(beyond, {})


def test_statistics_that_leave_something_out_hide_nothing() -> None:
    above = ((Comparison(("y",), Kind.FLOAT, ">", (100.0,)),),)
    assert may_hold(above, {("y",): Range(0.0, 1.0)})  # NaN is above all, and not in statistics
    long = "a" * 40
    assert may_hold(
        ((Comparison(("kind",), Kind.STRING, "=", (long + "b",)),),), {("kind",): Range("a", long)}
    )
    assert not may_hold(((Comparison(("kind",), Kind.STRING, "=", ("c",)),),), {("kind",): Range("a", "b")})


def test_constants_survive_as_sql() -> None:
    tests = tuple((Comparison(("c",), kind, "=", (value,)),) for kind, value in (
        (Kind.STRING, "it's \\ é"), (Kind.INT, -(2**63)), (Kind.FLOAT, 1e300), (Kind.FLOAT, math.inf),
        (Kind.BOOL, True),
    ))  # fmt: skip
    text = as_sql(tests, {("c",): "`c`"})
    odd = "it's \\ é".encode().hex()
    assert f"CAST(X'{odd}' AS STRING)" in text
    assert "(-9223372036854775807L - 1L)" in text
    assert "CAST('inf' AS DOUBLE)" in text
    assert "`c` = TRUE" in text
