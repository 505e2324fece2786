"""A progress bar for Spark jobs: how many tasks are done, and how many rows they have written."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = 0.2  # seconds between updates


@contextmanager
def progress(spark: SparkSession, title: str = "matching") -> Iterator[None]:
    """Draw a progress bar while the body runs Spark jobs, in terminals and notebooks only.

    Spark Connect does not report the progress of its tasks, so it has no bar.

    Args:
        spark: the session.
        title: the text before the bar.
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
        tasks, finished = count_tasks(tracker, before)
        if tasks:
            rows = count_rows(context, stages_of(tracker, before))
            description = f"{title}, {rows:,} rows written" if rows else title
            bar.update(task, total=tasks, completed=finished, description=description)


def stages_of(tracker: Any, before: set[int]) -> list[int]:
    """Return the stages of the jobs since `before`."""
    jobs = (tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup()) - before)
    return sorted({stage for info in jobs if info is not None for stage in info.stageIds})


def count_tasks(tracker: Any, before: set[int]) -> tuple[int, int]:
    """Return the number of tasks of the jobs since `before`, and the number of finished tasks."""
    tasks = finished = 0
    for stage in stages_of(tracker, before):
        if (known := tracker.getStageInfo(stage)) is not None:
            tasks += known.numTasks
            finished += known.numCompletedTasks
    return tasks, finished


def count_rows(context: Any, stages: list[int]) -> int:
    """Return the number of rows that stages have written to files; running tasks report every few seconds."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    store, rows = context._jsc.sc().statusStore(), 0
    for stage in stages:
        try:
            rows += store.lastStageAttempt(stage).outputRecords()
        except Py4JJavaError:  # the stage has not begun, or is forgotten
            continue
    return rows


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython().__class__.__name__ == "ZMQInteractiveShell"
