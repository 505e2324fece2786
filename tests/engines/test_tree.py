"""The engine of joins: no plan, piece, saved state or limit changes an answer."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Matcher, Options
from cerise.engines.choose import ENGINES
from cerise.engines.limits import Limits
from cerise.engines.tree.drawing import PlanDrawing, show_rows
from cerise.engines.tree.matcher import TreeMatcher
from cerise.engines.tree.team import JoinTeam, TeamPlan
from cerise.errors import CeriseError, PlanError
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.pattern.bound import Bound
from cerise.pattern.query import Count, Strategy
from cerise.plan.joins import Tree, bits
from tests.support.oracle import brute
from tests.support.strategies.pairs import QUERY, Pair, most_events
from tests.support.strategies.queries import PARAMS, params_of, query_of
from tests.support.strategies.streams import ROW, Dice, shape_of, table_of
from tests.tiers import AT_LENGTH

TREE = ENGINES["tree"]
ASKED = int(os.environ.get("CERISE_EXAMPLES", "0"))
STREAMS = 8  # for each query


def able_families(seed: int, count: int, streams: int = STREAMS) -> Iterator[tuple[Bound, list[Pair]]]:
    """Random any-match queries that joins can run, each with random streams."""
    rng = random.Random(seed)
    found = 0
    while found < count:
        dice = Dice(rng.randbytes(QUERY))
        shape = shape_of(dice)
        query = query_of(dice, shape, strategies=(Strategy.ANY,), counted=False, returns=False)
        params = {name: PARAMS[name] for name in params_of(query)}
        try:
            bound = bind(query, shape.schema, params)
        except CeriseError:
            continue
        if TREE.why_not(bound) is not None:
            continue
        found += 1
        sizes = [max(0, most_events(query) - rng.choice((0, 0, 1, 3))) for _ in range(streams)]
        tables = [table_of(Dice(rng.randbytes(ROW * size)), shape, size) for size in sizes]
        yield bound, [Pair(query, shape.schema, table, params) for table in tables]


def found_in(findings: Iterator[object]) -> Counter[brute.Match]:
    found: Counter[brute.Match] = Counter()
    for matches in findings:
        ids = matches.events.table.column("id").to_pylist()  # type: ignore[attr-defined]
        columns = (column.to_pylist() for column in matches.rows.values())  # type: ignore[attr-defined]
        rows = zip(*columns, strict=True)
        found.update(tuple(tuple(ids[place] for place in taken or ()) for taken in row) for row in rows)
    return found


def expected_of(bound: Bound, table: pa.Table) -> Counter[brute.Match]:
    return found_in(fed(ENGINES["reference"].start(bound, Options()), bound, table))


def events_of(bound: Bound, table: pa.Table) -> EventBatch:
    return EventBatch.of(table, bound.schema, reads=bound.ties)


def fed(matcher: Matcher, bound: Bound, table: pa.Table) -> Iterator[object]:
    return chain(matcher.feed(events_of(bound, table)), matcher.flush())


# ---- agreement with the reference


@pytest.mark.parametrize("go", range(2))
def test_joins_agree_with_the_reference(go: int) -> None:
    """One matcher for all streams of a query: to flush is to forget."""
    for bound, family in able_families(go, max(125, ASKED // STREAMS // 2)):
        matcher = TREE.start(bound, Options())
        for pair in family:
            found = found_in(fed(matcher, bound, pair.table))
            assert found == expected_of(bound, pair.table), repr(pair)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_limits_change_nothing(size: int) -> None:
    for bound, family in able_families(10 + size, max(25, ASKED // STREAMS // 20)):
        matcher = TREE.start(bound, Options(limits=Limits.all(size)))
        for pair in family:
            found = found_in(fed(matcher, bound, pair.table))
            assert found == expected_of(bound, pair.table), repr(pair)


def test_batches_saved_states_and_times_change_nothing() -> None:
    rng = random.Random(5)
    for bound, family in able_families(21, max(40, ASKED // STREAMS // 10)):
        for pair in family:
            found = in_batches(bound, pair.table, rng)
            assert found == expected_of(bound, pair.table), repr(pair)


def in_batches(bound: Bound, table: pa.Table, rng: random.Random) -> Counter[brute.Match]:
    """Feed random batches; advance to the next event's time, or save and load, between some of them."""
    limits = rng.choice((Limits(), Limits.all(2)))
    events = events_of(bound, table)
    matcher = TREE.start(bound, Options(limits=limits))
    found: Counter[brute.Match] = Counter()
    start = 0
    while start < len(events):
        stop = min(len(events), start + rng.randint(1, 4))
        found += found_in(matcher.feed(events.slice(start, stop)))
        start = stop
        if rng.random() < 0.4 and start < len(events):
            found += found_in(matcher.advance(int(events.times[start])))
        if rng.random() < 0.4:
            saved, matcher = matcher.save(), TREE.start(bound, Options(limits=limits))
            matcher.load(saved)
    return found + found_in(matcher.flush())


@pytest.mark.parametrize("negated", ["", "NOT C c, "])
def test_rows_of_a_key_are_looked_at_within_the_window_alone(negated: str) -> None:
    """A piece of 40,000 events is 2,000 windows long."""
    rng, count = np.random.default_rng(1), 40_000
    kinds, keys = rng.choice(list("ABCDD"), count), rng.integers(0, 4, count)
    events = pa.table({"t": np.arange(count), "kind": kinds, "k": keys})
    query = f"PATTERN SEQ(A a, {negated}B b) USE skip_till_any_match WHERE [k] WITHIN 20"
    found = cerise.profile(events, query, time="t", type="kind", options=Options(engine="tree"))
    assert found.report.figures["candidates"] <= 4 * len(events)
    expected = cerise.count(events, query, time="t", type="kind", options=Options(engine="nfa"))
    assert found.matches.num_rows == expected > 0


LATE_VETOES = (
    "SEQ(A a, B b, NOT C c)", "SEQ(A a, B b, NOT C c) WHERE c.x > a.x", "AND(A a, B b, NOT C c)",
    "AND(SEQ(A a, B b), A d, NOT C c) WHERE c.x != b.x", "SEQ(NOT C c, A a, B b, NOT C d)",
)  # fmt: skip


@pytest.mark.parametrize("pattern", LATE_VETOES)
@pytest.mark.parametrize("limits", [Limits(), Limits.all(1), Limits.all(3)])
def test_a_window_that_counts_events_ends_with_its_last_event(pattern: str, limits: Limits) -> None:
    """Matches wait for positions, and not for times; also across batches, saved states and plans."""
    rng = random.Random(3)
    matches = 0
    for _ in range(40 if AT_LENGTH else 8):
        size = rng.randint(0, 24)
        times = sorted(rng.choices(range(9), k=size))
        table = pa.table({
            "id": range(size), "t": pa.array(times, pa.int64()), "kind": rng.choices("AABBC", k=size),
            "x": rng.choices((None, 1, 2), k=size),
        })  # fmt: skip
        head, where, test = pattern.partition(" WHERE")
        window = rng.randint(2, 8)
        text = f"PATTERN {head} USE skip_till_any_match {where}{test} WITHIN {window} EVENTS"
        bound = bound_to(text, table)
        expected = expected_of(bound, table)
        matches += expected.total()
        assert found_in(fed(TREE.start(bound, Options(limits=limits)), bound, table)) == expected
        assert in_batches(bound, table, rng) == expected
        team = JoinTeam([bound], Options(limits=limits))
        events, found = events_of(bound, table), Counter[brute.Match]()
        for start in range(0, size, 3):
            if team.plan is not None:
                team.change_plan(random_plan(team, events, rng))
            found += found_in(each for _, each in team.feed(events.slice(start, min(start + 3, size))))
        assert found + found_in(each for _, each in team.flush()) == expected
    assert matches > 5


def test_counts_are_those_of_the_reference() -> None:
    for bound, family in able_families(31, 40):
        query = replace(bound.query, returns=Count())
        counting = bind(query, bound.schema, family[0].params)
        if TREE.why_not(counting) is not None:
            continue
        matcher = TREE.start(counting, Options())
        for pair in family:
            total = sum(each.count for each in fed(matcher, counting, pair.table))  # type: ignore[attr-defined]
            assert total == expected_of(bound, pair.table).total(), repr(pair)


CHAINS = (
    "SEQ(A a, B+ b[], C c) WHERE b.x < NEXT(b.x)",
    "SEQ(A a, B+ b[], C c) WHERE b.x <= NEXT(b.x) AND b[1].x > a.x",
    "SEQ(A a, B+ b[], C c) WHERE b[i].x != c.x AND b.x >= a.x", "SEQ(B+ b[], C c) WHERE b.x != NEXT(b.x)",
    "AND(A a, B+ b[])", "SEQ(A a, A+ b[], C c)", "AND(A a, SEQ(C d, A+ b[]))", "SEQ(A+ a[], NOT C c, B b)",
    "SEQ(A a, OR(SEQ(B+ b[], C c), SEQ(C d, C+ e[]))) WHERE e.x < NEXT(e.x)",
)  # fmt: skip


@pytest.mark.parametrize("pattern", CHAINS)
@pytest.mark.parametrize("limits", [Limits(), Limits.all(1), Limits.all(3)])
def test_the_choices_of_a_kleene_variable_are_added_up(pattern: str, limits: Limits) -> None:
    """Also where only some events may start a match, and with SLIDE."""
    rng = random.Random(11)
    total = 0
    for window in ("WITHIN 5", "WITHIN 6 EVENTS", "WITHIN 6 SLIDE 2", "") * (20 if AT_LENGTH else 4):
        size = rng.randint(8, 16)
        table = pa.table({
            "id": range(size), "t": pa.array(sorted(rng.choices(range(9), k=size)), pa.int64()),
            "kind": rng.choices("AABBC", k=size), "x": rng.choices((None, 1, 2, 3), k=size),
        })  # fmt: skip
        head, where, test = pattern.partition(" WHERE")
        text = f"PATTERN {head} USE skip_till_any_match {where}{test} {window} RETURN COUNT(*)"
        bound = bound_to(text, table)
        events = events_of(bound, table)
        for opens in (None, np.array(rng.choices((True, False), k=size))):
            some = replace(events, opens=opens)
            counts = []
            for engine in ("tree", "reference"):
                matcher = ENGINES[engine].start(bound, Options(limits=limits))
                counts.append(sum(each.count for each in chain(matcher.feed(some), matcher.flush())))
            assert counts[0] == counts[1], text
            total += counts[0]
    assert total > 5


def test_a_count_that_no_word_holds_is_an_error() -> None:
    def count(size: int) -> int:
        table = pa.table({"kind": ["A", *["B"] * size, "C"], "t": range(size + 2)})
        text = "PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WITHIN 100"
        options = Options(engine="tree")
        return int(cerise.count(table, text, time="t", type="kind", options=options))

    assert count(60) == 2**60 - 1
    with pytest.raises(PlanError, match="completes more than 2,305,843,009,213,693,952 matches") as error:
        count(90)
    assert "rcep" in str(error.value)


# ---- plans


def random_tree(rng: random.Random, slots: list[int]) -> Tree:
    if len(slots) == 1:
        return slots[0]
    cut = rng.randint(1, len(slots) - 1)
    rng.shuffle(slots)
    return random_tree(rng, slots[:cut]), random_tree(rng, slots[cut:])


def random_plan(team: JoinTeam, events: EventBatch, rng: random.Random) -> TeamPlan:
    trees = tuple(random_tree(rng, bits(each.branch.pattern.all)) for each in team.branches)
    return replace(team.make_plan(events), trees=trees)


def test_every_plan_gives_the_same() -> None:
    rng = random.Random(7)
    queries, plans = (1_000, 20) if AT_LENGTH else (60, 5)
    for bound, family in able_families(41, queries, 2):
        for pair in family:
            events = events_of(bound, pair.table)
            if not len(events):
                continue
            expected = expected_of(bound, pair.table)
            for _ in range(plans):
                team = JoinTeam([bound], Options())
                team.given = random_plan(team, events, rng)
                team.reset()
                found = found_in(each for _, each in chain(team.feed(events), team.flush()))
                assert found == expected, f"{team.given.trees}\n{pair!r}"


def test_a_join_that_a_branch_uses_twice_judges_no_negated_variable() -> None:
    """The NOT stands between two of its four events only."""
    table = pa.table({"id": range(6), "t": range(6), "kind": ["A", "B", "A", "C", "B", "B"]})
    bound = bound_to("PATTERN SEQ(A a, NOT C n, B b, A c, B d) USE skip_till_any_match", table)
    assert expected_of(bound, table).total() == 2
    events = events_of(bound, table)
    team = JoinTeam([bound], Options())
    team.given = replace(team.make_plan(events), trees=(((0, 1), (2, 3)),))
    team.reset()
    found = found_in(each for _, each in chain(team.feed(events), team.flush()))
    assert found == expected_of(bound, table)


def test_a_plan_may_change_between_batches() -> None:
    """Nothing is lost or found twice, whatever waits at that time."""
    rng = random.Random(8)
    switches = 0
    for bound, family in able_families(51, 200 if AT_LENGTH else 40, 4):
        for pair in family:
            events = events_of(bound, pair.table)
            team = JoinTeam([bound], Options(limits=rng.choice((Limits(), Limits.all(3)))))
            found: Counter[brute.Match] = Counter()
            for start in range(0, len(events), 2):
                found += found_in(
                    each for _, each in team.feed(events.slice(start, min(start + 2, len(events))))
                )
                if team.plan is not None:
                    team.change_plan(random_plan(team, events, rng))
                    switches += 1
            found += found_in(each for _, each in team.flush())
            assert found == expected_of(bound, pair.table), repr(pair)
    assert switches > 200


# ---- lists


def test_a_team_finds_what_each_query_finds_alone() -> None:
    rng = random.Random(9)
    for _ in range(60 if AT_LENGTH else 15):
        dice = Dice(rng.randbytes(QUERY))
        shape = shape_of(dice)
        bounds = []
        while len(bounds) < 8:
            some = Dice(rng.randbytes(QUERY))
            query = query_of(some, shape, strategies=(Strategy.ANY,), counted=False, returns=False)
            try:
                bound = bind(query, shape.schema, {name: PARAMS[name] for name in params_of(query)})
            except CeriseError:
                continue
            if TREE.why_not(bound) is None:
                bounds.append(bound)
        size = min(most_events(bound.query) for bound in bounds)
        table = table_of(Dice(rng.randbytes(ROW * size)), shape, size)
        team = JoinTeam(bounds, Options(limits=rng.choice((Limits(), Limits.all(2)))))
        events = EventBatch.of(table, bounds[0].schema)
        if not bounds[0].schema.arrival:
            continue
        found: dict[int, Counter[brute.Match]] = {number: Counter() for number in range(len(bounds))}
        for query, each in chain(team.feed(events), team.flush()):
            found[query] += found_in(iter([each]))
        for number, bound in enumerate(bounds):
            assert found[number] == expected_of(bound, table), str(bound.query)


# ---- budgets, errors, drawing

EVENTS = pa.table({"t": range(40), "kind": ["A", "B"] * 20, "x": range(40)})


def bound_to(text: str, table: pa.Table = EVENTS) -> Bound:
    return bind(parse(text), Schema(table.schema, "t", "kind"))


def test_a_plan_with_too_many_rows_names_its_query_and_node() -> None:
    text = "PATTERN SEQ(A a, B b, A c, B d) USE skip_till_any_match"
    matcher = TREE.start(bound_to(text), Options(max_runs=50, engine="tree"))
    with pytest.raises(PlanError, match=r"more than 50 rows of [abcd] ⋈ [abcd]") as caught:
        list(matcher.feed(events_of(bound_to(text), EVENTS)))
    assert "max_runs" in str(caught.value)


def test_an_event_that_completes_too_many_matches_is_an_error() -> None:
    text = "PATTERN SEQ(A+ a[], B b) USE skip_till_any_match"
    matcher = TREE.start(bound_to(text), Options(max_runs=1_000))
    with pytest.raises(PlanError, match="completes more than 1,000 matches"):
        for _ in matcher.feed(events_of(bound_to(text), EVENTS)):
            pass


def test_a_list_names_the_query_whose_output_explodes() -> None:
    queries = {
        "pairs": "PATTERN SEQ(A c, B d) USE skip_till_any_match WITHIN 3",
        "bomb": "PATTERN SEQ(A+ a[], B b) USE skip_till_any_match",
    }
    options = cerise.Options(max_runs=1_000, engine="tree")
    with pytest.raises(PlanError, match="query 'bomb': one event completes more than"):
        cerise.find(EVENTS, queries, time="t", type="kind", options=options)


def test_state_stays_within_the_window() -> None:
    """Kept events, rows and numbers of strings and partitions do not grow with the stream."""
    text = "PATTERN SEQ(A a, B b) USE skip_till_any_match PARTITION BY k WHERE a.s != b.s WITHIN 50"
    for window, keys in (("50", [i // 40 for i in range(20_000)]), ("20 EVENTS", [0, 1, 2, 3, 4] * 4_000)):
        table = pa.table({
            "t": range(20_000), "kind": ["A", "A", "B", "B"] * 5_000, "k": keys,
            "s": [f"s{i}" for i in range(20_000)],
        })  # fmt: skip
        bound = bound_to(text.replace("50", window), table)
        matcher = TREE.start(bound, Options(limits=replace(Limits(), small_rows=256, first_rows=64)))
        assert isinstance(matcher, TreeMatcher)
        team = matcher.team
        for start in range(0, 20_000, 500):
            for _ in matcher.feed(events_of(bound, table.slice(start, 500))):
                pass
            assert len(team.events) < 2_000
            assert sum(len(each) for each in team.memory.rows) < 12_000
            assert len(team.numbers) < 4_000


def test_a_drawing_names_what_is_shared() -> None:
    texts = [
        "PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE a.x < b.x WITHIN 9",
        "PATTERN SEQ(A one, B two, A c) USE skip_till_any_match WHERE one.x < two.x WITHIN 9",
    ]
    team = JoinTeam([bound_to(text) for text in texts], Options())
    plan = team.make_plan(events_of(team.bounds[0], EVENTS))
    plan = replace(plan, trees=((0, 1), ((0, 1), 2)))
    drawing = PlanDrawing(team.bounds, team.branches, plan.trees, plan.stats)
    assert drawing.joins == 2
    assert [(each.shown, each.queries) for each in drawing.list_shared()] == [("A a ⋈ B b", (0, 1))]
    lines = drawing.draw(1).splitlines()
    assert lines[1].startswith("  A one ⋈ B two: ")
    assert lines[1].endswith("shared with 1 query")
    assert [line.strip().split(":")[0] for line in lines] == [
        "A one ⋈ B two ⋈ A c", "A one ⋈ B two", "A one", "B two", "A c",
    ]  # fmt: skip
    ran = drawing.draw(1, {"A a ⋈ B b": 1_234}).splitlines()
    assert [line.partition(" rows a window")[2] for line in ran] == [
        "", ", 1,234 in the run, shared with 1 query", "", "", "",
    ]  # fmt: skip


def test_joins_that_differ_in_a_predicate_have_names_of_their_own() -> None:
    texts = [f"PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE a.x {sign} b.x WITHIN 9" for sign in "<>"]
    team = JoinTeam([bound_to(text) for text in texts], Options())
    plan = team.make_plan(events_of(team.bounds[0], EVENTS))
    drawing = PlanDrawing(team.bounds, team.branches, plan.trees, plan.stats, ["low", "high"])
    assert [*drawing.name_joins().values()] == ["A a ⋈ B b, of low", "A a ⋈ B b, of high"]


def test_rows_are_shown_with_two_digits() -> None:
    assert [show_rows(each) for each in (0, 0.5, 12.0, 99_999, float("inf"))] == [
        "0", "0.5", "12", "100,000", "∞",
    ]  # fmt: skip
