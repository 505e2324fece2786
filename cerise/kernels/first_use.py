"""The first use on a machine compiles kernels: who waits at a terminal is told so, with progress."""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Show = Callable[[str], None]  # shows a line in the place of the line before


class FirstUse:
    """Counts the kernels that this process compiles, and shows one line about them on a terminal."""

    def __init__(self) -> None:
        self.compiled = 0
        self._before = 0  # kernels compiled before the line began
        self._since = 0.0
        self._show: Show | None = None
        self._open = False  # whether a line of ours on the terminal has no end yet

    def compiling(self) -> None:
        """Count a kernel that the cache lacks; numba compiles it next."""
        if self.compiled == self._before:
            self._since = time.monotonic()
        self.compiled += 1
        count, seconds = self.compiled - self._before, time.monotonic() - self._since
        text = f"compiling engines, once on this machine: {_kernels(count)}, {seconds:.0f} s"
        if self._show is not None:
            self._show(text)
        elif sys.stderr.isatty():
            if not self._open:
                atexit.register(self.end)
            self._open = True
            sys.stderr.write(f"\r{text} …\x1b[K")
            sys.stderr.flush()

    def end(self) -> None:
        """End the line on the terminal, if there is one; the next kernel begins another."""
        if self._open:
            count, seconds = self.compiled - self._before, time.monotonic() - self._since
            sys.stderr.write(f"\rcompiled {_kernels(count)} in {seconds:.0f} s, once on this machine\x1b[K\n")
        self._open, self._before = False, self.compiled

    @contextmanager
    def shown_by(self, show: Show) -> Iterator[None]:
        """Let a spinner or progress bar that is on the terminal already show the line."""
        before, self._show = self._show, show
        try:
            yield
        finally:
            self._show, self._before = before, self.compiled


def _kernels(count: int) -> str:
    return "1 kernel" if count == 1 else f"{count} kernels"


FIRST_USE = FirstUse()
