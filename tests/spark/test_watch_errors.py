"""`cerise.watch` on Spark: values that cannot be computed, and queries that only the reference can run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cerise
from cerise import DataError, UnsupportedError
from tests.spark.test_watch import Event, Folder, pairs_in, run, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATIO = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 30 seconds RETURN a.n AS a, b.n / a.n AS b INTO ratio"
EVENTS: list[Event] = [
    (1, "A", 1, 2), (2, "B", 1, 6), (3, "A", 2, 0), (4, "B", 2, 5), (60, "A", 9, 1), (120, "A", 9, 1),
]  # fmt: skip


def clause(measure: str) -> str:
    return f"""SELECT * FROM events MATCH_RECOGNIZE (
        PARTITION BY id ORDER BY ts MEASURES A.n AS a, {measure} AS b
        PATTERN (A B) WITHIN INTERVAL '20' SECOND DEFINE A AS kind = 'A', B AS kind = 'B')"""


def watch(spark: SparkSession, path: Path, query: Any, **more: Any) -> Any:
    folder = Folder(path / "in")
    folder.put(EVENTS)
    folder.put([(300, "A", 8, 1)])  # makes the others final
    roles = {} if "MATCH_RECOGNIZE" in str(query) else {"time": "ts", "type": "kind"}
    given = {"delay": "1 second", "buckets": 2, **roles, **more}
    return run(cerise.watch(folder.stream(spark), query, **given), path)


def test_a_return_that_cannot_be_computed_ends_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="division by zero in RETURN"):
        watch(spark, tmp_path, RATIO)


@pytest.mark.parametrize("state", [None, "state"])
def test_or_is_null_and_counted(spark: SparkSession, tmp_path: Path, state: str | None) -> None:
    home = None if state is None else str(tmp_path / state)
    query = watch(spark, tmp_path, RATIO, on_error="null", state=home)
    assert pairs_in(spark, tmp_path) == Counter({(2, 3.0): 1, (0, None): 1})
    assert cerise.watched(query).figures["nulls"] == {"ratio": 1}
    assert "1 value of query ratio could not be computed" in str(cerise.watched(query))


def test_tasks_compute_the_measures_of_one_of_several_queries(spark: SparkSession, tmp_path: Path) -> None:
    queries = {"ratio": clause("B.n / A.n"), "other": clause("B.n * 1.5")}
    query = watch(spark, tmp_path, queries, on_error="null")
    assert cerise.watched(query).figures["nulls"] == {"ratio": 1}
    assert pairs_in(spark, tmp_path) == Counter({(2, 3.0): 1, (0, None): 1, (2, 9.0): 1, (0, 7.5): 1})


def test_spark_computes_the_measures_of_a_clause_that_stands_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match="Spark computes its MEASURES") as caught:
        watch(spark, tmp_path, clause("B.n / A.n"), on_error="null")
    assert caught.value.hint is not None
    assert "try_divide" in caught.value.hint


@pytest.mark.parametrize(
    "measure",
    ["coalesce(try_cast(B.kind AS INT), try_divide(try_add(B.n, 0), A.n))", "B.n / nullif(A.n, 0)"],
)
def test_a_clause_that_stands_alone_says_null_itself(
    spark: SparkSession, tmp_path: Path, measure: str
) -> None:
    watch(spark, tmp_path, clause(measure))
    assert pairs_in(spark, tmp_path) == Counter({(2, 3.0): 1, (0, None): 1})


@pytest.mark.parametrize("state", [None, "state"])
def test_a_query_that_only_the_reference_can_run(
    spark: SparkSession, tmp_path: Path, state: str | None
) -> None:
    text = "PATTERN SEQ(A a, NOT B b) WHERE [id] WITHIN 10 seconds OUTPUT NON_OVERLAPPING"
    text += " RETURN a.n AS a, a.id AS b"
    home = None if state is None else str(tmp_path / state)
    watch(spark, tmp_path, text, state=home)
    found = cerise.find(table_of(EVENTS), text, time="ts", type="kind").to_pylist()
    assert pairs_in(spark, tmp_path) == Counter((row["a"], row["b"]) for row in found) == {(1, 9): 2}
    shown = cerise.explain(Folder(tmp_path / "more").stream(spark), text, time="ts", type="kind")
    assert "late by one window, because only the reference engine can run it: it chooses among" in shown
