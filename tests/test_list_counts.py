"""Counts of several queries: a table of names and counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import BindError, DataError, Options, ParseError, UnsupportedError
from cerise.run.many.united_answers import list_counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZE = 400
EVENTS = pa.table(
    {
        "t": range(SIZE),
        "type": ["ABCB"[i * i % 7 % 4] for i in range(SIZE)],
        "k": [i % 3 for i in range(SIZE)],
        "x": [i * 37 % 101 for i in range(SIZE)],
    }
)
ROLES: dict[str, Any] = {"time": "t", "type": "type"}
QUERIES = {
    "rise": "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 20",
    "none": "PATTERN SEQ(A a, B b) WHERE b.x > a.x + 1000 WITHIN 20",
    "any": "PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WHERE b[i].x > a.x WITHIN 20",
    "endless": "PATTERN SEQ(A a, B b) WHERE b.x > a.x",
    "keyed": "PATTERN SEQ(A a, B b) WHERE b.x > a.x PARTITION BY k WITHIN 20",
    "chosen": "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 20 OUTPUT NON_OVERLAPPING",
    "first": "PATTERN SEQ(A a, B b) USE skip_till_any_match WHERE b.x > a.x WITHIN 20 LIMIT 1 PER EVENT",
    "totals": "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 20 RETURN MAX(b.x) AS most PER EVENT",
    "columns": "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 20 RETURN a.type AS x",
    "clash": "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 20 RETURN a.x AS x",
}


def counts(table: pa.Table) -> list[tuple[str, int]]:
    assert table.schema == pa.schema([("query", pa.string()), ("count", pa.int64())])
    return list(zip(table["query"].to_pylist(), table["count"].to_pylist(), strict=True))


@pytest.fixture(scope="module")
def alone() -> list[tuple[str, int]]:
    return [(name, cerise.count(EVENTS, query, **ROLES)) for name, query in QUERIES.items()]


def lake_of(folder: Path) -> str:
    for number, start in enumerate(range(0, SIZE, 50)):
        pq.write_table(EVENTS.slice(start, 50), folder / f"{number}.parquet", row_group_size=10)
    return str(folder)


def test_counts_come_in_the_order_of_the_list(alone: list[tuple[str, int]], tmp_path: Path) -> None:
    """Also of queries without matches, of groups, and of columns that could not stand in one table."""
    assert dict(alone)["none"] == 0
    assert dict(alone)["any"] > dict(alone)["rise"] > 0
    lake = lake_of(tmp_path)
    for events in (EVENTS, lake):
        for options in (None, Options(threads=3)):
            assert counts(cerise.count(events, QUERIES, **ROLES, options=options)) == alone
    assert counts(cerise.count(EVENTS, list(QUERIES.values()), **ROLES)) == [
        (str(number), count) for number, (_, count) in enumerate(alone, 1)
    ]
    cerise.index(lake, time="t", type="type", on=["x"])
    assert counts(cerise.count(cerise.Store(lake), QUERIES)) == alone


def test_one_query_in_a_list_is_a_table() -> None:
    assert counts(cerise.count(EVENTS, ["PATTERN A a INTO Alarm"], **ROLES)) == [("Alarm", 172)]
    assert counts(cerise.count(EVENTS, {"up": "PATTERN A a INTO Alarm"}, **ROLES)) == [("up", 172)]
    assert counts(cerise.count(EVENTS.slice(0, 0), QUERIES, **ROLES)) == [(name, 0) for name in QUERIES]


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_counts_on_spark(alone: list[tuple[str, int]], tmp_path: Path, spark: SparkSession) -> None:
    frame = spark.createDataFrame(EVENTS.to_pandas())
    assert counts(cerise.count(frame, QUERIES, **ROLES)) == alone
    lake = lake_of(tmp_path)
    assert counts(cerise.count(lake, QUERIES, **ROLES, options=Options(partitions=4), spark=True)) == alone


def test_a_count_that_is_too_large_names_its_query() -> None:
    many = pa.table({"t": range(100), "type": ["A"] * 100})
    every = "PATTERN SEQ(A+ a[]) USE skip_till_any_match"
    with pytest.raises(DataError, match=r"^query 'all' has about 1\.27e\+30 matches.*\nhint: count it alone"):
        cerise.count(many, {"one": "PATTERN A a", "all": every}, **ROLES)
    assert cerise.count(many, every, **ROLES) == 2**100 - 1
    largest = pa.table({"query": ["a"], "count": [str(2**63 - 1)]})
    assert list_counts(largest, ["a"])["count"].to_pylist() == [2**63 - 1]
    with pytest.raises(DataError, match=r"9\.22e"):
        list_counts(pa.table({"query": ["a"], "count": [str(2**63)]}), ["a"])


def test_an_error_names_its_query() -> None:
    with pytest.raises(ParseError, match=r"^query 2: the query ends too early"):
        cerise.count(EVENTS, ["PATTERN A a", "PATTERN SEQ(A a"], **ROLES)
    with pytest.raises(BindError, match=r"^query 'z': unknown attribute 'z'"):
        cerise.count(EVENTS, {"z": "PATTERN A a WHERE a.z > 1"}, **ROLES)
    with pytest.raises(BindError, match="two queries are named 'N'"):
        cerise.count(EVENTS, ["PATTERN A a INTO N"] * 2, **ROLES)
    with pytest.raises(UnsupportedError, match="an empty list is not a query"):
        cerise.count(EVENTS, [], **ROLES)
    with pytest.raises(UnsupportedError, match="query 1: SQL stands where only SASE"):
        cerise.count(EVENTS, ["SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))"], **ROLES)
