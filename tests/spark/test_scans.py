"""DataFrames behind which there are only files: they are recognised, and everything else is left to Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise.spark.frames import lake_behind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TICKS = pa.table(
    {
        "symbol": ["a", "b", "c"] * 40,
        "t": pa.array(range(120), pa.timestamp("us", "UTC")),
        "price": [float((i * 7919) % 31) for i in range(120)],
    }
)
CLAUSE = """
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY t MEASURES FIRST(t) AS began, LAST(price) AS last
  PATTERN (A B+) DEFINE B AS price > PREV(price))"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    folder = tmp_path / "ticks and more"  # a name that a URI must quote
    folder.mkdir()
    for number in range(3):
        pq.write_table(TICKS.slice(40 * number, 40), folder / f"{number}.parquet")
    return str(folder)


@pytest.fixture
def view(spark: SparkSession, path: str) -> Iterator[DataFrame]:
    frame = spark.read.parquet(path)
    frame.createOrReplaceTempView("ticks")
    yield frame
    spark.catalog.dropTempView("ticks")


def rows(found: DataFrame | pa.Table) -> list[str]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted(map(str, table.to_pylist()))


def test_files_are_read_by_tasks_themselves(view: DataFrame, spark: SparkSession) -> None:
    expected = rows(cerise.find(TICKS, CLAUSE))
    for frame in (view, spark.table("ticks"), spark.sql("SELECT * FROM ticks AS other")):
        lake = lake_behind(frame)
        assert lake is not None
        assert lake.rows == len(TICKS)
        found = cerise.profile(frame, CLAUSE)
        assert rows(found.matches) == expected
        assert found.report.figures["events read"] == len(TICKS)
    assert rows(cerise.sql(spark, CLAUSE)) == expected
    assert "Parquet" not in _plan(cerise.sql(spark, CLAUSE))


@pytest.mark.parametrize(
    "other",
    [
        lambda frame: frame.where("price > 3"),
        lambda frame: frame.select("symbol", "t", "price").limit(50),
        lambda frame: frame.select("price", "symbol", "t"),
        lambda frame: frame.withColumn("price", frame["price"] + 1),
        lambda frame: frame.withColumnRenamed("price", "cost").withColumnRenamed("cost", "price"),
        lambda frame: frame.union(frame),
        lambda frame: frame.dropDuplicates(),
        lambda frame: frame.withColumn("t", frame["t"].cast("timestamp_ntz")),
    ],
)
def test_what_is_more_than_files_is_left_to_spark(
    other: Callable[[DataFrame], DataFrame], view: DataFrame
) -> None:
    frame = other(view)
    lake = lake_behind(frame)
    assert lake is None or lake.columns.names == frame.columns
    if lake is None:
        assert "Parquet" in _plan(cerise.find(frame, CLAUSE))
    assert rows(cerise.find(frame, CLAUSE)) == rows(cerise.find(frame.toArrow(), CLAUSE))


def test_what_is_cached_is_not_read_again(view: DataFrame) -> None:
    view.cache()
    try:
        assert lake_behind(view) is None
        assert lake_behind(view.select("*")) is None
    finally:
        view.unpersist()
    assert lake_behind(view.select("*")) is not None


def test_files_that_have_come_or_gone_are_sparks_affair(view: DataFrame, path: str) -> None:
    more = Path(path) / "3.parquet"
    pq.write_table(TICKS, more)
    assert lake_behind(view) is None  # Spark has listed three
    more.unlink()
    assert lake_behind(view.select("*")) is not None


def test_options_of_the_reader_are_sparks_affair(spark: SparkSession, path: str) -> None:
    assert lake_behind(spark.read.option("pathGlobFilter", "[01].parquet").parquet(path)) is None
    assert lake_behind(spark.read.option("mergeSchema", "true").parquet(path)) is None
    assert lake_behind(spark.read.schema("symbol string, t timestamp").parquet(path)) is None
    assert lake_behind(spark.read.parquet(f"{path}/0.parquet", f"{path}/1.parquet")) is None
    assert lake_behind(spark.read.parquet(f"{path}/0.parquet")) is not None


def test_corrupt_files_that_spark_would_ignore(spark: SparkSession, view: DataFrame) -> None:
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        assert lake_behind(view) is None
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_hive_partitions_and_frames_without_files(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_to_dataset(TICKS, str(tmp_path / "hive"), partition_cols=["symbol"])
    assert lake_behind(spark.read.parquet(str(tmp_path / "hive"))) is None
    assert lake_behind(spark.range(5)) is None
    assert lake_behind(spark.readStream.schema("a int").parquet(str(tmp_path / "hive"))) is None


def _plan(frame: DataFrame) -> str:
    """What Spark itself is going to do."""
    return str(frame._jdf.queryExecution().executedPlan().toString())
