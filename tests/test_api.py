"""The public surface: what `import cerise` gives, what `find` takes, and how it refuses."""

from __future__ import annotations

import ast
import datetime as dt
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cerise
from cerise import Options, dsl
from cerise.lang.builder import i

EVENTS = pa.table({"type": ["A", "B", "B", "C"], "t": [1, 2, 3, 4], "x": [5, 1, 2, 7]})
QUERY = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 10"


def find(query: Any = QUERY, events: Any = EVENTS, **options: Any) -> Any:
    return cerise.find(events, query, **{"time": "t", "type": "type", **options})


def test_every_name_has_one_home() -> None:
    """Type checkers read imports, Python reads a table: both have the same names, from the same modules."""
    typed = {
        alias.name: (node.module or "").removeprefix("cerise.")
        for node in ast.walk(ast.parse(Path(cerise.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cerise.")
        for alias in node.names
        if alias.asname == alias.name  # so that strict type checkers take it for exported
    }
    assert typed == cerise._HOMES
    assert set(cerise.__all__) <= set(dir(cerise))
    with pytest.raises(AttributeError, match="fnd"):
        cerise.fnd  # noqa: B018


@pytest.mark.nightly
def test_a_strict_type_checker_sees_the_public_names(tmp_path: Path) -> None:
    """Under `no_implicit_reexport` a name counts only where the package says that it exports it."""
    program = tmp_path / "program.py"
    program.write_text("".join(f"import cerise\ncerise.{name}\n" for name in cerise.__all__))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(program)],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


HEAVY = ("numpy", "pyarrow", "numba", "sqlglot", "pyspark", "pandas", "lark", "deltalake")


def test_import_is_light() -> None:
    """Counted in modules, not seconds: what takes time is what must not be loaded."""
    code = f"import sys, cerise; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_tasks_of_spark_load_the_index_only_for_a_store() -> None:
    """Its kernels would be compiled on the first use, for queries that never ask them."""
    code = "import sys, cerise.spark.runner; print([m for m in sys.modules if m.startswith('cerise.store.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_text_is_bound_anew_to_other_columns_and_roles() -> None:
    """Bound texts stay in memory: equal words over other types, keys or orders are other queries."""
    query = "PATTERN SEQ(A a, B b) RETURN a.x AS x, b.t - a.t AS gap"
    numbers = pa.table({"t": [1, 2], "type": ["A", "B"], "x": [5, 6]})
    times = numbers.set_column(0, "t", numbers["t"].cast(pa.timestamp("us")))
    words = numbers.set_column(2, "x", pa.array(["u", "v"]))
    nested = numbers.append_column("s", pa.array([{"y": 1}] * 2)).replace_schema_metadata({"k": "v"})
    for _ in range(2):
        assert find(query, numbers).to_pylist()[0]["gap"] == 1
        assert find(query, times).to_pylist()[0]["gap"] == dt.timedelta(microseconds=1)
        assert find(query, words)["x"].to_pylist() == ["u"]
        assert find(query, nested)["x"].to_pylist() == [5]
        assert len(find(query, numbers, key="x")) == 0


def test_finding_in_arrow_loads_no_spark() -> None:
    code = (
        "import sys, cerise, pyarrow as pa;"
        "cerise.find(pa.table({'t': [1]}), 'PATTERN a', time='t');"
        "print([m for m in ('pyspark', 'deltalake', 'typer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_shape_of_a_result() -> None:
    found = find()
    assert found.column_names == ["match_id", "first_time", "last_time", "a", "b", "c"]
    (row,) = found.to_pylist()
    assert (row["first_time"], row["last_time"]) == (1, 4)
    assert row["a"] == {"type": "A", "t": 1, "x": 5}
    assert row["b"] == [{"type": "B", "t": 2, "x": 1}, {"type": "B", "t": 3, "x": 2}]
    assert found.schema == cerise.schema(EVENTS, QUERY, time="t", type="type")
    assert found.schema == cerise.schema(EVENTS.schema, QUERY, time="t", type="type")


def test_match_ids_are_the_same_in_every_run_and_differ_within_one() -> None:
    many = find("PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match")
    ids = many.column("match_id").to_pylist()
    assert len(set(ids)) == 3
    assert find().column("match_id").to_pylist() == [-7218007665138870356]


@pytest.mark.parametrize(
    "convert",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        lambda table: table.to_pandas(),
        lambda table: table.to_pandas().set_index("x", drop=False),
        pl.from_arrow,
        lambda events: duckdb.sql("SELECT * FROM events"),
    ],
    ids=["table", "batch", "reader", "pandas", "pandas index", "polars", "duckdb"],
)
def test_any_table_that_speaks_arrow(convert: Any) -> None:
    found = find(events=convert(EVENTS))
    ids = found["match_id"].to_pylist() if isinstance(found, pa.Table) else list(found["match_id"])
    assert ids == find().column("match_id").to_pylist()


def test_pandas_categories_and_polars_strings() -> None:
    categories = EVENTS.to_pandas().astype({"type": "category"})
    assert len(find(events=categories)) == 1
    assert len(find(events=pl.from_arrow(EVENTS).with_columns(pl.col("type").cast(pl.Categorical)))) == 1
    assert len(find("PATTERN SEQ(A a, B b) WHERE a.x = :x", categories, params={"x": 5})) == 1


def test_a_pandas_timestamp_with_a_zone() -> None:
    times = pd.date_range("2024-03-31 00:00", periods=4, freq="h", tz="Europe/Berlin")  # the clock changes
    frame = pd.DataFrame({"type": list("ABCD"), "ts": times})
    assert len(cerise.find(frame, "PATTERN SEQ(A a, D d) WITHIN 3 hours", time="ts", type="type")) == 1
    assert len(cerise.find(frame, "PATTERN SEQ(A a, D d) WITHIN 2 hours", time="ts", type="type")) == 0


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ({"t": [1]}, "Spark DataFrame"),
        ([1, 2], "Spark DataFrame"),
        (None, "Arrow"),
    ],
)
def test_what_is_no_table(events: Any, said: str) -> None:
    with pytest.raises(cerise.UnsupportedError, match=said):
        find(events=events)


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ({"time": "tt"}, "time column 'tt'.*\n.*did you mean 't'"),
        ({"type": "typ"}, "type column 'typ'"),
        ({"key": "k"}, "key column 'k'"),
        ({"order": ["t", "oder"]}, "order column 'oder'"),
        ({"time": "type"}, "not a time"),
        ({"options": Options(engine="nfaa")}, "unknown engine"),
    ],
)
def test_wrong_roles(roles: dict[str, Any], said: str) -> None:
    with pytest.raises(cerise.CeriseError, match=said):
        find(**roles)


def test_strict_makes_warnings_errors() -> None:
    query = "PATTERN SEQ(A a, B b, C c) WITHIN 2 EVENTS"
    with pytest.warns(cerise.CeriseWarning, match="too small"):
        assert len(find(query)) == 0
    with pytest.raises(cerise.BindError, match="too small"):
        find(query, options=Options(strict=True))


def test_the_budget_on_runs() -> None:
    events = pa.table({"t": range(30)})
    for engine, message in (
        ("nfa", "runs are alive at event"),
        (None, "one event, at time 10, completes more"),
    ):
        options = Options(engine=engine, max_runs=1000)
        with pytest.raises(cerise.PlanError, match=message) as caught:
            cerise.find(events, "PATTERN a+ USE skip_till_any_match", time="t", options=options)
        assert "max_runs" in str(caught.value)


@pytest.mark.parametrize("options", [{"max_runs": 0}, {"partitions": -1}])
def test_options_are_checked(options: dict[str, int]) -> None:
    with pytest.raises(cerise.PlanError, match="at least 1"):
        Options(**options)


def test_parameters_are_values_never_text() -> None:
    query = "PATTERN SEQ(A a, B b) WHERE a.type = :type AND b.x BETWEEN :low AND :high WITHIN :span"
    given = {"type": "A' OR 'x' = 'x", "low": 1, "high": 2.5, "span": 10}
    assert len(find(query, params=given)) == 0
    assert len(find(query, params={**given, "type": "A"})) == 1


@pytest.mark.parametrize(
    ("value", "column"),
    [
        (dt.datetime(2024, 1, 1), pa.timestamp("us")),
        (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), pa.timestamp("ms", "America/New_York")),
        (dt.date(2024, 1, 1), pa.date32()),
        (True, pa.bool_()),
        ("ü", pa.large_string()),
        (2**53 + 1, pa.int64()),
        (0.1, pa.float64()),
        (dt.timedelta(seconds=1), pa.duration("s")),
    ],
)
def test_parameters_of_every_kind(value: Any, column: pa.DataType) -> None:
    events = pa.table({"t": [1, 2], "v": pa.array([value, None], column)})
    found = cerise.find(
        events, "PATTERN a WHERE a.v = :v RETURN a.t AS t, a.v AS v", time="t", params={"v": value}
    )
    assert found.column("t").to_pylist() == [1]
    assert found.schema.field("v").type == column


def test_a_parameter_of_no_kind() -> None:
    with pytest.raises(cerise.BindError, match="list"):
        find("PATTERN a WHERE a.x = :x", params={"x": [1]})


def test_a_query_in_python_and_its_text() -> None:
    a, b = dsl.var("A", "a"), dsl.many(dsl.var("B", "b"))
    draft = dsl.seq(a, b).where(b[i].x > b[i - 1].x, b.x < a.x).within(10)
    assert cerise.parse(str(cerise.parse(draft.query))) == draft.query
    assert find(draft).column("match_id") == find(str(cerise.parse(draft.query))).column("match_id")
    assert len(find(draft)) == 2


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda a: dsl.seq("A", "B"), "not an item of a pattern"),
        (lambda a: dsl.seq(a).where("x"), "not a predicate"),
        (lambda a: dsl.seq(a).where(a.x == a), "an event, not a value"),
        (lambda a: dsl.seq(a).limit(0), "from 1 to"),
        (lambda a: dsl.seq(a).use("skip_til_next"), "did you mean 'skip_till_next'"),
        (lambda a: dsl.seq(a).within(a.x), "a constant or a parameter"),
        (lambda a: dsl.many(dsl.many(a)), "only a single event"),
        (lambda a: a[0].x, "no event is numbered 0"),
        (lambda a: a[i - 2].x, "only the previous event"),
        (lambda a: dsl.seq(dsl.seq(a).within(3)), "clauses of its own"),
        (lambda a: dsl.seq(a).within(-1), "from 0 to"),
        (lambda a: dsl.seq(a).within("5 WHERE x.y > 1"), "is not a window"),
        (lambda a: dsl.seq(a).within("5 fortnights"), "is not a window"),
        (lambda a: dsl.many(a, 3, 2), "from 3 to"),
        (lambda a: dsl.many(a, 1.5), "low is 1.5"),
        (lambda a: dsl.seq(a).returns(), "nothing to return"),
        (lambda a: dsl.seq(a).into(""), "not a name"),
        (lambda a: dsl.seq(a).reading(dsl.seq(a)), "a query with a name"),
        (lambda a: dsl.seq(a).partition_by(a.x), "not a column"),
        (lambda a: dsl.seq(a).where(a.x.is_in([])), "no values"),
        (lambda a: dsl.var("odd name"), "not a plain name"),
        (lambda a: dsl.var(""), "not a name"),
        (lambda a: dsl.param("odd name"), "not a name for a parameter"),
    ],
)
def test_mistakes_in_python_are_explained(write: Any, said: str) -> None:
    with pytest.raises(cerise.BindError, match=said):
        write(dsl.var("A", "a"))
    with pytest.raises(TypeError, match="&"):
        bool(dsl.var("A", "a").x == 1)


def test_predicates_of_parts_hold_for_the_whole() -> None:
    a, b, c = dsl.var("A", "a"), dsl.var("B", "b"), dsl.var("C", "c")
    assert len(find(dsl.seq(dsl.seq(a, b).where(a.x > 100), c))) == 0
    assert len(find(dsl.seq(dsl.seq(a, b).where(a.x > 4), c))) == 1
    assert len(find(dsl.any_of(dsl.seq(a, b).where(a.x > 100), dsl.seq(c)))) == 1


def test_a_variable_alone_and_whole_events() -> None:
    a = dsl.var("A", "a")
    assert len(find(a)) == 1
    draft = dsl.seq(a, dsl.var("B", "b")).returns(first=a, x=a.x * 2).within(dsl.param("w"))
    assert str(draft) == str(cerise.parse(draft)) == str(cerise.parse(str(draft)))
    (row,) = find(draft, params={"w": 5}).to_pylist()
    assert (row["first"], row["x"]) == ({"type": "A", "t": 1, "x": 5}, 10)
    with pytest.raises(cerise.UnsupportedError, match="int is not a query"):
        find(3)


def test_a_schema_has_no_events() -> None:
    with pytest.raises(cerise.UnsupportedError, match="a schema has no events"):
        find(events=EVENTS.schema)


def test_warnings_point_at_the_caller() -> None:
    with pytest.warns(cerise.CeriseWarning) as caught:
        cerise.find(EVENTS, "PATTERN SEQ(A a, D d) WITHIN 1 EVENTS", time="t", type="type")
    assert [each.filename for each in caught] == [__file__] * 2


def test_a_type_that_no_event_has_is_noticed() -> None:
    events = pa.table({"type": ["MSFT", "GOOG"], "t": [1, 2]})
    with pytest.warns(cerise.CeriseWarning, match="no event has type 'MSTF': did you mean 'MSFT'"):
        assert len(find("PATTERN SEQ(MSTF a, GOOG b)", events)) == 0
    with pytest.raises(cerise.BindError, match="no event has type 'Shelf': known: GOOG, MSFT"):
        find("PATTERN SEQ(Shelf a, NOT Register b, GOOG c)", events, options=Options(strict=True))


def test_what_was_counted_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    events = pa.table({"t": [1, 2], "x": [0, 3]})
    with caplog.at_level("INFO", logger="cerise"):
        cerise.find(events, "PATTERN SEQ(a, b) WHERE b.x / a.x > 1", time="t")
    assert "2 events, 0 matches, at most 2 runs at once; 1 values could not be computed" in caplog.text


@pytest.mark.parametrize(
    "query",
    [
        "PATTERN a WHERE " + " OR ".join(["a.x = 1"] * 2000),
        "PATTERN a WHERE " + "(" * 2000 + "a.x" + ")" * 2000 + " = 1",
        "PATTERN " + "SEQ(" * 2000 + "a" + ")" * 2000,
        "PATTERN a WHERE a.x = " + "+".join(["1"] * 2000),
    ],
)
def test_a_query_that_nests_too_deeply(query: str) -> None:
    with pytest.raises(cerise.CeriseError, match="nests too deeply"):
        find(query)


def test_long_lists_and_many_conjuncts() -> None:
    ids = ", ".join(map(str, range(5000)))
    assert len(find(f"PATTERN a WHERE a.x IN ({ids})")) == 4
    assert len(find("PATTERN a WHERE " + " AND ".join(["a.x > 0"] * 500))) == 4


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ({"time": None}, "no column says when an event happened"),
        ({"time": 1}, "time is 1"),
        ({"type": 1}, "type is 1"),
        ({"key": ["x", 1]}, "key is 1"),
    ],
)
def test_roles_that_are_no_names(roles: dict[str, Any], said: str) -> None:
    with pytest.raises(cerise.BindError, match=said):
        find(**roles)
    assert len(find(key=None, order=None)) == 1


def test_tables_that_do_not_become_arrows() -> None:
    twice = pd.DataFrame([[1, 2, 3]], columns=["t", "x", "x"])
    mixed = pd.DataFrame({"t": [1, 2], "x": [1, "two"]})
    for frame in (twice, mixed):
        with pytest.raises(cerise.DataError, match="DataFrame does not become an Arrow table"):
            cerise.find(frame, "PATTERN a", time="t")
    with pytest.raises(cerise.UnsupportedError, match="Series"):
        cerise.find(pd.Series([1]), "PATTERN a", time="t")
    assert len(cerise.find(pd.DataFrame(columns=["t", "x"]), "PATTERN a WITHIN 5", time="t")) == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (pd.Timestamp("2024-01-01 00:00:00.000000001"), "finer than a microsecond"),
        (np.datetime64("2024-01-01T00:00:00.000000001"), "finer than a microsecond"),
        (np.array([1, 2]), "is a ndarray"),
    ],
)
def test_parameters_that_would_be_misread(value: Any, said: str) -> None:
    with pytest.raises(cerise.BindError, match=said):
        find("PATTERN a WHERE a.x = :x", params={"x": value})


def test_parameters_of_numpy_and_pandas() -> None:
    when = dt.datetime(2024, 1, 1)
    events = pa.table({"t": pa.array([when], pa.timestamp("us")), "x": [3]})
    for value in (np.datetime64(when), np.datetime64(when, "ns"), pd.Timestamp(when)):
        assert len(cerise.find(events, "PATTERN a WHERE a.t = :v", time="t", params={"v": value})) == 1
    assert len(cerise.find(events, "PATTERN a WHERE a.x = :v", time="t", params={"v": np.int32(3)})) == 1
    null = "PATTERN a WHERE coalesce(:v, 3) = 3"
    assert len(cerise.find(events, null, time="t", params={"v": pd.NaT})) == 1


@pytest.mark.parametrize(
    ("query", "line", "marks"),
    [
        ("PATTERN a WHERE c.x > 1", "c.x", "^"),
        ("PATTERN a WHERE a.zzz > 1", "zzz", "^^^"),
        ("PATTERN a WHERE\ta.x > > 3", "> 3", "^"),
        ("PATTERN a WHERE a.type = '日本' AND a.zzz = 1", "zzz", "^^^"),
        ("PATTERN a PARTITION BY zzz", "zzz", "^^^"),
        ("PATTERN a\r\nWHERE a.zzz = 1\r\n", "zzz", "^^^"),
        ("PATTERN a WHERE a.x = 'abc", "'abc", "^^^^"),
        ("PATTERN a WITHIN 3 fortnights", "fortnights", "^^^^^^^^^^"),
    ],
)
def test_carets_stand_under_what_they_mean(query: str, line: str, marks: str) -> None:
    with pytest.raises(cerise.CeriseError) as caught:
        find(query)
    shown, pointed = (each for each in str(caught.value).splitlines() if each.startswith("  | "))
    before = shown[: shown.index(line)]
    wide = sum(char in "日本" for char in before)
    assert pointed == "  | " + " " * (len(before) - 4 + wide) + marks


def test_explain_says_what_will_be_done() -> None:
    said = cerise.explain(
        EVENTS, "PATTERN SEQ(A a, NOT B b, C c) WHERE c.x > a.x WITHIN 10", time="t", type="type"
    )
    for word in (
        "c.x > a.x   (dependent)",
        "no b",
        "skip_till_next_match",
        "engine     nfa (",
        "begin    a → 1   a.type = 'A'",
        "most runs  at most W",
        "max_runs",
        "window     10",
    ):
        assert word in said, said
    with pytest.raises(cerise.BindError):
        cerise.explain(EVENTS, "PATTERN a WHERE a.y = 1", time="t")


def test_explain_of_a_composed_query_shows_both() -> None:
    said = cerise.explain(
        EVENTS,
        "PATTERN SEQ(A a, B b) INTO ab; PATTERN SEQ(ab x) FROM ab RETURN COUNT(*)",
        time="t",
        type="type",
    )
    assert said.index("SEQ(A a, B b)") < said.index("over its matches") < said.index("COUNT(*)")


def test_an_error_survives_pickling() -> None:
    import pickle

    with pytest.raises(cerise.BindError) as caught:
        find("PATTERN SEQ(A a, B b) WHERE a.y = 1")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert type(again) is cerise.BindError
    assert str(again) == (
        "unknown attribute 'y'\n  line 1, column 31\n  | PATTERN SEQ(A a, B b) WHERE a.y = 1\n"
        "  |                               ^\nhint: known: type, t, x"
    )


def test_return_follows_ansi_rules() -> None:
    events = pa.table({"t": [1], "x": [0]})
    with pytest.raises(cerise.DataError, match=r"division by zero in RETURN 1 / a\.x"):
        cerise.find(events, "PATTERN a RETURN 1 / a.x AS y", time="t")
    assert len(cerise.find(events, "PATTERN a WHERE 1 / a.x > 0", time="t")) == 0


def test_a_count_may_be_one_of_several() -> None:
    found = find(["PATTERN A a", "PATTERN A a RETURN COUNT(*) AS n"])
    assert found["n"].to_pylist() == [None] * (len(found) - 1) + [len(found) - 1]
    assert cerise.count(pa.table({"t": [1, 2]}), "PATTERN SEQ(a, b)", time="t") == 1


def test_decimals_are_the_nearest_doubles() -> None:
    """As a literal is, and as Spark's own are."""
    values = [Decimal(number) / 10 for number in range(40)]
    table = pa.table({"t": range(40), "x": pa.array(values, pa.decimal128(5, 1))})
    for number in range(40):
        found = cerise.find(table, f"PATTERN SEQ(a) WHERE a.x = {number / 10}", time="t")
        assert [row["a"]["t"] for row in found.to_pylist()] == [number]
