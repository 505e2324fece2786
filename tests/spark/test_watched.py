"""Reports on running streams: the figures are those that one counts by hand."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import UnsupportedError
from cerise.spark.session import ROCKS, STATE_STORE
from cerise.spark.watched import Watched, find_figures
from cerise.streaming.state.state_events import read_events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

S = 1_000_000
COLUMNS = "ts timestamp, kind string, id long"
PAIR = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 30 seconds"
ABSENT = "PATTERN SEQ(A a, NOT B b) WHERE [id] WITHIN 10 seconds"
LONE = "PATTERN SEQ(A a, C c) WITHIN 30 seconds"
BATCHES: list[list[tuple[int | None, str, int]]] = [
    [(1, "A", 1), (2, "B", 1), (3, "A", 2)],
    [(20, "B", 2), (21, "A", 2), (None, "A", 3)],
    [(100, "B", 9), (1, "A", 1), (2, "B", 1), (99, "A", 1)],
]
WATERMARK = dt.datetime(1970, 1, 1, 0, 1, 35, tzinfo=dt.UTC)


@pytest.fixture
def rocks(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(STATE_STORE, "")
    spark.conf.set(STATE_STORE, ROCKS)
    yield spark
    spark.conf.unset(STATE_STORE) if not before else spark.conf.set(STATE_STORE, before)


def put(folder: Path, number: int, rows: list[tuple[int | None, str, int]]) -> None:
    folder.mkdir(exist_ok=True)
    times = pa.array([None if row[0] is None else row[0] * S for row in rows], pa.timestamp("us", "UTC"))
    table = pa.table({"ts": times, "kind": [row[1] for row in rows], "id": [row[2] for row in rows]})
    file = folder / f"{number:03}.parquet"
    pq.write_table(table, file)
    os.utime(file, (1_000 + number, 1_000 + number))


def read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(matches: DataFrame, path: Path) -> Any:
    writer = matches.writeStream.format("parquet").option("path", str(path / "out"))
    query = writer.option("checkpointLocation", str(path / "ck")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@pytest.mark.parametrize("home", ["spark", "files"])
def test_the_figures_are_those_that_are_counted(rocks: SparkSession, tmp_path: Path, home: str) -> None:
    for number, rows in enumerate(BATCHES):
        put(tmp_path / "in", number, rows)
    stream = read(rocks, tmp_path / "in")
    state = str(tmp_path / "state") if home == "files" else None
    matches = cerise.watch(
        stream, {"ab": PAIR, "absent": ABSENT}, time="ts", type="kind", delay="5 seconds", buckets=2,
        state=state,
    )  # fmt: skip
    query = run(matches, tmp_path)
    report = cerise.watched(query)
    figures = report.figures
    assert (report.status, report.batch, report.watermark) == ("ended", 2, WATERMARK)
    assert figures["behind"] == dt.timedelta(seconds=5)
    assert figures["lag"] > dt.timedelta(days=20_000)
    assert figures["events"] == 7
    assert figures["held"] == 2
    assert figures["aside"] == {"events": {"late": 2, "no time": 1}}
    assert figures["last_batch"] == {"events": 2, "matches": 2, "aside": 2, "evicted": 0}
    assert (figures["slowest"], figures["idle"], figures["rows"]) == ("events", [], 4)
    found = rocks.read.parquet(str(tmp_path / "out")).groupBy("query").count().collect()
    assert figures["matches"] == {row["query"]: row["count"] for row in found} == {"ab": 2, "absent": 2}
    assert [each["bucket"] for each in figures["buckets"]] == [0, 1]
    assert sum(each["events"] for each in figures["buckets"]) == 7
    text = str(report)
    assert "watermark  1970-01-01 00:01:35 UTC" in text
    assert "events     7 accepted, 2 held for the watermark" in text
    assert "set aside  events: 2 late, 1 no time" in text
    if state is not None:
        _check_files(state, figures)


def _check_files(state: str, figures: dict[str, Any]) -> None:
    """The state has as many bytes as the report says, and all events that were accepted."""
    sizes = [each.stat().st_size for each in Path(state).rglob("*entry-*")]
    assert figures["state_bytes"] == sum(sizes)
    kept = read_events(state)
    assert sorted(kept["id"].to_pylist()) == [1, 1, 1, 2, 2, 2, 9]


def test_the_figures_of_groups_of_queries_and_of_a_restart(rocks: SparkSession, tmp_path: Path) -> None:
    def watch() -> DataFrame:
        sources = {"left": read(rocks, tmp_path / "in"), "right": read(rocks, tmp_path / "other")}
        return cerise.watch(
            sources, {"ab": PAIR, "lone": LONE}, time="ts", type="kind", buckets=2,
            delay={"left": "5 seconds", "right": "40 seconds"}, state=str(tmp_path / "state"),
        )  # fmt: skip

    put(tmp_path / "in", 0, BATCHES[0])
    put(tmp_path / "other", 0, [(50, "C", 7)])
    run(watch(), tmp_path)
    put(tmp_path / "in", 1, [(60, "A", 7)])
    put(tmp_path / "other", 1, [(61, "C", 7), (2, "C", 7)])
    run(watch(), tmp_path)
    put(tmp_path / "in", 2, [(62, "A", 7), (5, "A", 7)])
    put(tmp_path / "other", 2, [(2, "C", 7)])
    report = cerise.watched(run(watch(), tmp_path))
    figures = report.figures
    assert report.watermark == dt.datetime(1970, 1, 1, 0, 0, 21, tzinfo=dt.UTC)
    assert figures["slowest"] == "right"
    assert figures["behind"] == dt.timedelta(seconds=41)
    assert len({each["group"] for each in figures["buckets"]}) == 2
    assert figures["matches"] == {"ab": 1, "lone": 1}
    # Both groups need an A, and each counts it; only one needs a C.
    assert figures["aside"] == {"left": {"late": 2}, "right": {"late": 1}}
    assert "waits for  right" in str(report)


def test_a_query_before_its_first_batch_and_a_query_of_others(rocks: SparkSession, tmp_path: Path) -> None:
    report = Watched("alerts", "running", None, None, 0)
    assert report.figures == {"status": "running"}
    assert "no batch has run yet" in str(report)
    assert report.watermark is None
    assert report.batch is None
    put(tmp_path / "in", 0, BATCHES[0])
    other = run(read(rocks, tmp_path / "in"), tmp_path)
    with pytest.raises(UnsupportedError, match="gives no matches of Cerise"):
        cerise.watched(other)
    with pytest.raises(UnsupportedError, match="a DataFrame is not a streaming query"):
        cerise.watched(rocks.range(1))


def test_a_stream_that_failed_shows_its_error(rocks: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", 0, BATCHES[0])
    matches = cerise.watch(
        read(rocks, tmp_path / "in"), PAIR, time="ts", type="kind", delay="1 hour", buckets=1,
        limits=cerise.StateLimits(held=1), state=str(tmp_path / "state"),
    )  # fmt: skip
    writer = matches.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(Exception, match="wait for the watermark"):
        query.awaitTermination()
    report = cerise.watched(query)
    assert report.status == "failed"
    assert isinstance(report.error, cerise.PlanError)
    assert "error      PlanError: 3 events wait for the watermark, more than held=1" in str(report)
    assert "the state before batch 0 of bucket 0 is untouched" in str(report)


@pytest.mark.parametrize("home", ["spark", "files"])
def test_a_stream_that_evicts_counts_it_and_goes_on_counting_after_a_restart(
    rocks: SparkSession, tmp_path: Path, home: str
) -> None:
    def watch(limits: cerise.StateLimits) -> DataFrame:
        return cerise.watch(
            read(rocks, tmp_path / "in"), {"ab": PAIR}, time="ts", type="kind", delay="0 seconds", buckets=1,
            limits=limits, state=str(tmp_path / "state") if home == "files" else None,
        )  # fmt: skip

    evict = cerise.StateLimits(runs=2, on_limit="evict")
    put(tmp_path / "in", 0, [(1, "A", 1), (2, "A", 2), (3, "A", 3), (4, "A", 3), (5, "B", 9)])
    report = cerise.watched(run(watch(evict), tmp_path))
    assert report.figures["last_batch"]["evicted"] == 2
    put(tmp_path / "in", 1, [(6, "A", 4), (7, "B", 1), (8, "B", 3), (9, "B", 9)])
    report = cerise.watched(run(watch(evict), tmp_path))
    assert (report.figures["evicted"], report.figures["alive"]) == ({"ab": 2}, {"ab": {"runs": 1}})
    assert report.figures["evicted_partitions"] == {"ab": {"1": 1, "2": 1}}
    assert "evicted    2 of the oldest runs of query ab: 1 of 1, 1 of 2" in str(report)
    found = rocks.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row["first_time"].timestamp() for row in found) == [3, 4]
    put(tmp_path / "in", 2, [(10, "A", 5), (11, "A", 6), (12, "B", 9)])
    with pytest.raises(Exception, match="query ab keeps 3 runs: more than runs=2") as error:
        run(watch(cerise.StateLimits(runs=2)), tmp_path)
    assert "the state before batch 2 of bucket 0 is untouched" in str(error.value)


def test_figures_of_either_kind_of_session() -> None:
    assert find_figures({"observedMetrics": {"cerise": {"buckets": "[]"}}}) == {"buckets": "[]"}
    assert find_figures({"observedMetrics": {}}) is None


# ---- explain


def test_a_stream_is_explained(rocks: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", 0, BATCHES[0])
    stream = read(rocks, tmp_path / "in")
    text = cerise.explain(stream, PAIR, time="ts", type="kind")
    assert "PATTERN SEQ(A a, B b)" in text
    assert "delay      not set" in text
    assert "final      at its last event" in text
    marked = cerise.explain(stream.withWatermark("ts", "5 seconds"), [PAIR, ABSENT], time="ts", type="kind")
    assert "delay      5 seconds" in marked
    assert "when its window of 10 seconds has passed" in marked
    assert "the keys (id) are divided among them" in marked
    assert "one in 16 of the others" in marked


def test_clauses_and_several_sources_are_explained(rocks: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in", 0, BATCHES[0])
    stream = read(rocks, tmp_path / "in")
    clause = (
        "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY id ORDER BY ts MEASURES A.ts AS at PATTERN (A B+) "
        "WITHIN INTERVAL '5' MINUTE DEFINE B AS kind = 'B')"
    )
    text = cerise.explain(stream.withWatermark("ts", "5 seconds"), clause)
    assert "when a row breaks B+ at its end, or 5 minutes (WITHIN) have passed" in text
    orders = stream.drop("kind").withWatermark("ts", "1 second")
    payments = stream.drop("kind").withWatermark("ts", "1 minute")
    unpaid = "PATTERN SEQ(orders o, NOT payments p) WHERE [id] WITHIN 15 minutes"
    text = cerise.explain({"orders": orders, "payments": payments}, unpaid, time="ts")
    assert "delay      orders: 1 second\n           payments: 1 minute" in text
    assert "silence    an answer that waits for time" in text
