"""Matchers told the time: they find what they find in batch, each match as soon as it is final.

A stream is fed in random pieces, with `advance` in between, and saved and loaded at random.
CERISE_EXAMPLES=5000 asks for more streams than `make test` tries.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from cerise.engines.base import Matcher, Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.race import Trial
from cerise.errors import DataError
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Count, Output, Unit
from tests.support.strategies.pairs import Pair
from tests.test_agreement import STREAMS, bound_of, examples, families
from tests.tiers import AT_LENGTH

Match = tuple[tuple[int, ...], ...]
ASKED = int(os.environ.get("CERISE_EXAMPLES", "0"))
ENGINE_NAMES = tuple(ENGINES)
I64 = pa.int64()
SMALL = Options(limits=Limits.all(1))
SCHEMA = Schema(
    pa.schema([("id", I64), ("t", I64), ("type", pa.string()), ("k", I64), ("x", I64)]),
    "t",
    "type",
)  # fmt: skip
PATTERNS = {
    "no": "SEQ(A a, B b, C c)",
    "before": "SEQ(~(D n), A a, B b)",
    "between": "SEQ(A a, ~(D n), B b)",
    "after": "SEQ(A a, B b, ~(D n))",
    "kleene, after": "SEQ(A a, B+ b[], ~(D n))",
    "in AND": "AND(A a, B b, ~(D n))",
    "both ends": "SEQ(~(D n), A a, ~(C m))",
    "after one branch": "SEQ(A a, OR(B b, SEQ(C c, ~(D n))))",
}
STRATEGIES = ("strict_contiguity", "partition_contiguity", "skip_till_next_match", "skip_till_any_match")
WINDOWS = ("4", "5 SLIDE 2", "4 EVENTS", "5 EVENTS SLIDE 3 EVENTS")
OUTPUTS = ("OUTPUT ALL", "OUTPUT NON_OVERLAPPING", "LIMIT 2 PER EVENT")
GRID = list(product(PATTERNS, STRATEGIES, WINDOWS, OUTPUTS))
SURE = [(window, OUTPUTS[0]) for window in WINDOWS[:2]]  # windows and outputs that `make test` always tries
OTHERS = 3  # queries besides, for each pattern


# ---- the law: which matches are final


@dataclass(frozen=True)
class Law:
    """The matches of the events so far, by the reference in batch, and the time from which each is final.

    Attributes:
        bound: the query.
        events: the whole stream.
        by_start: whether a match waits if any branch of the query does: recomputation goes by start.
    """

    bound: Bound
    events: EventBatch
    by_start: bool

    def final(self, known: int, now: int) -> set[Match] | None:
        """The final matches of the first events at a time; None where a choice among open ones is open."""
        some = self.events.slice(0, known)
        found = found_by([*answer(self.bound, some)])
        waiting = [match for match in found if (until := self._until(match)) is not None and until >= now]
        if waiting and chooses(self.bound):
            return None
        return set(found) - set(waiting)

    def _until(self, match: Match) -> int | None:
        """The last time at which an event can veto a match; None: it does not wait, or not for time."""
        names = {var.name for var, taken in zip(self.bound.variables, match, strict=True) if taken}
        branches = [
            each
            for each in self.bound.branches
            if self.by_start or {var.name for var in each.variables} == names
        ]
        absences = [n.absence for each in branches for n in each.negations]
        if all(each.before and not each.anywhere for each in absences):
            return None
        assert self.bound.within is not None
        assert self.bound.within.unit is not Unit.EVENTS
        ids = self.events.table.column("id").to_pylist()
        first = min(ids.index(each) for taken in match for each in taken)
        return int(self.events.times[first]) + int(str(self.bound.within.size))


def answer(bound: Bound, events: EventBatch) -> Iterator[Any]:
    matcher = ENGINES["reference"].start(bound, Options())
    yield from matcher.feed(events)
    yield from matcher.flush()


def found_by(found: Iterable[Any]) -> Counter[Match]:
    names: Counter[Match] = Counter()
    for matches in found:
        ids = matches.events.table.column("id").to_pylist()
        rows = zip(*(column.to_pylist() for column in matches.rows.values()), strict=True)
        names.update(tuple(tuple(ids[place] for place in taken or ()) for taken in row) for row in rows)
    return names


def chooses(bound: Bound) -> bool:
    return bound.query.output is Output.NON_OVERLAPPING or bound.query.limit is not None


def waits_for_positions(bound: Bound) -> bool:
    absences = [n.absence for branch in bound.branches for n in branch.negations]
    waits = any(each.anywhere or not each.before for each in absences)
    return waits and bound.within is not None and bound.within.unit is Unit.EVENTS


# ---- a stream, step by step


@dataclass
class Walk:
    """One matcher over one stream."""

    engine: Any
    bound: Bound
    events: EventBatch
    options: Options
    rng: random.Random

    def check(self) -> None:
        """Feed all events; after each step the final matches, and no others, have been given once."""
        by_start, given = self.engine.name.startswith("rcep"), Counter[Match]()
        law = Law(self.bound, self.events, by_start)
        strict = not waits_for_positions(self.bound) and not isinstance(self.engine, Trial)
        matcher = self.engine.start(self.bound, self.options)
        for known, now, found in self._steps(matcher):
            given += found
            assert max(given.values(), default=1) == 1, "twice"
            if strict and (wanted := law.final(known, now)) is not None:
                assert set(given) == wanted, (known, now)
        assert given == found_by(answer(self.bound, self.events))

    def _steps(self, matcher: Matcher) -> Iterator[tuple[int, int, Counter[Match]]]:
        """Feed, advance and reload at random; yield how many events are known, the time, and the matches."""
        rng, events, known = self.rng, self.events, 0
        now = -(2**63)
        lazy = self.engine.name == "reference"  # it answers when it is told the time
        while known < len(events):
            if rng.random() < 0.3:
                state, matcher = matcher.save(), self.engine.start(self.bound, self.options)
                matcher.load(state)
            stop = min(len(events), known + rng.choice((1, 1, 1, 2, 3, len(events))))
            found = found_by(matcher.feed(events.slice(known, stop)))
            known, now = stop, max(now, int(events.times[stop - 1]))
            if not lazy:
                yield known, now, found
            if lazy or rng.random() < 0.6:
                latest = int(events.times[known]) if known < len(events) else now + rng.randrange(12)
                now = rng.choice((now, latest, rng.randint(now, latest)))
                yield known, now, found_by(matcher.advance(now))
        yield known, 2**63 - 1, found_by(matcher.flush())


def stream(rng: random.Random, size: int) -> pa.Table:
    """Events with ties and nulls."""
    times, time = [], 0
    for _ in range(size):
        time += rng.choice((0, 0, 1, 1, 2, 5))
        times.append(time)
    kinds = [rng.choice("AAABBBCCD") for _ in range(size)]
    numbers = [[rng.choice((0, 0, 1, None)) for _ in range(size)] for _ in range(2)]
    return pa.table([range(size), times, kinds, *numbers], schema=SCHEMA.columns)


# ---- every kind of query


def queries_of(name: str) -> list[str]:
    mine = [each for each in GRID if each[0] == name]
    sure = [each for each in mine if each[1] in STRATEGIES[2:] and each[2:] in SURE]
    rest = [each for each in mine if each not in sure]
    some = mine if AT_LENGTH else [*sure, *random.Random(name).sample(rest, OTHERS)]
    return [
        f"PATTERN {PATTERNS[pattern]} USE {strategy} {where(strategy)} WITHIN {window} {output}"
        for pattern, strategy, window, output in some
    ]


def where(strategy: str) -> str:
    return "WHERE [k] AND a.x >= 0" if strategy == "partition_contiguity" else "WHERE a.x >= 0"


@pytest.mark.parametrize("name", PATTERNS)
def test_what_is_final_is_given_at_once(name: str) -> None:
    for text in queries_of(name):
        bound, rng = bind(parse(text), SCHEMA, {}), random.Random(text)
        for engine in able(bound):
            for _ in range(6 + ASKED // len(GRID)):
                events = EventBatch.of(stream(rng, rng.choice((0, 1, 5, 9, 14))), SCHEMA)
                Walk(engine, bound, events, rng.choice((Options(), SMALL)), rng).check()


def able(bound: Bound) -> list[Any]:
    """The engines that run a query, and a race of those that are not the reference."""
    engines = [engine for engine in ENGINES.values() if engine.why_not(bound) is None]
    raced = tuple(engine for engine in engines if engine.name in ("nfa", "nfa-merge", "rcep"))
    return [*engines, Trial(raced)] if len(raced) > 1 else engines


@examples(10, STREAMS)
@given(families())
def test_random_queries_find_the_same_matches(family: list[Pair]) -> None:
    query = family[0].query
    if isinstance(query.returns, Count):
        query = replace(query, returns=None)
    bound = bound_of(replace(family[0], query=query))
    for number, pair in enumerate(family[:8]):
        rng = random.Random(number)
        events = EventBatch.of(pair.table, bound.schema, reads=bound.ties)
        for engine in able(bound):
            Walk(engine, bound, events, rng.choice((Options(), SMALL)), rng).check()


# ---- time itself


def events_at(*given: tuple[int, str]) -> EventBatch:
    size = len(given)
    columns = [range(size), [time for time, _ in given], [kind for _, kind in given], [0] * size, [0] * size]
    return EventBatch.of(pa.table(columns, schema=SCHEMA.columns), SCHEMA)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_a_match_is_final_after_its_deadline_and_not_at_it(engine: str) -> None:
    bound = bind(parse("PATTERN SEQ(A a, ~(D n)) USE skip_till_any_match WITHIN 10"), SCHEMA, {})
    if ENGINES[engine].why_not(bound) is not None:
        pytest.skip("it cannot run this query")
    matcher = ENGINES[engine].start(bound, Options())
    given = [found_by(matcher.feed(events_at((5, "A"))))]
    given += [found_by(matcher.advance(time)) for time in (6, 15, 16, 17, 3)]
    assert [each.total() for each in given] == [0, 0, 0, 1, 0, 0]
    assert not found_by(matcher.flush())


@pytest.mark.parametrize("engine", [*ENGINE_NAMES, "race"])
@pytest.mark.parametrize("reload", [False, True])
@pytest.mark.parametrize("fed", [False, True])
def test_events_before_the_time_are_refused(engine: str, reload: bool, fed: bool) -> None:
    bound = bind(parse("PATTERN SEQ(A a, B b) USE skip_till_any_match WITHIN 10"), SCHEMA, {})
    chosen = Trial((ENGINES["nfa"], ENGINES["rcep"])) if engine == "race" else ENGINES[engine]
    if chosen.why_not(bound) is not None:
        pytest.skip("it cannot run this query")
    matcher = chosen.start(bound, Options())
    if fed:
        list(matcher.feed(events_at((1, "A"))))
    list(matcher.advance(20))
    if reload:
        state, matcher = matcher.save(), chosen.start(bound, Options())
        matcher.load(state)
    with pytest.raises(DataError, match="from 20 to 19"):
        list(matcher.feed(events_at((19, "A"))))
    assert found_by(matcher.feed(events_at((20, "A"), (20, "B")))).total() == (engine != "reference")
    list(matcher.flush())
    list(matcher.feed(events_at((1, "A"))))  # after a flush a stream begins anew
