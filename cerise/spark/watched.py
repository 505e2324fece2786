"""Reports on streaming queries of `watch`: the figures that tasks put into the progress of the query."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cerise.errors import CeriseError, UnsupportedError
from cerise.spark.stream_plan import OBSERVED
from cerise.spark.task_errors import decode
from cerise.streaming.reports.figures import Moment, StreamFigures, fact_lines

HEARTBEAT = (
    "RateStream",
    "rowsPerSecond=1,",
    "numPartitions=1",
)  # in the description of the source for idle=
NOTHING_YET = "no batch has run yet, so nothing was counted"


@dataclass(frozen=True)
class Watched:
    """A report on a stream: the figures of its last batch; `print` shows them as a table.

    Attributes:
        name: the name of the streaming query, or its id.
        status: "running", "ended" or "failed".
        error: the error that ended it; None: it has not failed.
        progress: Spark's progress of the last batch; None: no batch has run yet.
        present: the time of the report, in microseconds since 1970.
    """

    name: str
    status: str
    error: CeriseError | Exception | None
    progress: Mapping[str, Any] | None
    present: int

    @cached_property
    def stream(self) -> StreamFigures | None:
        """The figures of all buckets; None: no batch has run yet."""
        observed = None if self.progress is None else find_figures(self.progress)
        if observed is None:
            return None
        details = [json.loads(each) for each in json.loads(observed["buckets"] or "[]")]
        details.sort(key=lambda each: int(each["bucket"]))
        return StreamFigures(details, self.present) if details else None

    @property
    def watermark(self) -> Moment:
        """The time before which no event is waited for; a datetime where the time column holds moments."""
        return None if self.stream is None else self.stream.watermark

    @property
    def lag(self) -> dt.timedelta | None:
        """How far the watermark is behind the present; None: unknown, or times are integers."""
        return None if self.stream is None else self.stream.lag

    @property
    def batch(self) -> int | None:
        """The number of the last batch."""
        return None if self.progress is None else int(self.progress["batchId"])

    @property
    def figures(self) -> dict[str, Any]:
        """All figures by name; `buckets` has those of each bucket. Without a batch, only the status."""
        known: dict[str, Any] = {"status": self.status}
        if self.progress is None or self.stream is None:
            return known
        observed = find_figures(self.progress) or {}
        last = {name: int(observed[name]) for name in ("events", "matches", "aside", "evicted")}
        return {
            **known, "batch": self.batch, "rows": self._rows, "rows_per_second": self._speed,
            "seconds": self._seconds, "last_batch": last, **self.stream.figures,
        }  # fmt: skip

    @property
    def _rows(self) -> int:
        """The rows that the last batch read from its sources, without heartbeats."""
        assert self.progress is not None
        sources = self.progress["sources"]
        read = [each for each in sources if len(sources) == 1 or not _is_heartbeat(each)]
        return sum(int(each["numInputRows"]) for each in read)

    @property
    def _seconds(self) -> float:
        assert self.progress is not None
        return float(self.progress["durationMs"].get("triggerExecution", 0)) / 1_000

    @property
    def _speed(self) -> float:
        return round(self._rows / self._seconds, 1) if self._seconds else 0.0

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        facts: list[tuple[str, str | list[str]]] = [("stream", f"{self.name}, {self.status}")]
        if self.error is not None:
            facts.append(("error", f"{type(self.error).__name__}: {self.error}".splitlines()))
        if self.stream is None:
            facts.append(("batch", NOTHING_YET))
            yield from fact_lines(facts)
            return
        speed = f"{self._rows:,} rows in {self._seconds:.2f} s, {self._speed:,.0f} rows/s"
        yield from fact_lines([*facts, ("batch", f"{self.batch:,}: {speed}")])
        yield from self.stream.lines()


def report_on(query: Any) -> Watched:
    """Return a report on a streaming query.

    Raises:
        UnsupportedError: the value is not a streaming query, or one that has nothing to do with `watch`.
    """
    if not hasattr(query, "recentProgress"):
        raise UnsupportedError(
            f"a {query.__class__.__name__} is not a streaming query",
            hint="give the query that matches.writeStream.start() returned",
        )
    batches = [as_plain(each) for each in query.recentProgress]
    ran = [each for each in batches if "addBatch" in each["durationMs"] or each["observedMetrics"]]
    ours = [each for each in ran if find_figures(each) is not None]
    if ran and not ours:
        raise UnsupportedError(
            f"streaming query '{query.name or query.id}' gives no matches of Cerise",
            hint="give the query that writes the DataFrame of cerise.watch",
        )
    error = _read_error(query)
    status = "failed" if error is not None else "running" if query.isActive else "ended"
    present = time.time_ns() // 1_000
    return Watched(query.name or str(query.id), status, error, ours[-1] if ours else None, present)


def as_plain(progress: Any) -> Mapping[str, Any]:
    """Return a progress as a mapping: Connect and older versions of Spark give other classes."""
    return progress if isinstance(progress, Mapping) else json.loads(progress.json)


def find_figures(progress: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the figures of Cerise in a progress: classic Spark gives a Row, Connect a mapping or a Row."""
    found = progress["observedMetrics"].get(OBSERVED)
    if found is None or isinstance(found, Mapping):
        return found
    figures: Mapping[str, Any] = found.asDict()
    return figures if figures.get("buckets") is not None else None


def _is_heartbeat(source: Mapping[str, Any]) -> bool:
    return all(word in source["description"] for word in HEARTBEAT)


def _read_error(query: Any) -> CeriseError | Exception | None:
    """Return the error of a task as the CeriseError that it was, or Spark's own error."""
    error: Exception | None = query.exception()
    return None if error is None else decode(str(error)) or error
