"""Why not (M47): how far the search gets from events that start no match, and what stops it there."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import cerise
from cerise import dsl
from cerise.engines.base import Options
from cerise.engines.choose import ENGINES
from cerise.engines.misses.chosen import CHOSEN
from cerise.engines.misses.rows import row_misses
from cerise.engines.misses.sase import sase_misses
from cerise.engines.reference.rows import find_rows
from cerise.engines.rows.prepare import prepare
from cerise.errors import DataError
from cerise.events import EventBatch
from cerise.pattern.bind import bind
from cerise.pattern.query import Output
from tests.support.cases.row_harness import RowCase, load_row_cases
from tests.support.strategies.pairs import Pair, pairs
from tests.support.strategies.queries import params_of
from tests.test_agreement import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def events(text: str) -> pa.Table:
    """Read events `A1:5:u`: kind and time, and where they are given x and key; `-` is null."""
    rows = [(*each.split(":"), *["-", "u"][each.count(":") :]) for each in text.split()]
    return pa.table(
        {
            "t": pa.array([int(each[0][1:]) for each in rows], pa.int64()),
            "kind": pa.array([each[0][0] for each in rows], pa.string()),
            "x": pa.array([None if each[1] == "-" else int(each[1]) for each in rows], pa.int64()),
            "k": pa.array([None if each[2] == "-" else each[2] for each in rows], pa.string()),
        }
    )


def stops(misses: cerise.api.Misses) -> list[tuple[Any, ...]]:
    """What a table says of each start: its time, and labels, at, wanted, failed, because, others."""
    names = ["t", "labels", "at", "wanted", "failed", "because", "others"]
    return [tuple(row[name] for name in names) for row in misses.table.to_pylist()]


# ---- row patterns

KINDS = {name: f"{name} AS kind = '{name}'" for name in "ABCD"}


def clause(pattern: str, **conditions: str) -> str:
    """A clause whose variables have the kind of their name, unless a condition says more."""
    defined = [f"{KINDS[name]} AND {also}" for name, also in conditions.items() if name in KINDS]
    defined += [text for name, text in KINDS.items() if name in pattern and name not in conditions]
    skip = conditions.get("skip", "")
    return (
        "SELECT * FROM events MATCH_RECOGNIZE (ORDER BY t MEASURES MATCH_NUMBER() AS number "
        f"{skip} PATTERN {pattern} DEFINE {', '.join(defined)})"
    )


ROWS = {
    "a predicate is false": (
        clause("(A B)", B="x > A.x"), "A1:5 B2:3",
        (1, "A", 2, "B", "x > A.x is false (x = 3, A.x = 5)", "predicate", None),
    ),
    "a predicate is null": (
        clause("(A B)", B="x > 1"), "A1 B2",
        (1, "A", 2, "B", "x > 1 is null (x = null)", "null", None),
    ),
    "false is told before null": (
        clause("(A B)", B="x > 1 AND t > 9"), "A1 B2",
        (1, "A", 2, "B", "t > 9 is false (t = 2)", "predicate", None),
    ),
    "the window closes": (
        clause("(A C*? B) WITHIN 5"), "A1 C2 B9",
        (1, "A C", 9, "B", "window: 8 > 5", "window", "or C: window: 8 > 5"),
    ),
    "the partition ends": (
        clause("(A B)"), "A1",
        (1, "A", None, "B", "end of partition", "end", None),
    ),
    "rows follow where the end is asked for": (
        clause("(A B $)"), "A1 B2 C3",
        (1, "A B", 3, "$", "anchor: rows follow", "anchor", None),
    ),
    "what comes before is not the beginning": (
        clause("(A ^ B)"), "A1 B2",
        (1, "A", 2, "^", "anchor: not the first row", "anchor", None),
    ),
    "alternatives are listed, the preferred one first": (
        clause("(A (B | C D))"), "A1 D2",
        (1, "A", 2, "B", "kind = 'B' is false (kind = 'D')", "predicate",
         "or C: kind = 'C' is false (kind = 'D')"),
    ),
    "the longer alternative is told, though the other is preferred": (
        clause("(A (B | C D))"), "A1 C2 A3",
        (1, "A C", 3, "D", "kind = 'D' is false (kind = 'A')", "predicate", None),
    ),
    "too few for a quantifier": (
        clause("(A{3} B)"), "A1 A2 B3",
        (1, "A A", 3, "A", "kind = 'A' is false (kind = 'B')", "predicate", None),
    ),
    "a greedy quantifier, and what follows it": (
        clause("(A+ B)"), "A1 A2 C3",
        (1, "A A", 3, "A", "kind = 'A' is false (kind = 'C')", "predicate",
         "or B: kind = 'B' is false (kind = 'C')"),
    ),
    "an aggregate has the row that is tried": (
        clause("(A{3})", A="sum(A.x) < 10"), "A1:4 A2:4 A3:4",
        (1, "A A", 3, "A", "sum(A.x) < 10 is false (sum(A.x) = 12)", "predicate", None),
    ),
    "navigation is shown as it is written": (
        clause("(A B)", B="PREV(B.x, 2) > FIRST(A.x) + LAST(B.x, 1)"), "A1:4 B2:4",
        (1, "A", 2, "B", (
            "PREV(B.x, 2) > FIRST(A.x) + LAST(B.x, 1) is null (PREV(B.x, 2) = null, FIRST(A.x) = 4,"
            " LAST(B.x, 1) = null)"), "null", None),
    ),
    "the number of the match, classifiers and counts": (
        clause("(A B)", B="CLASSIFIER(A) = 'A' AND MATCH_NUMBER() + count(*) + count(B.*) = 9"), "A1 B2",
        (1, "A", 2, "B", (
            "MATCH_NUMBER() + count(*) + count(B.*) = 9 is false (MATCH_NUMBER() = 1, count(*) = 2,"
            " count(B.*) = 1)"), "predicate", None),
    ),
    "permutations": (
        clause("(PERMUTE(A, B, C))"), "B1 A2 D3",
        (1, "B A", 3, "C", "kind = 'C' is false (kind = 'D')", "predicate", None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_the_furthest_point_of_a_row_pattern(name: str) -> None:
    query, text, expected = ROWS[name]
    assert stops(cerise.explain_misses(events(text), query, where="t = 1")) == [expected]


def test_the_flink_dialect_has_exclusive_windows() -> None:
    query = clause("(A B) WITHIN 5")
    assert stops(cerise.explain_misses(events("A1 B6"), query)) == []
    found = cerise.explain_misses(events("A1 B6"), query, dialect="flink", where="t = 1")
    assert stops(found) == [(1, "A", 6, "B", "window: 5 >= 5", "window", None)]


def test_rows_in_matches_are_left_out_unless_they_are_chosen() -> None:
    rows, query = events("A1 B2 A3"), clause("(A B)")
    ended = (3, "A", None, "B", "end of partition", "end", None)
    skipped = (2, "", None, None, "inside match 1: AFTER MATCH SKIP PAST LAST ROW", "skipped", None)
    assert stops(cerise.explain_misses(rows, query)) == [ended]
    assert stops(cerise.explain_misses(rows, query, where="true")) == [skipped, ended]
    assert stops(cerise.explain_misses(rows, query, where="kind = 'A'")) == [ended]
    assert stops(cerise.explain_misses(rows, query, where="x = 1")) == []  # null is not true


def test_rows_that_are_tried_inside_a_match_are_explained_where_they_are_chosen() -> None:
    rows, query = events("A1 C2 B3"), clause("(A C B)", skip="AFTER MATCH SKIP TO LAST B")
    skipped = (2, "", None, None, "inside match 1: AFTER MATCH SKIP TO LAST B", "skipped", None)
    tried = (3, "", 3, "A", "kind = 'A' is false (kind = 'B')", "predicate", None)
    assert stops(cerise.explain_misses(rows, query)) == []
    assert stops(cerise.explain_misses(rows, query, where="t > 1")) == [skipped, tried]


def moment(minute: int) -> dt.datetime:
    return dt.datetime(2024, 5, 1, 9) + dt.timedelta(minutes=minute)


VISITS = pa.table(
    {
        "user": ["u", "u", "u", "u", "v", "v"],
        "ts": pa.array([moment(m) for m in (0, 5, 10, 16, 0, 9)], pa.timestamp("us")),
        "kind": ["A", "X", "X", "B", "A", "B"],
    }
)
NO_B = (
    "SELECT * FROM visits MATCH_RECOGNIZE (PARTITION BY user ORDER BY ts MEASURES A.ts AS start "
    "PATTERN (A X*? B) WITHIN INTERVAL '15' MINUTE EMIT TIMEOUTS DEFINE A AS kind = 'A', B AS kind = 'B')"
)


@pytest.mark.parametrize("query", [NO_B, NO_B.replace(" EMIT TIMEOUTS", "")])
def test_a_and_no_b_for_15_minutes(query: str) -> None:
    misses = cerise.explain_misses(VISITS, query, where="kind = 'A'")
    assert misses.table.to_pylist() == [
        {
            "user": "u", "ts": moment(0), "reached": 3, "labels": "A X X", "at": moment(16), "wanted": "B",
            "failed": "window: 16 minutes > 15 minutes", "because": "window",
            "others": "or X: window: 16 minutes > 15 minutes",
        }
    ]  # fmt: skip
    assert str(misses) == (
        "user = u, ts = 2024-05-01 09:00:00\n"
        "  reached  A X X\n"
        "  wanted   B, at 2024-05-01 09:16:00\n"
        "  failed   window: 16 minutes > 15 minutes\n"
        "  or X: window: 16 minutes > 15 minutes"
    )


def test_columns_that_are_called_like_those_of_the_table() -> None:
    rows = events("A1:7").rename_columns(["at", "kind", "reached", "k"])
    query = clause("(A B)").replace("ORDER BY t", "PARTITION BY reached ORDER BY at, kind DESC")
    found = cerise.explain_misses(rows, query).table
    assert found.column_names[:3] == ["start_reached", "start_at", "kind"]
    assert [*found.to_pylist()[0].values()][:5] == [7, 1, "A", 1, "A"]


def test_without_an_order_rows_have_numbers() -> None:
    query = clause("(A B)").replace("ORDER BY t", "PARTITION BY k")
    found = cerise.explain_misses(events("A1:1:u A1:1:v B1:1:v C1:1:v"), query).table
    assert [(row["k"], row["row"], row["at"]) for row in found.to_pylist()] == [("u", 1, None), ("v", 3, 3)]


def test_computed_columns_are_told_as_they_are_computed() -> None:
    query = clause("(A B)", B="sum(x * 2) > 9").replace("ORDER BY t", "ORDER BY t % 10")
    found = cerise.explain_misses(events("A1:1 B2:1"), query, limit=1).table
    assert found.column_names[0] == "`t` % 10"
    assert found["failed"][0].as_py() == "sum((`x` * 2)) > 9 is false (sum((`x` * 2)) = 4)"


# ---- SASE+


SASE = {
    "a predicate is false on the closest event": (
        "PATTERN SEQ(A a, B b) WHERE b.x > a.x AND b.x < 9 WITHIN 10", "A1:9 B2:- B3:5 B4:10",
        (1, "a", 3, "b", "b.x > a.x is false (b.x = 5, a.x = 9)", "predicate", None),
    ),
    "a predicate is null": (
        "PATTERN SEQ(A a, B b) WHERE b.x > a.x", "A1:9 B2",
        (1, "a", 2, "b", "b.x > a.x is null (b.x = null, a.x = 9)", "null", None),
    ),
    "the window closes before the event that fits": (
        "PATTERN SEQ(A a, B b, C c) WITHIN 10", "A1 B2 C15",
        (1, "a b", 15, "c", "window: 14 > 10", "window", None),
    ),
    "nothing of that type in the window": (
        "PATTERN SEQ(A a, B b, C c) WITHIN 10", "A1 B2 D30",
        (1, "a b", None, "c", "no event of type C within the window", "window", None),
    ),
    "nothing of that type at all": (
        "PATTERN SEQ(A a, B b)", "A1 C2",
        (1, "a", None, "b", "no event of type B until the end", "end", None),
    ),
    "nothing more at all": (
        "PATTERN SEQ(a, b)", "A1",
        (1, "a", None, "b", "no event until the end", "end", None),
    ),
    "a window of events": (
        "PATTERN SEQ(A a, B b) WITHIN 3 EVENTS", "A1 D2 D3 B4",
        (1, "a", 4, "b", "window: 4 EVENTS > 3 EVENTS", "window", None),
    ),
    "a hopping window": (
        "PATTERN SEQ(A a, B b) WITHIN 4 SLIDE 2", "A1 B4",
        (1, "a", 4, "b", "window: no window of 4 SLIDE 2 holds both ends", "window", None),
    ),
    "negation in the middle": (
        "PATTERN SEQ(A a, NOT B b, C c)", "A1 B2 C3",
        (1, "a c", 2, "NOT b", "NOT B b: such an event occurs", "negation", None),
    ),
    "A, and no B for 15 minutes: there is one": (
        "PATTERN SEQ(A a, NOT B b) WITHIN 15", "A1 B16",
        (1, "a", 16, "NOT b", "NOT B b: such an event occurs", "negation", None),
    ),
    "alternatives: the branch that got furthest": (
        "PATTERN SEQ(A a, OR(B b, SEQ(C c, D d)))", "A1 C2",
        (1, "a c", None, "d", "no event of type D until the end", "end", None),
    ),
    "members of AND are all awaited": (
        "PATTERN SEQ(A a, AND(B b, C c, D d))", "A1 C2",
        (1, "a c", None, "b", "no event of type B until the end", "end",
         "or d: no event of type D until the end"),
    ),
    "too few for a quantifier": (
        "PATTERN SEQ(A a, B{3,} b[], C c)", "A1 B2 B3 C4",
        (1, "a b b", None, "b", "no event of type B until the end", "end", None),
    ),
    "after a Kleene variable what follows is awaited": (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x", "A1 B2:2 B3:1",
        (1, "a b", None, "c", "no event of type C until the end", "end", None),
    ),
    "a final aggregate, where the Kleene variable is left": (
        "PATTERN SEQ(A a, B+ b[], C c) WHERE sum(b.x) > 10", "A1 B2:1 B3:2 C4",
        (1, "a b b", 4, "c", "sum(b[].x) > 10 is false (sum(b[].x) = 3)", "predicate", None),
    ),
    "a final aggregate at the end": (
        "PATTERN SEQ(A a, B+ b[]) WHERE sum(b.x) > 10", "A1 B2:1 B3:2",
        (1, "a b b", 3, "b", "sum(b[].x) > 10 is false (sum(b[].x) = 3)", "predicate", None),
    ),
    "contiguity: the next event is another": (
        "PATTERN SEQ(A a, B b) USE strict_contiguity", "A1 D2 B3",
        (1, "a", 2, "b", "b.kind = 'B' is false (b.kind = 'D')", "predicate", None),
    ),
    "contiguity: there is no next event": (
        "PATTERN SEQ(A a, B b) USE strict_contiguity", "A1",
        (1, "a", None, "b", "end of partition", "end", None),
    ),
    "contiguity: the next event is too late": (
        "PATTERN SEQ(A a, B b) USE strict_contiguity WITHIN 3", "A1 B5",
        (1, "a", 5, "b", "window: 4 > 3", "window", None),
    ),
    "every run of skip_till_any_match is followed": (
        "PATTERN SEQ(A a, B b, C c, D d) USE skip_till_any_match WHERE c.x = b.x", "A1 B2:1 B3:2 C4:2",
        (1, "a b c", None, "d", "no event of type D until the end", "end", None),
    ),
    "what is constant": (
        "PATTERN SEQ(A a, B b) WHERE 1 > 2", "A1 B2",
        (1, "", 1, "a", "1 > 2 is false", "predicate", None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SASE)
def test_the_furthest_run_of_a_query(name: str) -> None:
    query, text, expected = SASE[name]
    assert stops(cerise.explain_misses(events(text), query, time="t", type="kind")) == [expected]


def test_events_that_start_no_match_of_their_key() -> None:
    rows = events("A1:1:u B2:1:v A3:1:v B4:1:v A5:1:-")
    query = "PATTERN SEQ(A a, B b) WHERE [k]"
    found = cerise.explain_misses(rows, query, time="t", type="kind")
    assert found.table.column_names[:3] == ["k", "t", "kind"]
    ended = (1, "a", None, "b", "no event of type B until the end", "end", None)
    assert stops(found) == [ended]
    chosen = cerise.explain_misses(rows, query, time="t", type="kind", where="t IN (1, 2, 5)")
    assert stops(chosen) == [
        (5, "", 5, None, "[k] is null", "null", None),
        ended,
        (2, "", 2, "a", "a.kind = 'A' is false (a.kind = 'B')", "predicate", None),
    ]


def test_what_matches_is_not_missed() -> None:
    found = cerise.explain_misses(events("A1 B2"), "PATTERN SEQ(A a, B b)", time="t", type="kind")
    assert found.table.num_rows == 0
    assert str(found) == "nothing missed: all that was looked at starts a match, or lies inside one"


def test_queries_in_python_and_with_parameters() -> None:
    a, b = dsl.var("A", "a"), dsl.var("B", "b")
    query = dsl.seq(a, b).where(b.x > dsl.param("least"))
    found = cerise.explain_misses(events("A1 B2:3"), query, time="t", type="kind", params={"least": 5})
    assert stops(found) == [(1, "a", 2, "b", "b.x > 5 is false (b.x = 3)", "predicate", None)]


PAIRS = "PATTERN SEQ(A a, B b) RETURN b.x AS x INTO Pair; PATTERN SEQ(Pair p, Pair q) FROM Pair"


def test_queries_over_the_matches_of_others() -> None:
    query = f"{PAIRS} WHERE q.x > p.x"
    found = cerise.explain_misses(events("A1 B2:5 A3 B4:3"), query, time="t", type="kind", limit=1)
    assert found.table["failed"].to_pylist() == ["q.x > p.x is false (q.x = 3, p.x = 5)"]


# ---- how much


def many(count: int) -> pa.Table:
    return events(" ".join(f"A{i}" for i in range(count)))


@pytest.mark.parametrize("query", ["PATTERN SEQ(A a, B b) WITHIN 5", clause("(A B)")])
def test_how_many_are_explained(query: str) -> None:
    roles = {} if "MATCH" in query else {"time": "t", "type": "kind"}
    assert len(cerise.explain_misses(many(30), query, limit=7, **roles).table) == 7
    assert len(cerise.explain_misses(many(1_000), query, **roles).table) == 1_000
    with pytest.raises(
        cerise.PlanError, match="more than 1000 events start no match\nhint: choose some: where="
    ):
        cerise.explain_misses(many(1_001), query, **roles)
    with pytest.raises(cerise.PlanError, match="limit is 0"):
        cerise.explain_misses(many(1), query, limit=0, **roles)


@pytest.mark.parametrize(
    "query", ["PATTERN SEQ(A+ a[], B b) USE skip_till_any_match", clause("((A | A A)+ B)")]
)
def test_a_search_that_takes_too_long(query: str) -> None:
    roles: dict[str, Any] = {} if "MATCH" in query else {"time": "t", "type": "kind"}
    with pytest.raises(cerise.PlanError, match=r"takes more than 5000 steps\nhint: shorten WITHIN"):
        cerise.explain_misses(many(25), query, options=Options(max_steps=5_000), where="t = 0", **roles)


def test_a_long_path_is_no_deep_path() -> None:
    found = cerise.explain_misses(many(20_000), clause("(A D* $ B)", D="1 > 2"), where="t = 0")
    assert found.table["reached"].to_pylist() == [1]
    rows = pa.concat_tables([events("A1"), many(20_000)])
    query = clause("(A X* C)").replace("ORDER BY t", "PARTITION BY k")
    assert cerise.explain_misses(rows, query, limit=1).table["reached"].to_pylist() == [20_001]


def test_the_text_shows_twenty() -> None:
    text = str(cerise.explain_misses(many(21), clause("(A B)")))
    assert text.count("reached") == 20
    assert text.endswith("\n\n… and more: these are 20, the table has them all")


# ---- what is wrong


@pytest.mark.parametrize(
    ("where", "error"),
    [
        (
            "kin = 'A'",
            "unknown column 'kin'\n  line 1, column 1\n  | kin = 'A'\n  | ^^^\nhint: did you mean 'kind'?",
        ),
        ("t + 1", "where='t + 1' is not a predicate"),
        ("PREV(t) > 1", "PARTITION BY and ORDER BY look at one row"),
    ],
)
def test_a_wrong_predicate(where: str, error: str) -> None:
    with pytest.raises(cerise.BindError) as raised:
        cerise.explain_misses(events("A1"), clause("(A B)"), where=where)
    assert error in str(raised.value)


def test_sql_says_itself_what_roles_say() -> None:
    with pytest.raises(cerise.UnsupportedError, match="key= has no meaning"):
        cerise.explain_misses(events("A1"), clause("(A B)"), key="k")


# ---- the search is that of the engines: what it explains are the rows that start no match


@pytest.mark.parametrize(
    "case", [c for c in load_row_cases() if not c.error and not c.on_spark_only], ids=str
)
def test_all_rows_match_or_are_explained(case: RowCase) -> None:
    bound = case.bound()
    table = case.input.append_column(CHOSEN, pa.array([True] * len(case.input), pa.bool_()))
    starts = {each.start for each in find_rows(bound, prepare(bound, case.input)) if each.status == "match"}
    found = row_misses(bound, table, Options(), 10_000)
    assert len(found) == len(case.input) - len(starts)


@examples(150)
@given(pair=pairs())
def test_all_events_match_or_are_explained(pair: Pair) -> None:
    query = replace(pair.query, output=Output.ALL, limit=None, returns=None)
    bound = bind(query, pair.schema, {name: pair.params[name] for name in params_of(query)})
    table = pair.table.append_column(CHOSEN, pa.array([True] * len(pair.table), pa.bool_()))
    try:
        events = EventBatch.of(pair.table, bound.schema, reads=bound.ties)
        matcher = ENGINES["reference"].start(bound, Options())
        list(matcher.feed(events))
        (matches,) = matcher.flush()
    except DataError:
        return
    bindings = zip(*(rows.to_pylist() for rows in matches.rows.values()), strict=True)
    starts = {min(row for rows in binding for row in rows or ()) for binding in bindings}
    assert len(sase_misses(bound, table, Options(), 10_000)) == len(pair.table) - len(starts)


# ---- on Spark


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("where", [None, "kind = 'A'"])
def test_a_clause_on_spark(spark: SparkSession, where: str | None) -> None:
    frame = spark.createDataFrame(VISITS.to_pandas()).selectExpr(
        "user", "CAST(ts AS TIMESTAMP_NTZ) ts", "kind"
    )
    frame.createOrReplaceTempView("visits")
    here = cerise.explain_misses(VISITS, NO_B, where=where)
    on_frame = cerise.explain_misses(frame, NO_B, where=where)
    in_session = cerise.explain_misses(spark, f"SELECT start FROM ({NO_B}) WHERE start IS NULL", where=where)
    for found in (on_frame, in_session):
        assert sorted_rows(found.table.toArrow()) == sorted_rows(here.table)
        assert [each.dataType for each in found.table.schema][:2] == [
            frame.schema["user"].dataType,
            frame.schema["ts"].dataType,
        ]
    if where:
        assert str(on_frame) == str(here)


@pytest.mark.parametrize("key", [(), "k"])
@pytest.mark.parametrize("where", [None, "t % 2 = 1"])
def test_a_query_on_spark(spark: SparkSession, key: Any, where: str | None) -> None:
    rows = events("A1:5:u B2:3:u A3:1:v B4:7:v A5:9:u C6:1:v A7:2:w")
    query = "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 5"
    roles: dict[str, Any] = {"time": "t", "type": "kind", "key": key, "where": where}
    here = cerise.explain_misses(rows, query, **roles)
    there = cerise.explain_misses(spark.createDataFrame(rows.to_pandas()), query, **roles)
    assert there.table.columns == here.table.column_names
    assert sorted_rows(there.table.toArrow()) == sorted_rows(here.table)


def test_a_path_and_a_limit_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(many(30), tmp_path / "events.parquet")
    found = cerise.explain_misses(str(tmp_path), clause("(A B)"), limit=3, spark=True)
    assert found.table.count() == 3
    frame = spark.createDataFrame(events("A1 B2:5").to_pandas())
    chained = cerise.explain_misses(frame, PAIRS, time="t", type="kind")
    assert chained.table.toArrow()["failed"].to_pylist() == ["no event of type Pair until the end"]


def test_what_only_spark_can_compute(spark: SparkSession) -> None:
    frame = spark.createDataFrame(events("A1 B2").to_pandas()).drop("x")
    query = clause("(A B)", B="soundex(kind) = 'Z'")
    found = cerise.explain_misses(frame, query, where="soundex(kind) = soundex('A')").table.toArrow()
    assert found["failed"].to_pylist() == ["(soundex(`kind`)) = 'Z' is false ((soundex(`kind`)) = 'B000')"]
    with pytest.raises(cerise.BindError, match="kin"):
        cerise.explain_misses(frame, query, where="kin = 'A'")
    with pytest.raises(cerise.BindError, match="is not a predicate"):
        cerise.explain_misses(frame, query, where="t + 1")


def test_a_session_takes_one_clause(spark: SparkSession) -> None:
    with pytest.raises(
        cerise.UnsupportedError, match="has 0 MATCH_RECOGNIZE clauses, where one is asked for"
    ):
        cerise.explain_misses(spark, "SELECT 1")
