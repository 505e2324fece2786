"""Groups of queries: which share a plan, and that the answers are those of each query alone."""

from __future__ import annotations

import random
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import Limits, Options, Query
from cerise.engines.base import Options as RunOptions
from cerise.errors import UnsupportedError
from cerise.events import Schema
from cerise.files.lake import open_lake
from cerise.files.scan import ROW
from cerise.pattern.bind import bind
from cerise.plan.needs import Needs
from cerise.plan.slicing import Halo
from cerise.run.access import TableSource
from cerise.run.find import HERE, Exchanged, GroupPlan, Plan, Sliced, decide_all, find
from cerise.run.many.query_groups import MOST_CHAINS, group_by_slices, group_questions
from cerise.run.many.query_names import NamedSearch
from cerise.run.question import Questions
from cerise.run.sase_search import Sase
from cerise.run.searching import FEW_SEARCHES, HELD_EVENTS, search_events
from cerise.sources import FilesSource
from tests.support.cases.tasks_here import HandedOver, TasksHere
from tests.support.strategies.pairs import most_events
from tests.support.strategies.queries import PARAMS, params_of, query_of
from tests.support.strategies.streams import ROW as ROW_BYTES
from tests.support.strategies.streams import Dice, Shape, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLES: dict[str, Any] = {"time": "t", "type": "type"}
COUNT = 2_000
EVENTS = pa.table(
    {
        "t": [i * 10 for i in range(COUNT)],
        "type": [random.Random(i).choice("ABCD") for i in range(COUNT)],
        "k": [random.Random(i + COUNT).choice("uvw") for i in range(COUNT)],
        "x": [random.Random(i).randrange(100) for i in range(COUNT)],
    }
)
PAIR = "PATTERN SEQ(A a, B b) WHERE b.x > a.x AND a.x > 90"
QUERIES = {
    "short": f"{PAIR} WITHIN 100",
    "longer": f"{PAIR} WITHIN 300",
    "long": f"{PAIR} WITHIN 5000",
    "few": f"{PAIR} WITHIN 9 events",
    "keyed": f"{PAIR} PARTITION BY k WITHIN 400",
    "endless": f"{PAIR} PARTITION BY k",
    "chosen": f"{PAIR} WITHIN 300 OUTPUT NON_OVERLAPPING",
    "first": f"{PAIR} WITHIN 300 LIMIT 1 PER EVENT",
    "any": "PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE b.x > a.x AND a.x > 90 WITHIN 200",
}


def needs(halo: Halo | str, key: str = "", *, chain: bool = False) -> Needs:
    columns = pa.schema([("t", pa.int64())])
    return Needs(
        columns, (), roles=Schema(columns, "t"), halo=halo, partition=((key,),) if key else (),
        chain=Halo(after=5) if chain else None,
    )  # fmt: skip


def after(size: int, key: str = "") -> Needs:
    return needs(Halo(after=size), key)


CHOSEN = "which matches overlap is known only from the first event on"
WHOLE = "without WITHIN a match may span all events"
EXCHANGED: dict[str, tuple[list[Needs], list[tuple[int, ...]]]] = {
    "windows of like length share": ([after(1), after(4), after(2)], [(0, 1, 2)]),
    "a window five times as long does not": ([after(5), after(1), after(4)], [(0,), (1, 2)]),
    "queries of one key share, whatever their windows": ([after(1, "k"), after(999, "k")], [(0, 1)]),
    "other keys do not": ([after(1, "k"), after(1, "l"), after(1), after(2, "k")], [(0, 3), (1,), (2,)]),
    "an uncuttable query leaves the others alone": ([after(1), needs(WHOLE), after(2)], [(0, 2), (1,)]),
    "uncuttable queries share": ([needs(WHOLE), after(1), needs("LIMIT …")], [(0, 2), (1,)]),
    "and count windows with them": ([needs(Halo(events=3)), needs(WHOLE), after(3)], [(0, 1), (2,)]),
    "uncuttable queries of a key are parallel": ([needs(WHOLE), needs(WHOLE, "k")], [(0,), (1,)]),
}


@pytest.mark.parametrize("case", EXCHANGED)
def test_queries_that_share_an_exchange(case: str) -> None:
    asked, expected = EXCHANGED[case]
    assert [each.numbers for each in group_questions(asked, exchanged=True)] == expected


def test_queries_that_choose_are_cut_by_time_alone_if_they_are_few() -> None:
    chosen = needs(CHOSEN, chain=True)
    groups = group_by_slices([after(1), chosen, needs(WHOLE), chosen], lambda _: 9, exchanges=True)
    assert [each.numbers for each in groups] == [(0,), (1,), (2,), (3,)]
    many = group_by_slices([after(1), *[chosen] * (MOST_CHAINS + 1)], lambda _: 9, exchanges=True)
    assert [each.numbers for each in many] == [(0,), tuple(range(1, MOST_CHAINS + 2))]
    here = group_by_slices([after(1), chosen, needs(WHOLE), chosen], lambda _: 9, exchanges=False)
    assert [each.numbers for each in here] == [(0,), (1, 2, 3)]


def test_windows_share_slices_if_all_leave_as_many() -> None:
    """The count of slices decides: a long window over a long time is as good as a short one."""
    asked = [after(1, "k"), after(1_000), needs(WHOLE), after(30, "l")]
    groups = group_by_slices(asked, lambda halo: 9, exchanges=False)
    assert [each.numbers for each in groups] == [(0, 1, 3), (2,)]
    groups = group_by_slices(asked, lambda halo: 9 if halo.after < 100 else 2, exchanges=False)
    assert [each.numbers for each in groups] == [(0,), (1,), (2,), (3,)]
    assert len(group_by_slices(asked, lambda halo: 1, exchanges=False)) == 1


# ---- plans


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("groups") / "lake"
    folder.mkdir()
    for number in range(8):
        part = EVENTS.slice(number * COUNT // 8, COUNT // 8)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=125)
    return str(folder)


def ask(queries: Iterable[str], names: Iterable[str] | None = None) -> Questions:
    schema = Schema(EVENTS.schema, "t", "type", arrival=True)
    found = [Sase(bind(cerise.parse(each), schema)) for each in queries]
    return Questions.of(found, None if names is None else tuple(names))


def tasks(plan: Plan) -> int:
    return len(plan.slices) if isinstance(plan, Sliced) else plan.targets.count


def plans(runner: Any, source: Any, options: Options) -> dict[str, GroupPlan]:
    questions = ask(QUERIES.values(), QUERIES)
    names = list(QUERIES)
    return {
        names[number]: each
        for each in decide_all(source, questions, options, runner)
        for number in each.group.numbers
    }


def test_an_uncuttable_query_keeps_the_others_parallel(lake: str) -> None:
    """In process and on Spark, over a table, files and a DataFrame."""
    small = replace(Limits(), task_events=1)
    files, table = FilesSource(open_lake(lake)), TableSource(EVENTS)
    for source in (files, table):
        found = plans(HERE, source, Options(threads=4))
        assert [name for name, each in found.items() if tasks(each.plan) == 1] == [
            "endless", "chosen", "first",
        ]  # fmt: skip
        assert found["endless"] is found["chosen"] is found["first"]
        assert found["short"] is found["long"] is found["keyed"]
    found = plans(TasksHere(4), files, Options(partitions=4, limits=small))
    assert {name for name, each in found.items() if tasks(each.plan) == 1} == {"first"}
    assert isinstance(found["endless"].plan, Exchanged)  # by key
    assert isinstance(found["chosen"].plan, Sliced)
    assert found["chosen"].plan.chained
    rows = EVENTS.append_column(ROW, pa.array(range(COUNT), pa.int64()))
    found = plans(TasksHere(4), HandedOver(rows), Options(partitions=4))
    assert {name for name, each in found.items() if tasks(each.plan) == 1} == {"few", "chosen", "first"}
    assert found["keyed"] is not found["endless"]
    assert found["short"] is found["longer"] is found["any"]


def test_explain_shows_groups(lake: str) -> None:
    options = Options(threads=4)
    said = cerise.explain(lake, QUERIES, **ROLES, options=options)
    lines = [line for line in said.splitlines() if line.startswith("group")]
    timed = (
        "group      1 of 2, queries short, longer, long, few, keyed, any: windows of any length, cut by time"
    )
    whole = f"group      2 of 2, queries endless, chosen, first: {WHOLE}"
    assert lines == [timed, whole]
    assert f"{len(QUERIES)}; explain(…, only='name') explains one" in said
    for name in QUERIES:
        one = cerise.explain(lake, QUERIES, **ROLES, options=options, only=name)
        assert one.startswith(f"query '{name}'")
        assert (whole if name in ("endless", "chosen", "first") else timed) in one
    with pytest.raises(UnsupportedError, match="no query is named 'shrot'") as caught:
        cerise.explain(lake, QUERIES, **ROLES, only="shrot")
    assert "short" in str(caught.value)
    few = cerise.explain(lake, list(QUERIES.values())[:3], **ROLES, options=options)
    assert not few.startswith("group")
    assert few.count("query ") >= 3


def test_explain_draws_the_rows_of_a_run(lake: str) -> None:
    queries = {"any": QUERIES["any"], "low": QUERIES["any"].replace("b.x > a.x", "b.x < a.x")}
    report = cerise.profile(lake, queries, **ROLES).report
    made = report.joins["A a ⋈ B b, of query 'low'"]
    assert made > 0
    drawn = cerise.explain(lake, queries, **ROLES, only="low", report=report)
    assert f" rows a window, {made:,} in the run" in drawn
    with pytest.raises(UnsupportedError, match="report= shows the rows"):
        cerise.explain(lake, queries["low"], **ROLES, report=report)


def test_one_group_is_one_pass(lake: str) -> None:
    queries = list(QUERIES.values())
    together = cerise.profile(lake, queries[:3], **ROLES, options=Options(threads=2)).report.figures
    apart = cerise.profile(lake, [*queries[:3], queries[5]], **ROLES, options=Options(threads=2)).report
    once = cerise.profile(lake, queries[5], **ROLES, options=Options(threads=2)).report.figures
    assert apart.figures["events read"] == together["events read"] + once["events read"]
    assert apart.figures["matches"] > together["matches"]
    assert apart.figures["events"] == COUNT
    assert apart.figures["tasks matching"] == together["tasks matching"] + 1


# ---- searches


class Recorder:
    """Records the calls of its methods."""

    def __init__(self, number: int, told: list[tuple[int, int]]) -> None:
        self.number, self.told = number, told

    def feed(self, events: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        self.told.append((self.number, len(events)))
        yield self.number, events

    def flush(self) -> Iterator[tuple[int, pa.Table]]:
        self.told.append((self.number, 0))
        return iter(())


@pytest.mark.parametrize(
    ("count", "rows", "expected"),
    [
        (2, 5, [(0, 5), (1, 5), (0, 5), (1, 5), (0, 0), (1, 0)]),
        (FEW_SEARCHES + 1, 5, [each for i in range(FEW_SEARCHES + 1) for each in ((i, 5), (i, 5), (i, 0))]),
        (
            FEW_SEARCHES + 1, HELD_EVENTS,
            [(i, rows) for rows in (HELD_EVENTS, HELD_EVENTS, 0) for i in range(FEW_SEARCHES + 1)],
        ),
    ],
)  # fmt: skip
def test_many_searches_take_small_slices_one_after_another(
    count: int, rows: int, expected: list[tuple[int, int]]
) -> None:
    """One query at a time needs memory then; the batches of a large slice go to all."""
    told: list[tuple[int, int]] = []
    batch: Any = pa.table({"x": pa.nulls(rows)})
    found = list(search_events([Recorder(i, told) for i in range(count)], [batch, batch]))
    assert told == expected
    assert len(found) == 2 * count


def test_a_search_of_a_list_lives_from_its_first_events_to_the_last() -> None:
    started: list[Recorder] = []

    def start() -> Recorder:
        started.append(Recorder(len(started), []))
        return started[-1]

    search = NamedSearch("query 'one'", start)
    assert not started
    assert len(list(search.feed([1]))) == 1
    assert list(search.flush()) == []
    assert [each.told for each in started] == [[(0, 1), (0, 0)]]
    gone = weakref.ref(started.pop())
    assert gone() is None


# ---- the answer


def ids_by_query(found: Any) -> dict[str, list[int]]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    ids: dict[str, list[int]] = defaultdict(list)
    for name, number in zip(table["query"].to_pylist(), table["match_id"].to_pylist(), strict=True):
        ids[name].append(number)
    return {name: sorted(each) for name, each in ids.items()}


def alone(query: Any, events: Any = EVENTS, **given: Any) -> list[int]:
    return sorted(cerise.find(events, query, **{**ROLES, **given})["match_id"].to_pylist())


def test_answers_come_in_the_order_of_the_list(lake: str) -> None:
    found = cerise.find(lake, QUERIES, **ROLES, options=Options(threads=4))
    assert list(dict.fromkeys(found["query"].to_pylist())) == list(QUERIES)
    assert ids_by_query(found) == {name: alone(query) for name, query in QUERIES.items()}
    assert found.schema == cerise.schema(lake, QUERIES, **ROLES)


TOTALS = {
    "many": f"{PAIR} PARTITION BY k WITHIN 200 RETURN COUNT(*) AS many, MAX(b.x) AS most PER PARTITION",
    "all": f"{PAIR} WITHIN 200 RETURN COUNT(*) AS total",
    "none": f"{PAIR} AND a.x > 1000 WITHIN 200 RETURN COUNT(*) AS total",
    "windows": f"{PAIR} WITHIN 200 SLIDE 100 RETURN COUNT(*) AS of_window PER WINDOW",
}


def rows_of(found: pa.Table, name: str, columns: list[str]) -> list[str]:
    mine = found.filter(pa.compute.equal(found["query"], name)).select(columns)
    return sorted(map(str, mine.to_pylist()))


def check_rows(found: pa.Table, queries: dict[str, str]) -> None:
    for name, query in queries.items():
        mine = cerise.find(EVENTS, query, **ROLES)
        assert rows_of(found, name, mine.column_names) == sorted(map(str, mine.to_pylist())), name


def test_totals_beside_matches(lake: str) -> None:
    queries = {**TOTALS, **QUERIES}
    for events, options in ((EVENTS, None), (EVENTS, Options(threads=3)), (lake, Options(threads=3))):
        check_rows(cerise.find(events, queries, **ROLES, options=options), queries)
    questions = ask(queries.values(), queries)
    files = FilesSource(open_lake(lake))
    rows = HandedOver(EVENTS.append_column(ROW, pa.array(range(COUNT), pa.int64())))
    for source in (files, rows):
        check_rows(find(source, questions, RunOptions(partitions=4), TasksHere(4)).matches, queries)


def random_list(seed: int, count: int, size: int) -> tuple[Shape, dict[str, Query]]:
    """Random queries of all strategies over one schema, which have few matches over so many events."""
    rng = random.Random(seed)
    columns = pa.schema(
        [
            ("id", pa.int64()), ("t", pa.int64()), ("type", pa.string()), ("k", pa.string()),
            ("x", pa.int64()), ("y", pa.float64()), ("big", pa.int64()), ("s", pa.string()),
            ("flag", pa.bool_()), ("p", pa.struct([("amount", pa.int64()), ("label", pa.string())])),
        ]
    )  # fmt: skip
    shape = Shape(Schema(columns, "t", "type", (), ("id",), arrival=True), 0, 1)
    one = cerise.parse("PATTERN A a RETURN 1 AS one").returns  # columns of the same type for all
    queries: dict[str, Query] = {}
    while len(queries) < count:
        query = query_of(Dice(rng.randbytes(200)), shape, returns=False)
        if most_events(query) >= size and query.totals is None:
            queries[f"q{len(queries)}"] = replace(query, returns=one, into=None)
    return shape, queries


SIZE = 11


@pytest.fixture(scope="module")
def drawn() -> tuple[pa.Table, dict[str, Query], dict[str, list[int]]]:
    """Events, 200 queries, and the matches of each alone."""
    shape, queries = random_list(3, 200, SIZE)
    table = table_of(Dice(random.Random(5).randbytes(ROW_BYTES * SIZE)), shape, SIZE)
    ids = {name: alone(query, table, **drawn_roles(query)) for name, query in queries.items()}
    return table, queries, {name: each for name, each in ids.items() if each}


def drawn_roles(*queries: Query) -> dict[str, Any]:
    names = {name for query in queries for name in params_of(query)}
    return {"time": "t", "type": "type", "order": "id", "params": {name: PARAMS[name] for name in names}}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_random_queries_find_together_what_each_finds_alone(
    drawn: tuple[pa.Table, dict[str, Query], dict[str, list[int]]], tmp_path: Path
) -> None:
    table, queries, expected = drawn
    assert len(expected) > 40
    roles = drawn_roles(*queries.values())
    folder = write(table, tmp_path)
    for options in (Options(threads=1), Options(threads=3)):
        for events in (table, folder):
            assert ids_by_query(cerise.find(events, queries, **roles, options=options)) == expected
    cerise.index(folder, time="t", type="type", on=["x", "big"], order="id")
    del roles["time"], roles["type"], roles["order"]
    assert ids_by_query(cerise.find(cerise.Store(folder), queries, **roles)) == expected


def write(table: pa.Table, folder: Path) -> str:
    in_order = table.sort_by([("t", "ascending"), ("id", "ascending")])
    for number, start in enumerate(range(0, len(in_order), 4)):
        pq.write_table(in_order.slice(start, 4), folder / f"{number}.parquet", row_group_size=2)
    return str(folder)


# ---- on Spark


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_groups_on_spark(spark: SparkSession, lake: str) -> None:
    """A DataFrame, files and a store; matches and totals; each in one job, whose report has all groups."""
    queries = {**QUERIES, **TOTALS}
    frame = spark.createDataFrame(EVENTS.to_pandas()).repartition(3)
    said = cerise.explain(frame, queries, **ROLES, options=Options(partitions=4))
    assert "exchange   exchanged by time, 4 tasks" in said
    assert f"exchange   all events in one task: query 'chosen': {CHOSEN}" in said
    found = cerise.profile(frame, queries, **ROLES, options=Options(partitions=4))
    assert found.matches.schema == cerise.schema(frame, queries, **ROLES)
    check_rows(found.matches.toArrow(), queries)
    figures = found.report.figures
    assert figures["tasks matching"] > 4
    assert figures["matches"] > 100
    cerise.index(lake, time="t", type="type", on=["x"])
    for events, roles in ((lake, ROLES), (cerise.Store(lake), {})):
        both = cerise.find(events, queries, **roles, options=Options(partitions=4), spark=True)
        check_rows(both.toArrow(), queries)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_random_queries_on_spark(
    drawn: tuple[pa.Table, dict[str, Query], dict[str, list[int]]], tmp_path: Path, spark: SparkSession
) -> None:
    table, queries, expected = drawn
    roles = drawn_roles(*queries.values())
    frame = spark.createDataFrame(table.to_pylist(), schema_of(table))
    assert ids_by_query(cerise.find(frame, queries, **roles)) == expected
    folder = write(table, tmp_path)
    assert ids_by_query(cerise.find(folder, queries, **roles, spark=True)) == expected


def schema_of(table: pa.Table) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(table.schema)
