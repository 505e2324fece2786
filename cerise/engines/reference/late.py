"""The reference on a stream: right, and late by one window.

Let w be the window. No event that is still to come can begin, continue or veto a match whose first event is
before `time − w`, if no event before `time` will come: the match ends at most w after its first event, and so
does the reach of its NOT (S5.1, S6.2, S6.3). So each step runs the reference for the starts that have become
certain, over the events of their windows and of one window before them, where a NOT may look back.

OUTPUT NON_OVERLAPPING and LIMIT choose among matches by their last events. A match waits until its last
event is before `time − w`: then every match that completes no later is known. A match that is chosen ends
before all starts of later steps, so that no step needs to know which matches were chosen before.

Cost: each start is searched once, over the events of its partition in its window. Memory: the events of two
windows; and of the matches that wait, one for each start, or n for each last event with LIMIT n.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import AFRESH, EngineReport, Matches, Options, refuse_disorder, refuse_state
from cerise.engines.census import EMPTY, Census, Load, weigh
from cerise.engines.meaning import meaning_of
from cerise.engines.reference.choice import Positions, choose_so_far
from cerise.engines.reference.finder import MatchFinder, Rows, in_rows, partitions_of, pick, to_matches
from cerise.engines.reference.predicates import ConjunctTest
from cerise.engines.reference.stream import Stream
from cerise.engines.totals.groups import number_rows, partition_keys
from cerise.errors import DataError
from cerise.events import EventBatch
from cerise.kinds import INT64_MIN
from cerise.pattern.bound import Bound
from cerise.pattern.query import Unit
from cerise.pattern.values import Fault

STATE = b"cerise.late.1\n"
OPENS, POSITION = "__cerise_saved_opens", "__cerise_saved_position"  # columns of saved events
OWN_WORDS = 3  # that are kept beside each event: its time, position, and whether it opens a match
MANY = 64  # chunks of the kept events before they become one


def why_no_window(bound: Bound) -> str | None:
    """Say why a query has no moment at which its matches are certain; None: its window is one of time."""
    if bound.within is None:
        return "it has no WITHIN"
    return "its window counts events" if bound.within.unit is Unit.EVENTS else None


class LateMatcher:
    """Runs the reference over a stream; every match is given when the time has passed its start by a window.

    Args:
        bound: a query with a window of time.
        options: how to run.
    """

    def __init__(self, bound: Bound, options: Options) -> None:
        assert why_no_window(bound) is None, "the stream has refused it"
        assert bound.within is not None
        self.bound, self.options = bound, options
        self.report = EngineReport()
        self._finder = MatchFinder(bound, options, self.report)
        self._window = int(str(bound.within.size))
        self._events: EventBatch | None = None
        self._opens = np.zeros(0, np.bool_)  # whether a match may start with each event
        self._vetoes = [
            (
                each.absence.var.name,
                [ConjunctTest.of(c, bound.kleene, _ignore) for c in each.tests if c.filters],
            )
            for branch in bound.branches
            for each in branch.negations
        ]
        self._waiting: list[Positions] = []  # matches that are certain, and not chosen yet
        self._time: int | None = None  # no event before it will come
        self._border = INT64_MIN  # matches that start before it are certain

    @property
    def alive(self) -> dict[str, int]:
        return {"events": 0 if self._events is None else len(self._events), "matches": len(self._waiting)}

    def feed(self, events: EventBatch) -> Iterator[Matches]:
        """Keep the events; their matches come with `advance` and `flush`."""
        if len(events):
            refuse_disorder(self._time, events)
            self._time = int(events.times[-1])
            self._keep(events)
            self.report.events += len(events)
        return iter(())

    def _keep(self, events: EventBatch) -> None:
        before = self._events
        opens = np.ones(len(events), np.bool_) if events.opens is None else events.opens
        self._opens = np.concatenate([self._opens, opens])
        if before is None:
            self._events = events
            return
        table = pa.concat_tables([before.table, events.table])
        if table.column(0).num_chunks > MANY:
            table = table.combine_chunks()
        self._events = EventBatch(
            events.schema, table, np.concatenate([before.times, events.times]),
            np.concatenate([before.positions, events.positions]),
        )  # fmt: skip

    def advance(self, time: int) -> Iterator[Matches]:
        """No event before `time` will come; yield the matches that this makes certain."""
        self._time = time if self._time is None else max(time, self._time)
        border = max(self._time - self._window, INT64_MIN)
        if border > self._border:
            yield from self._decide(border)
            self._border = border
            self._forget_before(max(border - self._window, INT64_MIN))

    def flush(self) -> Iterator[Matches]:
        """Yield all matches that were not yielded before, and drop the events."""
        yield from self._decide(None)
        self._events, self._waiting, self._time, self._border = None, [], None, INT64_MIN
        self._opens = self._opens[:0]

    def _decide(self, border: int | None) -> Iterator[Matches]:
        """Yield the matches of the starts before a border, and of the starts that wait; None: of all."""
        events = self._events
        if events is None:
            return
        opens = (events.times >= self._border) & self._opens
        if border is not None:
            opens &= events.times < border
        if not self._waiting and not opens.any():
            return
        partitions = number_rows(partition_keys(events, np.arange(len(events)), self.bound), len(events))[0]
        found = [*self._waiting, *self._find(events, opens, partitions)]
        settled = len(events) if border is None else int(np.searchsorted(events.times, border))
        chosen = choose_so_far(found, self.bound, partitions.tolist(), settled)
        self._waiting = chosen.waiting
        self.report.matches += len(chosen.given)
        if chosen.given:
            yield to_matches(chosen.given, events, self.bound)

    def _find(
        self, events: EventBatch, opens: npt.NDArray[np.bool_], partitions: Rows
    ) -> Iterator[Positions]:
        """Yield the matches that start with some events, by the rows of their events."""
        near = np.flatnonzero(np.isin(partitions, partitions[opens]))
        some = events.take(near)
        columns = some.columns(self.bound.reads)
        for rows in partitions_of(some, self.bound):
            picked = {path: pick(values, rows) for path, values in columns.items()}
            opened: list[bool] = opens[near[rows]].tolist()
            stream = Stream(picked, some.times[rows].tolist(), opened)
            yield from (in_rows(match, near[rows]) for match in self._finder.find(stream, None))

    def _forget_before(self, time: int) -> None:
        """Drop the events before a time, which no later match needs."""
        events = self._events
        if events is None or events.times[0] >= time:
            return
        cut = int(np.searchsorted(events.times, time))
        self._events = None if cut == len(events) else events.slice(cut, len(events))
        self._opens = self._opens[cut:]
        self._waiting = [tuple(tuple(row - cut for row in rows) for rows in match) for match in self._waiting]

    # ---- limits

    def measure(self, *, by_partition: bool) -> Load:  # noqa: ARG002
        """Return upper bounds of the events and bytes."""
        events = 0 if self._events is None else len(self._events)
        nbytes = 0 if self._events is None else self._events.table.nbytes + 8 * OWN_WORDS * events
        return Load(events, events, nbytes)

    def census(self) -> Census:
        """Count the events, except those that may veto a match, or that a match binds which waits."""
        events = self._events
        if events is None:
            return EMPTY
        stays = self._find_vetoes(events)
        stays[[row for match in self._waiting for rows in match for row in rows]] = True
        rows = np.flatnonzero(~stays)
        columns = partition_keys(events, np.arange(len(events)), self.bound)
        parts, firsts = number_rows(columns, len(events))
        values = [column.take(pa.array(firsts)).to_pylist() for column in columns]
        keys = list(zip(*values, strict=True)) if values else [()]
        nbytes = weigh(events.table) + 8 * OWN_WORDS * len(events)
        return Census(
            "events", events.times[rows], events.positions[rows], parts[rows], keys, rows, nbytes
        )  # fmt: skip

    def _find_vetoes(self, events: EventBatch) -> npt.NDArray[np.bool_]:
        """Return which events may veto a match, by the tests of one event alone."""
        found = np.zeros(len(events), np.bool_)
        columns = events.columns(self.bound.reads) if self._vetoes else {}
        for name, tests in self._vetoes:
            for row in np.flatnonzero(~found).tolist():
                found[row] = all(test.holds(columns, {name: (row,)}) for test in tests)
        return found

    def evict(self, places: Rows) -> None:
        """Drop events of the last census; no match may start with an older event of their partitions."""
        events = self._events
        assert events is not None
        parts, _ = number_rows(partition_keys(events, np.arange(len(events)), self.bound), len(events))
        newest = np.full(len(events), -1, np.int64)
        np.maximum.at(newest, parts[places], places)
        self._opens &= np.arange(len(events)) > newest[parts]
        left = np.setdiff1d(np.arange(len(events)), places)
        moved = np.searchsorted(left, np.arange(len(events)))
        self._waiting = [
            tuple(tuple(int(moved[row]) for row in rows) for rows in match) for match in self._waiting
        ]
        self._events, self._opens = events.take(left) if len(left) else None, self._opens[left]

    def save(self) -> bytes:
        """Return the events and the matches that wait, after a hash of the query."""
        facts = {"time": self._time, "border": self._border, "waiting": self._waiting}
        told = json.dumps(facts).encode()
        head = STATE + meaning_of(self.bound) + len(told).to_bytes(8, "little") + told
        if self._events is None:
            return head
        table = self._events.table.combine_chunks()
        table = table.append_column(OPENS, pa.array(self._opens))
        table = table.append_column(POSITION, pa.array(self._events.positions))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return head + bytes(sink.getvalue())

    def load(self, state: bytes) -> None:
        """Continue from a saved state of the same query."""
        if not state.startswith(STATE):
            raise refuse_state(state)
        head = STATE + meaning_of(self.bound)
        if not state.startswith(head):
            raise DataError("the saved state is of another query, or damaged", hint=AFRESH)
        size, rest = int.from_bytes(state[len(head) : len(head) + 8], "little"), state[len(head) + 8 :]
        told = json.loads(rest[:size])
        self._time, self._border = told["time"], told["border"]
        self._waiting = [tuple(map(tuple, match)) for match in told["waiting"]]
        self._events, self._opens = None, self._opens[:0]
        if rest[size:]:
            table = pa.ipc.open_stream(rest[size:]).read_all()
            positions = np.asarray(table.column(POSITION).combine_chunks(), dtype=np.int64)
            self._opens = table.column(OPENS).to_numpy()
            events = EventBatch.in_order(table.drop_columns([OPENS, POSITION]), self.bound.schema)
            self._events = replace(events, positions=positions)


def _ignore(_fault: Fault) -> None:
    """Count no fault: the search counts those of the same tests."""
