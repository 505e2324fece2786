"""The event store through Spark: the same matches as in process; tasks append."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import cerise
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from cerise.event_store import Store
from cerise.files import delta
from tests.test_agreement import rows

RARE = "PATTERN SEQ(A a, B b, C c) WHERE a.x = 1 AND b.x = 2 WITHIN 2"


def ticks(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "t": pa.array(numbers, pa.int64()),
            "k": pa.array(["ABC"[i % 3] for i in numbers], pa.string()),
            "x": pa.array([i % 7 for i in numbers], pa.int64()),
            "note": pa.array([f"n{i}" for i in numbers], pa.string()),
        }
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Store:
    """Half of it written by tasks of Spark, half by this process; some of it fresh."""
    made = Store.create(
        tmp_path_factory.mktemp("stores") / "ticks", schema=ticks(0, 0).schema, time="t", type="k", index="x",
        block_rows=64, pool_rows=32,
    )  # fmt: skip
    frame = spark.createDataFrame(ticks(0, 500).to_pandas()).repartition(3)
    made.append(frame)
    made.append(ticks(500, 1000))
    made.append(ticks(1000, 1010))
    return made


def test_tasks_append_every_event_once(store: Store) -> None:
    assert store.verify() == []
    assert store.info().events == 1010
    assert store.version == 3
    held = delta.read(Path(store.info().path))
    assert sorted(held["t"].to_pylist()) == list(range(1010))


@pytest.mark.parametrize("partitions", [None, 5])
def test_spark_finds_what_is_found_in_process(store: Store, partitions: int | None) -> None:
    expected = cerise.find(ticks(0, 1010), RARE, time="t", type="k")
    found = store.find(RARE, options=Options(partitions=partitions), spark=True).toArrow()
    assert rows(found.cast(expected.schema)) == rows(expected) == rows(store.find(RARE))
    assert cerise.count(store, RARE, spark=True) == len(expected)


def test_a_report_tells_what_was_kept(store: Store) -> None:
    found = cerise.profile(store, RARE, spark=True)
    count = found.matches.count()
    assert found.report.figures["matches"] == count
    assert found.report.figures["events kept"] < 400
    assert found.report.figures["events"] == 1010


def test_candidates_as_a_frame(store: Store) -> None:
    frame = store.candidates(RARE, spark=True)
    assert frame.columns == ["t", "k", "x", "note"]
    local = store.candidates(RARE)
    assert sorted(map(str, frame.toArrow().to_pylist())) == sorted(map(str, local.to_pylist()))


@pytest.mark.parametrize("define", ["A AS k = 'A' AND x = 1, B AS k = 'B'", "A AS x > PREV(x), B AS k = 'B'"])
def test_sql_over_a_store_on_spark(store: Store, define: str) -> None:
    """By the index, and where it cannot help."""
    text = f"""SELECT * FROM events MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.t AS b, A.note AS n
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) WITHIN 5 DEFINE {define})"""
    expected = cerise.find(ticks(0, 1010), text).to_pylist()
    found: list[Any] = store.find(text, spark=True).orderBy("a").toArrow().to_pylist()
    assert found == expected
    assert len(found) > 20


def test_stretches_are_matched_by_tasks(store: Store) -> None:
    query = "PATTERN SEQ(A a, B b) WHERE a.x >= 0 AND b.x > a.x WITHIN 4"
    options = Options(partitions=4, limits=Limits(stretch_events=100))
    found = store.find(query, options=options, spark=True).toArrow()
    assert rows(found) == rows(cerise.find(ticks(0, 1010), query, time="t", type="k").cast(found.schema))


def test_errors_of_an_append_leave_nothing(store: Store, spark: SparkSession, tmp_path: Path) -> None:
    other = Store.create(tmp_path / "s", schema=ticks(0, 0).schema, time="t", type="k")
    frame = spark.sql("SELECT CAST(NULL AS BIGINT) AS t, 'A' AS k, 1L AS x, 'n' AS note")
    with pytest.raises(cerise.DataError, match="have no time"):
        other.append(frame)
    assert other.info().events == 0
    with pytest.raises(cerise.StoreError, match="no column 'note'"):
        other.append(spark.sql("SELECT 1L AS t, 'A' AS k, 1L AS x"))


@pytest.mark.parametrize("query", [RARE, "PATTERN SEQ(a, b) WHERE a.x > b.x WITHIN 2 RETURN a.note AS note"])
def test_a_damaged_data_file_is_told_of_by_tasks(
    store: Store, spark: SparkSession, tmp_path: Path, query: str
) -> None:
    path = tmp_path / "damaged"
    shutil.copytree(store.info().path, path)
    for file in path.glob("*.parquet"):
        data = bytearray(file.read_bytes())
        data[100] ^= 4
        file.write_bytes(data)
    with pytest.raises(Exception, match=r"cannot read column .*\.parquet: bytes .* are damaged"):
        Store(path).find(query).toArrow()
