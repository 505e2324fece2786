"""Spark's Python daemon, with Cerise loaded before it forks workers: a task then starts without imports.

`cerise.session()` names this module in `spark.python.daemon.module`; standard output belongs to Spark.
Nothing that starts threads of its own may be imported here: a fork would leave its locks held.
"""

from __future__ import annotations

import ctypes
import gc
import sys

import pyarrow.compute  # noqa: F401
from pyspark import (
    daemon,
    worker,  # noqa: F401
)

import cerise.engines.nfa.matcher
import cerise.spark.runner  # noqa: F401

TRIM, MMAP = -1, -3  # the settings of glibc's malloc
KEPT = 128 << 20  # bytes


def keep_memory() -> None:
    """Let memory that is freed stay with the process: to get it anew for every row group costs a fifth."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(TRIM, KEPT)
        libc.mallopt(MMAP, KEPT)


if __name__ == "__main__":
    keep_memory()
    gc.freeze()  # what is loaded stays out of the collector, so that its pages stay shared
    daemon.manager()
