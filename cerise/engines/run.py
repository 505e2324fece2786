"""Run a bound query over a table in this process."""

from __future__ import annotations

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.choose import choose
from cerise.engines.output import to_table
from cerise.events import EventBatch
from cerise.pattern.bound import Bound


def run(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """Return the matches of a query, and of the queries that it reads from, over a table of events."""
    if bound.source is not None:
        table = run(bound.source, table, options)
    matcher = choose(bound, options).start(bound, options)
    matcher.feed(EventBatch.of(table, bound.schema, reads=bound.ties))
    return to_table(matcher.flush(), bound)
