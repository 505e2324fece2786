"""Streams on Spark Connect and on executors whose tasks go wrong: the answer of batch (M7, M11)."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from cerise.spark.session import java_home
from tests.spark.test_stream_kills import Scene
from tests.tiers import mostly_nightly

pytestmark = pytest.mark.xdist_group("spark")  # one JVM at a time
ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("stream_elsewhere.py")
STREAMS = ["spark-parquet", "files-parquet"]
CLUSTER = "local-cluster[2,1,1024]"
CASES = ["local[2,3] failed", f"{CLUSTER} well", f"{CLUSTER} killed", f"{CLUSTER} slow", "connect well"]


@pytest.mark.parametrize("case", mostly_nightly(CASES, [CASES[0], CASES[-1]]))
def test_streams_elsewhere(tmp_path: Path, case: str) -> None:
    master, how = case.split()
    if master == "connect" and find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio: pip install 'pyspark[connect]'")
    scene = Scene(tmp_path / "scene", seed=3)
    environ = os.environ | {
        "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java_home(os.environ)),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, SCRIPT, scene.folder, master, how, *STREAMS],
        capture_output=True, text=True, env=environ, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    for stream in STREAMS:
        scene.check(stream)
