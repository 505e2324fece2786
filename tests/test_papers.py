"""Every SASE-style query that the papers print runs, in process and on Spark."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import cerise
from tests.tiers import mostly_nightly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BARS = """PATTERN SEQ({0} v1, {1} v2, {0} v3, {1} v4)
FROM NASDAQ
USE skip-till-next-match
WHERE {2} <= v1.open <= {3} AND {4} <= v2.open <= {5}
    AND v3.open >= v1.open * {6} AND v4.open <= v2.open * {7}
WITHIN {8} minutes
RETURN COUNT(*)"""
STOCK = """PATTERN(STOCK+ a[ ], STOCK b)
where {0} {{[symbol] ∧ a[1].price %500==0 ∧ {1} ∧ b.volume <150}} within 500"""
STOCK_C = """PATTERN(STOCK+ a[ ], STOCK b, STOCK c)
where {0} {{[symbol] ∧ a[1].price %500==0 ∧ a[i].price > min(a[i-1].price) ∧ b.volume <150
∧ c.price > a[1].price ∧ c.price < a[a.len].price}} within 500"""
STRATEGIES = ("partition_contiguity", "skip_till_next_match")
STEPS = (
    "TRUE",
    "a[i].price > a[i-1].price",
    *(f"a[i].price > {f}(a[..i-1].price)" for f in ("max", "min", "avg")),
)

QUERIES: dict[str, tuple[str, str]] = {
    "000 Q_1": ("bars", BARS.format("MSFT", "GOOG", 326, 334, 120, 130, 1.003, 0.997, 12)),
    "000 Q_2": ("bars", BARS.format("NVDA", "INTC", 403, 423, 23, 43, 1.007, 0.993, 15)),
    "000 Q_3": ("bars", BARS.format("AMZN", "BABA", 100, 120, 90, 110, 1.007, 0.993, 15)),
    "000 P1": ("letters", "PATTERN SEQ(A a, B b, C c) WITHIN 1000"),
    "000 P2": ("letters", "PATTERN SEQ(A a, B b, C c, D d, E e) WITHIN 1000"),
    "000 P3": ("letters", "PATTERN SEQ(SEQ(A a, AND(B b, C c)), D d) WITHIN 1000"),
    "000 P4": ("letters", "PATTERN SEQ(A a, AND(B b, C c), D d) WITHIN 1000"),
    "000 P5": ("letters", "PATTERN SEQ(AND(A a, B b), AND(C c, D d)) WITHIN 1000"),
    "002 §2 sequence": ("letters", "PATTERN SEQ(A, B, C) USE skip_till_any_match WITHIN 10"),
    "002 §2 conjunction": ("letters", "PATTERN AND(A, B, C) USE skip_till_any_match WITHIN 10"),
    "002 §2 negation": ("letters", "PATTERN SEQ(AND(A, B, C), NOT(D)) USE skip_till_any_match WITHIN 10"),
    "002 P_1": ("letters", "PATTERN SEQ(A, B, C, D) USE skip_till_any_match WITHIN 10"),
    "002 P_2": ("letters", "PATTERN SEQ(A, E, C, F) USE skip_till_any_match WITHIN 20"),
    "002 P_3": ("letters", "PATTERN SEQ(G, B, H, D) USE skip_till_any_match WITHIN 20"),
    "002 appendix": ("letters", "PATTERN AND(A, D, C) USE skip_till_any_match WHERE A.x >= 10 WITHIN 10"),
    "003 Query 1": (
        "companies",
        """PATTERN SEQ (a, b+, c)WHERE [companyID]
AND a.price < b.price AND
b.price < NEXT(b.price) AND c.price < FIRST(b.price)
WITHIN 30 minutes SLIDE 2 minutes""",
    ),
    "003 Big after Small": (
        "companies",
        "PATTERN SEQ(a, b+) USE skip_till_any_match WHERE [companyID] AND b.price > 9*a.price WITHIN 1 hour",
    ),
    "004 Query 1": (
        "readings",
        """PATTERN SEQ(Shelf a, ~(Register b), Exit c)
WHERE skip_till_next_match(a, b, c) {
  a.tag_id = b.tag_id
  and a.tag_id = c.tag_id
  /* equivalently, [tag_id] */ }
WITHIN 12 hours""",
    ),
    "004 Query 2": (
        "shipments",
        """PATTERN SEQ(Alert a, Shipment+ b[])
WHERE skip_till_any_match(a, b[]) {
  a.type = 'contaminated'
  and b[1].from = a.site
  and b[i].from = b[i-1].to }
WITHIN 3 hours""",
    ),
    "004 Query 3": (
        "stock",
        """PATTERN SEQ(Stock+ a[], Stock b)
WHERE skip_till_next_match(a[], b) {
  [symbol]
  and a[1].volume > 1000
  and a[i].price > avg(a[..i-1].price)
  and b.volume < 80%*a[a.LEN].volume }
WITHIN 1 hour""",
    ),
    **{f"004 §6 {s} {p}": ("ticker", STOCK.format(s, p)) for s in STRATEGIES for p in STEPS},
    **{f"004 §6 {s} p3*": ("ticker", STOCK_C.format(s)) for s in STRATEGIES},
}


def at(hour: int, minute: int) -> dt.datetime:
    return dt.datetime(2023, 5, 26, hour, minute)


def streams() -> dict[str, tuple[pa.Table, dict[str, Any]]]:
    """Small events of the shape that each paper's queries read."""
    bars = pa.table(
        {
            "ticker": ["MSFT", "AAPL", "GOOG", "AAPL", "MSFT", "GOOG", "GOOG"],
            "open": [329.67, 175.29, 125.55, 175.37, 330.85, 125.16, 125.00],
            "volume": [60906, 100686, 82648, 61517, 109612, 37939, 43324],
            "date": [at(10, 55), at(10, 56), at(10, 57), at(10, 58), at(11, 3), at(11, 6), at(11, 23)],
        }
    )
    letters = pa.table({"type": list("AEBCFDGBHCDE"), "t": range(12), "x": [10] * 12})
    companies = pa.table(
        {
            "companyID": [1] * 6,
            "price": [1, 20, 30, 5, 400, 2],
            "time": [at(9, minute) for minute in range(6)],
        }
    )
    readings = pa.table(
        {
            "type": ["Shelf", "Shelf", "Register", "Exit", "Exit"],
            "tag_id": [1, 2, 1, 1, 2],
            "time": [at(9, 0), at(9, 1), at(9, 2), at(9, 3), at(9, 4)],
        }
    )
    shipments = pa.table(
        {
            "kind": ["Alert", "Shipment", "Shipment", "Shipment"],
            "type": ["contaminated", None, None, None],
            "site": ["X", None, None, None],
            "from": [None, "X", "X", "Y"],
            "to": [None, "Y", "Z", "W"],
            "time": [at(9, 0), at(9, 1), at(9, 2), at(9, 3)],
        }
    )
    stock = pa.table(
        {
            "type": ["Stock"] * 8,
            "symbol": ["G"] * 8,
            "price": [100, 120, 120, 121, 120, 125, 120, 120],
            "volume": [1010, 990, 1005, 999, 999, 750, 950, 700],
            "time": [at(9, minute) for minute in range(8)],
        }
    )
    ticker = pa.table(
        {
            "type": ["STOCK"] * 8,
            "symbol": [1, 2, 1, 1, 2, 1, 1, 1],
            "price": [500, 3, 501, 502, 500, 501, 503, 502],
            "volume": [900, 1, 100, 800, 100, 120, 90, 400],
            "t": range(8),
        }
    )
    return {
        "bars": (bars, {"time": "date", "type": "ticker"}),
        "letters": (letters, {"time": "t", "type": "type"}),
        "companies": (companies, {"time": "time"}),
        "readings": (readings, {"time": "time", "type": "type"}),
        "shipments": (shipments, {"time": "time", "type": "kind"}),
        "stock": (stock, {"time": "time", "type": "type"}),
        "ticker": (ticker, {"time": "t", "type": "type"}),
    }


STREAMS = streams()
FOUND = {  # how many matches each has in its small stream, worked out by hand; counts for COUNT(*)
    "000 Q_1": 1, "000 P1": 1, "000 P2": 1, "000 P3": 1, "002 §2 negation": 0, "003 Query 1": 6,
    "004 Query 1": 1, "004 Query 2": 3, "004 Query 3": 3,
}  # fmt: skip


def matches(found: pa.Table) -> int:
    return found.column("count")[0].as_py() if found.column_names == ["count"] else len(found)


@pytest.mark.filterwarnings("ignore:no event has type")
@pytest.mark.parametrize("name", QUERIES)
def test_runs_in_process(name: str) -> None:
    source, query = QUERIES[name]
    events, roles = STREAMS[source]
    found = matches(cerise.find(events, query, **roles))
    assert found == FOUND.get(name, found)


@pytest.mark.filterwarnings("ignore:no event has type")
@pytest.mark.parametrize("name", mostly_nightly(QUERIES, list(QUERIES)[::2]))
def test_runs_on_spark_with_the_same_answer(name: str, spark: SparkSession) -> None:
    source, query = QUERIES[name]
    events, roles = STREAMS[source]
    here = cerise.find(events, query, **roles)
    there = cerise.find(spark.createDataFrame(events), query, **roles).toArrow()
    assert matches(there) == matches(here)
    if "match_id" in here.column_names:
        assert sorted(there.column("match_id").to_pylist()) == sorted(here.column("match_id").to_pylist())
