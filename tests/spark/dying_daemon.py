"""Spark's Python daemon for tests: its workers end their whole session of processes at a step of a stream.

The variable KILL_AT holds the step, the number of the batch and the checkpoint of the stream, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark import TaskContext, daemon

import cerise.spark.stream_tasks  # noqa: F401
from cerise.spark.state_homes import BATCH, QUERY
from cerise.store.table import failpoints

VARIABLE = "KILL_AT"
at_hand = threading.local()  # the checkpoint and the batch that a thread of the driver writes


def end_session(session: int) -> None:
    """Kill all processes of a session: a driver, its JVM and its workers; the caller last, if it is one."""
    found = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    for process in sorted(found, key=lambda each: each == os.getpid()):
        try:
            if os.getsid(process) == session:
                os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def hook_at(text: str) -> Callable[[str], None]:
    """Return a hook for failpoints that ends everything at one step of one batch of one stream."""
    step, batch, checkpoint = json.loads(text)

    def end_at(passed: str) -> None:
        if passed == step and _find_place(checkpoint) == batch:
            end_session(os.getsid(0))

    return end_at


def _find_place(checkpoint: str) -> int | None:
    """Return the batch of a stream that this process works on; None: it works on something else."""
    context = TaskContext.get()
    if context is None:
        return at_hand.batch if getattr(at_hand, "checkpoint", None) == checkpoint else None
    metadata = Path(checkpoint, "metadata")
    query = json.loads(metadata.read_text())["id"] if metadata.exists() else None
    mine = query is not None and context.getLocalProperty(QUERY) == query
    return int(context.getLocalProperty(BATCH) or -1) if mine else None


if __name__ == "__main__":
    from cerise.spark.daemon import keep_memory

    keep_memory()
    if VARIABLE in os.environ:
        failpoints.hook = hook_at(os.environ[VARIABLE])
    daemon.manager()
