"""A stream at a steady pace for a long time: is its memory flat, is its state, and are its batches even?

The files of the data set appear one after the other, each when its events are due at `rate` events a second.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from time import monotonic, perf_counter, sleep
from typing import Any

import memory
from binding import Work
from matching import Timed

from watching import spark_stream
from watching.asking import Seen, is_sql, read_matches, spread, start_watcher
from watching.core import files_of
from watching.spark_stream import Inbox, Place, close, milliseconds, observed, progress_of

Sample = tuple[float, float]  # seconds since the start, and bytes


def in_process(work: Work) -> Callable[[], Timed]:
    """`cerise.Watcher` takes each file when it is due; its state is saved, and weighed, now and then."""
    import pyarrow.parquet as pq

    sample = work["options"]["sample"]

    def call() -> Timed:
        running, tables, took, states = start_watcher(work), [], [], []
        weighed = started = monotonic()
        with _memory(sample) as held:
            for file in _due(work, started):
                before = perf_counter()
                tables.append(running.feed(pq.read_table(file)))
                took.append((monotonic() - started, 1000 * (perf_counter() - before)))
                if monotonic() - weighed >= sample:
                    weighed = monotonic()
                    states.append((weighed - started, float(len(running.save()))))
        tables.append(running.flush())
        seconds = monotonic() - started
        return seconds, None, Seen(tables, report=_report(work, took, held, states), sql=is_sql(work))

    return call


def on_spark(work: Work) -> Callable[[], Timed]:
    """A stream on Spark, whose files appear when they are due; it writes Parquet."""
    spark = spark_stream.session(work)

    def call() -> Timed:
        place = Place()
        inbox, out = Inbox(place.folder("in")), place.folder("out")
        events = spark_stream.read_stream(work, spark, inbox.path, per_trigger=None)
        matches = spark_stream.watch(work, events, place.folder("state"))
        trigger = work["options"].get("trigger", "1 second")
        query = spark_stream.write(matches, out, place.folder("checkpoint"), processingTime=trigger)
        started = monotonic()
        try:
            with _memory(work["options"]["sample"]) as held:
                for file in _due(work, started):
                    inbox.put(file)
                query.processAllAvailable()
            seconds = monotonic() - started
            batches = progress_of(query)
            inbox.put_table(close(work))
            query.processAllAvailable()
        finally:
            query.stop()
        report = _report(work, *_figures(batches, held))
        return seconds, None, Seen([read_matches(out)], report=report, sql=is_sql(work))

    return call


def _figures(batches: Sequence[Any], held: list[Sample]) -> tuple[list[Sample], list[Sample], list[Sample]]:
    """Return durations, memory and state by the seconds since the first batch."""
    times = [dt.datetime.fromisoformat(each["timestamp"]).timestamp() for each in batches]
    since = [each - times[0] for each in times]
    took = [(at, milliseconds(each)) for at, each in zip(since, batches, strict=True)]
    states = [(at, float(observed(each, "state_bytes"))) for at, each in zip(since, batches, strict=True)]
    return took, held, states


def _due(work: Work, started: float) -> Iterator[Path]:
    """Yield each file when its last event is due; at once, if that time has passed."""
    files = files_of(work["path"])
    seconds = work["data"]["events"] / len(files) / work["options"]["rate"]
    for number, file in enumerate(files, 1):
        sleep(max(0.0, started + number * seconds - monotonic()))
        yield file


@contextmanager
def _memory(every: float) -> Iterator[list[Sample]]:
    """Give a list to which the memory of this process and its descendants is added every so often."""
    held: list[Sample] = []
    over, started = threading.Event(), monotonic()

    def look() -> None:
        while not over.wait(every):
            held.append((monotonic() - started, float(memory.rss_bytes(os.getpid()))))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield held
    finally:
        over.set()
        thread.join()


def _report(
    work: Work, took: Sequence[Sample], held: Sequence[Sample], states: Sequence[Sample]
) -> dict[str, Any]:
    """Return the batches, and how flat memory and state are after the first two windows."""
    settled = 2 * work["options"]["window"] / work["options"]["rate"]
    late = [each for at, each in took if at >= settled] or [each for _, each in took]
    batches = spread(late)
    return {
        "batches": len(took),
        "batch_ms": batches,
        "p99_to_median": batches["p99"] / batches["median"],
        "settled_seconds": settled,
        "rss": flatness(held, settled),
        "state": flatness(states, settled),
        "samples": {"rss_bytes": list(held), "state_bytes": list(states)},
    }


def flatness(samples: Sequence[Sample], settled: float) -> dict[str, float] | None:
    """Return how samples vary once a stream has settled; None: there are fewer than four then.

    `spread` is the most less the least by the median, `growth` the mean of the last quarter by that of the
    first, less one.
    """
    values = [each for at, each in samples if at >= settled]
    if len(values) < 4:
        return None
    quarter = len(values) // 4
    return {
        "samples": len(values),
        "median": median(values),
        "spread": (max(values) - min(values)) / median(values),
        "growth": fmean(values[-quarter:]) / fmean(values[:quarter]) - 1,
    }
