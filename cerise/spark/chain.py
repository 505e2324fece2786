"""Matches that do not overlap, found in slices of time and then chained (S7.1).

Which matches overlap depends on all before them. But of the matches that one event starts only the one that
completes first can ever be chosen: if it is not, its start lies in a match already chosen, and so do the
others. So slices find one candidate for each start, and one task goes through these in the order of their
ends. Where an event stands is said by its time and its number among the events of that time that the query
needs: slices have all of these, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Matches, Options
from cerise.engines.choose import choose
from cerise.engines.output import ends_of, spelled, to_table
from cerise.engines.totals import Ledger, each_alone, partial_schema
from cerise.events import EventBatch
from cerise.files.lake import Group
from cerise.files.reader import Reading
from cerise.files.scan import Scan
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output
from cerise.plan.filters import Sieve
from cerise.plan.overlap import Halo, Slice
from cerise.spark.report import Note, Records

Ints = npt.NDArray[np.int64]
Place = tuple[int, int]  # of an event: its time, and its number among the events of that time
PART = "__cerise_part"  # what a match adds to totals: a row for each window that holds it, or one
ORDER = tuple(f"__cerise_{name}" for name in ("end_time", "end_number", "start_time", "start_number"))


def unchained(bound: Bound) -> Bound:
    """Return the query that asks for all matches themselves, also where they are only counted."""
    returns = None if bound.query.totals is not None else bound.query.returns
    return replace(bound, query=replace(bound.query, output=Output.ALL, limit=None, returns=returns))


def candidate_schema(bound: Bound) -> pa.Schema:
    """Return the columns of candidates: those of matches, or what they add to totals, and where they are."""
    wanted = list(bound.output_schema)
    if bound.query.totals is not None:
        wanted = [pa.field(PART, pa.list_(pa.struct(list(partial_schema(bound)))))]
    return pa.schema([*wanted, *(pa.field(name, pa.int64()) for name in ORDER)])


@dataclass(frozen=True, slots=True)
class CandidateTask:
    """Finds the candidates of slices.

    Attributes:
        bound: the query, which wants matches that do not overlap.
        options: how it is run.
        reading: how events are read.
        slices: the slices, with the row groups that each reads.
        needs: what a slice needs beyond its own time.
        records: where it is noted what was done.
    """

    bound: Bound
    options: Options
    reading: Reading
    slices: Sequence[tuple[Slice, tuple[Group, ...]]]
    needs: Halo
    records: Records

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the candidates of the slices whose numbers are given."""
        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            part, groups = self.slices[number]
            scan = Scan(self.reading, groups)
            with self.records.noted("match", number) as note:
                found = Candidates(self.bound, scan)
                self._match(scan, part, found, note)
                for table in found.best():
                    yield from table.to_batches()

    def _match(self, scan: Scan, part: Slice, found: Candidates, note: Note) -> None:
        bound = unchained(self.bound)
        matcher = choose(bound, self.options).start(bound, self.options)
        numbers = Numbers(self.reading)
        for events in scan.events(part if len(self.slices) > 1 else None, self.needs):
            numbered = replace(events, positions=numbers(events))
            for matches in spelled(matcher.feed(numbered)):
                found.add(matches)
        for matches in spelled(matcher.flush()):
            found.add(matches)
        note["events read"] = scan.counts.rows
        note["bytes read"] = scan.counts.bytes + scan.counts.late_bytes
        note["row groups read"] = scan.counts.groups


@dataclass(slots=True)
class Candidates:
    """For each start the match that completes first: of equal ends the one with the smallest positions."""

    bound: Bound
    scan: Scan
    _tables: list[pa.Table] = field(default_factory=list)
    _best: dict[Place, tuple[Place, Any, int, int]] = field(default_factory=dict)

    def add(self, matches: Matches) -> None:
        """Take in some matches."""
        if not len(matches):
            return
        first, last = ends_of(matches)
        times, numbers = matches.events.times, matches.events.positions
        keys = (times[last], numbers[last], times[first], numbers[first])
        order = np.lexsort((keys[1], keys[0], keys[3], keys[2]))  # by start, then by end
        start, end = (keys[2][order], keys[3][order]), (keys[0][order], keys[1][order])
        same_start = _same(start)
        chosen = [
            self._smallest(order[group], matches) if len(group) > 1 else int(order[group[0]])
            for group in _first_ends(same_start, _same(end))
        ]
        rows = pa.array(chosen)
        some = Matches(matches.events, {name: lists.take(rows) for name, lists in matches.rows.items()})
        self._keep(some, [key[chosen] for key in keys])

    def _smallest(self, rows: Ints, matches: Matches) -> int:
        return min(map(int, rows), key=lambda row: _positions(matches, row))

    def _keep(self, matches: Matches, keys: list[Ints]) -> None:
        number = len(self._tables)
        for row, (end_time, end_number, time, at) in enumerate(zip(*(k.tolist() for k in keys), strict=True)):
            place, found = (time, at), ((end_time, end_number), _positions(matches, row), number, row)
            if place not in self._best or found[:2] < self._best[place][:2]:
                self._best[place] = found
        order = [pa.array(key) for key in keys]
        self._tables.append(pa.table([*self._wanted(matches), *order], schema=candidate_schema(self.bound)))

    def _wanted(self, matches: Matches) -> list[Any]:
        """Return the columns of matches, or what each adds to totals."""
        whole = Matches(self.scan.complete(matches.events), matches.rows)
        if self.bound.query.totals is None:
            return list(to_table(whole, self.bound).columns)
        match, parts = each_alone(whole, self.bound)
        ends = np.cumsum(np.bincount(match, minlength=whole.count))
        rows = parts.to_struct_array().combine_chunks()
        return [pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), rows)]

    def best(self) -> Iterator[pa.Table]:
        """Yield the candidates."""
        rows: dict[int, list[int]] = {}
        for _, _, number, row in self._best.values():
            rows.setdefault(number, []).append(row)
        for number, chosen in rows.items():
            yield self._tables[number].take(pa.array(chosen))


def _positions(matches: Matches, row: int) -> tuple[tuple[Place, ...], ...]:
    """Return where the events of a match stand, variable by variable."""
    times, numbers = matches.events.times, matches.events.positions
    lists = (rows[row].as_py() or () for rows in matches.rows.values())
    return tuple(tuple((int(times[i]), int(numbers[i])) for i in each) for each in lists)


def _same(keys: tuple[Ints, Ints]) -> npt.NDArray[np.bool_]:
    """Whether each pair of keys equals the one before it."""
    equal = (keys[0][1:] == keys[0][:-1]) & (keys[1][1:] == keys[1][:-1])
    return np.insert(equal, 0, False)


def _first_ends(same_start: npt.NDArray[np.bool_], same_end: npt.NDArray[np.bool_]) -> list[Ints]:
    """Return for each start the places of its matches with the first end."""
    starts = np.flatnonzero(~same_start)
    borders = np.flatnonzero(~(same_start & same_end))
    stops = np.append(borders, len(same_start))[np.searchsorted(borders, starts, "right")]
    return [np.arange(start, stop) for start, stop in zip(starts, stops, strict=True)]


class Numbers:
    """Numbers the events that the query needs among those of their time, over all batches of a slice.

    Others do not count: a slice may have left them out, and another may not.
    """

    def __init__(self, reading: Reading) -> None:
        self._sieve = None if reading.needed is None else Sieve(reading.needed, reading.roles)
        self._time: int | None = None
        self._seen = 0

    def __call__(self, events: EventBatch) -> Ints:
        """Return the numbers of the next events."""
        times = events.times
        if not len(times):
            return np.zeros(0, np.int64)
        counts = np.ones(len(times), np.int64)
        if self._sieve is not None:
            counts = self._sieve.kept(events.table).astype(np.int64)
        before = np.cumsum(counts) - counts
        starts = np.flatnonzero(np.append(True, times[1:] != times[:-1]))
        numbers = before - np.repeat(before[starts], np.diff(np.append(starts, len(times))))
        if times[0] == self._time:  # a time may be in two batches
            numbers[times == self._time] += self._seen
        self._time, self._seen = int(times[-1]), int(numbers[-1] + counts[-1])
        return numbers


@dataclass(frozen=True, slots=True)
class ChainTask:
    """Chooses, of candidates in the order of their ends, those that do not overlap."""

    bound: Bound
    records: Records

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the matches, or partial totals of them."""
        free_after: Place | None = None
        total = 0
        ledger = None if self.bound.query.totals is None else Ledger(self.bound)
        with self.records.noted("chain", 0) as note:
            for batch in batches:
                columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in ORDER]
                chosen = []
                for row, (end_time, end_number, time, number) in enumerate(zip(*columns, strict=True)):
                    if free_after is None or (time, number) > free_after:
                        chosen.append(row)
                        free_after = (end_time, end_number)
                total += len(chosen)
                some = batch.take(pa.array(chosen, pa.int64()))
                if ledger is not None:
                    parts = some.column(some.schema.get_field_index(PART)).flatten()
                    ledger.merge(pa.Table.from_struct_array(parts))
                elif chosen:
                    yield some.select(self.bound.output_schema.names)
            if ledger is not None:
                yield from ledger.partial().to_batches()
            note["matches"] = total
