"""Cerise, Complex Event Recognition In Spark Engine: finds sequences of events in tables.

   a query                                      events
   lang/     SASE+ · SQL · Python                files/   Parquet, Delta, CSV, JSON
     │                                             │        data/   generated, to try things out
   pattern/  the IR, bound and normalised        store/   event tables with bitmaps
     │                                             │
   kernels/  predicates and loops, compiled      filters/ which events can matter
     │                                             │
   plan/     which events go where ◄───────────────┤
     └───────────────►  engines/  ◄────────────────┘      where they meet
                           │
                        run/      one plan, one loop, slice by slice
                           │
                        spark/    the same as tasks of Spark
                           │
                        api.py  ►  cli/

The names below are imported when first used, so that `import cerise` costs nothing.
"""

# ruff: noqa: F401  type checkers read the imports below

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cerise.api import (
        Found,
        compressed,
        count,
        explain,
        explain_misses,
        find,
        parse,
        profile,
        schema,
        sql,
    )
    from cerise.engines.base import Options
    from cerise.engines.limits import Limits
    from cerise.engines.nfa.compressed import Compressed
    from cerise.errors import (
        BindError,
        CeriseError,
        CeriseWarning,
        DataError,
        ParseError,
        PlanError,
        StoreError,
        UnsupportedError,
    )
    from cerise.event_store import Store, index
    from cerise.pattern.query import Query
    from cerise.run.report import Report
    from cerise.spark.progress import progress
    from cerise.spark.session import session

__version__ = "0.1.0.dev0"

_HOMES = {
    "BindError": "errors", "CeriseError": "errors", "CeriseWarning": "errors",
    "Compressed": "engines.nfa.compressed", "DataError": "errors", "Found": "api", "Limits": "engines.limits",
    "Options": "engines.base", "ParseError": "errors", "PlanError": "errors", "Query": "pattern.query",
    "Report": "run.report", "Store": "event_store", "StoreError": "errors", "UnsupportedError": "errors",
    "compressed": "api", "count": "api", "explain": "api", "explain_misses": "api", "find": "api",
    "index": "event_store", "parse": "api", "profile": "api", "progress": "spark.progress", "schema": "api",
    "session": "spark.session", "sql": "api",
}  # fmt: skip

__all__ = [*_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cerise' has no attribute '{name}'")
    globals()[name] = value = getattr(import_module(f"cerise.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
