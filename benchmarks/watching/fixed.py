"""The fixed cost of a small micro-batch on Spark: of `watch`, and of the least that Spark itself can do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from binding import Work
from matching import Timed

from watching import spark_stream
from watching.asking import Seen, spread
from watching.cpu import cpu_seconds
from watching.spark_stream import Inbox, Place, close, milliseconds, observed, progress_of

KEPT = b"0" * 64  # what the least stateful stream keeps for each bucket
FILL = 100_000  # events of a batch that fills the state


def micro_batch(work: Work) -> Callable[[], Timed]:
    """Batches of `batch` events; the first `fill` events, and then `first` batches, are untimed.

    `form` is "watch", "pass" (rows go through Spark only) or "keep" (a `transformWithState` that keeps 64
    bytes for each bucket). The result has the time of each batch, and the CPU time of all processes for one.
    """
    import pyarrow.parquet as pq

    spark, options = spark_stream.session(work), work["options"]
    table, fill, step = pq.read_table(work["path"]), options["fill"], options["batch"]
    first = fill + options["first"] * step

    def call() -> Timed:
        place = Place()
        inbox = Inbox(place.folder("in"))
        query = _start(work, spark, inbox.path, place)
        try:
            _put(inbox, query, table.slice(0, fill), FILL)
            _put(inbox, query, table.slice(fill, first - fill), step)
            done, busy = len(progress_of(query)), cpu_seconds()
            _put(inbox, query, table.slice(first), step)
            after = cpu_seconds()
            batches = progress_of(query)[done:]
            _put(inbox, query, close(work), FILL)
            every = progress_of(query)
        finally:
            query.stop()
        took = [milliseconds(each) for each in batches]
        cpu = None if busy is None or after is None else 1000 * (after - busy) / len(took)
        report = {"batches": len(took), "batch_ms": spread(took), "cpu_ms": cpu}
        if options["form"] != "watch":
            return sum(took) / 1000, None, Seen(report=report)
        report["state_bytes"] = observed(batches[-1], "state_bytes")
        matches = sum(observed(each, "matches") for each in every)
        return sum(took) / 1000, None, Seen(count=matches, report=report)

    return call


def _start(work: Work, spark: Any, inbox: Path, place: Place) -> Any:
    events = spark_stream.read_stream(work, spark, inbox)
    form, buckets = work["options"]["form"], work["options"].get("buckets", 2)
    if form == "pass":
        rows = events
    elif form == "keep":
        rows = _keep(events, buckets)
    else:
        rows = spark_stream.watch(work, events, place.folder("state"))
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(place.folder("checkpoint")))
    return writer.trigger(processingTime="0 seconds").start()


def _keep(events: Any, buckets: int) -> Any:
    """Return a stream that keeps 64 bytes for each bucket, and gives its number of events."""
    from pyspark import cloudpickle
    from pyspark.sql import functions as f

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    grouped = events.withColumn("bucket", f.pmod("id", f.lit(buckets))).groupBy("bucket")
    return grouped.transformWithState(
        _processor(), "bucket int, events long", outputMode="append", timeMode="none"
    )


def _processor() -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Keep(StatefulProcessor):
        """Keeps 64 bytes, and counts the events of a batch."""

        def init(self, handle: Any) -> None:
            self._kept = handle.getValueState("kept", "kept binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
            self._kept.get()
            self._kept.update((KEPT,))
            yield Row(bucket=key[0], events=sum(1 for _ in rows))

        def close(self) -> None:
            pass

    return Keep()


def _put(inbox: Inbox, query: Any, table: Any, step: int) -> None:
    """Let the stream take a table in batches, and wait until it has."""
    for at in range(0, len(table), step):
        inbox.put_table(table.slice(at, step))
    query.processAllAvailable()
