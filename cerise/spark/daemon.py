"""Spark's Python daemon, with Cerise loaded before it forks workers: a task then starts without imports.

`cerise.session()` names this module in `spark.python.daemon.module`; standard output belongs to Spark.
Nothing that starts threads of its own may be imported here: a fork would leave its locks held.
"""

from __future__ import annotations

import gc

import pyarrow.compute  # noqa: F401
from pyspark import (
    daemon,
    worker,  # noqa: F401
)

import cerise.engines.nfa.matcher
import cerise.spark.batch  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # what is loaded stays out of the collector, so that its pages stay shared
    daemon.manager()
