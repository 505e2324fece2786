"""Budgets and memory: too many runs are an error that helps, and what has expired is given back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.nfa import upkeep
from cerise.engines.nfa.matcher import NfaMatcher
from cerise.errors import PlanError
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind

NFA = tuple(name for name in ENGINES if name.startswith("nfa"))
SCHEMA = Schema(
    pa.schema([("t", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64())]), "t", "type"
)
EVENTS, BATCH = 300_000, 10_000
POOL = Limits(pool_rows=4_000)  # so small a pool is tidied often
ANY = "USE skip_till_any_match"
engines = pytest.mark.parametrize("engine", NFA)


def start(engine: str, query: str, **options: Any) -> NfaMatcher:
    matcher = ENGINES[engine].start(bind(parse(query), SCHEMA, {}), Options(**options))
    assert isinstance(matcher, NfaMatcher)
    return matcher


def batch(begin: int, size: int, types: str = "ABCD", keys: int = 5) -> EventBatch:
    """Some events of a stream that has no end: one event per tick."""
    rng = np.random.default_rng(begin)
    table = pa.table(
        [
            np.arange(begin, begin + size),
            rng.choice(np.array(list(types)), size),
            rng.integers(0, keys, size),
            rng.integers(0, 100, size),
        ],
        schema=SCHEMA.columns,
    )
    return EventBatch.of(table, SCHEMA)


def drain(matcher: NfaMatcher, events: EventBatch) -> int:
    return sum(map(len, matcher.feed(events)))


# ---- too many runs


@engines
def test_too_many_runs_are_an_error_that_helps(engine: str) -> None:
    query = f"PATTERN SEQ(A a, B+ b[], C c) {ANY} WHERE b[i].x != sum(b[..i-1].x) WITHIN 5000"
    matcher = start(engine, query, max_runs=500)
    with pytest.raises(PlanError) as caught:
        drain(matcher, batch(1_000, 400, "AB"))
    problem, hint = caught.value.problem, str(caught.value.hint)
    count, event = map(int, re.findall(r"^(\d+) runs are alive at event (\d+),", problem)[0])
    assert count > 500
    assert 0 < event < 400
    assert f"time {1_000 + event}" in problem
    assert "more than 500" in problem
    for clause in ("SEQ(A a, B+ b", "b[i].x != sum(b[..i-1].x)", "WITHIN 5000"):
        assert clause in problem
    for way_out in ("cerise.compressed", "COUNT(*)", "WITHIN", "skip_till_next_match", "max_runs"):
        assert way_out in hint


@engines
def test_a_budget_that_is_just_enough_is_enough(engine: str) -> None:
    query = f"PATTERN SEQ(A a, B b, C c) {ANY} WHERE a.x + b.x > c.x WITHIN 40"
    free = start(engine, query)
    found = drain(free, batch(0, 3_000))
    most = free.report.most_runs
    assert most > 10
    if engine != "nfa-backtrack":  # which looks between two runs, not between two events
        assert drain(start(engine, query, max_runs=most), batch(0, 3_000)) == found
    with pytest.raises(PlanError, match="more than 3,"):
        drain(start(engine, query, max_runs=3), batch(0, 3_000))


@engines
def test_a_count_needs_no_runs_where_merging_can_count(engine: str) -> None:
    query = f"PATTERN SEQ(A a, B+ b[], C c) {ANY} WITHIN 40 RETURN COUNT(*)"
    if engine == "nfa-merge":
        assert drain(start(engine, query, max_runs=1_000), batch(0, 500, "ABC")) > 10**5
    else:
        with pytest.raises(PlanError, match="more than 1000,"):
            drain(start(engine, query, max_runs=1_000), batch(0, 500, "ABC"))


# ---- memory over a long stream

QUERIES = {
    "time window": f"PATTERN SEQ(A a, B b, C c) {ANY} WHERE a.x < b.x WITHIN 12",
    "kleene": "PATTERN SEQ(A a, B+ b[], C c) PARTITION BY k WHERE b[i].x > b[i-1].x WITHIN 100",
    "count window": f"PATTERN SEQ(A a, B b, C c) {ANY} PARTITION BY k WHERE a.x < c.x WITHIN 8 EVENTS",
    "merging": f"PATTERN SEQ(A a, B b, C c) {ANY} PARTITION BY k WITHIN 20",
    "counting": f"PATTERN SEQ(A a, B+ b[], C c) {ANY} PARTITION BY k WHERE b.x < 50 WITHIN 9 RETURN COUNT(*)",
    "not between": "PATTERN SEQ(A a, ~(B n), C c) WHERE n.x > a.x WITHIN 20",
    "not after": "PATTERN SEQ(A a, ~(B n)) WHERE n.x > a.x WITHIN 20",
}


def sizes(matcher: NfaMatcher) -> dict[str, int]:
    """How much of everything there is: in use, and room for it."""
    memory, retained = matcher._memory, matcher._retained
    arrays = {
        name: len(getattr(memory, name))
        for name in ("runs", "nodes", "cands", "matches", "heads", "cand_heads", "counts", "table", "stack")
    }
    return arrays | {
        "live": memory.m.live,
        "used runs": memory.m.run_count,
        "used nodes": memory.m.node_count,
        "used cands": memory.m.cand_count,
        "events": len(retained.kept),
        "texts": len(matcher._columns.texts.table),
        "partitions": len(matcher._partitions),
        "ties": len(retained.ties.seen),
    }


@engines
@pytest.mark.parametrize("name", QUERIES)
def test_memory_is_bounded_by_the_window(engine: str, name: str) -> None:
    """After a third of the stream nothing grows any more."""
    matcher = start(engine, QUERIES[name], limits=POOL)
    seen = []
    for begin in range(0, EVENTS, BATCH):
        drain(matcher, batch(begin, BATCH))
        seen.append(sizes(matcher))
    third = len(seen) // 3
    for what in seen[0]:
        early, late = (max(each[what] for each in part) for part in (seen[:third], seen[third:]))
        assert late <= 2 * early + 64, f"{what} grew from {early} to {late}"
    last = seen[-1]
    assert last["events"] < 500
    assert last["used nodes"] < 2_000
    assert last["used cands"] <= 2 * POOL.pool_rows + BATCH


@engines
@pytest.mark.parametrize("name", QUERIES)
def test_what_has_expired_is_freed_also_when_no_event_matches(engine: str, name: str) -> None:
    matcher = start(engine, QUERIES[name])
    drain(matcher, batch(0, BATCH))
    drain(matcher, batch(BATCH, 1, "A"))
    assert sizes(matcher)["live"] > 0
    for begin in range(BATCH + 1, BATCH + 2_001, 500):
        drain(matcher, batch(begin, 500, "Z"))
    left = sizes(matcher)
    assert (left["live"], left["used nodes"], left["events"]) == (0, 0, 0)


@engines
def test_keys_that_keep_being_new_leave_nothing_behind(engine: str) -> None:
    matcher = start(
        engine, "PATTERN SEQ(A a, B b, C c) PARTITION BY k WITHIN 12", limits=Limits(pool_rows=1_000)
    )
    seen = []
    for begin in range(0, EVENTS, BATCH):
        times = np.arange(begin, begin + BATCH)
        types = np.array(list("ABCD"))[times % 4]
        table = pa.table([times, types, times // 20, times % 7], schema=SCHEMA.columns)
        assert drain(matcher, EventBatch.of(table, SCHEMA)) == BATCH // 4
        seen.append(sizes(matcher))
    assert max(each["partitions"] for each in seen) < 4 * BATCH // 20
    assert seen[-1]["heads"] <= 2 * seen[len(seen) // 3]["heads"]


@engines
@pytest.mark.parametrize("query", ["SEQ(A a, B b, C c)", "SEQ(A a, ~(B b))"])
def test_a_small_batch_does_not_go_through_all_that_is_held(
    engine: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    matcher = start(engine, f"PATTERN {query} PARTITION BY k WITHIN 40000")
    drain(matcher, batch(0, 60_000, "AABCDDDD", 10_000))
    looks = []
    sweep = upkeep.sweep
    monkeypatch.setattr(upkeep, "sweep", lambda *given: (looks.append(given), sweep(*given)))
    found = [drain(matcher, batch(60_000 + 100 * i, 100, "AABCDDDD", 10_000)) for i in range(50)]
    assert len(looks) <= 1
    assert sum(found) > 50
    assert matcher._memory.m.live > 5_000
    for _ in matcher.advance(10**6):
        pass
    assert matcher._memory.m.live == 0


def test_strings_that_keep_being_new_are_forgotten() -> None:
    schema = Schema(pa.schema([("t", pa.int64()), ("s", pa.string())]), "t")
    bound = bind(parse("PATTERN SEQ(a, b) WHERE a.s = b.s WITHIN 50"), schema, {})
    matcher = ENGINES["nfa"].start(bound, Options(limits=Limits(pool_rows=500, small_rows=10)))
    assert isinstance(matcher, NfaMatcher)
    sizes, found = [], 0
    for begin in range(0, 20_000, 100):
        times = np.arange(begin, begin + 100)
        table = pa.table([times, [f"w{time // 2}" for time in times]], schema=schema.columns)
        found += drain(matcher, EventBatch.of(table, schema))
        sizes.append(len(matcher._columns.texts))
    assert found == 10_000
    assert max(sizes) < 1_500


@engines
def test_a_matcher_that_was_flushed_holds_nothing(engine: str) -> None:
    matcher = start(engine, QUERIES["kleene"])
    empty = sizes(matcher)
    drain(matcher, batch(0, BATCH))
    assert sizes(matcher) != empty
    for _ in matcher.flush():
        pass
    assert sizes(matcher) == empty
