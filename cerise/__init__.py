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
                        streaming/  the same on a stream, batch by batch
                           │
                        spark/    both as tasks of Spark
                           │
                        local_sql/  SQL around clauses, here, by DuckDB
                           │
                        api.py  ►  cli/

Each name below is imported at its first use, so `import cerise` is fast.
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for true; to import typing would take most of the time

if TYPE_CHECKING:
    from cerise.api import Found as Found
    from cerise.api import compressed as compressed
    from cerise.api import count as count
    from cerise.api import exists as exists
    from cerise.api import explain as explain
    from cerise.api import explain_misses as explain_misses
    from cerise.api import find as find
    from cerise.api import parse as parse
    from cerise.api import profile as profile
    from cerise.api import schema as schema
    from cerise.engines.base import Options as Options
    from cerise.engines.limits import Limits as Limits
    from cerise.engines.nfa.compressed import Compressed as Compressed
    from cerise.errors import BindError as BindError
    from cerise.errors import CeriseError as CeriseError
    from cerise.errors import CeriseWarning as CeriseWarning
    from cerise.errors import DataError as DataError
    from cerise.errors import ParseError as ParseError
    from cerise.errors import PlanError as PlanError
    from cerise.errors import StoreError as StoreError
    from cerise.errors import UnsupportedError as UnsupportedError
    from cerise.event_store import Store as Store
    from cerise.event_store import index as index
    from cerise.local_sql.sql_verb import sql as sql
    from cerise.pattern.query import Query as Query
    from cerise.plan.multi.plan_search import PlanSearch as PlanSearch
    from cerise.run.report import Report as Report
    from cerise.spark.lake_stream import stream as stream
    from cerise.spark.progress import progress as progress
    from cerise.spark.session import session as session
    from cerise.spark.sinks import into as into
    from cerise.streaming.limits.state_limits import StateLimits as StateLimits
    from cerise.streams import watch as watch
    from cerise.streams import watched as watched
    from cerise.watcher import Watcher as Watcher

__version__ = "0.1.0"

_HOMES = {
    "BindError": "errors", "CeriseError": "errors", "CeriseWarning": "errors",
    "Compressed": "engines.nfa.compressed", "DataError": "errors", "Found": "api", "Limits": "engines.limits",
    "Options": "engines.base", "ParseError": "errors", "PlanError": "errors", "Query": "pattern.query",
    "Report": "run.report", "Store": "event_store", "StoreError": "errors", "UnsupportedError": "errors",
    "compressed": "api", "count": "api", "exists": "api", "explain": "api", "explain_misses": "api",
    "find": "api", "index": "event_store", "into": "spark.sinks", "parse": "api", "profile": "api",
    "progress": "spark.progress", "schema": "api", "session": "spark.session", "sql": "local_sql.sql_verb",
    "watch": "streams", "watched": "streams", "Watcher": "watcher",
    "stream": "spark.lake_stream", "PlanSearch": "plan.multi.plan_search",
    "StateLimits": "streaming.limits.state_limits",
}  # fmt: skip

__all__ = [*_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'cerise' has no attribute '{name}'")
    globals()[name] = value = getattr(import_module(f"cerise.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
