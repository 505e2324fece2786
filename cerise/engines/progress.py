"""A progress bar on a terminal, while this process matches."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SOON, EVERY = 1.0, 0.1  # seconds: what ends sooner has no bar, and it is drawn so often


@contextmanager
def drawn(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that takes the rows done and the rows in all; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(title)
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    """Draws a bar once the work has taken a while; several threads may tell it how far they are."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._next = time.monotonic() + SOON
        self._lock = threading.Lock()
        self._drawn: Any = None

    def __call__(self, done: int, total: int) -> None:
        """Show how much is done."""
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
        """Take the bar away."""
        if self._drawn is not None:
            self._drawn.stop()
