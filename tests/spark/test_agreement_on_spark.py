"""Random queries over random streams: Spark finds the same matches, by id, as this process."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import cerise
from tests.spark.side_by_side import at_once
from tests.support.strategies.pairs import Pair, pairs
from tests.tiers import EXAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


PAIRS = max(8, EXAMPLES // 60)


@pytest.mark.filterwarnings("ignore::cerise.errors.CeriseWarning")
def test_spark_agrees_with_this_process(spark: SparkSession) -> None:
    drawn: list[tuple[Pair, list[int]]] = []

    @settings(
        max_examples=30 * PAIRS, deadline=None, derandomize=True, database=None, suppress_health_check=CALM
    )
    @given(pairs(returns=False))
    def draw(pair: Pair) -> None:
        if len(drawn) < PAIRS and (
            ids := ids_of(pair.table, pair, options=cerise.Options(engine="reference"))
        ):
            drawn.append((pair, ids))

    draw()
    assert len(drawn) == PAIRS, "most pairs have no match"
    at_once(lambda each: check(*each, spark), drawn)


def ids_of(events: Any, pair: Pair, **rest: Any) -> list[int]:
    roles = {"time": pair.schema.time, "type": pair.schema.type, "key": pair.schema.key}
    where = True if isinstance(events, str) else None
    found = cerise.find(events, pair.query, **roles, params=pair.params, **rest, spark=where)
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted(table.column(0).to_pylist())


def check(pair: Pair, ids: list[int], spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = pair.table.append_column("arrival", pa.array(range(len(pair.table)), pa.int64()))
    mixed = rows.take(pa.array(random.Random(0).sample(range(len(rows)), len(rows)), pa.int64()))
    frame = spark.createDataFrame(mixed, from_arrow_schema(mixed.schema))
    here, there = (ids_of(each, pair, order=("arrival",)) for each in (rows, frame))
    assert here == there, pair
    assert len(there) == len(ids), pair
