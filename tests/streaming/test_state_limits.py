"""Limits on the state of a stream: the oldest runs go, are counted, and nothing else is lost (S11.4)."""

from __future__ import annotations

import copy
import logging
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cerise
from cerise.engines.base import Options
from cerise.engines.census import weigh
from cerise.engines.limits import Limits
from cerise.errors import PlanError, UnsupportedError
from cerise.events import Schema, read_times
from cerise.pattern.query import Output
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.sources import Roles
from cerise.stream_queries import bind_queries, clause_binder
from cerise.streaming.bucket import Bucket
from cerise.streaming.bucket_plan import BucketPlan
from cerise.streaming.entry import Arrival, MicroBatch, find_top
from cerise.streaming.limits import eviction
from cerise.streaming.limits.eviction import LimitKeeper, RunsByAge
from cerise.streaming.limits.state_limits import (
    TOLD_PARTITIONS,
    UNLIMITED,
    Evictions,
    StateLimits,
    parse_size,
)
from cerise.streaming.live_query import check_query
from cerise.streaming.state import journal as journals
from cerise.streaming.state.journal import Journal
from cerise.streaming.state.saved_state import MemoryHome
from cerise.streaming.watermark import TimeRules
from tests.support.cases.stream_runner import SOURCE, plan_of, play, split
from tests.support.strategies.pairs import Pair, pairs
from tests.test_agreement import bound_of, examples
from tests.tiers import mostly_nightly

COLUMNS = pa.schema([("t", pa.int64()), ("kind", pa.string()), ("id", pa.int64())])
NEXT = "PATTERN SEQ(A a, B b) USE skip_till_next_match WHERE [id] WITHIN 1000000 RETURN a.t AS a, b.t AS b"
ANY = "PATTERN SEQ(A a, B b, C c) USE skip_till_any_match WHERE [id] WITHIN 60 RETURN a.t AS a, c.t AS c"
UNKEYED = "PATTERN SEQ(A a, B b) USE skip_till_next_match WITHIN 40 RETURN a.t AS a, b.t AS b"
KLEENE = (
    "PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WHERE [id] WITHIN 30 RETURN a.t AS a, c.t AS c"
)
COUNTED = "PATTERN SEQ(A a, B b, C c) USE skip_till_next_match WHERE [id] WITHIN 9 EVENTS RETURN a.t AS a"
BEFORE = (
    "PATTERN SEQ(NOT(C c), A a, B b) USE skip_till_any_match WHERE [id] WITHIN 40 RETURN a.t AS a, b.t AS b"
)
AFTER = (
    "PATTERN SEQ(A a, B b, NOT(C c)) USE skip_till_any_match WHERE [id] WITHIN 40 RETURN a.t AS a, b.t AS b"
)
BETWEEN = (
    "PATTERN SEQ(A a, NOT(C c), B b) USE skip_till_any_match WHERE [id] WITHIN 40 RETURN a.t AS a, b.t AS b"
)
LATE = (
    "PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE [id] AND lower(coalesce(a.kind, b.kind)) = 'a' "
    "WITHIN 30 RETURN a.t AS a, b.t AS b"
)  # only the reference can run it
ROWS = (
    "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY id ORDER BY t MEASURES A.t AS a, C.t AS c "
    "ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* C) WITHIN 60 "
    "DEFINE A AS kind = 'A', B AS kind <> 'C', C AS kind = 'C')"
)
LONG = ROWS.replace("B* C", "B* C{2}")


def make_events(rows: Sequence[tuple[int, str, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], []]
    return pa.table(
        [pa.array(list(each), one.type) for each, one in zip(columns, COLUMNS, strict=True)], schema=COLUMNS
    )


def make_plan(query: Any, state_limits: StateLimits = UNLIMITED, /, **options: Any) -> BucketPlan:
    how = Options(**options)
    found = bind_queries(
        query,
        COLUMNS,
        Roles("t", "kind", (), (), None),
        clause_binder(COLUMNS, "standard", how),
        arrival=True,
    )
    return BucketPlan(found.queries, Schema(COLUMNS, "t"), TimeRules({SOURCE: 0}), how, state_limits)


@dataclass
class Evicted:
    """The starts that went, with the step in which they went."""

    steps: dict[tuple[str, int], int] = field(default_factory=dict)
    step: int = 0
    count: int = 0
    repeats: bool = False  # whether a step is repeated, so that it was noted before

    def note(self, gone: RunsByAge) -> None:
        if self.repeats:
            return
        for number, each in enumerate(gone.searches):
            for time in each.census.times[gone.rows[gone.which == number]].tolist():
                self.steps.setdefault((each.name, time), self.step)
                self.count += 1


@pytest.fixture
def evicted(monkeypatch: pytest.MonkeyPatch) -> Evicted:
    noted, drop = Evicted(), LimitKeeper._drop

    def note(self: LimitKeeper, gone: RunsByAge) -> Iterator[Any]:
        noted.note(gone)
        yield from drop(self, gone)

    def replay(self: Bucket, entries: Any) -> None:
        noted.repeats = True
        again(self, entries)
        noted.repeats = False

    again = Bucket.replay
    monkeypatch.setattr(LimitKeeper, "_drop", note)
    monkeypatch.setattr(Bucket, "replay", replay)
    return noted


@dataclass
class Run:
    """The outcome of a stream, step by step."""

    found: list[list[dict[str, Any]]] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    most: list[int] = field(default_factory=list)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for step in self.found for row in step]


def run(
    plan: BucketPlan, batches: Sequence[pa.Table], *, reload: float = 0.0, twice: bool = False,
    evicted: Evicted | None = None,
) -> Run:  # fmt: skip
    """Step through batches, now and then from the saved state; if asked, each step twice from one state."""
    home, dice, out = MemoryHome(), random.Random(1), Run()
    for number, batch in enumerate([*batches, None]):
        if evicted is not None:
            evicted.step = number
        again = copy.deepcopy(home) if twice else None
        bucket, step = _step(plan, home, batch, fresh=dice.random() < reload)
        if again is not None:
            count = None if evicted is None else (evicted.count, dict(evicted.steps))
            _, repeated = _step(plan, again, batch, fresh=True)
            assert [table.to_pylist() for _, table in repeated] == [table.to_pylist() for _, table in step]
            assert again.values.keys() == home.values.keys()
            assert again.values["manifest"] == home.values["manifest"]
            if evicted is not None and count is not None:
                evicted.count, evicted.steps = count
        out.found.append([row for name, table in step for row in show(plan, name, table)])
        out.facts.append(bucket.facts())
        censuses = [each.census() for query in bucket.live.values() for each in query.searches]
        out.kept.append(sum(map(len, censuses)))
        out.weights.append(sum(each.nbytes for each in censuses) + bucket.held.weight)
        out.most.append(
            max((int(np.bincount(each.parts).max()) for each in censuses if len(each)), default=0)
        )
    return out


def _step(
    plan: BucketPlan, home: MemoryHome, batch: pa.Table | None, *, fresh: bool
) -> tuple[Any, list[Any]]:
    if fresh:
        journals.CACHE.clear()
    journal = Journal(plan, home)
    bucket = journal.open()
    if batch is None:  # the end of time: all that is held is released
        step = bucket.step(MicroBatch([], floor=1 << 40))
    else:
        top = find_top(batch, plan.roles, plan.rules, None) if len(batch) else None
        step = bucket.step(MicroBatch([Arrival(SOURCE, top, batch)]))
    journal.keep(bucket, step.entry)
    return bucket, step.found


def show(plan: BucketPlan, name: str, table: pa.Table) -> list[dict[str, Any]]:
    question = next(each.question for each in plan.queries if each.name == name)
    shown = question.finish([table]) if isinstance(question, RowClause) else table
    rows: list[dict[str, Any]] = shown.to_pylist()
    return [{"query": name, **row} for row in rows]


@pytest.fixture(autouse=True)
def no_live_buckets() -> Iterator[None]:
    journals.CACHE.clear()
    yield
    journals.CACHE.clear()


def random_batches(seed: int, size: int = 110, keys: int = 4, most: int = 12) -> list[pa.Table]:
    """Events of distinct times, in small batches."""
    dice = random.Random(seed)
    rows = [(t, dice.choice("AAABBC"), dice.randrange(keys)) for t in range(1, size + 1)]
    return split(make_events(rows), dice, most)


# ---- M22


@pytest.mark.parametrize("reload", [0.0, 0.5, 1.0])
def test_a_tenfold_overload_stays_under_the_limit_and_loses_only_what_it_counts(reload: float) -> None:
    keys, most = 10_000, 1_000
    dice = random.Random(7)
    opening = [(t, "A", t) for t in range(1, keys + 1)]
    closing = [(keys + 1 + i, "B", key) for i, key in enumerate(dice.sample(range(1, keys + 1), keys))]
    mixed = [(2 * keys + 1 + i, dice.choice("AB"), dice.randrange(1, 50)) for i in range(500)]
    rows = [*opening, *closing, *mixed]
    cuts = [0, 700, 2_000, 2_001, 9_500, 10_000, 10_500, 15_000, 20_000, 20_100, 20_500]
    batches = [make_events(rows[low:high]) for low, high in pairwise(cuts)]
    limited = run(make_plan(NEXT, StateLimits(runs=most, on_limit="evict")), batches, reload=reload)
    whole = run(make_plan(NEXT), batches)

    alive: list[tuple[int, int]] = []  # the model: open starts, the oldest first
    lost, expected, done = 0, [], 0
    released = [*(batch.column("t").to_pylist()[-1] for batch in batches), 1 << 40]
    for until in released:
        while done < len(rows) and rows[done][0] < until:
            t, kind, key = rows[done]
            done += 1
            if kind == "B":
                expected += [(start, t) for start, own in alive if own == key]
                alive = [each for each in alive if each[1] != key]
            else:
                alive.append((t, key))
        lost += max(0, len(alive) - most)
        alive = alive[-most:]

    assert max(limited.kept) == most
    assert max(whole.kept) > 9 * most
    assert sorted((row["a"], row["b"]) for row in limited.rows) == sorted(expected)
    found, all_ = ({(row["a"], row["b"]) for row in each.rows} for each in (limited, whole))
    assert found < all_
    evictions = limited.facts[-1]["evicted"]["1"]
    assert evictions == lost > 0
    missing = {a for a, _ in all_ - found}
    ended = whole.kept[-1] - limited.kept[-1]  # starts that never had a match
    assert evictions == len(missing) + ended


# ---- all queries, engines and limits: a match is lost exactly if its start went before


CASES = [
    (NEXT, None), (NEXT, "nfa-backtrack"), (ANY, None), (ANY, "nfa"), (ANY, "rcep"), (UNKEYED, None),
    (KLEENE, None), (KLEENE, "nfa"), (COUNTED, None), (BEFORE, "nfa"), (BEFORE, "rcep"), (AFTER, "nfa"),
    (AFTER, "rcep"), (LATE, None), (LATE.replace("SEQ(", "SEQ(NOT(C c), "), None),
    (BETWEEN, "nfa"), (BETWEEN, "rcep"),
]  # fmt: skip
SIZES = (Limits(snapshot_bytes=4_000, entry_bytes=500), Limits.all(1))
LIMITS = [
    StateLimits(runs=3, on_limit="evict"), StateLimits(runs_per_partition=1, on_limit="evict"),
    StateLimits(runs=7, runs_per_partition=2, on_limit="evict"), StateLimits(state=900, on_limit="evict"),
]  # fmt: skip


@pytest.mark.parametrize("limits", mostly_nightly(LIMITS, (LIMITS[0], LIMITS[2])), ids=str)
@pytest.mark.parametrize(("query", "engine"), CASES)
def test_a_match_is_lost_exactly_if_its_start_was_evicted(
    query: str, engine: str | None, limits: StateLimits, evicted: Evicted
) -> None:
    lost = 0
    for seed in range(2):
        evicted.steps, evicted.count = {}, 0
        batches = random_batches(seed)
        sizes = SIZES[seed]
        whole = run(make_plan(query, engine=engine), batches)
        plan = make_plan(query, limits, engine=engine, limits=sizes)
        limited = run(plan, batches, reload=0.5, twice=seed == 0, evicted=evicted)
        for number, step in enumerate(whole.found):
            kept = [row for row in step if evicted.steps.get(("1", row["a"]), 1 << 40) >= number]
            assert in_order(limited.found[number]) == in_order(kept)
        assert limited.facts[-1]["evicted"].get("1", 0) == evicted.count
        assert_kept(limited, limits)
        lost += len(whole.rows) - len(limited.rows)
    assert lost > 0 or limits.state is not None


def assert_kept(limited: Run, limits: StateLimits) -> None:
    most = 1 << 60
    assert max(limited.kept) <= (limits.runs or most)
    assert max(limited.most) <= (limits.runs_per_partition or most)
    assert max(limited.weights) <= (limits.state_bytes or most)


def in_order(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.parametrize("limits", mostly_nightly(LIMITS, LIMITS[1:3]), ids=str)
@pytest.mark.parametrize("query", [ROWS, LONG])
def test_rows_that_were_evicted_start_no_match_and_all_others_do(
    query: str, limits: StateLimits, evicted: Evicted
) -> None:
    lost = 0
    for seed in range(2):
        evicted.steps, evicted.count = {}, 0
        batches = random_batches(seed)
        whole = run(make_plan(query), batches)
        sizes = SIZES[seed]
        limited = run(
            make_plan(query, limits, limits=sizes), batches, reload=0.5, twice=True, evicted=evicted
        )
        kept = [row for row in whole.rows if ("1", row["a"]) not in evicted.steps]
        assert in_order(limited.rows) == in_order(kept)
        assert limited.facts[-1]["evicted"].get("1", 0) == evicted.count
        assert_kept(limited, limits)
        lost += len(whole.rows) - len(limited.rows)
    assert lost > 0 or limits.state is not None


def test_rows_outside_of_matches_are_shown_if_their_start_was_evicted() -> None:
    query = (
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY id ORDER BY t MEASURES MATCH_NUMBER() AS m "
        "ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP PAST LAST ROW PATTERN (A B* C) WITHIN 60 "
        "DEFINE A AS kind = 'A', B AS kind <> 'C', C AS kind = 'C')"
    )
    for seed in range(1):
        for limits in LIMITS[:2]:
            batches = random_batches(seed)
            limited = run(make_plan(query, limits), batches, reload=0.5, twice=True)
            assert sum(limited.facts[-1]["evicted"].values()) > 0 or limits.state is not None
            shown = Counter(row["t"] for row in limited.rows)
            assert shown == Counter(t for batch in batches for t in batch.column("t").to_pylist())


@pytest.mark.parametrize("query", [NEXT, ANY, KLEENE, ROWS])
def test_a_limit_of_bytes_lets_the_oldest_go(query: str, evicted: Evicted) -> None:
    batches = random_batches(2)
    whole = run(make_plan(query), batches)
    most = max(whole.weights) // 2
    limited = run(make_plan(query, StateLimits(state=most, on_limit="evict")), batches, evicted=evicted)
    assert most // 4 < max(limited.weights) <= most
    assert 0 < evicted.count == limited.facts[-1]["evicted"]["1"]
    assert set(in_order(limited.rows)) <= set(in_order(whole.rows))


# ---- the same in every process


@pytest.mark.parametrize("limits", mostly_nightly(LIMITS, (LIMITS[0], LIMITS[3])), ids=str)
@pytest.mark.parametrize("query", [*dict.fromkeys(query for query, _ in CASES), ROWS])
def test_evictions_do_not_depend_on_where_the_state_was_loaded(query: str, limits: StateLimits) -> None:
    for seed in range(1):
        batches = random_batches(seed)
        known = run(make_plan(query, limits), batches)
        for reload, sizes in (
            (1.0, Limits()),
            (0.5, Limits.all(1)),
            (0.3, Limits.all(3)),
            (0.0, Limits.all(2)),
        ):
            other = run(make_plan(query, limits, limits=sizes), batches, reload=reload)
            assert [in_order(each) for each in other.found] == [in_order(each) for each in known.found]
            assert other.facts == known.facts
            assert (other.kept, other.weights) == (known.kept, known.weights)


def test_a_live_bucket_that_missed_batches_steps_through_them_one_by_one() -> None:
    batches, limits = random_batches(5, most=6), StateLimits(runs=4, on_limit="evict")
    plan = make_plan(ANY, limits, engine="nfa")
    known = run(plan, batches)
    journals.CACHE.clear()
    home = MemoryHome()
    late = None
    for number, batch in enumerate(batches):
        if number == len(batches) // 3:
            late = journals.CACHE.take(plan, 0)  # another process takes the next batches
        bucket, _ = _step(plan, home, batch, fresh=False)
    assert late is not None
    journals.CACHE.clear()
    journals.CACHE.add(late, 0)
    caught_up = Journal(plan, home).open()
    assert caught_up is late.bucket
    assert caught_up.facts() == bucket.facts() == known.facts[-2]


def test_random_queries_evict_alike_and_give_no_match_that_batch_does_not() -> None:
    @examples(60, 1, 0)
    @given(pairs(), st.integers(0, 2**32))
    def agrees(pair: Pair, seed: int) -> None:
        dice = random.Random(seed)
        bound = bound_of(pair)
        question = Sase(bound)
        try:
            check_query("q", question, Options(), unbounded=True)
        except UnsupportedError:
            return
        limits = dice.choice(LIMITS[:3])
        ordered = pair.table.take(pa.array(np.argsort(read_times(pair.table, pair.schema), kind="stable")))
        batches, played = split(ordered, dice), []
        for sizes, reload in ((Limits(), 0.0), (Limits.all(1), 1.0), (Limits.all(3), 0.5)):
            journals.CACHE.clear()
            plan = plan_of(question, ordered, pair.schema.time, Options(limits=sizes), 0)
            played.append(play(replace(plan, limits=limits), batches, random.Random(seed), reload=reload))
        rows = [Counter(str(row) for table in each.found for row in table.to_pylist()) for each in played]
        assert rows[0] == rows[1] == rows[2]
        query = bound.query
        if query.output is not Output.NON_OVERLAPPING and query.limit is None and query.totals is None:
            journals.CACHE.clear()
            plan = plan_of(question, ordered, pair.schema.time, Options(), 0)
            whole = play(plan, batches, dice)
            assert rows[0] <= Counter(str(row) for table in whole.found for row in table.to_pylist())

    agrees()


def test_a_new_stream_whose_state_cannot_be_rebuilt_may_evict() -> None:
    query = "PATTERN SEQ(A a, B b, C+ c[]) USE skip_till_any_match WITHIN 9 EVENTS RETURN a.t AS a"
    limited = run(make_plan(query, StateLimits(runs=3, on_limit="evict")), random_batches(0), reload=1.0)
    assert max(limited.kept) <= 3 < sum(limited.facts[-1]["evicted"].values())


def test_several_queries_share_a_limit_and_the_oldest_of_all_go() -> None:
    queries = {"b": UNKEYED, "a": NEXT, "rows": ROWS}
    plan = make_plan(queries, StateLimits(runs=6, on_limit="evict"))
    batches = [make_events([(1, "A", 1), (2, "A", 2), (3, "A", 3), (4, "A", 4)]), make_events([(5, "X", 5)])]
    limited = run(plan, batches)
    # by time 5 each query keeps 4 starts; the two oldest times go, and of them all that began with them
    assert limited.facts[1]["evicted"] == {"a": 2, "b": 2, "rows": 2}
    assert limited.facts[1]["evicted_partitions"]["a"] == {"1": 1, "2": 1}
    assert limited.kept[1] == 6


def test_a_query_from_another_evicts_in_both() -> None:
    inner = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 100 RETURN a.t AS a, a.id AS id INTO pair"
    outer = (
        "PATTERN SEQ(pair p, pair q) FROM pair USE skip_till_any_match WITHIN 100 RETURN p.a AS a, q.a AS b"
    )
    query = f"{inner}; {outer}"
    for seed in range(2):
        batches = random_batches(seed)
        whole = run(make_plan(query), batches)
        limited = run(
            make_plan(query, StateLimits(runs=6, on_limit="evict")), batches, reload=0.5, twice=True
        )
        assert max(limited.kept) <= 6 < max(whole.kept)
        assert limited.facts[-1]["evicted"]["1"] > 0
        found, all_ = ({(row["a"], row["b"]) for row in each.rows} for each in (limited, whole))
        assert found < all_


# ---- errors


ONE = make_events([(1, "A", 1), (2, "A", 1), (3, "A", 2), (4, "A", 1)])


@pytest.mark.parametrize(
    ("query", "limits", "text"),
    [
        (NEXT, StateLimits(runs=3), "query 1 keeps 4 runs: more than runs=3"),
        (
            NEXT, StateLimits(runs_per_partition=2),
            "query 1 keeps 3 runs of partition 1, more than runs_per_partition=2",
        ),
        (UNKEYED, StateLimits(runs_per_partition=2), "query 1 keeps 4 runs, more than runs_per_partition=2"),
        (KLEENE, StateLimits(runs=3), "query 1 keeps 4 (events|runs): more than runs=3"),
        (ROWS, StateLimits(runs_per_partition=2), "query 1 keeps 3 rows of partition 1, more than runs_per"),
        (NEXT, StateLimits(state=100), r"the state has \d+ bytes, more than state=100; \d+ bytes of it: q"),
        (NEXT, StateLimits(held=1), "2 events wait for the watermark, more than held=1"),
        (NEXT, StateLimits(held=1, runs=1, on_limit="evict"), "2 events wait for the watermark, more than"),
        (
            [NEXT, UNKEYED], StateLimits(runs=7),
            "query 1 keeps 4 runs, and with other queries 8: more than runs=7",
        ),
    ],
)  # fmt: skip
def test_a_limit_ends_the_batch_and_the_saved_state_is_untouched(
    query: Any, limits: StateLimits, text: str
) -> None:
    plan, home = make_plan(query, limits), MemoryHome()
    _step(plan, home, make_events([]), fresh=True)
    before = dict(home.values)
    last = make_events([(9, "X", 9), *([(9, "X", 8)] if limits.held else [])])
    with pytest.raises(PlanError, match=text) as error:
        _step(plan, home, pa.concat_tables([ONE, last]), fresh=False)
    assert error.value.hint is not None
    assert error.value.hint.endswith("the state before this batch is untouched")
    assert home.values == before
    wide = replace(plan, limits=StateLimits())
    _step(wide, home, pa.concat_tables([ONE, last]), fresh=False)


def test_expired_runs_do_not_count() -> None:
    for query in (UNKEYED, KLEENE.replace("30", "40")):
        plan = make_plan(query, StateLimits(runs=4))
        rows = [(40 * i + j, "A", 1) for i in range(1, 8) for j in range(4)]
        assert max(run(plan, [make_events(rows[n : n + 2]) for n in range(0, len(rows), 2)]).kept) == 4


def test_a_state_that_is_too_large_without_runs_is_an_error() -> None:
    plan = make_plan(NEXT, StateLimits(state=10, on_limit="evict"))
    with pytest.raises(PlanError, match="events that wait for the watermark") as error:
        run(plan, [make_events([(9, "X", 1), (9, "X", 2)])])
    assert "nothing is left to evict" in str(error.value.hint)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"runs": 0}, "runs is 0"), ({"held": True}, "held is True"), ({"runs_per_partition": "9"}, "is '9'"),
        ({"on_limit": "drop"}, "on_limit is 'drop'"), ({"state": "much"}, "state is 'much', not a size"),
        ({"state": 0}, "state is 0"), ({"state": True}, "not a size"), ({"state": "1 XB"}, "not a size"),
    ],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(PlanError, match=text):
        StateLimits(**given)


def test_sizes_are_read() -> None:
    assert [parse_size(each) for each in ("1 GB", "1gib", "10", "2_000 kB", "1.5MB")] == [
        10**9, 2**30, 10, 2_000_000, 1_500_000,
    ]  # fmt: skip


def test_an_engine_whose_runs_depend_on_the_process_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="depend on the process"):
        make_plan(ANY, StateLimits(runs=9, on_limit="evict"), engine="nfa-merge")
    make_plan(ANY, StateLimits(runs=9), engine="nfa-merge")


# ---- limits that change, counters


@pytest.mark.parametrize("query", [NEXT, ANY, KLEENE, ROWS])
def test_limits_may_change_at_a_restart(query: str) -> None:
    batches = random_batches(3)
    first, second = batches[: len(batches) // 2], batches[len(batches) // 2 :]
    free, tight = make_plan(query), make_plan(query, StateLimits(runs=5, on_limit="evict"))
    for plans in ((free, tight), (tight, free)):
        home = MemoryHome()
        for plan, some in zip(plans, (first, second), strict=True):
            counts = []
            for batch in some:
                bucket, _ = _step(plan, home, batch, fresh=True)
                counts.append(bucket.counts.evicted.totals.total())
            if plan is tight:
                assert sum(len(each.census()) for q in bucket.live.values() for each in q.searches) <= 5
                assert counts[-1] > counts[0] or counts[0] > 0
            else:
                assert len(set(counts)) == 1  # nothing more goes, and nothing is forgotten
        assert counts[-1] > 0


def test_evictions_are_counted_by_partition_for_a_bounded_number_of_them() -> None:
    counts = Evictions()
    for key in range(3 * TOLD_PARTITIONS):
        counts.add("q", {str(key): 1 + key % 7, "worst": 2})
    plain = counts.to_plain()
    assert (
        plain["evicted"]["q"] == sum(1 + key % 7 for key in range(3 * TOLD_PARTITIONS)) + 6 * TOLD_PARTITIONS
    )
    assert len(plain["evicted_partitions"]["q"]) == TOLD_PARTITIONS
    assert max(plain["evicted_partitions"]["q"], key=plain["evicted_partitions"]["q"].get) == "worst"
    assert Evictions.of_plain(plain).to_plain() == plain


def test_a_watcher_evicts_says_so_and_remembers_it(caplog: pytest.LogCaptureFixture) -> None:
    limits = cerise.StateLimits(runs=2, on_limit="evict")

    def start() -> cerise.Watcher:
        return cerise.Watcher({"pair": NEXT}, COLUMNS, time="t", type="kind", delay=0, limits=limits)

    watcher = start()
    with caplog.at_level(logging.WARNING):
        watcher.feed(ONE)
        watcher.advance(9)
        watcher.feed(make_events([(10, "A", 7), (11, "A", 7)]))
        watcher.advance(12)
    assert [each.message for each in caplog.records] == [
        "a limit has evicted 1 of the oldest runs of query pair, 1 in all"
    ]
    assert watcher.figures["evicted"] == {"pair": 4}
    assert watcher.figures["evicted_partitions"] == {"pair": {"1": 3, "2": 1}}
    other = start()
    other.load(watcher.save())
    assert other.figures["evicted"] == {"pair": 4}
    assert other.feed(make_events([(13, "B", 7)])).num_rows == 0
    assert other.advance(14).num_rows == 2


def test_a_watcher_refuses_to_go_on_after_a_limit_until_a_state_is_loaded() -> None:
    watcher = cerise.Watcher(NEXT, COLUMNS, time="t", type="kind", delay=0, limits=StateLimits(runs=2))
    watcher.feed(ONE.slice(0, 2))
    saved = watcher.save()
    with pytest.raises(PlanError, match="more than runs=2"):
        watcher.feed(make_events([(3, "A", 3), (4, "A", 4), (5, "X", 5)]))
    for call in (lambda: watcher.feed(ONE), watcher.flush, watcher.save, lambda: watcher.advance(9)):
        with pytest.raises(PlanError, match="a batch was taken in part"):
            call()
    watcher.load(saved)
    assert watcher.feed(make_events([(3, "B", 1), (4, "X", 1)])).num_rows == 2


def test_a_table_weighs_the_same_however_it_is_cut() -> None:
    inner = pa.array([{"x": 1, "y": "ab"}, None, {"x": 2, "y": None}, {"x": 3, "y": ""}])
    table = pa.table(
        {
            "i": [1, None, 3, 4], "s": ["a", None, "ccc", ""], "l": [[1], None, [2, 3], []], "st": inner,
            "d": pa.array(["u", "v", "u", None]).dictionary_encode(), "b": [True, False, None, True],
            "n": pa.nulls(4), "m": pa.array([[("k", 1)], [], None, []], pa.map_(pa.string(), pa.int64())),
        }
    )  # fmt: skip
    pieces = pa.concat_tables([table.slice(0, 1), table.slice(1, 2), table.slice(3, 1)])
    assert weigh(table) == weigh(pieces) == weigh(pieces.combine_chunks())
    assert 0 < weigh(table.drop_columns(["m"])) <= table.drop_columns(["m"]).nbytes
    assert eviction.show_key((1, None, "x")) == "1, null, x"
