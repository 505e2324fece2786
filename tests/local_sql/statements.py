"""Statements whose answers in this process are those of Spark, and the tables that they read."""

# ruff: noqa: E501  statements and expressions are tables

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

DAY, MOMENT = dt.date(2024, 2, 28), dt.datetime(2024, 2, 28, 23, 15, 7, 250_000)
NAMES = ["ann", "Bob", "ÉMILE straße", "", " pad ", None, "a%b_c", "x\\y", "ann"]
COUNT = len(NAMES)


def _column(values: list[Any], type_: pa.DataType) -> pa.Array:
    return pa.array(values, type_)


def tables() -> dict[str, pa.Table]:
    """Return the tables that statements read, by name."""
    rows = range(COUNT)
    t = pa.table(
        {
            "id": _column([*rows], pa.int32()),
            "k": _column([1, 2, None, 1, 2, 3, None, 3, 1], pa.int32()),
            "small": _column([1, -2, 3, None, 5, 6, 7, -8, 9], pa.int16()),
            "n": _column([10, -20, 30, None, 2**40, 0, 7, -7, 10], pa.int64()),
            "x": _column([1.5, -2.5, None, 0.125, 1e10, 2.675, -0.0, 3.0, 1.005], pa.float64()),
            "f": _column([0.5, 1.25, None, -3.0, 8.0, 0.0, 2.0, 1.0, 4.5], pa.float32()),
            "amount": _column(
                [None if i == 4 else Decimal(f"{i * 7 - 20}.{i}5") for i in rows], pa.decimal128(10, 2)
            ),
            "s": _column(NAMES, pa.string()),
            "b": _column([True, False, None, True, True, False, None, False, True], pa.bool_()),
            "day": _column([None if i == 3 else DAY + dt.timedelta(i * 13) for i in rows], pa.date32()),
            "at": _column(
                [None if i == 6 else MOMENT + dt.timedelta(hours=i * 31) for i in rows], pa.timestamp("us")
            ),
            "instant": _column(
                [None if i == 1 else MOMENT + dt.timedelta(hours=i * 29) for i in rows],
                pa.timestamp("us", "UTC"),
            ),
        }
    )
    u = pa.table(
        {
            "k": _column([1, 1, 2, 4, None], pa.int32()),
            "label": _column(["one", "uno", "two", "four", "none"], pa.string()),
            "weight": _column([0.5, 1.5, 2.5, None, 4.5], pa.float64()),
        }
    )
    prices = [10, 8, 7, 9, 11, 10, 12, 11, 9, 8, 12, 13, 7, 6, 8]
    ticks = pa.table(
        {
            "sym": _column([("A", "B", "C")[i % 3] for i in range(3 * len(prices))], pa.string()),
            "t": _column(
                [MOMENT + dt.timedelta(minutes=i) for i in range(3 * len(prices))], pa.timestamp("us")
            ),
            "p": _column(
                [prices[(i // 3 + i % 3 * 4) % len(prices)] for i in range(3 * len(prices))], pa.int32()
            ),
            "v": _column([float(i * 37 % 11) for i in range(3 * len(prices))], pa.float64()),
        }
    )
    return {"t": t, "u": u, "ticks": ticks}


EXPRESSIONS = """
n + 1 | n - small | n * 2 | small * 3 | x * 1.1 | x + n | n / 4 | x / 3 | small / 2 | n div 3 | n % 7 | -n % 7
-n | x - f | f * 2 | f + n | amount + 1 | amount * 2 | amount - amount | amount / 3 | amount * amount | amount + n
amount * 1.5 | amount % 7 | amount / amount + 1 | amount + x | 1 + 1.5 | 10 / 4 | 7 div 2 | 1.5 * 2.25 | 1e3 + 1 | 2L + 1
n > 5 | x >= 1.5 | n = 10 | n <> 10 | n != 10 | s = 'ann' | s < 'b' | day > '2024-03-01' | at >= '2024-03-01 00:00:00'
day = DATE '2024-03-12' | at < TIMESTAMP_NTZ '2024-03-02 10:00:00' | amount > 1.5 | n <=> k | s <=> NULL | b = TRUE | k > 1.5
n IS NULL | n IS NOT NULL | b IS TRUE | b IS FALSE | NOT b | b AND n > 5 | b OR n > 5 | b AND NULL | b OR NULL
n BETWEEN 0 AND 20 | n NOT BETWEEN 0 AND 20 | k IN (1, 2) | k NOT IN (1, 2) | k IN (1, NULL) | s IN ('ann', 'Bob')
s LIKE 'a%' | s LIKE '%b\\\\_c' | s NOT LIKE '_nn' | s ILIKE 'B%' | s RLIKE '^[a-z]+$' | s RLIKE '(?i)BOB' | s RLIKE 'n{2}'
lower(s) | upper(s) | length(s) | char_length(s) | trim(s) | ltrim(s) | rtrim(s) | s || '!' | concat(s, '-', k) | s || n
substring(s, 2) | substring(s, 2, 2) | substring(s, 0, 2) | substring(s, -2, 1) | substring(s, -20, 19) | substr(s, k) | left(s, 2)
right(s, 2) | left(s, 0) | right(s, -1) | replace(s, 'n', 'MM') | replace(s, 'n') | startswith(s, 'a') | endswith(s, 'b')
contains(s, 'n') | instr(s, 'n') | concat(s, day) | concat(s, b) | concat(s, amount) | concat(s, at)
abs(n) | abs(x) | abs(amount) | ceil(x) | floor(x) | ceil(n) | floor(amount) | ceil(amount) | round(x) | round(x, 2) | round(x, 1)
round(n) | round(amount, 1) | round(amount) | round(small, 1) | sqrt(x) | exp(k) | ln(n) | ln(x) | sign(x) | pow(k, 2) | power(x, 0.5) | mod(n, 7)
coalesce(n, 0) | coalesce(k, x) | coalesce(s, 'none') | nvl(k, -1) | ifnull(s, '') | nvl2(k, 'yes', 'no') | nullif(k, 2) | if(b, n, 0)
greatest(k, small) | least(n, x) | greatest(s, 'b') | isnull(s) | isnotnull(s) | isnan(x) | coalesce(amount, 0) | coalesce(f, n)
CASE WHEN n > 5 THEN 'big' WHEN n > 0 THEN 'some' END | CASE k WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END | CASE WHEN b THEN 1 ELSE 2.5 END
year(day) | month(at) | day(day) | dayofmonth(at) | quarter(day) | dayofyear(day) | weekofyear(day) | dayofweek(day) | weekday(day)
hour(at) | minute(at) | second(at) | hour(instant) | year(instant) | extract(HOUR FROM at) | extract(YEAR FROM day) | hour(day)
date_trunc('HOUR', at) | date_trunc('day', instant) | date_trunc('month', day) | date_trunc('WEEK', at) | trunc(day, 'MM') | trunc(day, 'year')
date_add(day, 3) | date_sub(day, k) | datediff(day, DATE '2024-01-01') | add_months(day, 1) | last_day(day) | to_date(at) | to_date('2024-05-06')
day + 1 | day - 1 | day - DATE '2024-01-01' | at - TIMESTAMP_NTZ '2024-01-01 00:00:00' | at + INTERVAL '1' HOUR | instant + INTERVAL '1' DAY
at - INTERVAL '90' MINUTE | INTERVAL '1' HOUR * k | at - at | instant - instant
CAST(n AS STRING) | CAST(x AS INT) | CAST(amount AS INT) | CAST(k AS DOUBLE) | CAST(n AS DECIMAL(20, 2)) | CAST(amount AS DECIMAL(8, 1)) | CAST(amount AS DOUBLE)
CAST(at AS DATE) | CAST(day AS TIMESTAMP_NTZ) | CAST(b AS INT) | CAST(k AS BOOLEAN) | CAST('12' AS INT) | CAST('1.5' AS DOUBLE) | CAST(' 7 ' AS BIGINT)
CAST('true' AS BOOLEAN) | CAST('2024-05-06' AS DATE) | CAST(instant AS DATE) | CAST(f AS DOUBLE) | CAST(small AS BIGINT) | CAST(at AS STRING) | CAST(day AS STRING)
CAST(b AS STRING) | CAST(amount AS STRING) | CAST(k AS FLOAT) | n::INT % 5 | CAST(NULL AS BOOLEAN) | CAST(instant AS STRING)
regexp_replace(s, 'n+', 'N') | regexp_extract(s, '([a-z])([a-z]+)', 2) | regexp_extract(s, '([a-z])n') | regexp_extract(s, '[0-9]+', 0)
"""

QUERIES = """
SELECT * FROM t ORDER BY id
SELECT id, K, T.s FROM t AS T WHERE ID > 3 ORDER BY 1 DESC
SELECT DISTINCT k FROM t ORDER BY k
SELECT DISTINCT k, b FROM t ORDER BY k DESC, b NULLS LAST
SELECT id, k FROM t ORDER BY k, id
SELECT id, k FROM t ORDER BY k DESC, id
SELECT id, k FROM t ORDER BY k NULLS LAST, id LIMIT 3
SELECT id, k FROM t ORDER BY k DESC NULLS FIRST, id LIMIT 3 OFFSET 2
SELECT id, s FROM t ORDER BY s, id
SELECT id, x FROM t ORDER BY -x, id
SELECT id, n AS k FROM t ORDER BY k, id
SELECT id + 1 AS next, next * 2 AS twice FROM t ORDER BY twice
SELECT count(*), count(k), count(DISTINCT k), sum(n), sum(x), avg(n), min(s), max(day) FROM t
SELECT count(*) AS n FROM t WHERE FALSE
SELECT sum(n) AS s, avg(x) AS a, min(x) AS m FROM t WHERE id < 0
SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY k
SELECT k, count(*) AS c FROM t GROUP BY 1 HAVING count(*) > 1 ORDER BY c, k
SELECT k * 2 AS kk, sum(n) AS s FROM t GROUP BY kk ORDER BY kk
SELECT k, b, max(n) AS m FROM t GROUP BY ALL ORDER BY k, b
SELECT k, sum(n) + 1 AS s FROM t GROUP BY k HAVING s > 0 ORDER BY s
SELECT k, count(*) FILTER (WHERE b) AS c, count_if(n > 5) AS d FROM t GROUP BY k ORDER BY k
SELECT k, stddev(x) AS d, variance(x) AS v, stddev_pop(n) AS p FROM t GROUP BY k ORDER BY k
SELECT bool_and(b) AS a, bool_or(b) AS o, every(b) AS e, any(b) AS y, some(b) AS s FROM t
SELECT sum(amount) AS s, min(amount) AS l, max(amount) AS m, sum(DISTINCT k) AS d, sum(small) AS q, sum(f) AS f FROM t
SELECT max_by(s, n) AS a, min_by(id, x) AS i, median(n) AS m FROM t
SELECT hour(at) AS h, count(*) AS c FROM t GROUP BY hour(at) ORDER BY h
SELECT lower(s) AS l, sum(CASE WHEN b THEN 1 ELSE 0 END) AS c FROM t GROUP BY lower(s) ORDER BY l
SELECT t.id, u.label FROM t JOIN u ON t.k = u.k ORDER BY id, label
SELECT t.id, u.label FROM t LEFT JOIN u ON t.k = u.k ORDER BY id, label
SELECT t.id, label FROM t RIGHT JOIN u ON t.k = u.k ORDER BY id, label
SELECT t.id, label FROM t FULL OUTER JOIN u ON t.k = u.k ORDER BY id, label
SELECT id FROM t LEFT SEMI JOIN u ON t.k = u.k ORDER BY id
SELECT id FROM t LEFT ANTI JOIN u ON t.k = u.k ORDER BY id
SELECT k, id, label FROM t JOIN u USING (k) ORDER BY id, label
SELECT * FROM u LEFT JOIN (SELECT k, id FROM t) q USING (k) ORDER BY label, id
SELECT k, label, id FROM t FULL JOIN u USING (k) ORDER BY k, label, id
SELECT t.id, a.label, b.label AS other FROM t JOIN u a ON t.k = a.k JOIN u b ON a.k = b.k ORDER BY 1, 2, 3
SELECT count(*) AS c FROM t CROSS JOIN u
SELECT count(*) AS c FROM t, u WHERE t.k = u.k
SELECT id FROM t WHERE k IN (SELECT k FROM u) ORDER BY id
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL) ORDER BY id
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u) ORDER BY id
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND weight > 1) ORDER BY id
SELECT id FROM t WHERE n > (SELECT avg(n) FROM t) ORDER BY id
SELECT id, (SELECT max(weight) FROM u WHERE u.k = t.k) AS w FROM t ORDER BY id
SELECT id, n - (SELECT min(n) FROM t) AS d FROM t ORDER BY id
WITH a AS (SELECT k, count(*) AS c FROM t GROUP BY k), b AS (SELECT * FROM a WHERE c > 2) SELECT * FROM b ORDER BY k
WITH a(p, q) AS (SELECT k, n FROM t) SELECT p, max(q) AS m FROM a GROUP BY p ORDER BY p
WITH t AS (SELECT 1 AS id) SELECT * FROM t
SELECT * FROM (WITH a AS (SELECT 1 AS x) SELECT x + 1 AS y FROM a) q
SELECT k FROM t UNION SELECT k FROM u ORDER BY k
SELECT k FROM t UNION ALL SELECT k FROM u ORDER BY k
SELECT k FROM t EXCEPT SELECT k FROM u ORDER BY k
SELECT k FROM t INTERSECT SELECT k FROM u ORDER BY k
SELECT k, 'a' AS w FROM t UNION ALL SELECT weight, label FROM u ORDER BY k, w
(SELECT id FROM t ORDER BY id LIMIT 2) UNION ALL (SELECT k FROM u WHERE k = 4)
SELECT id, row_number() OVER (PARTITION BY k ORDER BY n, id) AS r FROM t ORDER BY id
SELECT id, rank() OVER (ORDER BY k) AS r, dense_rank() OVER (ORDER BY k) AS d FROM t ORDER BY id
SELECT id, lag(n) OVER (ORDER BY id) AS a, lead(n, 2) OVER (ORDER BY id) AS b FROM t ORDER BY id
SELECT id, sum(n) OVER (PARTITION BY b ORDER BY id) AS s, count(*) OVER (PARTITION BY b) AS c FROM t ORDER BY id
SELECT id, avg(x) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM t ORDER BY id
SELECT id, max(n) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS a FROM t ORDER BY id
SELECT id, first_value(s) OVER (PARTITION BY k ORDER BY id) AS a, last_value(s) OVER (PARTITION BY k ORDER BY id) AS b FROM t ORDER BY id
SELECT id, percent_rank() OVER (ORDER BY n) AS p, cume_dist() OVER (ORDER BY n) AS c FROM t ORDER BY id
SELECT * FROM (SELECT k, n, row_number() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM t) WHERE r = 1 ORDER BY k
SELECT k, sum(sum(n)) OVER (ORDER BY k) AS s FROM t GROUP BY k ORDER BY k
SELECT * FROM VALUES (1, 'a'), (2, NULL), (NULL, 'c') AS v(a, b) ORDER BY a
SELECT a + 1 AS b FROM (VALUES (1), (2)) AS v(a) ORDER BY b
SELECT 1 AS one, 'x' AS x, NULL AS nothing, TRUE AS yes, 1.50 AS d, 2L AS l
SELECT q.id, q.s FROM (SELECT * FROM t WHERE b) AS q WHERE q.n > 5 ORDER BY q.id
SELECT t.*, u.label FROM t JOIN u ON t.k = u.k AND u.weight > 1 ORDER BY id
SELECT id, CASE WHEN x > 1 THEN round(x, 1) ELSE 0 END AS r FROM t ORDER BY id
SELECT `id` AS `my id` FROM t ORDER BY `my id` DESC LIMIT 2
SELECT id -- a comment
FROM t /* another */ WHERE id = 1
SELECT count(*) AS c, sum(id) AS s FROM t WHERE s LIKE '%n%' AND (k = 1 OR k IS NULL)
"""

MATCH = """MATCH_RECOGNIZE (
  PARTITION BY sym ORDER BY t
  MEASURES A.p AS high, LAST(DOWN.p) AS low, COUNT(*) AS n, {measure} AS m
  PATTERN (A DOWN+ UP) DEFINE DOWN AS p < PREV(p), UP AS {test})"""
PLAIN = MATCH.format(measure="LAST(t)", test="p > PREV(p)")
CLAUSES = [
    f"SELECT * FROM ticks {PLAIN}",
    f"SELECT sym, high - low AS drop, n FROM ticks {PLAIN} WHERE n > 3 ORDER BY drop DESC, sym, n LIMIT 5",
    f"SELECT sym, count(*) AS c, avg(high) AS h, sum(n) AS s FROM ticks {PLAIN} GROUP BY sym ORDER BY sym",
    f"SELECT m.sym, m.low FROM ticks {PLAIN} AS m WHERE m.high > 9 ORDER BY m.sym, m.low, m.high",
    f"SELECT a.sym, b.high FROM ticks {PLAIN} a JOIN ticks {PLAIN} b ON a.sym = b.sym AND a.m = b.m ORDER BY 1, 2",
    f"WITH f AS (SELECT * FROM ticks {PLAIN}) SELECT sym, max(high) AS h FROM f GROUP BY sym ORDER BY sym",
    f"SELECT * FROM (SELECT * FROM ticks WHERE v > 2) {PLAIN} ORDER BY sym, m",
    f"WITH q AS (SELECT sym, t, p + 1 AS p FROM ticks) SELECT * FROM q {PLAIN} ORDER BY sym, m",
    f"SELECT u.label, f.high FROM ticks {PLAIN} f JOIN u ON f.n = u.k + 2 ORDER BY 1, 2",
    f"SELECT sym FROM ticks {PLAIN} UNION ALL SELECT label FROM u ORDER BY 1",
    f"""SELECT * FROM (SELECT sym, high, m FROM ticks {PLAIN}) MATCH_RECOGNIZE (ORDER BY m, sym, high MEASURES
    COUNT(*) AS n, LAST(m) AS u PATTERN (X Y+) DEFINE Y AS high >= PREV(high)) ORDER BY u""",
    """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY sym ORDER BY t MEASURES CLASSIFIER() AS c,
    MATCH_NUMBER() AS n, v / 2 AS h ALL ROWS PER MATCH PATTERN (A DOWN+) DEFINE DOWN AS p < PREV(p)) ORDER BY sym, t""",
    """SELECT sym, t, c, p FROM ticks MATCH_RECOGNIZE (PARTITION BY sym ORDER BY t MEASURES CLASSIFIER() AS c,
    p + 1 AS q ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A DOWN{2}) DEFINE DOWN AS p < PREV(p)) ORDER BY sym, t""",
    """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY lower(sym) ORDER BY t MEASURES COUNT(*) AS n, SUM(p) AS s,
    AVG(p) AS a, MIN(v) AS l, array_agg(p) AS ps PATTERN (A+) DEFINE A AS p > 8) ORDER BY n, s, a, l""",
    """SELECT * FROM ticks MATCH_RECOGNIZE (PARTITION BY sym ORDER BY t MEASURES COUNT(*) AS n, FIRST(t) AS f
    PATTERN (A B) WITHIN INTERVAL '5' MINUTE DEFINE B AS p > A.p) ORDER BY f, n""",
]
MEASURES = """
upper(sym) || '!' | round(AVG(v), 2) | hour(LAST(t)) | CAST(LAST(t) AS DATE) | date_trunc('HOUR', FIRST(t))
CASE WHEN COUNT(*) > 3 THEN 'long' ELSE 'short' END | coalesce(MAX(v), 0) | A.p / 4 | A.p - LAST(DOWN.p) | A.p * 1.5
LAST(t) - FIRST(t) | SUM(DOWN.p) / COUNT(*) | substring(sym, 1, 1) | CLASSIFIER() || sym | A.p % 3 | sum(v) + MATCH_NUMBER()
A.v > 3 | nullif(A.p, 10) | concat(sym, '-', COUNT(*)) | LAST(t) + INTERVAL '1' HOUR | floor(A.v / 2) | minute(FIRST(t)) + 1
"""
TESTS = """
p > PREV(p) AND sym RLIKE '[AB]' | p > PREV(p) AND hour(t) >= 0 | upper(sym) = 'A' AND p > PREV(p) | p > A.p - 1.5
p > PREV(p) AND date_trunc('HOUR', t) IS NOT NULL | CAST(t AS DATE) = DATE '2024-02-28' | round(v / 3, 1) > 1.1
CASE WHEN sym = 'A' THEN p > 8 ELSE p > 9 END | coalesce(v, 0) > 4 AND p > PREV(p) | substring(sym, 1, 1) || 'x' = 'Bx'
"""


def _split(text: str) -> list[str]:
    return [
        each.strip().replace("\\\\\\\\", "\\\\")
        for line in text.splitlines()
        for each in line.split(" | ")
        if each.strip()
    ]


def queries() -> list[str]:
    """Return all statements, each a text."""
    found, lines = [], QUERIES.strip().splitlines()
    for line in lines:  # a line that does not begin a statement goes on with the one before
        if line.split()[0].strip("(") in ("SELECT", "WITH"):
            found.append(line)
        else:
            found[-1] += "\n" + line
    measured = [
        f"SELECT sym, m FROM ticks {MATCH.format(measure=each, test='p > PREV(p)')} ORDER BY sym, m"
        for each in _split(MEASURES)
    ]
    tested = [
        f"SELECT sym, high, low, n, m FROM ticks {MATCH.format(measure='LAST(t)', test=each)} ORDER BY sym, m"
        for each in _split(TESTS)
    ]
    return [*found, *CLAUSES, *measured, *tested]


def expressions() -> list[str]:
    """Return all expressions over one row of `t`."""
    return _split(EXPRESSIONS)
