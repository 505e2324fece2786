"""The ways to run what is measured. Each prepares untimed, and returns the call that is timed.

A subject gets its work as a plain dict (see `measure`), so that a peer in an environment of its own can be
asked in the same way. Heavy packages are imported where they are used: `run.py` reads only the table.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import by_hand
import enumerating
import matching
import on_spark
import row_patterns
from binding import bind, roles

Work = dict[str, Any]
Call = Callable[[], Any]
Found = tuple[str, Any] | None

HELD = 5_000_000  # matches whose names are held at once


@dataclass(frozen=True, slots=True)
class Subject:
    """How something is run.

    Attributes:
        prepare: does what is not measured, and returns the call to measure.
        needs: "nothing", "data" (its description), "query" (and a schema), or "events" (in a file) and query.
        options: the entries that its table in a suite may have.
        found: what a measured call has found; nothing, where it does not match.
        counted: what else it has to tell, by name.
        timed: whether the call measures itself, and returns (seconds, seconds of computing or None, result).
        why_not: says why it cannot run here; None where it can.
        versions: of what is not a package of this Python.
    """

    prepare: Callable[[Work], Call]
    needs: str
    options: tuple[str, ...] = ()
    found: Callable[[Any], Found] = lambda result: None
    counted: Callable[[Any], dict[str, Any] | None] = lambda result: None
    timed: bool = False
    why_not: Callable[[Work], str | None] = lambda work: None
    versions: Callable[[], dict[str, str]] = dict


def process(work: Work) -> Call:
    """`cerise.find` on a table in memory, in this process."""
    import pyarrow.parquet as pq

    import cerise

    table = pq.read_table(work["path"])
    options = cerise.Options(**work["options"])
    return lambda: cerise.find(table, work["query"]["text"], **roles(work), options=options)


def count(work: Work) -> Call:
    """`cerise.count` on a table in memory, in this process."""
    import pyarrow.parquet as pq

    import cerise

    table = pq.read_table(work["path"])
    given = roles(work) | {"options": cerise.Options(**work["options"])}
    return lambda: enumerating.giving_up(lambda: cerise.count(table, work["query"]["text"], **given))


def count_path(work: Work) -> Call:
    """`cerise.count` on the path of the file, in this process."""
    import cerise

    given = roles(work) | {"options": cerise.Options(**work["options"])}
    return lambda: cerise.count(work["path"], work["query"]["text"], **given)


def spark(work: Work) -> Call:
    """`cerise.find` on a DataFrame of the file, matches brought to the driver; the session is running."""
    import cerise

    options = dict(work["options"])
    session = cerise.session(cores=options.pop("cores", None), memory=options.pop("memory", None))
    events = session.read.parquet(work["path"])
    run = cerise.Options(**options)
    return lambda: cerise.find(events, work["query"]["text"], **roles(work), options=run).toArrow()


def read(work: Work) -> Call:
    """Only read the columns that the query needs, with pyarrow."""
    import pyarrow.parquet as pq

    columns = list(bind(work).needs)
    threads = work["options"].get("threads", True)
    return lambda: pq.read_table(work["path"], columns=columns, use_threads=threads)


def parse_and_bind(work: Work) -> Call:
    """From the text of a query to the bound query."""
    return lambda: bind(work)


def generate(work: Work) -> Call:
    """Make the events of a data set, batch by batch, and drop them."""
    from streams import batches

    return lambda: sum(batch.num_rows for batch in batches(work["data"]))


def write(work: Work) -> Call:
    """Make the events of a data set and write them to a Parquet file."""
    import streams

    folder = tempfile.TemporaryDirectory(prefix="cerise-bench-")  # goes away with the call

    def call() -> None:
        streams.write(work["data"], Path(folder.name, "events"))

    return call


def python(work: Work) -> Call:
    """Run a line of Python in a new interpreter, without the time that the interpreter takes to start."""
    code = (
        "import time; _start = time.perf_counter()\n"
        f"{work['options']['code']}\n"
        "print(time.perf_counter() - _start)"
    )

    def call() -> matching.Timed:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1]), None, None

    return call


def matches(table: Any) -> Found:
    """Return what names the matches of a result: their ids, their count, or all that was returned of them."""
    if "match_id" in table.column_names:
        return "match_id", table.column("match_id").to_pylist()
    if table.column_names == ["count"]:
        return "count", int(table.column("count")[0].as_py())
    return "rows", [tuple(row.values()) for row in table.to_pylist()]


def written(folder: Path) -> Found:
    """Return what names the matches that were written, and remove them; very many ids are added up."""
    import numpy as np
    import pyarrow.dataset as ds

    held = ds.dataset(folder)
    columns = ["match_id"] if "match_id" in held.schema.names else None
    count, found = held.count_rows(), None
    if columns is None or count <= HELD:
        found = matches(held.to_table(columns=columns))
    else:
        ids = (batch.column(0).to_numpy().view(np.uint64) for batch in held.to_batches(columns=columns))
        found = "match_id", {"count": count, "sum": sum(int(each.sum()) for each in ids)}
    shutil.rmtree(folder)
    return found


def counted(result: Any) -> Found:
    """Return a number of matches, or what names those of a table."""
    return ("count", result) if isinstance(result, int) else matches(result)


def _acer(part: str) -> Callable[[Any], Any]:
    """Return a function of `acer.measuring`, which is imported when it is called: it brings the engines."""

    def call(given: Any) -> Any:
        return getattr(importlib.import_module("acer.measuring"), part)(given)

    return call


def _many(module: str, part: str, *options: str) -> Subject:
    """Return a subject of the suite `mcep`, which answers many queries; its module is imported when asked."""

    def later(name: str) -> Callable[[Any], Any]:
        def call(given: Any) -> Any:  # its module is imported when it is called
            return getattr(importlib.import_module(f"mcep.{module}"), name)(given)

        return call

    return Subject(later(part), "events", options, later("found"), counted=later("told"), timed=True)


def _watching(part: str) -> Callable[[Any], Any]:
    """Return a function of `watching`, such as "core.feed"; its module is imported when it is called."""
    module, _, name = part.rpartition(".")

    def call(given: Any) -> Any:
        return getattr(importlib.import_module(f"watching.{module}"), name)(given)

    return call


def _stream(part: str, *options: str) -> Subject:
    """Return a subject of the suite `stream`, which tells the matches and figures of one stream."""
    return Subject(
        _watching(part),
        "events",
        options,
        _watching("asking.found"),
        counted=_watching("asking.report_of"),
        timed=True,
        why_not=_watching("spark_stream.why_not"),
    )


def _counted(fed: matching.Fed) -> dict[str, Any]:
    return fed.counted


RUN = ("engine", "max_runs", "partitions", "passes", "strict")  # of cerise.Options
SESSION = on_spark.OPTIONS
WATCH = ("engine", "home", "buckets", "source", *SESSION)  # of a stream on Spark
PACE = ("rate", "window", "sample")
PLAN = ("method", "moves", "prefix_only", "seconds", "neighbours", "cost", "max_runs")  # of many queries

SUBJECTS = {
    "process": Subject(process, "events", RUN, matches),
    "count": Subject(count, "events", RUN, counted),
    "path count": Subject(count_path, "events", RUN, counted),
    "spark": Subject(spark, "events", (*RUN, *SESSION), matches),
    "lake count": Subject(on_spark.lake_count, "events", (*RUN, *SESSION), counted),
    "lake write": Subject(on_spark.lake_write, "events", (*RUN, *SESSION), written),
    "scan": Subject(on_spark.scan, "events", (*RUN, *SESSION, "sort"), counted=on_spark.rows),
    "frame": Subject(on_spark.frame, "events", (*RUN, *SESSION, "count"), counted),
    "hand over": Subject(on_spark.hand_over, "events", (*RUN, *SESSION, "count"), counted=on_spark.rows),
    "self join": Subject(by_hand.self_join, "events", SESSION, counted, why_not=by_hand.why_not),
    "window functions": Subject(
        by_hand.window_functions, "events", SESSION, counted, why_not=by_hand.why_not
    ),
    "applyInPandas": Subject(by_hand.apply_in_pandas, "events", SESSION, counted, why_not=by_hand.why_not),
    "matcher": Subject(
        matching.matcher, "events", (*RUN, "batch"), matching.found, counted=_counted, timed=True
    ),
    "enumerate": Subject(
        enumerating.enumerate_all, "events", (*RUN, "batch"), enumerating.found, counted=enumerating.told
    ),
    "endless": Subject(matching.endless, "query", (*RUN, "batch"), matching.found, counted=_counted),
    "new query": Subject(matching.new_query, "query", ("engine",), matches),
    "new process": Subject(
        matching.new_process, "query", ("engine", "cache"), lambda ids: ("match_id", ids), timed=True
    ),
    "rows process": Subject(row_patterns.process, "events", row_patterns.PROCESS, row_patterns.found),
    "rows engine": Subject(row_patterns.engine, "events", ("max_steps",), row_patterns.counted),
    "rows lake": Subject(row_patterns.lake, "events", (*row_patterns.SPARK, *SESSION), row_patterns.counted),
    "rows lake write": Subject(
        row_patterns.lake_write, "events", (*row_patterns.SPARK, *SESSION), row_patterns.written
    ),
    "rows sql": Subject(row_patterns.sql, "events", (*row_patterns.SPARK, *SESSION), row_patterns.counted),
    "rows scan": Subject(row_patterns.scan, "events", SESSION, counted=on_spark.rows),
    "rows read": Subject(row_patterns.read, "events", ("threads",)),
    "workload": Subject(
        _acer("answer_all"),
        "events",
        ("method", "tries", "threads", "cold"),
        _acer("found"),
        counted=_acer("told"),
        timed=True,
        why_not=_acer("why_not"),
    ),
    "append": Subject(
        _acer("append"), "events", ("form",), counted=_acer("sizes"), timed=True, why_not=_acer("why_not")
    ),
    "many together": _many("measuring", "together", "memory", *PLAN),
    "many apart": _many("measuring", "apart", "engine", "sample", "memory", "max_runs"),
    "many singles": _many("alone", "singly", "engine", "max_runs", "tries"),
    "many routed": _many("alone", "route"),
    "stream feed": Subject(
        _watching("core.feed"),
        "events",
        ("engine", "fill", "batch"),
        matching.found,
        counted=_counted,
        timed=True,
    ),
    "stream journal": _stream("core.journal", "engine", "fill", "batch"),
    "stream watcher": _stream("core.watcher", "engine", "batch"),
    "stream find": Subject(_watching("core.find_path"), "events", ("engine",), matches),
    "stream spark": _stream("spark_stream.throughput", *WATCH, "batch_files"),
    "stream micro-batch": _stream("fixed.micro_batch", *WATCH, "form", "fill", "batch", "first"),
    "stream soak": _stream("soak.in_process", "engine", *PACE),
    "stream soak spark": _stream("soak.on_spark", *WATCH, *PACE, "trigger"),
    "stream latency": _stream("latency.in_process", "engine", "first"),
    "stream latency spark": _stream("latency.on_spark", *WATCH, "first", "pause"),
    "read": Subject(read, "events", ("threads",)),
    "bind": Subject(parse_and_bind, "query"),
    "generate": Subject(generate, "data"),
    "write": Subject(write, "data"),
    "python": Subject(python, "nothing", ("code",), timed=True),
}
