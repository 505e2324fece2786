"""One bucket of a stream: the events of some keys, and the queries that run over them.

A step is a pure function: the state after batch N follows from the state before it and from the batch. So a
batch that is repeated after a fault gives the same matches and the same state (S11.1).
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from cerise.errors import BindError, CeriseError, PlanError
from cerise.kinds import INT64_MIN, kind_of
from cerise.streaming.bucket_plan import BucketPlan, BucketStep, Counts, Found
from cerise.streaming.container import pack, pack_json, unpack, unpack_json
from cerise.streaming.entry import Control, JournalEntry, MicroBatch, admit
from cerise.streaming.held_events import HeldEvents, check_columns
from cerise.streaming.limits.eviction import LimitKeeper
from cerise.streaming.limits.state_limits import Evictions
from cerise.streaming.live_query import LiveQuery, QueryManner, StreamQuery
from cerise.streaming.share import Share
from cerise.streaming.stages import forgets, reach_of
from cerise.streaming.watermark import Watermark

log = logging.getLogger(__name__)
Recall = Callable[[], Iterable[JournalEntry]]  # returns the journal entries that are kept


class Bucket:
    """The state of the queries over the events of some keys."""

    def __init__(self, plan: BucketPlan) -> None:
        self.plan = plan
        self.watermark = Watermark(plan.rules)
        self.held = HeldEvents(plan.roles)
        self.counts = Counts()
        self.now: int | None = None
        self.cut = INT64_MIN  # the time up to which the history is known
        self.controls: dict[str, Control] = {}  # queries that were added while the stream ran
        self.refused: list[str] = []  # why changes of queries in the last batch were refused
        self.recall: Recall | None = None
        self._warned: set[str] = set()  # the queries whose evictions were told
        self.asked: dict[str, StreamQuery] = {}  # every query that has run, by name
        self.live = {each.name: self._start(each, INT64_MIN) for each in plan.queries}

    @property
    def _empty(self) -> pa.Table:
        return self.plan.roles.columns.empty_table()

    def _start(self, query: StreamQuery, since: int) -> LiveQuery:
        plan = self.plan
        self.asked[query.name] = query
        manner = QueryManner(plan.counts_ties, plan.on_skip, plan.on_error, plan.limits.evicts)
        return LiveQuery(query, plan.options, manner, since=since)

    def step(self, batch: MicroBatch) -> BucketStep:
        """Take a micro-batch; return the matches that become final, and the events set aside."""
        entry, aside = admit(batch, self.plan.roles, self.plan.rules, self.watermark.time, self.cut)
        before = dict(self.counts.evicted.totals)
        found = list(self.apply(entry, batch.name))
        self._warn_of_evictions(before)
        return BucketStep(entry, found, aside)

    def apply(self, entry: JournalEntry, name: str = "this batch") -> Iterator[Found]:
        """Take accepted events: hold them, move the watermark, and release the events before it.

        Args:
            entry: the events.
            name: names the batch in an error.

        Raises:
            PlanError: the bucket would keep more than its limits allow; only its saved state is of use then.
        """
        self.refused = []
        for control in entry.controls:
            yield from self._change(control)
        self.cut = self.cut if entry.cut is None else entry.cut
        self.counts.add(entry)
        self.now = entry.now if entry.now is not None else self.now
        self.held.add(entry.events)
        before = self.watermark.time
        self.watermark.observe(entry.tops, entry.now, entry.floor)
        if self.watermark.time > before:
            yield from self._release()
        yield from self._hold_limits(name)

    def _release(self) -> Iterator[Found]:
        released = self.held.release(self.watermark.time)
        events = self._empty if released is None else released
        for name, query in list(self.live.items()):
            for table in query.feed(events, self.watermark.time):
                yield name, table
            if query.until is not None and query.until <= self.watermark.time:
                yield from self._end(name)

    def _end(self, name: str) -> Iterator[Found]:
        """End a query that was removed: for it, the stream is over."""
        for table in self.live[name].flush():
            yield name, table
        self._forget(name)

    def _forget(self, name: str) -> None:
        del self.live[name]
        self.controls.pop(name, None)
        self.counts.evicted.forget(name)

    # ---- queries that come and go while the stream runs

    def _change(self, control: Control) -> Iterator[Found]:
        """Add or remove a query; a query that does not fit is refused, and the stream goes on."""
        try:
            yield from self._add(control) if control.add else self._remove(control)
        except CeriseError as error:
            log.warning("query %s is refused: %s", control.name, error)
            self.refused.append(f"{control.name}: {error}")

    def _add(self, control: Control) -> Iterator[Found]:
        if control.name in self.live:
            raise BindError(f"there is a query {control.name} already", hint="remove it first")
        query = self._bind(control)
        since = self.watermark.time if control.at is None else control.at
        live = self._start(query, since)
        self.live[control.name], self.controls[control.name] = live, control
        if since < self.watermark.time and self.recall is not None:
            events = (entry.events for entry in self.recall())
            for table in live.feed(self._gather(events, since), self.watermark.time):
                yield control.name, table

    def _gather(self, tables: Iterable[pa.Table], since: int = INT64_MIN) -> pa.Table:
        """Return the events from a time on, up to the watermark, in the order of time."""
        held = HeldEvents(self.plan.roles)
        for table in tables:
            held.add(table)
        held.release(since)
        events = held.release(self.watermark.time)
        return self._empty if events is None else events

    def _remove(self, control: Control) -> Iterator[Found]:
        if control.name not in self.live:
            raise BindError(f"query {control.name} is unknown", hint="it may have been removed before")
        query = self.live[control.name]
        query.until = self.watermark.time if control.at is None else max(control.at, self.watermark.time)
        if query.until <= self.watermark.time:
            yield from self._end(control.name)

    def begin(self, history: pa.Table, cut: int) -> tuple[JournalEntry, list[Found]]:
        """Start with the events before the stream's first; return their journal entry and their matches.

        Args:
            history: the events before the cut that later matches may need.
            cut: the first time after the history; events of the stream before it are in the history.
        """
        entry = JournalEntry(history, {}, floor=cut, cut=cut)
        return entry, list(self.apply(entry))

    def replay(self, entries: Iterable[JournalEntry], facts: Mapping[str, Any] | None = None) -> None:
        """Repeat steps whose matches were given already.

        Matches do not depend on the borders of batches: a long journal is matched at once. If limits evict
        runs, which depends on the borders, each entry is a step of its own.

        Args:
            entries: the journal entries of the steps.
            facts: the facts after the last step. With them, events too old to matter after it are passed
                over, where all queries allow that: their matches need not be counted again.
        """
        if self.plan.limits.evicts:
            for entry in entries:
                _drop(self.apply(entry))
            return
        skips = facts is not None and all(forgets(each.query.question) for each in self.live.values())
        for entry in entries:
            for control in entry.controls:
                skips = False
                _drop(self._release())
                _drop(self._change(control))
            self.cut = self.cut if entry.cut is None else entry.cut
            self.counts.add(entry)
            self.now = entry.now if entry.now is not None else self.now
            self.held.add(entry.events)
            self.watermark.observe(entry.tops, entry.now, entry.floor)
            if len(self.held) >= self.plan.options.limits.replayed_events:
                self._pass_over(skips=skips)
        self._pass_over(skips=skips)
        if facts is not None:
            for name, live in self.live.items():
                live.matches, live.nulls = facts["matches"].get(name, 0), facts["nulls"].get(name, 0)

    def _pass_over(self, *, skips: bool) -> None:
        """Release events whose matches were given before; skip events older than the reach of all queries."""
        if not skips or self.reach is None:
            _drop(self._release())
            return
        old = self.held.release(max(self.watermark.time - self.reach, INT64_MIN))
        rest = self.held.release(self.watermark.time)
        for name, query in list(self.live.items()):
            if old is not None:
                query.skip(old)
            query.pass_over(self._empty if rest is None else rest, self.watermark.time)
            if query.until is not None and query.until <= self.watermark.time:
                self._forget(name)

    def flush(self) -> Iterator[Found]:
        """Yield the matches that become final when no further event comes."""
        rest = self.held.release_all()
        for name, query in self.live.items():
            if rest is not None:
                for table in query.feed(rest, self.watermark.time):
                    yield name, table
            for table in query.flush():
                yield name, table

    # ---- limits

    def _hold_limits(self, batch: str) -> Iterator[Found]:
        """Evict the oldest runs if the bucket keeps more than it may, or end the step with an error."""
        limits = self.plan.limits
        self._check_held(limits.held, batch)
        keeper = LimitKeeper(limits, self.live, self.held, self.counts.evicted, batch)
        if not limits.counts_runs or keeper.is_kept():
            return
        if limits.evicts:
            yield from keeper.evict()
        else:
            keeper.check()

    def _warn_of_evictions(self, before: Mapping[str, int]) -> None:
        """Log the evictions of a step: the first of a query as a warning."""
        for name, count in sorted(self.counts.evicted.totals.items()):
            if count > before.get(name, 0):
                level = logging.INFO if name in self._warned else logging.WARNING
                text = "a limit has evicted %s of the oldest runs of query %s, %s in all"
                log.log(level, text, f"{count - before.get(name, 0):,}", name, f"{count:,}")
                self._warned.add(name)

    def _check_held(self, most: int | None, batch: str) -> None:
        if most is not None and len(self.held) > most:
            slowest = self.watermark.slowest(self.now)
            raise PlanError(
                f"{len(self.held):,} events wait for the watermark, more than held={most:,}; "
                f"source '{slowest}' holds it back",
                hint=f"shorten delay=, give idle=, or raise held=; the state before {batch} is untouched",
            )

    # ---- state

    @property
    def reach(self) -> int | None:
        """How far behind the watermark events matter for later matches; None: any event may."""
        known = [each for each in self._reaches() if each is not None]
        return None if len(known) < len(self.live) else max(known, default=0)

    @property
    def kept_reach(self) -> int | None:
        """How far behind the watermark journal entries are kept, to rebuild queries; None: not at all."""
        return max((each for each in self._reaches() if each is not None), default=None)

    def _reaches(self) -> list[int | None]:
        return [reach_of(each.query.question) for each in self.live.values()]

    def save(self) -> bytes:
        """Return the state: the watermark, held events and the state of every query."""
        plain = {
            "watermark": self.watermark.save(), "now": self.now, "events": self.counts.events,
            "aside": dict(self.counts.aside), "time": self.plan.roles.time,
            "queries": self.plan.meanings, "cut": self.cut,
            "controls": [asdict(each) for each in self.controls.values()],
            **self.counts.evicted.to_plain(),
        }  # fmt: skip
        queries = {f"query {name}": each.save() for name, each in self.live.items()}
        return pack({"plain": pack_json(plain), "held": self.held.save(), **queries})

    def load(
        self,
        state: bytes,
        what: str = "the state",
        entries: Recall | None = None,
    ) -> None:
        """Continue from a saved state. Queries may have come or gone since; a changed query is an error.

        Args:
            state: the bytes that `save` returned.
            what: names the state in an error.
            entries: returns journal entries before the state, from which a query can be rebuilt.

        Raises:
            StoreError: the state is damaged, or of a query with another meaning.
        """
        parts = unpack(state, what)
        plain = unpack_json(parts["plain"])
        self.watermark.load(plain["watermark"])
        self.now = plain["now"]
        self.counts = Counts(plain["events"], Counter(plain["aside"]), Evictions.of_plain(plain))
        self.held.load(parts["held"])
        check_columns(self.held.columns, self.plan.roles.columns)
        wanted = self.plan
        self.plan = wanted.restrict(plain["queries"])
        self.live = {each.name: self._start(each, INT64_MIN) for each in self.plan.queries}
        for name in self.live:
            self._load_query(name, parts[f"query {name}"], entries)
        self.adopt(wanted)
        self.cut = plain["cut"]
        for each in plain["controls"]:
            control = Control(**each)
            self.controls[control.name] = control
            self.live[control.name] = self._start(self._bind(control), INT64_MIN)
            self._load_query(control.name, parts[f"query {control.name}"], entries)

    def _load_query(self, name: str, state: bytes, entries: Recall | None) -> None:
        """Load a query; one whose state another engine or release wrote is rebuilt from journal entries."""

        def recall() -> pa.Table:
            assert entries is not None
            return self._gather(entry.events for entry in entries())

        self.live[name].load(state, self.watermark.time, None if entries is None else recall)

    def divide(self, buckets: Iterable[Bucket], kept: Callable[[], pa.Table], share: Share) -> None:
        """Go on with a share of the keys of several buckets, which divide them otherwise.

        Counts go on in the first bucket, with their sums.

        Args:
            buckets: the buckets of the same queries, at the same batch.
            kept: returns the events of their journals that belong to the share.
            share: the keys of this bucket.

        Raises:
            StoreError: the state of a query cannot be divided.
        """
        states: dict[str, list[bytes]] = {}
        total = Counts()
        for each in buckets:
            self.follow(each.facts())
            self.controls = dict(each.controls)
            total.events += each.counts.events
            total.aside.update(each.counts.aside)
            total.evicted.merge(each.counts.evicted)
            self.held.add(share.take(each.held.all))
            for name, live in each.live.items():
                states.setdefault(name, []).append(live.save())
        self.counts = total if share.is_first else Counts()
        asked = {each.name: each for each in self.plan.queries}
        for name, saved in states.items():
            query = asked[name] if name in asked else self._bind(self.controls[name])
            self.live[name] = self._start(query, INT64_MIN)
            self.live[name].divide(saved, self.watermark.time, lambda: self._gather([kept()]), share)

    def _bind(self, control: Control) -> StreamQuery:
        assert self.plan.bind is not None
        return self.plan.bind(control)

    def follow(self, facts: Mapping[str, Any]) -> None:
        """Take over the time of another bucket of the stream, given its facts."""
        self.watermark.load({"time": facts["watermark"], "tops": facts["tops"], "heard": facts["heard"]})
        self.now, self.cut = facts["now"], facts["cut"]

    def adopt(self, plan: BucketPlan) -> None:
        """Go on with other queries: new ones take events from the watermark on, and others are dropped."""
        names = {each.name for each in plan.queries}
        for name in self.live.keys() - names - self.controls.keys():
            log.warning("query %s is gone: its state is dropped", name)
            self._forget(name)
        self.plan = plan
        for query in plan.queries:
            if query.name not in self.live:
                log.info("query %s is new: it takes events from %s on", query.name, self.watermark.time)
                self.live[query.name] = self._start(query, self.watermark.time)

    # ---- figures

    def facts(self) -> dict[str, Any]:
        """Return the figures that follow from the state alone: a repeated step gives the same."""
        roles, mark = self.plan.roles, self.watermark
        return {
            "events": self.counts.events, "held": len(self.held), "aside": dict(self.counts.aside),
            "matches": {name: each.matches for name, each in self.live.items()},
            "nulls": {name: each.nulls for name, each in self.live.items() if each.nulls},
            **self.counts.evicted.to_plain(), "time": roles.time,
            "kind": kind_of(roles.columns.field(roles.time).type).name,
            "watermark": mark.time, "now": self.now, "tops": dict(mark.tops), "heard": dict(mark.heard),
            "cut": self.cut,
            "delays": dict(mark.rules.delays), "slowest": mark.slowest(self.now),
            "idle": [each for each in mark.rules.delays if mark.is_idle(each, self.now)],
        }  # fmt: skip

    def figures(self) -> dict[str, Any]:
        """Return the figures of the bucket, for reports."""
        alive = {name: each.alive for name, each in self.live.items()}
        return {**self.facts(), "held_bytes": self.held.nbytes, "alive": alive}


def _drop(found: Iterator[Found]) -> None:
    deque(found, maxlen=0)
