"""Streams on Spark whose queries come and go, and that begin with a history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import cerise
from cerise import BindError
from cerise.streams import is_changing
from tests.spark.test_watch import ABSENT, SEQ, Folder, pairs_in, run, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXACT = cerise.Options(limits=cerise.Limits(clock_events=1))  # every event tells the time
GIVEN: dict[str, Any] = {"time": "ts", "type": "kind", "key": "id", "delay": "5 seconds", "buckets": 2}


def found_in(spark: SparkSession, path: Path) -> Counter[tuple[str, str]]:
    rows = spark.read.parquet(str(path / "out")).collect()
    return Counter((row["query"], row["returned"]) for row in rows)


def test_queries_from_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    rules, folder = tmp_path / "rules", Folder(tmp_path / "in")
    rules.mkdir()
    (rules / "seq.cer").write_text(SEQ)
    (rules / "wrong.cer").write_text("PATTERN SEQ(A a")
    given = {**GIVEN, "state": str(tmp_path / "state"), "late": str(tmp_path / "late")}

    def watch() -> Any:
        return run(cerise.watch(folder.stream(spark), str(rules), **given), tmp_path)

    folder.put([(1, "A", 1, 1), (2, "B", 1, 2), (20, "C", 3, 3)])
    watch()
    (rules / "seq.cer").unlink()
    (rules / "absent.cer").write_text(ABSENT)
    folder.put([(21, "A", 2, 4), (22, "B", 2, 5), (23, "A", 3, 6)])
    watch()
    folder.put([(99, "C", 9, 9)])
    watch()
    assert found_in(spark, tmp_path) == Counter(
        {("seq", '{"a": 1, "b": 2}'): 1, ("absent", '{"a": 6, "b": 6}'): 1}
    )
    late = pq.read_table(tmp_path / "late")
    assert set(late.column("reason").to_pylist()) == {"query"}
    assert "wrong: " in late.column("error")[0].as_py()


def test_queries_from_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    folder, rows = Folder(tmp_path / "in"), tmp_path / "rows"
    rows.mkdir()
    (rows / "1.json").write_text(
        f'{{"op": "add", "name": "seq", "query": "{SEQ}", "at": "1970-01-01T00:00:10Z"}}\n'
    )
    controls = spark.readStream.schema("op string, name string, query string, at timestamp").json(str(rows))
    folder.put([(1, "A", 1, 1), (2, "B", 1, 2), (12, "A", 1, 3), (13, "B", 1, 4), (50, "C", 1, 0)])
    run(cerise.watch(folder.stream(spark), controls, **GIVEN), tmp_path)
    assert found_in(spark, tmp_path) == Counter({("seq", '{"a": 3, "b": 4}'): 1})
    with pytest.raises(BindError, match="no column 'query'"):
        cerise.watch(folder.stream(spark), controls.drop("query"), **GIVEN)


def test_a_stream_after_a_history(spark: SparkSession, tmp_path: Path) -> None:
    store = cerise.Store.create(tmp_path / "store", schema=table_of([]), time="ts", type="kind")
    store.append(table_of([(1, "A", 1, 1), (2, "B", 1, 2), (9, "A", 2, 3), (10, "A", 3, 4)]))
    folder = Folder(tmp_path / "in")
    folder.put([(9, "A", 2, 3), (11, "B", 3, 5)])
    folder.put([(30, "B", 2, 6), (60, "C", 9, 0)])
    matches = cerise.watch(
        folder.stream(spark), SEQ, time="ts", type="kind", delay="5 seconds", buckets=2,
        history=store, options=EXACT,
        state=str(tmp_path / "state"),
    )  # fmt: skip
    run(matches, tmp_path)
    assert pairs_in(spark, tmp_path) == Counter({(4, 5): 1, (3, 6): 1})


@pytest.fixture(params=["spark", "files"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Where the state rests."""
    return {} if request.param == "spark" else {"state": str(tmp_path / "state")}


BY_N = "PATTERN SEQ(A a, B b) WHERE [n] WITHIN 30 seconds RETURN a.id AS a, b.id AS b"


def test_queries_of_another_key_that_go_and_come_again_start_anew(
    spark: SparkSession, tmp_path: Path, home: dict[str, Any]
) -> None:
    """An A of the first batch and a B of the last are of one key; between them the query was gone."""
    folder, both = Folder(tmp_path / "in"), {"by id": SEQ, "by n": BY_N}
    batches = [
        ({"by id": SEQ}, [(1, "A", 1, 1)]),
        (both, [(2, "A", 2, 7)]),
        ({"by id": SEQ}, [(3, "B", 1, 9)]),
        (both, [(4, "B", 3, 7), (5, "A", 5, 8), (6, "B", 6, 8)]),
        (both, [(90, "C", 9, 0)]),
    ]
    for queries, events in batches:
        folder.put(events)
        matches = cerise.watch(
            folder.stream(spark), queries, time="ts", type="kind", delay="1 second", buckets=2,
            options=EXACT, **home,
        )  # fmt: skip
        run(
            matches.select("query", "a", "b")
            if len(queries) > 1
            else matches.selectExpr("'by id' AS query", "a", "b"),
            tmp_path,
        )
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    found = Counter((row["query"], row["a"], row["b"]) for row in rows)
    assert found == Counter({("by id", 1, 9): 1, ("by n", 5, 6): 1})


def test_another_number_of_buckets(spark: SparkSession, tmp_path: Path, home: dict[str, Any]) -> None:
    folder = Folder(tmp_path / "in")
    for buckets, events in (
        (2, [(1, "A", 1, 1), (2, "A", 2, 2), (3, "A", 3, 3), (4, "A", 4, 4)]),
        (4, [(5, "B", 1, 5), (6, "B", 2, 6)]),
        (3, [(7, "B", 3, 7), (8, "B", 4, 8)]),
        (1, [(99, "C", 9, 9)]),
    ):
        folder.put(events)
        matches = cerise.watch(
            folder.stream(spark), SEQ, time="ts", type="kind", delay="5 seconds", buckets=buckets,
            options=EXACT, **home,
        )  # fmt: skip
        if not home and buckets == 4:
            with pytest.raises(Exception, match="the saved state has 2 buckets, and the stream 4 now"):
                run(matches, tmp_path)
            return
        query = run(matches, tmp_path)
    assert pairs_in(spark, tmp_path) == Counter({(1, 5): 1, (2, 6): 1, (3, 7): 1, (4, 8): 1})
    assert cerise.watched(query).figures["events"] == 8


def test_two_watches_in_one_streaming_query_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Both would write the state of the same query and bucket; Spark refuses their figures of one name."""
    one, other = Folder(tmp_path / "one"), Folder(tmp_path / "other")
    given = {"time": "ts", "type": "kind", "delay": "5 seconds", "state": str(tmp_path / "state")}
    with pytest.raises(Exception, match="DUPLICATED_METRICS_NAME"):
        cerise.watch(one.stream(spark), SEQ, **given).unionAll(
            cerise.watch(other.stream(spark), SEQ, **given)
        ).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()


@pytest.mark.parametrize("length", [10, 300, 5_000])
def test_a_query_in_one_long_line_is_not_a_folder(length: int) -> None:
    assert not is_changing(f"PATTERN SEQ(A a, B b) WHERE a.n > {'1' * length}")
