"""`cerise.watch` on Spark: both homes of state, both languages, restarts, late events, refusals."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as f

import cerise
from cerise import BindError, StoreError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECOND = 1_000_000
SCHEMA = "ts timestamp, kind string, id long, n long"
SEQ = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 30 seconds RETURN a.n AS a, b.n AS b"
ABSENT = "PATTERN SEQ(A a, NOT B b) WHERE [id] WITHIN 10 seconds RETURN a.n AS a, a.n AS b"
FALLS = """
    SELECT * FROM events MATCH_RECOGNIZE (
        PARTITION BY id ORDER BY ts MEASURES A.n AS a, LAST(D.n) AS b
        PATTERN (A D+) WITHIN INTERVAL '20' SECOND DEFINE D AS n < PREV(n)
    )"""
BY_NUMBER = FALLS.replace("ORDER BY ts", "ORDER BY n").replace("INTERVAL '20' SECOND", "20")
Event = tuple[int, str, int, int]  # seconds, kind, id, n


def table_of(events: list[Event]) -> pa.Table:
    ts, kind, key, n = zip(*events, strict=True) if events else ((), (), (), ())
    return pa.table(
        {
            "ts": pa.array([each * SECOND for each in ts], pa.timestamp("us", "UTC")),
            "kind": pa.array(kind, pa.string()),
            "id": pa.array(key, pa.int64()),
            "n": pa.array(n, pa.int64()),
        }
    )


class Folder:
    """A folder of Parquet files that a stream reads one after another."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        path.mkdir()

    def put(self, events: list[Event]) -> None:
        file = self.path / f"{self.count:05}.parquet"
        pq.write_table(table_of(events), self.path / "draft")
        self.count += 1
        os.utime(self.path / "draft", (1_000_000 + self.count, 1_000_000 + self.count))
        (self.path / "draft").rename(file)  # Spark reads files by modification time

    def stream(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.option("pathGlobFilter", "*.parquet").parquet(str(self.path))


def run(matches: DataFrame, path: Path) -> Any:
    """Run a stream over what is there, into Parquet files."""
    query = (
        matches.writeStream.format("parquet")
        .option("path", str(path / "out"))
        .option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def pairs_in(spark: SparkSession, path: Path) -> Counter[tuple[int, int]]:
    rows = spark.read.parquet(str(path / "out")).collect()
    return Counter((row["a"], row["b"]) for row in rows)


@pytest.fixture(params=["spark", "files"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Where the state rests."""
    return {} if request.param == "spark" else {"state": str(tmp_path / "state")}


EVENTS: list[list[Event]] = [
    [(1, "A", 1, 9), (2, "B", 1, 8), (3, "A", 2, 7)],
    [(6, "B", 1, 6), (5, "A", 1, 5)],  # out of order, within the delay
    [(20, "B", 2, 4), (21, "A", 3, 3)],
    [(8, "A", 1, 99)],  # late: the watermark is 16
    [(60, "A", 4, 2), (61, "B", 4, 1)],
    [(120, "B", 9, 0), (200, "A", 9, 0)],
]


@pytest.mark.parametrize(("direct", "in_files"), [(True, False), (True, True), (False, True)])
def test_lake_files_are_cut_by_the_tasks_that_read_them(
    spark: SparkSession, tmp_path: Path, direct: bool, in_files: bool
) -> None:
    home = {"state": str(tmp_path / "state")} if in_files else {}
    folder = Folder(tmp_path / "in")
    for batches in (EVENTS[:3], EVENTS[3:]):  # with a restart between
        for batch in batches:
            folder.put(batch)
        events = cerise.stream(folder.path, max_rows=1, spark=spark)
        matches = cerise.watch(
            events if direct else events.where("true"), SEQ, time="ts", type="kind", delay="5 seconds",
            buckets=2, late=str(tmp_path / "late"), **home,
        )  # fmt: skip
        query = run(matches, tmp_path)
    assert pairs_in(spark, tmp_path) == Counter([(9, 8), (5, 6), (7, 4), (2, 1)])
    (late,) = pq.read_table(tmp_path / "late").to_pylist()
    assert (late["n"], late["reason"]) == (99, "late")
    assert cerise.watched(query).watermark == dt.datetime.fromtimestamp(195, dt.UTC)
    plan = matches._jdf.queryExecution().analyzed().toString()
    assert plan.count("MapInArrow") == 1 + (not direct)  # decodes matches, or steps the state in files


def test_fields_that_are_never_null_may_lie_in_a_struct_that_is(
    spark: SparkSession, tmp_path: Path, home: dict[str, Any]
) -> None:
    folder = Folder(tmp_path / "in")
    for batch in EVENTS:
        folder.put(batch)
    place = f.struct(f.coalesce("n", f.lit(0)).alias("n"), f.array(f.lit(1)).alias("ones"))
    events = folder.stream(spark).withColumn("place", f.when(f.col("n") > 5, place))
    query = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 30 seconds"
    matches = cerise.watch(events, query, time="ts", type="kind", delay="5 seconds", buckets=2, **home)
    run(matches, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "out")).selectExpr("a.n", "a.place.n AS inside", "b.place.ones")
    found = Counter((row["n"], row["inside"], str(row["ones"])) for row in rows.collect())
    assert found == {(9, 9, "[1]"): 1, (5, None, "[1]"): 1, (7, 7, "None"): 1, (2, None, "None"): 1}


def test_a_stream_finds_what_batch_finds_after_any_restart(
    spark: SparkSession, tmp_path: Path, home: dict[str, Any]
) -> None:
    folder = Folder(tmp_path / "in")
    queries = {"seq": SEQ, "absent": ABSENT}
    for batch in EVENTS:  # a restart after every batch
        folder.put(batch)
        matches = cerise.watch(
            folder.stream(spark), queries, time="ts", type="kind", delay="5 seconds", buckets=2,
            late=str(tmp_path / "late"), **home,
        )  # fmt: skip
        query = run(matches, tmp_path)
    accepted = table_of([each for batch in EVENTS for each in batch if each[3] != 99])
    expected: Counter[tuple[int, int]] = Counter()
    watermark = 195 * SECOND
    for text in queries.values():
        found = cerise.find(accepted, text, time="ts", type="kind")
        window = 10 * SECOND if "NOT" in text else 0
        expected.update(
            (row["a"], row["b"])
            for row in found.to_pylist()
            if row["last_time"].timestamp() * SECOND + window < watermark
        )
    assert pairs_in(spark, tmp_path) == expected
    late = pq.read_table(tmp_path / "late")
    assert late.column("n").to_pylist() == [99]
    assert late.column("reason").to_pylist() == ["late"]
    figures = query.lastProgress["observedMetrics"]["cerise"]
    assert figures["watermark"] == watermark


@pytest.mark.parametrize("by", ["watch", "sql"])
def test_match_recognize_on_a_stream(
    spark: SparkSession, tmp_path: Path, home: dict[str, Any], by: str
) -> None:
    if by == "sql" and home:
        pytest.skip("cerise.sql keeps the state in Spark's own state store")
    folder = Folder(tmp_path / "in")
    events: list[Event] = [
        (1, "x", 1, 9), (2, "x", 1, 8), (3, "x", 2, 7), (4, "x", 1, 5), (6, "x", 2, 9), (9, "x", 1, 7),
        (12, "x", 2, 8), (14, "x", 2, 3), (60, "x", 1, 1), (61, "x", 2, 1), (300, "x", 3, 1),
    ]  # fmt: skip
    for event in events:
        folder.put([event])
    stream = folder.stream(spark).withWatermark("ts", "2 seconds")
    if by == "sql":
        stream.createOrReplaceTempView("events")
        matches = cerise.sql(spark, FALLS)
    else:
        matches = cerise.watch(stream, FALLS, buckets=2, **home)
    run(matches, tmp_path)
    found = cerise.find(table_of(events), FALLS)
    expected = Counter((row["a"], row["b"]) for row in found.to_pylist())
    assert pairs_in(spark, tmp_path) == expected
    assert len(expected) == 2


def test_two_sources_with_a_delay_each(spark: SparkSession, tmp_path: Path) -> None:
    orders, payments = Folder(tmp_path / "orders"), Folder(tmp_path / "payments")
    orders.put([(1, "", 1, 1), (2, "", 2, 2), (500, "", 3, 3)])
    payments.put([(9, "", 1, 9)])
    payments.put([(600, "", 7, 9)])
    matches = cerise.watch(
        {"orders": orders.stream(spark).drop("kind"), "payments": payments.stream(spark).drop("kind", "n")},
        "PATTERN SEQ(orders o, NOT payments p) WHERE [id] WITHIN 1 minute RETURN o.n AS a, o.id AS b",
        time="ts", delay={"orders": "5 seconds", "payments": "1 minute"}, state=str(tmp_path / "state"),
    )  # fmt: skip
    run(matches, tmp_path)
    assert pairs_in(spark, tmp_path) == Counter({(2, 2): 1})


def test_a_changed_query_is_refused_unless_it_is_replaced(
    spark: SparkSession, tmp_path: Path, home: dict[str, Any]
) -> None:
    folder = Folder(tmp_path / "in")
    given = {"time": "ts", "type": "kind", "delay": "5 seconds", "buckets": 1, **home}
    folder.put([(1, "A", 1, 1)])
    run(cerise.watch(folder.stream(spark), {"q": SEQ, "gone": ABSENT}, **given), tmp_path)
    changed = SEQ.replace("30 seconds", "40 seconds")
    folder.put([(2, "B", 1, 2)])
    with pytest.raises(StoreError, match="query q differs"):
        run(cerise.watch(folder.stream(spark), {"q": changed, "new": SEQ}, **given), tmp_path)
    run(cerise.watch(folder.stream(spark), {"q": changed, "new": SEQ}, replace=["q"], **given), tmp_path)
    folder.put([(3, "A", 5, 5), (4, "B", 5, 6), (100, "A", 7, 7)])
    run(cerise.watch(folder.stream(spark), {"q": changed, "new": SEQ}, **given), tmp_path)
    assert pairs_in(spark, tmp_path)[5, 6] == 2


@pytest.mark.parametrize(
    ("query", "given", "text"),
    [
        ("PATTERN SEQ(A a, B b)", {}, "without WITHIN"),
        (SEQ, {"delay": None}, "how late"),
        (SEQ, {"delay": "5"}, "no unit"),
        (SEQ, {"delay": "5 events"}, "counts events"),
        (SEQ, {"delay": {"other": "1 second"}}, "differ in events, other"),
        (SEQ, {"time": None}, "when an event happened"),
        ("PATTERN SEQ(A a) WITHIN 1 hour RETURN COUNT(*)", {}, "IN ALL"),
        (SEQ, {"options": cerise.Options(engine="reference")}, "reference"),
        (BY_NUMBER, {"type": None}, "time of the stream is 'ts'"),
        (FALLS.replace("WITHIN INTERVAL '20' SECOND", ""), {"type": None}, "WITHIN"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_with_a_hint(
    spark: SparkSession, tmp_path: Path, query: str, given: dict[str, Any], text: str
) -> None:
    stream = Folder(tmp_path / "in").stream(spark)
    roles = {"time": "ts", "type": "kind", "delay": "5 seconds"} | given
    with pytest.raises((UnsupportedError, BindError), match=text) as caught:
        cerise.watch(stream, query, **roles)
    assert caught.value.hint


def test_a_table_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match="is not a streaming DataFrame"):
        cerise.watch(spark.range(3), "PATTERN SEQ(a) WITHIN 5", time="id", delay=0)
