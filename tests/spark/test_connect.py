"""Spark Connect: the same matches as in process. Connect and classic sessions cannot share a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import cerise
import cerise.data
from cerise.spark.session import java_home

QUERY = """
    PATTERN SEQ(STOCK a, STOCK+ b[], STOCK c)
    WHERE [symbol] AND b[i].price > b[i-1].price AND b.LEN >= 3 AND c.price < a.price
    WITHIN 40
    RETURN a.price AS was, b.price AS rise, c.price AS price
"""

REMOTE = """
import json, sys
from pyspark.sql import SparkSession
import cerise, cerise.data

query = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert cerise.session() is spark
trades = spark.createDataFrame(cerise.data.table("stock", 400).to_pandas())
matches = cerise.find(trades, query, time="ts", type="type")
assert type(matches).__module__.startswith("pyspark.sql.connect"), type(matches)
assert matches.schema == cerise.schema(query, trades, time="ts", type="type")
print(json.dumps([row.asDict(recursive=True) for row in matches.collect()]))
spark.stop()
"""


@pytest.mark.skipif(
    find_spec("grpc") is None, reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'"
)
@pytest.mark.xdist_group("spark")  # one JVM at a time
def test_connect_finds_the_same_matches():
    found = cerise.find(cerise.data.table("stock", 400), QUERY, time="ts", type="type").to_pylist()
    root = str(Path(cerise.__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    java = java_home(os.environ)  # where none is installed, the one that came with pip
    environ = {
        **os.environ,
        **({"JAVA_HOME": str(java)} if java else {}),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
    }
    command = [sys.executable, "-c", REMOTE, QUERY]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    remote = json.loads(done.stdout.splitlines()[-1])
    assert len(found) > 5
    assert by_id(remote) == by_id(found)


def by_id(matches: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(matches, key=lambda match: str(match["match_id"]))
