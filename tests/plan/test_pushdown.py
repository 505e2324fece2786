"""Which events and row groups may be left out: never one that could be bound (semantics.md §9)."""

from __future__ import annotations

import itertools
import math
import operator
import random
from typing import Any

import pyarrow as pa
import pytest

from cerise.events import Schema
from cerise.kinds import Kind
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.expr import Attr, Binary, In, Literal
from cerise.plan.pushdown import Comparison, Pruner, Range, as_sql, needed, why_all, widen
from cerise.plan.router import router_of
from tests.support.random_leaves import DRAWN, judge, random_leaves, random_table

COLUMNS = pa.schema([("t", pa.int64()), ("kind", pa.string()), ("x", pa.int64()), ("y", pa.float64())])
SCHEMA = Schema(COLUMNS, "t", "kind")
NUMBERS = [-1.0, 0.0, 0.5, 1.0, 2.0]


def may_hold(wanted: Any, ranges: Any) -> bool:
    """Whether statistics say so, with tests one by one and all at once."""
    one, all_at_once = (Pruner(wanted, few).may_hold(ranges) for few in (10**6, 0))
    assert one == all_at_once
    return one


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
    assert router_of(found).mask(table).tolist() == [True, False, True, True]


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">=", "in"])
def test_a_router_judges_as_the_evaluator_does(op: str, *, coded: bool) -> None:
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
            rows: dict[tuple[str, ...], Any] = {(name,): columns[name].to_pylist()}
            expected = [truth(rows, {"a": (i,)}, {}) is True for i in range(7)]
            test = Comparison((name,), kind, op, tuple(given))
            assert router_of(((test,),)).mask(table).tolist() == expected, test


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


@pytest.mark.parametrize("most", [1, 2, 5, 64])
def test_a_wider_predicate_holds_wherever_the_given_one_does(most: int) -> None:
    rng = random.Random(most)
    narrowed = 0
    for _ in range(100):
        leaves = tuple(each for each in random_leaves(rng) if each)
        wide = widen(leaves, most)
        assert sum(map(len, wide)) <= max(most, 1)
        table = random_table(rng)
        kept, wider = (set().union(*judge(tests, table)) for tests in (leaves, wide))
        assert kept <= wider
        narrowed += len(table) - len(wider)
        if sum(map(len, leaves)) <= most:
            assert wide == leaves
    assert narrowed


def many(count: int) -> tuple[tuple[Comparison, ...], ...]:
    """A type, and two ends of a range, for each query."""
    return tuple(
        (
            Comparison(("kind",), Kind.STRING, "=", (f"T{i}",)), Comparison(("x",), Kind.INT, ">", (i,)),
            Comparison(("y",), Kind.FLOAT, "<=", (i / 4,)),
        )
        for i in range(count)
    )  # fmt: skip


def test_the_tests_of_many_queries_are_few_in_sql() -> None:
    names: dict[tuple[str, ...], str] = {(name,): name for name in ("kind", "x", "y")}
    assert as_sql(many(21), names).count("AND") == 42
    types = ", ".join(f"'T{i}'" for i in range(22))
    assert as_sql(many(22), names) == (
        f"(kind COLLATE UTF8_BINARY IN ({types}) AND x >= 0L AND CAST(y AS DOUBLE) <= CAST('5.25' AS DOUBLE))"
    )
    differs = [(Comparison(("x",), Kind.INT, "!=", (i,)),) for i in range(64)]
    assert as_sql((*many(22), *differs[:1]), names).endswith("OR (x != 0L)")
    assert as_sql((*many(22), *differs), names) == "TRUE"


def test_statistics_judge_thousands_of_tests_as_one_by_one() -> None:
    rng = random.Random(8)
    held = 0
    for _ in range(200):
        leaves = tuple(each for each in random_leaves(rng) if all(test.values for test in each))
        ranges = {}
        for path, kind, values in DRAWN:
            some = [value for value in rng.choices(values, k=2) if value == value]
            if some and kind is not Kind.FLOAT and rng.random() < 0.8:
                ranges[path] = Range(min(some), max(some))
        held += may_hold(leaves, ranges)
    assert 0 < held < 200
    whole = Pruner(many(1_000))
    assert whole.may_hold({("kind",): Range("T5", "T5"), ("x",): Range(6, 9), ("y",): Range(0.0, 9.0)})
    assert not whole.may_hold({("kind",): Range("T5", "T5"), ("x",): Range(3, 5)})
    assert not Pruner(()).may_hold({})
    assert Pruner(None).may_hold({("x",): Range(0, 1)})
