"""`find` on Spark DataFrames: order, ties, partitions, types and errors."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import cerise
from cerise import Options
from cerise.kinds import Kind
from cerise.plan.pushdown import Comparison, as_sql
from cerise.plan.router import router_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RISES = "PATTERN SEQ(a, b+, c) WHERE [k] AND b[i].x > b[i-1].x AND c.x < a.x WITHIN 20"


def ids(found: Any) -> list[int]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted(table.column("match_id").to_pylist())


def random_events(count: int, keys: int, seed: int = 0) -> pa.Table:
    rng = random.Random(seed)
    return pa.table(
        {
            "k": [rng.choice([None, *range(keys)]) for _ in range(count)],
            "t": sorted(rng.randrange(count // 3) for _ in range(count)),  # three events at a time
            "x": [rng.choice([None, *range(50)]) for _ in range(count)],
            "n": rng.sample(range(count), count),
        }
    )


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize(
    "query",
    [
        RISES,
        "PATTERN SEQ(a, b) PARTITION BY k WHERE a.x = b.x WITHIN 5 EVENTS",
        "PATTERN SEQ(a, b, c) USE strict_contiguity PARTITION BY k WHERE a.x < b.x AND b.x < c.x",
        "PATTERN SEQ(a, NOT b, c) WHERE [k] AND b.x > a.x AND c.x = a.x WITHIN 30 OUTPUT NON_OVERLAPPING",
        "PATTERN SEQ(a, b) WHERE a.x = 7 AND b.x = 9 WITHIN 3",
    ],
)
def test_the_answer_does_not_depend_on_partitions(spark: SparkSession, query: str, partitions: int) -> None:
    events = random_events(600, 12)
    frame = spark.createDataFrame(events).repartition(5)
    expected = ids(cerise.find(events, query, time="t", order="n"))
    found = cerise.find(frame, query, time="t", order="n", options=Options(partitions=partitions))
    assert expected
    assert ids(found) == expected


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ("WITHIN 5 OUTPUT NON_OVERLAPPING", "which matches overlap is known only from the first event on"),
        ("WITHIN 5 LIMIT 2 PER EVENT", "LIMIT chooses among matches that start anywhere"),
        ("WITHIN 5 EVENTS", "the window counts events, and their positions are not known"),
        ("", "without WITHIN a match may span all events"),
    ],
)
def test_explain_says_why_one_task_has_all(spark: SparkSession, rest: str, why: str) -> None:
    frame = spark.createDataFrame(random_events(30, 2))
    query = f"PATTERN SEQ(a, b) WHERE a.x = b.x {rest}"
    lines = cerise.explain(frame, query, time="t", order="n").splitlines()
    assert f"exchange   all events in one task: {why}" in lines
    keyed = cerise.explain(frame, query.replace("WHERE", "PARTITION BY k WHERE"), time="t", order="n")
    assert "exchange   exchanged by key" in keyed


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_ties_are_broken_by_what_the_query_reads(spark: SparkSession) -> None:
    """S1.2: however the rows are partitioned, and whatever else is returned."""
    events = (
        random_events(200, 3).drop_columns("n").append_column("note", pa.array([f"{i}" for i in range(200)]))
    )
    query = "PATTERN SEQ(a, b) WHERE b.x > a.x WITHIN 1"
    answers = []
    for number in (1, 3, 8):
        order = random.Random(number).sample(range(200), 200)
        frame = spark.createDataFrame(events.take(pa.array(order))).repartition(number)
        found = cerise.find(frame, query, time="t").toArrow()
        answers.append(sorted(map(str, found.to_pylist())))
        count = cerise.find(frame, query + " RETURN COUNT(*)", time="t").collect()[0]["count"]
        assert count == len(found)
    assert answers[0] == answers[1] == answers[2] != []


def test_it_is_lazy_and_composable(spark: SparkSession) -> None:
    broken = spark.range(3).selectExpr("id AS t", "CAST(raise_error('ran too early') AS STRING) AS x")
    found = cerise.find(broken, "PATTERN a WHERE a.x = 'y'", time="t")  # runs nothing
    assert found.columns == ["match_id", "first_time", "last_time", "a"]
    with pytest.raises(Exception, match="ran too early"):
        found.collect()
    pairs = cerise.find(spark.range(6).selectExpr("id AS t"), "PATTERN SEQ(a, b) WITHIN 1", time="t")
    assert pairs.where("a.t >= 2").groupBy().count().collect()[0][0] == 3
    again = cerise.find(pairs, "PATTERN SEQ(p, q) WHERE q.a.t = p.b.t WITHIN 1", time="last_time")
    assert again.count() == 4


def test_only_the_needed_columns_cross(spark: SparkSession) -> None:
    frame = spark.createDataFrame(random_events(10, 2)).withColumnRenamed("n", "never read")
    found = cerise.find(frame, "PATTERN a RETURN a.x AS x", time="t")
    plan = found._jdf.queryExecution().optimizedPlan().toString()
    assert "never read" not in plan.split("MapInArrow")[1].split("LogicalRDD")[0]


@pytest.mark.parametrize("queries", [5, 60])
def test_spark_keeps_every_event_that_one_of_many_queries_needs(spark: SparkSession, queries: int) -> None:
    rng = random.Random(queries)
    doubles = [-math.inf, -0.0, 0.0, 0.5, 2.0, 7.5, math.inf, math.nan, None]
    rows = [
        (rng.choice(["A", "B", "é", "it's", None]), rng.choice([*range(9), None]), rng.choice(doubles))
        for _ in range(80)
    ]
    wanted = tuple(
        (
            Comparison(("kind",), Kind.STRING, "=", (rng.choice(["A", "é", "it's"]),)),
            Comparison(("x",), Kind.INT, rng.choice((">", ">=")), (rng.randrange(2, 9),)),
            Comparison(("y",), Kind.FLOAT, rng.choice((">", "=", "in")), (rng.choice([0.0, 0.5, 2.0]),)),
        )
        for _ in range(queries)
    )  # fmt: skip
    columns = ("kind", "x", "y")
    table = pa.table(dict(zip(columns, zip(*rows, strict=True), strict=True)))
    events = [(i, *row) for i, row in enumerate(rows)]
    frame = spark.createDataFrame(events, "place int, kind string, x bigint, y double")
    kept = frame.where(as_sql(wanted, {(name,): name for name in columns})).toArrow()["place"].to_pylist()
    needed = np.flatnonzero(router_of(wanted).mask(table)).tolist()
    assert set(needed) <= set(kept)
    assert len(kept) < len(rows)
    assert queries > 21 or sorted(kept) == needed


def test_null_and_odd_float_keys_stay_together(spark: SparkSession) -> None:
    keys = [0.0, -0.0, float("nan"), float("nan"), None, None, 1.5]
    frame = spark.createDataFrame(list(zip(keys, range(7), strict=True)), "k double, t long")
    found = cerise.find(frame, "PATTERN SEQ(a, b)", time="t", key="k", options=Options(partitions=7))
    assert sorted((row.a.t, row.b.t) for row in found.collect()) == [(0, 1), (2, 3), (4, 5)]
    equal = cerise.find(frame, "PATTERN SEQ(a, b) WHERE [k]", time="t")
    assert sorted((row.a.t, row.b.t) for row in equal.collect()) == [(0, 1), (2, 3)]


def typed(spark: SparkSession) -> DataFrame:
    return spark.sql(
        """SELECT * FROM VALUES
        (1, TIMESTAMP '2024-03-31 00:30:00Z', TIMESTAMP_NTZ '2024-03-31 00:30:00', DATE '1960-02-29',
         1.5BD, 2.5F, 3S, named_struct('q', named_struct('r', 'ä')), array(1, 2), map('a', 1), X'00FF',
         parse_json('{"a": 1}'), INTERVAL '90' SECOND, 'x'),
        (2, TIMESTAMP '2024-03-31 02:30:00Z', TIMESTAMP_NTZ '2024-03-31 02:30:00', DATE '1960-03-01',
         2.5BD, 3.5F, 4S, null, null, null, null, null, null, null)
        AS v(n, ltz, ntz, day, dec, f, s, p, arr, m, bin, var, gap, text)"""
    )


@pytest.mark.parametrize("time", ["n", "ltz", "ntz", "day"])
def test_every_type_goes_in_and_comes_out_as_it_was(spark: SparkSession, time: str) -> None:
    frame = typed(spark)
    within = "WITHIN 1" if time == "n" else "WITHIN 1 day" if time == "day" else "WITHIN 2 hours"
    found = cerise.find(frame, f"PATTERN SEQ(a, b+) WHERE a.p.q.r = 'ä' AND a.dec < b.f {within}", time=time)
    assert found.schema == cerise.schema(frame, f"PATTERN SEQ(a, b+) {within}", time=time)
    assert found.schema["a"].dataType.simpleString() == frame.schema.simpleString()
    (row,) = found.selectExpr("a.*").collect()
    expected = frame.where("n = 1").collect()[0]
    assert str(row) == str(expected)
    assert row.dec == decimal.Decimal("1.5")
    assert row.day == dt.date(1960, 2, 29)


def test_what_a_return_column_is_called_and_typed(spark: SparkSession) -> None:
    found = cerise.find(
        typed(spark),
        "PATTERN SEQ(a, b+) RETURN a.var AS v, b.dec AS d, count(b) AS n, a.f + 1 AS f",
        time="n",
    )
    assert [(f.name, f.dataType.simpleString()) for f in found.schema[3:]] == [
        ("v", "variant"), ("d", "array<decimal(2,1)>"), ("n", "bigint"), ("f", "double"),
    ]  # fmt: skip
    assert found.selectExpr("CAST(v AS STRING)", "n", "f").collect()[0] == ('{"a":1}', 1, 3.5)


def test_a_column_that_cannot_leave_spark(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS t, INTERVAL '1' YEAR AS y")
    with pytest.raises(cerise.BindError, match="column 'y' of type interval year"):
        cerise.find(frame, "PATTERN a", time="t")


def test_names_that_need_quoting(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT 1 AS `the time`, 'A' AS `t.y``pe`, 5 AS `größe`, named_struct('a b', 7) AS `s.t`"
    )
    query = 'PATTERN A a PARTITION BY "größe" WHERE a."s.t"."a b" = 7'
    (row,) = cerise.find(frame, query, time="the time", type="t.y`pe", order="größe").collect()
    assert row["a"]["größe"] == row["größe"] == 5


def test_no_rows_and_no_columns_but_time(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "t long, k string")
    assert cerise.find(empty, "PATTERN SEQ(a, b) WHERE [k]", time="t").collect() == []
    assert cerise.find(empty, "PATTERN a RETURN COUNT(*)", time="t", key="k").collect() == [(0,)]
    assert cerise.find(spark.range(3), "PATTERN a RETURN COUNT(*)", time="id").collect() == [(3,)]


@pytest.mark.parametrize("key", [(), "k"])
def test_null_times_are_shown(spark: SparkSession, key: Any) -> None:
    frame = spark.createDataFrame([(1, "u"), (None, "v"), (None, "v")], "t long, k string")
    with pytest.raises(cerise.DataError, match=r"2 events have no time: 't' is null, as in .*'k': 'v'"):
        cerise.find(frame, "PATTERN SEQ(a, b)", time="t", key=key).collect()


def test_errors_in_a_task_reach_the_user(spark: SparkSession) -> None:
    with pytest.raises(cerise.DataError, match=r"^division by zero in RETURN 1 / a\.id"):
        cerise.find(spark.range(1), "PATTERN a RETURN 1 / a.id AS y", time="id").collect()
    query = "PATTERN a+ USE skip_till_any_match"
    found = cerise.find(spark.range(20), query, time="id", options=Options(max_runs=100))
    with pytest.raises(cerise.PlanError, match=r"^one event, at time 7, completes more than 100 matches"):
        found.collect()


def test_what_is_no_spark_data_frame(spark: SparkSession) -> None:
    with pytest.raises(cerise.UnsupportedError, match="a schema has no events"):
        cerise.find(spark.range(1).schema, "PATTERN a", time="id")
    with pytest.raises(cerise.UnsupportedError, match="SparkSession is not a Spark DataFrame"):
        cerise.find(spark, "PATTERN a", time="id")
    alike = spark.sql("SELECT 1 AS t, 2 AS x, 3 AS X")
    with pytest.raises(cerise.BindError, match="cannot tell the columns 'x' and 'X' apart"):
        cerise.find(alike, "PATTERN a", time="t")


def test_errors_in_the_query_come_before_any_job(spark: SparkSession) -> None:
    with pytest.raises(cerise.BindError, match="did you mean 'id'"):
        cerise.find(spark.range(1), "PATTERN a WHERE a.idd = 1", time="id")
    with pytest.raises(cerise.BindError, match="time column 'ts'"):
        cerise.find(spark.range(1), "PATTERN a", time="ts")


def test_a_session_that_is_not_ours(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    frame = other.sql(
        "SELECT TIMESTAMP '2024-01-01 00:00:00' AS ts UNION ALL SELECT TIMESTAMP '2024-01-01 01:00:00'"
    )
    found = cerise.find(frame, "PATTERN SEQ(a, b) WITHIN 1 hour", time="ts")
    assert found.selectExpr("CAST(first_time AS STRING)", "CAST(b.ts AS STRING)").collect() == [
        ("2024-01-01 00:00:00", "2024-01-01 01:00:00")
    ]
