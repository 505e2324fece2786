"""Small Spark jobs side by side: one job leaves the cores idle most of its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

AT_ONCE = 8  # jobs
T = TypeVar("T")
Jobs = dict[int, Future[None]]


@contextmanager
def side_by_side(request: pytest.FixtureRequest, act: Callable[[int], None]) -> Iterator[Jobs]:
    """Start a job for each `number` with which the chosen tests of a module take the fixture `jobs`."""
    mine = [each for each in request.session.items if each.path == request.path and takes_jobs(each)]
    numbers = [each.callspec.params["number"] for each in mine]  # type: ignore[attr-defined]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {number: pool.submit(act, number) for number in numbers}
        pool.shutdown(cancel_futures=True)


def at_once(act: Callable[..., T], *arguments: Iterable[Any]) -> list[T]:
    """Map side by side; the first error is raised."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(act, *arguments))


def takes_jobs(item: pytest.Item) -> bool:
    return "jobs" in getattr(item, "fixturenames", ())
