"""Random queries over random streams: Spark finds the same matches, by id, as this process."""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import HealthCheck, given, settings

import cerise
from tests.strategies import Pair, pairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def test_spark_agrees_with_this_process(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    @settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=CALM)
    @given(pairs(returns=False))
    def agrees(pair: Pair) -> None:
        rows = pair.table.append_column("arrival", pa.array(range(len(pair.table)), pa.int64()))
        mixed = rows.take(pa.array(random.Random(0).sample(range(len(rows)), len(rows)), pa.int64()))
        frame = spark.createDataFrame(mixed, from_arrow_schema(mixed.schema))
        roles = {"time": pair.schema.time, "type": pair.schema.type, "key": pair.schema.key}
        roles |= {"order": ("arrival",), "params": pair.params}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cerise.CeriseWarning)
            here = cerise.find(rows, pair.query, **roles)
            there = cerise.find(frame, pair.query, **roles).toArrow()
        assert sorted(there.column(0).to_pylist()) == sorted(here.column(0).to_pylist())

    agrees()
