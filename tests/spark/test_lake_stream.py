"""Tables, stores and folders as streams: every event once, in order, whatever the batches and restarts."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import cerise
from cerise.errors import PlanError, StoreError, UnsupportedError
from cerise.files import delta
from cerise.files.folder_tail import FolderTail
from cerise.spark.lake_stream import LakeReader, LakeStream, Whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = dict[int, list[int]]


def events(first: int, rows: int = 10) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table({"id": numbers, "kind": ["AB"[n % 2] for n in numbers], "x": [n / 2 for n in numbers]})


def put(folder: Path, name: str, at: float, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f".{name}")
    os.utime(folder / f".{name}", (at, at))
    (folder / f".{name}").rename(folder / name)


def run(frame: DataFrame, checkpoint: Path) -> Batches:
    """Return the ids of each batch that is there now."""
    found: Batches = {}

    def keep(batch: DataFrame, number: int) -> None:
        found[number] = [row.id for row in batch.select("id").collect()]

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def flat(found: Batches) -> list[int]:
    return [each for number in sorted(found) for each in found[number]]


def test_a_table_its_appends_and_its_compactions(spark: SparkSession, tmp_path: Path) -> None:
    table, checkpoint = str(tmp_path / "t"), tmp_path / "ck"
    write_deltalake(table, events(0))
    write_deltalake(table, events(10), mode="append")
    assert sorted(flat(run(cerise.stream(table, spark=spark), checkpoint))) == list(range(20))
    write_deltalake(table, events(20), mode="append")
    DeltaTable(table).optimize.compact()
    write_deltalake(table, events(30), mode="append")
    assert run(cerise.stream(table, max_rows=10, spark=spark), checkpoint) == {
        1: list(range(20, 30)), 2: list(range(30, 40)),
    }  # fmt: skip
    DeltaTable(table).delete("id = 3")
    with pytest.raises(StoreError, match=r"version 5 of .* removes events"):
        run(cerise.stream(table, spark=spark), checkpoint)
    assert len(flat(run(cerise.stream(table, spark=spark), tmp_path / "again"))) == 39


def test_a_store_with_all_that_it_does_to_its_files(spark: SparkSession, tmp_path: Path) -> None:
    schema = events(0).schema
    store = cerise.Store.create(tmp_path / "s", schema=schema, time="id", type="kind", pool_rows=16)
    store.append(events(0))
    frame = cerise.stream(store, columns=["id", "x"], max_rows=12, spark=spark)
    assert frame.columns == ["id", "x"]
    assert flat(run(frame, tmp_path / "ck")) == list(range(10))
    for first in range(10, 60, 10):  # some commits seal earlier events as well
        store.append(events(first))
    store.compact()
    store.append(events(60, 100))
    found = run(frame, tmp_path / "ck")
    assert flat(found) == list(range(10, 160))
    assert max(len(each) for each in found.values()) == 100  # a file is read as a whole
    assert flat(run(cerise.stream(store, after=store.version, spark=spark), tmp_path / "new")) == []
    store.append(events(160))
    assert flat(run(cerise.stream(tmp_path / "s", spark=spark), tmp_path / "new")) == list(range(160, 170))


def test_a_folder_in_the_order_of_its_times(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    put(folder, "b.parquet", 100, events(0))
    put(folder, "c.parquet", 200, events(10))
    put(folder, "a.parquet", 200, events(20).select(["id"]))
    (folder / "_ignored").write_text("x")
    (folder / ".x.parquet").write_text("half")
    frame = cerise.stream(folder, max_rows=15, spark=spark)
    assert run(frame, tmp_path / "ck") == {0: [*range(10)], 1: [*range(20, 30)], 2: [*range(10, 20)]}
    put(folder, "0.parquet", 300, events(30))
    (folder / "b.parquet").unlink()  # files that were read may go
    assert flat(run(frame, tmp_path / "ck")) == list(range(30, 40))


def test_a_late_file_is_never_left_out_silently(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    put(folder, "b.parquet", 200, events(0))
    frame = cerise.stream(folder, spark=spark)
    run(frame, tmp_path / "ck")
    put(folder, "a.parquet", 100, events(10))
    with pytest.raises(StoreError, match="older than files already read"):
        run(frame, tmp_path / "ck")
    os.utime(folder / "a.parquet", (300, 300))
    assert flat(run(frame, tmp_path / "ck")) == list(range(10, 20))


def test_a_running_stream_sees_commits_within_a_trigger(spark: SparkSession, tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, events(0))
    found: list[int] = []

    def keep(batch: DataFrame, _: int) -> None:
        found.extend(row.id for row in batch.collect())

    writer = cerise.stream(table, spark=spark).writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
    try:
        query.processAllAvailable()
        assert found == list(range(10))
        write_deltalake(table, events(10), mode="append")
        query.processAllAvailable()
        assert found == list(range(20))
        source = query.lastProgress["sources"][0]
        assert '"version": 1' in str(source["endOffset"]) or "version=1" in str(source["endOffset"])
    finally:
        query.stop()


def test_tables_are_transformed_before_spark_sees_them(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    put(tmp_path / "f", "a.parquet", 100, events(0, 100_000))
    kinds = pa.schema([("id", pa.int64()), ("named", pa.string())])

    def count(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        for table in tables:
            kept = table.filter(pc.equal(table["kind"], "B"))
            yield pa.RecordBatch.from_pydict({"id": [len(kept)], "named": ["B"]}, schema=kinds)

    lake = LakeStream.of(tmp_path / "f", ["kind"])
    schema = StructType([StructField("id", LongType()), StructField("named", StringType())])
    assert flat(run(lake.frame(spark, count, schema), tmp_path / "ck")) == [50_000]


def test_partition_columns_and_types(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("""SELECT 1L AS id, timestamp'2026-01-01 00:00:00' AS at, array(struct(1 AS a)) AS list,
        timestamp_ntz'2026-01-01 00:00:00' AS ntz, CAST(1.25 AS DECIMAL(10, 2)) AS price, 'p q' AS k""")
    cerise.into(tmp_path / "t", name="a")(rows, 0)
    frame = cerise.stream(tmp_path / "t", spark=spark)
    assert frame.schema.simpleString() == rows.schema.simpleString()
    held: list[Any] = []
    writer = frame.writeStream.foreachBatch(lambda batch, _: held.extend(batch.collect()))
    writer.option("checkpointLocation", str(tmp_path / "ck")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert [each.asDict() for each in held] == [each.asDict() for each in rows.collect()]
    parts = str(tmp_path / "parts")
    write_deltalake(parts, events(0), partition_by=["kind"])
    stream = cerise.stream(parts, spark=spark)
    assert sorted(flat(run(stream, tmp_path / "ck2"))) == list(range(10))
    write_deltalake(parts, events(10), mode="append")
    found: list[Any] = []
    writer = stream.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
    writer.option("checkpointLocation", str(tmp_path / "ck2")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert {row.id: row.kind for row in found} == {n: "AB"[n % 2] for n in range(10, 20)}


# ---- without Spark


def reader(path: Path, **how: Any) -> LakeReader:
    lake = LakeStream.of(path, **how)
    return LakeReader(lake, Whole(lake.columns), 2)


def ids(source: LakeReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    portions = source.partitions(start, end)
    return [n for each in portions for batch in source.read(each) for n in batch.column("id").to_pylist()]


def test_a_batch_is_the_same_whenever_it_is_read(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    path = tmp_path / "t"
    for number in range(12):  # with a checkpoint of the log
        write_deltalake(str(path), events(10 * number), mode="append")
    first = reader(path, after=-1)
    start = first.initialOffset()
    ends = [start]
    while (end := first.latestOffset(ends[-1], ReadMaxRows(25))) != ends[-1]:
        ends.append(end)
    found = [ids(reader(path, after=-1), low, high) for low, high in pairwise(ends)]
    assert [len(each) for each in found] == [20] * 6
    assert [n for each in found for n in each] == list(range(120))
    assert first.latestOffset(start, ReadAllAvailable()) == ends[-1]
    assert first.latestOffset(ends[2], ReadMaxRows(1)) == {"version": 4, "file": 1, "whole": False}
    DeltaTable(path).create_checkpoint()
    (path / "_delta_log" / f"{3:020d}.json").unlink()
    with pytest.raises(StoreError, match="no longer has version 3"):
        reader(path, after=-1).latestOffset(start, ReadAllAvailable())


def test_a_folder_waits_until_files_have_settled(tmp_path: Path) -> None:
    put(tmp_path / "f", "a.parquet", time.time(), events(0))
    tail = FolderTail(str(tmp_path / "f"), events(0).schema)
    assert list(tail.arrivals(tail.start())) == []
    assert len(list(tail.arrivals(tail.start(), tail.newest()))) == 1
    os.utime(tmp_path / "f" / "a.parquet", (100, 100))
    [file] = tail.arrivals(tail.start())
    put(tmp_path / "f", "b.parquet", 50, events(10))  # between planning and reading
    with pytest.raises(StoreError, match=r"has 2 files after '' up to 'a\.parquet', and had 1"):
        list(tail.arrivals(tail.start(), file.after))
    with pytest.raises(StoreError, match=r"older than files already read, such as b\.parquet"):
        list(tail.arrivals(file.after))


def test_wrong_places_and_arguments(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is nothing at"):
        cerise.stream(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="needs schema="):
        cerise.stream(tmp_path / "empty")
    assert LakeStream.of(tmp_path / "empty", schema=events(0).schema).columns == events(0).schema
    put(tmp_path / "f", "a.parquet", 100, events(0))
    with pytest.raises(StoreError, match="is one file"):
        cerise.stream(tmp_path / "f" / "a.parquet")
    with pytest.raises(StoreError, match="has no versions"):
        cerise.stream(tmp_path / "f", after=3)
    with pytest.raises(StoreError, match="has no column 'y'"):
        cerise.stream(tmp_path / "f", columns=["y"])
    with pytest.raises(PlanError, match="max_rows is 0"):
        cerise.stream(tmp_path / "f", max_rows=0)
    with pytest.raises(UnsupportedError, match="a int is not a path"):
        cerise.stream(7)
    write_deltalake(str(tmp_path / "t"), events(0))
    with pytest.raises(StoreError, match="9 is not a version"):
        cerise.stream(tmp_path / "t", after=9)


@pytest.mark.parametrize("seed", range(8))
def test_every_event_comes_once_whatever_happens_to_the_table(tmp_path: Path, seed: int) -> None:
    """Appends, compactions and vacuums of a store, batches of any size, and restarts, in any order."""
    from pyspark.sql.streaming.datasource import ReadMaxRows

    rng = random.Random(seed)
    path, rows = tmp_path / "s", 0
    store = cerise.Store.create(path, schema=events(0).schema, time="id", pool_rows=12, block_rows=8)
    source, found = reader(path), list[int]()
    offset = source.initialOffset()
    for _ in range(40):
        match rng.choice(["append", "append", "compact", "vacuum", "read", "read", "restart", "replay"]):
            case "append":
                size = rng.choice([1, 5, 20])
                store.append(events(rows, size))
                rows += size
            case "compact":
                store.compact()
            case "vacuum":
                store.vacuum(1)
            case "restart":
                source = reader(path)
            case read:
                end = source.latestOffset(offset, ReadMaxRows(rng.choice([1, 7, 1_000])))
                batch = ids(source, offset, end)
                assert read != "replay" or ids(reader(path), offset, end) == batch
                found += batch
                offset = end
    found += ids(source, offset, source.latestOffset(offset, ReadMaxRows(1 << 40)))
    assert sorted(found) == list(range(rows))


def test_the_events_of_the_start_are_read_from_the_version_of_the_start(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    path = tmp_path / "t"
    for number in range(3):
        write_deltalake(str(path), events(10 * number), mode="append")
    first = reader(path)
    start = first.initialOffset()
    end = first.latestOffset(start, ReadMaxRows(10))
    found = ids(first, start, end)
    DeltaTable(path).optimize.compact()
    write_deltalake(str(path), events(30), mode="append")
    again = reader(path)
    last = again.latestOffset(end, ReadAllAvailable())
    assert sorted(found + ids(again, end, last)) == list(range(40))
    assert len(found) == 10
    (path / delta.version_of(path, 2).files[0].path).unlink()
    with pytest.raises(StoreError, match="cannot read"):
        reader(path).partitions(start, last)


def test_a_table_that_changes_a_column(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    path = str(tmp_path / "t")
    write_deltalake(path, events(0))
    source, part = reader(tmp_path / "t"), reader(tmp_path / "t", names=["id"])
    start = source.initialOffset()
    other = events(10).append_column("more", pa.array(range(10)))
    write_deltalake(path, other, mode="append", schema_mode="merge")  # a column more changes nothing
    assert ids(source, start, source.latestOffset(start, ReadAllAvailable())) == list(range(20))
    text = events(20).set_column(2, "x", pa.array(["a"] * 10))
    write_deltalake(path, text, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(StoreError, match=r"changes columns of the stream: x|removes events"):
        source.latestOffset(start, ReadAllAvailable())
    with pytest.raises(StoreError, match="removes events"):
        part.latestOffset(start, ReadAllAvailable())
