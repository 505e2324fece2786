"""From the moment that a file is written to the moment that its matches are in the sink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from binding import Work
from matching import Timed

from watching import spark_stream
from watching.asking import Seen, is_sql, read_matches, spread, start_watcher
from watching.core import files_of
from watching.spark_stream import Inbox, Place, close

LONGEST = 300.0  # seconds that one batch may take
GLANCE = 0.0005  # seconds between two looks at the sink


def on_spark(work: Work) -> Callable[[], Timed]:
    """A stream with a trigger of 0 seconds; a batch is in the sink, Parquet, once it is committed."""
    spark, tables = spark_stream.session(work), _tables(work)

    def call() -> Timed:
        place = Place()
        inbox, out = Inbox(place.folder("in")), place.folder("out")
        matches = spark_stream.watch(
            work, spark_stream.read_stream(work, spark, inbox.path), place.folder("state")
        )
        query = spark_stream.write(matches, out, place.folder("checkpoint"), processingTime="0 seconds")
        try:
            took = [_wait(inbox, table, out, work) for table in tables]
            inbox.put_table(close(work))
            query.processAllAvailable()
        finally:
            query.stop()
        return _timed(work, took, [read_matches(out)])

    return call


def in_process(work: Work) -> Callable[[], Timed]:
    """A `cerise.Watcher` that reads each file when it is there, and writes its matches as Parquet."""
    import pyarrow.parquet as pq

    tables = _tables(work)

    def call() -> Timed:
        place = Place()
        inbox, out = Inbox(place.folder("in")), place.folder("out")
        running, took, found = start_watcher(work), [], []
        for number, table in enumerate(tables):
            started = perf_counter()
            inbox.put_table(table)
            found.append(running.feed(pq.read_table(max(inbox.path.iterdir()))))
            pq.write_table(found[-1], out / "draft")
            (out / "draft").rename(out / f"part-{number:05}.parquet")
            took.append(perf_counter() - started)
        return _timed(work, took, [*found, running.flush()])

    return call


def _tables(work: Work) -> list[Any]:
    import pyarrow.parquet as pq

    return [pq.read_table(each) for each in files_of(work["path"])]


def _wait(inbox: Inbox, table: Any, out: Path, work: Work) -> float:
    """Put a table into the stream, and return the seconds until its batch is committed to the sink."""
    committed = (
        out / "_spark_metadata" / str(inbox.files),
        out / "_spark_metadata" / f"{inbox.files}.compact",
    )
    started = perf_counter()
    inbox.put_table(table)
    while not any(each.exists() for each in committed):
        if perf_counter() - started > LONGEST:
            raise SystemExit(f"batch {inbox.files - 1} is not in the sink after {LONGEST:g} s")
        sleep(GLANCE)
    took = perf_counter() - started
    sleep(work["options"].get("pause", 0.05))
    return took


def _timed(work: Work, took: Sequence[float], tables: list[Any]) -> Timed:
    """Return the times without those of the first batches, which start workers and compile."""
    warm = [1000 * each for each in took[work["options"].get("first", 0) :]]
    report = {"files": len(warm), "latency_ms": spread(warm)}
    return sum(took), None, Seen(tables, report=report, sql=is_sql(work))
