"""Queries of a list that a router gives events to: each finds what it finds alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import Limits, Options
from cerise.engines.base import Options as RunOptions
from cerise.engines.nfa import engine as nfa
from cerise.errors import BindError, CeriseWarning, PlanError, UnsupportedError
from cerise.events import EventBatch, Schema
from cerise.files.lake import open_lake
from cerise.files.scan import ROW
from cerise.kernels import formulas
from cerise.pattern.bind import bind
from cerise.run.find import find
from cerise.run.question import Questions, Work
from cerise.run.report import TIES
from cerise.run.routed_search import (
    LEAST_ROUTED,
    RoutedQuery,
    RoutedSearch,
    WholePart,
    count_pairs,
    divide_queries,
    find_routed,
    pick_events,
    unite_rows,
)
from cerise.run.sase_search import Sase
from cerise.run.searching import search_events, start_searches
from cerise.sources import FilesSource
from tests.support.cases.tasks_here import HandedOver, TasksHere
from tests.support.strategies.streams import Dice, table_of
from tests.test_query_groups import alone, drawn_roles, ids_by_query, random_list, rows_of

pytestmark = pytest.mark.filterwarnings("ignore:type='type' is given:cerise.errors.CeriseWarning")
ROLES: dict[str, Any] = {"time": "t", "type": "type"}
COUNT = 600


def make_events(count: int, seed: int = 0, step: int = 10) -> pa.Table:
    """Events of frequent and rare types; a step of 0 ties many."""
    rng = random.Random(seed)
    types = "AABBCCDDEEVWXYZ"
    return pa.table(
        {
            "t": [i // 2 * step for i in range(count)],
            "type": [rng.choice(types) for _ in range(count)],
            "k": [rng.choice("uvw") for _ in range(count)],
            "x": [rng.randrange(20) for _ in range(count)],
        }
    )


EVENTS = make_events(COUNT)
FORMS = {
    "plain": "PATTERN SEQ({0} a, {1} b, {2} c) WHERE b.x > a.x WITHIN 300",
    "kleene": "PATTERN SEQ({0} a, {1}+ bs[], {2} c) WHERE bs[i].x > bs[i-1].x WITHIN 200",
    "absent": "PATTERN SEQ({0} a, ~{1} b, {2} c) WHERE c.x >= a.x WITHIN 200",
    "last absent": "PATTERN SEQ({0} a, {1} b, ~{2} c) WHERE c.x = a.x WITHIN 200",
    "first absent": "PATTERN SEQ(~{0} a, {1} b, {2} c) WHERE a.x = c.x WITHIN 200",
    "either": "PATTERN OR(SEQ({0} a, {1} b), SEQ({0} c, {2} d)) WHERE b.x > 4 WITHIN 100",
    "both": "PATTERN AND({0} a, {1} b, {2} c) WHERE a.x < b.x WITHIN 60",
    "keyed": "PATTERN SEQ({0} a, {1} b, {2} c) PARTITION BY k WITHIN 400",
    "equal": "PATTERN SEQ({0} a, {1} b) WHERE [x] WITHIN 600",
    "chosen": "PATTERN SEQ({0} a, {1} b) WITHIN 200 OUTPUT NON_OVERLAPPING",
    "first": "PATTERN SEQ({0} a, {1} b) WITHIN 200 LIMIT 1 PER EVENT",
    "endless": "PATTERN SEQ({0} a, {1} b) WHERE a.x > 17 AND b.x > 18",
    "strict": "PATTERN SEQ({0} a, {1} b) USE strict_contiguity WITHIN 100",
    "keyed contiguity": "PATTERN SEQ({0} a, {1} b) USE partition_contiguity PARTITION BY k WITHIN 400",
    "few": "PATTERN SEQ({0} a, {1} b) WITHIN 7 events",
    "any": "PATTERN SEQ({0} a, {1} b) USE skip_till_any_match WHERE a.x = b.x WITHIN 100",
    "sums": "PATTERN SEQ({0} a, {1}+ bs[]) USE skip_till_any_match WHERE SUM(bs.x) > 20 WITHIN 40",
    "tested": "PATTERN SEQ(a, b) WHERE a.type = '{0}' AND a.x > 12 AND b.x IN (3, 4) AND b.k = 'u' WITHIN 90",
}  # fmt: skip
TOTALS = {
    "count": "PATTERN SEQ({0} a, {1} b) WITHIN 200 RETURN COUNT(*) AS total",
    "groups": "PATTERN SEQ({0} a, {1} b) PARTITION BY k WITHIN 300 RETURN MAX(b.x) AS most PER PARTITION",
    "windows": "PATTERN SEQ({0} a, {1} b) WITHIN 200 SLIDE 100 RETURN COUNT(*) AS of_window PER WINDOW",
}


def draw_queries(seed: int, count: int, forms: dict[str, str] = FORMS) -> dict[str, str]:
    rng = random.Random(seed)
    names = [rng.choice(list(forms)) for _ in range(count)]
    return {f"{name} {i}": forms[name].format(*rng.sample("ABCDEVWXYZ", 3)) for i, name in enumerate(names)}


def questions_of(queries: dict[str, str]) -> Questions:
    schema = Schema(EVENTS.schema, "t", "type")
    return Questions.of([Sase(bind(cerise.parse(text), schema)) for text in queries.values()], [*queries])


def expect(queries: dict[str, Any], events: Any = EVENTS) -> dict[str, list[int]]:
    return {name: found for name, query in queries.items() if (found := alone(query, events))}


SIZES = (
    Options(threads=1),
    Options(threads=3),
    Options(threads=1, limits=Limits.all(1)),
    Options(threads=2, limits=Limits.all(3)),
    Options(threads=1, limits=Limits(few_searches=1)),
    Options(threads=1, limits=Limits(few_searches=1, small_pairs=1, small_forked=1, routed_rows=900)),
    Options(threads=1, limits=Limits(few_searches=1, routed_sample=20, routed_rows=200, small_pairs=300)),
    Options(threads=1, limits=Limits(few_searches=1, held_events=100, routed_sample=20, routed_rows=200)),
)


def write(table: pa.Table, folder: Path, size: int) -> str:
    for number, start in enumerate(range(0, len(table), size)):
        pq.write_table(table.slice(start, size), folder / f"{number:03}.parquet", row_group_size=7)
    return str(folder)


# ---- as each alone


@pytest.mark.parametrize("form", FORMS)
def test_each_form_finds_what_it_finds_alone(form: str, tmp_path: Path) -> None:
    queries = draw_queries(len(form), 20, {form: FORMS[form]})
    expected, folder = expect(queries), write(EVENTS, tmp_path, 50)
    for options in SIZES:
        assert ids_by_query(cerise.find(EVENTS, queries, **ROLES, options=options)) == expected
    for options in (SIZES[1], SIZES[3], SIZES[6]):
        assert ids_by_query(cerise.find(folder, queries, **ROLES, options=options)) == expected


def test_many_forms_together(tmp_path: Path) -> None:
    """In process, over files in slices, and in tasks that rows are handed to."""
    queries = draw_queries(1, 40)
    expected, folder = expect(queries), write(EVENTS, tmp_path, 40)
    assert len(expected) > 20
    for options in (SIZES[1], SIZES[2], SIZES[6], SIZES[7]):
        assert ids_by_query(cerise.find(EVENTS, queries, **ROLES, options=options)) == expected
        assert ids_by_query(cerise.find(folder, queries, **ROLES, options=options)) == expected
    questions = questions_of(queries)
    rows = HandedOver(EVENTS.append_column(ROW, pa.array(range(COUNT), pa.int64())))
    for source in (FilesSource(open_lake(folder)), rows):
        for limits in (Limits(), Limits.all(2)):
            options = RunOptions(partitions=4, limits=limits)
            assert ids_by_query(find(source, questions, options, TasksHere(4)).matches) == expected


@pytest.mark.parametrize("seed", range(3))
def test_random_queries(seed: int, tmp_path: Path) -> None:
    shape, queries = random_list(seed + 10, 40, 9)
    table = table_of(Dice(random.Random(seed).randbytes(4_000)), shape, 9)
    roles = drawn_roles(*queries.values())
    expected = {
        name: found
        for name, query in queries.items()
        if (found := sorted(cerise.find(table, query, **drawn_roles(query))["match_id"].to_pylist()))
    }
    for limits in (Limits(), Limits(few_searches=1), Limits.all(2)):
        found = cerise.find(table, queries, **roles, options=Options(threads=1, limits=limits))
        assert ids_by_query(found) == expected


def test_totals_of_queries_with_and_without_events() -> None:
    queries = draw_queries(3, 12, TOTALS) | {
        "never": "PATTERN SEQ(Q a, R b) WITHIN 200 RETURN COUNT(*) AS total",
        "never grouped": TOTALS["groups"].format("Q", "R"),
        **draw_queries(4, 12),
    }
    with pytest.warns(CeriseWarning, match="no event has type"):
        alone = {name: cerise.find(EVENTS, query, **ROLES) for name, query in queries.items()}
    assert alone["never"].to_pylist() == [{"total": 0}]
    for options in SIZES:
        with pytest.warns(CeriseWarning, match="no event has type"):
            found = cerise.find(EVENTS, queries, **ROLES, options=options)
        for name, mine in alone.items():
            assert rows_of(found, name, mine.column_names) == sorted(map(str, mine.to_pylist())), name


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_few_events(count: int) -> None:
    events, queries = EVENTS.slice(0, count), draw_queries(5, 30) | draw_queries(6, 8, TOTALS)
    for options in SIZES:
        found = cerise.find(events, queries, **ROLES, options=options)
        for name, query in queries.items():
            mine = cerise.find(events, query, **ROLES)
            assert rows_of(found, name, mine.column_names) == sorted(map(str, mine.to_pylist())), name


def test_equal_events_have_the_ids_that_they_have_alone() -> None:
    """They differ only in their number among the events that are equal in what a query reads."""
    events = pa.table(
        {
            "t": [i // 40 for i in range(400)],
            "type": [*"ABXC"] * 100,
            "k": ["u"] * 400,
            "x": [1, 2, 3, 4] * 100,
        }
    )  # fmt: skip
    queries = {
        f"{name}{end}": f"PATTERN SEQ(A a, {end} b) WHERE a.x < b.x {name} WITHIN 1"
        for end in "BC"
        for name in ("", "PARTITION BY k", "AND a.k = 'u'")
    }
    expected = expect(queries, events)
    assert len({each for ids in expected.values() for each in ids}) > 300
    for options in SIZES:
        assert ids_by_query(cerise.find(events, queries, **ROLES, options=options)) == expected


# ---- what is started


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of the queries that an automaton starts for."""
    found: list[str] = []
    start = nfa.Nfa.start

    def note(self: Any, bound: Any, options: Any) -> Any:
        found.append(" ".join(bound.required_types))
        return start(self, bound, options)

    monkeypatch.setattr(nfa.Nfa, "start", note)
    return found


def of_types(*types: str) -> dict[str, str]:
    return {each: FORMS["plain"].format(*each) for each in types}


def test_a_query_that_counts_every_event_takes_all_once_one_fits(started: list[str]) -> None:
    forms = {"s": FORMS["strict"], "k": FORMS["keyed contiguity"], "f": FORMS["few"]}
    queries = {
        f"{pair} {name}": forms[name].format(*pair) for name in forms for pair in ("AB", "CD", "VW", "WX")
    }
    expected = expect(queries)
    assert len(expected) > 6
    started.clear()
    first = EVENTS.slice(0, 200).filter(pa.compute.is_in(EVENTS["type"].slice(0, 200), pa.array([*"DEYZ"])))
    later = EVENTS.slice(200)
    events = pa.concat_tables([first, later])
    batches = [EventBatch.in_order(events, Schema(EVENTS.schema, "t", "type"))]
    batches = [batches[0].slice(start, min(start + 20, len(events))) for start in range(0, len(events), 20)]
    for limits in (
        Limits(few_searches=1),
        Limits(few_searches=1, held_events=1),
        Limits(few_searches=1, small_pairs=1),
    ):
        questions = questions_of(queries)
        searches = start_searches(questions, Work(RunOptions(limits=limits)))
        assert len(searches) == 1
        found = questions.finish(list(search_events(searches, batches)))
        assert ids_by_query(found) == expect(queries, events)


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
@pytest.mark.parametrize("few", [1, 16])
def test_a_query_without_events_compiles_nothing(few: int, started: list[str]) -> None:
    before = formulas._load.cache_info().misses
    queries = of_types("QRS", "RST", "STU")
    limits = Limits(few_searches=few, small_pairs=1)
    assert len(cerise.find(EVENTS, queries, **ROLES, options=Options(limits=limits))) == 0
    assert (started, formulas._load.cache_info().misses) == ([], before)
    cerise.find(EVENTS, queries | of_types("ABC"), **ROLES, options=Options(threads=1, limits=limits))
    assert started == ["A B C"]


def test_a_query_of_few_events_compiles_nothing(started: list[str]) -> None:
    queries = {f"{end} {i}": FORMS["plain"].format("V", "W", end) for end in "XYZ" for i in range(7)}
    few = Options(threads=1, limits=Limits(small_pairs=1))
    assert ids_by_query(cerise.find(EVENTS, queries, **ROLES, options=few)) == expect(queries)
    assert len(started) == 2 * len(queries)  # here, and each alone
    started.clear()
    found = cerise.find(EVENTS, queries, **ROLES, options=Options(threads=1))
    assert not started
    assert ids_by_query(found) == expect(queries)
    started.clear()
    cerise.find(EVENTS, queries, **ROLES, options=Options(threads=1, engine="nfa"))
    assert len(started) == len(queries)  # as the user asks


def test_each_query_is_fed_its_own_events() -> None:
    rows = [np.flatnonzero(np.isin(EVENTS["type"], [*each])) for each in ("VWX", "XYZ", "ABC")]
    questions = questions_of(of_types("VWX", "XYZ", "ABC"))
    events = EventBatch.of(EVENTS, Schema(EVENTS.schema, "t", "type"))
    queries = [RoutedQuery(questions, number, Work(RunOptions())) for number in range(3)]
    (part,) = divide_queries(queries, [events, events.slice(0, 9)], Limits())
    routed = list(part.route([events, events.slice(0, 9)]))
    assert [query for query, _ in routed] == queries
    for (_, (found, some)), expected in zip(routed, rows, strict=True):
        assert found.tolist() == expected.tolist()
        assert some.tolist() == [row for row in expected if row < 9]


def test_queries_are_divided_by_a_sample() -> None:
    questions = questions_of(of_types("VWX", "XYZ", "VYZ", "ABC"))
    events = EventBatch.of(EVENTS, Schema(EVENTS.schema, "t", "type"))
    queries = [RoutedQuery(questions, number, Work(RunOptions())) for number in range(4)]
    whole, *parts = divide_queries(queries, [events], Limits(routed_sample=599, routed_rows=150))
    assert isinstance(whole, WholePart)  # more than one event in eight is theirs
    (all_rows,) = {len(rows) for _, (rows,) in whole.route([events])}
    assert all_rows == COUNT
    routed = [query.number for part in [whole, *parts] for query, _ in part.route([events])]
    assert sorted(routed) == [0, 1, 2, 3]


def test_events_keep_what_searches_need_to_know() -> None:
    opens = np.arange(COUNT) < 50
    events = EventBatch.of(EVENTS, Schema(EVENTS.schema, "t", "type"), start=7)
    events = EventBatch(events.schema, events.table, events.times, events.positions, None, opens)
    some = pick_events(events, np.array([3, 49, 50]))
    assert some.opens is not None
    assert (some.opens.tolist(), some.positions.tolist()) == ([True, True, False], [10, 56, 57])
    assert pick_events(EventBatch.of(EVENTS, events.schema), np.array([3])).opens is None


def test_rows_of_several_leaves_count_once() -> None:
    rng = np.random.default_rng(0)
    for total in (10, 100_000):
        lists = [np.unique(rng.integers(0, total, 50)) for _ in range(3)]
        assert unite_rows(lists, total).tolist() == np.unique(np.concatenate(lists)).tolist()
    assert unite_rows([], 3).tolist() == []


def test_pairs_of_a_window() -> None:
    times = np.array([-(2**63), 0, 5, 10, 2**63 - 1])
    within = cerise.parse("PATTERN SEQ(a, b) WITHIN 5").within
    assert count_pairs(times, within) == count_pairs(times, None) == 15
    assert count_pairs(times[1:4], within) == 5
    assert count_pairs(times[1:4], cerise.parse("PATTERN SEQ(a, b) WITHIN 50").within) == 6


# ---- which queries, and their errors


def test_which_queries_are_routed() -> None:
    names = ["plain", "strict", "few", "tested", "last absent"]
    queries = {name: FORMS[name].format("A", "B", "C") for name in names} | {"all": "PATTERN SEQ(A a, b)"}
    questions = questions_of(queries)
    assert find_routed(questions, range(6), RunOptions()) == [0, 3, 4]
    assert find_routed(questions, [0, 1][:LEAST_ROUTED], RunOptions()) == []
    many = RunOptions(limits=Limits(few_searches=1))  # so many that it pays to see which have no event
    assert find_routed(questions, range(6), many) == [0, 1, 2, 3, 4]
    searches = start_searches(questions, Work(RunOptions()))
    assert sum(isinstance(each, RoutedSearch) for each in searches) == 1


def test_an_engine_that_cannot_run_a_query_is_an_error_without_events() -> None:
    queries = of_types("QRS", "RST", "STU") | {"sums": FORMS["plain"].format("Q", "R", "S")}
    with pytest.raises(PlanError, match="query 'QRS': unknown engine 'nfq'"):
        cerise.find(EVENTS.slice(0, 0), queries, **ROLES, options=Options(engine="nfq"))
    with pytest.raises(UnsupportedError, match="query 'QRS': engine 'tree' cannot run this query"):
        cerise.find(EVENTS.slice(0, 0), queries, **ROLES, options=Options(engine="tree"))
    with pytest.raises(BindError, match="query 'no'"):
        cerise.find(EVENTS, queries | {"no": "PATTERN SEQ(A a) WHERE a.y = 1"}, **ROLES)


def test_an_error_names_its_query() -> None:
    queries = of_types("ABC", "DEA") | {"many": "PATTERN SEQ(A a, B b) WHERE b.x > 100 WITHIN 9999"}
    for few in (1, 16):
        options = Options(threads=1, max_runs=20, limits=Limits(few_searches=few))
        with pytest.raises(PlanError, match=r"query 'many': .* runs are alive"):
            cerise.find(EVENTS, queries, **ROLES, options=options)


# ---- ties


@pytest.mark.parametrize("few", [1, 16])
def test_ties_are_those_of_all_events(few: int) -> None:
    """As many as each query alone counts over all events, whichever events fit it."""
    events = EventBatch.of(make_events(COUNT, 3), Schema(EVENTS.schema, "t", "type", arrival=False))
    queries = of_types("VWX", "XYZ", "VYZ") | {"keyed": FORMS["keyed"].format(*"VWX")}
    questions = questions_of(queries)

    def count(some: Questions, *numbers: int) -> float:
        work = Work(RunOptions(limits=Limits(few_searches=few)), counts_ties=True)
        searches = start_searches(some, work, numbers or None)
        list(search_events(searches, [events.slice(0, 301), events.slice(301, COUNT)]))
        return work.note[TIES]

    assert count(questions) == max(count(questions, number) for number in range(4)) > 100
    strict = Work(RunOptions(strict=True), counts_ties=True)
    with pytest.raises(cerise.CeriseError, match="query 'VWX'"):
        list(search_events(start_searches(questions, strict), [events]))
