"""Totals on Spark: what tasks find is put together once, and is what this process finds, in its types."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import Options
from cerise.engines.base import Tally
from cerise.engines.totals import Ledger, partial_schema
from cerise.events import EventBatch, Schema
from cerise.lang.sase import parse
from cerise.pattern.bind import bind
from cerise.run.question import Questions
from cerise.run.sase_search import Sase
from cerise.spark.tasks import CombineTask
from tests.support.cases.runners import RUNNERS, from_files
from tests.tiers import AT_LENGTH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLES: dict[str, Any] = {"time": "t", "type": "type", "order": "id"}
ITEMS = (
    "COUNT(*) AS n, COUNT(b) AS bs, SUM(b.x) AS s, SUM(b.y) AS d, AVG(b.y) AS m, MIN(a.w) AS w,"
    " MAX(b.day) AS day"
)
PATTERN = "PATTERN SEQ(A a, B+ b[]) USE skip_till_any_match WHERE b[i].x > b[i-1].x"
AGAIN = (
    "PATTERN SEQ(N p, N q) FROM N WITHIN 3 WHERE q.n > p.n RETURN SUM(q.n - p.n) AS s, MAX(q.n) AS n IN ALL"
)
QUERIES = [
    f"{PATTERN} WITHIN 12 RETURN {ITEMS}",
    f"{PATTERN} WITHIN 12 RETURN {ITEMS} PER EVENT",
    f"{PATTERN} WITHIN 12 RETURN {ITEMS}, MAX(b.x - a.x) AS rise PER EVENT",
    f"{PATTERN} WITHIN 60 PARTITION BY k RETURN {ITEMS} PER PARTITION",
    f"{PATTERN} WITHIN 12 SLIDE 4 RETURN {ITEMS} PER WINDOW",
    f"{PATTERN} WITHIN 30 SLIDE 10 PARTITION BY k RETURN {ITEMS} PER PARTITION, WINDOW",
    f"{PATTERN} WITHIN 9 events SLIDE 4 events PARTITION BY k RETURN {ITEMS} PER PARTITION, WINDOW",
    f"{PATTERN} WITHIN 12 OUTPUT NON_OVERLAPPING RETURN {ITEMS}, COUNT(*) AS rows PER EVENT",
    f"{PATTERN} WITHIN 12 SLIDE 3 OUTPUT NON_OVERLAPPING RETURN {ITEMS} PER WINDOW",
    f"{PATTERN} WITHIN 12 OUTPUT NON_OVERLAPPING RETURN COUNT(*)",
    f"{PATTERN} WITHIN 12 LIMIT 2 PER EVENT RETURN {ITEMS} PER EVENT",
    f"{PATTERN} WITHIN 12 RETURN N(COUNT(*) AS n) PER EVENT; {AGAIN}",
]


def events(size: int = 400) -> pa.Table:
    rng = np.random.default_rng(7)
    day = dt.date(2024, 1, 1)
    return pa.table(
        {
            "id": np.arange(size),
            "t": np.sort(rng.integers(0, size, size)),
            "type": rng.choice(["A", "B", "C"], size),
            "k": pa.array(rng.choice(["u", "v", None], size)),
            "x": pa.array(rng.integers(-5, 2**62, size), mask=rng.random(size) < 0.1),
            "y": rng.choice(
                [0.1, 1e16, -1e16, 3e-300, np.nan, 7.25], size, p=[0.3, 0.2, 0.2, 0.1, 0.01, 0.19]
            ),
            "w": pa.array(rng.integers(0, 99, size), pa.int16()),
            "day": pa.array([day + dt.timedelta(days=int(n)) for n in rng.integers(0, 99, size)]),
        }
    )


def told(table: pa.Table) -> Counter[str]:
    return Counter(map(str, table.to_pylist()))


@pytest.mark.parametrize("query", QUERIES)
def test_totals_are_those_of_this_process(query: str, spark: SparkSession, tmp_path: Path) -> None:
    """Of a frame and of files; of one of the two in `make test`."""
    table = events()
    for start in range(0, len(table), 64):
        pq.write_table(table.slice(start, 64), tmp_path / f"{start:04}.parquet", row_group_size=16)
    mixed = table.take(pa.array(np.random.default_rng(1).permutation(len(table))))
    frame = spark.createDataFrame(mixed)
    here = cerise.find(table, query, **ROLES)
    assert len(here)
    both = (frame, str(tmp_path))
    for source in both if AT_LENGTH else both[QUERIES.index(query) % 2 :][:1]:
        where = True if isinstance(source, str) else None
        there = cerise.find(source, query, **ROLES, options=Options(partitions=5), spark=where)
        assert there.schema == cerise.schema(source, query, time="t", type="type", spark=where)
        assert told(there.toArrow()) == told(here)


@pytest.mark.parametrize("query", [QUERIES[1], QUERIES[7]])
def test_matches_are_counted_whatever_is_asked_of_them(query: str, spark: SparkSession) -> None:
    table = events()
    assert cerise.count(spark.createDataFrame(table), query, **ROLES) == cerise.count(table, query, **ROLES)


def test_types_on_spark(spark: SparkSession) -> None:
    query = f"{PATTERN} WITHIN 12 RETURN {ITEMS}, STRING(COUNT(*)) AS text PER EVENT"
    found = cerise.find(spark.createDataFrame(events()), query, **ROLES)
    said = {field.name: (field.dataType.simpleString(), field.nullable) for field in found.schema}
    assert said == {
        "last_time": ("bigint", True), "n": ("decimal(38,0)", False), "bs": ("decimal(38,0)", False),
        "s": ("decimal(38,0)", True), "d": ("double", True), "m": ("double", True), "w": ("smallint", True),
        "day": ("date", True), "text": ("string", False),
    }  # fmt: skip


def test_no_events_have_one_row_of_totals_in_all(spark: SparkSession) -> None:
    none = spark.createDataFrame(events().slice(0, 0))
    row = cerise.find(none, f"PATTERN SEQ(A a, B+ b[]) RETURN {ITEMS}", **ROLES).collect()
    assert [tuple(each) for each in row] == [(0, 0, None, None, None, None, None)]
    per = cerise.find(none, f"PATTERN SEQ(A a, B+ b[]) RETURN {ITEMS} PER EVENT", **ROLES)
    assert per.collect() == []
    assert cerise.count(none, "PATTERN SEQ(A a, B+ b[])", **ROLES) == 0


def test_a_report_counts_the_matches_of_totals(spark: SparkSession) -> None:
    frame = spark.createDataFrame(events())
    found = cerise.profile(frame, f"{PATTERN} WITHIN 12 RETURN {ITEMS} PER EVENT", **ROLES)
    total = sum(row["n"] for row in found.matches.collect())
    assert found.report.figures["matches"] == total == cerise.count(frame, f"{PATTERN} WITHIN 12", **ROLES)


# ---- the tasks without Spark


@pytest.mark.parametrize("engine", ["nfa", "reference"])
@pytest.mark.parametrize("returned", ["RETURN a.id AS a, b.id AS b", "RETURN SUM(a.id) AS n PER EVENT"])
def test_slices_agree_on_the_place_of_an_event_among_those_of_its_time(engine: str, returned: str) -> None:
    """Also where one leaves out what fits no variable, and another does not."""
    table = events()
    query = parse(f"{PATTERN} WITHIN 12 OUTPUT NON_OVERLAPPING {returned}")
    bound = bind(query, Schema(table.schema, "t", "type", (), ("id",)))
    whole = told(RUNNERS["whole"](bound, table, Options(engine=engine)))
    for count in (5, 7):
        assert told(from_files(count)(bound, table, Options(engine=engine))) == whole


def test_parts_of_tasks_are_combined() -> None:
    table = events(10)
    bound = bind(
        parse(f"PATTERN SEQ(A a, B+ b[]) RETURN {ITEMS} PER EVENT"), Schema(table.schema, "t", "type")
    )
    stream = EventBatch.of(table, bound.schema)
    parts = []
    for count in (2, 2**70):
        ledger = Ledger(bound)
        ledger.add(Tally(stream, 3, None, count, {2: (np.array([1, 2]), [count, 1])}))
        ledger.add(Tally(stream, 4, None, 1, {}))
        parts.append(ledger.partial())
    assert all(part.schema == partial_schema(bound) for part in parts)
    rows = [batch for part in parts for batch in part.to_batches(max_chunksize=1)]
    (found,) = CombineTask(Questions.of([Sase(bound)]), Options(), nested=False)(rows)
    assert sorted(found.column("n").to_pylist()) == [Decimal(2), Decimal(2 + 2**70)]


def test_a_list_of_parts_may_be_empty() -> None:
    bound = bind(parse("PATTERN A a RETURN COUNT(*), MAX(a.t) AS t"), Schema(events(1).schema, "t", "type"))
    empty = pa.array([[]], pa.list_(pa.struct(list(partial_schema(bound)))))
    task = CombineTask(Questions.of([Sase(bound)]), Options(), nested=True)
    (found,) = task([pa.record_batch([empty], ["parts"])])
    assert found.to_pylist() == [{"count": Decimal(0), "t": None}]
