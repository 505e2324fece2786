"""Matches that do not overlap, found in slices of time and then chained (S7.1).

Whether a match is chosen depends on all matches before it. But of the matches that start at one event, only
the one that completes first can be chosen: if it is not, its start lies in a match chosen before, and so do
the starts of the others. So each slice finds one candidate for each start, and one task goes through the
candidates in the order of their ends. The position of an event is its time, and its number among the needed
events of that time: a slice has all events of a time, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Finding, Matches
from cerise.engines.results.match_table import ends_of, to_table
from cerise.engines.totals import Ledger, each_alone, partial_schema
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output
from cerise.plan.pushdown import Needed
from cerise.plan.router import router_of
from cerise.run.question import Note, Work

Ints = npt.NDArray[np.int64]
Position = tuple[int, int]  # of an event: its time, and its number among the events of that time
PART = "__cerise_part"  # a match's contribution to totals: a row for each window that holds it, or one row
ORDER = tuple(f"__cerise_{name}" for name in ("end_time", "end_number", "start_time", "start_number"))


def without_chain(bound: Bound) -> Bound:
    """Return the query for all matches, overlapping ones included; of a query for totals, the matches."""
    returns = None if bound.query.totals is not None else bound.query.returns
    return replace(bound, query=replace(bound.query, output=Output.ALL, limit=None, returns=returns))


def candidates_of(bound: Bound) -> pa.Schema:
    """Return the columns of candidates: of matches or of their parts of totals, and their positions."""
    fields = list(bound.output_schema)
    if bound.query.totals is not None:
        fields = [pa.field(PART, pa.list_(pa.struct(list(partial_schema(bound)))))]
    return pa.schema([*fields, *(pa.field(name, pa.int64()) for name in ORDER)])


class FirstMatches:
    """For each start, the match that completes first; of equal ends, the match with the smallest positions.

    Args:
        bound: the query.
        needed: tests of the events that count in positions; None: all events count.
        work: fetches the late columns of matched events.
    """

    def __init__(self, bound: Bound, needed: Needed | None, work: Work) -> None:
        self.bound = bound
        self._work = work
        self._numbers = _Numbers(needed)
        self._tables: list[pa.Table] = []
        self._best: dict[Position, tuple[Position, Any, int, int]] = {}

    def number(self, events: EventBatch) -> EventBatch:
        return replace(events, positions=self._numbers(events))

    def add(self, matches: Finding) -> None:
        """Keep the first match of each start among more matches."""
        assert isinstance(matches, Matches)  # an engine tallies only for totals
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
        picked = Matches(matches.events, {name: lists.take(rows) for name, lists in matches.rows.items()})
        self._keep(picked, [key[chosen] for key in keys])

    def _smallest(self, rows: Ints, matches: Matches) -> int:
        return min(map(int, rows), key=lambda row: _positions(matches, row))

    def _keep(self, matches: Matches, keys: list[Ints]) -> None:
        number = len(self._tables)
        for row, (end_time, end_number, time, at) in enumerate(zip(*(k.tolist() for k in keys), strict=True)):
            position, found = (time, at), ((end_time, end_number), _positions(matches, row), number, row)
            if position not in self._best or found[:2] < self._best[position][:2]:
                self._best[position] = found
        order = [pa.array(key) for key in keys]
        self._tables.append(pa.table([*self._columns(matches), *order], schema=candidates_of(self.bound)))

    def _columns(self, matches: Matches) -> list[Any]:
        """Return the columns of matches, or each match's part of totals."""
        whole, limits = Matches(self._work.complete(matches.events), matches.rows), self._work.options.limits
        if self.bound.query.totals is None:
            return list(to_table(whole, self.bound, limits).columns)
        match, parts = each_alone(whole, self.bound, limits)
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


def _positions(matches: Matches, row: int) -> tuple[tuple[Position, ...], ...]:
    """Return the positions of the events of a match, variable by variable."""
    times, numbers = matches.events.times, matches.events.positions
    lists = (rows[row].as_py() or () for rows in matches.rows.values())
    return tuple(tuple((int(times[i]), int(numbers[i])) for i in each) for each in lists)


def _same(keys: tuple[Ints, Ints]) -> npt.NDArray[np.bool_]:
    """Return whether each pair of keys equals the pair before it."""
    equal = (keys[0][1:] == keys[0][:-1]) & (keys[1][1:] == keys[1][:-1])
    return np.insert(equal, 0, False)


def _first_ends(same_start: npt.NDArray[np.bool_], same_end: npt.NDArray[np.bool_]) -> list[Ints]:
    starts = np.flatnonzero(~same_start)
    borders = np.flatnonzero(~(same_start & same_end))
    stops = np.append(borders, len(same_start))[np.searchsorted(borders, starts, "right")]
    return [np.arange(start, stop) for start, stop in zip(starts, stops, strict=True)]


class _Numbers:
    """Numbers the needed events of each time, over all batches of a slice.

    Other events do not count: one slice may have left them out, another may have read them.
    """

    def __init__(self, needed: Needed | None) -> None:
        self._router = None if needed is None else router_of(needed)
        self._time: int | None = None
        self._seen = 0

    def __call__(self, events: EventBatch) -> Ints:
        """Return the numbers of the next events."""
        times = events.times
        if not len(times):
            return np.zeros(0, np.int64)
        counts = np.ones(len(times), np.int64)
        if self._router is not None:
            counts = self._router.mask(events.table).astype(np.int64)
        before = np.cumsum(counts) - counts
        starts = np.flatnonzero(np.append(True, times[1:] != times[:-1]))
        numbers = before - np.repeat(before[starts], np.diff(np.append(starts, len(times))))
        if times[0] == self._time:  # two batches may share a time
            numbers[times == self._time] += self._seen
        self._time, self._seen = int(times[-1]), int(numbers[-1] + counts[-1])
        return numbers


def choose_candidates(bound: Bound, candidates: Iterable[pa.RecordBatch], note: Note) -> Iterator[pa.Table]:
    """Choose candidates that do not overlap, given in the order of their ends; yield them or their totals."""
    free_after: Position | None = None
    total = 0
    ledger = None if bound.query.totals is None else Ledger(bound)
    for batch in candidates:
        columns = [batch.column(batch.schema.get_field_index(name)).to_pylist() for name in ORDER]
        chosen = []
        for row, (end_time, end_number, time, number) in enumerate(zip(*columns, strict=True)):
            if free_after is None or (time, number) > free_after:
                chosen.append(row)
                free_after = (end_time, end_number)
        total += len(chosen)
        taken = batch.take(pa.array(chosen, pa.int64()))
        if ledger is not None:
            parts = taken.column(taken.schema.get_field_index(PART)).flatten()
            ledger.merge(pa.Table.from_struct_array(parts))
        elif chosen:
            yield pa.Table.from_batches([taken.select(bound.output_schema.names)])
    if ledger is not None:
        yield ledger.partial()
    note["matches"] = total
