"""Queries over a view of an event table in this process: on all cores where the stream can be cut by time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa

from cerise.engines.base import Finding, Matches, Options, Report
from cerise.engines.choose import choose
from cerise.engines.output import to_result
from cerise.engines.rows.prepare import needed_columns
from cerise.engines.rows.run import run_rows
from cerise.engines.totals import Ledger, Positions
from cerise.events import EventBatch, Schema
from cerise.filters.finder import Finder, Seen
from cerise.filters.row_index_query import asked_rows
from cerise.filters.two_phase import Filtering
from cerise.filters.ways import Wants, Way, way_for, way_of
from cerise.pattern.bound import Bound
from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import BoundRows
from cerise.plan.overlap import Halo, Slice, halo, slices
from cerise.store.view import View

T = TypeVar("T")
WORTH_A_THREAD = 1_000_000  # events


@dataclass(slots=True)
class StoreReport:
    """What a query over an event table did.

    Attributes:
        way: how it got at its events.
        events: how many there are.
        seen: what was filtered and read, by each thread.
        engine: what the engines counted.
        touched: what of the index was touched.
        seconds: how long it took.
    """

    way: Way
    events: int
    seen: list[Seen] = field(default_factory=list)
    engine: Report = field(default_factory=Report)
    touched: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def figures(self) -> dict[str, float]:
        """All figures by name; the seconds of steps are summed over threads."""
        filtering = sum(each.filtering for each in self.seen)
        reading = sum(each.reading for each in self.seen)
        return {
            "events": self.events,
            **self.touched,
            "events kept": sum(each.kept for each in self.seen),
            "matches": self.engine.matches,
            "values that could not be computed": self.engine.uncomputable,
            "seconds filtering": round(filtering, 6),
            "seconds reading": round(reading, 6),
            "seconds matching": round(max(self.seconds - filtering - reading, 0.0), 6),
            "seconds": round(self.seconds, 6),
        }

    def __str__(self) -> str:
        lines = [f"{name:<34}{value:>16,}" for name, value in self.figures.items()]
        for each in self.seen:
            if each.trace.order:
                found = zip(each.trace.order, each.trace.intervals, strict=True)
                steps = [f"{name} {count:,} in {left:,}" for (name, count), left in list(found)[:20]]
                lines.append(f"variables, events, intervals left  {', '.join(steps)}")
        return "\n".join([f"way: {self.way.why}", *lines])


def run_view(
    view: View, bound: Bound, options: Options, filtering: Filtering | None = None
) -> tuple[pa.Table, StoreReport]:
    """Return the matches of a query in an event table, and what was done."""
    begun, before = time.perf_counter(), _counts(view)
    way, wants = way_of(view, [bound], filtering), Wants.of([bound])
    report = StoreReport(way, view.rows)
    parts, needs = _parts(view, way, bound, options)

    def found(part: Slice | None) -> Iterator[Finding]:
        finder = Finder(view, way, wants)
        report.seen.append(finder.seen)
        yield from _matched(finder, bound, options, report, finder.events(part, needs))

    result = _totals(parts, bound, found) if bound.query.totals is not None else _all(parts, bound, found)
    report.touched = _touched(view, before)
    report.seconds = time.perf_counter() - begun
    return result, report


def _touched(view: View, before: dict[str, int]) -> dict[str, int]:
    """Return what one query has touched of an index that others use too."""
    return {name: count - before.get(name, 0) for name, count in _counts(view).items()}


def _counts(view: View) -> dict[str, int]:
    """Return what was touched of the index so far; nothing, where it was not opened."""
    if "index" not in view.__dict__:
        return {}
    counts = view.index.counts
    return {
        "clusters considered": counts.considered,
        "clusters left out by the synopsis": counts.pruned,
        "clusters read": counts.read,
        "bytes of the index read": counts.bytes,
    }


def _matched(
    finder: Finder, bound: Bound, options: Options, report: StoreReport, events: Iterator[EventBatch]
) -> Iterator[Finding]:
    matcher = choose(bound, options).start(bound, options)
    positions = Positions(bound)
    for batch in events:
        for each in matcher.feed(positions(batch)):
            yield _completed(each, finder, bound)
    for each in matcher.flush():
        yield _completed(each, finder, bound)
    report.engine.add(matcher.report)


def _completed(found: Finding, finder: Finder, bound: Bound) -> Finding:
    if bound.query.totals is not None or not isinstance(found, Matches) or not found.count:
        return found
    return Matches(finder.complete(found.events), found.rows, found.counted)


def _all(
    parts: Sequence[Slice | None], bound: Bound, found: Callable[[Slice | None], Iterator[Finding]]
) -> pa.Table:
    return pa.concat_tables(_each(parts, lambda part: to_result(found(part), bound)))


def _totals(
    parts: Sequence[Slice | None], bound: Bound, found: Callable[[Slice | None], Iterator[Finding]]
) -> pa.Table:
    def added(part: Slice | None) -> Ledger:
        ledger = Ledger(bound)
        for each in found(part):
            ledger.add(each)
        return ledger

    whole, *others = _each(parts, added)
    for each in others:
        whole.merge(each.partial())
    return whole.result()


def _each(parts: Sequence[Slice | None], action: Callable[[Slice | None], T]) -> list[T]:
    """Do something with each part, in threads of their own."""
    if len(parts) == 1:
        return [action(parts[0])]
    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(action, parts))


def _parts(view: View, way: Way, bound: Bound, options: Options) -> tuple[Sequence[Slice | None], Halo]:
    """Cut the table into stretches that threads match apart; one, where it cannot be cut, or is small."""
    count = options.threads or min(os.cpu_count() or 1, view.rows // WORTH_A_THREAD)
    if count <= 1 or not (way.large or options.threads):
        return [None], Halo()
    found = parts_of(view, [bound], count)
    return ([None], Halo()) if isinstance(found, str) or len(found[0]) == 1 else found


def parts_of(view: View, bounds: Sequence[Bound], most: int) -> tuple[list[Slice], Halo] | str:
    """Cut a table into stretches of time that can be matched apart, or say why it cannot be cut."""
    needs = halo(bounds)
    if isinstance(needs, str):
        return needs
    if needs.events:
        return "the window counts events"
    return slices(view.spans(), needs, most), needs


# ---- MATCH_RECOGNIZE


def run_rows_view(
    view: View, bound: BoundRows, schema: Schema, options: Options, filtering: Filtering | None = None
) -> tuple[pa.Table, StoreReport]:
    """Return the result of a MATCH_RECOGNIZE clause over an event table, and what was done."""
    begun, before = time.perf_counter(), _counts(view)
    way = way_for(view, asked_rows(bound, schema, view.known), filtering or Filtering())
    schema = replace(schema, order=())  # ORDER BY says all; what it leaves open arrival decides (M2)
    finder = Finder(view, way, Wants(schema, rows_read(bound, schema)))
    report = StoreReport(way, view.rows, [finder.seen])
    table = finder.arrived() if way.query is None else gathered(finder)
    result = run_rows(bound, table, options, report.engine)
    report.touched, report.seconds = _touched(view, before), time.perf_counter() - begun
    return result, report


def rows_read(bound: BoundRows, schema: Schema) -> tuple[str, ...]:
    """Return the columns that a clause needs, the time among them."""
    used = {*needed_columns(bound), schema.time}
    used |= {
        attr.path[0] for each in bound.derived if each.expr is not None for attr in attributes(each.expr)
    }
    return tuple(name for name in schema.columns.names if name in used)


def gathered(finder: Finder) -> pa.Table:
    """Return the events that are kept as one table, in stream order."""
    tables = [finder.complete(events).table for events in finder.events()]
    if tables:
        return pa.concat_tables(tables)
    fields = [finder.wants.schema.columns.field(name) for name in finder.wants.all]
    return pa.schema(fields).empty_table()
