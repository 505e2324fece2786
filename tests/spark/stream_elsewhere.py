"""A program for tests: streams on Spark Connect, or on executors whose tasks fail, die or dawdle.

python stream_elsewhere.py FOLDER MASTER HOW STREAM...       MASTER: "connect", or a master of Spark

HOW: "well", "failed": each task fails twice after it has kept its state; "killed": its worker is killed once;
"slow": a task dawdles, so that Spark starts it twice. Streams are named as in `killed_stream.py`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

import cerise
from cerise.spark import stream_plan
from cerise.spark.session import ROCKS, STATE_STORE
from cerise.spark.stream_tasks import BucketProcessor, FileStateTask
from tests.spark.killed_stream import start, watch

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

TIMES = {"failed": 2, "killed": 1, "slow": 1}  # attempts of a task that go wrong


def suffer(how: str) -> None:
    """Let the first attempts of a task go wrong."""
    context = TaskContext.get()
    if context is None or context.attemptNumber() >= TIMES.get(how, 0):
        return
    if how == "failed":
        raise RuntimeError("a task that fails")
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if context.partitionId() == 0 and int(context.getLocalProperty("streaming.sql.batchId") or 0) == 1:
        time.sleep(10)


def make_fragile(how: str) -> None:
    """Replace the tasks of streams by tasks that go wrong after they have kept their state."""

    class FragileProcessor(BucketProcessor):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            found = list(super().handleInputRows(key, rows, timerValues))
            suffer(how)
            yield from found

    class FragileTask(FileStateTask):
        def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = list(super().__call__(batches))
            suffer(how)
            yield from found

    vars(stream_plan).update(BucketProcessor=FragileProcessor, FileStateTask=FragileTask)


def connect(master: str, how: str) -> SparkSession:
    """Return a session of some kind."""
    if master != "connect":
        return cerise.session(
            memory="1g", spark_master=master, spark_sql_shuffle_partitions=2, spark_speculation=how == "slow",
            spark_speculation_multiplier=1.1, spark_speculation_quantile=0.3,
            spark_speculation_minTaskRuntime="100ms", spark_executorEnv_PYTHONPATH=os.environ["PYTHONPATH"],
        )  # fmt: skip
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config(STATE_STORE, ROCKS)
    return builder.config("spark.python.daemon.module", "cerise.spark.daemon").getOrCreate()


def main(folder: Path, master: str, how: str, names: list[str]) -> None:
    """Run streams one after another."""
    spark = connect(master, how)
    make_fragile(how)
    for name in names:
        query = start(watch(spark, folder, name), folder / name, name.split("-")[1])
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
