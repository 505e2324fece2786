"""`cerise.sql` over given tables: what it takes and gives, how it refuses, and that it reads nothing else."""

# ruff: noqa: E501  statements are easier to read in one line

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import cerise
from cerise.local_sql import duck

PRICES = pa.table({"t": [1, 2, 3, 4, 5, 6, 7], "price": [10, 8, 7, 9, 11, 10, 12], "who": list("aabbaab")})
FALLS = """MATCH_RECOGNIZE (ORDER BY t MEASURES A.price AS high, LAST(D.price) AS low, COUNT(*) AS n
  PATTERN (A D+) DEFINE D AS price < PREV(price))"""
ASK = f"SELECT low, n * 2 AS twice FROM p {FALLS} WHERE high > 9 ORDER BY low DESC"
FOUND = [{"low": 10, "twice": 4}, {"low": 7, "twice": 6}]


def sql(text: str, **tables: Any) -> Any:
    return cerise.sql(text, **(tables or {"p": PRICES}))


# ---- kinds of tables


def test_the_kind_that_went_in_comes_out() -> None:
    assert sql(ASK).to_pylist() == FOUND
    pandas = sql(ASK, p=PRICES.to_pandas())
    assert isinstance(pandas, pd.DataFrame)
    assert pandas.to_dict("records") == FOUND
    polars = sql(ASK, p=pl.from_arrow(PRICES))
    assert isinstance(polars, pl.DataFrame)
    assert polars.to_dicts() == FOUND
    lazy = sql(ASK, p=pl.from_arrow(PRICES).lazy())
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect().to_dicts() == FOUND
    assert sql(ASK, p=PRICES.to_pylist()) == FOUND
    assert sql(ASK, p=PRICES.to_pandas(), other=PRICES).to_pylist() == FOUND


def test_anything_that_speaks_arrow(tmp_path: Path) -> None:
    pq.write_table(PRICES, tmp_path / "p.parquet", row_group_size=3)
    pyarrow.csv.write_csv(PRICES, tmp_path / "p.csv")
    store = cerise.Store.create(str(tmp_path / "store"), schema=PRICES.schema, time="t")
    store.append(PRICES)
    relation = duckdb.sql("SELECT * FROM given", connection=_with(PRICES))
    for given in (
        tmp_path / "p.parquet",
        str(tmp_path / "p.csv"),
        store,
        relation,
        pa.dataset.dataset(tmp_path / "p.parquet"),
    ):
        assert sql(ASK, p=given).to_pylist() == FOUND
        assert sql(ASK.replace("FROM p", "FROM (SELECT * FROM p)"), p=given).to_pylist() == FOUND


def _with(table: pa.Table) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("given", table)
    return connection


def test_tables_whose_names_are_arguments() -> None:
    assert cerise.sql("SELECT count(*) AS n FROM options", tables={"options": PRICES}).to_pylist() == [
        {"n": 7}
    ]


def test_odd_columns_are_read_or_passed_on() -> None:
    odd = pa.table(
        {
            "u": pa.array([1, 2], pa.uint8()), "h": pa.array([1, 2], pa.uint64()),
            "c": pa.array(["x", "y"]).dictionary_encode(), "ns": pa.array([1_000, 2_000], pa.timestamp("ns")),
            "l": pa.array([[1], [2, 3]]), "z": pa.array([0, 1], pa.timestamp("ms", "Europe/Berlin")),
            "d": pa.array([1, None], pa.duration("s")), "v": pa.array(["a", None], pa.large_string()),
            "A b": [1, 2], "nothing": pa.nulls(2), "s": pa.array([{"x": 1}, None]),
        }
    )  # fmt: skip
    found = cerise.sql("SELECT * FROM t ORDER BY u DESC", t=odd)
    assert found.column_names == odd.column_names
    assert found.to_pylist()[1]["z"] == odd["z"][0].as_py()
    assert [str(each) for each in found.schema.types] == [
        "int16", "decimal128(20, 0)", "string", "timestamp[us]", "list<item: int64>", "timestamp[us, tz=Europe/Berlin]",
        "duration[us]", "string", "int64", "null", "struct<x: int64>",
    ]  # fmt: skip
    assert found["d"].to_pylist() == [None, dt.timedelta(seconds=1)]
    assert cerise.sql("SELECT u + 1 AS v, `A b` AS w FROM t WHERE c = 'y'", t=odd).to_pylist() == [
        {"v": 3, "w": 2}
    ]


def test_two_columns_of_one_name() -> None:
    assert sql("SELECT t, t, T FROM p WHERE t = 1").column_names == ["t", "t", "T"]
    with pytest.raises(cerise.BindError, match="'t' could be one of 2"):
        sql("SELECT t FROM (SELECT t, t FROM p)")
    assert sql("SELECT a.*, b.price FROM p a JOIN p b ON a.t = b.t").column_names == [
        "t",
        "price",
        "who",
        "price",
    ]


# ---- rows


def test_rows_that_order_by_leaves_equal_keep_the_order_of_the_table() -> None:
    many = pa.table({"k": [0] * 50_000, "v": range(50_000)})
    clause = "MATCH_RECOGNIZE (ORDER BY k MEASURES LAST(v) AS last PATTERN (A{7}) DEFINE A AS v % 3 >= 0)"
    for given in ("many", "(SELECT * FROM many WHERE v >= 0)"):
        found = cerise.sql(f"SELECT last FROM {given} {clause} WHERE last < 40", many=many)
        assert found["last"].to_pylist() == [6, 13, 20, 27, 34]


def test_decimals_divide_exactly() -> None:
    cents = pa.table(
        {"a": [Decimal("1.00"), Decimal("-2.00"), None], "b": [Decimal("3.0"), Decimal("3.0"), Decimal(1)]}
    )
    found = cerise.sql("SELECT a / b AS q, a + b AS s, a * b AS m FROM c", c=cents)
    assert str(found.schema.field("q").type) == "decimal128(8, 6)"
    assert found["q"].to_pylist() == [Decimal("0.333333"), Decimal("-0.666667"), None]


def test_a_hundred_columns_and_deep_expressions() -> None:
    wide = pa.table({f"c{i}": [i] for i in range(100)})
    assert cerise.sql("SELECT * FROM w", w=wide).equals(wide)
    assert sql(f"SELECT {'1 + ' * 300}1 AS n").to_pylist() == [{"n": 301}]
    with pytest.raises(cerise.CeriseError):
        sql(f"SELECT {'(' * 5000}1{')' * 5000} AS n")


# ---- errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ASK.replace("high > 9", "hihg > 9"), "unknown column 'hihg'\n  line 2, column 57"),
        (ASK.replace("FROM p", "FROM q"), "unknown table 'q'\n  line 1, column 33"),
        (ASK.replace("ORDER BY low", "ORDERBY low"), "did not expect"),
        ("SELECT (t FROM p", r"'\(' has no partner"),
        ("SELECT 'open FROM p", "not closed"),
        ("", "one statement is expected"),
        ("SELECT 1; SELECT 2", "one statement is expected"),
        ("SELECT t FROM p WHERE sum(t) > 1", "sum stands in the list of SELECT"),
        ("SELECT price FROM p GROUP BY who", "neither in GROUP BY"),
        ("SELECT t FROM p WHERE t", "WHERE of type BIGINT"),
        ("SELECT t FROM p UNION SELECT t, price FROM p", "1 and 2 columns"),
        ("SELECT t FROM p ORDER BY 2", "ORDER BY 2: SELECT has fewer columns"),
        ("SELECT x.t FROM p", "unknown table 'x'"),
        ("SELECT upper(who, 1) FROM p", "upper does not take 2 arguments"),
        ("SELECT who RLIKE '(' FROM p", "the pattern '\\(' is wrong"),
        ("SELECT TRUE + t FROM p", r"\+ of BOOLEAN and BIGINT"),
        (f"SELECT * FROM p {FALLS.replace('LAST(D.price)', 'LAST(D.prize)')}", "unknown column 'prize'"),
    ],
)
def test_a_wrong_statement_is_explained(text: str, said: str) -> None:
    with pytest.raises((cerise.ParseError, cerise.BindError), match=said):
        sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sin(t) FROM p", "SELECT who + 1 FROM p", "SELECT rand() FROM p", "SELECT current_date() AS d",
        "SELECT explode(array(1, 2))", "SELECT t FROM p LIMIT 1 + 1", "SELECT who FROM p WHERE who RLIKE '(?=a)'",
        "SELECT * FROM p TABLESAMPLE (10 PERCENT)", "SELECT * FROM read_csv('x.csv')", "SELECT * FROM range(3)",
        "SELECT * FROM p NATURAL JOIN p q", "WITH RECURSIVE r AS (SELECT 1 AS a) SELECT * FROM r",
        "SELECT who, count(*) FROM p GROUP BY ROLLUP (who)", "SELECT * FROM db.p", "INSERT INTO p VALUES (1, 2, 'a')",
        "DROP TABLE p", "COPY p TO 'p.csv'", "SET x = 1", "SELECT t FROM p QUALIFY t > 1", "SELECT TRY_CAST(who AS INT) FROM p",
        "SELECT * FROM p LATERAL VIEW explode(array(1)) e AS x", "SELECT /*+ BROADCAST(p) */ t FROM p",
        "SELECT CAST(t AS BINARY) FROM p", "SELECT t FROM p WHERE who = 1", "SELECT * EXCEPT (t) FROM p",
        f"SELECT * FROM p {FALLS.replace('LAST(D.price)', 'sin(D.price)')}", "SELECT sum(t) OVER w FROM p WINDOW w AS ()",
    ],
)  # fmt: skip
def test_what_duckdb_would_say_otherwise_needs_spark(text: str) -> None:
    with pytest.raises((cerise.UnsupportedError, cerise.ParseError)) as caught:
        sql(text)
    assert "spark" in str(caught.value).lower() or isinstance(caught.value, cerise.ParseError)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT t / 0 FROM p", "division by zero"),
        ("SELECT t % 0 FROM p", "division by zero"),
        ("SELECT CAST(who AS INT) FROM p", "'a' is not an integer"),
        ("SELECT (9223372036854775807 + t) AS x FROM p", "[Oo]verflow"),
        ("SELECT CAST(t * 100 AS TINYINT) FROM p", "out of range"),
        ("SELECT (SELECT t FROM p) AS x", "More than one row"),
    ],
)
def test_a_value_that_cannot_be_computed_is_an_error(text: str, said: str) -> None:
    with pytest.raises(cerise.DataError, match=said):
        sql(text)


def test_names_and_tables_that_do_not_fit() -> None:
    with pytest.raises(cerise.BindError, match="the tables 'p' and 'P' have one name"):
        cerise.sql("SELECT 1 AS a", p=PRICES, P=PRICES)
    with pytest.raises(cerise.UnsupportedError, match="cannot find patterns in a int"):
        cerise.sql("SELECT 1 AS a", p=3)
    with pytest.raises(cerise.StoreError):
        cerise.sql("SELECT 1 AS a FROM p", p="/nowhere/at/all.parquet")


def test_nothing_but_given_tables_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(PRICES, "p.csv")
    pandas = PRICES.to_pandas()
    assert len(pandas)
    for name in ("'p.csv'", "`p.csv`", "pandas", "information_schema.tables", "duckdb_settings", "PRICES"):
        with pytest.raises(cerise.CeriseError):
            cerise.sql(f"SELECT * FROM {name}")
    found = duck._database(duck.os.getpid()).cursor()
    for text in (
        "SELECT * FROM 'p.csv'",
        "COPY (SELECT 1) TO 'x.csv'",
        "INSTALL httpfs",
        "ATTACH 'x.db'",
        "SELECT * FROM pandas",
    ):
        with pytest.raises(duckdb.Error):
            found.execute(text)


def test_without_duckdb_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(cerise.PlanError, match="needs DuckDB") as caught:
        sql("SELECT 1 AS a FROM p")
    assert "cerise-spark[sql]" in str(caught.value)


def test_no_spark_is_imported_and_no_warning_printed() -> None:
    code = (
        "import sys, pyarrow as pa, cerise\n"
        "text = 'SELECT a + 1 AS b FROM t WHERE upper(s) = \\'É\\''\n"
        "assert cerise.sql(text, t=pa.table({'a': [1], 's': ['é']})).to_pylist() == [{'b': 2}]\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_session_and_tables_are_not_mixed() -> None:
    with pytest.raises(cerise.UnsupportedError, match="not in a str"):
        cerise.sql("SELECT 1", "SELECT 2")
