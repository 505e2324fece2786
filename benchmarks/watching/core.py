"""Streams in this process: one matcher, one bucket with its journal, and `cerise.Watcher` over files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from binding import Work, bind
from matching import Clock, Fed, Timed, look, pieces, starter

from watching.asking import Seen, arguments, is_sql, run_options, spread, start_watcher

SPARE = 10 * 1024  # bytes that a bucket may write for a batch besides its events
FILL = (
    10_000  # events of a batch that fills the window; after larger ones a state has more room than it needs
)


def feed(work: Work) -> Callable[[], Timed]:
    """A matcher whose window is full gets events in small batches; each `feed` is timed.

    The first `fill` events come in larger batches, untimed.
    """
    import pyarrow.parquet as pq

    from cerise.events import EventBatch

    options = dict(work["options"])
    fill, step = options.pop("fill"), options.pop("batch")
    start, bound = starter(work | {"options": options}), bind(work)
    events = EventBatch.of(pq.read_table(work["path"]).combine_chunks(), bound.schema)

    def call() -> Timed:
        running, fed, took = start(), Fed(words=[]), []
        for at in range(0, fill, FILL):
            _look_at(fed, pieces(running.feed(events.slice(at, min(at + FILL, fill)))))
        state, busy = [len(running.save())], process_time()
        for at in range(fill, len(events), step):
            clock, batch = Clock(), events.slice(at, min(at + step, len(events)))
            _look_at(fed, clock.over(_feed(running, batch)))
            took.append(clock.seconds)
        busy = process_time() - busy
        state.append(len(running.save()))
        _look_at(fed, pieces(running.flush()))
        milliseconds = {name: 1000 * each for name, each in spread(took).items()}
        fed.counted = {"feeds": len(took), "feed_ms": milliseconds, "state_bytes": state}
        return sum(took), busy, fed

    return call


def _feed(running: Any, batch: Any) -> Iterator[Any]:
    """Yield the matches of a batch; `feed` itself is called when the first is asked for."""
    yield from pieces(running.feed(batch))


def _look_at(fed: Fed, found: Any) -> None:
    for piece in found:
        words, _ = look(piece)
        fed.matches += len(piece)
        assert fed.words is not None
        fed.words.append(words)


class CountingHome:
    """A home of state in memory that counts the bytes written into it, by kind."""

    def __init__(self) -> None:
        from cerise.streaming.state.saved_state import MemoryHome

        self.home = MemoryHome()
        self.written: Counter[str] = Counter()

    def read(self, name: str) -> bytes | None:
        return self.home.read(name)

    def write(self, name: str, data: bytes) -> None:
        self.written[name.partition("-")[0]] += len(data)
        self.home.write(name, data)

    def delete(self, name: str) -> None:
        self.home.delete(name)

    def names(self) -> list[str]:
        return list(self.home.names())

    def former(self) -> tuple[()]:
        return ()


def journal(work: Work) -> Callable[[], Timed]:
    """A bucket whose window is full steps through small batches, and keeps each: the bytes are counted.

    The first `fill` events come in larger batches, and what they write does not count.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(work["path"]).combine_chunks()
    fill, step = work["options"]["fill"], work["options"]["batch"]
    plan, question = _plan(work)
    before = _slices(table, 0, fill, FILL)
    batches = _slices(table, fill, len(table), step)

    def call() -> Timed:
        from cerise.streaming.state.journal import CACHE

        CACHE.clear()
        home, tables = CountingHome(), []
        for batch in before:
            tables += _step(plan, home, batch)
        filled = _state_bytes(home)
        home.written.clear()
        started, busy = perf_counter(), process_time()
        for batch in batches:
            tables += _step(plan, home, batch)
        seconds, busy = perf_counter() - started, process_time() - busy
        report = _writing(home, batches, plan) | {"state_bytes": [filled, _state_bytes(home)]}
        tables += [each for _, each in _open(plan, home).flush()]
        return seconds, busy, Seen([question.finish(tables)], report=report)

    return call


def _plan(work: Work) -> tuple[Any, Any]:
    """Return the plan of a bucket with all keys, and the query."""
    from streams import SCHEMAS

    from cerise.events import Schema
    from cerise.run.sase_search import Sase
    from cerise.streaming.bucket_plan import BucketPlan
    from cerise.streaming.entry import ONE_SOURCE
    from cerise.streaming.live_query import StreamQuery
    from cerise.streaming.watermark import TimeRules

    question, options = Sase(bind(work)), run_options(work)
    question.prepare(options)
    needed = question.needs.columns.names
    schema = SCHEMAS[work["data"]["generator"]]
    columns = schema.empty_table().select([each for each in schema.names if each in needed]).schema
    query = StreamQuery("1", question, work["query"]["name"])
    roles = Schema(columns, work["query"]["time"])
    return BucketPlan((query,), roles, TimeRules({ONE_SOURCE: 0}), options), question


def _slices(table: Any, start: int, stop: int, step: int) -> list[Any]:
    return [table.slice(at, min(step, stop - at)) for at in range(start, stop, step)]


def _step(plan: Any, home: CountingHome, batch: Any) -> list[Any]:
    """Take a batch as a task of Spark does, and return the matches."""
    from cerise.streaming.entry import ONE_SOURCE, Arrival, MicroBatch, find_top
    from cerise.streaming.state.journal import Journal

    journal = Journal(plan, home)
    bucket = journal.open()
    top = find_top(batch, plan.roles, plan.rules, None)
    step = bucket.step(MicroBatch([Arrival(ONE_SOURCE, top, batch)]))
    journal.keep(bucket, step.entry)
    return [table for _, table in step.found]


def _open(plan: Any, home: CountingHome) -> Any:
    """Return the bucket at its saved state, read from the home as after a restart."""
    from cerise.streaming.state.journal import CACHE, Journal

    CACHE.clear()
    return Journal(plan, home).open()


def _state_bytes(home: CountingHome) -> int:
    return sum(len(each) for name, each in home.home.values.items() if name.startswith("snapshot"))


def _writing(home: CountingHome, batches: Sequence[Any], plan: Any) -> dict[str, Any]:
    """Return the bytes written, against those of the new events; with the kB above twice the latter."""
    needed = sum(each.select(plan.roles.columns.names).nbytes for each in batches)
    written = sum(home.written.values())
    return {
        "batches": len(batches),
        "events_bytes": needed,
        "written_bytes": written,
        "written": dict(home.written),
        "ratio": written / needed,
        "kb_beyond_twice": (written - 2 * needed) / len(batches) / 1024,
        "within": written <= 2 * needed + SPARE * len(batches),
    }


def watcher(work: Work) -> Callable[[], Timed]:
    """`cerise.Watcher` over the files, one by one, or over batches of the events in memory.

    With `batch` the events are in memory and come in batches of so many, 0 for one batch of all; without it,
    reading the files is a part of the time.
    """
    import pyarrow.parquet as pq

    step = work["options"].get("batch")
    table = None if step is None else pq.read_table(work["path"]).combine_chunks()

    def batches() -> Iterator[Any]:
        if table is None:
            yield from map(pq.read_table, files_of(work["path"]))
        else:
            yield from _slices(table, 0, len(table), step or len(table))

    def call() -> Timed:
        started, busy = perf_counter(), process_time()
        running, took = start_watcher(work), []
        tables = []
        for batch in batches():
            before = perf_counter()
            tables.append(running.feed(batch))
            took.append(1000 * (perf_counter() - before))
        tables.append(running.flush())
        seconds, busy = perf_counter() - started, process_time() - busy
        report = {"batches": len(took), "feed_ms": spread(took)}
        return seconds, busy, Seen(tables, report=report, sql=is_sql(work))

    return call


def find_path(work: Work) -> Callable[[], Any]:
    """`cerise.find` on the folder of files, in this process."""
    import cerise

    given = arguments(work)
    given = {name: value for name, value in given.items() if name not in ("delay", "unbounded")}
    return lambda: cerise.find(work["path"], work["query"]["text"], **given, options=run_options(work))


def files_of(path: str) -> list[Path]:
    """Return the files of a data set in the order of time."""
    place = Path(path)
    return sorted(place.glob("*.parquet")) if place.is_dir() else [place]
