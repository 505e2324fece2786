"""Batches of a stream in a table: writers are killed at each of their steps, and try again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cerise.files import delta
from cerise.store.table.event_table import EventTable
from tests.support.faults.event_tables import litter

ROOT = Path(__file__).parents[3]
WRITER = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
from cerise.store.table import failpoints
from cerise.store.table.batch_table import BatchTable
from cerise.store.table.commits import StreamBatch
from cerise.store.table.data_file import AppendPart
from tests.store.table.killing import warm_up
from tests.support.faults.event_tables import SCHEMA, create, events

BATCHES, ROWS = 2, 5


def write(root, number):
    table = BatchTable.open(root, None, SCHEMA)
    batch = StreamBatch("a", number)
    if table.holds(batch):
        table.tidy_up(batch)
        return
    begun = table.begin(batch)
    times = range(number * ROWS, number * ROWS + ROWS)
    parts = [
        table.write(events(times[:2], times[0]), AppendPart(begun.append, 0, 0, 1)),
        table.write(events(times[2:], times[2]), AppendPart(begun.append, 100, 1 << 40, 2)),
    ]
    if table.commit(parts, batch, begun):
        table.seal_if_due()


def all_batches(root, step):
    # The kills are counted over all batches; a batch is tried again after each.
    passed = 0

    def count(name):
        nonlocal passed
        passed += 1
        if passed > step:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.hook = count if step >= 0 else None
    for number in range(BATCHES):
        write(root, number)


def forked(work):
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


warm_up()
folder, kind = Path(sys.argv[1]), sys.argv[2]
for step in range(400):
    root = folder / f"{step:03}"
    root.parent.mkdir(exist_ok=True)
    if kind == "store":
        assert forked(lambda: create(root)) == 0
    status = forked(lambda: all_batches(str(root), step))
    assert status in (0, -signal.SIGKILL), status
    again = forked(lambda: all_batches(str(root), 3))  # killed once more, soon
    assert again in (0, -signal.SIGKILL), again
    assert forked(lambda: all_batches(str(root), -1)) == 0
    if status == 0:
        print(step)
        break
"""


@pytest.mark.parametrize("kind", ["table", "store"])
def test_a_writer_killed_at_any_step_leaves_every_batch_once(tmp_path: Path, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(tmp_path / "tables"), kind],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    assert int(done.stdout) > 12
    for path in sorted((tmp_path / "tables").iterdir()):
        held = delta.version_of(path)
        assert sorted(row["id"] for row in delta.read(path).to_pylist()) == list(range(10)), path
        if kind == "table":
            assert {each.name for each in path.glob("*.parquet")} == {each.path for each in held.files}, path
        else:
            store = EventTable.open(path)
            assert store.verify() == [], path
            store.compact()
            store.vacuum(0)
            assert litter(store) == [], path
