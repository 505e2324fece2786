"""Subjects that drive an engine by hand: from columns to match columns, over an endless stream, at the start.

What a matcher gives may be more than memory holds: it is looked at piece by piece, while the clock stands.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from binding import Work, bind, roles

Timed = tuple[float, float | None, Any]  # seconds, those spent computing where known, and the result

FIRST_MATCH = """
import json, sys, time
started = time.perf_counter()
import cerise, pyarrow.parquet as pq
path, query, roles, engine = json.loads(sys.argv[1])
found = cerise.find(pq.read_table(path), query, **roles, options=cerise.Options(engine=engine))
print(json.dumps([time.perf_counter() - started, found.column("match_id").to_pylist()]))
"""
CACHE = "from cerise.kernels.cache import directory; print(directory())"


@dataclass(slots=True)
class Fed:
    """What has come out of a matcher.

    Attributes:
        matches: how many.
        words: a hash of each match, in pieces; None where only their number is known.
        counted: what the engine counted, and the output complexity: the lengths of all matches [SASE08 §6.1].
    """

    matches: int = 0
    words: list[Any] | None = None
    counted: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Clock:
    """Seconds by the wall clock, and those that this process was computing."""

    seconds: float = 0.0
    busy: float = 0.0

    def over(self, items: Iterator[Any]) -> Iterator[Any]:
        """Yield the items, counting only the time that it takes to make them."""
        while True:
            started, before = perf_counter(), process_time()
            item = next(items, None)
            self.seconds += perf_counter() - started
            self.busy += process_time() - before
            if item is None:
                return
            yield item


def matcher(work: Work) -> Callable[[], Timed]:
    """A new matcher, fed with columns in memory and flushed; its matches as columns."""
    import pyarrow.parquet as pq

    from cerise.events import EventBatch
    from cerise.pattern.query import Count

    start, bound = starter(work), bind(work)
    events = EventBatch.of(pq.read_table(work["path"]).combine_chunks(), bound.schema)
    step = work["options"].get("batch", len(events))
    batches = [events.slice(at, min(at + step, len(events))) for at in range(0, len(events), step)]
    counting = isinstance(bound.query.returns, Count)

    def call() -> Timed:
        clock, fed, complexity = Clock(), Fed(words=None if counting else []), 0
        for piece in clock.over(_outputs(start, batches, fed)):
            if fed.words is not None:
                words, length = look(piece)
                fed.words.append(words)
                complexity += length
        fed.counted |= {} if counting else {"output_complexity": complexity}
        return clock.seconds, clock.busy, fed

    return call


def endless(work: Work) -> Callable[[], Fed]:
    """Feed a stream that is made batch by batch; note the memory after a tenth of it, and at its end."""
    import pyarrow as pa
    import streams

    from cerise.events import EventBatch

    start, schema, events = starter(work), bind(work).schema, work["data"]["events"]

    def call() -> Fed:
        running, fed, at, rss = start(), Fed(), 0, {}
        for made in streams.batches(work["data"], batch=work["options"]["batch"]):
            batch = EventBatch.in_order(pa.Table.from_batches([made]), schema, start=at)
            fed.matches += sum(len(piece) for piece in pieces(running.feed(batch)))
            at += len(batch)
            if at in (events // 10, events):
                rss[at] = _rss_bytes()
        fed.counted = counters(running) | {"rss_bytes_at": rss}
        return fed

    return call


def new_query(work: Work) -> Callable[[], Any]:
    """From the text of a query to its matches in a few events, in a process that has run others.

    Each call has other values for the query's parameters, and so never finds its predicates compiled.
    """
    folder = tempfile.TemporaryDirectory(prefix="cerise-bench-")  # goes away with the call
    os.environ["CERISE_CACHE_DIR"] = str(_filled_cache(Path(folder.name)))  # before Cerise is imported
    import pyarrow as pa
    import streams

    import cerise

    table, numbers = pa.Table.from_batches(streams.batches(work["data"])), count()
    given = roles(work) | {"options": cerise.Options(engine=work["options"].get("engine"))}

    def call(_keep: Any = folder) -> Any:
        number = next(numbers)
        params = {name: value - number for name, value in work["query"]["params"].items()}
        return cerise.find(table, work["query"]["text"], **given | {"params": params})

    return call


def new_process(work: Work) -> Callable[[], Timed]:
    """The same in a new process, from before its imports on; its cache of compiled code is full or empty."""
    import streams

    folder = tempfile.TemporaryDirectory(prefix="cerise-bench-")
    path = streams.write(work["data"], Path(folder.name, "events"))
    asked = json.dumps([str(path), work["query"]["text"], roles(work), work["options"].get("engine")])
    empty = (Path(folder.name, f"empty-{number}") for number in count())
    full = _filled_cache(Path(folder.name)) if work["options"]["cache"] == "full" else None

    def call() -> Timed:
        environment = os.environ | {"CERISE_CACHE_DIR": str(full or next(empty))}
        seconds, ids = json.loads(_python(FIRST_MATCH, asked, env=environment))
        return seconds, None, ids

    return call


def _filled_cache(folder: Path) -> Path:
    """Copy what the user's cache of compiled code holds; what it lacks is compiled in a call to warm up."""
    filled, used = folder / "filled", Path(_python(CACHE).strip())
    shutil.copytree(used, filled / used.name)
    return filled


def _python(code: str, *args: str, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *args], env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def found(fed: Fed) -> tuple[str, Any]:
    """Say what a matcher found: a hash of each match, by the positions of its events, or their number."""
    if fed.words is None:
        return "count", fed.matches
    return "positions", [word for piece in fed.words for word in piece.tolist()]


def starter(work: Work) -> Callable[[], Any]:
    """Return what starts a matcher of the engine that the work asks for."""
    from cerise.engines.base import Options
    from cerise.engines.choose import choose

    bound = bind(work)
    options = Options(**{name: value for name, value in work["options"].items() if name != "batch"})
    engine = choose(bound, options)
    return lambda: engine.start(bound, options)


def _outputs(start: Callable[[], Any], batches: Sequence[Any], fed: Fed) -> Iterator[Any]:
    running = start()
    for batch in batches:
        yield from pieces(running.feed(batch))
    yield from pieces(running.flush())
    fed.matches, fed.counted = running.report.matches, counters(running)


def pieces(given: Any) -> Iterable[Any]:
    """Return matches in pieces, whether an engine gives them at once or one piece after the other."""
    from cerise.engines.base import Matches

    return (given,) if isinstance(given, Matches) else given


def look(piece: Any) -> tuple[Any, int]:
    """Return a hash of each match, and the sum of their lengths."""
    import numpy as np

    total, length = np.zeros(len(piece), np.uint64), 0
    for number, rows in enumerate(piece.rows.values(), 1):
        ends = np.cumsum(np.concatenate([[0], rows.value_lengths().fill_null(0)]), dtype=np.int64)
        places = piece.events.positions[np.asarray(rows.flatten(), np.int64)].astype(np.uint64)
        sums = np.cumsum(np.concatenate([[np.uint64(0)], mix(places * np.uint64(64) + np.uint64(number))]))
        total += sums[ends[1:]] - sums[ends[:-1]]
        length += int(ends[-1])
    return mix(total), length


def mix(values: Any) -> Any:
    """Spread 64 bits over 64 bits (the finaliser of splitmix64)."""
    import numpy as np

    x = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return x ^ (x >> np.uint64(31))


def counters(running: Any) -> dict[str, Any]:
    numbers = asdict(running.report).items()
    return {name: value for name, value in numbers if isinstance(value, int | float)}


def _rss_bytes() -> int | None:
    """Return the memory that this process holds now; unknown where there is no /proc."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else None
