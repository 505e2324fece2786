"""MATCH_RECOGNIZE without PARTITION BY on Spark: files and frames cut by time, and what `explain` says."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import CeriseError, Options
from cerise.files.lake import open_lake
from cerise.plan.slicing import MAX_TIME, MIN_TIME
from tests.spark.side_by_side import at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINE = "DEFINE A AS kind = 'A', B AS kind = 'B' AND B.x >= A.x"
CLAUSES = {
    "each start": ("", "ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW", "A X*? B"),
    "numbered": (", MATCH_NUMBER() AS m", "ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW", "A X*? B"),
    "past last": (", MATCH_NUMBER() AS m", "ONE ROW PER MATCH", "A X* B"),
    "neighbours": (", PREV(A.x, 3) AS p, NEXT(x, 2) AS q", "ONE ROW PER MATCH", "A X* B"),
    "all rows": (", MATCH_NUMBER() AS m, CLASSIFIER() AS c", "ALL ROWS PER MATCH", "A {-X*?-} B"),
    "empty": (", MATCH_NUMBER() AS m", "ALL ROWS PER MATCH OMIT EMPTY MATCHES", "A? X? B?"),
    "to a row": (", MATCH_NUMBER() AS m", "ONE ROW PER MATCH AFTER MATCH SKIP TO LAST B", "A X* B"),
}


def statement(measures: str, show: str, pattern: str, within: str = "WITHIN 6") -> str:
    return (
        "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t, x DESC "
        f"MEASURES FIRST(x) AS f, COUNT(*) AS n{measures} {show} PATTERN ({pattern}) {within} {DEFINE})"
    )


def table(rows: int = 300, seed: int = 1) -> pa.Table:
    rng = random.Random(seed)
    return pa.table(
        {
            "t": pa.array(sorted(rng.randrange(rows) for _ in range(rows)), pa.int64()),
            "kind": pa.array(rng.choices("ABCC", k=rows)),
            "x": pa.array([rng.choice([None, *range(1000)]) for _ in range(rows)], pa.int64()),
        }
    )


def write(given: pa.Table, folder: Path, group: int = 20) -> str:
    for number in range(3):
        part = given.slice(number * 100, 100)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=group)
    return str(folder)


def rows(found: Any) -> list[str]:
    given = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted(repr(tuple(row.values())) for row in given.to_pylist())


@pytest.mark.parametrize("name", CLAUSES)
def test_files_and_frames_in_slices(name: str, spark: SparkSession, tmp_path: Path) -> None:
    given, text = table(), statement(*CLAUSES[name])
    path = write(given, tmp_path)
    expected = rows(cerise.find(given, text, options=Options(engine="reference")))
    assert len(expected) > 10
    for partitions in (2, 7):
        options = Options(partitions=partitions)
        assert f"{partitions} slices of time" in cerise.explain(path, text, options=options, spark=True)
    frame = spark.read.parquet(path).repartition(2)
    asked = [(path, Options(partitions=2)), (path, Options(partitions=7)), (frame, Options())]
    found = at_once(lambda each: rows(cerise.find(each[0], text, options=each[1])), asked)
    assert found == [expected] * 3


def test_what_a_slice_could_not_tell_is_searched_for_later(spark: SparkSession, tmp_path: Path) -> None:
    """From the second B on a match has no C to skip to: an error, if anybody came there (M40)."""
    text = (
        "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(t) AS f, MATCH_NUMBER() AS n "
        "AFTER MATCH SKIP TO LAST C PATTERN (A? B+ C?) WITHIN 6 "
        "DEFINE A AS kind = 'A', B AS kind = 'B', C AS kind = 'C')"
    )
    right, wrong = (pa.table({"t": range(25), "kind": list("ABBC" * 6 + end)}) for end in "AB")
    options = Options(partitions=6)
    pq.write_table(right, tmp_path / "right.parquet", row_group_size=2)
    pq.write_table(wrong, tmp_path / "wrong.parquet", row_group_size=2)
    found = cerise.find(str(tmp_path / "right.parquet"), text, options=options, spark=True)
    assert rows(found) == rows(cerise.find(right, text, options=Options(engine="reference")))
    with pytest.raises(CeriseError, match="no row mapped to C"):
        cerise.find(str(tmp_path / "wrong.parquet"), text, options=options, spark=True).toArrow()


@pytest.mark.parametrize(
    ("text", "on_files", "on_frames"),
    [
        (statement(*CLAUSES["each start"]), "slices of time, one task each", "exchanged by time"),
        (
            statement(*CLAUSES["past last"]),
            "one more chooses among their candidates",
            "depend on the matches",
        ),
        (statement(*CLAUSES["numbered"]), "one more chooses among their candidates", "or their numbers"),
        (
            statement(", PREV(A.x) AS p", *CLAUSES["each start"][1:]),
            "slices of time, one task each",
            "PREV and NEXT",
        ),
        (statement(*CLAUSES["past last"], within=""), "without WITHIN a match may span all rows", ""),
        (statement("", "", "^ A X B"), "^ and $ ask for the first", ""),
        (statement("", "", "A B", within="WITHIN 9999"), "row groups are few, or overlap", "depend on"),
    ],
    ids=range(7),
)
def test_explain_says_how_rows_are_shared_out(
    text: str, on_files: str, on_frames: str, spark: SparkSession, tmp_path: Path
) -> None:
    path = write(table(), tmp_path)
    assert on_files in cerise.explain(path, text, spark=True)
    frame = spark.read.parquet(path)
    assert on_files in cerise.explain(frame, text)  # it is nothing but the files
    assert (on_frames or on_files) in cerise.explain(frame.repartition(2), text)


def test_times_may_be_computed(spark: SparkSession, tmp_path: Path) -> None:
    """Spark computes them then, also of files, and rows are exchanged by them."""
    text = statement(*CLAUSES["each start"]).replace("ORDER BY t,", "ORDER BY 2 * t + 1,")
    path = write(table(), tmp_path)
    expected = rows(cerise.find(table(), text, options=Options(engine="reference")))
    assert len(expected) > 10
    for events in (path, spark.read.parquet(path).repartition(2)):
        spark_ = True if isinstance(events, str) else None
        assert "exchanged by time" in cerise.explain(events, text, spark=spark_)
        assert rows(cerise.find(events, text, spark=spark_)) == expected


def test_nothing_is_said_of_slices_where_there_are_partitions(spark: SparkSession, tmp_path: Path) -> None:
    text = statement(*CLAUSES["past last"]).replace("(ORDER BY", "(PARTITION BY kind ORDER BY")
    said = cerise.explain(write(table(), tmp_path), text, spark=True)
    assert "slices" not in said.replace(str(tmp_path), "")
    assert "slices" not in cerise.explain(table(), text)


def test_row_groups_know_their_times(tmp_path: Path) -> None:
    times = pa.array([1, 2, None, 4, 5, 6, None, None], pa.int64())
    pq.write_table(pa.table({"t": times}), tmp_path / "a.parquet", row_group_size=2)
    found = open_lake(str(tmp_path))
    first, last = (found.list_groups_by_time("t", nulls_first=nulls_first) for nulls_first in (True, False))
    assert [(each.span.first, each.span.last) for each in first] == [
        (1, 2), (MIN_TIME, 4), (5, 6), (MIN_TIME, MAX_TIME),
    ]  # fmt: skip
    assert [(each.span.first, each.span.last) for each in last] == [
        (1, 2), (4, MAX_TIME), (5, 6), (MIN_TIME, MAX_TIME),
    ]  # fmt: skip
    assert [each.place for each in first] == [0, 1, 2, 3]


def test_a_file_that_lacks_a_column_of_words(spark: SparkSession, tmp_path: Path) -> None:
    """They are no codes then: there is nothing to read as such."""
    parts = [table().slice(0, 150), table().slice(150).drop_columns(["kind"])]
    for number, part in enumerate(parts):
        pq.write_table(part, tmp_path / f"{number}.parquet", row_group_size=20)
    given, text = pa.concat_tables(parts, promote_options="default"), statement(*CLAUSES["past last"])
    assert rows(cerise.find(str(tmp_path), text, spark=True)) == rows(
        cerise.find(given, text, options=Options(engine="reference"))
    )
