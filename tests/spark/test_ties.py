"""Ties on DataFrames (S1.2): one answer on any partitioning, biased to no value, counted and said."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import CeriseWarning, Options
from cerise.events import EventBatch, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRADES = Path(__file__).parents[3] / "shared" / "data" / "stock_trades_2004-06-02.csv.gz"
HASHED = "events whose order a hash decides"
SHARED = "events share their time"
ROWS = """SELECT * FROM t MATCH_RECOGNIZE (
    {partition} ORDER BY {order} MEASURES A.t AS began, LAST(M.x) AS reached, COUNT(*) AS n {skip}
    PATTERN (A M{{2,}}) {within} DEFINE M AS x {sign} PREV(x))"""


def moves(
    sign: str, *, order: str = "t", partition: str = "", within: str = "", skip: str = "PAST LAST ROW"
) -> str:
    after = f"AFTER MATCH SKIP {skip}"
    return ROWS.format(sign=sign, order=order, partition=partition, within=within, skip=after)


def symmetric(count: int = 3_000, seed: int = 1) -> pa.Table:
    """Events of which three share a time, whose values rise as often as they fall."""
    rng = random.Random(seed)
    return pa.table(
        {
            "t": [i // 3 for i in range(count)],
            "x": [rng.randrange(100) for _ in range(count)],
            "k": [rng.randrange(5) for _ in range(count)],
            "n": range(count),
        }
    )


def rows(found: DataFrame) -> list[str]:
    return sorted(map(str, found.toArrow().to_pylist()))


SASE = (
    "PATTERN SEQ(a, b, c) WHERE [k] AND b.x > a.x AND c.x > b.x WITHIN 3 RETURN a.n AS a, b.n AS b, c.n AS c"
)
QUERIES: dict[str, Callable[[Any, Options], Any]] = {
    "SASE+": lambda events, options: cerise.find(events, SASE, time="t", options=options),
    "SASE+, in one task": lambda events, options: cerise.find(
        events, SASE.replace("[k] AND ", "").replace("WITHIN 3", "WITHIN 4 EVENTS"), time="t", options=options
    ),
    "several": lambda events, options: cerise.find(
        events, [SASE, SASE.replace(">", "<")], time="t", options=options
    ),
    "a row pattern": lambda events, options: cerise.find(events, moves(">"), options=options),
    "a row pattern, by partition": lambda events, options: cerise.find(
        events, moves(">", partition="PARTITION BY k"), options=options
    ),
    "a row pattern, by time": lambda events, options: cerise.find(
        events, moves(">", within="WITHIN 5", skip="TO NEXT ROW"), options=options
    ),
    "misses": lambda events, options: cerise.explain_misses(
        events, SASE, time="t", where="x < 7", limit=20_000, options=options
    ).table,
    "misses of a row pattern": lambda events, options: cerise.explain_misses(
        events, moves(">", partition="PARTITION BY k"), where="x < 7", limit=20_000, options=options
    ).table,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_does_not_depend_on_how_rows_are_divided(spark: SparkSession, name: str) -> None:
    """Nor does a filter that drops nothing change it, nor whether the rows are files."""
    table, ask = symmetric(600), QUERIES[name]
    mixed = table.take(pa.array(random.Random(7).sample(range(600), 600)))
    expected = rows(ask(spark.createDataFrame(table.to_pandas()).repartition(1), Options(partitions=1)))
    assert len(expected) > 5
    frame = spark.createDataFrame(mixed.to_pandas())
    assert rows(ask(frame.repartition(7), Options(partitions=3))) == expected
    assert rows(ask(frame.where("x >= 0"), Options())) == expected


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
@pytest.mark.parametrize("skip", ["PAST LAST ROW", "TO NEXT ROW"])
def test_a_filter_that_drops_nothing_changes_nothing_over_files(
    spark: SparkSession, tmp_path: Path, skip: str
) -> None:
    """Tasks read the files of a DataFrame that is nothing else: its rows have no order all the same."""
    pq.write_table(symmetric(), tmp_path / "events.parquet", row_group_size=100)
    frame = spark.read.parquet(str(tmp_path))
    for clause in (moves(">", within="WITHIN 5", skip=skip), moves("<", skip=skip)):
        whole = rows(cerise.find(frame, clause, options=Options(partitions=4)))
        assert whole == rows(cerise.find(frame.where("x >= 0"), clause))
        by_path = cerise.find(str(tmp_path), clause, spark=True)
        assert rows(by_path) == sorted(map(str, cerise.find(symmetric(), clause).to_pylist())) != whole


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_ties_invent_no_rises_and_hide_no_falls(spark: SparkSession) -> None:
    frame = spark.createDataFrame(symmetric().to_pandas())
    rises, falls = (cerise.find(frame, moves(sign)).count() for sign in "><")
    assert rises > 300
    assert abs(rises - falls) < 0.2 * rises
    query = "PATTERN SEQ(a, b) USE strict_contiguity WHERE b.x {} a.x"
    up, down = (cerise.count(frame, query.format(sign), time="t") for sign in "><")
    assert abs(up - down) < 0.1 * up


def test_sase_on_spark_agrees_with_the_law_in_process(spark: SparkSession) -> None:
    """A table that is put into the order of S1.2 first has the same matches in process."""
    table = symmetric(600)
    frame = spark.createDataFrame(table.to_pandas()).repartition(5)
    schema = Schema(table.schema, "t", arrival=False)
    reads = [[("t",), ("x",), ("k",)], [("n",)]]
    ordered = EventBatch.of(table, schema, reads=reads).table
    here = cerise.find(ordered, SASE, time="t")
    with pytest.warns(CeriseWarning, match=SHARED):
        there = cerise.find(frame, SASE, time="t").toArrow()
    assert sorted(map(str, there.to_pylist())) == sorted(map(str, here.to_pylist()))


# ---- said


def test_ties_are_warned_of_when_an_action_runs(spark: SparkSession) -> None:
    frame = spark.createDataFrame(symmetric(90).to_pandas())
    query = "PATTERN SEQ(a, b) WHERE b.x > a.x WITHIN 2"
    found = cerise.profile(frame, query, time="t")
    with pytest.warns(CeriseWarning, match=rf"{SHARED}.*order=\[…\]"):
        found.matches.collect()
    assert found.report.figures[HASHED] == 60
    assert "no order column decides the order of 60 events" in str(found.report)
    for lazy in (cerise.find(frame, query, time="t"), cerise.find(frame, moves(">"))):
        with pytest.warns(CeriseWarning, match=SHARED):
            lazy.collect()
    with pytest.warns(CeriseWarning, match=f"^60 {SHARED}"):
        cerise.count(frame, query, time="t")
    frame.createOrReplaceTempView("t")
    with pytest.warns(CeriseWarning, match=SHARED):
        cerise.sql(spark, moves(">")).collect()


@pytest.mark.parametrize(
    ("clause", "tied"),
    [
        (moves(">"), 60),
        (moves(">", within="WITHIN 5", skip="TO NEXT ROW"), 60),
        (moves(">", order="t, x"), 3),
        (moves(">", order="t, n"), 0),
        (moves(">", order="n"), 0),
    ],
)
def test_a_report_of_a_clause_counts_ties(
    spark: SparkSession, tmp_path: Path, clause: str, tied: int
) -> None:
    table = symmetric(90, seed=5)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=30)
    for frame in (spark.createDataFrame(table.to_pandas()), spark.read.parquet(str(tmp_path))):
        found = cerise.profile(frame, clause, options=Options(partitions=3))
        found.matches.collect()
        assert found.report.figures.get(HASHED, 0) == tied
    by_path = cerise.profile(str(tmp_path), clause, spark=True)
    by_path.matches.collect()
    assert HASHED not in by_path.report.figures


def test_no_ties_no_warning(spark: SparkSession, recwarn: pytest.WarningsRecorder) -> None:
    table = symmetric(90)
    frame = spark.createDataFrame(table.to_pandas())
    query = "PATTERN SEQ(a, b) WHERE b.x > a.x WITHIN 2"
    strict = Options(strict=True)
    here = cerise.find(table, query, time="t", order="n", options=strict)
    assert cerise.find(frame, query, time="t", order="n", options=strict).count() == len(here)
    assert cerise.count(frame, query, time="n", options=strict) > 0
    assert cerise.find(frame, moves(">", order="t, n"), options=strict).count() > 0
    assert not [each for each in recwarn if issubclass(each.category, CeriseWarning)]


def test_other_partitions_do_not_tie(spark: SparkSession) -> None:
    table = pa.table({"t": [1, 1, 2, 2], "k": [1, 2, 1, 2], "x": [1, 2, 3, 4]})
    frame = spark.createDataFrame(table.to_pandas())
    strict = Options(strict=True)
    assert cerise.count(frame, "PATTERN SEQ(a, b) WHERE [k] AND b.x > a.x", time="t", options=strict) == 2
    assert cerise.find(frame, moves(">", partition="PARTITION BY k"), options=strict).count() == 0


@pytest.mark.parametrize("events", ["DataFrame", "files"])
def test_ties_are_an_error_under_strict(spark: SparkSession, tmp_path: Path, events: str) -> None:
    table = symmetric(90)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=30)
    made = spark.createDataFrame(table.to_pandas()) if events == "DataFrame" else None
    frame = made if made is not None else spark.read.parquet(str(tmp_path))
    strict = Options(strict=True)
    for found in (
        cerise.find(frame, "PATTERN SEQ(a, b) WITHIN 2", time="t", options=strict),
        cerise.find(frame, moves(">"), options=strict),
        cerise.find(frame, moves(">", within="WITHIN 5"), options=strict),
    ):
        with pytest.raises(cerise.BindError, match=rf"{SHARED}(.|\n)*order=\[…\]"):
            found.collect()


def test_matches_of_matches_may_tie(spark: SparkSession, recwarn: pytest.WarningsRecorder) -> None:
    """Nobody can name their order, so nobody is told."""
    frame = spark.range(30).selectExpr("id AS t", "id % 7 AS x")
    query = "PATTERN SEQ(a, b) WHERE b.x > a.x WITHIN 4 INTO Rise; PATTERN SEQ(p, q) FROM Rise WITHIN 2"
    found = cerise.find(frame, query, time="t", options=Options(strict=True))
    assert found.count() > 0
    assert not [each for each in recwarn if issubclass(each.category, CeriseWarning)]


def test_explain_says_what_breaks_ties(spark: SparkSession) -> None:
    frame = spark.createDataFrame(symmetric(30).to_pandas())
    said = cerise.explain(frame, "PATTERN SEQ(a, b) WHERE b.x > a.x WITHIN 2 RETURN a.n AS n", time="t")
    assert "order      t, then a hash of t, x, n: order=[…] that leaves no ties is better" in said
    said = cerise.explain(frame, moves(">", order="t, k"))
    assert (
        "order      t, k, then a hash of t, x, k: columns in ORDER BY that leave no ties are better" in said
    )
    assert "t, then arrival" in cerise.explain(symmetric(30), "PATTERN a", time="t")


# ---- 60,000 trades, half of which share a millisecond with the one before


@pytest.mark.skipif(not TRADES.is_file(), reason=f"the public trade data is not at {TRADES}")
@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_real_trades(spark: SparkSession, tmp_path: Path) -> None:
    table = csv.read_csv(TRADES).slice(0, 60_000)
    table = table.append_column("row", pa.array(range(len(table))))
    frame = spark.createDataFrame(table.to_pandas())
    clause = """SELECT * FROM t MATCH_RECOGNIZE (
        PARTITION BY name ORDER BY {} MEASURES COUNT(*) AS n
        PATTERN (A M{{3,}}) DEFINE M AS price {} PREV(price))"""
    for order in ("ts_ms, row", "ts_ms, id"):
        for sign in "><":
            here = len(cerise.find(table, clause.format(order, sign)))
            assert cerise.find(frame, clause.format(order, sign)).count() == here
    found = {sign: cerise.find(frame.repartition(1), clause.format("ts_ms", sign)).count() for sign in "><"}
    for sign in "><":
        assert cerise.find(frame.repartition(7), clause.format("ts_ms", sign)).count() == found[sign]
        assert cerise.find(frame.where("price >= 0"), clause.format("ts_ms", sign)).count() == found[sign]
    pq.write_table(table, tmp_path / "trades.parquet")
    assert cerise.find(spark.read.parquet(str(tmp_path)), clause.format("ts_ms", ">")).count() == found[">"]
    true = {sign: len(cerise.find(table, clause.format("ts_ms, id", sign))) for sign in "><"}
    assert true == {">": 169, "<": 188}
    assert abs(found[">"] - found["<"]) < 0.15 * found[">"]  # sorted by price they were 236 and 100
