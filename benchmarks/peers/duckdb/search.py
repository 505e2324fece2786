"""Counts the matches of a query with DuckDB, once for each line on standard input.

Arguments: the query's name, the Parquet file, "memory" or "file", and the number of threads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter, process_time

import duckdb
import pyarrow.parquet as pq

MINUTE_US = 60_000_000

# The first GOOG after an MSFT does not depend on prices before: an ASOF join. All that follows does. Bars of
# one minute come in the order of their tickers, GOOG before MSFT; no window of 12 minutes leaves a day.
Q1 = f"""
WITH pair AS MATERIALIZED (
    SELECT ticker, open, epoch_us(date) AS us FROM events WHERE ticker IN ('MSFT', 'GOOG')),
msft AS (SELECT us, us // 86400000000 AS day, open FROM pair WHERE ticker = 'MSFT'),
goog AS (SELECT us, us // 86400000000 AS day, open FROM pair WHERE ticker = 'GOOG'),
one AS (SELECT * FROM msft WHERE open BETWEEN 326 AND 334),
two AS (
    SELECT one.day, one.us AS us1, one.open AS open1, v2.us AS us2, v2.open AS open2
    FROM one ASOF JOIN (SELECT * FROM goog WHERE open BETWEEN 120 AND 130) AS v2
    ON one.day = v2.day AND one.us < v2.us),
three AS (
    SELECT two.day, us1, open2, min(us) AS us3
    FROM two JOIN msft ON two.day = msft.day AND us >= us2 AND us <= us1 + 12 * {MINUTE_US}
        AND open >= open1 * 1.003::DOUBLE
    GROUP BY ALL)
SELECT count(DISTINCT us1)
FROM three JOIN goog ON three.day = goog.day AND us > us3 AND us <= us1 + 12 * {MINUTE_US}
    AND open <= open2 * 0.997::DOUBLE"""

# Reports of one minute are ordered by id: `place` orders all.
CRIMES = f"""
WITH reports AS MATERIALIZED (
    SELECT primary_type AS kind, district, epoch_us(date) // {MINUTE_US} AS minute,
        (minute << 32) + id AS place
    FROM events WHERE primary_type IN ('ROBBERY', 'BATTERY', 'MOTOR VEHICLE THEFT')),
two AS (
    SELECT a.district, a.minute AS minute1, b.place AS place2
    FROM (SELECT * FROM reports WHERE kind = 'ROBBERY') AS a
    ASOF JOIN (SELECT * FROM reports WHERE kind = 'BATTERY') AS b
    ON a.district = b.district AND a.place < b.place
    WHERE b.minute <= a.minute + 30)
SELECT count(*)
FROM two ASOF JOIN (SELECT * FROM reports WHERE kind = 'MOTOR VEHICLE THEFT') AS c
ON two.district = c.district AND two.place2 < c.place
WHERE c.minute <= minute1 + 30"""

SYNTHETIC = """
WITH few AS MATERIALIZED (
    SELECT type, epoch_us(ts) AS us FROM events WHERE type IN ('E1', 'E2', 'E3') AND a1 < 200),
two AS (
    SELECT a.us AS us1, b.us AS us2
    FROM (SELECT us FROM few WHERE type = 'E1') AS a
    ASOF JOIN (SELECT us FROM few WHERE type = 'E2') AS b ON a.us < b.us)
SELECT count(*)
FROM two ASOF JOIN (SELECT us FROM few WHERE type = 'E3') AS c ON us2 < c.us
WHERE c.us <= us1 + 1000000"""

QUERIES = {"q1": Q1, "crimes": CRIMES, "synthetic": SYNTHETIC}


def prepare(name: str, path: str, source: str, threads: str) -> Callable[[], int]:
    """Return what counts the matches of a query, in a table in memory or in a file."""
    connection = duckdb.connect(config={"threads": threads})
    if source == "memory":
        connection.register("events", pq.read_table(path))
    else:
        connection.read_parquet(path).create_view("events")
    return lambda: connection.execute(QUERIES[name]).fetchone()[0]


def main() -> None:
    call = prepare(*sys.argv[1:])
    for _ in sys.stdin:
        started, before = perf_counter(), process_time()
        matches = call()
        took = {"seconds": perf_counter() - started, "cpu_seconds": process_time() - before}
        print(json.dumps(took | {"matches": matches}), flush=True)


if __name__ == "__main__":
    main()
