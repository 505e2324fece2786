"""Run a MATCH_RECOGNIZE clause over a table in this process: partitions are searched on all cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.reference import rows as reference
from cerise.engines.rows.conditions import parted
from cerise.engines.rows.crew import Crew, crew_of
from cerise.engines.rows.engine import Program, compile_rows, describe, ground_of, search, why_not
from cerise.engines.rows.ground import Ground
from cerise.engines.rows.judging import Judge, judged, sifted
from cerise.engines.rows.matches import Ints, Masks, RowMatches, joined, unmatched_rows
from cerise.engines.rows.ordering import Wanted, ordered
from cerise.engines.rows.output import shown, to_table
from cerise.engines.rows.prepare import input_of, needed_columns, partitions, prepare, read_by, whole
from cerise.engines.rows.skipping import wanted_labels, why_not_skipping
from cerise.errors import PlanError, UnsupportedError, did_you_mean
from cerise.pattern.expr import attributes
from cerise.pattern.rows import BoundRows, MatchNumber, Order, Show, SkipTo

ENGINES = ("rows", "reference")
WORTH_A_THREAD = 200_000  # rows
WORTH_A_FILTER = 10_000
PARTS_PER_THREAD = 4  # so that none waits long for the others


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
        if needed := _needed_alone(compile_rows(bound)):
            facts["searched"] = f"partitions with rows that can be {', '.join(needed)}"
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
    if chosen(bound, options)[0] == "reference":
        return _by_reference(bound, table, options)
    program = compile_rows(bound)
    with crew_of(_threads(len(table), options)) as crew:
        table, masks = _sifted(program, input_of(bound, table), crew)
        rows = ordered(bound, _joined(bound, table, crew), crew, _wanted(program, masks))
        ground = Ground.of(program, rows, masks, crew)

        def results(part: tuple[int, int]) -> list[pa.Table]:
            return [shown(bound, rows, each) for each in _searched(ground, part, options)]

        found = crew.each(results, _parts(bound, rows.offsets, crew.count))
    empty = shown(bound, rows, joined([]))
    return pa.concat_tables([empty, *(each for some in found for each in some)])


def _by_reference(bound: BoundRows, table: pa.Table, options: Options) -> pa.Table:
    prepared = prepare(bound, table)
    offsets = partitions(bound, prepared)
    found = [joined([]), *found_in(bound, prepared, offsets, options)]
    return pa.concat_tables([to_table(bound, prepared, offsets, each) for each in found])


def found_in(bound: BoundRows, prepared: pa.Table, offsets: Ints, options: Options) -> Iterator[RowMatches]:
    """Yield the matches in a prepared table, some at a time, by the engine that can."""
    if chosen(bound, options)[0] == "reference":
        yield reference.to_matches(bound, reference.find_rows(bound, prepared), offsets)
    else:
        ground = ground_of(compile_rows(bound), prepared, offsets)
        yield from _searched(ground, (0, len(ground)), options)


def _searched(ground: Ground, part: tuple[int, int], options: Options) -> Iterator[RowMatches]:
    found = search(ground, part, options.max_steps)
    if ground.program.bound.show is not Show.UNMATCHED:
        return found
    low, high = part
    whole = joined(list(found))
    return iter([replace(whole, unmatched=unmatched_rows(whole, high - low, low))])


# ---- rows that no match can hold


def _sifted(program: Program, table: pa.Table, crew: Crew) -> tuple[pa.Table, Masks | None]:
    """Return the columns that are still needed, of rows that may matter, and which labels they could have."""
    bound = program.bound
    names = list(needed_columns(bound, _still_asked(program)))
    if program.alone is None:
        return table.select(names), None
    skips = len(table) >= WORTH_A_FILTER and why_not_skipping(bound) is None
    if not skips:
        return table.select(names), judged(program.alone, table, len(bound.labels), crew)
    return sifted(Judge(program.alone, len(bound.labels)), table, names, wanted_labels(bound), crew)


def _still_asked(program: Program) -> set[str]:
    """Return the columns that conditions read when rows have been judged by themselves."""
    asked = program.conditions
    derived = {each.name: each.expr for each in asked.derived}
    names = {each.path[0] for expr in derived.values() if expr is not None for each in attributes(expr)}
    return names | {name for name in asked.columns if name not in derived}


def _wanted(program: Program, masks: Masks | None) -> Wanted | None:
    """Return which partitions are searched, where rows by themselves can tell."""
    needs = _needed_alone(program)
    if masks is None or masks.dtype != np.uint8 or not needs or len(masks) < WORTH_A_FILTER:
        return None
    return Wanted(masks, sum(1 << program.bound.labels.index(each) for each in needs))


def _needed_alone(program: Program) -> list[str]:
    """Return labels that a partition needs for a match, and of which a row by itself tells if it has them."""
    bound = program.bound
    if not bound.partition or bound.show is Show.UNMATCHED:
        return []
    asked = {each.label for each in parted(bound)[0].conditions}
    return [each for i, each in enumerate(bound.labels) if each in asked and (program.needs >> i) & 1]


def _joined(bound: BoundRows, table: pa.Table, crew: Crew) -> pa.Table:
    """Return a table with columns in one piece, but for strings of which one for each partition is shown."""
    if bound.show is Show.UNMATCHED:
        return whole(table, crew)
    read = {name for each in bound.measures for atom in each.atoms for name in read_by(bound.atoms[atom])}
    strings = {name for name in bound.partition if pa.types.is_string(table.schema.field(name).type)}
    return whole(table, crew, apart=strings - read - {each.column for each in bound.order})


# ---- threads


def _threads(rows: int, options: Options) -> int:
    return options.threads or min(os.cpu_count() or 1, max(1, rows // WORTH_A_THREAD))


def _parts(bound: BoundRows, offsets: Ints, threads: int) -> list[tuple[int, int]]:
    """Cut rows into parts of about as many each, some for each thread: it searches from these rows on."""
    rows, count = int(offsets[-1]), 1 if threads == 1 else PARTS_PER_THREAD * threads
    borders = np.array([rows * i // count for i in range(1, count)], np.int64)
    if not _starts_are_free(bound):
        borders = offsets[np.searchsorted(offsets, borders)]
    return list(pairwise(sorted({0, *borders.tolist(), rows}))) or [(0, 0)]


def _starts_are_free(bound: BoundRows) -> bool:
    """Whether what starts at a row is found without knowing what was found before."""
    numbered = any(isinstance(each, MatchNumber) for each in bound.atoms.values())
    return bound.skip.to is SkipTo.NEXT and bound.show is not Show.UNMATCHED and not numbered
