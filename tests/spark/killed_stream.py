"""A program for tests: a stream over a folder, whose processes may be killed at any time.

python killed_stream.py FOLDER STREAM...       STREAM: HOME-SINK or HOME-SINK-snapshots, as "files-delta"

Each stream reads FOLDER/in, and keeps all else in FOLDER/STREAM. It is run to the end of the folder.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cerise
from cerise.engines.limits import Limits
from cerise.store.table import failpoints
from tests.spark.dying_daemon import VARIABLE, at_hand, hook_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "ts timestamp, kind string, id long, n long"
QUERIES = {
    "seq": "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 30 seconds RETURN a.n AS a, b.n AS b",
    "absent": "PATTERN SEQ(A a, NOT B b) WHERE [id] WITHIN 10 seconds RETURN a.n AS a, a.n AS b",
}


def watch(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Return the matches of a stream as its name asks."""
    place, snapshots = folder / name, name.endswith("snapshots")
    home: dict[str, Any] = {"state": str(place / "state")} if name.startswith("files") else {}
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return cerise.watch(
        reader.option("pathGlobFilter", "*.parquet").parquet(str(folder / "in")), QUERIES,
        time="ts", type="kind", order="n", delay="5 seconds", buckets=2, late=str(place / "late"),
        options=cerise.Options(limits=Limits(snapshot_bytes=1, entry_bytes=1)) if snapshots else None, **home,
    )  # fmt: skip


def start(matches: DataFrame, place: Path, sink: str) -> Any:
    """Start a stream into its sink."""
    checkpoint = str(place / "checkpoint")
    writer = matches.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    if sink == "parquet":
        return writer.format("parquet").option("path", str(place / "out")).start()
    return writer.foreachBatch(notice(cerise.into(str(place / "out")), checkpoint)).start()


def notice(write: Callable[[DataFrame, int], None], checkpoint: str) -> Callable[[DataFrame, int], None]:
    """Return a sink that says which batch it writes, for failpoints in the driver."""

    def write_batch(batch: DataFrame, number: int) -> None:
        at_hand.checkpoint, at_hand.batch = checkpoint, number
        write(batch, number)

    return write_batch


def main(folder: Path, names: list[str]) -> None:
    """Run streams at the same time; print their last progress."""
    spark = cerise.session(
        cores=2, memory="1g", spark_sql_shuffle_partitions=2,
        spark_python_daemon_module="tests.spark.dying_daemon",
    )  # fmt: skip
    if VARIABLE in os.environ:
        failpoints.hook = hook_at(os.environ[VARIABLE])
    running = {name: start(watch(spark, folder, name), folder / name, name.split("-")[1]) for name in names}
    for name, query in running.items():
        query.awaitTermination()
        progress = query.lastProgress
        figures = None if progress is None else progress["observedMetrics"].get("cerise")
        sys.stdout.write(json.dumps({name: figures and figures.asDict()}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
