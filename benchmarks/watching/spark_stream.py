"""A streaming query on Spark over a folder of files: its source, its home of state, its sink, its batches."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import on_spark
from binding import Work
from matching import Timed

from watching.asking import Seen, arguments, is_sql, run_options, spread
from watching.core import files_of

PROGRESSES = 1_000_000  # batches whose progress Spark keeps
FIRST = 1_000_000_000  # the modification time of the first file, in seconds; Spark reads files in its order
CLOSING = 64  # events after the last: of those that fit no query Spark hands over one in sixteen


@dataclass
class Inbox:
    """A folder whose files a stream reads in the order in which they were put there."""

    path: Path
    files: int = 0

    def put(self, file: Path) -> None:
        """Let a file that exists appear as a whole; it stays where it is, too."""
        draft = self.path.with_name(f"{self.path.name}-draft")
        try:
            os.link(file, draft)
        except OSError:  # on another file system
            shutil.copy(file, draft)
        self._show(draft)

    def put_table(self, table: Any) -> None:
        """Let a table appear as a file."""
        import pyarrow.parquet as pq

        draft = self.path.with_name(f"{self.path.name}-draft")
        pq.write_table(table, draft)
        self._show(draft)

    def _show(self, draft: Path) -> None:
        os.utime(draft, (FIRST + self.files, FIRST + self.files))
        draft.rename(self.path / f"{self.files:06}.parquet")
        self.files += 1


@dataclass
class Place:
    """The folders of one streaming query; they go away with it."""

    keep: Any = field(default_factory=lambda: tempfile.TemporaryDirectory(prefix="cerise-bench-"))

    def folder(self, name: str) -> Path:
        path = Path(self.keep.name, name)
        path.mkdir(exist_ok=True)
        return path


def session(work: Work) -> Any:
    """Return a running session with as many shuffle partitions as the stream has buckets."""
    spark = on_spark.session(work)
    spark.conf.set("spark.sql.shuffle.partitions", str(work["options"].get("buckets", 2)))
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(PROGRESSES))
    return spark


def why_not(work: Work) -> str | None:
    """Say that this Cerise cannot read a folder as a stream by itself."""
    import cerise

    lacks = work["options"].get("source") == "lake" and not hasattr(cerise, "stream")
    return "this version has no cerise.stream" if lacks else None


def read_stream(work: Work, spark: Any, inbox: Path, per_trigger: int | None = 1) -> Any:
    """Return the folder as a streaming DataFrame: read by Spark, or by `cerise.stream`."""
    import pyarrow.parquet as pq

    if work["options"].get("source") == "lake":
        import cerise

        stream: Any = cerise.__getattr__("stream")  # not in every version: see why_not
        rows = {} if per_trigger is None else {"max_rows": per_trigger * max(rows_of(work))}
        return stream(str(inbox), spark=spark, **rows)
    schema = spark.read.parquet(str(files_of(work["path"])[0])).schema
    assert schema.names == pq.read_schema(files_of(work["path"])[0]).names
    reader = spark.readStream.schema(schema)
    if per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", per_trigger)
    return reader.parquet(str(inbox))


def watch(work: Work, events: Any, state: Path) -> Any:
    """Return the matches of the query as a streaming DataFrame."""
    import cerise

    options = work["options"]
    home = {"state": str(state)} if options.get("home", "files") == "files" else {}
    return cerise.watch(
        events, work["query"]["text"], **arguments(work), **home, buckets=options.get("buckets", 2),
        options=run_options(work),
    )  # fmt: skip


def close(work: Work) -> Any:
    """Return events long after the last, in no match: with them, all before is final.

    They are the last event again and again, each more than any window after the other.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    last = pq.read_table(files_of(work["path"])[-1])
    last = last.slice(len(last) - 1)
    name = work["query"]["time"]
    kind = last.schema.field(name).type
    gap = 10**9 if pa.types.is_integer(kind) else 86_400 * {"s": 1, "ms": 10**3, "us": 10**6}[kind.unit] * 100
    at = last[name].cast(pa.int64())[0].as_py()
    times = pa.array([at + gap * (number + 1) for number in range(CLOSING)], pa.int64()).cast(kind)
    rows = last.take(pa.array([0] * CLOSING))
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), times)


def progress_of(query: Any) -> list[Mapping[str, Any]]:
    """Return the progress of all batches that had events."""
    return [each for each in query.recentProgress if each["numInputRows"]]


def milliseconds(progress: Mapping[str, Any]) -> float:
    """Return how long a batch took, from its trigger to its end."""
    return float(progress["durationMs"]["triggerExecution"])


def observed(progress: Mapping[str, Any], name: str) -> int:
    """Return a figure that `watch` has put into the progress of a batch."""
    seen = progress["observedMetrics"].get("cerise")
    return 0 if seen is None else int(seen[name] or 0)


def rows_of(work: Work) -> list[int]:
    """Return how many events each file has."""
    import pyarrow.parquet as pq

    return [pq.read_metadata(file).num_rows for file in files_of(work["path"])]


def throughput(work: Work) -> Callable[[], Timed]:
    """A stream over all files, some a batch, from its start until its matches are written as Parquet."""
    spark, numbers, each = session(work), count(), work["options"].get("batch_files", 1)
    rows = rows_of(work)
    sizes = [sum(rows[start : start + each]) for start in range(0, len(rows), each)]
    place = Place()
    inbox = Inbox(place.folder("in"))
    for file in files_of(work["path"]):
        inbox.put(file)
    inbox.put_table(close(work))

    def call(_keep: Any = place) -> Timed:
        here = Place()
        out = place.folder(f"out-{next(numbers)}")
        started = perf_counter()
        matches = watch(work, read_stream(work, spark, inbox.path, each), here.folder("state"))
        query = write(matches, out, here.folder("checkpoint"), availableNow=True)
        query.awaitTermination()
        seconds = perf_counter() - started
        return seconds, None, Seen(folder=out, report=_batches(query, sizes), sql=is_sql(work))

    return call


def write(matches: Any, out: Path, checkpoint: Path, **trigger: Any) -> Any:
    """Start a streaming query that writes Parquet."""
    writer = matches.writeStream.format("parquet").option("path", str(out))
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


def _batches(query: Any, sizes: list[int]) -> dict[str, Any]:
    """Return the times of the batches; the first, and the last, which closes the stream, are left out.

    Args:
        query: the streaming query, which has ended.
        sizes: how many events each batch has; Spark counts what a source hands over, which may be blobs.
    """
    progress = progress_of(query)
    full, events = progress[1 : len(sizes)] or progress[:1], sum(sizes[1:] or sizes)
    took = [milliseconds(each) for each in full]
    return {
        "batches": len(progress),
        "batch_ms": spread(took),
        "steady_events_per_second": 1000 * events / sum(took),
        "state_bytes": max(observed(each, "state_bytes") for each in progress),
    }
