"""Threads that share the work on one table, and the large arrays that they fill.

Kernels, numpy and Arrow run side by side in threads.
"""

from __future__ import annotations

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
from cerise.engines.rows.budget import Watch
from cerise.engines.rows.matches import Ints

X = TypeVar("X")
Y = TypeVar("Y")


@dataclass(frozen=True, slots=True)
class Crew:
    """So many threads; without a pool everything is done where it is asked for.

    Attributes:
        count: how many threads.
        pool: the threads.
        watch: sees how far their searches are.
        limits: how many rows they work on at a time.
    """

    count: int = 1
    pool: ThreadPoolExecutor | None = None
    watch: Watch = field(default_factory=Watch)
    limits: Limits = DEFAULT

    def each(self, function: Callable[[X], Y], items: Iterable[X]) -> list[Y]:
        """Return what a function gives for each of some items, in their order."""
        return list(map(function, items) if self.pool is None else self.pool.map(function, items))

    def shares(self, rows: int) -> list[tuple[int, int]]:
        """Return from where to where the share of each thread in so many rows goes."""
        count = self.count if rows >= self.limits.shared_rows else 1
        return list(pairwise(rows * i // count for i in range(count + 1)))

    def blocks(self, rows: int) -> list[tuple[int, int]]:
        """Return from where to where rows go, a block at a time: a block stays in the cache of a core."""
        size = self.limits.block_rows
        return [(start, min(start + size, rows)) for start in range(0, rows, size)]


ALONE = Crew()


@contextmanager
def crew_of(count: int, watch: Watch | None = None, limits: Limits = DEFAULT) -> Iterator[Crew]:
    """Start threads for a while; where a thread fails, or the user interrupts, all stop."""
    watch = watch or Watch()
    if count == 1:
        yield Crew(watch=watch, limits=limits)
        return
    with ThreadPoolExecutor(count) as pool:
        try:
            yield Crew(count, pool, watch, limits)
        except BaseException:
            watch.stopped = True
            raise


def room(count: int, type_: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """Return an array of so many values that are still to be written.

    It lies in memory that Arrow keeps for the next one: to ask the system for it each time is slow.
    """
    if not count:
        return np.empty(0, type_)
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(type_).itemsize), type_)


def taken(values: npt.NDArray[Any], order: Ints | None, crew: Crew = ALONE) -> npt.NDArray[Any]:
    """Return values in an order; None: as they are."""
    if order is None:
        return values
    out = room(len(order), values.dtype)

    def take(share: tuple[int, int]) -> None:
        np.take(values, order[slice(*share)], out=out[slice(*share)], mode="clip")

    crew.each(take, crew.shares(len(order)))
    return out
