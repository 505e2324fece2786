"""Passes over files on Spark: the same matches as one exchange, lazily, with fewer events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import Options
from cerise.engines.base import Options as Given
from cerise.events import Schema
from cerise.files.lake import open_lake
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.run.question import Questions
from cerise.run.sase_search import Sase
from cerise.sources import FilesSource
from tests.support.cases.harness import answer_of, difference, load_cases
from tests.support.cases.tasks_here import exchange_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """PATTERN SEQ(a, b, c) USE skip_till_any_match
    WHERE [card] AND a.x < 20 AND b.x > 95 AND c.x < 60 AND c.y = b.y WITHIN 1500"""
CLAUSE = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY card ORDER BY t MEASURES A.id AS a, B.id AS b
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A {-N*-} B) WITHIN 300
    DEFINE A AS x < 20, B AS x > 98 AND B.y = A.y)"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng, count, folder = np.random.default_rng(3), 6_000, tmp_path_factory.mktemp("dealt")
    table = pa.table({
        "id": range(count), "t": rng.permutation(6 * count)[:count], "card": rng.integers(0, 60, count),
        "x": rng.integers(0, 100, count), "y": rng.integers(0, 2, count),
    })  # fmt: skip
    for number in range(5):
        pq.write_table(
            table.slice(number * count // 5, count // 5), folder / f"{number}.parquet", row_group_size=500
        )
    return str(folder)


def test_passes_change_no_match_and_run_nothing_before_an_action(spark: SparkSession, path: str) -> None:
    expected = sorted(cerise.find(path, QUERY, time="t").column("match_id").to_pylist())
    assert len(expected) > 10
    exchanged = {}
    for passes in (1, 2, 3):
        context = spark.sparkContext
        context.setJobGroup(f"passes {passes}", "a test")
        options = Options(passes=passes)
        found = cerise.profile(path, QUERY, time="t", spark=spark, options=options)
        jobs = context.statusTracker()
        assert list(jobs.getJobIdsForGroup(f"passes {passes}")) == []
        assert sorted(found.matches.toArrow().column("match_id").to_pylist()) == expected
        if passes > 1:  # few events are searched by one task, unless passes are asked for
            exchanged[passes] = found.report.figures["events handed over"]
            exchanged[1] = found.report.figures["events that would be exchanged without passes"]
            assert found.report.figures["bytes of filters"] > 0
    assert exchanged[3] < exchanged[2] < exchanged[1] * 0.75


def test_passes_of_a_clause_and_of_a_list(spark: SparkSession, path: str) -> None:
    options = Options(passes=2)
    here = cerise.find(path, CLAUSE)
    there = cerise.find(path, CLAUSE, spark=spark, options=options).toArrow()
    assert sorted(map(str, here.to_pylist())) == sorted(map(str, there.to_pylist()))
    assert len(here) > 5
    two = {"one": QUERY, "other": "PATTERN SEQ(a, b) WHERE [card] AND a.x = 1 AND b.x = 2 WITHIN 500"}
    assert cerise.count(path, two, time="t", spark=spark, options=options) == cerise.count(
        path, two, time="t"
    )
    text = cerise.explain(path, QUERY, time="t", spark=spark, options=options)
    assert "passes     2, each reads the files" in text
    assert "by b in each card" in text


@pytest.mark.nightly
@pytest.mark.parametrize("passes", [2, 3])
def test_cases_in_passes_on_spark(spark: SparkSession, tmp_path: Path, passes: int) -> None:
    from cerise.spark.runner import OnSpark

    cases = [case for case in load_cases() if case.error is None and "WITHIN" in case.query]
    for number, case in enumerate(cases[::20]):
        schema = Schema(case.events.schema, case.time, case.type, case.key, case.order)
        bound = bind(parse(case.query), schema, case.params)
        if bound.source is not None:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        for start in range(0, max(len(case.events), 1), 5):
            pq.write_table(case.events.slice(start, 5), folder / f"{start:06}.parquet", row_group_size=2)
        options = Given(passes=passes, partitions=3, engine="reference")
        asked, source = Questions.of([Sase(bound)]), FilesSource(open_lake(str(folder)))
        found = exchange_files(source, asked, options, OnSpark(spark)).matches.toArrow()
        wrong = difference(case.expected, answer_of(found, bound, case.label))
        assert not wrong, f"{case}\n{wrong}"
