"""Every case through `cerise.find` on Spark: a DataFrame whose rows are shuffled, and files by path.

Here a case runs with two of 1, 2 and 7 partitions or slices; `tests/runners.py` has the same tasks with each,
without Spark.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise import Options
from tests.harness import Case, answer_of, difference
from tests.test_cases import GOOD, bound_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARRIVAL = "arrival"  # a DataFrame's rows have no order of their own (S1.2)
COUNTS = (1, 2, 7)


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
@pytest.mark.parametrize(("number", "case"), enumerate(GOOD), ids=str)
def test_case_on_spark(number: int, case: Case, spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = case.events.append_column(ARRIVAL, pa.array(range(len(case.events)), pa.int64()))
    order = list(range(len(rows)))
    random.Random(0).shuffle(order)
    frame = spark.createDataFrame(rows.take(pa.array(order, pa.int64())), from_arrow_schema(rows.schema))
    for start in range(0, max(len(rows), 1), 4):
        pq.write_table(rows.slice(start, 4), tmp_path / f"{start:04}.parquet", row_group_size=2)
    roles = case.roles() | {"order": (*case.order, ARRIVAL)}
    in_rows = cerise.find(frame, case.query, **roles, options=Options(partitions=COUNTS[number % 3]))
    files, count = str(tmp_path), COUNTS[(number + 1) % 3]
    in_files = cerise.find(files, case.query, **roles, options=Options(partitions=count))
    roles.pop("order")
    assert in_rows.schema == cerise.schema(case.query, frame, **roles)
    both = in_rows.selectExpr("*", "0 AS source").unionAll(in_files.selectExpr("*", "1 AS source")).toArrow()
    for source in (0, 1):
        found = both.filter(pa.compute.field("source") == source).drop_columns("source")
        wrong = difference(case.expected, answer_of(found, bound_of(case), case.label))
        assert not wrong, f"{case}, {('rows', 'files')[source]}\n{wrong}"
