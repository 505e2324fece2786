"""Internal limits at their smallest change no result on Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise.engines.base import Options
from cerise.engines.limits import Limits
from tests.spark.side_by_side import at_once
from tests.tiers import AT_LENGTH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLES = {"time": "t", "type": "kind", "order": "n"}
KLEENE = "PATTERN SEQ(A a, B+ b[], C c) USE skip_till_any_match WHERE b.x >= a.x"
QUERIES = {
    "sequence": "PATTERN SEQ(A a, B b, C c) WHERE b.x >= a.x WITHIN 9",
    "keyed": "PATTERN SEQ(A a, C c) PARTITION BY k WITHIN 30",
    "one after another": "PATTERN SEQ(A a, C c) WITHIN 6 OUTPUT NON_OVERLAPPING",
    "kleene": f"{KLEENE} WITHIN 7",
    "totals": f"{KLEENE} WITHIN 7 SLIDE 2 RETURN COUNT(*) AS n, SUM(a.x) AS s PER WINDOW",
    "not after": "PATTERN SEQ(A a, C c, ~(B b)) WHERE b.x > a.x WITHIN 5",
}
ROW_PATTERNS = {
    "partitions": "PARTITION BY k ORDER BY t, n MEASURES MATCH_NUMBER() AS m, FIRST(A.n) AS first,"
    " LAST(n) AS last PATTERN (A B+) DEFINE B AS x >= PREV(x)",
    "window": "ORDER BY t, n MEASURES FIRST(A.n) AS first, LAST(n) AS last AFTER MATCH SKIP TO NEXT ROW"
    " PATTERN (A X*? B) WITHIN 5 DEFINE A AS kind = 'A', B AS kind = 'C'",
}


def events(size: int = 60) -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "t": np.cumsum(rng.integers(0, 3, size)),
            "kind": np.array(list("AABC"))[rng.integers(0, 4, size)],
            "x": rng.integers(0, 4, size),
            "k": rng.integers(0, 3, size),
            "n": np.arange(size),
        }
    )


def rows(found: Any) -> Counter[str]:
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return Counter(map(repr, table.to_pylist()))


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_the_smallest_limits_change_nothing(size: int, spark: SparkSession, tmp_path: Path) -> None:
    limits = replace(Limits.all(size), exchanged_events=30)  # with fewer there are as many tasks as events
    table, small = events(), cerise.Options(limits=limits)
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=7)
    sources = (spark.createDataFrame(table.to_pandas()), str(tmp_path / "events.parquet"))

    def check(asked: tuple[str, dict[str, Any]], source: Any) -> None:
        query, roles = asked
        expected = rows(cerise.find(table, query, **roles, options=Options(engine="reference")))
        assert expected.total() > 3
        where = True if isinstance(source, str) else None
        assert rows(cerise.find(source, query, **roles, options=small, spark=where)) == expected, query
        if "RETURN" not in query and roles:
            assert cerise.count(source, query, **roles, options=small, spark=where) == expected.total(), query

    asked: list[tuple[str, dict[str, Any]]] = [(query, ROLES) for query in QUERIES.values()]
    asked += [(f"SELECT * FROM events MATCH_RECOGNIZE ({clause})", {}) for clause in ROW_PATTERNS.values()]
    pairs = [(each, sources[i % 2]) for i, each in enumerate(asked)]  # a frame and files in turn
    at_once(check, *zip(*(product(asked, sources) if AT_LENGTH else pairs), strict=True))
