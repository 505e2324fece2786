"""Polars, with lazy queries that are tuned by hand: `search.py` runs it in an environment of its own.

`python adapter.py` makes the environment, as does a run whose subject has `install = true`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1]))

import apart  # noqa: E402  it lies beside measure.py

PEER = "polars"
PACKAGES = ("polars>=1.20", "pyarrow>=18")

timed = True


def why_not(work: dict[str, Any]) -> str | None:
    """Say that it is not installed."""
    return apart.why_not(PEER, work, module=PEER)


def prepare(work: dict[str, Any]) -> Callable[[], tuple[float, float | None, int]]:
    """Start a process that has the events, in memory or in the file, and return what asks it once more."""
    install()
    options = work["options"]
    return apart.ask(
        [
            apart.python_of(PEER), HERE / "search.py", work["query"]["name"], work["path"],
            options.get("source", "memory"),
        ],
        POLARS_MAX_THREADS=str(options.get("threads", 2)),
    )  # fmt: skip


def found(matches: int | dict[str, int]) -> tuple[str, int] | None:
    """Return the number of matches; None of a subject that only reads."""
    return None if isinstance(matches, dict) else ("count", matches)


def counted(matches: int | dict[str, int]) -> dict[str, int] | None:
    """Return how many rows a subject that only reads has read."""
    return matches if isinstance(matches, dict) else None


def versions() -> dict[str, str]:
    """Return the version of the package."""
    return apart.version(PEER)


def install() -> None:
    """Make the environment, where that has not been done."""
    apart.install(PEER, *PACKAGES, module=PEER)


if __name__ == "__main__":
    install()
