"""Faults of streams on Spark: damaged states, odd sinks, silent sources, bad events (M7, M15)."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cerise
from cerise.errors import CeriseWarning, DataError, StoreError, UnsupportedError
from cerise.files import delta
from cerise.spark.state_homes import MESSAGES, PARTITIONS
from tests.spark.test_watch import EVENTS, SECOND, SEQ, Folder, pairs_in, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GIVEN: dict[str, Any] = {"time": "ts", "type": "kind", "delay": "5 seconds", "buckets": 2}
FOUND = Counter({(9, 8): 1, (5, 6): 1, (7, 4): 1, (2, 1): 1})
ABSENT = "PATTERN SEQ(A a, NOT B b) WHERE [id] WITHIN 2 seconds RETURN a.n AS a, a.n AS b"
TIMEOUTS = """SELECT * FROM events MATCH_RECOGNIZE (
    PARTITION BY id ORDER BY ts MEASURES A.n AS a, B.n AS b
    PATTERN (A Z*? B) WITHIN INTERVAL '2' SECOND EMIT TIMEOUTS DEFINE A AS kind = 'A', B AS kind = 'B')"""


@pytest.fixture(params=["spark", "files"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Where the state rests."""
    return {} if request.param == "spark" else {"state": str(tmp_path / "state")}


def fill(path: Path, batches: list[list[tuple[int, str, int, int]]] = EVENTS) -> Folder:
    folder = Folder(path)
    for batch in batches:
        folder.put(batch)
    return folder


def test_a_sink_that_acts_twice_on_a_batch_and_then_on_some_rows(
    spark: SparkSession, tmp_path: Path, home: dict[str, Any]
) -> None:
    found: Counter[tuple[int, int]] = Counter()

    def act(batch: DataFrame, _: int) -> None:
        batch.limit(1).collect()
        count = batch.count()
        rows = batch.collect()
        assert len(rows) == count
        found.update((row["a"], row["b"]) for row in rows)

    matches = cerise.watch(fill(tmp_path / "in").stream(spark), SEQ, **GIVEN, **home)
    writer = matches.writeStream.foreachBatch(act).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert found == FOUND


def test_a_limit_after_watch_harms_no_state(
    spark: SparkSession, tmp_path: Path, home: dict[str, Any]
) -> None:
    matches = cerise.watch(fill(tmp_path / "in").stream(spark), SEQ, **GIVEN, **home).limit(1)
    query = run(matches, tmp_path)
    assert sum(pairs_in(spark, tmp_path).values()) == 1
    figures = [each["observedMetrics"]["cerise"] for each in query.recentProgress]
    assert sum(each["matches"] for each in figures) == sum(FOUND.values())


def test_operators_after_watch_run_batches_without_data(spark: SparkSession, tmp_path: Path) -> None:
    """An operator with a watermark of its own asks Spark for such batches."""
    folder = fill(tmp_path / "in")
    matches = cerise.watch(folder.stream(spark), SEQ, **GIVEN, state=str(tmp_path / "state"))
    counted = matches.withWatermark("last_time", "1 second").dropDuplicatesWithinWatermark(["a", "b"])
    query = run(counted, tmp_path)
    assert any(not each["numInputRows"] for each in query.recentProgress), "no batch without data"
    folder.put([(300, "A", 1, 70), (301, "B", 1, 71), (400, "A", 1, 1)])
    run(counted, tmp_path)
    assert pairs_in(spark, tmp_path) == FOUND + Counter({(70, 71): 1})


def test_a_damaged_state_ends_the_stream_until_it_is_restored(spark: SparkSession, tmp_path: Path) -> None:
    folder = fill(tmp_path / "in", EVENTS[:2])
    matches = cerise.watch(folder.stream(spark), SEQ, **GIVEN, state=str(tmp_path / "state"))
    run(matches, tmp_path)
    for batch in EVENTS[2:]:
        folder.put(batch)
    manifest = next((tmp_path / "state").rglob("bucket-1/000000000001.json"))
    content, files = manifest.read_bytes(), set((tmp_path / "state").rglob("*"))
    manifest.unlink()
    with pytest.raises(StoreError, match=rf"state of batch 1 of bucket 1 is gone: .*{manifest.name}"):
        run(matches, tmp_path)
    manifest.write_bytes(content.replace(b"entry", b"entrx"))
    with pytest.raises(StoreError, match=rf"state of batch 1 of bucket 1 is damaged: .*{manifest.name}"):
        run(matches, tmp_path)
    assert {each for each in (tmp_path / "state").rglob("*") if "bucket-1" in str(each)} == {
        each for each in files if "bucket-1" in str(each)
    }
    manifest.write_bytes(content)
    run(matches, tmp_path)
    assert pairs_in(spark, tmp_path) == FOUND


def test_a_batch_that_the_table_has_is_not_written_again(
    spark: SparkSession, tmp_path: Path, home: dict[str, Any]
) -> None:
    folder = fill(tmp_path / "in", EVENTS[:3])

    def write() -> None:
        matches = cerise.watch(folder.stream(spark), SEQ, **GIVEN, **home)
        writer = matches.writeStream.foreachBatch(cerise.into(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    write()
    for name in ("2", ".2.crc"):  # as if the driver had died between the commits of the table and of Spark
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    for batch in EVENTS[3:]:
        folder.put(batch)
    write()
    assert Counter((row["a"], row["b"]) for row in delta.read(tmp_path / "out").to_pylist()) == FOUND


def test_absence_is_told_without_any_event(spark: SparkSession, tmp_path: Path, home: dict[str, Any]) -> None:
    folder, now = Folder(tmp_path / "in"), int(time.time())
    folder.put([(now, "A", 1, 7)])
    matches = cerise.watch(
        folder.stream(spark), {"absent": ABSENT, "timeouts": TIMEOUTS},
        time="ts", type="kind", delay="1 second", idle="2 seconds", buckets=1, **home,
    )  # fmt: skip
    writer = matches.writeStream.format("memory").queryName(f"silent_{tmp_path.name.split('[')[0]}")
    checkpoint = tmp_path / "checkpoint"
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="500 milliseconds")
    running = query.start()
    try:
        rows = wait_for_rows(spark, running, 2)
    finally:
        running.stop()
    assert sorted((row["query"], row["a"], row["b"]) for row in rows) == [
        ("absent", 7, 7),
        ("timeouts", 7, None),
    ]
    heard, fired = (first_batch(running, figure) for figure in ("events", "matches"))
    times = {batch: time_of(checkpoint, batch) for batch in range(fired + 1)}
    # The source is idle 2 seconds after its event came; then the watermark is 3 seconds behind the clock.
    ready = [
        batch for batch, at in times.items()
        if at >= times[heard] + 2 * SECOND and at - 3 * SECOND > (now + 2) * SECOND
    ]  # fmt: skip
    assert ready == [fired], "it could have been told before"


def first_batch(running: Any, figure: str) -> int:
    """Return the first batch of a stream that has counted something."""
    counts = ((each["batchId"], each["observedMetrics"].get("cerise")) for each in running.recentProgress)
    return int(next(batch for batch, found in counts if found is not None and found[figure]))


def wait_for_rows(spark: SparkSession, running: Any, wanted: int) -> list[Any]:
    for _ in range(240):
        if running.exception() is not None:
            raise running.exception()
        rows = spark.table(running.name).collect()
        if len(rows) >= wanted:
            return rows
        time.sleep(0.5)
    raise AssertionError(f"{wanted} rows did not come: {running.lastProgress}")


def time_of(checkpoint: Path, batch: int) -> int:
    """Return the time of a batch by the clock on the wall, in microseconds."""
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    return int(json.loads(lines[1])["batchTimestampMs"]) * 1_000


def test_a_value_that_cannot_be_returned_ends_the_stream_each_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = fill(tmp_path / "in", [[(1, "A", 1, 1), (2, "B", 1, 0)], [(100, "A", 9, 9)]])
    query = SEQ.replace("b.n AS b", "a.n / b.n AS b")
    matches = cerise.watch(folder.stream(spark), query, **GIVEN, state=str(tmp_path / "state"))
    for _ in range(2):
        with pytest.raises(DataError, match="division by zero"):
            run(matches, tmp_path)


def test_events_without_a_time_or_from_the_future_are_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder, now = Folder(tmp_path / "in"), int(time.time())
    folder.put([(now - 9, "A", 1, 1), (now - 8, "B", 1, 2), (now + 9_000, "A", 2, 3)])
    folder.put([(now - 1, "A", 9, 4), (now - 60, "A", 1, 5)])
    stream = folder.stream(spark).selectExpr("IF(n = 4, NULL, ts) AS ts", "kind", "id", "n")
    matches = cerise.watch(
        stream.unionByName(folder.stream(spark).where("n = 4")), SEQ, **GIVEN, ahead="1 hour",
        late=str(tmp_path / "late"), state=str(tmp_path / "state"),
    )  # fmt: skip
    run(matches, tmp_path)
    late = pq.read_table(tmp_path / "late").to_pylist()
    assert sorted((row["n"], row["reason"]) for row in late) == [(3, "future"), (4, "no time"), (5, "late")]
    assert pairs_in(spark, tmp_path) == Counter({(1, 2): 1})


def test_what_the_default_home_needs_is_checked_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = fill(tmp_path / "in").stream(spark)
    partitions = str(spark.conf.get(PARTITIONS))
    try:
        spark.conf.set(PARTITIONS, 9)
        with pytest.warns(CeriseWarning, match="opens 9 state stores for 2 buckets") as warned:
            cerise.watch(stream, SEQ, **GIVEN)
        assert warned[0].filename == __file__
        cerise.watch(stream, SEQ, **GIVEN, state=str(tmp_path / "state"))
    finally:
        spark.conf.set(PARTITIONS, partitions)
    monkeypatch.setitem(sys.modules, MESSAGES, None)
    with pytest.raises(UnsupportedError, match="by protobuf, which cannot be used") as caught:
        cerise.watch(stream, SEQ, **GIVEN)
    assert "cerise-spark[local]" in str(caught.value.hint)
    cerise.watch(stream, SEQ, **GIVEN, state=str(tmp_path / "state"))
