"""The reference as an engine: partitions, branches, and the choice of matches."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import EngineReport, Matches, Options
from cerise.engines.reference.absence import Absences
from cerise.engines.reference.runs import Runs
from cerise.engines.reference.stream import Stream
from cerise.errors import DataError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output
from cerise.pattern.show import show
from cerise.pattern.values import Fault

Rows = npt.NDArray[np.int64]
Positions = tuple[tuple[int, ...], ...]  # of one match: the rows of each variable, in pattern order
STATE = b"cerise.reference.2\n"
OPENS, POSITION = "__cerise_saved_opens", "__cerise_saved_position"  # columns of saved events


class Reference:
    """The engine that can run everything, slowly."""

    name = "reference"

    def why_not(self, bound: Bound) -> str | None:  # noqa: ARG002
        return None

    def start(self, bound: Bound, options: Options) -> ReferenceMatcher:
        return ReferenceMatcher(bound, options)

    def explain(self, bound: Bound) -> Mapping[str, str]:  # noqa: ARG002
        """Return nothing: the reference runs the semantics as written."""
        return {}


ENGINE = Reference()


class ReferenceMatcher:
    """Keeps every event and answers at the end: an oracle, not a way to run endless streams."""

    def __init__(self, bound: Bound, options: Options) -> None:
        self.bound = bound
        self.options = options
        self.report = EngineReport()
        self._tables: list[pa.Table] = []
        self._opens: list[npt.NDArray[np.bool_]] = []
        self._positions: list[Rows] = []
        self._last_time: int | None = None
        self._branches = [
            (Runs(branch, bound, self._on_fault), Absences(branch, bound, self._on_fault))
            for branch in bound.branches
        ]

    def feed(self, events: EventBatch) -> Iterator[Matches]:
        """Keep the events; their matches come with `flush`."""
        self._keep(events)
        return iter(())

    def _keep(self, events: EventBatch) -> None:
        if len(events):
            if self._last_time is not None and events.times[0] < self._last_time:
                raise DataError(
                    f"events go back in time, from {self._last_time} to {events.times[0]}",
                    hint="feed batches in stream order",
                )
            self._last_time = int(events.times[-1])
            self._tables.append(events.table)
            self._opens.append(np.ones(len(events), bool) if events.opens is None else events.opens)
            self._positions.append(events.positions)
            self.report.events += len(events)

    def flush(self) -> Iterator[Matches]:
        """Yield all matches of the events fed so far, and drop the events."""
        tables = self._tables or [self.bound.schema.columns.empty_table()]
        table = pa.concat_tables(tables)
        schema = self.bound.schema
        positions = np.concatenate([np.zeros(0, np.int64), *self._positions])
        events = replace(EventBatch.in_order(table, schema), positions=positions)
        opens = np.concatenate([np.zeros(0, bool), *self._opens])
        self._forget()
        columns = events.columns(self.bound.reads)
        found: list[Positions] = []
        for rows in partitions_of(events, self.bound):
            picked = {path: _pick(values, rows) for path, values in columns.items()}
            matches = self._all_matches(Stream(picked, events.times[rows].tolist()))
            matches = {each for each in matches if opens[rows[_order(each)[1]]]}
            found += [_in_rows(match, rows) for match in choose_matches(matches, self.bound)]
        self.report.matches += len(found)
        yield self._matches(found, events)

    def save(self) -> bytes:
        """Return the events, their positions and which may start a match, after a hash of the query."""
        sink = pa.BufferOutputStream()
        tables = self._tables or [self.bound.schema.columns.empty_table()]
        opens, positions = self._opens or [np.zeros(0, bool)], self._positions or [np.zeros(0, np.int64)]
        kept = [
            table.append_column(OPENS, pa.array(each)).append_column(POSITION, pa.array(places))
            for table, each, places in zip(tables, opens, positions, strict=True)
        ]
        with pa.ipc.new_stream(sink, kept[0].schema) as writer:
            for table in kept:
                writer.write_table(table)
        return STATE + self._mark() + bytes(sink.getvalue())

    def load(self, state: bytes) -> None:
        """Restore the events of a saved state of the same query."""
        head = STATE + self._mark()
        if not state.startswith(head):
            raise DataError("the saved state is of another query, or damaged", hint="start the query afresh")
        table = pa.ipc.open_stream(state[len(head) :]).read_all()
        self._forget()
        events = EventBatch.in_order(table.drop_columns([OPENS, POSITION]), self.bound.schema)
        opens, positions = (table.column(name).to_numpy() for name in (OPENS, POSITION))
        self._keep(replace(events, opens=opens, positions=positions))

    def _forget(self) -> None:
        self._tables, self._opens, self._positions, self._last_time = [], [], [], None

    def _mark(self) -> bytes:
        text = f"{show(self.bound.query)}\n{self.bound.schema.columns}"
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    def _all_matches(self, stream: Stream) -> set[Positions]:
        """Return the matches of one partition: the union over the branches (S3.2, S3.7)."""
        found: set[Positions] = set()
        for runs, absences in self._branches:
            for binding in runs.over(stream, self.options.max_runs):
                if not absences.veto(binding, stream):
                    found.add(tuple(binding.get(var.name, ()) for var in self.bound.variables))
            self.report.most_runs = max(self.report.most_runs, runs.most)
        return found

    def _on_fault(self, _fault: Fault) -> None:
        self.report.uncomputable += 1

    def _matches(self, found: Sequence[Positions], events: EventBatch) -> Matches:
        kind = pa.list_(pa.int64())
        columns = {
            var.name: pa.array([match[i] or None for match in found], kind)
            for i, var in enumerate(self.bound.variables)
        }
        return Matches(events, columns)


def choose_matches(found: Iterable[Positions], bound: Bound) -> list[Positions]:
    """Return the matches of one partition that OUTPUT and LIMIT ask for (S7.1, S7.4)."""
    matches = sorted(found, key=_order)
    if bound.query.output is Output.NON_OVERLAPPING:
        matches = _drop_overlaps(matches)
    if bound.query.limit is not None:
        matches = _limit(matches, bound.query.limit)
    return matches


def _order(match: Positions) -> tuple[int, int, Positions]:
    taken = [position for positions in match for position in positions]
    return max(taken), min(taken), match


def _drop_overlaps(matches: Iterable[Positions]) -> list[Positions]:
    chosen: list[Positions] = []
    free_after = -1
    for match in matches:
        last, first, _ = _order(match)
        if first > free_after:
            chosen.append(match)
            free_after = last
    return chosen


def _limit(matches: Iterable[Positions], limit: int) -> list[Positions]:
    chosen: list[Positions] = []
    count: dict[int, int] = {}
    for match in matches:
        last, _, _ = _order(match)
        count[last] = count.get(last, 0) + 1
        if count[last] <= limit:
            chosen.append(match)
    return chosen


def partitions_of(events: EventBatch, bound: Bound) -> list[Rows]:
    """Return the rows of each partition, in stream order (S8)."""
    columns = [events.column(path).to_pylist() for path in bound.partition]
    required = [path in bound.not_null for path in bound.partition]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in range(len(events)):
        key = tuple(_key(column[row]) for column in columns)
        if not any(value is None and needed for value, needed in zip(key, required, strict=True)):
            groups.setdefault(key, []).append(row)
    return [np.array(rows, dtype=np.int64) for rows in groups.values()]


def _key(value: Any) -> Any:
    """Return a value as a dictionary key with the equality of GROUP BY: NaN equals NaN."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _in_rows(match: Positions, rows: Rows) -> Positions:
    return tuple(tuple(int(rows[position]) for position in positions) for positions in match)


def _pick(values: Sequence[Any], rows: Rows) -> list[Any]:
    return [values[row] for row in rows]
