"""Decides how a query runs on Spark: over a DataFrame, or over files by their footers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cerise.engines.base import Options
from cerise.files.lake import Group, Lake
from cerise.files.reader import Reading
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output
from cerise.plan import filters
from cerise.plan.nodes import Estimate, Exchange, FramePlan, LakePlan, Slices
from cerise.plan.overlap import Halo, Slice, Targets, common_partition, halo, slices, targets
from cerise.spark.chain import unchained

TARGET_BYTES = 64 << 20
MOST_TASKS = 2_000
SLICES_PER_TASK = 3  # more slices than cores, so that none waits long for the last


def plan_frame(
    bounds: Sequence[Bound], options: Options, tasks: int, size: Estimate, scan: str | None
) -> FramePlan:
    """Plan a query over a DataFrame.

    Args:
        bounds: the queries.
        options: how it is to be run.
        tasks: how many tasks run at once.
        size: how large the DataFrame is thought to be.
        scan: why its files are not read directly, where it is files.
    """
    count = options.partitions
    if count is None and size.bytes is not None:
        count = min(MOST_TASKS, max(tasks, -(-size.bytes // TARGET_BYTES)))
    found = targets(bounds, count or 4 * tasks)
    if isinstance(found, str):
        exchange = Exchange(Targets(1, None, Halo()), f"all events in one task: {found}")
    else:
        exchange = Exchange(found, _by(bounds, found))
    return FramePlan(exchange, filters.needed(bounds), filters.why_all(bounds), scan, size.rows)


def plan_lake(bounds: Sequence[Bound], lake: Lake, options: Options, tasks: int) -> LakePlan:
    """Plan a query over files: slices of time where their row groups are in that order, else an exchange."""
    needed = filters.needed(bounds)
    groups = lake.wanted(bounds[0].schema, needed)
    way = _way(bounds, groups, options, tasks)
    known = {
        "events": lake.rows,
        "events after pruning": sum(each.span.rows for each in groups),
        "row groups": lake.groups,
        "row groups after pruning": len(groups),
    }
    reading = _reading(bounds, lake, groups, late=isinstance(way, Slices))
    return LakePlan(lake.columns, reading, way, needed, filters.why_all(bounds), known)


def _way(bounds: Sequence[Bound], groups: Sequence[Group], options: Options, tasks: int) -> Slices | Exchange:
    if chains(bounds):
        return _chained(bounds[0], groups, options, tasks)
    needs = halo(bounds)
    rows = sum(each.span.rows for each in groups)
    if isinstance(needs, Halo):
        spans = [each.span for each in groups]
        if options.partitions:
            cut = slices(spans, needs, options.partitions, amplified=math.inf)
        else:
            cut = slices(spans, needs, SLICES_PER_TASK * tasks)
        if len(cut) > 1 or rows <= options.limits.task_events or needs.events or options.partitions == 1:
            why = None if len(cut) > 1 or len(groups) <= 1 else "their row groups overlap in time"
            return Slices(_with_groups(cut, groups), needs, why)
        why = "row groups overlap in time"
    elif not common_partition(bounds) or (rows <= options.limits.task_events and options.partitions is None):
        alone = slices([each.span for each in groups], Halo(), 1)
        return Slices(_with_groups(alone, groups), Halo(), needs)
    else:
        why = needs
    count = options.partitions or min(MOST_TASKS, max(tasks, -(-rows // options.limits.exchanged_events)))
    found = targets(bounds, count)
    assert isinstance(found, Targets)
    return Exchange(found, f"{_by(bounds, found)}: {why}", portions_of(groups, SLICES_PER_TASK * tasks))


def chains(bounds: Sequence[Bound]) -> bool:
    """Whether matches that do not overlap can be found in slices, and chained."""
    (first, *others) = bounds
    wants = first.query.output is Output.NON_OVERLAPPING
    return not others and wants and not first.partition and isinstance(halo([unchained(first)]), Halo)


def _chained(bound: Bound, groups: Sequence[Group], options: Options, tasks: int) -> Slices:
    found = _way([unchained(bound)], groups, options, tasks)
    if isinstance(found, Slices) and len(found.slices) > 1:
        return replace(found, chained=True)
    alone = slices([each.span for each in groups], Halo(), 1)
    return Slices(_with_groups(alone, groups), Halo(), "the matches that do not overlap are chosen in order")


def _by(bounds: Sequence[Bound], found: Targets) -> str:
    what = [*(["key"] if common_partition(bounds) else []), *(["time"] if found.length is not None else [])]
    return f"exchanged by {' and '.join(what)}"


def _with_groups(
    cut: Sequence[Slice], groups: Sequence[Group]
) -> tuple[tuple[Slice, tuple[Group, ...]], ...]:
    return tuple((each, tuple(groups[i] for i in each.reads)) for each in cut)


def portions_of(groups: Sequence[Group], count: int) -> tuple[tuple[Group, ...], ...]:
    """Split row groups into portions of about as many events each."""
    total = sum(each.span.rows for each in groups)
    portions: list[list[Group]] = [[]]
    seen = 0
    for each in groups:
        if seen >= total * len(portions) / count and portions[-1]:
            portions.append([])
        portions[-1].append(each)
        seen += each.span.rows
    return tuple(map(tuple, portions))


def _reading(bounds: Sequence[Bound], lake: Lake, groups: Sequence[Group], *, late: bool) -> Reading:
    """Return what tasks must know to read; where events are exchanged, all columns travel with them."""
    schema = bounds[0].schema
    roots = {path[0] for bound in bounds for path in bound.reads} | {schema.time, *schema.order}
    names = needs_of(bounds)
    if any(bound.query.totals is not None for bound in bounds):
        roots |= set(names)  # totals may be of every event that is seen, and matches are not kept to fetch it
    reads = tuple(name for name in names if name in roots or not late)
    rest = tuple(name for name in names if name not in reads)
    files = {each.file: lake.files[each.file] for each in groups}
    wanted = filters.needed(bounds) if late else None  # where events are exchanged, the cutter filters
    return Reading(lake.root, files, schema, reads, rest, lake.coded(reads), wanted)


def needs_of(bounds: Sequence[Bound]) -> tuple[str, ...]:
    """Return the columns that some queries need together, in schema order."""
    used = {name for bound in bounds for name in bound.needs}
    return tuple(name for name in bounds[0].schema.columns.names if name in used)
