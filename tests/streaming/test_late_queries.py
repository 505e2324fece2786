"""Queries that only the reference can run, on a stream: the answer of batch, late by one window (S11.1)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cerise
from cerise.engines.base import Options
from cerise.engines.choose import why_late
from cerise.engines.limits import Limits
from cerise.engines.reference.late import LateMatcher, why_no_window
from cerise.engines.results.match_table import to_table
from cerise.errors import DataError, StateLayoutError, UnsupportedError
from cerise.events import EventBatch, Schema, read_times
from cerise.kinds import INT64_MAX, INT64_MIN
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Per, Totals
from cerise.run.question import concat
from cerise.run.sase_search import Sase
from cerise.streaming.live_query import check_query
from tests.streaming.test_stream_agreement import late_ids
from tests.support.cases.runners import whole
from tests.support.cases.stream_runner import disorder, plan_of, play, split, unite
from tests.support.strategies.pairs import Pair, late_pairs, pairs
from tests.support.strategies.queries import params_of
from tests.test_agreement import bound_of, examples, rows
from tests.tiers import mostly_nightly

GOES = tuple(range(6))
UNPAID = "PATTERN SEQ(order o, NOT payment p) WHERE [id] WITHIN 10 OUTPUT NON_OVERLAPPING"
COLUMNS = pa.schema([("t", pa.int64()), ("kind", pa.string()), ("id", pa.int64())])


def table_of(*events: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, each, strict=True)) for each in events], COLUMNS)


def watch(query: object = UNPAID, **more: object) -> cerise.Watcher:
    return cerise.Watcher(query, COLUMNS, time="t", type="kind", delay=0, **more)  # type: ignore[arg-type]


# ---- random queries


def outcome_of(run: Callable[[], pa.Table]) -> Counter[str] | str:
    """The rows of an answer, or the error of a RETURN that cannot be computed (S4.6)."""
    try:
        return rows(run())
    except DataError as error:
        return "an error" if "RETURN" in error.problem else error.problem


def with_totals(pair: Pair, dice: random.Random) -> Pair:
    """A query for matches, or for totals that are final at some time."""
    per = dice.choice((None, None, None, Per.EVENT, Per.WINDOW if pair.query.slide else Per.EVENT))
    if per is None:
        return pair
    query = replace(pair.query, returns=Totals(Totals().items, per))
    return replace(pair, query=query, params={name: pair.params[name] for name in params_of(query)})


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_a_stream_answers_as_batch_does_without_the_late_events(go: int) -> None:
    seen: Counter[str] = Counter()

    @examples(200, len(GOES), go)
    @given(late_pairs(), st.integers(0, 2**32))
    def agrees(pair: Pair, seed: int) -> None:
        dice = random.Random(seed)
        question = Sase(bound_of(with_totals(pair, dice)))
        options = Options(limits=dice.choice((Limits(), Limits.all(1), Limits.all(3))))
        seen["all"] += 1
        try:
            check_query("q", question, options, unbounded=True)
        except UnsupportedError:
            return
        seen["late"] += why_late(question.bound) is not None
        moved, delay = dice.choice((0, 2, 5)), dice.choice((0, 2, 5))
        ordered = pair.table.take(pa.array(np.argsort(read_times(pair.table, pair.schema), kind="stable")))
        arrived = disorder(ordered, pair.schema, dice, moved, ties=True)
        batches = split(arrived, dice)
        dropped = late_ids(batches, pair.schema.time, delay, pair)
        plan = plan_of(question, arrived, pair.schema.time, options, delay)
        kept = [each not in dropped for each in arrived.column("id").to_pylist()]
        accepted = arrived.filter(pa.array(kept, pa.bool_()))

        def stream() -> pa.Table:
            played = play(plan, batches, dice)
            seen["before the end"] += any(played.steps)
            return unite(question, played.found)

        found = outcome_of(stream)
        seen["matches"] += bool(found)
        assert found == outcome_of(lambda: whole(question.bound, accepted, options))

    agrees()
    assert seen["late"] > 0.6 * seen["all"], seen
    assert seen["matches"] > 0.2 * seen["all"], seen
    assert seen["before the end"] > 0.1 * seen["all"], seen


@pytest.mark.parametrize("go", mostly_nightly(GOES, (0, 1)))
def test_any_query_with_a_window_of_time_can_run_late(go: int) -> None:
    @examples(150, len(GOES), go)
    @given(pairs(counted=False), st.integers(0, 2**32))
    def agrees(pair: Pair, seed: int) -> None:
        bound, dice = bound_of(pair), random.Random(seed)
        if why_no_window(bound) is not None or bound.query.totals is not None:
            return
        found = outcome_of(lambda: concat(list(run_late(bound, pair.table, dice)), bound.output_schema))
        assert found == outcome_of(lambda: whole(bound, pair.table, Options(engine="reference")))

    agrees()


def run_late(bound: Bound, table: pa.Table, dice: random.Random) -> Iterator[pa.Table]:
    """Feed slices, which may divide events of equal time; advance now and then; save and load."""
    events = EventBatch.of(table, bound.schema, reads=bound.ties)
    matcher, start = LateMatcher(bound, Options()), 0
    while start < len(events):
        stop = start + dice.randrange(1, 5)
        found = [*matcher.feed(events.slice(start, stop))]
        if dice.random() < 0.7:
            low = int(events.times[min(stop, len(events)) - 1])
            high = int(events.times[stop]) if stop < len(events) else low + 3
            found += matcher.advance(dice.randint(low, high))
        yield from (to_table(each, bound) for each in found)
        if dice.random() < 0.5:
            state = matcher.save()
            matcher = LateMatcher(bound, Options())
            matcher.load(state)
            assert matcher.save() == state
        start = stop
    yield from (to_table(each, bound) for each in matcher.flush())


# ---- a stream, step by step


def test_a_match_is_given_when_the_watermark_has_passed_its_last_event_by_a_window() -> None:
    watcher = watch()
    watcher.feed(table_of((1, "order", 7), (3, "order", 7)))
    assert len(watcher.advance(11)) == 0  # an event of time 11 may still veto the order of time 1
    assert watcher.advance(12)["first_time"].to_pylist() == [1]
    assert len(watcher.advance(13)) == 0
    assert watcher.advance(14)["first_time"].to_pylist() == [3]
    assert len(watcher.flush()) == 0


def test_a_chosen_match_bars_the_matches_that_overlap_it_across_steps() -> None:
    query = "PATTERN SEQ(order a, order b, NOT payment p) WHERE [id] WITHIN 10 OUTPUT NON_OVERLAPPING"
    table = table_of(*((time, "order", time % 2) for time in range(40)))
    batch = cerise.find(table, query, time="t", type="kind")
    watcher, found = watch(query), []
    for time in range(40):
        found += watcher.feed(table.slice(time, 1)).to_pylist()
    assert len(found) > 5
    assert [*found, *watcher.flush().to_pylist()] == batch.sort_by("last_time").to_pylist()


def test_the_state_holds_the_events_of_two_windows() -> None:
    query = "PATTERN SEQ(order a, order b, NOT payment p) WITHIN 10 LIMIT 2 PER EVENT"
    watcher, kept, sizes = watch(query), [], []
    for time in range(400):
        watcher.feed(table_of((time, "order", time)))
        kept.append(watcher.figures["alive"]["1"])
        sizes.append(len(watcher.save()))
    assert max(each["events"] for each in kept) <= 2 * 10 + 1
    assert max(each["matches"] for each in kept) <= 2 * (10 + 1)
    assert max(sizes[200:]) <= 1.05 * max(sizes[40:200])


def test_equal_events_have_the_ids_of_batch_when_their_like_has_left_the_state() -> None:
    table = table_of((0, "order", 1), (0, "order", 1), (30, "order", 1), (30, "order", 1), (60, "x", 0))
    query = "PATTERN SEQ(order o, NOT payment p) WITHIN 5 LIMIT 1 PER EVENT"
    watcher = watch(query)
    found = [each for n in range(5) for each in watcher.feed(table.slice(n, 1))["match_id"].to_pylist()]
    assert sorted(found) == sorted(cerise.find(table, query, time="t", type="kind")["match_id"].to_pylist())
    assert len(set(found)) == 4


def test_a_query_from_a_late_query() -> None:
    inner = "PATTERN SEQ(order o, NOT payment p) WHERE [id] WITHIN 10 OUTPUT NON_OVERLAPPING INTO unpaid"
    query = f"{inner}; PATTERN SEQ(unpaid a, unpaid b) FROM unpaid WHERE a.o.id = b.o.id WITHIN 30"
    rng = random.Random(7)
    table = table_of(*((t, rng.choice(("order", "payment")), rng.randrange(3)) for t in range(120)))
    watcher, found = watch(query), []
    for start in range(0, 120, 7):
        found += watcher.feed(table.slice(start, 7)).to_pylist()
    early = len(found)
    found += watcher.flush().to_pylist()
    batch = cerise.find(table, query, time="t", type="kind")
    assert early > 0
    assert rows(pa.Table.from_pylist(found, batch.schema)) == rows(batch)


def test_a_repeated_step_gives_the_same_matches_and_the_same_state() -> None:
    rng = random.Random(3)
    batches = [table_of(*((t, rng.choice(("order", "payment")), rng.randrange(2)) for t in range(n, n + 9)))
               for n in range(0, 90, 9)]  # fmt: skip
    state = watch().save()
    for batch in batches:
        once, again = watch(), watch()
        once.load(state)
        again.load(state)
        assert once.feed(batch) == again.feed(batch)
        state = once.save()
        assert again.save() == state


def test_times_at_the_ends() -> None:
    watcher = watch()
    watcher.feed(
        table_of((INT64_MIN, "order", 1), (INT64_MIN + 3, "payment", 1), (INT64_MIN + 4, "order", 2))
    )
    assert len(watcher.advance(INT64_MIN + 14)) == 0
    assert watcher.advance(INT64_MIN + 15)["id"].to_pylist() == [2]
    watcher.feed(table_of((INT64_MAX - 2, "order", 3)))
    assert len(watcher.advance(INT64_MAX)) == 0
    assert watcher.flush()["id"].to_pylist() == [3]


# ---- what is said, and refused


def test_a_state_is_of_one_query_and_one_engine() -> None:
    schema = Schema(COLUMNS, "t", "kind")
    matcher = LateMatcher(bind(parse(UNPAID), schema), Options())
    other = LateMatcher(bind(parse(UNPAID.replace("10", "11")), schema), Options())
    with pytest.raises(DataError, match="of another query"):
        other.load(matcher.save())
    with pytest.raises(StateLayoutError, match="not a saved state of this engine"):
        matcher.load(b"cerise.nfa.9\n")


@pytest.mark.parametrize(
    ("query", "more", "reason"),
    [
        (UNPAID.replace("10", "10 events"), {}, "late by a window of time, and its window counts events"),
        (
            "PATTERN SEQ(order a, payment b) WHERE lower(coalesce(a.kind, b.kind)) = 'x'",
            {"unbounded": True}, "late by a window of time, and it has no WITHIN",
        ),
        (UNPAID, {"options": Options(engine="nfa")}, "the engine 'nfa' cannot run it"),
        (UNPAID, {"options": Options(engine="reference")}, "the engine 'reference' keeps all events"),
        (f"{UNPAID} RETURN COUNT(*)", {}, "totals IN ALL"),
    ],
)  # fmt: skip
def test_refused(query: str, more: dict[str, object], reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason) as caught:
        watch(query, **more)
    assert caught.value.hint
