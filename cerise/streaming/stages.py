"""The queries of a chain of FROM, one after another: how far each reaches, and the search that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from cerise.engines.choose import why_late
from cerise.engines.row_streams.row_stream import RowStream
from cerise.events import EventBatch, Ints, RowBatch, read_times
from cerise.kinds import INT64_MIN
from cerise.pattern.query import Output, Unit
from cerise.plan.needs import Clock
from cerise.run.question import Work
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase, SaseSearch
from cerise.streaming.held_events import HeldEvents
from cerise.streaming.share import Share

StreamQuestion = Sase | RowClause
SPARE = 4096  # events that a query FROM another keeps longer than it must


def stages_of(question: StreamQuestion) -> list[StreamQuestion]:
    """Return the query and the queries that it reads FROM, innermost first."""
    stages: list[StreamQuestion] = []
    while isinstance(question, Sase) and question.inner is not None:
        stages.insert(0, question.outer)
        question = question.inner
    return [question, *stages]


def waits(question: StreamQuestion) -> bool:
    """Whether a later event can veto a complete match, so that the match waits for the watermark."""
    if not isinstance(question, Sase):
        return False
    absences = [each.absence for branch in question.bound.branches for each in branch.negations]
    return any(each.anywhere or not each.before for each in absences)


def is_late(question: StreamQuestion) -> bool:
    """Whether only the reference can run a query, so that its matches are given late by one window."""
    return isinstance(question, Sase) and why_late(question.bound) is not None


def window_of(question: StreamQuestion) -> int | None:
    """Return the window in the units of the time column; None: it counts events, or is absent."""
    if isinstance(question, RowClause):
        within = question.bound.within
        return None if within is None else within.size
    window = question.bound.within
    if window is None or window.unit is Unit.EVENTS:
        return None
    return int(str(window.size))


def reach_of(question: StreamQuestion) -> int | None:
    """Return how far behind the watermark events matter for later matches; None: any event may."""
    total = 0
    for stage in stages_of(question):
        window = window_of(stage)
        if window is None:
            return None
        total += window * (1 + waits(stage) + is_late(stage) + _looks_back(stage))
    return total


def _looks_back(question: StreamQuestion) -> bool:
    """Whether an event before a match, or in it, can veto the match."""
    return isinstance(question, Sase) and any(branch.negations for branch in question.bound.branches)


def keeps_twice(question: StreamQuestion) -> bool:
    """Whether a query needs the events of two windows before the watermark, instead of one."""
    return _looks_back(question) or is_late(question)


def why_not_rebuilt(question: StreamQuestion) -> str | None:
    """Return why the events of a window do not suffice to rebuild the state of a query; None: they do.

    The state of a row pattern needs no events: it holds the rows themselves.
    """
    if isinstance(question, Sase) and reach_of(question) is None:
        return "a journal does not reach back far enough, because its window is not one of time"
    return None


def forgets(question: StreamQuestion) -> bool:
    """Whether the state of a query follows from the events within its reach alone, whatever came before."""
    if not isinstance(question, Sase) or len(stages_of(question)) > 1 or reach_of(question) is None:
        return False
    query = question.bound.query
    counts = query.totals is not None or query.limit is not None or query.slide is not None
    return not (counts or query.output is Output.NON_OVERLAPPING or is_late(question))


class Stage:
    """A query of the chain: its search, and the order and position of the events that it takes.

    A query FROM another also keeps the events of its last windows: no journal has them.
    """

    def __init__(self, question: StreamQuestion, work: Work, on_skip: str, *, keeps: bool = False) -> None:
        self.question, self._work = question, work
        self.search: SaseSearch | RowStream
        if isinstance(question, RowClause):  # the plan was checked: a clause without WITHIN was asked for
            self.search = question.start_stream(work, on_skip=on_skip, unbounded=True)
        else:
            self.search = question.start_stream(work)
        self.position = 0
        self.lag = self._find_lag()
        self._reach = reach_of(question)
        self._past: HeldEvents | None = None
        if keeps and isinstance(question, Sase) and self._reach is not None:
            self._past = HeldEvents(question.bound.schema)
        self._pruned = 0

    def _find_lag(self) -> int | None:
        """Return how far behind the watermark the last event of a later match may lie."""
        return window_of(self.question) if waits(self.question) or is_late(self.question) else 0

    def run(self, events: pa.Table | None, time: int) -> Iterator[pa.Table]:
        """Take released events, then the watermark."""
        if events is not None and len(events):
            self._remember(events, time)
            yield from self.feed(events)
        yield from map(self._finish, self.search.advance(time))

    def end(self) -> Iterator[pa.Table]:
        """End the stream."""
        yield from map(self._finish, self.search.flush())

    def _finish(self, table: pa.Table) -> pa.Table:
        """Return matches as they are, and final totals as rows of the answer."""
        question = self.question
        if isinstance(question, Sase) and question.bound.query.totals is not None:
            return question.finish([table])
        return table

    def times(self, table: pa.Table) -> Ints:
        needs = self.question.needs
        if needs.roles is not None:
            return read_times(table, needs.roles)
        assert isinstance(self.question, RowClause)
        return Clock(self.question.bound.order[0].column).times(table)

    def feed(self, table: pa.Table) -> Iterator[pa.Table]:
        needs = self.question.needs
        some = table.select(needs.columns.names)
        if isinstance(self.search, RowStream):
            yield from self.search.feed(RowBatch(some))
            return
        yield from self.search.feed(self._in_order(some))

    def _in_order(self, table: pa.Table) -> EventBatch:
        needs = self.question.needs
        assert needs.roles is not None
        batch = EventBatch.of(table, needs.roles, reads=needs.ties, start=self.position)
        self.position += len(batch)
        return batch

    # ---- steps that are repeated: their matches were given before

    def skip(self, events: int) -> None:
        """Pass over events too old to matter: a search without runs goes on after them (`forgets`)."""
        assert isinstance(self.question, Sase)
        self.search = self.question.start_stream(self._work)
        self.position += events

    def pass_over(self, table: pa.Table, time: int) -> None:
        """Take events and the watermark without matches."""
        assert isinstance(self.search, SaseSearch)
        self.search.pass_over(self._in_order(table.select(self.question.needs.columns.names)), time)

    # ---- saved state

    def _remember(self, events: pa.Table, time: int) -> None:
        if self._past is not None:
            self._past.add(events)
            if len(self._past) > 2 * self._pruned + SPARE:
                self._prune(time)

    def _prune(self, time: int) -> None:
        """Forget events that no match after a time can need."""
        if self._past is not None and self._reach is not None:
            self._past.release(max(time - self._reach, INT64_MIN))
            self._pruned = len(self._past)

    def save_past(self, time: int) -> bytes:
        """Return the events that this query may need to be rebuilt, if it reads FROM another."""
        self._prune(time)
        return b"" if self._past is None else self._past.save()

    def load_past(self, state: bytes) -> None:
        if self._past is not None:
            self._past.load(state)
            self._pruned = len(self._past)

    @property
    def past(self) -> pa.Table:
        """The kept events of a query FROM another, in the order of time."""
        assert self._past is not None
        copy = HeldEvents(self.question.bound.schema)  # type: ignore[union-attr]
        copy.load(self._past.save())
        found = copy.release_all()
        return self.question.needs.columns.empty_table() if found is None else found

    def rebuild(self, states: Sequence[bytes], events: pa.Table, time: int) -> None:
        """Go on where a saved state stopped, whatever engine has written it; see `SaseSearch.rebuild`."""
        self.divide(states, events, time, None)

    def divide(self, states: Sequence[bytes], events: pa.Table, time: int, share: Share | None) -> None:
        """Go on with a share of the partitions of saved states.

        Args:
            states: the states of the searches of all buckets.
            events: the events of the share before `time` that later matches may need.
            time: the watermark of the states.
            share: the partitions that this bucket has; None: all.
        """
        if isinstance(self.search, RowStream):
            self.search.unite(
                states, None if share is None else share.of_rows, counts=share is None or share.is_first
            )
            return
        assert isinstance(self.question, Sase)
        needs, bound = self.question.needs, self.question.bound
        assert needs.roles is not None
        batch = EventBatch.of(events.select(needs.columns.names), needs.roles, reads=needs.ties)
        owns = None if share is None else share.of_keys(bound.partition, bound.schema)
        self.search.rebuild(states, batch, time, owns)
