"""DuckDB, with SQL that is tuned by hand for each query: `search.py` runs it in an environment of its own.

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

PEER = "duckdb"
PACKAGES = ("duckdb>=1.1", "pyarrow>=18", "pytz")

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
            options.get("source", "memory"), options.get("threads", 2), options.get("result", "count"),
        ]
    )  # fmt: skip


def found(matches: int) -> tuple[str, int]:
    """Return the number of matches."""
    return "count", matches


def versions() -> dict[str, str]:
    """Return the version of the package."""
    return apart.version(PEER)


def install() -> None:
    """Make the environment, where that has not been done."""
    apart.install(PEER, *PACKAGES, module=PEER)


if __name__ == "__main__":
    install()
