"""Streaming DataFrames: the verbs of batch refuse them at once, and name `watch`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cerise
from cerise import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY = "PATTERN SEQ(a, b) WITHIN 5"
CLAUSE = "SELECT * FROM beats MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS at PATTERN (A B) DEFINE B AS t > 0)"


@pytest.fixture
def beats(spark: SparkSession) -> DataFrame:
    stream = spark.readStream.format("rate").load().selectExpr("value AS t", "timestamp AS at")
    stream.createOrReplaceTempView("beats")
    return stream


@pytest.mark.parametrize(
    "verb",
    [
        lambda events: cerise.find(events, QUERY, time="t"),
        lambda events: cerise.find(events, [QUERY, QUERY], time="t"),
        lambda events: cerise.find(events, CLAUSE),
        lambda events: cerise.profile(events, QUERY, time="t"),
        lambda events: cerise.profile(events, CLAUSE),
        lambda events: cerise.count(events, QUERY, time="t"),
        lambda events: cerise.count(events, CLAUSE),
        lambda events: cerise.schema(events, QUERY, time="t"),
        lambda events: cerise.schema(events, CLAUSE),
        lambda events: cerise.compressed(events, QUERY, time="t"),
        lambda events: cerise.explain_misses(events, QUERY, time="t"),
        lambda events: cerise.explain_misses(events, CLAUSE),
        lambda events: cerise.explain_misses(events.sparkSession, CLAUSE),
    ],
)  # fmt: skip
def test_a_verb_refuses_a_stream(beats: DataFrame, verb: Callable[[Any], Any]) -> None:
    with pytest.raises(UnsupportedError, match="a streaming DataFrame has no end") as caught:
        verb(beats)
    assert caught.value.hint is not None
    assert "cerise.watch" in caught.value.hint


@pytest.mark.parametrize(
    "around", ["{}", "WITH m AS ({}) SELECT count(*) FROM m", "CREATE TEMP VIEW n AS {}"]
)
def test_sql_refuses_a_clause_without_a_window_over_a_stream(beats: DataFrame, around: str) -> None:
    with pytest.raises(UnsupportedError, match="without WITHIN") as caught:
        cerise.sql(beats.sparkSession, around.format(CLAUSE))
    assert caught.value.hint is not None


def test_a_store_takes_the_columns_of_a_stream_and_not_its_events(beats: DataFrame, tmp_path: Path) -> None:
    store = cerise.Store.create(tmp_path / "store", schema=beats, time="t")
    assert store.schema.names == ["t", "at"]
    with pytest.raises(UnsupportedError, match="a streaming DataFrame has no end"):
        store.append(beats)


def test_a_stream_beside_a_clause_is_sparks_own(beats: DataFrame, spark: SparkSession) -> None:
    spark.range(4).selectExpr("id AS t").createOrReplaceTempView("still")
    clause = CLAUSE.replace("beats", "still")
    joined = cerise.sql(spark, f"SELECT * FROM ({clause}) m JOIN beats ON beats.t = m.at")
    assert joined.isStreaming
