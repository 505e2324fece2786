"""Random queries over random streams: Spark finds the same matches, by id, as this process."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import cerise
from tests.spark.side_by_side import at_once
from tests.strategies import Pair, pairs
from tests.tiers import EXAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


PAIRS = max(8, EXAMPLES // 60)


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_spark_agrees_with_this_process(spark: SparkSession) -> None:
    drawn: list[Pair] = []

    @settings(max_examples=PAIRS, deadline=None, derandomize=True, database=None, suppress_health_check=CALM)
    @given(pairs(returns=False))
    def draw(pair: Pair) -> None:
        drawn.append(pair)

    draw()
    assert len(drawn) >= PAIRS
    assert sum(at_once(lambda pair: matches_alike(pair, spark), drawn)) > PAIRS


def matches_alike(pair: Pair, spark: SparkSession) -> int:
    """Return how many matches there are, the same ones here and on Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = pair.table.append_column("arrival", pa.array(range(len(pair.table)), pa.int64()))
    mixed = rows.take(pa.array(random.Random(0).sample(range(len(rows)), len(rows)), pa.int64()))
    frame = spark.createDataFrame(mixed, from_arrow_schema(mixed.schema))
    roles = {"time": pair.schema.time, "type": pair.schema.type, "key": pair.schema.key}
    roles |= {"order": ("arrival",), "params": pair.params}
    here = cerise.find(rows, pair.query, **roles)
    there = cerise.find(frame, pair.query, **roles).toArrow()
    assert sorted(there.column(0).to_pylist()) == sorted(here.column(0).to_pylist()), pair
    return len(here)
