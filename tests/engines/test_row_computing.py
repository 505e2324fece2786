"""Expressions compiled for all rows at once: each value as the plain twin computes it row by row."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.engines.results import computing
from cerise.engines.rows.conditions import _over_columns
from cerise.engines.rows.prepare import compute_column
from cerise.errors import BindError, DataError, UnsupportedError
from cerise.kernels.jit import COMPILED
from cerise.kinds import ARROW_OF, INT64_MAX, INT64_MIN
from cerise.lang.match_recognize import bind_rows, parse_alone
from cerise.pattern.check import kind_of
from cerise.pattern.expr import Attr
from cerise.pattern.row_pattern import BoundRows, Derived, Nav
from tests.support.cases.row_harness import run_rows
from tests.tiers import mostly_nightly

EXPRESSIONS = 150 if COMPILED else 30
AT_ONCE, ONE_BY_ONE = (Options(limits=Limits(compiled_rows=rows)) for rows in (1, 10**9))
TAME: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [1, 2, 3, -4, 7, None]),
    "j": (pa.int32(), [5, 1, -2, 9, 3]),
    "d": (pa.float64(), [0.1, -0.0, 0.0, 2.5, math.nan, math.inf, -math.inf, -7.25, None]),
    "s": (pa.string(), ["a", "b", "ä", "", "ab", None]),
    "b": (pa.bool_(), [True, False, None]),
    "m": (pa.timestamp("us"), [dt.datetime(2024, 1, 1), dt.datetime(1969, 12, 31, 23), None]),
    "n": (pa.timestamp("us"), [dt.datetime(2024, 1, 1, 0, 0, 1), dt.datetime(2030, 5, 5)]),
    "z": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]),
    "c": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31), None]),
}
WILD = TAME | {
    "i": (pa.int64(), [0, 1, INT64_MAX, INT64_MIN, -1, 2**53 + 1, None]),
    "j": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31)]),
}


def table_of(rng: Random, values: dict[str, tuple[pa.DataType, list[Any]]], rows: int = 40) -> pa.Table:
    columns = {name: pa.array([rng.choice(few) for _ in range(rows)], t) for name, (t, few) in values.items()}
    return pa.table({"t": range(rows), **columns})


class Writer:
    """Writes expressions as SQL."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def any(self, depth: int) -> str:
        return self.rng.choice((self.number, self.number, self.truth, self.text, self.moment))(depth)

    def number(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.2:
            return self.rng.choice(("A.i", "A.i", "A.j", "A.d", "3", "2", "-1", "0.5", "1e0"))
        x, y, p = self.number(depth - 1), self.number(depth - 1), self.truth(depth - 1)
        return self.rng.choice(
            (
                f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} / {y})", f"({x} % {y})", f"(- {x})",
                f"abs({x})", f"ceil({x})", f"floor({x})", f"sqrt({x})", f"exp({x})", f"ln({x})",
                f"power({x}, CAST({y} AS DOUBLE))",
                f"coalesce({x}, {y})", f"greatest({x}, {y}, 1)", f"least({x}, {y})",
                f"CASE WHEN {p} THEN {x} ELSE {y} END", f"CASE WHEN {p} THEN {x} END",
                f"CAST({x} AS BIGINT)", f"CAST({x} AS DOUBLE)",
            )
        )  # fmt: skip

    def truth(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice(("A.b", "A.i > 1", "A.s = 'a'", "TRUE"))
        x, y = self.number(depth - 1), self.number(depth - 1)
        s, u, p, q = (
            self.text(depth - 1), self.text(depth - 1), self.truth(depth - 1), self.truth(depth - 1),
        )  # fmt: skip
        op = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
        return self.rng.choice(
            (
                f"({x} {op} {y})", f"({s} {op} {u})", f"({p} AND {q})", f"({p} OR {q})", f"(NOT {p})",
                f"({x} IS NULL)", f"({s} IS NOT NULL)", f"({x} IN (1, 2.5, {y}))", f"({s} IN ('a', {u}))",
                f"({x} BETWEEN {y} AND 3)", f"(A.m {op} A.n)", f"(A.c {op} DATE '2000-01-01')",
            )
        )  # fmt: skip

    def text(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice(("A.s", "A.s", "'a'", "'zz'"))
        x, y, p = self.text(depth - 1), self.text(depth - 1), self.truth(depth - 1)
        return self.rng.choice(
            (f"coalesce({x}, {y})", f"greatest({x}, {y})", f"CASE WHEN {p} THEN {x} ELSE {y} END")
        )

    def moment(self, depth: int) -> str:
        p = self.truth(max(depth - 1, 0))
        return self.rng.choice(
            (
                f"CASE WHEN {p} THEN A.m ELSE A.n END", "greatest(A.m, A.n)", "coalesce(A.z, A.z)",
                f"CASE WHEN {p} THEN A.c END", "A.m - A.n", "coalesce(A.c, DATE '1900-01-01')",
            )
        )  # fmt: skip


def bound_of(expr: str, columns: pa.Schema) -> BoundRows:
    sql = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES ({expr}) AS m PATTERN (A) DEFINE A AS TRUE)"
    return bind_rows(parse_alone(sql), columns)


def answer(bound: BoundRows, table: pa.Table, options: Options) -> tuple[Any, ...]:
    """The values, NaN and -0.0 among them, with their type; or what is wrong."""
    try:
        found = run_rows(bound, table, options).column("m")
    except DataError as error:
        return (str(error),)
    return found.type, repr(found.to_pylist())


def bindable(rng: Random, seen: Counter[str]) -> tuple[str, BoundRows]:
    columns = table_of(Random(0), TAME, 1).schema
    while True:
        text = Writer(rng).any(rng.choice((1, 2, 2, 3)))
        try:
            return text, bound_of(text, columns)
        except (BindError, UnsupportedError):
            seen["not bound"] += 1


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What becomes of expressions."""
    count: Counter[str] = Counter()
    plain = computing.compute

    def counted(*args: Any) -> computing.Computed:
        found = plain(*args)
        count["compiled" if not found.faults else "faults"] += 1
        return found

    monkeypatch.setattr(computing, "compute", counted)
    return count


@pytest.mark.parametrize("go", mostly_nightly(range(2), (0,)))
def test_measures_are_as_computed_row_by_row(go: int, seen: Counter[str]) -> None:
    rng = Random(go)
    for _ in range(EXPRESSIONS):
        text, bound = bindable(rng, seen)
        for values in (TAME, WILD):
            table = table_of(rng, values)
            expected = answer(bound, table, ONE_BY_ONE)
            assert answer(bound, table, AT_ONCE) == expected, text
            seen["errors" if len(expected) == 1 else "values"] += 1
    if COMPILED:
        assert seen["compiled"] > EXPRESSIONS
        assert min(seen["faults"], seen["errors"]) > EXPRESSIONS // 15
    assert seen["not bound"] < EXPRESSIONS


def test_columns_are_as_computed_row_by_row(seen: Counter[str]) -> None:
    """What cannot be computed is null there."""
    rng = Random(7)
    for _ in range(EXPRESSIONS):
        text, bound = bindable(rng, seen)
        expr = bound.measures[0].expr
        assert expr is not None
        names = {name: each.column for name, each in bound.atoms.items() if isinstance(each, Nav)}
        column = Derived("x", text, _over_columns(expr, names), ARROW_OF[kind_of(expr)])
        if isinstance(column.expr, Attr):
            continue
        for values in (TAME, WILD):
            table = table_of(rng, values)
            found = [
                repr(compute_column(column, table, compiled_rows=least).to_pylist()) for least in (10**9, 0)
            ]
            assert found[0] == found[1], text
    if COMPILED:
        assert min(seen["compiled"], seen["faults"]) > EXPRESSIONS // 40


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ("A.i + 9223372036854775807", "integer overflow"),
        ("A.i / (A.i - A.i)", "division by zero"),
        ("A.i % 0", "division by zero"),
        ("-(A.i - 9223372036854775807 - 2)", "integer overflow"),
    ],
)
def test_what_cannot_be_computed_is_an_error(measure: str, message: str) -> None:
    table = pa.table({"t": [1, 2, 3], "i": pa.array([1, 2, 3], pa.int64())})
    with pytest.raises(DataError, match=f"{message}.* in MEASURES m"):
        run_rows(bound_of(measure, table.schema), table, AT_ONCE)


def test_a_fault_that_nobody_sees_is_none() -> None:
    """The compiled expression computes both sides of AND; the law computes the second only if it decides."""
    table = pa.table({"t": [1, 2, 3], "i": pa.array([0, 2, 0], pa.int64())})
    bound = bound_of("A.i > 0 AND 6 / A.i > 2", table.schema)
    assert run_rows(bound, table, AT_ONCE)["m"].to_pylist() == [False, True, False]


@pytest.mark.parametrize(
    "measure",
    ["length(A.s) + 1", "A.i * length('ab')", "length(upper(A.s)) > 1", "A.s LIKE 'b%' OR A.i = 0",
     "coalesce(upper(A.s), 'x')", "CAST(CAST(A.i AS STRING) AS BIGINT) + 1"],
)  # fmt: skip
def test_text_within_an_expression_is_computed_row_by_row(measure: str) -> None:
    table = pa.table({"t": [1, 2, 3], "i": [0, 2, None], "s": ["a", None, "bcd"]})
    bound = bound_of(measure, table.schema)
    expected = answer(bound, table, ONE_BY_ONE)
    assert answer(bound, table, AT_ONCE) == expected
    assert len(set(expected[1].strip("[]").split(", "))) > 1
