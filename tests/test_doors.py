"""The doors: what a verb is given that it cannot use is refused by a CeriseError that says what to do."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import Options, Store, dsl
from cerise.errors import (
    BindError,
    CeriseError,
    DataError,
    ParseError,
    PlanError,
    StoreError,
    UnsupportedError,
)

EVENTS = pa.table(
    {"ts": [1, 2, 3, 4], "kind": ["A", "B", "A", "B"], "x": [1.0, 2.0, 3.0, 4.0], "u": ["p", "p", "q", "q"]}
)
MOMENTS = EVENTS.set_column(0, "ts", pa.array([dt.datetime(2024, 1, day) for day in (1, 2, 3, 4)]))
SQL = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {} AS m PATTERN ({}) DEFINE A AS {})"
ROWS = SQL.format("LAST(A.x)", "A B", "x > 1")


def find(query: Any, events: Any = EVENTS, **roles: Any) -> Any:
    return cerise.find(events, query, **{"time": "ts", "type": "kind", **roles})


def refusal(query: Any, kind: type[CeriseError], events: Any = EVENTS, **roles: Any) -> str:
    with pytest.raises(kind) as caught:
        find(query, events, **roles)
    assert caught.value.hint
    return str(caught.value)


# ---- numbers that do not fit

NINES = "9" * 5_000


@pytest.mark.parametrize("size", [2**63, 10**20, 10**40 - 1])
@pytest.mark.parametrize(
    "clause", ["WITHIN {}", "WITHIN {} events", "WITHIN 5 SLIDE {}", "LIMIT {} PER EVENT"]
)
def test_a_window_beyond_64_bits(size: int, clause: str) -> None:
    assert "does not fit into 64 bits" in refusal(f"PATTERN SEQ(A a, B b) {clause.format(size)}", ParseError)


def test_a_number_of_a_query_written_in_python_beyond_64_bits() -> None:
    a = dsl.var("A", "a")
    for write in (
        lambda: dsl.seq(a).within(2**63),
        lambda: dsl.seq(a).limit(10**5000),
        lambda: dsl.many(a, 2**63),
        lambda: dsl.many(a, 1, 2**70),
    ):
        with pytest.raises(BindError, match="give a whole number"):
            write()


@pytest.mark.parametrize("span", ["1e30 seconds", "1e999999999 days", f"{NINES} minutes"])
def test_a_duration_beyond_64_bits(span: str) -> None:
    assert "is too long" in refusal(f"PATTERN SEQ(A a, B b) WITHIN {span}", ParseError, MOMENTS)


def test_a_parameter_beyond_64_bits() -> None:
    query = "PATTERN SEQ(A a, B b) WITHIN :w"
    assert "64 bits" in refusal(query, BindError, params={"w": 10**5_000})
    assert "64 bits" in refusal(query, BindError, MOMENTS, params={"w": dt.timedelta.max})
    assert "64 bits" in refusal("PATTERN SEQ(A a, B b) WHERE a.x > :w", BindError, params={"w": -(10**5_000)})


@pytest.mark.parametrize(
    "query",
    [
        f"PATTERN SEQ(A a, B b) WHERE a.x > {NINES}",
        f"PATTERN SEQ(A a, B b) WITHIN {NINES}",
        f"PATTERN SEQ(A a, B+ b[]) WHERE b[{NINES}].x > 1",
        f"PATTERN SEQ(A a, B{{{NINES}}} b[])",
        f"PATTERN SEQ(A a, B b) LIMIT {NINES} PER EVENT",
    ],
)
def test_thousands_of_digits(query: str) -> None:
    said = refusal(query, ParseError)
    assert "5,000 digits" in said
    assert len(said) < 1_000


@pytest.mark.parametrize(
    "statement",
    [
        SQL.format(1, "A", f"x > {NINES}"),
        SQL.format(1, f"A{{{NINES}}}", "x > 1"),
        SQL.format(1, f"A{{2,{NINES}}}", "x > 1"),
        SQL.format(f"FIRST(x, {NINES})", "A", "x > 1"),
        SQL.format(1, "A B", "x > 1").replace("DEFINE", f"WITHIN {NINES} DEFINE"),
        SQL.format(1, "A B", "x > 1").replace("DEFINE", "WITHIN 99999999999999999999 DEFINE"),
    ],
)
def test_thousands_of_digits_in_sql(statement: str) -> None:
    with pytest.raises((ParseError, BindError), match="64 bits") as caught:
        cerise.find(EVENTS, statement)
    assert len(str(caught.value)) < 1_000


def test_an_interval_beyond_64_bits() -> None:
    for span in ("INTERVAL '99999999999999999999' SECOND", "INTERVAL '9999999999999' DAY"):
        with pytest.raises(BindError, match="too long"):
            cerise.find(MOMENTS, ROWS.replace("DEFINE", f"WITHIN {span} DEFINE"))


# ---- text that UTF-8 cannot write

HALF = "\ud800"


@pytest.mark.parametrize(
    "query",
    [
        f"PATTERN SEQ(A a, B b) WHERE a.u = '{HALF}'",
        f'PATTERN SEQ("{HALF}" a, B b)',
        f'PATTERN SEQ(A a, B b) RETURN a.u AS "{HALF}"',
        f"PATTERN SEQ(A a, B b) WHERE a.u LIKE '{HALF}%'",
        f"PATTERN SEQ(A a, B b) -- {HALF}",
    ],
)
def test_a_lone_surrogate_in_a_query(query: str) -> None:
    said = refusal(query, ParseError)
    assert said.encode("utf-8")
    assert r"\ud800" in said


@pytest.mark.parametrize("measure", [f"'{HALF}'", f"A.`{HALF}`", f"x AS `{HALF}`, 1"])
def test_a_lone_surrogate_in_sql(measure: str) -> None:
    with pytest.raises(ParseError, match="surrogate"):
        cerise.find(EVENTS, SQL.format(measure, "A", "x > 1"))


def test_a_lone_surrogate_in_a_query_written_in_python() -> None:
    a = dsl.var("A", "a")
    for write in (
        lambda: dsl.var(HALF),
        lambda: dsl.var("A", HALF),
        lambda: dsl.seq(a).where(a.u == HALF),
        lambda: dsl.seq(a).where(a.u.like(HALF)),
        lambda: dsl.seq(a).returns(**{HALF: a.x}),
        lambda: dsl.seq(a).into(HALF),
    ):
        with pytest.raises(CeriseError, match="surrogate"):
            write()


def test_a_lone_surrogate_in_names_values_and_paths() -> None:
    query = "PATTERN SEQ(A a, B b) WHERE a.u = :p"
    assert "surrogate" in refusal(query, BindError, params={"p": HALF})
    for role in ("time", "type", "key", "order"):
        with pytest.raises(BindError) as caught:
            find("PATTERN SEQ(A a, B b)", **{role: HALF})
        assert str(caught.value).encode("utf-8")
    assert "surrogate" in refusal("PATTERN a", StoreError, f"/tmp/{HALF}.parquet")
    for frame in (pd.DataFrame({"ts": [1], HALF: [1]}), pd.DataFrame({"ts": [1], "u": [HALF]})):
        assert refusal("PATTERN a", DataError, frame, type=None)


# ---- verbs and their arguments


def test_sql_is_given_what_is_not_a_session() -> None:
    for given in (EVENTS, EVENTS.to_pandas(), "SELECT 1", None):
        with pytest.raises(UnsupportedError, match="Spark session") as caught:
            cerise.sql(given, "SELECT 1")
        assert "cerise." in str(caught.value.hint)


def test_a_word_of_sql_in_the_place_of_a_measure() -> None:
    for word in ("ELSE", "WHEN", "END", "THEN", "CASE", "BETWEEN", "IN", "NOT", "INTERVAL", "DISTINCT"):
        with pytest.raises(CeriseError):
            cerise.find(EVENTS, SQL.format(word, "A", "x > 1"))
        with pytest.raises(CeriseError):
            cerise.find(EVENTS, SQL.format(1, "A", word))


def test_files_without_spark_say_how_to_go_on(tmp_path: Path) -> None:
    pq.write_table(EVENTS, tmp_path / "x.parquet")
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import cerise\n"
        "for verb in (cerise.find, cerise.count, cerise.profile, cerise.explain_misses):\n"
        "    assert verb(sys.argv[1], 'PATTERN a', time='ts')\n"
        "    try: verb(sys.argv[1], 'PATTERN a', time='ts', spark=True)\n"
        "    except cerise.CeriseError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "x.parquet"], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("Spark is not installed") == 4
    assert done.stdout.count("pip install") == 4
    assert "leave spark= out" in done.stdout


def test_misses_of_rows_without_a_time() -> None:
    events = pa.table({"ts": [1, None, 3], "x": [1, 2, 3]})
    statement = (
        SQL.format(1, "A B", "x > 0")
        .replace("DEFINE", "WITHIN 2 DEFINE")
        .replace("x > 0", "x > 0, B AS x > 9")
    )
    said = str(cerise.explain_misses(events, statement))
    assert "a row without a time is in no window" in said


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("doors") / "store"
    made = Store.create(path, schema=EVENTS.schema, time="ts", type="kind")
    made.append(EVENTS)
    return made


def test_a_store_explains_several_queries(store: Store) -> None:
    queries = ["PATTERN SEQ(A a, B b)", "PATTERN A a"]
    one, other = (cerise.explain(store, each) for each in queries)
    assert cerise.explain(store, queries) == f"query 1\n\n{one}\n\nquery 2\n\n{other}"


GAPS = ROWS.replace("PATTERN (A B)", "PATTERN (A X)").replace("x > 1", "x > 0")  # one match, or each start


def test_the_dialect_is_an_argument_of_every_verb_that_takes_sql(store: Store) -> None:
    assert (cerise.count(EVENTS, GAPS), cerise.count(EVENTS, GAPS, dialect="flink")) == (2, 3)
    assert (cerise.count(store, GAPS), cerise.count(store, GAPS, dialect="flink")) == (2, 3)
    assert len(store.find(GAPS, dialect="flink")) == 3
    assert len(cerise.profile(store, GAPS, dialect="flink").matches) == 3
    assert len(cerise.profile(EVENTS, GAPS, dialect="flink").matches) == 3
    assert cerise.schema(EVENTS, GAPS, dialect="flink") == cerise.find(EVENTS, GAPS).schema
    assert len(cerise.explain_misses(EVENTS, GAPS, dialect="flink").table) == 0
    assert len(store.candidates(GAPS, dialect="flink")) == 4
    for ask in (cerise.count, cerise.find, cerise.profile, cerise.explain, cerise.explain_misses):
        with pytest.raises(ParseError, match="unknown dialect 'oracle'"):
            ask(EVENTS, GAPS, dialect="oracle")
    for ask in (cerise.count, cerise.find, cerise.profile, cerise.explain, Store.candidates):
        with pytest.raises(ParseError, match="unknown dialect 'oracle'"):
            ask(store, GAPS, dialect="oracle")


@pytest.mark.parametrize("role", ["time", "type", "key", "order", "params"])
def test_what_sql_says_itself_is_no_argument(role: str, store: Store) -> None:
    given: dict[str, Any] = {role: {"x": 1} if role == "params" else "ts"}
    for ask in (cerise.find, cerise.profile, cerise.count, cerise.explain, cerise.explain_misses):
        with pytest.raises(UnsupportedError, match=f"{role}= has no meaning"):
            ask(EVENTS, ROWS, **given)
        with pytest.raises(UnsupportedError, match=f"{role}= has no meaning"):
            ask(store, ROWS, **given)
    with pytest.raises(UnsupportedError, match=f"{role}= has no meaning"):
        cerise.schema(EVENTS, ROWS, **given)


def test_a_dialect_of_sql_is_no_argument_for_sase(store: Store) -> None:
    for ask in (cerise.find, cerise.profile, cerise.count, cerise.explain, cerise.explain_misses):
        with pytest.raises(UnsupportedError, match="no meaning for SASE"):
            ask(EVENTS, "PATTERN a", time="ts", dialect="flink")
    with pytest.raises(UnsupportedError, match="no meaning for SASE"):
        store.find("PATTERN a", dialect="flink")


def test_a_strict_warning_is_one_error_everywhere(store: Store) -> None:
    query, strict = "PATTERN SEQ(A a, B b) WITHIN 1 events", Options(strict=True)
    for ask in (cerise.find, cerise.profile, cerise.count):
        with pytest.raises(BindError, match="too small") as caught:
            ask(EVENTS, query, time="ts", type="kind", options=strict)
        assert "strict=True" in str(caught.value)
    for ask in (cerise.find, cerise.profile, cerise.count):
        with pytest.raises(BindError, match="too small"):
            ask(store, query, options=strict)
        with pytest.warns(cerise.CeriseWarning, match="too small") as warned:
            ask(store, query)
        assert warned[0].filename == __file__


# ---- much work for a short text


@pytest.mark.parametrize("item", ["T{0}? a{0}", "T{0}* a{0}", "OR(T{0} a{0}, U{0} b{0})"])
def test_an_and_of_many_branches_is_refused_at_once(item: str) -> None:
    query = f"PATTERN AND({', '.join(item.format(i) for i in range(12))}) WITHIN 10"
    assert "use fewer" in refusal(query, PlanError)


def test_an_and_of_many_plain_items_is_planned() -> None:
    for items in (9, 12, 20):
        query = f"PATTERN AND({', '.join(f'T{i} a{i}' for i in range(items))}) WITHIN 10"
        with pytest.warns(cerise.CeriseWarning, match="no event has type"):
            assert len(find(query)) == 0


def test_an_error_shows_a_part_of_a_long_query() -> None:
    for query in (
        f"PATTERN SEQ(A a, B b) WHERE a.{'y' * 9_000_000} > 1",
        f"PATTERN SEQ(A a, B b) WHERE a.u = '{'y' * 9_000_000}' AND",
        "x" * 9_000_000,
    ):
        assert len(refusal(query, CeriseError)) < 3_000


# ---- arguments in the wrong place


def test_query_and_events_are_swapped() -> None:
    for query in ("PATTERN SEQ(A a, B b)", ROWS):
        for ask in (cerise.find, cerise.count, cerise.profile, cerise.explain):
            with pytest.raises(UnsupportedError, match="take the events first, then the query"):
                ask(query, EVENTS, time="ts")
    with pytest.raises(UnsupportedError, match="events are expected"):
        cerise.schema("PATTERN SEQ(A a, B b)", EVENTS, time="ts")


def test_sql_without_match_recognize() -> None:
    for roles in ({}, {"time": "ts"}):
        with pytest.raises(UnsupportedError, match="has no MATCH_RECOGNIZE") as caught:
            cerise.find(EVENTS, "SELECT * FROM t", **roles)
        assert "cerise.sql" in str(caught.value)
    assert "ask it alone" in refusal([ROWS, "PATTERN A a"], UnsupportedError)


def test_what_is_not_a_table_but_could_be(store: Store) -> None:
    assert "the store knows it" in refusal("PATTERN A a", UnsupportedError, store)
    assert "spark.table('trades')" in refusal("PATTERN A a", StoreError, "trades")
    assert "spark.table('main.sales.trades')" in refusal("PATTERN A a", StoreError, "main.sales.trades")


def test_time_in_the_index_of_a_pandas_frame() -> None:
    frame = EVENTS.to_pandas().set_index("ts")
    assert "reset_index()" in refusal("PATTERN A a", BindError, frame)
    with pytest.raises(BindError, match="reset_index"):
        cerise.find(frame, ROWS)
    moments = pd.DataFrame({"x": [1]}, index=pd.DatetimeIndex(["2024-01-01"]))
    assert "reset_index()" in refusal("PATTERN a", BindError, moments, type=None)
    assert "reset_index" not in refusal("PATTERN A a", BindError, frame.reset_index(), time="no")


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def allocate(*_: Any) -> None:
        np.zeros((1 << 40, 6), np.int64)

    monkeypatch.setattr("cerise.run.find.answer", allocate)
    assert "more memory than there is" in refusal("PATTERN SEQ(A a, B b)", PlanError)
    with pytest.raises(PlanError, match="Unable to allocate"):
        cerise.find(EVENTS, ROWS)
