"""Spark's Python daemon, which imports Cerise before it forks workers: a task then starts without imports.

`cerise.session()` names this module in `spark.python.daemon.module`; standard output belongs to Spark.
Import no module that starts threads of its own here: a fork would leave its locks held.
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
KEPT = 128 << 20  # bytes of freed memory that stay with the process


def keep_memory() -> None:
    """Keep freed memory in the process: to ask for it again for every row group costs a fifth of the time."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(TRIM, KEPT)
        libc.mallopt(MMAP, KEPT)


if __name__ == "__main__":
    keep_memory()
    gc.freeze()  # the collector leaves loaded modules alone, so that workers keep sharing their pages
    daemon.manager()
