"""SASE+ queries as questions: an engine finds matches, and the search makes tables or totals of them."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa

from cerise.engines.base import Engine, Finding, Matcher, Matches, Options
from cerise.engines.census import Census, Evictable, Ints, Load
from cerise.engines.choose import ENGINES, choose, why_late
from cerise.engines.match_ids import count_ties
from cerise.engines.reference.late import LateMatcher
from cerise.engines.results.match_table import to_table
from cerise.engines.totals import Ledger, Positions, group_names, partial_schema
from cerise.engines.totals.chosen_ends import ChosenEnds, Owns
from cerise.events import EventBatch
from cerise.kinds import INT64_MIN
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output, Unit
from cerise.plan.needs import Needs
from cerise.plan.pushdown import needed, why_all
from cerise.plan.slicing import Halo, halo
from cerise.run.chain import ORDER as CANDIDATE_ORDER
from cerise.run.chain import FirstMatches, candidates_of, choose_candidates, without_chain
from cerise.run.question import Again, Work, add, concat
from cerise.run.report import TIES, UNCOMPUTABLE, refuse_ties, to_bytes

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sase:
    """A bound SASE+ query.

    Attributes:
        bound: the query.
    """

    bound: Bound
    _engines: dict[str | None, Engine] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def name(self) -> str | None:
        """The name after INTO."""
        return self.bound.query.into

    @cached_property
    def needs(self) -> Needs:
        """The columns and events that the query needs, and how its events can be divided."""
        bound = self.bound
        schema = bound.schema
        names = bound.needs
        roots = {path[0] for path in bound.reads} | {schema.time, *schema.order}
        if bound.query.totals is not None:
            roots |= set(names)  # totals read all columns while matching: matches are not kept
        return Needs(
            columns=pa.schema([schema.columns.field(name) for name in names]),
            reads=tuple(name for name in names if name in roots),
            late=tuple(name for name in names if name not in roots),
            roles=schema,
            ties=() if schema.arrival else bound.ties,
            partition=bound.partition,
            filter=needed([bound]),
            why_all=why_all([bound]),
            halo=halo([bound]),
            chain=_chain(bound),
            not_null=bound.not_null,
        )

    @property
    def result(self) -> pa.Schema:
        return self.bound.output_schema

    @property
    def partial(self) -> pa.Schema:
        return self.result if self.bound.query.totals is None else partial_schema(self.bound)

    @property
    def candidate_schema(self) -> tuple[pa.Schema, tuple[str, ...]]:
        return candidates_of(self.bound), CANDIDATE_ORDER

    @property
    def inner(self) -> Sase | None:
        """The query whose matches are the events of this one."""
        return None if self.bound.source is None else Sase(self.bound.source)

    @property
    def outer(self) -> Sase:
        return Sase(replace(self.bound, source=None))

    @cached_property
    def why_no_join(self) -> str | None:
        """Why the query cannot share a plan of joins; None: it can."""
        return ENGINES["tree"].why_not(self.bound)

    def prepare(self, options: Options) -> None:
        """Choose the engine."""
        self.engine(options)

    def engine(self, options: Options) -> Engine:
        """Return the engine that runs the query; it is chosen once."""
        name = options.engine
        if name not in self._engines:
            self._engines[name] = choose(self.bound, options)
        return self._engines[name]

    def start(self, work: Work) -> SaseSearch:
        return SaseSearch(self, work)

    def start_stream(self, work: Work) -> SaseSearch:
        """Return a search over a stream; late by a window if only the reference can run the query."""
        return SaseSearch(self, work)

    def start_candidates(self, work: Work) -> SaseCandidates:
        return SaseCandidates(self, work)

    def choose(self, candidates: Iterable[pa.RecordBatch], again: Again, work: Work) -> Iterator[pa.Table]:  # noqa: ARG002
        """Yield the matches, or partial totals, of candidates that do not overlap."""
        yield from choose_candidates(self.bound, candidates, work.note)

    def finish(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Concatenate all matches, or merge partial totals."""
        if self.bound.query.totals is None:
            return concat(parts, self.result)
        ledger = Ledger(self.bound)
        for each in parts:
            ledger.merge(each)
        return ledger.result()


def _chain(bound: Bound) -> Halo | None:
    """Return the halo of slices that give candidates, if matches may not overlap (S7.1)."""
    if bound.query.output is not Output.NON_OVERLAPPING or bound.partition:
        return None
    found = halo([without_chain(bound)])
    return found if isinstance(found, Halo) else None


class SaseSearch:
    """Runs a matcher, and makes tables or totals of its matches.

    Args:
        question: the query.
        work: the environment of the search.
        matcher: the matcher, if the query shares it with others; None: it has one of its own.
    """

    def __init__(self, question: Sase, work: Work, matcher: Any = None) -> None:
        self._question, self._bound, self._work = question, question.bound, work
        self._start(matcher)

    def _start(self, matcher: Any = None) -> None:
        bound, work = self._bound, self._work
        late = work.streams and work.options.engine is None and why_late(bound) is not None
        self._matcher: Matcher
        if matcher is not None:
            self._matcher = matcher
        elif late:
            self._matcher = LateMatcher(bound, work.options)
        else:
            self._matcher = self._question.engine(work.options).start(bound, work.options)
        totals = bound.query.totals is not None
        self._positions = Positions(bound) if totals and Positions.wanted(bound) else None
        self._ledger = Ledger(bound, work.options.limits, forgive=work.forgive) if totals else None
        alone = bound.query.output is Output.NON_OVERLAPPING and work.streams
        self._ends = ChosenEnds(bound) if alone else None
        self._now = INT64_MIN  # the time before which no event will come

    def feed(self, events: EventBatch) -> Iterator[pa.Table]:
        """Take the next events in stream order; yield matches, or partial totals, that become final."""
        self.count_ties(events)
        if self._positions is not None:
            events = self._positions(events)
        if self._ends is not None:
            events = self._ends.number(events)
        yield from self.make_tables(self._matcher.feed(events))

    def count_ties(self, events: EventBatch) -> None:
        """Note how many events have an order that only a hash decides, where that is asked for."""
        if self._work.counts_ties:
            ties = count_ties(events, self._bound.partition)
            self._work.note[TIES] = max(ties, self._work.note.get(TIES, 0))
            refuse_ties(ties, strict=self._work.options.strict)

    def pass_over(self, events: EventBatch, time: int) -> None:
        """Take events, then the watermark; their matches were given before, so that no column is computed."""
        self._now = max(self._now, time)
        deque(chain(self._matcher.feed(events), self._matcher.advance(time)), maxlen=0)

    def advance(self, time: int) -> Iterator[pa.Table]:
        """No event before `time` will come; yield the matches, or partial totals, that this makes final.

        Of a stream (`Work.streams`) each group of totals leaves once: `finish` makes its row.
        """
        self._now = max(self._now, time)
        yield from self.make_tables(self._matcher.advance(time))
        if self._ledger is not None and self._work.streams:
            final = self._ledger.leave(time, late=isinstance(self._matcher, LateMatcher))
            if len(final):
                yield final

    def flush(self) -> Iterator[pa.Table]:
        """Yield the matches, or partial totals, that become final at the end of the events."""
        yield from self.make_tables(self._matcher.flush())
        if self._ledger is not None:
            yield self._ledger.partial()
        log.info("%s", self._matcher.report)
        add(self._work.note, self._matcher.report.summarize())

    def make_tables(self, found: Iterable[Finding]) -> Iterator[pa.Table]:
        """Yield the matches of an engine as tables, or partial totals of them."""
        for each in found:
            if self._ends is not None:
                assert isinstance(each, Matches)  # an engine tallies only matches that may overlap
                self._ends.add(each)
            if self._ledger is None:
                assert isinstance(each, Matches)  # an engine tallies only for totals
                if each.count:
                    whole = Matches(self._work.complete(each.events), each.rows)
                    yield to_table(whole, self._bound, self._work.options.limits, self._work.forgive)
                continue
            self._ledger.add(each)
            early = self._ledger.leaves_early and not self._work.streams
            if early and len(self._ledger) >= self._work.options.limits.output_rows:
                yield self._ledger.partial()

    @property
    def alive(self) -> Mapping[str, int]:
        return self._matcher.alive

    def measure(self, *, by_partition: bool) -> Load:
        """Return upper bounds of what the matcher keeps."""
        return self._evictable.measure(by_partition=by_partition)

    def census(self) -> Census:
        """Drop expired runs, and count the others; or the events in place of runs."""
        return self._evictable.census()

    def evict(self, places: Ints) -> Iterator[pa.Table]:
        """Drop the oldest runs or events; no match becomes final by that."""
        self._evictable.evict(places)
        return iter(())

    @property
    def _evictable(self) -> Evictable:
        assert isinstance(self._matcher, Evictable)  # a stream refuses the reference, which keeps all events
        return self._matcher

    # ---- saved state: facts that do not depend on the engine, then the state of the matcher

    def save(self) -> bytes:
        """Return the state of the matcher, and the facts beside it: positions, totals, ends of matches."""
        positions = {} if self._positions is None else self._positions.seen
        partial = ends = b""
        if self._ledger is not None:
            totals = self._ledger.partial()
            self._ledger.merge(totals)
            partial = to_bytes(totals)
        if self._ends is not None:
            ends = to_bytes(self._ends.keep(self._oldest_start(self._now)))
        sizes = {"positions": positions, "partial": len(partial), "ends": len(ends)}
        head = json.dumps(sizes).encode()
        return len(head).to_bytes(8, "little") + head + partial + ends + self._matcher.save()

    def load(self, state: bytes) -> None:
        """Continue from a saved state of the same query.

        Raises:
            StateLayoutError: another engine, or release of Cerise, has written it; `rebuild` may help.
        """
        facts, rest = _Facts.of(state)
        self._take_facts(facts, None)
        self._matcher.load(rest)

    def rebuild(self, states: Sequence[bytes], events: EventBatch, time: int, owns: Owns | None) -> None:
        """Go on where saved states of the same query stopped, whatever engine has written them.

        Args:
            states: one state, or those of several buckets.
            events: the events before `time` that later matches may need, and maybe earlier ones.
            time: the watermark of the states; matches that were final by then are not given again.
            owns: tells which partitions are wanted, by the values of their key; None: all.
        """
        self._start()
        for state in states:
            self._take_facts(_Facts.of(state)[0], owns)
        self._now = time
        opens = events.times >= self._oldest_start(time)
        if self._ends is not None:
            events = self._ends.number(events)
            opens &= self._ends.find_open(events)
        if self._positions is not None:
            events = self._positions(events)
        for _ in self._matcher.feed(replace(events, opens=opens)):
            pass
        for _ in self._matcher.advance(time):
            pass

    def _take_facts(self, facts: _Facts, owns: Owns | None) -> None:
        if self._positions is not None:
            self._positions.seen = facts.positions
        if self._ledger is not None and facts.partial is not None:
            self._ledger.merge(own_groups(facts.partial, self._bound, owns))
        if self._ends is not None and facts.ends is not None:
            self._ends.merge(self._ends.own(facts.ends, owns))

    def _oldest_start(self, time: int) -> int:
        """Return the time before which no event starts a match that is final after `time`."""
        within, query = self._bound.within, self._bound.query
        if within is None or within.unit is Unit.EVENTS:
            return INT64_MIN
        chooses = query.output is Output.NON_OVERLAPPING or query.limit is not None
        windows = 2 if chooses and isinstance(self._matcher, LateMatcher) else 1
        return max(time - windows * int(str(within.size)), INT64_MIN)


@dataclass(frozen=True, slots=True)
class _Facts:
    """The part of a saved state that does not depend on the engine.

    Attributes:
        positions: how many events each partition has had, for totals of windows that count events.
        partial: the partial totals.
        ends: the ends of the last matches, if matches may not overlap.
    """

    positions: dict[str, int]
    partial: pa.Table | None
    ends: pa.Table | None

    @classmethod
    def of(cls, state: bytes) -> tuple[_Facts, bytes]:
        """Return the facts of a saved state, and the rest of it."""
        start = 8 + int.from_bytes(state[:8], "little")
        head, found = json.loads(state[8:start]), []
        for name in ("partial", "ends"):
            end = start + head[name]
            found.append(pa.ipc.open_stream(state[start:end]).read_all() if head[name] else None)
            start = end
        return cls(head["positions"], *found), state[start:]


def own_groups(partial: pa.Table, bound: Bound, owns: Owns | None) -> pa.Table:
    """Return the partial totals of the partitions that are wanted."""
    names = [name for name in group_names(bound) if name.startswith("key_")]
    if owns is None or not names:
        return partial
    return partial.filter(pa.array(owns([partial.column(name).combine_chunks() for name in names])))


class SaseCandidates:
    """Finds for each start the match that completes first, for matches that may not overlap."""

    def __init__(self, question: Sase, work: Work) -> None:
        bound = without_chain(question.bound)
        self._matcher = choose(bound, work.options).start(bound, work.options)
        self._found = FirstMatches(question.bound, question.needs.filter, work)
        self._work = work

    def feed(self, events: EventBatch) -> Iterator[pa.Table]:
        """Take the next events; yield nothing, because candidates are known at the end."""
        for each in self._matcher.feed(self._found.number(events)):
            self._found.add(each)
        return iter(())

    def flush(self) -> Iterator[pa.Table]:
        for each in self._matcher.flush():
            self._found.add(each)
        add(self._work.note, {UNCOMPUTABLE: self._matcher.report.uncomputable})
        yield from self._found.best()
