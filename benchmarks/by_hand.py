"""Queries of the suite `spark` as one would write them for Spark without Cerise, in three usual forms.

Each is exact: skip till next match takes the first event that satisfies a variable, so a join is followed by
a minimum. All use what their author knows of the data: bars of one minute come in the order of their tickers,
GOOG before MSFT; no window of 12 minutes leaves a day of trading; reports of one minute are ordered by id.
`synthetic` and `vshape` are not written by hand: a stream without a key needs overlapping stretches of time
to run in parallel, and a Kleene variable is no fixed number of joins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from binding import Work
from on_spark import session

DAY_US, MINUTE_US = 86_400_000_000, 60_000_000

PAIR = f"""
SELECT ticker, open, unix_micros(date) AS at, unix_micros(date) div {DAY_US} AS day
FROM events WHERE ticker IN ('MSFT', 'GOOG')"""
REPORTS = f"""
SELECT primary_type AS kind, district, unix_micros(date) div {MINUTE_US} AS minute,
    shiftleft(unix_micros(date) div {MINUTE_US}, 32) + id AS place
FROM events WHERE primary_type IN ('ROBBERY', 'BATTERY', 'MOTOR VEHICLE THEFT')"""

SELF_JOIN = {
    "q1": f"""
WITH pair AS ({PAIR}),
msft AS (SELECT day, at, open FROM pair WHERE ticker = 'MSFT'),
goog AS (SELECT day, at, open FROM pair WHERE ticker = 'GOOG'),
one AS (SELECT day, at AS at1, open AS open1 FROM msft WHERE open BETWEEN 326 AND 334),
two AS (
    SELECT one.day, at1, open1, min(struct(at, open)) AS v2
    FROM one JOIN goog ON one.day = goog.day AND at > at1 AND at <= at1 + 12 * {MINUTE_US}
    WHERE open BETWEEN 120 AND 130 GROUP BY ALL),
three AS (
    SELECT two.day, at1, v2, min(at) AS at3
    FROM two JOIN msft ON two.day = msft.day AND at >= v2.at AND at <= at1 + 12 * {MINUTE_US}
    WHERE open >= open1 * 1.003D GROUP BY ALL)
SELECT count(DISTINCT at1)
FROM three JOIN goog ON three.day = goog.day AND at > at3 AND at <= at1 + 12 * {MINUTE_US}
WHERE open <= v2.open * 0.997D""",
    "crimes": f"""
WITH reports AS ({REPORTS}),
one AS (
    SELECT district, minute AS minute1, place AS place1,
        explode(array(minute div 30, minute div 30 + 1)) AS bucket
    FROM reports WHERE kind = 'ROBBERY'),
later AS (SELECT kind, district, minute, place, minute div 30 AS bucket FROM reports),
two AS (
    SELECT one.district, minute1, place1, min(place) AS place2
    FROM one JOIN later ON one.district = later.district AND one.bucket = later.bucket
        AND place > place1 AND minute <= minute1 + 30
    WHERE kind = 'BATTERY' GROUP BY ALL),
two_buckets AS (SELECT *, explode(array(minute1 div 30, minute1 div 30 + 1)) AS bucket FROM two)
SELECT count(DISTINCT place1)
FROM two_buckets AS two JOIN later ON two.district = later.district AND two.bucket = later.bucket
    AND place > place2 AND minute <= minute1 + 30
WHERE kind = 'MOTOR VEHICLE THEFT'""",
}

# A frame that looks ahead without end is computed anew for each row: the order is turned round instead.
WINDOW_FUNCTIONS = {
    "q1": f"""
WITH pair AS ({PAIR}),
one AS (
    SELECT *, collect_list(struct(ticker, at, open)) OVER (
        PARTITION BY day ORDER BY at RANGE BETWEEN CURRENT ROW AND {12 * MINUTE_US} FOLLOWING) AS next
    FROM pair),
two AS (
    SELECT *, get(filter(next, x -> x.ticker = 'GOOG' AND x.at > at AND x.open BETWEEN 120 AND 130), 0) AS v2
    FROM one WHERE ticker = 'MSFT' AND open BETWEEN 326 AND 334),
three AS (
    SELECT *, get(filter(next, x -> x.ticker = 'MSFT' AND x.at >= v2.at AND x.open >= open * 1.003D), 0) AS v3
    FROM two WHERE v2 IS NOT NULL)
SELECT count(*) FROM three
WHERE exists(next, x -> x.ticker = 'GOOG' AND x.at > v3.at AND x.open <= v2.open * 0.997D)""",
    "crimes": f"""
WITH reports AS ({REPORTS}),
three AS (
    SELECT *, last(CASE WHEN kind = 'MOTOR VEHICLE THEFT' THEN minute END, true) OVER later AS minute3
    FROM reports WINDOW later AS (
        PARTITION BY district ORDER BY place DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
two AS (
    SELECT *, last(CASE WHEN kind = 'BATTERY' THEN struct(minute3) END, true) OVER later AS v2
    FROM three WINDOW later AS (
        PARTITION BY district ORDER BY place DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
SELECT count(*) FROM two WHERE kind = 'ROBBERY' AND v2.minute3 <= minute + 30""",
}


def self_join(work: Work) -> Callable[[], int]:
    """A join for each variable but the first, with bounds on the time."""
    return _sql(work, SELF_JOIN)


def window_functions(work: Work) -> Callable[[], int]:
    """The next events of each event, by window functions."""
    return _sql(work, WINDOW_FUNCTIONS)


def apply_in_pandas(work: Work) -> Callable[[], int]:
    """A loop in Python over the events of each key, by `groupBy(…).applyInPandas`."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import this module
    spark, (chosen, key, loop) = _with_events(work), LOOPS[work["query"]["name"]]

    def call() -> int:  # makes a new DataFrame: an old one would find what it has shuffled before
        counts = spark.sql(chosen).groupBy(key).applyInPandas(loop, "matches long")
        return sum(row.matches for row in counts.collect())

    return call


def why_not(work: Work) -> str | None:
    """Say that a query has not been written by hand."""
    name = work["query"]["name"]
    return None if name in LOOPS else f"{name} is not written by hand"


def _sql(work: Work, texts: dict[str, str]) -> Callable[[], int]:
    spark, text = _with_events(work), texts[work["query"]["name"]]
    return lambda: int(spark.sql(text).collect()[0][0])


def _with_events(work: Work) -> Any:
    spark = session(work)
    spark.read.parquet(work["path"]).createOrReplaceTempView("events")
    return spark


# ---- the loops; a worker of Spark runs them


def _q1(day: Any) -> Any:
    bars = list(day.sort_values(["at", "ticker"])[["ticker", "at", "open"]].itertuples(index=False))
    return _counted(sum(_q1_starts(bars, number) for number in range(len(bars))))


def _q1_starts(bars: list[Any], number: int) -> bool:
    """Whether a match starts at a bar."""
    first, second, third = bars[number], None, None
    if first.ticker != "MSFT" or not 326 <= first.open <= 334:
        return False
    for bar in bars[number + 1 :]:
        if bar.at > first.at + 12 * MINUTE_US:
            return False
        if second is None:
            second = bar if bar.ticker == "GOOG" and 120 <= bar.open <= 130 else None
        elif third is None:
            third = bar if bar.ticker == "MSFT" and bar.open >= first.open * 1.003 else None
        elif bar.ticker == "GOOG" and bar.open <= second.open * 0.997:
            return True
    return False


def _crimes(district: Any) -> Any:
    reports = list(district.sort_values("place")[["kind", "minute"]].itertuples(index=False))
    return _counted(sum(_crimes_start(reports, number) for number in range(len(reports))))


def _crimes_start(reports: list[Any], number: int) -> bool:
    """Whether a match starts at a report."""
    first, wanted = reports[number], ["BATTERY", "MOTOR VEHICLE THEFT"]
    if first.kind != "ROBBERY":
        return False
    for at in range(number + 1, len(reports)):
        if reports[at].minute > first.minute + 30:
            return False
        if reports[at].kind == wanted[0]:
            wanted = wanted[1:]
            if not wanted:
                return True
    return False


def _counted(matches: int) -> Any:
    import pandas as pd

    return pd.DataFrame({"matches": [matches]})


LOOPS = {"q1": (PAIR, "day", _q1), "crimes": (REPORTS, "district", _crimes)}
