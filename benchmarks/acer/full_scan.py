"""FullScan: every row group that statistics cannot rule out is read, filtered and matched; no index.

The needed columns only, filtered by vectorised tests before the engine sees them, in as many threads as are
asked for, each with a slice of time of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

from acer.answers import FILTER, MATCH, READ, Answer, Roles
from acer.queries import Query
from cerise.engines.base import Options
from cerise.engines.choose import choose
from cerise.files.lake import Group, open_lake
from cerise.files.reader import Reading
from cerise.files.scan import Scan
from cerise.pattern.bound import Bound
from cerise.plan import pushdown
from cerise.plan.slicing import Halo, Slice, halo, slices


@dataclass(slots=True)
class _TimedScan(Scan):
    """A scan that tells its filtering from its reading."""

    filtering: float = 0.0

    def _filtered(self, piece: Any) -> Any:
        started = perf_counter()
        kept = Scan._filtered(self, piece)
        self.filtering += perf_counter() - started
        return kept


class FullScan:
    """Answers queries from Parquet files alone; their footers are read once."""

    def __init__(self, path: Path, roles: Roles, threads: int) -> None:
        self._lake = open_lake(path)
        self._roles = roles
        self._threads = threads
        self._coded = cache(self._lake.choose_code_columns)

    def answer(self, query: Query) -> Answer:
        """Count the matches of a query."""
        answer = Answer()
        with answer.timed(FILTER):
            bound = self._roles.bind(query)
            needs = halo([bound])
            assert isinstance(needs, Halo)
            needed = pushdown.needed([bound])
            groups = self._lake.list_event_groups(bound.schema, needed)
            cut = slices([each.span for each in groups], needs, self._threads)
        with answer.timed(MATCH):
            matchers = [choose(bound, Options()).start(bound, Options()) for _ in cut]
        reading = self._reading(bound, needed)
        tasks = [
            _Task(bound, Scanned(reading, part, [groups[i] for i in part.reads], needs, len(cut)), matcher)
            for part, matcher in zip(cut, matchers, strict=True)
        ]
        with ThreadPoolExecutor(len(tasks)) as pool:
            for part in pool.map(_Task.run, tasks):
                answer.matches += part.matches
                answer.events += part.events
                for cost, seconds in part.seconds.items():
                    answer.seconds[cost] += seconds
        answer.told = {"row groups": len(groups), "row groups of all": self._lake.groups}
        return answer

    def files(self) -> Sequence[Path]:
        """Return the Parquet files."""
        return [Path(each.path) for each in self._lake.files]

    def close(self) -> None:
        """Nothing stays open between answers."""

    def _reading(self, bound: Bound, needed: pushdown.Needed | None) -> Reading:
        files = dict(enumerate(self._lake.files))
        coded = self._coded(bound.needs)
        return Reading(self._lake.root, files, bound.schema, bound.needs, (), coded, needed)


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one task reads."""

    reading: Reading
    part: Slice
    groups: Sequence[Group]
    needs: Halo
    of: int  # so many slices

    def scan(self) -> _TimedScan:
        """Return what reads it."""
        return _TimedScan(self.reading, self.groups)


@dataclass(frozen=True, slots=True)
class _Task:
    """Reads a slice, and matches it."""

    bound: Bound
    scanned: Scanned
    matcher: Any

    def run(self) -> Answer:
        answer, scan = Answer(), self.scanned.scan()
        events = scan.events(self.scanned.part if self.scanned.of > 1 else None, self.scanned.needs)
        started = perf_counter()
        for batch in events:
            answer.seconds[READ] += perf_counter() - started
            answer.events += len(batch)
            with answer.timed(MATCH):
                answer.matches += sum(found.count for found in self.matcher.feed(batch))
            started = perf_counter()
        answer.seconds[READ] += perf_counter() - started - scan.filtering
        answer.seconds[FILTER] += scan.filtering
        with answer.timed(MATCH):
            answer.matches += sum(found.count for found in self.matcher.flush())
        return answer
