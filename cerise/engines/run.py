"""Run a bound query over a table in this process."""

from __future__ import annotations

import logging
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.base import Options
from cerise.engines.choose import choose
from cerise.engines.output import to_result
from cerise.errors import did_you_mean
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.pattern.nodes import negated

log = logging.getLogger(__name__)


def absent_types(bound: Bound, table: pa.Table) -> list[str]:
    """Say which types that the pattern asks for no event has."""
    column = bound.schema.type
    if column is None or bound.source is not None or not len(table):
        return []
    there = sorted({str(value) for value in pc.unique(table.column(column)).to_pylist() if value is not None})
    absent = negated(bound.query.pattern)
    asked = dict.fromkeys(var.type for var in bound.variables if var.type and var.name not in absent)
    return [f"no event has type '{each}': {did_you_mean(each, there)}" for each in asked if each not in there]


def run(bound: Bound, table: pa.Table, options: Options) -> pa.Table:
    """Return the matches of a query, and of the queries that it reads from, over a table of events."""
    if bound.source is not None:
        table = run(bound.source, table, options)
    matcher = choose(bound, options).start(bound, options)
    events = EventBatch.of(table, bound.schema, reads=bound.ties)
    found = to_result(chain(matcher.feed(events), matcher.flush()), bound)
    log.info("%s", matcher.report)
    return found
