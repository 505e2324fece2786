"""What the tasks of Spark do: functions from Arrow batches to Arrow batches, which know no DataFrame."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from cerise.engines.base import Finding, Matches
from cerise.engines.choose import choose
from cerise.engines.limits import DEFAULT
from cerise.engines.output import spelled, to_table
from cerise.engines.several import Queries
from cerise.engines.totals import Ledger, Positions
from cerise.errors import DataError
from cerise.events import EventBatch, raw_column
from cerise.files.lake import Group
from cerise.files.reader import Reading
from cerise.files.scan import Scan
from cerise.pattern.bound import Bound
from cerise.plan.overlap import Halo, Slice
from cerise.spark.exchange import Cutter, gathered, in_stream_order
from cerise.spark.frames import quoted
from cerise.spark.report import Note, Records, count, exchanged, note_ties


class Completes(Protocol):
    """Where columns that are only returned are fetched from."""

    def complete(self, events: EventBatch) -> EventBatch:
        """Return matched events with all their columns."""
        ...


@dataclass(frozen=True, slots=True)
class SliceTask:
    """Reads the slices of a stream from their files, and matches each.

    Attributes:
        queries: what is looked for.
        reading: how events are read.
        slices: the slices, with the row groups that each reads.
        needs: what a slice needs beyond its own time.
        records: where it is noted what was done.
    """

    queries: Queries
    reading: Reading
    slices: Sequence[tuple[Slice, tuple[Group, ...]]]
    needs: Halo
    records: Records

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the matches of the slices whose numbers are given."""
        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            part, groups = self.slices[number]
            scan = Scan(self.reading, groups)
            events = scan.events(part if len(self.slices) > 1 else None, self.needs)
            batches = ((each,) * len(self.queries.bounds) for each in events)
            with self.records.noted("match", number) as note:
                yield from matched(self.queries, batches, note, scan)
                note["row groups read"] = scan.counts.groups
                note["events read"] = scan.counts.rows
                note["bytes read"] = scan.counts.bytes + scan.counts.late_bytes


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads row groups and cuts them into blobs, each for one target."""

    cutter: Cutter
    reading: Reading
    groups: Sequence[tuple[Group, ...]]
    records: Records

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of the row groups whose numbers are given."""
        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            scan = Scan(self.reading, self.groups[number])
            with self.records.noted("read", number) as note:
                yield from _cut(self.cutter, scan.tables(), note)
                note["row groups read"] = scan.counts.groups
                note["events read"] = scan.counts.rows
                note["bytes read"] = scan.counts.bytes


@dataclass(frozen=True, slots=True)
class CutTask:
    """Cuts the rows of a DataFrame into blobs, each for one target."""

    cutter: Cutter
    columns: pa.Schema
    records: Records

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the blobs of some rows."""
        tables = (_settled(batch, self.columns, self.cutter.schema.time) for batch in batches)
        with self.records.noted("hand over", self.records.task()) as note:
            yield from _cut(self.cutter, tables, note)


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Matches the events that blobs bring.

    Attributes:
        queries: what is looked for.
        records: where it is noted what was done.
        counts_ties: whether events are counted whose order only a hash decides: the user can mend that.
    """

    queries: Queries
    records: Records
    counts_ties: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the matches of the targets that a task has."""
        for number, table in enumerate(gathered(batches)):
            with self.records.noted("match", (self.records.task(), number)) as note:
                schema = self.queries.schema
                events = [in_stream_order(table, schema, bound.ties) for bound in self.queries.bounds]
                if self.counts_ties:
                    told = zip(events, self.queries.bounds, strict=True)
                    ties = max(each.undecided(bound.partition) for each, bound in told)
                    note_ties(note, ties, strict=self.queries.options.strict)
                yield from matched(self.queries, iter([events]), note)


def _cut(cutter: Cutter, tables: Iterable[pa.Table], note: Note) -> Iterator[pa.RecordBatch]:
    def counted() -> Iterator[pa.Table]:
        for table in tables:
            count(note, "events handed over", len(table))
            yield table

    yield from exchanged(cutter(counted()), note)


def matched(
    queries: Queries, batches: Iterable[Sequence[EventBatch]], note: Note, scan: Completes | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the matches of events that come in stream order, as they are found; or partial totals of them.

    Args:
        queries: what is looked for.
        batches: the events, once for each query: ties may be broken differently.
        note: what is done.
        scan: where columns that are only returned are fetched from.
    """
    matchers = [choose(bound, queries.options).start(bound, queries.options) for bound in queries.bounds]
    positions = [Positions(bound) for bound in queries.bounds]
    limits = queries.options.limits
    ledgers = [None if bound.query.totals is None else Ledger(bound, limits) for bound in queries.bounds]
    counts = [0] * len(matchers)

    def found() -> Iterator[tuple[int, Finding]]:
        begun = time.perf_counter()
        for events in batches:
            count(note, "seconds reading", time.perf_counter() - begun)
            count(note, "events matched over", len(events[0]))
            for number, matcher in enumerate(matchers):
                yield from ((number, each) for each in matcher.feed(positions[number](events[number])))
            begun = time.perf_counter()
        for number, matcher in enumerate(matchers):
            yield from ((number, each) for each in matcher.flush())

    for number, finding in found():
        bound, ledger = queries.bounds[number], ledgers[number]
        counts[number] += finding.count
        if ledger is not None:
            ledger.add(finding)
            if ledger.leaves_early and len(ledger) >= limits.output_rows:
                yield from ledger.partial().to_batches()
        elif finding.count:
            (matches,) = spelled([finding])
            whole = matches if scan is None else _completed(matches, scan)
            yield from _tagged(to_table(whole, bound), number, queries)
    for ledger in ledgers:
        if ledger is not None:
            yield from ledger.partial().to_batches()
    note["matches"] = sum(counts)
    note["values that could not be computed"] = sum(each.report.uncomputable for each in matchers)


@dataclass(frozen=True, slots=True)
class CombineTask:
    """Makes totals of the partial ones of all tasks.

    Attributes:
        bound: the query.
        nested: whether they come as one list, which may be empty: then there is a row all the same.
    """

    bound: Bound
    nested: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the totals of the groups that a task has."""
        ledger = Ledger(self.bound)
        for batch in batches:
            rows = batch.column(0).flatten() if self.nested else batch.to_struct_array()
            ledger.merge(pa.Table.from_struct_array(rows))
        yield from ledger.result().to_batches(max_chunksize=DEFAULT.output_rows)


def _tagged(table: pa.Table, number: int, queries: Queries) -> Iterator[pa.RecordBatch]:
    yield from queries.tagged(table, number).to_batches(max_chunksize=queries.options.limits.output_rows)


def _completed(matches: Matches, scan: Completes) -> Matches:
    return Matches(scan.complete(matches.events), matches.rows, matches.counted)


def _settled(batch: pa.RecordBatch, columns: pa.Schema, time: str) -> pa.Table:
    """Return the needed columns in the types that the query was bound to: Spark's zone may be another."""
    arrays = [batch.column(i) for i in range(len(columns))]
    cast = [
        a if a.type == field.type else a.cast(field.type) for a, field in zip(arrays, columns, strict=True)
    ]
    table = pa.Table.from_arrays(cast, schema=columns)
    _reject_null_times(table, time)
    return table


def _reject_null_times(table: pa.Table, name: str) -> None:
    """A DataFrame's rows have no numbers: show the rows themselves."""
    times = raw_column(table, (name,))
    if times.null_count:
        shown = table.filter(times.is_null()).slice(0, 3).to_pylist()
        raise DataError(
            f"{times.null_count} events have no time: '{name}' is null, as in {shown}",
            hint=f"filter them out first: df.where('{quoted((name,))} IS NOT NULL')",
        )
