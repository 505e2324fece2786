"""The reference as an engine: partitions, branches, and the choice of matches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import AFRESH, EngineReport, Matches, Options, refuse_disorder, refuse_state
from cerise.engines.meaning import meaning_of
from cerise.engines.reference.choice import Positions, choose_matches, order_of
from cerise.engines.reference.finder import MatchFinder, in_rows, partitions_of, pick, to_matches
from cerise.engines.reference.stream import Stream
from cerise.errors import DataError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound

Rows = npt.NDArray[np.int64]
STATE = b"cerise.reference.3\n"
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
    """Keeps every event and answers afresh each time: an oracle, not a way to run endless streams."""

    def __init__(self, bound: Bound, options: Options) -> None:
        self.bound = bound
        self.options = options
        self.report = EngineReport()
        self._tables: list[pa.Table] = []
        self._opens: list[npt.NDArray[np.bool_]] = []
        self._positions: list[Rows] = []
        self._last_time: int | None = None
        self._faults = 0  # in the streams before this one
        self._given: set[Positions] = set()  # matches that were yielded, by the rows of their events
        self._finder = MatchFinder(bound, options, self.report)

    @property
    def alive(self) -> dict[str, int]:
        return {"events": sum(map(len, self._tables))}

    def feed(self, events: EventBatch) -> Iterator[Matches]:
        """Keep the events; their matches come with `advance` and `flush`."""
        self._keep(events)
        return iter(())

    def _keep(self, events: EventBatch) -> None:
        if len(events):
            refuse_disorder(self._last_time, events)
            self._last_time = int(events.times[-1])
            self._tables.append(events.table)
            self._opens.append(np.ones(len(events), bool) if events.opens is None else events.opens)
            self._positions.append(events.positions)
            self.report.events += len(events)

    def advance(self, time: int) -> Iterator[Matches]:
        """No event before `time` will come; yield the matches that are final and were not yielded before."""
        if self._last_time is None or time > self._last_time:
            self._last_time = time
        yield self._answer(self._last_time)

    def flush(self) -> Iterator[Matches]:
        """Yield all matches that were not yielded before, and drop the events."""
        found = self._answer(None)
        self._faults = self.report.uncomputable
        self._forget()
        yield found

    def _answer(self, now: int | None) -> Matches:
        """Return the matches that are final at a time, or at the end of the stream; mark them as given."""
        tables = self._tables or [self.bound.schema.columns.empty_table()]
        positions = np.concatenate([np.zeros(0, np.int64), *self._positions])
        events = replace(
            EventBatch.in_order(pa.concat_tables(tables), self.bound.schema), positions=positions
        )
        self.report.uncomputable = self._faults  # every answer reads all events again
        found = [each for each in self._choose(events, now) if each not in self._given]
        self._given.update(found)
        self.report.matches += len(found)
        return to_matches(found, events, self.bound)

    def _choose(self, events: EventBatch, now: int | None) -> Iterator[Positions]:
        opens = np.concatenate([np.zeros(0, bool), *self._opens])
        columns = events.columns(self.bound.reads)
        for rows in partitions_of(events, self.bound):
            picked = {path: pick(values, rows) for path, values in columns.items()}
            matches = self._finder.find(Stream(picked, events.times[rows].tolist()), now)
            opened = {each: final for each, final in matches.items() if opens[rows[order_of(each)[1]]]}
            yield from (in_rows(match, rows) for match in choose_matches(opened, self.bound))

    def save(self) -> bytes:
        """Return the matches given and the events, after a hash of the query."""
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
        told = json.dumps({"last": self._last_time, "given": sorted(self._given)}).encode()
        return (
            STATE + meaning_of(self.bound) + len(told).to_bytes(8, "little") + told + bytes(sink.getvalue())
        )

    def load(self, state: bytes) -> None:
        """Restore the events of a saved state of the same query."""
        if not state.startswith(STATE):
            raise refuse_state(state)
        head = STATE + meaning_of(self.bound)
        if not state.startswith(head):
            raise DataError("the saved state is of another query, or damaged", hint=AFRESH)
        size, rest = int.from_bytes(state[len(head) : len(head) + 8], "little"), state[len(head) + 8 :]
        told, table = json.loads(rest[:size]), pa.ipc.open_stream(rest[size:]).read_all()
        self._forget()
        events = EventBatch.in_order(table.drop_columns([OPENS, POSITION]), self.bound.schema)
        opens, positions = (table.column(name).to_numpy() for name in (OPENS, POSITION))
        self._keep(replace(events, opens=opens, positions=positions))
        self._last_time = told["last"]
        self._given = {tuple(map(tuple, match)) for match in told["given"]}

    def _forget(self) -> None:
        self._tables, self._opens, self._positions, self._last_time = [], [], [], None
        self._given = set()
