"""A program for tests: a stream over a topic of Kafka, whose processes may be killed at any time.

python killed_topic.py FOLDER URL ROWS        ROWS: of a batch, at most

It keeps all else in FOLDER, is run to the end of the topic, and prints the milliseconds of each batch.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import cerise
from cerise.store.table import failpoints
from tests.spark.dying_daemon import VARIABLE, hook_at
from tests.spark.killed_stream import QUERIES, SCHEMA, start


def main(folder: Path, url: str, rows: int) -> None:
    """Run the stream; print the numbers and times of its batches."""
    spark = cerise.session(
        cores=2, memory="2g", spark_sql_shuffle_partitions=2,
        spark_python_daemon_module="tests.spark.dying_daemon",
    )  # fmt: skip
    if VARIABLE in os.environ:
        failpoints.hook = hook_at(os.environ[VARIABLE])
    matches = cerise.watch(
        cerise.stream(url, schema=SCHEMA, max_rows=rows, spark=spark), QUERIES,
        time="ts", type="kind", order="n", delay="5 seconds", buckets=2, late=str(folder / "late"),
    )  # fmt: skip
    running = start(matches, folder, "delta")
    running.awaitTermination()
    for each in running.recentProgress:
        sys.stdout.write(json.dumps([each["batchId"], each["durationMs"]["triggerExecution"]]) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
