"""The subjects of the suite `acer`: a method answers a workload, query by query; events become a form.

What is timed is one query at a time, from its text to its count; what describes the table (footers, synopsis,
the upper nodes of trees) has been read. The first try of a query compiles its predicates; the least of all
tries counts. Where files are to be cold, they are closed, dropped from the page cache and opened again before
each try, which is not timed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from acer.answers import FILTER, MATCH, READ, Answer, Method, Roles
from acer.cold import evict
from acer.full_scan import FullScan
from acer.indexes import Chooser, IntervalScan, NaiveIndex, choose, choose_greedily
from acer.places import Place
from acer.queries import Query, workload
from acer.stores import Stored

Work = dict[str, Any]
Timed = tuple[float, float | None, Any]

TRIES = 3
THREADS = 2
COSTS = (FILTER, READ, MATCH)


def _full_scan(place: Place, threads: int) -> Method:
    return FullScan(place.source, place.roles, threads)


def _scan_of_store(place: Place, threads: int) -> Method:
    return FullScan(place.made("store"), place.roles, threads)


def _interval_scan(choose: Chooser) -> Callable[[Place, int], Method]:
    def opened(place: Place, threads: int) -> Method:
        scan = FullScan(place.source, place.roles, threads)
        return place.with_trees(lambda trees: IntervalScan(trees, scan, choose))

    return opened


METHODS: dict[str, Callable[[Place, int], Method]] = {
    "full scan": _full_scan,
    "full scan of the store": _scan_of_store,
    "naive index": lambda place, _: place.with_trees(NaiveIndex),
    "type index": lambda place, _: place.with_trees(lambda trees: NaiveIndex(trees, types_only=True)),
    "interval scan": _interval_scan(choose),
    "interval scan, greedy": _interval_scan(choose_greedily),
    "acer": lambda place, _: Stored(place.made("store")),
    "acer-c": lambda place, _: Stored(place.made("plain store")),
    "acer-q": lambda place, _: Stored(place.made("store"), blockwise=False),
    "acer-f": lambda place, _: Stored(place.made("store"), two_phase=False),
}


@dataclass(frozen=True, slots=True)
class Tried:
    """The quickest answer to a query, how long it took, and how long the first one did."""

    answer: Answer
    seconds: float
    busy: float
    first_seconds: float


def answer_all(work: Work) -> Callable[[], Timed]:
    """Answer the queries of a workload one after the other, each several times."""
    options = work["options"]
    place = place_of(work)
    queries = workload(**work["query"]["workload"])
    method = _Opened(options["method"], place, options.get("threads", THREADS), options.get("cold", False))
    tries = options.get("tries", TRIES)

    def call() -> Timed:
        done = [_tried(method, query, tries) for query in queries]
        return sum(each.seconds for each in done), sum(each.busy for each in done), done

    return call


def append(work: Work) -> Callable[[], Timed]:
    """Make a form of all events, which are in memory; B+trees take them from the file."""
    import pyarrow.parquet as pq

    place, form = place_of(work), work["options"]["form"]
    events = place.source if form == "btrees" else pq.read_table(place.source)

    def call() -> Timed:
        before = process_time()
        seconds, sizes = place.make(form, events)
        return seconds, process_time() - before, sizes

    return call


def why_not(work: Work) -> str | None:
    """Say what is missing to run a method, or to make a form."""
    wanted = work["options"].get("method") or work["options"]["form"]
    by_trees = wanted == "btrees" or wanted.startswith(("naive index", "type index", "interval scan"))
    absent = by_trees and importlib.util.find_spec("lmdb") is None
    return "there is no lmdb: pip install '.[bench]'" if absent else None


def found(done: list[Tried]) -> tuple[str, Any]:
    """Return the number of all matches, and a hash of those of each query, in order."""
    counts = [each.answer.matches for each in done]
    text = json.dumps(counts).encode()
    word = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    return "counts of queries", {"count": sum(counts), "sum": word}


def told(done: list[Tried]) -> dict[str, Any]:
    """Return for each query how long it took, with its costs, and how many events reached the engine."""
    costs = {f"{cost}_seconds": [_short(each.answer.seconds[cost]) for each in done] for cost in COSTS}
    names = dict.fromkeys(name for each in done for name in each.answer.told)
    return {
        "queries": len(done),
        "seconds": [_short(each.seconds) for each in done],
        "first_seconds": [_short(each.first_seconds) for each in done],
        **costs,
        "events": [each.answer.events for each in done],
        "matches": [each.answer.matches for each in done],
        **{name: [each.answer.told.get(name) for each in done] for name in names},
    }


def sizes(made: dict[str, int]) -> dict[str, Any]:
    """Return how large a form is, in bytes."""
    return {"bytes": made}


def place_of(work: Work) -> Place:
    """Return where the events of a piece of work are, and what their columns are."""
    from streams import SCHEMAS

    query = work["query"]
    columns = SCHEMAS[work["data"]["generator"]]
    return Place(Path(work["path"]), Roles(columns, query["time"], query["type"], tuple(query["index"])))


@dataclass(slots=True)
class _Opened:
    """A method that is open, or that is opened anew for each answer."""

    name: str
    place: Place
    threads: int
    cold: bool
    method: Method | None = None

    def ready(self) -> Method:
        if self.method is not None and self.cold:
            files = self.method.files()
            self.method.close()
            self.method = None
            evict(files)
        if self.method is None:
            self.method = METHODS[self.name](self.place, self.threads)
        return self.method


def _tried(opened: _Opened, query: Query, tries: int) -> Tried:
    best: Tried | None = None
    first = 0.0
    for number in range(tries):
        method = opened.ready()
        started, before = perf_counter(), process_time()
        answer = method.answer(query)
        seconds, busy = perf_counter() - started, process_time() - before
        first = first if number else seconds
        if best is not None and answer.matches != best.answer.matches:
            raise SystemExit(f"two answers to one query: {answer.matches} and {best.answer.matches} matches")
        if best is None or seconds < best.seconds:
            best = Tried(answer, seconds, busy, first)
    assert best is not None
    return best


def _short(seconds: float) -> float:
    return round(seconds, 6)
