"""A fresh process for each measurement: what starts `measure.py`, and what the two say to each other.

Needs nothing but Python, as `measure.py` does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import memory

Sample = tuple[float, int]  # when, and how many bytes a process and its descendants held


class GaveUp(Exception):
    """A subject says why it cannot finish; what comes after it is measured all the same."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its code, None if it took too long; what it said; the memory that was seen."""

    code: int | None
    log: str
    samples: Sequence[Sample]


def run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float, every: float | None
) -> Ended:
    """Run a command until it ends, and whatever it started with it; look at its memory every so often."""
    log = folder / "log"
    with log.open("w") as file:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=folder, env=environment,
            start_new_session=True,
        )  # fmt: skip
        try:
            code, samples = _wait(child, timeout, every)
        finally:
            _end(child, patience=10 if child.poll() == 0 else 0)
    return Ended(code, log.read_text(errors="replace"), samples)


def _wait(
    child: subprocess.Popen[bytes], timeout: float, every: float | None
) -> tuple[int | None, list[Sample]]:
    samples: list[Sample] = []
    until = time.monotonic() + timeout
    while (left := until - time.monotonic()) > 0:
        try:
            return child.wait(left if every is None else min(left, every)), samples
        except subprocess.TimeoutExpired:
            if every is not None:
                samples.append((time.monotonic(), memory.rss_bytes(child.pid)))
    return None, samples


def _end(child: subprocess.Popen[bytes], patience: float) -> None:
    """Wait until the child and all that it started are gone: a dying JVM would disturb what comes next."""
    until = time.monotonic() + patience
    with suppress(ProcessLookupError, PermissionError):  # its group is empty; macOS says it the second way
        while time.monotonic() < until:
            os.killpg(child.pid, 0)
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
