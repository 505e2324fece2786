"""A run on executors of their own, some of whose workers die or dawdle; prints what was found, as JSON.

Called by `test_faults.py` in a process of its own: a process has one Spark only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

import cerise
from cerise.spark import runner, tasks


@dataclass(frozen=True, slots=True)
class Fragile:
    """A task that is killed in its middle the first time, or slow the first time."""

    task: tasks.SliceTask
    how: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do what the task does, if it comes to that."""
        context = TaskContext.get()
        assert context is not None
        first = context.attemptNumber() == 0
        if self.how == "slow" and first and context.partitionId() == 0:
            time.sleep(8)
        for number, found in enumerate(self.task(batches)):
            if self.how == "killed" and first and number == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            yield found


def main(path: str, how: str, executors: str) -> None:
    """Find matches in a path, with tasks that fail in some way."""
    spark = cerise.session(
        spark_master=f"local-cluster[{executors},{2 // int(executors)},1024]",  # two cores
        spark_speculation=how == "slow", spark_speculation_multiplier=1.1, spark_speculation_quantile=0.3,
        spark_speculation_minTaskRuntime="100ms",
        spark_executorEnv_PYTHONPATH=os.environ["PYTHONPATH"],
    )  # fmt: skip
    original = runner.SliceTask
    runner.SliceTask = lambda *args: Fragile(original(*args), how)  # type: ignore[assignment, misc, return-value]
    query = "PATTERN SEQ(A a, B b, A c) WHERE b.x > a.x AND c.x > 3 WITHIN 20"
    found = cerise.profile(
        path, query, time="t", type="kind", options=cerise.Options(partitions=4), spark=True
    )
    ids = sorted(row[0] for row in found.matches.select("match_id").collect())
    figures = {name: found.report.figures[name] for name in ("matches", "tasks matching")}
    sys.stdout.write(json.dumps({"ids": ids, **figures}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
