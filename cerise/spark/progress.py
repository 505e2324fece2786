"""A progress bar while Spark works: how many of its tasks are done, and how many rows they have written."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = 0.2  # seconds


@contextmanager
def progress(spark: SparkSession, title: str = "matching") -> Iterator[None]:
    """Draw a bar while what is inside runs Spark jobs; in terminals and notebooks, nowhere else.

    Spark Connect does not say how far its tasks are, so there is no bar.

    Args:
        spark: the session.
        title: what stands before the bar.
    """
    context = getattr(spark, "_sc", None)
    if context is None or not (sys.stderr.isatty() or _in_notebook()):
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    done = threading.Event()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        watcher = threading.Thread(target=_watch, args=(context, bar, task, title, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _watch(context: Any, bar: Any, task: Any, title: str, done: threading.Event) -> None:
    tracker = context.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    while not done.wait(EVERY):
        tasks, finished = counted(tracker, before)
        if tasks:
            rows = written(context, stages_of(tracker, before))
            said = f"{title}, {rows:,} rows written" if rows else title
            bar.update(task, total=tasks, completed=finished, description=said)


def stages_of(tracker: Any, before: set[int]) -> list[int]:
    """Return the stages of the jobs since `before`."""
    jobs = (tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup()) - before)
    return sorted({stage for info in jobs if info is not None for stage in info.stageIds})


def counted(tracker: Any, before: set[int]) -> tuple[int, int]:
    """Return how many tasks the jobs since `before` have, and how many of these are done."""
    tasks = finished = 0
    for stage in stages_of(tracker, before):
        if (known := tracker.getStageInfo(stage)) is not None:
            tasks += known.numTasks
            finished += known.numCompletedTasks
    return tasks, finished


def written(context: Any, stages: list[int]) -> int:
    """Return how many rows some stages have written to files; tasks that run say so every few seconds."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    store, rows = context._jsc.sc().statusStore(), 0
    for stage in stages:
        try:
            rows += store.lastStageAttempt(stage).outputRecords()
        except Py4JJavaError:  # not begun, or long ago
            continue
    return rows


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython().__class__.__name__ == "ZMQInteractiveShell"
