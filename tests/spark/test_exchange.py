"""Blobs reach the task they are for, and the bar knows how far Spark's tasks are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cerise.spark.exchange import NUMBERS, murmur3
from cerise.spark.progress import count_tasks, progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_number_is_hashed_as_spark_does(spark: SparkSession) -> None:
    numbers = [0, 1, 2, 7, 1_000, 2**31 - 1]
    rows = spark.createDataFrame([(n,) for n in numbers], "n int").selectExpr("n", "hash(n) AS h").collect()
    assert {row.n: row.h for row in rows} == {n: murmur3(n) for n in numbers}


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_each_target_is_a_task_of_its_own(spark: SparkSession, count: int) -> None:
    frame = spark.createDataFrame([(n,) for n in NUMBERS(count)], "place int").repartition(count, "place")
    rows = frame.selectExpr("place", "spark_partition_id() AS task").collect()
    assert {row.place: row.task for row in rows} == {n: task for task, n in enumerate(NUMBERS(count))}


def test_tasks_are_counted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    with progress(spark):
        spark.range(0, 100, 1, 5).selectExpr("sum(id)").collect()
    tasks, finished = count_tasks(tracker, before)
    assert tasks >= finished >= 5  # stages that Spark could skip stay unfinished
