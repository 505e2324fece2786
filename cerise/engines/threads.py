"""Threads that share the work on one table: their step counts, their progress, and how they stop.

Kernels, numpy and Arrow release the GIL, so threads run in parallel.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.limits import DEFAULT, Limits
from cerise.errors import PlanError

Ints = npt.NDArray[np.int64]
X = TypeVar("X")
Y = TypeVar("Y")
Progress = Callable[[int, int], None]  # called with how many rows have been searched from, and of how many
TOGETHER = 2  # all searches together may take twice as many steps as one search
PER_ROW_AHEAD = 16  # further steps for each row of the match under way


class Stopped(Exception):
    """Raised in a search that must stop because another search failed or the user interrupted the run."""


@dataclass(slots=True)
class Watch:
    """Tracks the progress of a run's searches; threads share it.

    Attributes:
        total: how many rows there are to search from.
        tell: called with the progress; None: no call.
        done: how many rows have been searched from.
        stopped: whether searches must stop.
    """

    total: int = 0
    tell: Progress | None = None
    done: int = 0
    stopped: bool = False

    def advance(self, rows: int) -> None:
        """Add rows that a search has finished.

        Raises:
            Stopped: searches must stop.
        """
        if self.stopped:
            raise Stopped
        self.done += rows
        if self.tell is not None:
            self.tell(min(self.done, self.total), self.total)


@dataclass(slots=True)
class Steps:
    """Counts the steps of the searches from one row after another, and ends the query if they are too many.

    The allowance grows with the number of rows: linear work never exceeds it, quadratic work does.

    Attributes:
        most: how many steps one search may take.
        watch: tracks the progress of the searches.
        per_row: how many steps each row searched from adds to those that all may take.
        taken: the steps of all searches.
        walked: how many rows have been searched from.
    """

    most: int
    watch: Watch
    per_row: int = DEFAULT.row_steps
    taken: int = 0
    walked: int = 0

    def take(self, steps: int, walked: int, ahead: int = 0) -> None:
        """Count steps.

        Args:
            steps: the steps taken since the last call.
            walked: how many rows have been searched from by now.
            ahead: how many rows the search under way has mapped.

        Raises:
            PlanError: the searches took too many steps.
        """
        self.taken += steps
        before, self.walked = self.walked, walked
        self.watch.advance(walked - before)
        if walked and self.taken > TOGETHER * self.most + self.per_row * walked + PER_ROW_AHEAD * ahead:
            raise PlanError(
                f"the searches from the first {walked:,} rows took {self.taken:,} steps: "
                "most rows start a search through many others",
                hint="add WITHIN, or conditions that end a search early, or AFTER MATCH SKIP PAST LAST ROW; "
                f"or raise Options(max_steps=…), now {self.most:,}",
            )


def too_many_ways(most: int, row: int, where: str) -> PlanError:
    """Return the error for a search for one match that takes too many steps."""
    return PlanError(
        f"the search for one match took more than {most:,} steps, at row {row} of {where}: "
        "the pattern can be matched in too many ways",
        hint="make it less ambiguous, add WITHIN, or raise Options(max_steps=…)",
    )


# ---- threads


@dataclass(frozen=True, slots=True)
class Threads:
    """A number of threads; without a pool the caller's thread does all work.

    Attributes:
        count: how many threads there are.
        pool: the threads.
        watch: tracks the progress of their searches.
        limits: how many rows a thread works on at a time.
    """

    count: int = 1
    pool: ThreadPoolExecutor | None = None
    watch: Watch = field(default_factory=Watch)
    limits: Limits = DEFAULT

    def each(self, function: Callable[[X], Y], items: Iterable[X]) -> list[Y]:
        return list(map(function, items) if self.pool is None else self.pool.map(function, items))

    def shares(self, rows: int) -> list[tuple[int, int]]:
        """Return the first row and the end of each thread's share of the rows."""
        count = self.count if rows >= self.limits.shared_rows else 1
        return list(pairwise(rows * i // count for i in range(count + 1)))

    def blocks(self, rows: int) -> list[tuple[int, int]]:
        """Return the first row and the end of each block of rows; a block fits in the cache of a core."""
        size = self.limits.block_rows
        return [(start, min(start + size, rows)) for start in range(0, rows, size)]


ALONE = Threads()


@contextmanager
def start_threads(count: int, watch: Watch | None = None, limits: Limits = DEFAULT) -> Iterator[Threads]:
    """Start threads for the body of a `with`; if one fails, or the user interrupts, all stop."""
    watch = watch or Watch()
    if count == 1:
        yield Threads(watch=watch, limits=limits)
        return
    with ThreadPoolExecutor(count) as pool:
        try:
            yield Threads(count, pool, watch, limits)
        except BaseException:
            watch.stopped = True
            raise


def room(count: int, type_: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """Return an uninitialised array.

    Its memory comes from Arrow's pool, which reuses it: allocating from the system each time is slow.
    """
    if not count:
        return np.empty(0, type_)
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(type_).itemsize), type_)


def take_values(values: npt.NDArray[Any], order: Ints | None, threads: Threads = ALONE) -> npt.NDArray[Any]:
    """Return values in the given order; None: as they are."""
    if order is None:
        return values
    out = room(len(order), values.dtype)

    def take(share: tuple[int, int]) -> None:
        np.take(values, order[slice(*share)], out=out[slice(*share)], mode="clip")

    threads.each(take, threads.shares(len(order)))
    return out


# ---- a progress bar on a terminal

SOON, EVERY = 1.0, 0.1  # seconds: shorter work shows no bar; the time between two updates


@contextmanager
def draw_progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that updates the bar with the rows done and all rows; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(title)
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    """A progress bar that appears once the work has taken a while; threads may share it."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._next = time.monotonic() + SOON
        self._lock = threading.Lock()
        self._drawn: Any = None

    def __call__(self, done: int, total: int) -> None:
        """Show the progress."""
        if time.monotonic() < self._next:
            return
        with self._lock:
            self._next = time.monotonic() + EVERY
            if self._drawn is None:
                from rich.console import Console
                from rich.progress import Progress

                self._drawn = Progress(console=Console(stderr=True), transient=True)
                self._drawn.start()
                self._task = self._drawn.add_task(self._title, total=total)
            self._drawn.update(self._task, completed=done, total=total)

    def close(self) -> None:
        if self._drawn is not None:
            self._drawn.stop()
