"""Every case through `cerise.find` on a Spark DataFrame, its rows shuffled over several partitions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import cerise
from tests.harness import Case, answer_of, difference
from tests.test_cases import GOOD, bound_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARRIVAL = "arrival"  # a DataFrame's rows have no order of their own (S1.2)


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
@pytest.mark.parametrize("case", GOOD, ids=str)
def test_case_on_spark(case: Case, spark: SparkSession) -> None:
    rows = case.events.append_column(ARRIVAL, pa.array(range(len(case.events)), pa.int64()))
    from pyspark.sql.pandas.types import from_arrow_schema

    order = list(range(len(rows)))
    random.Random(0).shuffle(order)
    frame = spark.createDataFrame(rows.take(pa.array(order, pa.int64())), from_arrow_schema(rows.schema))
    roles = case.roles() | {"order": (*case.order, ARRIVAL)}
    found = cerise.find(frame, case.query, **roles)
    roles.pop("order")
    assert found.schema == cerise.schema(case.query, frame, **roles)
    wrong = difference(case.expected, answer_of(found.toArrow(), bound_of(case), case.label))
    assert not wrong, f"{case}\n{wrong}"
