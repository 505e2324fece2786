"""A subject that goes through all matches and keeps none: how fast they come, how large the state becomes.

The timed calls only count. Whether the matches are right, and how much a matcher would save, is looked at
once, after the first of them: both take time and memory that are not the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from binding import Work, bind
from fresh import GaveUp
from matching import counters, look, pieces, starter

BATCH = 20_000  # events
FIRST = 100  # events: they load and compile what all calls need
SAVED = 20  # times, evenly over the stream
LOOKED_AT = 5_000_000  # matches; where there are more, only their number is known, and the state so far


@dataclass(frozen=True, slots=True)
class Through:
    """What one call went through, and what a closer look at the same says."""

    matches: int
    report: dict[str, Any]
    look: Callable[[], Looked]


@dataclass(frozen=True, slots=True)
class Looked:
    """The sum of the hashes of all matches (None: they are too many), and what else is to be told."""

    total: int | None
    told: dict[str, Any]


def enumerate_all(work: Work, *, looked_at: int = LOOKED_AT) -> Callable[[], Through]:
    """A new matcher, fed with batches; its matches are counted as they come, as columns.

    Args:
        work: the query and its events.
        looked_at: of how many matches, at most, more than their number is told.
    """
    import pyarrow.parquet as pq

    from cerise.events import EventBatch

    start, schema = starter(work), bind(work).schema
    events = EventBatch.of(pq.read_table(work["path"]).combine_chunks(), schema)
    step = work["options"].get("batch", BATCH)
    batches = [events.slice(at, min(at + step, len(events))) for at in range(0, len(events), step)]
    giving_up(lambda: sum(map(len, _through(start(), [events.slice(0, min(FIRST, len(events)))]))))

    def call() -> Through:
        running = start()
        count = giving_up(lambda: sum(map(len, _through(running, batches))))
        return Through(count, counters(running), look_closer)

    @cache
    def look_closer() -> Looked:
        return _look(start(), batches, looked_at)

    return call


def giving_up(call: Callable[[], Any]) -> Any:
    """Return what a call returns; an engine that lacks memory, or finds it too much, gives up."""
    from cerise.errors import PlanError

    try:
        return call()
    except PlanError as error:
        raise GaveUp(error.problem.splitlines()[0].removesuffix(", of the query")) from error
    except MemoryError as error:
        raise GaveUp("it needs more memory than it may have") from error


def found(through: Through) -> tuple[str, Any]:
    """Return the number of matches, and the sum of their hashes where they are not too many."""
    total = through.look().total
    if total is None:
        return "count", through.matches
    return "positions", {"count": through.matches, "sum": total}


def told(through: Through) -> dict[str, Any]:
    """Return what the engine counted, the lengths of all matches, and the size of the largest state."""
    return through.report | through.look().told


def _through(running: Any, batches: Sequence[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from pieces(running.feed(batch))
    yield from pieces(running.flush())


def _look(running: Any, batches: Sequence[Any], looked_at: int) -> Looked:
    matches = total = complexity = saved = 0
    every = max(1, len(batches) // SAVED)
    for number, batch in enumerate([*batches, None]):
        for piece in pieces(running.flush() if batch is None else running.feed(batch)):
            words, length = look(piece)
            total, complexity, matches = total + int(words.sum()), complexity + length, matches + len(piece)
        if batch is not None and number % every == 0:
            saved = max(saved, len(running.save()))
        if matches > looked_at:
            return Looked(None, {"state_bytes": saved})
    return Looked(total, {"state_bytes": saved, "output_complexity": complexity})
