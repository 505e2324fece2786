"""Counts the matches of a query with DuckDB, once for each line on standard input.

Arguments: the query's name, the Parquet file, "memory" or "file", the number of threads, and whether to make
the "rows" of the matches, as an Arrow table, or to "count" them.
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

# ---- the suite `rows`: what MATCH_RECOGNIZE says there, by window functions and ASOF joins

# Of all bars only those stay where a price begins to fall, or ceases to: a valley and the bar that it began
# at are then neighbours. Without the second step, by last_value(… IGNORE NULLS), it took twice the time.
V_SHAPE = """
WITH near AS (
    SELECT ticker, date, close, row_number() OVER w AS number,
        lag(close) OVER w AS before, lead(close) OVER w AS after, lead(date) OVER w AS ended
    FROM events WINDOW w AS (PARTITION BY ticker ORDER BY date)),
turns AS (
    SELECT ticker, date, close, number, ended, close < before AND after > close AS valley
    FROM near
    WHERE after < close AND (before IS NULL OR close >= before) OR close < before AND after >= close),
pairs AS (
    SELECT ticker, lag(date) OVER w AS began, lag(close) OVER w AS top, close AS bottom, ended,
        number - lag(number) OVER w AS falls, valley
    FROM turns WINDOW w AS (PARTITION BY ticker ORDER BY date))
SELECT ticker, began, top, bottom, ended, falls FROM pairs WHERE valley"""
V_SHAPE_COUNT = """
WITH near AS (
    SELECT close, lag(close) OVER w AS before, lead(close) OVER w AS after
    FROM events WINDOW w AS (PARTITION BY ticker ORDER BY date))
SELECT count(*) FROM near WHERE close < before AND after > close"""

# Most users never come to the last step: they go first. The next event of a step does not depend on those
# before: an ASOF join for each. A minimum over the following rows for each took a little longer.
FUNNEL = """
WITH steps AS MATERIALIZED (
    SELECT "user", step, t FROM events
    WHERE step NOT IN ('search', 'help')
        AND "user" IN (SELECT "user" FROM events WHERE step = 'purchase')),
two AS (
    SELECT a."user", a.t AS began, b.t
    FROM (SELECT * FROM steps WHERE step = 'visit') AS a
    ASOF JOIN (SELECT * FROM steps WHERE step = 'product') AS b ON a."user" = b."user" AND a.t < b.t),
three AS (
    SELECT two."user", began, c.t
    FROM two ASOF JOIN (SELECT * FROM steps WHERE step = 'cart') AS c
    ON two."user" = c."user" AND two.t < c.t),
four AS (
    SELECT three."user", began, d.t
    FROM three ASOF JOIN (SELECT * FROM steps WHERE step = 'checkout') AS d
    ON three."user" = d."user" AND three.t < d.t)
SELECT four."user", began, e.t AS ended
FROM four ASOF JOIN (SELECT * FROM steps WHERE step = 'purchase') AS e
ON four."user" = e."user" AND four.t < e.t
WHERE epoch_us(e.t) <= epoch_us(began) + 7 * 86400000000"""

KINDS = ("ROBBERY", "BATTERY", "MOTOR VEHICLE THEFT", "ASSAULT", "THEFT")
RIDES = (  # what the rides after the first must be
    "start_station{1} = end_station",
    "member_casual{2} = 'casual'",
    "rideable_type{3} = 'electric_bike'",
    "member_casual{4} = 'casual'",
)


def strict_crimes(variables: int) -> str:
    """Return the rows of so many reports in a row, of the first kinds; by one number that orders them all."""
    more = range(1, variables)
    codes = " ".join(f"WHEN '{kind}' THEN {code}" for code, kind in enumerate(KINDS[:variables], 1))
    return f"""
WITH coded AS (
    SELECT CASE primary_type {codes} ELSE 0 END::UTINYINT AS kind,
        ((epoch_us(date) // {MINUTE_US}) << 32) + id AS place
    FROM events),
near AS (
    SELECT place, kind, {", ".join(f"lead(kind, {n}) OVER w AS kind{n}" for n in more)},
        lead(place, {variables - 1}) OVER w AS final
    FROM coded WINDOW w AS (ORDER BY place))
SELECT place & 4294967295 AS first_id, final & 4294967295 AS last_id FROM near
WHERE kind = 1 AND {" AND ".join(f"kind{n} = {n + 1}" for n in more)} AND final >> 32 <= (place >> 32) + 30"""


def strict_citibike(variables: int) -> str:
    """Return the rows of so many rides in a row; their ids are in the order of time."""
    more = range(1, variables)
    numbers = ["", *map(str, more)]
    tests = [each.format(*numbers, *[""] * 4) for each in RIDES[: variables - 1]]
    reads = ("start_station", "member_casual", "rideable_type", "member_casual")
    leads = [f"lead({name}, {n}) OVER w AS {name}{n}" for n, name in zip(more, reads, strict=False)]
    return f"""
WITH near AS (
    SELECT ride_id, epoch_us(started_at) AS us, rideable_type, end_station, {", ".join(leads)},
        lead(ride_id, {variables - 1}) OVER w AS last_id,
        lead(epoch_us(started_at), {variables - 1}) OVER w AS last_us
    FROM events WINDOW w AS (ORDER BY ride_id))
SELECT ride_id AS first_id, last_id FROM near
WHERE rideable_type = 'electric_bike' AND {" AND ".join(tests)} AND last_us <= us + 5 * {MINUTE_US}"""


# Is there any battery that a theft in its district follows soon enough? Its first theft tells. Robberies and
# batteries meet in one of two stretches of 31 minutes; by a minimum over all later batteries it took longer.
SKIPPING = f"""
WITH reports AS MATERIALIZED (
    SELECT id, primary_type AS kind, district, epoch_us(date) // {MINUTE_US} AS minute,
        (minute << 32) + id AS place
    FROM events WHERE primary_type IN ('ROBBERY', 'BATTERY', 'MOTOR VEHICLE THEFT')),
pairs AS (
    SELECT b.place, b.minute, b.minute // 31 AS stretch, m.minute AS ends
    FROM (SELECT * FROM reports WHERE kind = 'BATTERY') AS b
    ASOF JOIN (SELECT * FROM reports WHERE kind = 'MOTOR VEHICLE THEFT') AS m
    ON b.district = m.district AND b.place < m.place
    WHERE m.minute <= b.minute + 30),
starts AS (
    SELECT id, place, minute, unnest([minute // 31, minute // 31 + 1]) AS stretch
    FROM reports WHERE kind = 'ROBBERY')
SELECT DISTINCT starts.id AS r
FROM starts JOIN pairs
ON starts.stretch = pairs.stretch AND pairs.place > starts.place AND pairs.ends <= starts.minute + 30"""

ROWS = {
    "v_shape": V_SHAPE,
    "funnel": FUNNEL,
    **{f"crimes_P{number}": strict_crimes(number + 2) for number in (1, 2, 3)},
    **{f"citibike_P{number}": strict_citibike(number + 2) for number in (1, 2, 3)},
    "skipping": SKIPPING,
}
QUERIES = {
    "q1": Q1,
    "crimes": CRIMES,
    "synthetic": SYNTHETIC,
    **{name: f"SELECT count(*) FROM ({rows})" for name, rows in ROWS.items()},
    "v_shape": V_SHAPE_COUNT,
}


def prepare(name: str, path: str, source: str, threads: str, result: str = "count") -> Callable[[], int]:
    """Return what counts the matches of a query, in a table in memory or in a file; or makes their rows."""
    connection = duckdb.connect(config={"threads": threads})
    if source == "memory":
        connection.register("events", pq.read_table(path))
    else:
        connection.read_parquet(path).create_view("events")
    if result == "rows":
        return lambda: connection.sql(ROWS[name]).to_arrow_table().num_rows
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
