"""Where a figure was measured: the machine, its load, and the state of the code."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

MEASURED = ("cerise", "pyproject.toml")  # what a figure depends on; other files may be in the works


def machine() -> dict[str, Any]:
    """Return the processor, the cores that this process may use, and the memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.system(),
    }


def load() -> float:
    """Return how many processes have been running or waiting, over the last minute."""
    return round(os.getloadavg()[0], 2)


def commit(root: Path) -> str:
    """Return the commit of the code, with + where the library differs from it; "unknown" outside git."""
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", *MEASURED)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+" if changed else head


def _git(root: Path, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
