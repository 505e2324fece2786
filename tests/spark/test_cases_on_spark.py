"""Cases through `cerise.find` on Spark: on a DataFrame whose rows are shuffled, or on files by path.

Each case runs in one of these ways, with 1, 2 or 7 partitions or slices, in turn; in `make nightly`, where
all of them run, in both. `tests/support/cases/runners.py` has the same tasks in every way for every case,
without Spark.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import Options
from tests.spark.side_by_side import Jobs, side_by_side
from tests.support.cases.harness import answer_of, difference
from tests.test_cases import GOOD, bound_of
from tests.tiers import AT_LENGTH, mostly_nightly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ARRIVAL = "arrival"  # a DataFrame's rows have no order of their own (S1.2)
COUNTS = (1, 2, 7)
NUMBERS = range(0, len(GOOD), 5)  # not a multiple of the counts and ways


@pytest.fixture(scope="module")
def jobs(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    folder = tmp_path_factory.mktemp("cases")
    with side_by_side(request, lambda number: run_case(number, spark, folder / str(number))) as started:
        yield started


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
@pytest.mark.parametrize("number", mostly_nightly(range(len(GOOD)), NUMBERS), ids=map(str, GOOD))
def test_case_on_spark(number: int, jobs: Jobs) -> None:
    jobs[number].result()


def run_case(number: int, spark: SparkSession, folder: Path) -> None:
    case = GOOD[number]
    rows = case.events.append_column(ARRIVAL, pa.array(range(len(case.events)), pa.int64()))
    options = Options(partitions=COUNTS[number % 3])
    ways = (shuffled, files) if AT_LENGTH else ((shuffled, files)[number // 3 % 2],)
    for way in ways:
        events = way(rows, spark, folder)
        roles = case.roles() | {"order": (*case.order, ARRIVAL)}
        where = True if isinstance(events, str) else None
        found = cerise.find(events, case.query, **roles, options=options, spark=where)
        assert found.schema == cerise.schema(events, case.query, **roles, spark=where)
        wrong = difference(case.expected, answer_of(found.toArrow(), bound_of(case), case.label))
        assert not wrong, f"{case}, {way.__name__}\n{wrong}"


def shuffled(rows: pa.Table, spark: SparkSession, _folder: Path) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    order = list(range(len(rows)))
    random.Random(0).shuffle(order)
    return spark.createDataFrame(rows.take(pa.array(order, pa.int64())), from_arrow_schema(rows.schema))


def files(rows: pa.Table, _spark: SparkSession, folder: Path) -> str:
    folder.mkdir()
    for start in range(0, max(len(rows), 1), 4):
        pq.write_table(rows.slice(start, 4), folder / f"{start:04}.parquet", row_group_size=2)
    return str(folder)
