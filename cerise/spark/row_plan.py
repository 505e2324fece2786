"""Decides how the rows of a MATCH_RECOGNIZE clause come to Spark's tasks: by partition, or by time (D3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.results.row_matches import Ints
from cerise.engines.rows.prepare import derived, prepare
from cerise.engines.rows.run import halo_of
from cerise.engines.rows.skipping import Skipper, why_not_skipping
from cerise.engines.rows.slices import Stretch, stretch_of, times_of
from cerise.files.lake import Group, Lake
from cerise.files.reader import Reading
from cerise.files.scan import ROW, Scan
from cerise.pattern.row_pattern import BoundRows
from cerise.plan.overlap import MAX_TIME, MIN_TIME, SHARE, Halo, Slice, Targets, slices
from cerise.plan.row_slices import is_chained
from cerise.spark.planner import MOST_TASKS, SLICES_PER_TASK

TASKS_PER_CORE = 2
ONE = Targets(1, None, Halo())


@dataclass(frozen=True, slots=True)
class RowExchange:
    """Rows are brought together: where to, and why so."""

    targets: Targets
    why: str

    def __str__(self) -> str:
        if self.targets.count == 1:
            return f"one task searches all rows: {self.why}"
        stretches = f", in stretches of {self.targets.length:,} units of time" if self.targets.length else ""
        return f"{self.why}, {self.targets.count} tasks{stretches}"


@dataclass(frozen=True, slots=True)
class RowSlices:
    """Slices of files: a description, to be sent to where they are searched.

    Attributes:
        bound: the clause.
        options: how it is run.
        reading: how rows are read.
        slices: the slices, with the row groups that each reads.
        needs: what a slice needs beyond its own rows.
    """

    bound: BoundRows
    options: Options
    reading: Reading
    slices: tuple[tuple[Slice, tuple[Group, ...]], ...]
    needs: Halo

    def read(self, number: int, told: Callable[[Ints], None] | None = None) -> tuple[pa.Table, Stretch]:
        """Read the rows that a slice needs, in order; return also which of them are its own.

        Args:
            number: of the slice.
            told: is told which of its own rows only hashes order (S1.2).
        """
        part, groups = self.slices[number]
        in_arrival = sorted(groups, key=lambda each: each.place)
        skipper = Skipper(self.bound) if why_not_skipping(self.bound) is None else None
        tables = [self._needed(table, part, skipper) for table in Scan(self.reading, in_arrival).rows()]
        if not tables:
            fields = [self.reading.columns.field(name) for name in self.reading.reads]
            tables = [pa.schema(fields).empty_table()]
        undecided: list[Ints] = []
        table = prepare(self.bound, pa.concat_tables(tables).unify_dictionaries(), undecided.append)
        if told is not None and len(undecided[0]):
            times = times_of(self.bound, table)[undecided[0]]
            own = (times >= part.start) & ((times < part.stop) | (part.stop == MAX_TIME))
            told(undecided[0][own])
        return stretch_of(self.bound, table, part, self.needs)

    def _needed(self, table: pa.Table, part: Slice, skipper: Skipper | None) -> pa.Table:
        """Leave out rows that are skipped over, and those too early or too late for a slice."""
        table = table.drop_columns([ROW])
        if skipper is not None:
            table = table.filter(pa.array(skipper.kept(derived(self.bound, table))))
        times = times_of(self.bound, table)
        kept = np.ones(len(table), np.bool_)
        if part.start != MIN_TIME and not self.needs.preceding:
            kept &= times >= part.start
        if part.stop + self.needs.after < MAX_TIME and not self.needs.events:
            kept &= times < part.stop + self.needs.after
        return table if kept.all() else table.filter(pa.array(kept))

    def __str__(self) -> str:
        read = sum(group.span.rows for _, groups in self.slices for group in groups)
        order = "; one more puts their matches in order" if is_chained(self.bound) else ""
        return (
            f"{len(self.slices)} slices of time, one task each{order}; {read:,} rows read, overlaps included"
        )


def plan_files(
    lake: Lake, bound: BoundRows, options: Options, reading: Reading, tasks: int
) -> RowSlices | RowExchange:
    """Plan a clause over files: slices of time that tasks read themselves, else an exchange."""
    needs = halo_of(bound, options)
    if bound.partition or isinstance(needs, str):
        return plan_exchange(bound, options, tasks)
    order = bound.order[0]
    groups = lake.timed(order.column, nulls_first=order.nulls_first)
    cut = _cut(groups, needs, options, tasks)
    if len(cut) > 1:
        with_groups = tuple((each, tuple(groups[i] for i in each.reads)) for each in cut)
        return RowSlices(bound, options, reading, with_groups, needs)
    why = "row groups are few, or overlap in time"
    if lake.rows <= options.limits.task_events:
        return RowExchange(ONE, why)
    exchange = plan_exchange(bound, options, tasks)
    return RowExchange(exchange.targets, f"{why}; {exchange.why}")


def _cut(groups: list[Group], needs: Halo, options: Options, tasks: int) -> list[Slice]:
    spans = [each.span for each in groups]
    if options.partitions:
        return slices(spans, needs, options.partitions, amplified=math.inf)
    most = max(
        SLICES_PER_TASK * tasks, -(-sum(each.rows for each in spans) // options.limits.exchanged_events)
    )
    return slices(spans, needs, min(MOST_TASKS, most))


def plan_exchange(bound: BoundRows, options: Options, tasks: int) -> RowExchange:
    """Plan a clause over rows that are exchanged: by partition, by time, or all to one task."""
    count = options.partitions or TASKS_PER_CORE * tasks
    if bound.partition:
        return RowExchange(Targets(count, None, Halo()), "exchanged by partition")
    needs = halo_of(bound, options)
    if isinstance(needs, str):
        return RowExchange(ONE, needs)
    if is_chained(bound):
        return RowExchange(ONE, "which rows start a match, or their numbers, depend on the matches before")
    if needs.events or needs.preceding:
        return RowExchange(ONE, "PREV and NEXT ask for rows by their place among all")
    length = SHARE * max(needs.after, 1)
    if count == 1 or length > MAX_TIME:
        return RowExchange(ONE, "as asked" if count == 1 else "the window takes in all times there can be")
    return RowExchange(Targets(count, length, needs), "exchanged by time")
