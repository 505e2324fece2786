"""The time that a process and all that it has started were computing."""

from __future__ import annotations

import os
from pathlib import Path

from memory import PROC, family

TICKS = os.sysconf("SC_CLK_TCK")
USED = slice(11, 15)  # see proc(5): utime, stime, and those of children that have ended


def cpu_seconds() -> float | None:
    """Return the CPU time of this process and its descendants so far; None where there is no /proc.

    A process that has ended counts once its parent has waited for it.
    """
    if not (PROC / "self/stat").exists():
        return None
    return sum(_ticks(PROC / str(pid) / "stat") for pid in family(os.getpid())) / TICKS


def _ticks(stat: Path) -> int:
    try:
        _, _, rest = stat.read_text().rpartition(")")
    except OSError:
        return 0
    return sum(map(int, rest.split()[USED]))
