"""Run a bound query over a table in this process."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.base import Options
from cerise.engines.choose import choose
from cerise.engines.output import to_table
from cerise.errors import closest
from cerise.events import EventBatch
from cerise.pattern.bound import Bound


def misspelt_types(bound: Bound, table: pa.Table) -> list[str]:
    """Say which types of the pattern no event has, where one that is there is much like it."""
    column = bound.schema.type
    if column is None or bound.source is not None:
        return []
    there = {str(value) for value in pc.unique(table.column(column)).to_pylist() if value is not None}
    asked = dict.fromkeys(var.type for var in bound.variables if var.type is not None)
    close = {each: closest(each, sorted(there)) for each in asked if each not in there}
    return [f"no event has type '{each}': did you mean '{like}'?" for each, like in close.items() if like]


def run(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """Return the matches of a query, and of the queries that it reads from, over a table of events."""
    if bound.source is not None:
        table = run(bound.source, table, options)
    matcher = choose(bound, options).start(bound, options)
    matcher.feed(EventBatch.of(table, bound.schema, reads=bound.ties))
    return to_table(matcher.flush(), bound)
