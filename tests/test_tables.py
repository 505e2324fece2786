"""The kind of table that goes in comes out, of every verb that gives a table; a type checker sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest
from deltalake import DeltaTable, write_deltalake

import cerise
from cerise.kinds import in_library

EVENTS = pa.table({"type": list("ABAB"), "t": [1, 2, 3, 4], "x": [2**60, None, 3, 4]})
QUERY = "PATTERN SEQ(A a, B b) USE strict_contiguity RETURN a.t AS t, b.x AS x"
FOUND = [{"t": 1, "x": None}, {"t": 3, "x": 4}]
CLAUSE = """SELECT * FROM e MATCH_RECOGNIZE (
    ORDER BY t MEASURES A.t AS t, B.x AS x PATTERN (A B) DEFINE A AS type = 'A')"""
ROLES = {"time": "t", "type": "type"}
KINDS = {
    "pandas": (EVENTS.to_pandas(), pd.DataFrame),
    "polars": (pl.from_arrow(EVENTS), pl.DataFrame),
    "lazy": (pl.from_arrow(EVENTS).lazy(), pl.LazyFrame),
    "dicts": (EVENTS.to_pylist(), list),
    "arrow": (EVENTS, pa.Table),
    "dataset": (pyarrow.dataset.dataset(EVENTS), pa.Table),
}


def rows(found: Any) -> list[dict[str, Any]]:
    if isinstance(found, list):
        return [{name: row[name] for name in ("t", "x")} for row in found]
    if isinstance(found, pd.DataFrame):
        found = pa.Table.from_pandas(found)
    table = found.collect().to_arrow() if isinstance(found, pl.LazyFrame) else pa.table(found)
    rows: list[dict[str, Any]] = table.select(["t", "x"]).to_pylist()
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_that_went_in_comes_out(kind: str) -> None:
    given, expected = KINDS[kind]
    found = cerise.find(given, QUERY, **ROLES)
    assert isinstance(found, expected)
    assert rows(found) == FOUND
    assert isinstance(cerise.find(given, CLAUSE), expected)
    assert isinstance(cerise.find(given, {"one": QUERY}, **ROLES), expected)
    assert rows(cerise.profile(given, QUERY, **ROLES).matches) == FOUND
    assert cerise.count(given, QUERY, **ROLES) == 2


def test_a_delta_table_is_one_of_its_version(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), EVENTS)
    first = DeltaTable(str(tmp_path))
    write_deltalake(str(tmp_path), EVENTS, mode="append")
    assert cerise.count(first, QUERY, **ROLES) == 2
    assert cerise.count(DeltaTable(str(tmp_path)), "PATTERN A a", **ROLES) == 4
    assert cerise.count(DeltaTable(str(tmp_path)), "PATTERN A a", version=0, **ROLES) == 2


def test_text_files_are_read_by_path(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(EVENTS, tmp_path / "e.csv")
    assert rows(cerise.find(str(tmp_path / "e.csv"), QUERY, **ROLES)) == FOUND
    assert rows(cerise.find(tmp_path, CLAUSE)) == FOUND
    (tmp_path / "e.csv").write_text("type,t\nA,26.05.2023 10:55\n")
    with pytest.raises(cerise.CeriseError, match="time"):
        cerise.find(tmp_path / "e.csv", QUERY, time="t")
    (tmp_path / "e.csv").write_text("type,t\nA,2023/05/26 10:55\nB,2023/05/26 10:56\n")
    assert cerise.count(tmp_path / "e.csv", "PATTERN SEQ(A a, B b) WITHIN 1 minute", **ROLES) == 1
    (tmp_path / "f.csv").write_text("type,other\nA,1\n")
    with pytest.raises(cerise.StoreError, match="column"):
        cerise.find(tmp_path, QUERY, **ROLES)


def test_dicts_with_different_keys() -> None:
    events = [{"t": 1}, {"t": 2, "x": 5}]
    assert cerise.find(events, "PATTERN a WHERE a.x = 5 RETURN a.t AS t", time="t")[0]["t"] == 2
    with pytest.raises(cerise.DataError, match="does not become"):
        cerise.find([{"t": 1}, {"t": "x"}], "PATTERN a", time="t")


def test_pandas_holds_every_value() -> None:
    odd = pa.table(
        {
            "i": pa.array([2**60 + 1, None]), "b": pa.array([True, None]), "u": pa.array([1, 2], pa.uint8()),
            "s": ["x", None], "at": pa.array([0, None], pa.timestamp("us", "UTC")), "l": [[1], None],
        }
    )  # fmt: skip
    frame = in_library(odd, "pandas")
    assert frame["i"][0] == 2**60 + 1
    assert (str(frame["i"].dtype), str(frame["b"].dtype), str(frame["u"].dtype)) == (
        "Int64",
        "boolean",
        "uint8",
    )
    assert frame["at"].dt.tz is not None
    twice = in_library(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), "pandas")
    assert list(twice.columns) == ["a", "a"]


SCRIPT = """
import pandas as pd
import polars as pl
import cerise

def frames(one: pd.DataFrame, other: pl.DataFrame) -> None:
    a: pd.DataFrame = cerise.find(one, "PATTERN a", time="t")
    b: pl.DataFrame = cerise.find(other, "PATTERN a", time="t")
    c: pd.DataFrame = cerise.sql("SELECT 1 FROM t", t=one)
    d: pl.DataFrame = cerise.sql("SELECT 1 FROM t", t=other)
    e: list[dict[str, object]] = cerise.find([{"t": 1}], "PATTERN a", time="t")
    n: int = cerise.count(one, "PATTERN a", time="t")
    reveal_type(cerise.find(one, "PATTERN a", time="t"))
    reveal_type(cerise.find(other, "PATTERN a", time="t"))
    reveal_type(cerise.find(other.lazy(), "PATTERN a", time="t"))
    reveal_type(cerise.sql("SELECT 1 FROM t", t=one))
    wrong: pl.DataFrame = cerise.find(one, "PATTERN a", time="t")
"""


@pytest.mark.slow
def test_a_type_checker_sees_pandas_in_and_pandas_out(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    check = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", str(tmp_path / "script.py")]
    out = subprocess.run(check, capture_output=True, text=True, check=False).stdout
    said = [line for line in out.splitlines() if "script.py" in line]
    kinds = [
        line.split('"')[1].split(".")[0] + "." + line.split('"')[1].split(".")[-1]
        for line in said
        if "note: Revealed" in line
    ]
    assert kinds == ["pandas.DataFrame", "polars.DataFrame", "polars.LazyFrame", "pandas.DataFrame"]
    assert ["assignment" in line for line in said if "error:" in line] == [True]
