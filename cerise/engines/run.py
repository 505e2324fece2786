"""Run bound queries over a table in this process, on all cores where the stream can be cut by time."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.base import Finding, Options, Report
from cerise.engines.choose import choose
from cerise.engines.output import to_result
from cerise.engines.several import Queries
from cerise.engines.totals import Ledger, Positions
from cerise.errors import did_you_mean
from cerise.events import EventBatch, read_times
from cerise.pattern.bound import Bound
from cerise.pattern.query import negated
from cerise.plan.filters import Sieve, needed
from cerise.plan.overlap import AMPLIFIED, halo, place_of

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


def run(bound: Bound, table: pa.Table, options: Options, report: Report | None = None) -> pa.Table:
    """Return the matches of a query, and of the queries that it reads from, over a table of events.

    Args:
        bound: the query.
        table: the events.
        options: how to run it.
        report: what was counted is added to it.
    """
    if bound.source is not None:
        table = run(bound.source, table, options)
    report = report if report is not None else Report()
    table = _filtered(table.select(list(bound.needs)), bound, options, report)
    events = EventBatch.of(table, bound.schema, reads=bound.ties)
    parts = parts_of(events, bound, options)
    if bound.query.totals is not None:
        return _totals(parts, bound, options, report)
    if len(parts) == 1:
        return to_result(_found(parts[0], bound, options, report), bound)
    with ThreadPoolExecutor(len(parts)) as pool:
        found = pool.map(lambda part: list(_found(part, bound, options, report)), parts)
        return to_result(chain.from_iterable(found), bound)


def _totals(parts: Sequence[EventBatch], bound: Bound, options: Options, report: Report) -> pa.Table:
    """Return the totals of a query; each thread keeps its own, and no matches."""

    def added(part: EventBatch) -> Ledger:
        ledger = Ledger(bound, options.limits)
        for found in _found(part, bound, options, report):
            ledger.add(found)
        return ledger

    with ThreadPoolExecutor(len(parts)) as pool:
        whole, *others = pool.map(added, parts) if len(parts) > 1 else [added(parts[0])]
    for each in others:
        whole.merge(each.partial())
    return whole.result()


def _filtered(table: pa.Table, bound: Bound, options: Options, report: Report) -> pa.Table:
    """Leave out events that fit no variable, where to order and to part all of them would cost more."""
    wanted = needed([bound])
    ordered = bound.schema.order or bound.partition
    if wanted is None or not ordered or len(table) < options.limits.filtered_events:
        return table
    read_times(table, bound.schema)  # an event without a time is an error, needed or not
    filtered = table.filter(pa.array(Sieve(wanted, bound.schema).kept(table)))
    report.events += len(table) - len(filtered)
    return filtered


def run_several(
    bounds: Sequence[Bound], table: pa.Table, options: Options, report: Report | None = None
) -> pa.Table:
    """Return the matches of several queries over the same table, tagged."""
    queries = Queries.of(bounds, options)
    found = [
        queries.tagged(run(bound, table, options, report), number) for number, bound in enumerate(bounds)
    ]
    return pa.concat_tables(found)


def parts_of(events: EventBatch, bound: Bound, options: Options) -> list[EventBatch]:
    """Cut events into parts that threads can match apart; one part where they cannot, or are few."""
    needs = halo([bound])
    count = options.threads or min(os.cpu_count() or 1, len(events) // options.limits.thread_events)
    if count <= 1 or isinstance(needs, str) or len(events) < count:
        return [events]
    times = events.times
    borders = sorted({int(times[len(events) * i // count]) for i in range(1, count)})
    cuts = [0, *(int(each) for each in np.searchsorted(times, borders)), len(events)]
    parts = []
    for start, stop in pairwise(cuts):
        low, high = start, stop
        if start:
            low = place_of(times, int(times[start]) - needs.before)
        if stop < len(events):
            high = max(place_of(times, int(times[stop]) + needs.after), stop + needs.events)
        part = events.slice(low, min(high, len(events)))
        opens = np.zeros(len(part), bool)
        opens[start - low : stop - low] = True
        parts.append(replace(part, opens=opens))
    read = sum(map(len, parts))
    return parts if read <= AMPLIFIED * len(events) or options.threads else [events]


def _found(events: EventBatch, bound: Bound, options: Options, report: Report) -> Iterator[Finding]:
    matcher = choose(bound, options).start(bound, options)
    yield from matcher.feed(Positions(bound)(events))
    yield from matcher.flush()
    log.info("%s", matcher.report)
    report.add(matcher.report)
