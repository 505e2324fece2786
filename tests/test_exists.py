"""Whether there is a match, and how many: what cannot change the answer is not read."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import BindError, Limits, Options, StoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLES = {"time": "t", "type": "kind"}
SMALL = Options(limits=Limits(scanned_events=10, read_events=10, row_matches=1))
QUERIES = (
    "PATTERN SEQ(A a, B b) WITHIN 3",
    "PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WITHIN 5 RETURN a.x / 0 AS gone",
    "PATTERN SEQ(A a, ~B b, C c) WITHIN 4 OUTPUT NON_OVERLAPPING",
    "PATTERN SEQ(A a, C c) WHERE a.x > c.x WITHIN 2 RETURN COUNT(*) AS n",
)
CLAUSES = (
    "MEASURES 1 / (A.x - A.x) AS z PATTERN (A B+) DEFINE A AS A.kind = 'A', B AS B.kind = 'B'",
    "MEASURES upper(A.z) AS z ALL ROWS PER MATCH PATTERN (A X*? C) WITHIN 3 DEFINE A AS x > 1, C AS x < A.x",
    "MEASURES A.x AS x ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A{3}) DEFINE A AS A.kind = 'A'",
    "PARTITION BY x MEASURES z AS y PATTERN (A B) WITHIN 2 EMIT TIMEOUTS DEFINE A AS x > 1",
    "MEASURES MATCH_NUMBER() AS n PATTERN (A* B) DEFINE A AS kind = 'A', B AS MATCH_NUMBER() < 3",
)


def sql(clause: str) -> str:
    parted, _, rest = clause.partition("MEASURES")
    return f"SELECT * FROM t MATCH_RECOGNIZE ({parted} ORDER BY t MEASURES{rest})"


def events_of(rng: Random, size: int) -> pa.Table:
    columns = {"kind": [rng.choice("ABC") for _ in range(size)], "x": [rng.randrange(4) for _ in range(size)]}
    return pa.table({"t": range(size), **columns, "z": [f"z{i}" for i in range(size)]})


@pytest.mark.parametrize("query", QUERIES)
def test_there_is_a_match_where_one_is_counted(query: str, tmp_path: Path) -> None:
    rng, answers = Random(query), set()
    for size in (0, 1, 2, 4, 30):
        table = events_of(rng, size)
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=4)
        expected = cerise.count(table, query, **ROLES)
        for given in (table, tmp_path / "t.parquet"):
            for options in (None, SMALL, Options(threads=3)):
                assert cerise.exists(given, query, **ROLES, options=options) is (expected > 0)
        answers.add(expected > 0)
    assert answers == {True, False}


@pytest.mark.parametrize("clause", CLAUSES)
def test_rows_of_a_clause_are_counted_without_its_measures(clause: str, tmp_path: Path) -> None:
    rng, plain = Random(clause), clause.replace("1 / (A.x - A.x)", "A.x")
    for size in (0, 1, 2, 4, 30):
        table = events_of(rng, size)
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=4)
        expected = len(cerise.find(table, sql(plain)))
        for given in (table, tmp_path / "t.parquet"):
            for options in (None, SMALL, Options(engine="reference")):
                assert cerise.count(given, sql(clause), options=options) == expected
                assert cerise.exists(given, sql(clause), options=options) is (expected > 0)


def test_one_query_is_asked() -> None:
    table = events_of(Random(1), 5)
    with pytest.raises(BindError, match="2 queries where one is asked for"):
        cerise.exists(table, list(QUERIES[:2]), **ROLES)


def test_a_type_that_no_event_has_is_told() -> None:
    with pytest.warns(cerise.CeriseWarning, match="no event has type 'D'"):
        assert not cerise.exists(events_of(Random(1), 5), "PATTERN SEQ(A a, D d)", **ROLES)


# ---- what is read: a part that is damaged is an error only where it is read


def damage(path: Path, group: int, column: str) -> None:
    """Overwrite the pages of a column of a row group."""
    footer = pq.read_metadata(path)
    chunk = next(
        footer.row_group(group).column(i)
        for i in range(footer.num_columns)
        if footer.row_group(group).column(i).path_in_schema == column
    )
    starts = [each for each in (chunk.dictionary_page_offset, chunk.data_page_offset) if each is not None]
    with path.open("r+b") as file:
        file.seek(min(starts))
        file.write(b"\0" * chunk.total_compressed_size)


@pytest.fixture
def table(tmp_path: Path) -> pa.Table:
    found = pa.table({"t": range(60), "kind": ["A", "B", "C"] * 20, "x": [1] * 60, "z": ["z"] * 60})
    pq.write_table(found, tmp_path / "t.parquet", row_group_size=6)
    return found


def test_events_after_the_first_match_are_not_read(table: pa.Table, tmp_path: Path) -> None:
    path, pairs = tmp_path / "t.parquet", "PATTERN SEQ(A a, B b) WITHIN 3"
    damage(path, 9, "kind")
    with pytest.raises(StoreError):
        cerise.count(path, pairs, **ROLES, options=SMALL)
    assert cerise.exists(path, pairs, **ROLES, options=SMALL)
    assert cerise.exists(path, pairs, **ROLES, options=Options(limits=SMALL.limits, threads=3))
    with pytest.raises(StoreError):
        cerise.exists(path, "PATTERN SEQ(B b, A a) WITHIN 1", **ROLES, options=SMALL)


@pytest.mark.parametrize("column", ["x", "z"])
def test_columns_that_are_only_returned_are_not_read(column: str, table: pa.Table, tmp_path: Path) -> None:
    path, asked = tmp_path / "t.parquet", f"PATTERN SEQ(A a, B b) WITHIN 3 RETURN a.{column}"
    clause = sql(f"MEASURES A.{column} AS y PATTERN (A B) DEFINE A AS A.kind = 'A', B AS B.kind = 'B'")
    damage(path, 3, column)
    for query, roles in ((asked, ROLES), (clause, {})):
        with pytest.raises(StoreError):
            cerise.find(path, query, **roles)
        assert cerise.count(path, query, **roles) == 20
        assert cerise.exists(path, query, **roles)


@pytest.mark.spark
def test_spark_stops_reading_after_enough_matches(tmp_path: Path, spark: SparkSession) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for number in range(6):
        times = range(60 * number, 60 * number + 60)
        part = pa.table({"t": times, "kind": ["A", "B", "C"] * 20, "x": [1] * 60, "z": ["z"] * 60})
        pq.write_table(part, files / f"part-{number}.parquet")
    damage(files / "part-5.parquet", 0, "kind")
    pairs, options = "PATTERN SEQ(A a, B b) WITHIN 3", Options(partitions=6)
    given: dict[str, Any] = {**ROLES, "options": options, "spark": spark}
    found = cerise.find(files, pairs, **given)
    assert len(found.limit(3).collect()) == 3
    assert cerise.exists(files, pairs, **given)
    with pytest.raises(Exception, match="part-5"):
        found.toArrow()
    with pytest.raises(StoreError, match="part-5"):
        cerise.exists(files, "PATTERN SEQ(B b, A a) WITHIN 1", **given)
