"""Run a MATCH_RECOGNIZE clause over a table in this process: partitions are searched on all cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.reference import rows as reference
from cerise.engines.rows.engine import Program, compile_rows, describe, find_matches, why_not
from cerise.engines.rows.matches import Ints, RowMatches, joined, unmatched_rows
from cerise.engines.rows.output import to_table
from cerise.engines.rows.prepare import derived, partitions, prepare
from cerise.engines.rows.skipping import Skipper, why_not_skipping
from cerise.errors import PlanError, UnsupportedError, did_you_mean
from cerise.pattern.rows import BoundRows, Order, Show

ENGINES = ("rows", "reference")
WORTH_A_THREAD = 200_000  # rows
WORTH_A_FILTER = 10_000


def chosen(bound: BoundRows, options: Options) -> tuple[str, str]:
    """Return the engine that runs a clause, and why."""
    reason = why_not(bound)
    if options.engine is None:
        return ("rows", "compiled") if reason is None else ("reference", f"not rows: {reason}")
    if options.engine not in ENGINES:
        raise PlanError(
            f"engine '{options.engine}' does not run MATCH_RECOGNIZE",
            hint=did_you_mean(options.engine, ENGINES),
        )
    if options.engine == "rows" and reason is not None:
        raise UnsupportedError(f"engine 'rows' cannot run this clause: {reason}", hint="use reference")
    return options.engine, "as asked"


def explained(bound: BoundRows, options: Options) -> dict[str, str]:
    """Say, by name, what is to be known about how a clause is run."""
    engine, why = chosen(bound, options)
    facts = {
        "partition": ", ".join(bound.partition) or "none: all rows are one partition, searched by one task",
        "order": ", ".join(_shown_order(each) for each in bound.order) or "as the rows come",
        "engine": f"{engine} ({why})",
    }
    if engine == "rows":
        facts |= describe(compile_rows(bound))
    if why_not_skipping(bound) is None:
        facts["left out"] = "rows that no variable but the skipped one can be, before the search"
    if bound.within is not None:
        limit = "less than" if bound.within.exclusive else "at most"
        facts["window"] = f"{limit} {bound.within.size} in {bound.order[0].column}"
    only = [each.sql for each in bound.derived if each.expr is None]
    return facts | ({"by Spark": "; ".join(only)} if only else {})


def _shown_order(order: Order) -> str:
    return order.column + (" descending" if order.descending else "")


def run_rows(bound: BoundRows, table: pa.Table, options: Options) -> pa.Table:
    """Return the result of a clause over a table."""
    if (
        len(table) >= WORTH_A_FILTER
        and why_not_skipping(bound) is None
        and chosen(bound, options)[0] == "rows"
    ):
        table = derived(bound, table)
        table = table.filter(pa.array(Skipper(bound).kept(table)))
    prepared = prepare(bound, table)
    offsets = partitions(bound, prepared)
    empty = to_table(bound, prepared, offsets, joined([]))
    if chosen(bound, options)[0] == "reference":
        found = found_in(bound, prepared, offsets, options)
        return pa.concat_tables([empty, *(to_table(bound, prepared, offsets, each) for each in found)])
    program = compile_rows(bound)
    parts = _parts(offsets, options)

    def results(part: Ints) -> list[pa.Table]:
        low, high = int(part[0]), int(part[-1])
        here, own = prepared.slice(low, high - low), part - low
        return [to_table(bound, here, own, each) for each in _searched(program, here, own, options)]

    with ThreadPoolExecutor(len(parts)) as pool:
        return pa.concat_tables([empty, *(each for some in pool.map(results, parts) for each in some)])


def found_in(bound: BoundRows, prepared: pa.Table, offsets: Ints, options: Options) -> Iterator[RowMatches]:
    """Yield the matches in a prepared table, some at a time, by the engine that can."""
    if chosen(bound, options)[0] == "reference":
        yield reference.to_matches(bound, reference.find_rows(bound, prepared), offsets)
    else:
        yield from _searched(compile_rows(bound), prepared, offsets, options)


def _searched(program: Program, table: pa.Table, offsets: Ints, options: Options) -> Iterator[RowMatches]:
    found = find_matches(program, table, offsets, options.max_steps)
    if program.bound.show is not Show.UNMATCHED:
        return found
    whole = joined(list(found))
    return iter([replace(whole, unmatched=unmatched_rows(whole, len(table)))])


def _parts(offsets: Ints, options: Options) -> list[Ints]:
    """Cut the partitions into parts of about as many rows each, one for each thread."""
    rows = int(offsets[-1])
    count = options.threads or min(os.cpu_count() or 1, max(1, rows // WORTH_A_THREAD))
    borders = np.searchsorted(offsets, [rows * i // count for i in range(1, count)])
    cuts = sorted({0, *(int(each) for each in borders), len(offsets) - 1})
    return [offsets[a : b + 1] for a, b in pairwise(cuts)] or [offsets]
