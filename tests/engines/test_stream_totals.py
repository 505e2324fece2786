"""Totals of a stream: each row leaves once, as soon as it is final, and all rows are those of batch."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given

from cerise.engines.base import Options
from cerise.engines.choose import ENGINES, explain_refusal
from cerise.engines.limits import Limits
from cerise.engines.totals import Ledger
from cerise.engines.totals.groups import TIME, WINDOW, why_never_final
from cerise.errors import DataError
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Per
from cerise.run.question import Work
from cerise.run.sase_search import Sase
from tests.support.cases.runners import whole
from tests.support.strategies.pairs import Pair
from tests.support.strategies.totals import STREAMS, totalled
from tests.test_agreement import bound_of, examples, rows

I64 = pa.int64()
SCHEMA = Schema(pa.schema([("t", I64), ("type", pa.string()), ("k", I64), ("x", I64)]), "t", "type")
ANY, AB = "skip_till_any_match", "PATTERN SEQ(A a, B b)"
QUERIES = [
    f"PATTERN SEQ(A a, B b) USE {ANY} WITHIN 5 RETURN COUNT(*), SUM(a.x) AS y PER EVENT",
    f"PATTERN SEQ(A a, B+ b[]) USE {ANY} WITHIN 5 RETURN COUNT(*), SUM(a.x) AS y PER EVENT",
    "PATTERN SEQ(A a, B b) PARTITION BY k WITHIN 6 SLIDE 2 RETURN COUNT(*), MAX(b.x) AS y PER WINDOW",
    f"PATTERN SEQ(A a, B+ b[]) USE {ANY} PARTITION BY k WITHIN 6 SLIDE 4 RETURN COUNT(*) PER WINDOW",
    "PATTERN SEQ(A a, B b) PARTITION BY k WITHIN 4 SLIDE 7 RETURN COUNT(*) PER PARTITION, WINDOW",
    "PATTERN SEQ(A a, B b, ~(C c)) WITHIN 5 RETURN COUNT(*) PER EVENT",
    f"PATTERN SEQ(A a, ~(C c)) USE {ANY} WITHIN 6 SLIDE 3 RETURN COUNT(*), AVG(a.x) AS y PER WINDOW",
    f"PATTERN AND(A a, B b, ~(C c)) USE {ANY} WITHIN 4 RETURN COUNT(*) PER EVENT",
    "PATTERN SEQ(A a, B b) WITHIN 4 EVENTS RETURN COUNT(*) PER EVENT",
    "PATTERN SEQ(A a, B b) WITHIN 5 OUTPUT NON_OVERLAPPING RETURN COUNT(*) PER EVENT",
]


def stream(rng: random.Random, size: int) -> pa.Table:
    time, times = 0, []
    for _ in range(size):
        time += rng.choice((0, 0, 1, 1, 2, 6))
        times.append(time)
    kinds = [rng.choice("AABBC") for _ in range(size)]
    numbers = [[rng.choice((0, 1, 2, None)) for _ in range(size)] for _ in range(2)]
    return pa.table([times, kinds, *numbers], schema=SCHEMA.columns)


def groups_of(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """The partial totals of all groups in batch, each group once."""
    search, ledger = Sase(bound).start(Work(options)), Ledger(bound)
    events = EventBatch.of(table, bound.schema, reads=bound.ties)
    for part in (*search.feed(events), *search.flush()):
        ledger.merge(part)
    return ledger.partial()


def count_final(groups: pa.Table, bound: Bound, time: int) -> int:
    """How many groups the law calls final at a time."""
    assert bound.query.totals is not None
    size = int(str(bound.within.size)) if bound.within else 0
    absences = [n.absence for branch in bound.branches for n in branch.negations]
    late = size if any(each.anywhere or not each.before for each in absences) else 0
    if bound.query.totals.per is Per.EVENT:
        return sum(each + late < time for each in groups.column(TIME).to_pylist())
    assert bound.slide is not None
    step = int(str(bound.slide.size))
    return sum(each * step + size + late <= time for each in groups.column(WINDOW).to_pylist())


def check(bound: Bound, table: pa.Table, options: Options, rng: random.Random) -> None:
    """Feed a stream in pieces; after each step the final rows, and no others, have left."""
    question, groups = Sase(bound), groups_of(bound, table, options)
    events = EventBatch.of(table, bound.schema, reads=bound.ties)
    search, given, known = question.start(Work(options, streams=True)), Counter[str](), 0
    while known < len(events):
        if rng.random() < 0.3:
            state, search = search.save(), question.start(Work(options, streams=True))
            search.load(state)
        stop = known + rng.choice((1, 1, 2, 4, len(events)))
        assert not list(search.feed(events.slice(known, stop)))
        known = min(stop, len(events))
        last = int(events.times[known - 1])
        latest = int(events.times[known]) if known < len(events) else last + rng.randrange(20)
        time = rng.choice((last, latest))
        for part in search.advance(time):
            given += rows(question.finish([part]))
        assert given.total() == count_final(groups, bound, time), time
    for part in search.flush():
        given += rows(question.finish([part]))
    assert given == rows(whole(bound, table, Options(engine="reference")))


@pytest.mark.parametrize("text", QUERIES)
def test_rows_leave_when_they_are_final(text: str) -> None:
    bound, rng = bind(parse(text), SCHEMA, {}), random.Random(text)
    for engine in [name for name, each in ENGINES.items() if each.why_not(bound) is None]:
        for _ in range(8):
            limits = rng.choice((Limits(), Limits.all(1)))
            check(bound, stream(rng, rng.choice((1, 6, 14))), Options(engine=engine, limits=limits), rng)


@examples(12, STREAMS)
@given(totalled())
def test_random_totals_are_those_of_batch(family: list[Pair]) -> None:
    bound = bound_of(family[0])
    if why_never_final(bound) is not None:
        return
    for number, pair in enumerate(family):
        rng = random.Random(number)
        for engine in [name for name, each in ENGINES.items() if each.why_not(bound) is None]:
            options = Options(engine=engine)
            try:
                whole(bound, pair.table, options)
            except DataError:
                continue
            check(bound, pair.table, options, rng)


REFUSED = {
    "PATTERN SEQ(A a, B b)": ("without WITHIN", "give it a window"),
    f"{AB} WITHIN 5 RETURN COUNT(*)": ("totals IN ALL", "PER WINDOW"),
    f"{AB} PARTITION BY k WITHIN 5 RETURN COUNT(*) PER PARTITION": ("PER PARTITION", "PER WINDOW"),
    f"{AB} WITHIN 5 EVENTS SLIDE 2 EVENTS RETURN COUNT(*) PER WINDOW": ("count events", "of time"),
    "PATTERN SEQ(A a, ~(B b)) WITHIN 5 EVENTS RETURN COUNT(*) PER EVENT": ("count events", "of time"),
    "PATTERN SEQ(A a, ~(B b)) WITHIN 5 EVENTS LIMIT 1 PER EVENT": ("only the engine 'reference'", "batch"),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_a_query_that_cannot_run_over_a_stream_says_why(text: str) -> None:
    bound = bind(parse(text), SCHEMA, {})
    problem, hint = REFUSED[text]
    refusal = explain_refusal(bound, Options(), unbounded=False)
    assert refusal is not None
    assert problem in refusal[0]
    assert hint in refusal[1]


def test_a_query_that_can_run_over_a_stream_does_not() -> None:
    for text in QUERIES:
        assert explain_refusal(bind(parse(text), SCHEMA, {}), Options(), unbounded=False) is None
    plain = bind(parse("PATTERN SEQ(A a, B b) WITHIN 5"), SCHEMA, {})
    assert explain_refusal(plain, Options(engine="nfa"), unbounded=False) is None
    assert "keeps all events" in str(explain_refusal(plain, Options(engine="reference"), unbounded=False))
    endless = bind(parse("PATTERN SEQ(A a, B b)"), SCHEMA, {})
    assert explain_refusal(endless, Options(), unbounded=True) is None
