"""Statements have the same columns, types and rows in this process and on Spark."""

# ruff: noqa: E501  statements are easier to read in one line

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import cerise
from tests.local_sql.statements import expressions, queries, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GIVEN = tables()
EVERY = 6  # statements: one of so many runs in `make test`
AT_ONCE = 30  # expressions in one statement
OVERFLOWS = ("CAST(x AS INT)", "n::INT % 5")


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[SparkSession]:
    for name, table in GIVEN.items():
        local = {each.name for each in table.schema if each.type == pa.timestamp("us")}
        columns = [
            f"CAST({each} AS TIMESTAMP_NTZ) AS {each}" if each in local else each
            for each in table.column_names
        ]
        spark.createDataFrame(table).selectExpr(*columns).createOrReplaceTempView(name)
    yield spark
    for name in GIVEN:
        spark.catalog.dropTempView(name)


def cell(value: Any) -> Any:
    """A value that compares: the last digit of a double may differ, as sums are in any order."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.12g}")
    return [cell(each) for each in value] if isinstance(value, list) else value


def rows(table: pa.Table, *, ordered: bool) -> list[Any]:
    found = [
        tuple(map(cell, row)) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]
    return found if ordered else sorted(found, key=repr)


def type_of(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return f"list of {type_.value_type}"
    return "instant" if pa.types.is_timestamp(type_) and type_.tz else str(type_)


def check(spark: SparkSession, text: str) -> None:
    here, there = cerise.sql(text, **GIVEN), cerise.sql(spark, text).toArrow()
    assert here.column_names == there.column_names
    assert list(map(type_of, here.schema.types)) == list(map(type_of, there.schema.types))
    ordered = "ORDER BY" in text
    assert rows(here, ordered=ordered) == rows(there, ordered=ordered)


def marked(texts: list[str]) -> list[Any]:
    return [
        pytest.param(each, marks=[] if number % EVERY == 0 else [pytest.mark.nightly])
        for number, each in enumerate(texts)
    ]


@pytest.mark.parametrize("text", marked(queries()))
def test_a_statement(views: SparkSession, text: str) -> None:
    check(views, text)


def batches(found: list[str]) -> list[str]:
    parts = [found[i : i + AT_ONCE] for i in range(0, len(found), AT_ONCE)]
    return [
        "SELECT id, " + ", ".join(f"{each} AS c{i}" for i, each in enumerate(part)) + " FROM t ORDER BY id"
        for part in parts
    ]


@pytest.mark.parametrize("number", range(len(expressions()) // AT_ONCE + 1))
def test_functions_of_one_row(views: SparkSession, number: int) -> None:
    texts = batches([each for each in expressions() if each not in OVERFLOWS])
    check(views, texts[number])


@pytest.mark.parametrize("text", OVERFLOWS)
def test_what_overflows_is_an_error_on_both(views: SparkSession, text: str) -> None:
    with pytest.raises(cerise.DataError, match="out of range"):
        cerise.sql(f"SELECT {text} AS c FROM t", **GIVEN)
    with pytest.raises(Exception, match="OVERFLOW"):
        cerise.sql(views, f"SELECT {text} AS c FROM t").toArrow()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, id + 1, -id, lower(s), x * 2, count(*) OVER () AS c FROM t",
        "SELECT sum(n), count(*), avg(x) FROM t",
        "SELECT s || '!', k IN (1, 2), s IS NOT NULL, NOT b, CASE WHEN b THEN 1 ELSE 2 END, CAST(k AS DOUBLE) FROM t",
    ],
)
def test_columns_without_a_name(views: SparkSession, text: str) -> None:
    check(views, text)


# ---- at random

NUMBERS, TEXTS, MOMENTS = (
    ("id", "k", "small", "x", "f", "amount", "3", "2.5", "-1"),
    ("s", "'an'", "upper(s)"),
    ("day", "at"),
)


def number(draw: random.Random, depth: int) -> str:
    if depth == 0:
        return draw.choice(NUMBERS)
    one, two = (number(draw, draw.randrange(depth)) for _ in range(2))
    made = [
        f"({one} + {two})", f"({one} - {two})", f"({one} * {two})", f"abs({one})", f"coalesce({one}, {two})",
        f"round(CAST({one} AS DOUBLE), {draw.randrange(3)})", f"CASE WHEN {test(draw, depth - 1)} THEN {one} ELSE {two} END",
        f"greatest({one}, {two})", f"least({one}, {two})", f"length({text_of(draw, depth - 1)})", f"(-({one}))",
        f"(CAST({one} AS DOUBLE) / (abs({two}) + 1))", f"floor({one})", f"hour({draw.choice(MOMENTS)})",
        f"datediff({draw.choice(MOMENTS)}, DATE '2024-01-05')", f"if({test(draw, depth - 1)}, {one}, {two})",
    ]  # fmt: skip
    return draw.choice(made)


def text_of(draw: random.Random, depth: int) -> str:
    if depth <= 0:
        return draw.choice(TEXTS)
    one, two = (text_of(draw, draw.randrange(depth)) for _ in range(2))
    made = [
        f"({one} || {two})", f"lower({one})", f"substring({one}, {draw.randrange(-4, 5)}, {draw.randrange(4)})",
        f"trim({one})", f"coalesce({one}, {two})", f"replace({one}, 'n', 'x')", f"left({one}, {draw.randrange(3)})",
        f"CASE WHEN {test(draw, depth - 1)} THEN {one} ELSE {two} END", f"nullif({one}, {two})", f"concat({one}, id)",
    ]  # fmt: skip
    return draw.choice(made)


def test(draw: random.Random, depth: int) -> str:
    if depth <= 0:
        return draw.choice(("b", "k > 1", "s = 'ann'", "x IS NULL"))
    one, two = (number(draw, depth - 1) for _ in range(2))
    made = [
        f"({one} < {two})", f"({one} = {two})", f"({one} <=> {two})", f"({one} >= {two})", f"(NOT {test(draw, depth - 1)})",
        f"({test(draw, depth - 1)} AND {test(draw, depth - 1)})", f"({test(draw, depth - 1)} OR {test(draw, depth - 1)})",
        f"({one} IS NULL)", f"({text_of(draw, depth)} LIKE '%n%')", f"({one} BETWEEN 0 AND {two})", f"({one} IN (1, {two}))",
        f"({text_of(draw, depth)} < {text_of(draw, depth)})", f"({text_of(draw, depth)} RLIKE 'n+')",
    ]  # fmt: skip
    return draw.choice(made)


test.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.nightly) for each in range(1, 30))]
)
def test_random_expressions(views: SparkSession, seed: int) -> None:
    draw, found = random.Random(seed), []
    while len(found) < AT_ONCE:
        each = draw.choice((number, text_of, test))(draw, 3)
        try:
            cerise.sql(f"SELECT {each} AS c FROM t WHERE id <> 4", **GIVEN)
        except cerise.UnsupportedError:  # such as a decimal of more than 38 digits
            continue
        found.append(each)
    shown = ", ".join(f"{each} AS c{i}" for i, each in enumerate(found))
    check(views, f"SELECT id, {shown} FROM t WHERE id <> 4 ORDER BY id")
