"""The memory of a process and of all that it has started; of this process only, where there is no /proc."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

PROC = Path("/proc")
FORGET = "5"  # see proc(5): /proc/pid/clear_refs


@dataclass(slots=True)
class Watch:
    """The memory of this process and its descendants during some calls: `with watch: call()`.

    Attributes:
        note: a file that says when the first call began, and what was held then: also if we are killed in it.
        before: what was held then.
        peak: the most that was held during a call.
        most: the most that was held at any time.
        spans: when each call began and ended.
    """

    note: Path
    before: int | None = None
    peak: int = 0
    most: int = 0
    spans: list[list[float]] = field(default_factory=list)

    def __enter__(self) -> None:
        release()
        self.most = max(self.most, peak_rss_bytes())
        forget_peaks()
        self.spans.append([monotonic()])
        if self.before is None:
            self.before = rss_bytes(os.getpid())
            self.note.write_text(json.dumps({"before": self.before, "spans": self.spans}))

    def __exit__(self, *_: object) -> None:
        self.spans[-1].append(monotonic())
        self.peak = max(self.peak, peak_rss_bytes())
        self.most = max(self.most, self.peak)

    def told(self) -> dict[str, Any]:
        """Return what was seen."""
        return {"before": self.before, "peak": self.peak, "spans": self.spans}


def peak_rss_bytes() -> int:
    """Return the peak memory of this process, plus that of each process it has started and that still runs.

    Linux keeps the peak of every process: nothing is sampled. For a family such as Spark's the sum is an
    upper bound, as the peaks need not coincide and forked workers share pages.
    """
    if not (PROC / "self/status").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: bytes
    return sum(_told(pid, "VmHWM") for pid in family(os.getpid()))


def rss_bytes(pid: int) -> int:
    """Return what a process and its descendants hold now; 0 where there is no /proc, or they have ended."""
    return sum(_told(each, "VmRSS") for each in family(pid))


def forget_peaks() -> None:
    """Let the peaks of this process and its descendants start again from what they hold now."""
    for pid in family(os.getpid()):
        with contextlib.suppress(OSError):  # it has ended, or there is no /proc
            (PROC / str(pid) / "clear_refs").write_text(FORGET)


def release() -> None:
    """Give back to the system what this process has freed, or it would hide what is asked for next."""
    gc.collect()
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def family(pid: int) -> list[int]:
    """Return a process and its descendants; only the process itself where there is no /proc."""
    parents: dict[int, list[int]] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text().rpartition(")")  # a process may have a bracket in its name
        except OSError:
            continue  # it has ended
        parents.setdefault(int(rest.split()[1]), []).append(int(stat.parent.name))
    family = [pid]
    for member in family:  # grows as it is walked
        family.extend(parents.get(member, ()))
    return family


def _told(pid: int, what: str) -> int:
    try:
        status = (PROC / str(pid) / "status").read_text()
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(lines.get(what, "0 kB").split()[0]) * 1024
