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
                        spark/    DataFrames, in tasks
                           │
                        api.py  ►  cli/

The names below are imported when first used, so that `import cerise` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cerise.api import compressed, count, explain, find, parse, run, schema, show, sql
    from cerise.engines.base import Options
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
    from cerise.indexed import Store, index
    from cerise.lang.builder import all_of, any_of, i, many, maybe, no, param, seq, var
    from cerise.misses import explain_misses
    from cerise.pattern.query import Query
    from cerise.spark.progress import progress
    from cerise.spark.session import session

__version__ = "0.1.0.dev0"

_HOMES = {
    "cerise.api": (
        "compressed", "count", "explain", "find", "parse", "run", "schema", "show", "sql",
    ),
    "cerise.engines.base": ("Options",),
    "cerise.errors": (
        "BindError", "CeriseError", "CeriseWarning", "DataError", "ParseError", "PlanError", "StoreError",
        "UnsupportedError",
    ),
    "cerise.indexed": ("Store", "index"),
    "cerise.lang.builder": ("all_of", "any_of", "i", "many", "maybe", "no", "param", "seq", "var"),
    "cerise.misses": ("explain_misses",),
    "cerise.pattern.query": ("Query",),
    "cerise.spark.progress": ("progress",),
    "cerise.spark.session": ("session",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BindError", "CeriseError", "CeriseWarning", "DataError", "Options", "ParseError", "PlanError",
    "Query", "Store", "StoreError", "UnsupportedError", "all_of", "any_of", "compressed", "count",
    "explain", "explain_misses", "find", "i", "index", "many", "maybe", "no", "param", "parse",
    "progress", "run", "schema", "seq", "session", "show", "sql", "var",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'cerise' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
