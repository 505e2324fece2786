"""Spark Connect: the same matches as in process. Connect and classic sessions cannot share a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cerise
import cerise.data
from cerise.spark.session import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
    PATTERN SEQ(STOCK a, STOCK+ b[], STOCK c)
    WHERE [symbol] AND b[i].price > b[i-1].price AND b.LEN >= 3 AND c.price < a.price
    WITHIN 40
    RETURN a.price AS was, b.price AS rise, c.price AS price
"""

CLAUSE = """MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts MEASURES A.price AS low, LAST(UP.price) AS high, COUNT(*) AS n
    PATTERN (A UP{3,}) DEFINE UP AS price > PREV(price))"""
STATEMENTS = {
    "all": f"SELECT * FROM trades {CLAUSE}",
    "a list": f"SELECT m.symbol, m.high - m.low AS gain, '{{x}}' AS x FROM trades {CLAUSE} m WHERE m.n > 4",
    "a count": f"SELECT count(*) AS c FROM trades {CLAUSE}",
    "WITH": f"WITH r AS (SELECT * FROM trades {CLAUSE}) SELECT symbol, max(high) AS h FROM r GROUP BY symbol",
    "a join": f"SELECT low, ts FROM trades {CLAUSE} m JOIN trades t ON t.symbol = m.symbol AND price = high",
    "two": f"""SELECT r.low, s.n FROM trades {CLAUSE} r JOIN (SELECT * FROM trades
        MATCH_RECOGNIZE (ORDER BY ts MEASURES B.symbol AS symbol, COUNT(*) AS n PATTERN (B C{{6,}})
        DEFINE C AS price > PREV(price))) s ON r.symbol = s.symbol""",
    "nested": f"""SELECT * FROM (SELECT symbol, high FROM trades {CLAUSE})
        MATCH_RECOGNIZE (ORDER BY high MEASURES X.symbol AS s PATTERN (X Y)
        DEFINE Y AS symbol <> PREV(symbol))""",
}

REMOTE = """
import json, sys, warnings
from pathlib import Path
import pyarrow as pa
from pyspark.sql import SparkSession
import cerise, cerise.data
from cerise.files import delta

query, statements, folder = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])
builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
spark = builder.config("spark.python.daemon.module", "cerise.spark.daemon").getOrCreate()
assert cerise.session() is spark
table = cerise.data.table("stock", 400)
trades = spark.createDataFrame(table.to_pandas())
trades.createOrReplaceTempView("trades")
few = cerise.Options(partitions=2)  # tasks
roles = {"time": "ts", "type": "type", "options": few}
said = {}


def rows(frame):
    return [row.asDict(recursive=True) for row in frame.collect()]


def error(act):
    try:
        act()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None


matches = cerise.find(trades, query, **roles)
assert type(matches).__module__.startswith("pyspark.sql.connect"), type(matches)
assert matches.schema == cerise.schema(trades, query, time="ts", type="type")
said["find"] = rows(matches)
said["run"] = rows(cerise.profile(trades, query, **roles).matches)
said["count"] = cerise.count(trades, query, **roles)
said["counted rows"] = cerise.count(trades, statements["all"], options=few)
said["clause"] = rows(cerise.find(trades, statements["all"], options=few))
said["statements"] = {name: rows(cerise.sql(spark, text, options=few)) for name, text in statements.items()}
views = {each.name for each in spark.catalog.listTables()}
cerise.sql(spark, "CREATE TEMP VIEW rises AS " + statements["all"], options=few)
said["view"] = rows(spark.table("rises"))
said["left behind"] = sorted({each.name for each in spark.catalog.listTables()} - views - {"rises"})
said["misses"] = rows(cerise.explain_misses(trades, query, **roles, limit=500).table)
said["missed rows"] = rows(cerise.explain_misses(spark, statements["all"], limit=500, options=few).table)

store = cerise.Store.create(folder / "store", schema=table.schema, time="ts", type="type")
store.append(trades)
said["store"] = [
    cerise.count(store, query, spark=spark),
    rows(store.find(query, spark=spark)),
    rows(store.find(statements["all"], spark=spark)),
]

wrong = "SELECT symbool FROM trades " + statements["all"].partition("trades ")[2] + " WHERE 1 = 1"
said["wrong name"] = error(lambda: cerise.sql(spark, wrong).collect())
lost = spark.sql("SELECT CAST(NULL AS BIGINT) AS t")
said["in a task"] = error(lambda: cerise.find(lost, "PATTERN a", time="t").collect())
said["in a count"] = error(lambda: cerise.count(lost, "PATTERN a", time="t"))
boom = spark.sql("SELECT 1L AS t, raise_error('boom') AS x")
said["of spark"] = error(lambda: cerise.count(boom, "PATTERN a WHERE a.x IS NULL", time="t"))
tied = spark.sql("SELECT 1L AS t, id AS x FROM range(3)")
strict = cerise.Options(strict=True)
said["tied"] = error(lambda: cerise.find(tied, "PATTERN SEQ(a, b)", time="t", options=strict).toPandas())
stream = spark.readStream.format("rate").load().selectExpr("value AS t")
said["stream"] = error(lambda: cerise.find(stream, "PATTERN a", time="t"))

with_stream = cerise.stream(folder / "store", columns=["ts", "price"], spark=spark)
writer = with_stream.writeStream.foreachBatch(cerise.into(folder / "copy", name="copy"))
writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
writer.start().awaitTermination()
said["stream into"] = sorted(row["ts"] for row in delta.read(folder / "copy").to_pylist())
unnamed = cerise.into(folder / "other")
said["unnamed"] = error(lambda: unnamed(trades, 0))

odd = pa.table({"${x}": [1, 2, 3], "*": ["${x}", "b", "c"], "a.b": [1, 2, 1]})
query = "PATTERN SEQ(a, b) WHERE a.\\"*\\" = '${x}' AND b.\\"a.b\\" > a.\\"a.b\\""
said["odd"] = rows(cerise.find(spark.createDataFrame(odd.to_pandas()), query, time="${x}"))
clause = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY `${x}` MEASURES A.`*` AS `m*`, '${env:HOME}' AS h "
clause += "PATTERN (A B) DEFINE A AS `*` = '${x}')"
said["odd clause"] = rows(cerise.find(spark.createDataFrame(odd.to_pandas()), clause))
said["odd here"] = [cerise.find(odd, query, time="${x}").to_pylist(), cerise.find(odd, clause).to_pylist()]
print(json.dumps(said, default=str))
spark.stop()
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process with a Connect session gives for every verb."""
    if find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    root = str(Path(cerise.__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    java = java_home(os.environ)  # where none is installed, the one that came with pip
    environ = {
        **os.environ,
        **({"JAVA_HOME": str(java)} if java else {}),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
    }
    folder = str(tmp_path_factory.mktemp("connect"))
    command = [sys.executable, "-c", REMOTE, QUERY, json.dumps(STATEMENTS), folder]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# One JVM at a time; it starts, and perhaps compiles kernels, in the first test.
pytestmark = pytest.mark.xdist_group("spark")
TRADES = cerise.data.table("stock", 400)
ROLES: dict[str, Any] = {"time": "ts", "type": "type"}


def test_find_run_and_count(said: dict[str, Any]) -> None:
    found = cerise.find(TRADES, QUERY, **ROLES).to_pylist()
    assert len(found) > 5
    assert in_order(said["find"]) == in_order(said["run"]) == in_order(found)
    assert said["count"] == len(found)


def test_a_clause(said: dict[str, Any]) -> None:
    found = cerise.find(TRADES, STATEMENTS["all"]).to_pylist()
    assert len(found) > 5
    assert in_order(said["clause"]) == in_order(said["view"]) == in_order(found)
    assert said["counted rows"] == len(found)
    assert said["left behind"] == []


def test_statements(said: dict[str, Any], spark: SparkSession) -> None:
    spark.createDataFrame(TRADES.to_pandas()).createOrReplaceTempView("trades")
    for name, text in STATEMENTS.items():
        classic = [row.asDict() for row in cerise.sql(spark, text).collect()]
        assert in_order(said["statements"][name]) == in_order(classic), name
        assert classic, name


def test_misses(said: dict[str, Any]) -> None:
    misses = cerise.explain_misses(TRADES, QUERY, **ROLES, limit=500).table.to_pylist()
    assert len(said["misses"]) == min(500, len(misses)) > 0
    missed = cerise.explain_misses(TRADES, STATEMENTS["all"], limit=500).table.to_pylist()
    assert in_order(said["missed rows"]) == in_order(missed) != []


def test_a_store(said: dict[str, Any]) -> None:
    found = cerise.find(TRADES, QUERY, **ROLES).to_pylist()
    count, matches, clause = said["store"]
    assert count == len(found)
    assert in_order(matches) == in_order(found)
    assert in_order(clause) == in_order(cerise.find(TRADES, STATEMENTS["all"]).to_pylist())


def test_a_stream_into_a_table(said: dict[str, Any]) -> None:
    assert said["stream into"] == sorted(TRADES.column("ts").to_pylist())
    kind, text = said["unnamed"]
    assert kind == "PlanError"
    assert "name='alerts'" in text


def test_errors(said: dict[str, Any]) -> None:
    kind, text = said["wrong name"]
    assert kind == "BindError"
    assert "symbool" in text.splitlines()[0]
    assert text.splitlines()[1] == "  line 1, column 8"
    for where in ("in a task", "in a count"):
        kind, text = said[where]
        assert kind == "DataError"
        assert text.startswith("1 events have no time")
        assert len(text.splitlines()) == 2
    kind, text = said["of spark"]
    assert kind == "PlanError"
    assert text.startswith("Spark could not do it: [USER_RAISED_EXCEPTION] boom")
    kind, text = said["tied"]
    assert kind == "BindError"
    assert text.startswith("2 events share their time")
    kind, text = said["stream"]
    assert kind == "UnsupportedError"
    assert "use cerise.watch" in text


def test_odd_names(said: dict[str, Any]) -> None:
    matches, clause = said["odd here"]
    assert in_order(said["odd"]) == in_order(matches) != []
    assert in_order(said["odd clause"]) == in_order(clause) != []


def in_order(found: list[dict[str, object]]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True, default=str) for each in found)
