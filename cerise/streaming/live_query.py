"""One query running on a stream, with the queries that it reads FROM."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.census import EvictableSearch
from cerise.engines.choose import explain_refusal, name_steady
from cerise.engines.row_streams.row_stream import why_no_stream
from cerise.errors import StateLayoutError, StoreError, UnsupportedError
from cerise.events import Ints
from cerise.kinds import INT64_MIN
from cerise.pattern.values import Fault
from cerise.run.question import Work
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.streaming.container import digest, pack, pack_json, unpack, unpack_json
from cerise.streaming.held_events import HeldEvents
from cerise.streaming.share import Share
from cerise.streaming.stages import Stage, StreamQuestion, stages_of, why_not_rebuilt

log = logging.getLogger(__name__)
Recall = Callable[[], pa.Table]  # returns the events before the watermark that are kept, in the order of time


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
            Stage(each, _settle_engine(each, work) if manner.evicts else work, manner.on_skip, keeps=i > 0)
            for i, each in enumerate(chain)
        ]
        self._held = [HeldEvents(each.bound.schema) for each in chain[1:] if isinstance(each, Sase)]
        self._first = self._stages[0]
        if any(each.lag is None for each in self._stages[:-1]):
            raise UnsupportedError(
                f"query {query.name}: its inner query waits for a NOT in a window that counts events",
                hint="give the inner query a window of time: WITHIN 10 minutes",
            )
        self.matches = 0
        self._time = INT64_MIN  # the watermark

    def _forgive(self, _fault: Fault) -> None:
        self.nulls += 1

    def feed(self, events: pa.Table, time: int) -> Iterator[pa.Table]:
        """Take the events that the watermark has released, then the watermark; yield the final matches.

        Args:
            events: the events in the order of time, and of arrival where times are equal.
            time: the watermark; no later event is before it.
        """
        self._time = time if self.until is None else min(time, self.until)
        yield from self._count(self._run(0, self._clip(events), self._time))

    def skip(self, events: pa.Table) -> None:
        """Pass over events too old to matter, of a query that forgets (`stages.forgets`)."""
        self._first.skip(len(self._clip(events)))

    def pass_over(self, events: pa.Table, time: int) -> None:
        """Take events and the watermark as `feed` does; their matches were given before."""
        self._time = time if self.until is None else min(time, self.until)
        self._first.pass_over(self._clip(events), self._time)

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

    def _times(self, time: int) -> list[int]:
        """Return the watermark of each query of the chain, given that of the stream."""
        times = [time if self.until is None else min(time, self.until)]
        for stage in self._stages[:-1]:
            assert stage.lag is not None
            times.append(max(times[-1] - stage.lag, INT64_MIN))
        return times

    def save(self) -> bytes:
        """Return the state of all searches."""
        plain = {
            "since": self.since, "until": self.until, "matches": self.matches, "nulls": self.nulls,
            "positions": [each.position for each in self._stages],
        }  # fmt: skip
        parts = {f"search {i}": each.search.save() for i, each in enumerate(self._stages)}
        held = {f"held {i}": each.save() for i, each in enumerate(self._held)}
        times = self._times(self._time)
        past = {f"past {i}": self._stages[i].save_past(times[i]) for i in range(1, len(times))}
        return pack({"plain": pack_json(plain), **parts, **held, **past})

    def load(self, state: bytes, time: int = INT64_MIN, recall: Recall | None = None) -> None:
        """Continue from a saved state of the same query.

        A search whose state another engine or another release has written is rebuilt from kept events.

        Args:
            state: the bytes that `save` returned.
            time: the watermark of the state.
            recall: returns the kept events before it; None: there are none.

        Raises:
            StoreError: the state is of another engine or release, and kept events do not suffice.
        """
        parts = self._load_plain([state])[0]
        self._time = self._times(time)[0]
        for i, held in enumerate(self._held):
            held.load(parts[f"held {i}"])
        for i, (stage, reached) in enumerate(zip(self._stages, self._times(time), strict=True)):
            if i:
                stage.load_past(parts[f"past {i}"])
            part = parts[f"search {i}"]
            try:
                stage.search.load(part)
            except StateLayoutError as error:
                self._check_rebuilt(error, recall)
                assert recall is not None
                log.warning("query %s is rebuilt from the journal: %s", self.query.name, error.problem)
                stage.rebuild([part], stage.past if i else self._clip(recall()), reached)

    def _load_plain(self, states: Sequence[bytes]) -> list[dict[str, bytes]]:
        """Take the plain values of saved states of one query; return their parts."""
        found = [unpack(each, f"the state of query {self.query.name}") for each in states]
        values = [unpack_json(each["plain"]) for each in found]
        self.since, self.until = values[0]["since"], values[0]["until"]
        self.matches, self.nulls = (sum(each[name] for each in values) for name in ("matches", "nulls"))
        for stage, position in zip(self._stages, values[0]["positions"], strict=True):
            stage.position = position
        return found

    def _check_rebuilt(self, error: StateLayoutError, recall: Recall | None) -> None:
        """Refuse to rebuild a query that the kept events do not suffice for."""
        reason = why_not_rebuilt(self.query.question)
        if recall is None:
            reason = "the journal is not at hand"
        if reason is not None:
            name = self.query.name
            raise StoreError(
                f"the state of query {name} cannot be used: {error.problem}; and {reason}",
                hint="run the engine and the version of Cerise that wrote it, or drop the state: "
                f"replace=['{name}'], or a new checkpoint",
            ) from error

    def divide(self, states: Sequence[bytes], time: int, recall: Recall, share: Share) -> None:
        """Go on with a share of the partitions of the states of several buckets.

        Args:
            states: the states of the query in all buckets.
            time: the watermark of the states.
            recall: returns the kept events of the share before it.
            share: the partitions that this bucket has.

        Raises:
            StoreError: the kept events do not suffice.
        """
        name = self.query.name
        if (reason := why_not_rebuilt(self.query.question)) is not None:
            raise StoreError(
                f"the state of query {name} cannot be divided into other buckets: {reason}",
                hint=f"say buckets={len(states)} as before, drop its state: replace=['{name}'], "
                "or start with a new checkpoint, and with the events so far as history=",
            )
        parts = self._load_plain(states)
        self._time = self._times(time)[0]
        (stage,) = self._stages  # a query FROM another has no key, and one bucket
        stage.divide([each["search 0"] for each in parts], self._clip(recall()), self._time, share)
        if not share.is_first:
            self.matches = self.nulls = 0
