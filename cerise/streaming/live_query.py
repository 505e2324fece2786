"""One query running on a stream, with the queries that it reads FROM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.census import EvictableSearch
from cerise.engines.choose import explain_refusal, name_steady, why_late
from cerise.engines.row_streams.row_stream import why_no_stream
from cerise.errors import UnsupportedError
from cerise.events import EventBatch, Ints, RowBatch, read_times
from cerise.kinds import INT64_MIN
from cerise.pattern.query import Output, Unit
from cerise.pattern.values import Fault
from cerise.plan.needs import Clock
from cerise.run.question import StreamSearch, Work
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.streaming.container import digest, pack, pack_json, unpack, unpack_json
from cerise.streaming.held_events import HeldEvents

StreamQuestion = Sase | RowClause


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """A bound query with the name that its state is kept under.

    Attributes:
        name: the name that users gave, or the number of the query from 1.
        question: the query.
        meaning: identifies the text, parameters and columns of the query; saved state names it.
    """

    name: str
    question: StreamQuestion
    meaning: str


def hash_text(parts: object) -> str:
    """Return a hash of everything that the answer of a query depends on."""
    return digest(repr(parts).encode()).hex()


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
        total += 2 * window if keeps_twice(stage) else window
    return total


def keeps_twice(question: StreamQuestion) -> bool:
    """Whether a query needs the events of two windows before the watermark, instead of one."""
    looks_back = isinstance(question, Sase) and any(branch.negations for branch in question.bound.branches)
    return looks_back or is_late(question)


def why_not_rebuilt(question: StreamQuestion) -> str | None:
    """Return why the events of a window do not suffice to rebuild the state of a query; None: they do."""
    if reach_of(question) is None:
        return "a journal does not reach back far enough, because its window is not one of time"
    for stage in stages_of(question):
        if isinstance(stage, RowClause) or stage.bound.query.output is Output.NON_OVERLAPPING:
            return "its matches depend on all matches before"
    return None


def check_query(name: str, question: StreamQuestion, options: Options, *, unbounded: bool) -> None:
    """Refuse a query that cannot run on a stream.

    Raises:
        UnsupportedError: with the reason, and what to write instead.
    """
    for stage in stages_of(question):
        if isinstance(stage, RowClause):
            problem = why_no_stream(stage.bound, unbounded=unbounded, host=stage.host)
        else:
            problem = explain_refusal(stage.bound, options, unbounded=unbounded)
        if problem is not None:
            reason, hint = problem
            raise UnsupportedError(f"query {name} cannot run on a stream: {reason}", hint=hint)


class _Stage:
    """A query of the chain: its search, and the order and position of the events that it takes."""

    def __init__(self, question: StreamQuestion, work: Work, on_skip: str) -> None:
        self.question = question
        self.search: StreamSearch
        if isinstance(question, RowClause):  # the plan was checked: a clause without WITHIN was asked for
            self.search = question.start_stream(work, on_skip=on_skip, unbounded=True)
        else:
            self.search = question.start_stream(work)
        self.position = 0
        self.lag = self._find_lag()

    def _find_lag(self) -> int | None:
        """Return how far behind the watermark the last event of a later match may lie."""
        return window_of(self.question) if waits(self.question) or is_late(self.question) else 0

    def run(self, events: pa.Table | None, time: int) -> Iterator[pa.Table]:
        """Take released events, then the watermark."""
        if events is not None and len(events):
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
        if needs.roles is None:
            yield from self.search.feed(RowBatch(some))
            return
        batch = EventBatch.of(some, needs.roles, reads=needs.ties, start=self.position)
        self.position += len(batch)
        yield from self.search.feed(batch)


@dataclass(frozen=True, slots=True)
class QueryManner:
    """How a query runs on a stream.

    Attributes:
        counts_ties: whether to count events whose order only a hash decides.
        on_skip: the effect of AFTER MATCH SKIP without a target (M40): "error", or "past_last_row".
        on_error: the effect of a value that cannot be computed: "error", or "null".
        evicts: whether its oldest runs may go.
    """

    counts_ties: bool = False
    on_skip: str = "error"
    on_error: str = "error"
    evicts: bool = False


ORDINARY = QueryManner()


def _settle_engine(question: StreamQuestion, work: Work) -> Work:
    """Return the work with the engine whose runs can be evicted alike in every process."""
    if isinstance(question, RowClause):
        return work
    return replace(work, options=replace(work.options, engine=name_steady(question.bound, work.options)))


class LiveQuery:
    """The state of one query: a search for each query of its chain, and the matches held between them."""

    def __init__(
        self,
        query: StreamQuery,
        options: Options,
        manner: QueryManner = ORDINARY,
        *,
        since: int = INT64_MIN,
    ) -> None:
        self.query, self.since = query, since
        self.until: int | None = None  # a query that was removed takes events before this time
        self.note: dict[str, float] = {}
        self.nulls = 0  # values of RETURN and MEASURES that could not be computed
        forgive = self._forgive if manner.on_error == "null" else None
        work = Work(options, self.note, counts_ties=manner.counts_ties, streams=True, forgive=forgive)
        chain = stages_of(query.question)
        self._stages = [
            _Stage(each, _settle_engine(each, work) if manner.evicts else work, manner.on_skip)
            for each in chain
        ]
        self._held = [HeldEvents(each.bound.schema) for each in chain[1:] if isinstance(each, Sase)]
        self._first = self._stages[0]
        if any(each.lag is None for each in self._stages[:-1]):
            raise UnsupportedError(
                f"query {query.name}: its inner query waits for a NOT in a window that counts events",
                hint="give the inner query a window of time: WITHIN 10 minutes",
            )
        self.matches = 0

    def _forgive(self, _fault: Fault) -> None:
        self.nulls += 1

    def feed(self, events: pa.Table, time: int) -> Iterator[pa.Table]:
        """Take the events that the watermark has released, then the watermark; yield the final matches.

        Args:
            events: the events in the order of time, and of arrival where times are equal.
            time: the watermark; no later event is before it.
        """
        yield from self._count(
            self._run(0, self._clip(events), time if self.until is None else min(time, self.until))
        )

    def _clip(self, events: pa.Table) -> pa.Table:
        """Leave out events before the query was added, or after it was removed."""
        if self._all or not len(events):
            return events
        times = self._first.times(events)
        inside = times >= self.since
        if self.until is not None:
            inside &= times < self.until
        return events if inside.all() else events.filter(pa.array(inside))

    @property
    def _all(self) -> bool:
        return self.since == INT64_MIN and self.until is None

    def flush(self) -> Iterator[pa.Table]:
        """Yield the matches that become final at the end of the stream."""
        yield from self._count(self._end(0))

    def _run(self, number: int, events: pa.Table | None, time: int) -> Iterator[pa.Table]:
        """Feed a stage, then move it to the watermark; matches of an inner query become events."""
        stage = self._stages[number]
        found = stage.run(events, time)
        if number + 1 == len(self._stages):
            yield from found
            return
        held = self._held[number]
        for table in found:
            held.add(table)
        assert stage.lag is not None
        later = max(time - stage.lag, INT64_MIN)
        yield from self._run(number + 1, held.release(later), later)

    def _end(self, number: int) -> Iterator[pa.Table]:
        stage = self._stages[number]
        if number + 1 == len(self._stages):
            yield from stage.end()
            return
        held = self._held[number]
        for table in stage.end():
            held.add(table)
        if (rest := held.release_all()) is not None:
            outer = self._stages[number + 1]
            last = number + 2 == len(self._stages)
            for table in outer.feed(rest):
                if last:
                    yield table
                else:
                    self._held[number + 1].add(table)
        yield from self._end(number + 1)

    def _count(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            if len(table):
                self.matches += len(table)
                yield table

    @property
    def alive(self) -> dict[str, int]:
        """The runs, events or rows that the searches keep, by these names."""
        total: Counter[str] = Counter()
        for stage in self._stages:
            total.update(stage.search.alive)
        return dict(total)

    @property
    def searches(self) -> list[EvictableSearch]:
        """The searches, innermost first, whose oldest runs can go."""
        return [each.search for each in self._stages]

    @property
    def held_bytes(self) -> int:
        """The bytes of the matches held between searches, at most."""
        return sum(each.nbytes for each in self._held)

    @property
    def held_weight(self) -> int:
        """The bytes of the matches held between searches, however they are cut into tables."""
        return sum(each.weight for each in self._held)

    def evict(self, stage: int, places: Ints) -> Iterator[pa.Table]:
        """Drop the oldest runs, events or rows of a search; yield the matches that this makes final."""
        yield from self._count(self._stages[stage].search.evict(places))

    def save(self) -> bytes:
        """Return the state of all searches."""
        plain = {
            "since": self.since, "until": self.until, "matches": self.matches, "nulls": self.nulls,
            "positions": [each.position for each in self._stages],
        }  # fmt: skip
        parts = {f"search {i}": each.search.save() for i, each in enumerate(self._stages)}
        held = {f"held {i}": each.save() for i, each in enumerate(self._held)}
        return pack({"plain": pack_json(plain), **parts, **held})

    def load(self, state: bytes) -> None:
        """Continue from a saved state of the same query."""
        parts = unpack(state, f"the state of query {self.query.name}")
        plain = unpack_json(parts["plain"])
        self.since, self.until, self.matches = plain["since"], plain["until"], plain["matches"]
        self.nulls = plain["nulls"]
        for i, stage in enumerate(self._stages):
            stage.position = plain["positions"][i]
            stage.search.load(parts[f"search {i}"])
        for i, held in enumerate(self._held):
            held.load(parts[f"held {i}"])
