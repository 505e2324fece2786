"""Odd names and strings: every one that Arrow allows gives the answer of the process on Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import cerise
from cerise import Options
from tests.tiers import mostly_nightly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = [
    "${spark.app.name}", "${x}", "${env:HOME}", "${cerise.dollar}", "*", "a.b", "a.*", "`", "a`b", "``",
    "it's", 'say "so"', "a\nb", "\t", " ", "", "größe", "𝄞", "{", "}", "{x}", "%s", "--", "/*", ";", "\\",
    "\\u0024", "SELECT", "c0", "_s0", "place",
    "${", "$", "${a b}", "${env:PATH}${x}", "${${x}}",
]  # fmt: skip
TEXTS = [*NAMES, "x", "'", "''", "\\'", "\\n", "null", "${x", "$${x}"]


def quoted(name: str, mark: str = '"') -> str:
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def events(names: list[str], seed: int) -> pa.Table:
    """A time, a type, a key, a number and a struct, each under a name of its own; values are odd as well."""
    rng = random.Random(seed)
    time, type_, key, number, struct, field = names
    rows = range(24)
    some = [rng.choice(TEXTS) for _ in range(3)]
    return pa.table(
        {
            time: pa.array(rows, pa.int64()),
            type_: pa.array([some[i % 3] for i in rows], pa.string()),
            key: pa.array([rng.choice(TEXTS[:2]) for _ in rows], pa.string()),
            number: pa.array([rng.randrange(4) for _ in rows], pa.int64()),
            struct: pa.array([{field: rng.randrange(3)} for _ in rows], pa.struct([(field, pa.int64())])),
        }
    )


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table, from_arrow_schema(table.schema)).repartition(2)


def rows(found: Any) -> list[str]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted(repr(tuple(row.items())) for row in table.to_pylist())


def chosen(count: int) -> list[list[str]]:
    """Sets of names such that each name plays every part."""
    sets = []
    for number in range(count):
        at = [(number * 7 + part * 5) % len(NAMES) for part in range(5)]
        sets.append([*(NAMES[i] for i in at), NAMES[(number * 11) % len(NAMES)]])
    return [each for each in sets if len({name.lower() for name in each[:5]}) == 5 and "" not in each[:2]]


CHOSEN = [each for each in chosen(14) if "" not in each]


@pytest.mark.parametrize("names", mostly_nightly(chosen(12), chosen(12)[::4]), ids=repr)
def test_sase_gives_the_answer_of_the_process(spark: SparkSession, names: list[str]) -> None:
    time, type_, key, number, struct, field = names
    table = events(names, len(time))
    first, second = (quoted(each) for each in table.column(1).to_pylist()[:2])
    n, s, f, k = (quoted(each) for each in (number, struct, field, key))
    text = table.column(2)[0].as_py().replace("'", "''")
    query = f"""PATTERN SEQ({first} a, {second} b) WHERE b.{n} >= a.{n} AND a.{s}.{f} < 3 AND b.{k} != :text
        AND a.{k} IN ('{text}', 'x', '${{x}}') WITHIN 9"""
    roles = {"time": time, "type": type_, "params": {"text": "${env:HOME}"}}
    odd = frame(spark, table)
    assert rows(cerise.find(odd, query, **roles)) == rows(cerise.find(table, query, **roles))
    keyed = (
        f"PATTERN SEQ(a, b) PARTITION BY {k} WHERE b.{n} > a.{n} WITHIN 4 RETURN COUNT(*), SUM(b.{n}) AS {n}"
    )
    for totals in (f"{keyed} PER PARTITION", keyed):
        here = cerise.find(table, totals, time=time)
        assert rows(cerise.find(odd, totals, time=time, options=Options(partitions=2))) == rows(here)


@pytest.mark.parametrize("names", mostly_nightly(CHOSEN, CHOSEN[::4]), ids=repr)
def test_a_clause_gives_the_answer_of_the_process(spark: SparkSession, names: list[str]) -> None:
    time, type_, key, number, struct, field = names
    table = events(names, len(key))
    t, n, s, f, k, y = (quoted(each, "`") for each in (time, number, struct, field, key, type_))
    text = table.column(1)[0].as_py().replace("\\", "\\\\").replace("'", "\\'")
    for show in ("ONE ROW PER MATCH", "ALL ROWS PER MATCH"):
        statement = f"""SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY {k} ORDER BY {t}
            MEASURES A.{n} + 1 AS `m ${{x}}`, LAST(B.{y}) AS `m*`, '${{env:HOME}}' AS `m.b` {show}
            PATTERN (A B+) DEFINE A AS A.{y} = '{text}' OR {s}.{f} >= 1, B AS B.{n} >= PREV(B.{n}))"""
        assert rows(cerise.find(frame(spark, table), statement)) == rows(cerise.find(table, statement))


def test_names_of_a_store_that_spark_fills(spark: SparkSession, tmp_path: Path) -> None:
    names = ["${x}", "*", "größe", "a`b", "s", "${env:HOME}"]
    table = events(names, 3)
    store = cerise.Store.create(tmp_path / "store", schema=table.schema, time="${x}", type="*")
    store.append(frame(spark, table))
    query = 'PATTERN SEQ(a, b) WHERE b."a`b" > a."a`b" WITHIN 3'
    assert cerise.count(store, query, spark=True) == cerise.count(table, query, time="${x}", type="*") > 0


def test_misses_of_odd_names(spark: SparkSession) -> None:
    table = events(["${x}", "*", "${env:HOME}", "a.b", "s", "f"], 5)
    query = 'PATTERN SEQ(a, b) WHERE b."a.b" > a."a.b" + 2 WITHIN 3'
    asked = {"time": "${x}", "key": "${env:HOME}", "where": "`*` != '${env:HOME}'", "limit": 900}
    there = cerise.explain_misses(frame(spark, table), query, **asked).table
    here = cerise.explain_misses(table, query, **asked | {"where": asked["where"].replace("`", '"')}).table
    assert rows(there) == rows(here)


def test_spark_still_substitutes_in_what_is_its_own(spark: SparkSession) -> None:
    spark.conf.set("spark.cerise.asked", "7")
    assert cerise.sql(spark, "SELECT ${spark.cerise.asked} AS x").collect()[0].x == 7


def test_where_substitution_is_off(spark: SparkSession) -> None:
    table = events(["${x}", "y", "k", "n", "s", "f"], 5)
    spark.conf.set("spark.sql.variable.substitute", "false")
    try:
        query = "PATTERN SEQ(a, b) WHERE a.k = '${spark.app.name}' AND b.n > a.n WITHIN 3"
        found = cerise.find(frame(spark, table), query, time="${x}")
        assert rows(found) == rows(cerise.find(table, query, time="${x}"))
    finally:
        spark.conf.unset("spark.sql.variable.substitute")
