"""Streams into Delta tables and stores: each batch exactly once, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import cerise
from cerise.errors import CeriseError, PlanError, StoreError, UnsupportedError
from cerise.files import delta
from cerise.store.table.batch_table import BatchTable
from cerise.store.table.commits import StreamBatch
from cerise.store.table.data_file import AppendPart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("killed_sink.py")
EVENTS = "id bigint, t bigint, kind string"


def frame(spark: SparkSession, first: int, rows: int) -> DataFrame:
    named = "cast(id AS bigint) AS id", "id * 2 AS t", "CASE WHEN id % 2 = 0 THEN 'A' ELSE 'B' END AS kind"
    return spark.range(first, first + rows, 1, 2).selectExpr(*named)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return sorted(delta.read(path).to_pylist(), key=lambda row: row["id"])


def ids(path: Path) -> list[int]:
    return [row["id"] for row in rows_of(path)]


def files(path: Path) -> set[str]:
    return {each.name for each in path.glob("*.parquet")}


def live(path: Path) -> set[str]:
    return {each.path for each in delta.version_of(path).files}


def run_stream(spark: SparkSession, source: Path, checkpoint: Path, sink: Callable[..., None]) -> str:
    """Run all batches of a folder; return the id of the query."""
    reader = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1)
    writer = reader.parquet(str(source)).writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return str(query.id)


def put(source: Path, number: int, rows: int = 10) -> None:
    source.mkdir(exist_ok=True)
    first = number * 100
    numbers = list(range(first, first + rows))
    kinds = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("kind", pa.string())])
    table = pa.table({"id": numbers, "t": numbers, "kind": ["A"] * rows}, schema=kinds)
    file = source / f"{number}.parquet"
    pq.write_table(table, file)
    os.utime(file, (number + 1, number + 1))  # Spark reads them in the order of their times


def test_a_stream_becomes_a_table_and_no_batch_is_there_twice(spark: SparkSession, tmp_path: Path) -> None:
    source, table = tmp_path / "in", tmp_path / "out"
    put(source, 0)
    put(source, 1, rows=0)
    put(source, 2)
    query = run_stream(spark, source, tmp_path / "ck", cerise.into(table))
    held = DeltaTable(table)
    assert ids(table) == [*range(10), *range(200, 210)]
    assert held.version() == 2  # an empty batch commits nothing
    assert held.transaction_version(query) == 2
    commit = tmp_path / "ck" / "commits" / "2"
    for each in (commit, commit.with_name(".2.crc")):
        each.unlink()  # as if the driver had died after our commit and before Spark's
    assert run_stream(spark, source, tmp_path / "ck", cerise.into(table)) == query
    assert DeltaTable(table).version() == 2
    put(source, 3)
    run_stream(spark, source, tmp_path / "ck", cerise.into(table))
    assert ids(table) == [*range(10), *range(200, 210), *range(300, 310)]
    assert files(table) == live(table)


def test_a_store_takes_a_stream_and_finds_in_it(spark: SparkSession, tmp_path: Path) -> None:
    store = cerise.Store.create(
        tmp_path / "store", schema=frame(spark, 0, 1), time="t", type="kind", index=["id"], pool_rows=40
    )
    for number in range(3):
        cerise.into(store, name="alerts")(frame(spark, 20 * number, 20), number)
    sink = cerise.into(tmp_path / "store", name="alerts")
    sink(frame(spark, 0, 20), 2)  # it has this batch
    assert ids(tmp_path / "store") == list(range(60))
    assert store.verify() == []
    assert store.info().fresh_events == 20  # the others were sealed
    assert cerise.count(store, "PATTERN SEQ(A a, B b) WHERE a.id = 58 WITHIN 10") == 1
    store.compact()
    sink(frame(spark, 60, 200_000), 3)  # as files of the tasks
    assert ids(tmp_path / "store") == list(range(60 + 200_000))
    assert store.verify() == []
    store.vacuum(0)
    assert files(tmp_path / "store") == live(tmp_path / "store")


def test_many_batches_are_remembered_through_checkpoints(tmp_path: Path) -> None:
    table = BatchTable.open(str(tmp_path / "t"), None, pa.schema([("id", pa.int64())]))
    for number in range(25):
        batch = StreamBatch("a", number)
        begun = table.begin(batch)
        written = table.write(pa.table({"id": [number]}), AppendPart(begun.append, 0, 0))
        assert table.commit([written], batch, begun)
    assert (tmp_path / "t" / "_delta_log" / "_last_checkpoint").exists()
    assert all(table.holds(StreamBatch("a", number)) for number in range(25))
    assert not table.holds(StreamBatch("a", 25))
    assert not table.holds(StreamBatch("b", 0))
    DeltaTable(tmp_path / "t").cleanup_metadata()
    assert table.newest("a") == 24


def test_two_attempts_at_once(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    table, batch = BatchTable.open(str(tmp_path / "t"), None, schema), StreamBatch("a", 0)
    rows = pa.table({"id": [1, 2]}, schema=schema)
    first = table.begin(batch)
    lost = table.write(rows, AppendPart(first.append, 0, 0))
    second = table.begin(batch)
    assert second.failed == (first.append,)
    won = table.write(rows, AppendPart(second.append, 0, 0))
    assert table.commit([lost], batch, first)  # the one that was given up is faster
    assert not table.commit([won], batch, second)
    assert ids(tmp_path / "t") == [1, 2]
    assert files(tmp_path / "t") == {lost.path}


def test_files_of_failed_attempts_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    sink = cerise.into(tmp_path / "t", name="a")
    sink(frame(spark, 0, 10), 0)
    broken = frame(spark, 10, 10).selectExpr(
        "CASE WHEN id < 19 THEN id ELSE raise_error('boom') END AS id", "t", "kind"
    )
    with pytest.raises(CeriseError, match="boom"):
        sink(broken, 1)
    table = BatchTable.open(
        str(tmp_path / "t"), None, pa.schema([("id", pa.int64()), ("t", pa.int64()), ("kind", pa.string())])
    )
    begun = table.begin(StreamBatch("a", 1))
    left = table.write(pa.table({"id": [7], "t": [7], "kind": ["A"]}), AppendPart(begun.append, 0, 0, 5))
    assert left.path in files(tmp_path / "t")
    sink(frame(spark, 10, 10), 1)
    assert ids(tmp_path / "t") == list(range(20))
    assert files(tmp_path / "t") == live(tmp_path / "t")


def test_other_columns_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = cerise.into(tmp_path / "t", name="a")
    sink(frame(spark, 0, 4), 0)
    with pytest.raises(StoreError, match="column 'more' that the table has not"):
        sink(frame(spark, 0, 4).selectExpr("*", "1 AS more"), 1)
    with pytest.raises(StoreError, match="no column 'kind'"):
        sink(frame(spark, 0, 4).select("id", "t"), 1)
    with pytest.raises(StoreError, match="column 't' has type string, and the table keeps int64"):
        sink(frame(spark, 0, 4).selectExpr("id", "string(t) AS t", "kind"), 1)
    sink(frame(spark, 4, 4).selectExpr("kind", "int(t) AS t", "id"), 1)  # narrower, and in another order
    assert ids(tmp_path / "t") == list(range(8))


def test_all_types_of_matches(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("""SELECT 1L AS id, array(struct(1 AS a, 'x' AS b)) AS events, map('k', 2.5D) AS m,
        timestamp'2026-01-01 00:00:00' AS at, timestamp_ntz'2026-01-01 00:00:00' AS ntz, X'01' AS raw,
        CAST(1.25 AS DECIMAL(10, 2)) AS price, date'2026-01-01' AS d, true AS yes, `a.b`
        FROM VALUES (1) AS v(`a.b`)""")
    sink = cerise.into(tmp_path / "t", name="a")
    sink(rows, 0)
    sink(rows.selectExpr("2L AS id", *[f"`{each}`" for each in rows.columns[1:]]), 1)
    first, second = rows_of(tmp_path / "t")
    assert {**first, "id": 2} == second
    assert first["events"] == [{"a": 1, "b": "x"}]
    assert first["a.b"] == 1


def test_a_name_that_begins_again_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = cerise.into(tmp_path / "t", name="a")
    for number in range(2):
        sink(frame(spark, number, 1), number)
    sink(frame(spark, 9, 1), 1)
    with pytest.raises(StoreError, match=r"has written batches up to 1 .* begins again at 0"):
        sink(frame(spark, 9, 1), 0)
    cerise.into(tmp_path / "t", name="b")(frame(spark, 9, 1), 0)
    assert ids(tmp_path / "t") == [0, 1, 9]


@pytest.mark.parametrize("wrong", [7, None, ["a"]])
def test_what_is_not_a_path_is_refused(wrong: object) -> None:
    with pytest.raises(UnsupportedError, match="cannot be written into"):
        cerise.into(wrong)
    with pytest.raises(PlanError, match="name is ''"):
        cerise.into("x", name="")


def test_places_that_hold_something_else(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(StoreError, match=r"not a Delta table: x\.txt"):
        cerise.into(tmp_path, name="a")(frame(spark, 0, 1), 0)
    with pytest.raises(PlanError, match="does not tell the id"):
        cerise.into(tmp_path / "t")(frame(spark, 0, 1), 0)


def test_tables_that_want_more_of_their_writers(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("kind", pa.string())])
    DeltaTable.create(tmp_path / "parts", schema, partition_by=["kind"])
    with pytest.raises(UnsupportedError, match="is partitioned by kind"):
        cerise.into(tmp_path / "parts", name="a")(frame(spark, 0, 1), 0)
    made = DeltaTable.create(tmp_path / "checked", schema)
    made.alter.add_constraint({"positive": "id >= 0"})
    with pytest.raises(UnsupportedError, match="has the constraint positive"):
        cerise.into(tmp_path / "checked", name="a")(frame(spark, 0, 1), 0)
    needed = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    DeltaTable.create(tmp_path / "needed", needed)
    sink = cerise.into(tmp_path / "needed", name="a")
    with pytest.raises(CeriseError, match="'id' has nulls"):
        sink(spark.sql("SELECT CAST(NULL AS BIGINT) AS id"), 0)
    sink(spark.sql("SELECT 1L AS id"), 0)
    assert ids(tmp_path / "needed") == [1]


def test_a_damaged_table_stops_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    source, table = tmp_path / "in", tmp_path / "out"
    put(source, 0)
    run_stream(spark, source, tmp_path / "ck", cerise.into(table))
    entry = table / "_delta_log" / f"{1:020d}.json"
    whole = entry.read_bytes()
    lines = whole.splitlines(keepends=True)
    without = [line for line in lines if b'"txn"' not in line]
    assert len(without) == len(lines) - 1
    entry.write_bytes(b"".join(without))  # the batch would be taken again
    put(source, 1)
    with pytest.raises(StoreError, match="is cut, or damaged"):
        run_stream(spark, source, tmp_path / "ck", cerise.into(table))
    entry.write_bytes(whole)
    run_stream(spark, source, tmp_path / "ck", cerise.into(table))
    assert ids(table) == [*range(10), *range(100, 110)]


SOME = ("about to commit", "committed")
STEPS = ("append noted", "data written", *SOME, "entry written", "batch committed")


@pytest.mark.nightly  # test_stream_kills.py has the two steps of SOME in every run
@pytest.mark.parametrize("case", [("cerise", *SOME), ("spark", *SOME), ("cerise", *STEPS)])
def test_a_driver_killed_before_and_after_its_commit(tmp_path: Path, case: tuple[str, ...]) -> None:
    reads, *steps = case
    source, table = tmp_path / "in", tmp_path / "out"
    for number in range(len(steps) + 1):
        put(source, number)
    for number, step in enumerate([*steps, "none"]):
        done = subprocess.run(
            [sys.executable, SCRIPT, reads, source, table, tmp_path / "ck", step, str(number)],
            capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
        )  # fmt: skip
        assert done.returncode == (0 if step == "none" else -signal.SIGKILL), done.stderr[-3_000:]
    assert ids(table) == [100 * number + i for number in range(len(steps) + 1) for i in range(10)]
    assert files(table) == live(table)
