"""Holds the limits of a bucket after a step: counts the runs that its queries keep, and evicts the oldest.

The choice depends on the events alone: not on the process, nor on how often the state was saved and loaded.
Runs that began with the same event go together. A run is older if it began earlier; of events of equal time,
those of the query whose name comes first are older, then those that came first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.census import Census, EvictableSearch
from cerise.errors import PlanError
from cerise.events import Ints
from cerise.streaming.limits.state_limits import Evictions, StateLimits, show_size

Bools = npt.NDArray[np.bool_]
WAYS_OUT = "shorten WITHIN, raise the limit, or let the oldest go with on_limit='evict'"


class WaitingEvents(Protocol):
    """Events that wait for the watermark."""

    @property
    def nbytes(self) -> int:
        """Their bytes, at most."""
        ...

    @property
    def weight(self) -> int:
        """Their bytes, however they are cut into tables."""
        ...


class LimitedQuery(Protocol):
    """A query whose oldest runs can go."""

    @property
    def searches(self) -> Sequence[EvictableSearch]:
        """Its searches: several, if it reads FROM other queries."""
        ...

    @property
    def held_bytes(self) -> int:
        """The bytes of the matches held between searches, at most."""
        ...

    @property
    def held_weight(self) -> int:
        """The bytes of the matches held between searches, however they are cut into tables."""
        ...

    def evict(self, stage: int, places: Ints) -> Iterator[pa.Table]:
        """Drop runs of a search, by its number; yield the matches that this makes final."""
        ...


@dataclass(frozen=True, slots=True)
class CountedSearch:
    """The runs of one search of a query.

    Attributes:
        name: the name of the query.
        stage: the number of the search, of a query FROM others.
        census: its runs, events or rows.
    """

    name: str
    stage: int
    census: Census


@dataclass(frozen=True, slots=True)
class RunsByAge:
    """The runs of all searches of a bucket.

    Attributes:
        searches: the searches.
        which: the search of each run.
        rows: the index of each run in the census of its search.
    """

    searches: Sequence[CountedSearch]
    which: Ints
    rows: Ints

    @classmethod
    def of(cls, searches: Sequence[CountedSearch]) -> RunsByAge:
        sizes = [len(each.census) for each in searches]
        rows = [np.arange(size) for size in sizes]
        return cls(searches, np.repeat(np.arange(len(sizes)), sizes), _concat(rows))

    def __len__(self) -> int:
        return len(self.which)

    def take(self, some: Bools) -> RunsByAge:
        return RunsByAge(self.searches, self.which[some], self.rows[some])

    def _read(self, name: str) -> Ints:
        found = np.zeros(len(self), np.int64)
        for number, each in enumerate(self.searches):
            own = self.which == number
            found[own] = getattr(each.census, name)[self.rows[own]]
        return found

    def rank(self, *, by_partition: bool) -> tuple[Ints, Ints]:
        """Return for each run how many are older, and how many there are: in its partition, or of all.

        Runs that began with the same event are of the same age.
        """
        starts, parts = self._read("starts"), self._read("parts")
        keys = (starts, parts, self.which) if by_partition else (starts, self.which, self._read("times"))
        order = np.lexsort(keys)
        scope = [self.which, parts] if by_partition else []
        first = _first_of(scope, order)
        total = np.bincount(first, minlength=len(self))[first]
        older, count = np.empty_like(order), np.empty_like(order)
        older[order] = _first_of([*scope, self.which, starts], order) - first
        count[order] = total
        return older, count


def _first_of(columns: Sequence[Ints], order: Ints) -> Ints:
    """Return for each place of an order the first place of the neighbours with equal values."""
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= column[order][1:] != column[order][:-1]
    first: Ints = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    return first


def _concat(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts])


@dataclass(frozen=True)
class LimitKeeper:
    """Holds the limits of a bucket.

    Attributes:
        limits: the limits.
        queries: the queries of the bucket, by name.
        held: the events that wait for the watermark.
        evictions: counts the runs that go.
        batch: names the batch in an error.
    """

    limits: StateLimits
    queries: Mapping[str, LimitedQuery]
    held: WaitingEvents
    evictions: Evictions
    batch: str = "this batch"

    def is_kept(self) -> bool:
        """Whether the limits hold for sure, by upper bounds that are quick to have."""
        limits = self.limits
        searches = [each for query in self.queries.values() for each in query.searches]
        loads = [each.measure(by_partition=limits.runs_per_partition is not None) for each in searches]
        nbytes = sum(each.nbytes for each in loads) + self.held.nbytes
        nbytes += sum(query.held_bytes for query in self.queries.values())
        found = (sum(each.runs for each in loads), max((each.most for each in loads), default=0), nbytes)
        most = (limits.runs, limits.runs_per_partition, limits.state_bytes)
        return all(limit is None or figure <= limit for figure, limit in zip(found, most, strict=True))

    def check(self) -> None:
        """Refuse a state that exceeds a limit.

        Raises:
            PlanError: it names the limit, the figure, the query and the partition.
        """
        searches = self._count()
        runs = RunsByAge.of(searches)
        limit = self.limits.runs_per_partition
        if limit is not None and len(runs):
            _, count = runs.rank(by_partition=True)
            worst = int(np.argmax(count))
            if count[worst] > limit:
                raise self._refuse_partition(searches[runs.which[worst]], int(runs.rows[worst]), limit)
        if self.limits.runs is not None and len(runs) > self.limits.runs:
            raise self._refuse_runs(searches, self.limits.runs)
        if self.limits.state_bytes is not None and self._weigh(searches) > self.limits.state_bytes:
            raise self._refuse_state(searches, WAYS_OUT)

    def evict(self) -> Iterator[tuple[str, pa.Table]]:
        """Drop the oldest runs until the limits hold; yield the matches of SQL that this makes final.

        Raises:
            PlanError: the state is too large without any run.
        """
        runs, limits = RunsByAge.of(self._count()), self.limits
        gone = np.zeros(len(runs), np.bool_)
        if limits.runs_per_partition is not None:
            older, count = runs.rank(by_partition=True)
            gone |= count - older > limits.runs_per_partition
        if limits.runs is not None:
            left = runs.take(~gone)
            older, count = left.rank(by_partition=False)
            gone[~gone] |= count - older > limits.runs
        yield from self._drop(runs.take(gone))
        if limits.state_bytes is not None:
            yield from self._shrink(limits.state_bytes)

    def _shrink(self, most: int) -> Iterator[tuple[str, pa.Table]]:
        """Drop the oldest runs until the state has few enough bytes, by their average at first."""
        least, searches = 1, self._count()
        while (size := self._weigh(searches)) > most:
            runs = RunsByAge.of(searches)
            if not len(runs):
                raise self._refuse_state(
                    searches, "nothing is left to evict: shorten delay=, or raise state="
                )
            own = sum(each.census.nbytes for each in searches)
            share = -(-len(runs) * (size - most) // max(own, 1))
            older, _ = runs.rank(by_partition=False)
            yield from self._drop(runs.take(older < max(share, least)))
            least, searches = 2 * least, self._count()

    def _count(self) -> list[CountedSearch]:
        return [
            CountedSearch(name, stage, search.census())
            for name, query in sorted(self.queries.items())
            for stage, search in enumerate(query.searches)
        ]

    def _weigh(self, searches: Sequence[CountedSearch]) -> int:
        between = sum(query.held_weight for query in self.queries.values())
        return sum(each.census.nbytes for each in searches) + self.held.weight + between

    def _drop(self, gone: RunsByAge) -> Iterator[tuple[str, pa.Table]]:
        for number, each in enumerate(gone.searches):
            rows = gone.rows[gone.which == number]
            if not len(rows):
                continue
            parts, counts = np.unique(each.census.parts[rows], return_counts=True)
            keys = each.census.keys
            lost = {show_key(keys[part]): int(n) for part, n in zip(parts.tolist(), counts, strict=True)}
            self.evictions.add(each.name, lost)
            for table in self.queries[each.name].evict(each.stage, each.census.places[rows]):
                yield each.name, table

    # ---- errors

    def _refuse(self, problem: str, hint: str) -> PlanError:
        return PlanError(problem, hint=f"{hint}; the state before {self.batch} is untouched")

    def _refuse_partition(self, search: CountedSearch, row: int, limit: int) -> PlanError:
        census = search.census
        part = int(census.parts[row])
        where = f" of partition {show_key(census.keys[part])}" if census.keys[part] else ""
        count = int((census.parts == part).sum())
        return self._refuse(
            f"query {search.name} keeps {count:,} {census.what}{where}, "
            f"more than runs_per_partition={limit:,}",
            WAYS_OUT,
        )

    def _refuse_runs(self, searches: Sequence[CountedSearch], limit: int) -> PlanError:
        most = max(searches, key=lambda each: len(each.census))
        total = sum(len(each.census) for each in searches)
        others = "" if len(most.census) == total else f", and with other queries {total:,}"
        return self._refuse(
            f"query {most.name} keeps {len(most.census):,} {most.census.what}{others}: "
            f"more than runs={limit:,}",
            WAYS_OUT,
        )

    def _refuse_state(self, searches: Sequence[CountedSearch], hint: str) -> PlanError:
        shares = {f"query {each.name}": each.census.nbytes for each in searches}
        shares["events that wait for the watermark"] = self.held.weight
        most = max(shares, key=lambda name: shares[name])
        return self._refuse(
            f"the state has {show_size(self._weigh(searches))}, more than state={self.limits.state!r}; "
            f"{show_size(shares[most])} of it: {most}",
            hint,
        )


def show_key(key: Sequence[object]) -> str:
    """Return the values that identify a partition as text."""
    return ", ".join("null" if each is None else str(each) for each in key)
