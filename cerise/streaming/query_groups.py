"""Groups of queries that partition the events alike, and the buckets of their keys.

An event goes once to each group, to the bucket of its key; queries without a key share one bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.limits import DEFAULT, Limits
from cerise.events import Ints, Path, Schema, read_column
from cerise.plan.needs import Needs, any_filter, hash_partition
from cerise.plan.pushdown import Needed
from cerise.plan.router import Router, router_of
from cerise.run.report import to_bytes
from cerise.run.sase_search import Sase
from cerise.streaming.entry import find_top
from cerise.streaming.live_query import StreamQuery
from cerise.streaming.share import Share
from cerise.streaming.stages import stages_of
from cerise.streaming.watermark import TimeRules

BLOBS = pa.schema(
    [
        ("bucket", pa.int32()), ("source", pa.string()), ("top", pa.int64()), ("now", pa.int64()),
        ("events", pa.binary()),
    ]
)  # fmt: skip


def needs_of(query: StreamQuery) -> Needs:
    """Return the needs of the query that reads the stream itself."""
    return stages_of(query.question)[0].needs


class Division(NamedTuple):
    """How events are divided into buckets: by the attributes of a key, their number, and the first one's."""

    key: str = ""
    buckets: int = 1
    first: int = 0


UNDIVIDED = Division()


@dataclass(frozen=True)
class StreamGroup:
    """Queries that partition the events alike.

    Attributes:
        queries: the queries.
        partition: the attributes of a key; empty: there is one bucket.
        buckets: how many buckets the keys are divided into.
        first: the number of its first bucket, of all buckets of the stream.
        columns: the columns that are handed over if queries come while the stream runs; else empty.
    """

    queries: tuple[StreamQuery, ...]
    partition: tuple[Path, ...]
    buckets: int
    first: int
    columns: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that the queries need."""
        needed = (name for each in self.queries for name in needs_of(each).columns.names)
        return self.columns or tuple(dict.fromkeys(needed))

    @cached_property
    def filter(self) -> Needed | None:
        """The tests that an event passes if a query of the group can need it; None: all events."""
        return None if self.columns else any_filter([needs_of(each).filter for each in self.queries])

    @property
    def division(self) -> Division:
        """How the events of the group are divided, for its saved state."""
        return Division(", ".join(".".join(each) for each in self.partition), self.buckets, self.first)

    def share(self, number: int) -> Share:
        """Return the keys of a bucket, given its number among all buckets of the stream."""
        return Share(self.partition, number - self.first, self.buckets)

    def numbers(self, table: pa.Table) -> Ints:
        """Return the bucket of each event."""
        keys = hash_partition(table, self.partition)
        if keys is None or self.buckets == 1:
            return np.full(len(table), self.first, np.int64)
        return (keys % np.uint64(self.buckets)).astype(np.int64) + self.first


def group_queries(queries: Sequence[StreamQuery], buckets: int) -> tuple[StreamGroup, ...]:
    """Group queries by their partition; a group with keys gets as many buckets as asked for."""
    by_key: dict[tuple[Path, ...], list[StreamQuery]] = {}
    for each in queries:
        by_key.setdefault(_partition_of(each), []).append(each)
    groups: list[StreamGroup] = []
    for partition, members in sorted(by_key.items()):  # a state outlives the order of queries
        first = groups[-1].first + groups[-1].buckets if groups else 0
        groups.append(StreamGroup(tuple(members), partition, buckets if partition else 1, first))
    return tuple(groups)


def _partition_of(query: StreamQuery) -> tuple[Path, ...]:
    """Return the key by which the events of a query can be divided.

    A query FROM another, and totals that are of all keys together, have none.
    """
    (first, *others) = stages_of(query.question)
    totals = first.bound.query.totals if isinstance(first, Sase) else None
    if others or (totals is not None and not totals.per.partition):
        return ()
    return first.needs.partition


@dataclass(frozen=True)
class StreamCutter:
    """Cuts the events of a source into Arrow blobs, each for one bucket.

    Every bucket hears the latest time that the task has seen, also if it gets no event.

    Attributes:
        source: the name of the source.
        groups: the groups of queries.
        roles: the columns that are handed over, and the time column.
        rules: how long the stream waits.
        keys: for each bucket the number that Spark's hash sends to the task of the bucket.
        limits: how many events to cut at a time.
    """

    source: str
    groups: tuple[StreamGroup, ...]
    roles: Schema
    rules: TimeRules
    keys: tuple[int, ...]
    limits: Limits = DEFAULT

    def __call__(self, tables: Iterable[pa.Table], now: int | None) -> Iterator[pa.RecordBatch]:
        """Yield blobs of events, then for each bucket the latest time of the task."""
        top: int | None = None
        routers = [None if each.filter is None else router_of(each.filter) for each in self.groups]
        waiting: list[pa.Table] = []
        for table in tables:
            latest = find_top(table, self.roles, self.rules, now)
            top = latest if top is None or (latest is not None and latest > top) else top
            waiting.append(table)
            if sum(map(len, waiting)) >= self.limits.cut_events:
                yield from self._split(pa.concat_tables(waiting), routers, now)
                waiting = []
        if waiting:
            yield from self._split(pa.concat_tables(waiting), routers, now)
        rows = len(self.keys)
        columns = [
            pa.array(self.keys, pa.int32()), pa.array([self.source] * rows),
            pa.array([top] * rows, pa.int64()), pa.array([now] * rows, pa.int64()),
            pa.nulls(rows, pa.binary()),
        ]  # fmt: skip
        yield pa.RecordBatch.from_arrays(columns, schema=BLOBS)

    def _split(
        self, table: pa.Table, routers: Sequence[Router | None], now: int | None
    ) -> Iterator[pa.RecordBatch]:
        for group, router in zip(self.groups, routers, strict=True):
            some = table if router is None else table.filter(pa.array(self._find_events(table, router)))
            if not len(some):
                continue
            numbers = group.numbers(some)
            order = np.argsort(numbers.astype(np.int32), kind="stable")
            starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
            for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
                rows = order[start:stop]
                yield self._blob(int(numbers[rows[0]]), some.take(pa.array(rows)), now)

    def _find_events(self, table: pa.Table, router: Router) -> npt.NDArray[np.bool_]:
        """Return which events a group can need, or have no time, so that they are set aside."""
        times = read_column(table, self.roles, (self.roles.time,))
        mask: npt.NDArray[np.bool_] = router.mask(table)
        return mask | np.asarray(times.is_null()) if times.null_count else mask

    def _blob(self, bucket: int, table: pa.Table, now: int | None) -> pa.RecordBatch:
        events = to_bytes(table.unify_dictionaries().combine_chunks())
        columns = [
            pa.array([self.keys[bucket]], pa.int32()), pa.array([self.source]), pa.nulls(1, pa.int64()),
            pa.array([now], pa.int64()), pa.array([events], pa.binary()),
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(columns, schema=BLOBS)
