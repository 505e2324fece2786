"""What goes wrong in a cluster changes no answer, and what is large does not fill the memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from tests.spark.test_lake import RISES, ROLES, ids, stream, write
from tests.tiers import mostly_nightly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("on_a_cluster.py")

IN_LITTLE_MEMORY = """
import resource, sys
import pyarrow as pa
from dataclasses import replace
from cerise.run.find import HERE, decide
from cerise.sources import How, Roles, ask
from cerise.spark.tasks import Records
from cerise.spark.tasks import SliceTask

def run(path):
    query = "PATTERN SEQ(A a, B b) WHERE a.x = 7 AND b.x = 7 WITHIN 50"
    asked = ask(path, query, Roles("t", "kind"), How())
    plan = decide(asked.source, asked.questions, replace(asked.options, threads=1), HERE)
    assert len(plan.slices) == 1
    task = SliceTask(replace(plan, source=None), Records())
    return sum(len(batch) for batch in task([pa.record_batch({"id": [0]})]))

small, large, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
run(small)
held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (held + limit, held + limit))
print(run(large))
"""


@pytest.mark.parametrize("case", mostly_nightly(["killed 1", "killed 2", "slow 2"], ["killed 1"]))
def test_on_executors_whose_workers_die_or_are_doubled(tmp_path: Path, case: str) -> None:
    table = stream(4_000)
    path = write(table, tmp_path / "events", group=100)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), path, *case.split()],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    expected = ids(cerise.find(table, RISES, **ROLES))
    assert found == {"ids": expected, "matches": len(expected), "tasks matching": 4}


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")
def test_a_task_holds_a_window_and_some_row_groups_not_the_table(tmp_path: Path) -> None:
    rows = 6_000_000
    base = pa.table({
        "t": np.arange(1_000_000), "kind": [*"ABCD"] * 250_000, "x": np.arange(1_000_000) % 10,
    })  # fmt: skip
    large = tmp_path / "large.parquet"
    with pq.ParquetWriter(large, base.schema) as writer:
        for start in range(0, rows, 1_000_000):
            times = pa.array(np.arange(start, start + 1_000_000))
            writer.write_table(base.set_column(0, "t", times), row_group_size=100_000)
    small = tmp_path / "small.parquet"
    pq.write_table(base.slice(0, 1_000), small)
    limit = 120 << 20  # the columns alone are 150 MB
    done = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY, str(small), str(large), str(limit)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]


def test_a_job_that_is_cancelled_leaves_nothing(tmp_path: Path, spark: SparkSession) -> None:
    path = write(stream(4_000), tmp_path / "events", group=100)
    before = {each for each in Path(tempfile.gettempdir()).iterdir() if "cerise" in each.name}
    held = set(tmp_path.rglob("*"))
    failed: list[BaseException] = []

    def act() -> None:
        try:
            spark.sparkContext.setJobGroup("cancelled", "a query", interruptOnCancel=True)
            slow = cerise.find(path, RISES.replace("WITHIN 20", "WITHIN 1000"), **ROLES, spark=True)
            for _ in range(100):
                slow.count()
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    while thread.is_alive() and not spark.sparkContext.statusTracker().getActiveStageIds():
        time.sleep(0.05)
    spark.sparkContext.cancelJobGroup("cancelled")
    while thread.is_alive():
        spark.sparkContext.cancelAllJobs()
        thread.join(0.2)
    assert failed
    assert set(tmp_path.rglob("*")) == held
    assert {each for each in Path(tempfile.gettempdir()).iterdir() if "cerise" in each.name} == before
    assert cerise.count(path, RISES, **ROLES, spark=True) > 0  # and the session is as good as before
