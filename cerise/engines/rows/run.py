"""Run a MATCH_RECOGNIZE clause over a table in this process, on all cores: partitions, or slices of one."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cerise.engines.base import Options, Report
from cerise.engines.limits import Limits
from cerise.engines.reference import rows as reference
from cerise.engines.results.row_matches import Ints, Masks, RowMatches, joined, unmatched_rows
from cerise.engines.results.value_codes import partitions
from cerise.engines.rows.engine import ground_of, search
from cerise.engines.rows.order import Ordered, Wanted, ordered
from cerise.engines.rows.output import shown, shown_atoms, to_atoms, to_table
from cerise.engines.rows.prepare import (
    input_of,
    needed_columns,
    prepare,
    read_by,
    tie_columns,
    whole,
)
from cerise.engines.rows.program import Program, compile_rows, describe, why_not
from cerise.engines.rows.search_input import Ground, Judge, judged, sifted
from cerise.engines.rows.skipping import wanted_labels, why_not_skipping
from cerise.engines.rows.slices import Candidates, Searched, Stretch, chained, stretches
from cerise.engines.threads import Crew, Progress, Steps, Watch, crew_of
from cerise.errors import PlanError, UnsupportedError, did_you_mean
from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import BoundRows, Order, Show
from cerise.plan.overlap import AMPLIFIED, Halo
from cerise.plan.row_slices import is_chained, row_halo, starts_are_free

ENGINES = ("rows", "reference")
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


def explained(bound: BoundRows, options: Options, slices: str | None = None) -> dict[str, str]:
    """Say, by name, what is to be known about how a clause is run.

    Args:
        bound: the clause.
        options: how it is run.
        slices: how the rows of one partition are shared out, where not to threads of this process.
    """
    engine, why = chosen(bound, options)
    facts = {
        "partition": ", ".join(bound.partition) or "none: all rows are one partition",
        **({} if bound.partition else {"slices": slices or _shown_slices(bound, options)}),
        "order": _shown_orders(bound),
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


def halo_of(bound: BoundRows, options: Options) -> Halo | str:
    """Return what slices of one partition need beyond their rows, or say why it is not cut."""
    engine, _ = chosen(bound, options)
    return row_halo(bound) if engine == "rows" else f"the engine {engine} searches a partition as a whole"


def _shown_slices(bound: BoundRows, options: Options) -> str:
    needs = halo_of(bound, options)
    if starts_are_free(bound) and chosen(bound, options)[0] == "rows":
        return "some for each thread, where rows are many"
    if isinstance(needs, str):
        return f"none, one thread searches all rows: {needs}"
    return "one for each thread, where rows are many; then their matches are put in order"


def _shown_orders(bound: BoundRows) -> str:
    said = ", ".join(_shown_order(each) for each in bound.order)
    if bound.arrival:
        return said or "as the rows come"
    names = [name for tier in tie_columns(bound) for name in tier]
    hashed = f"a hash of {', '.join(names)}: columns in ORDER BY that leave no ties are better"
    return f"{said}, then {hashed}" if said else hashed


def _shown_order(order: Order) -> str:
    return order.column + (" descending" if order.descending else "")


def run_rows(
    bound: BoundRows,
    table: pa.Table,
    options: Options,
    report: Report | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """Return the result of a clause over a table.

    Args:
        bound: the clause.
        table: its rows.
        options: how to run it.
        report: what is done is counted there.
        progress: told how many rows, of how many, have been searched from.
    """
    report = Report() if report is None else report
    report.events += len(table)
    begun = time.perf_counter()
    if chosen(bound, options)[0] == "reference":
        found = _by_reference(bound, table, options, progress)
    else:
        with crew_of(_threads(len(table), options), Watch(tell=progress), options.limits) as crew:
            rows, ground = _laid_out(bound, table, crew)
            crew.watch.total = len(ground)
            parts = [each for some in _found(ground, rows, crew, options) for each in some]
        found = [_Shown.of(joined([]), shown(bound, rows, joined([]))), *parts]
    report.matches += sum(each.matches for each in found)
    report.matched_events += sum(each.rows for each in found)
    report.matching_seconds += time.perf_counter() - begun
    return pa.concat_tables([each.table for each in found])


@dataclass(frozen=True, slots=True)
class _Shown:
    """Some of the result, and how many matches it shows, of how many rows."""

    table: pa.Table
    matches: int
    rows: int

    @classmethod
    def of(cls, matches: RowMatches, table: pa.Table) -> _Shown:
        return cls(table, len(matches), len(matches.labels))


def atoms_in(
    bound: BoundRows, table: pa.Table, options: Options, told: Callable[[Ints], None] | None = None
) -> Iterator[pa.Table]:
    """Yield what the result over a table is computed from, some at a time; one thread does it all.

    Args:
        bound: the clause.
        table: its rows.
        options: how to run it.
        told: is told the rows whose order only hashes decide (S1.2).
    """
    if chosen(bound, options)[0] == "reference":
        prepared = prepare(bound, table, told)
        offsets = partitions(bound, prepared)
        for matches in found_in(bound, prepared, offsets, options):
            yield to_atoms(bound, prepared, offsets, matches)
        return
    rows, ground = _laid_out(bound, table, Crew(limits=options.limits))
    if told is not None:
        told(rows.undecided)
    for matches in _searched(ground, (0, len(ground)), options):
        yield shown_atoms(bound, rows, matches)


def _laid_out(bound: BoundRows, table: pa.Table, crew: Crew) -> tuple[Ordered, Ground]:
    """Return the rows of a table in order, and as a search reads them."""
    program = compile_rows(bound)
    table, masks = _sifted(program, input_of(bound, table), crew)
    wanted, ties = _wanted(program, masks, crew.limits), tie_columns(bound)
    rows = ordered(bound, _joined(bound, table, crew), crew, wanted, ties)
    return rows, Ground.of(program, rows, masks, crew)


def _found(ground: Ground, rows: Ordered, crew: Crew, options: Options) -> Iterable[list[_Shown]]:
    """Return the result, part after part."""
    bound = ground.program.bound

    def to_tables(matches: Iterable[RowMatches]) -> list[_Shown]:
        return [_Shown.of(each, shown(bound, rows, each)) for each in matches]

    def searched(part: Stretch) -> tuple[Searched, tuple[RowMatches, Candidates]]:
        search = Searched(ground, part, options, crew.watch)
        return search, search.candidates()

    if len(cut := _slices(ground, crew, options)) > 1:
        return crew.each(to_tables, chained(crew.each(searched, cut)))
    parts = _parts(bound, rows.offsets, crew.count)
    return crew.each(lambda part: to_tables(_searched(ground, part, options, crew.watch)), parts)


def _by_reference(
    bound: BoundRows, table: pa.Table, options: Options, progress: Progress | None
) -> list[_Shown]:
    prepared = prepare(bound, table)
    offsets, watch = partitions(bound, prepared), Watch(len(prepared), progress)
    found = [joined([]), *found_in(bound, prepared, offsets, options, watch)]
    return [_Shown.of(each, to_table(bound, prepared, offsets, each)) for each in found]


def found_in(
    bound: BoundRows, prepared: pa.Table, offsets: Ints, options: Options, watch: Watch | None = None
) -> Iterator[RowMatches]:
    """Yield the matches in a prepared table, some at a time, by the engine that can."""
    if chosen(bound, options)[0] == "reference":
        steps = Steps(options.max_steps, watch or Watch())
        yield reference.to_matches(bound, reference.find_rows(bound, prepared, steps), offsets)
    else:
        ground = ground_of(compile_rows(bound), prepared, offsets)
        yield from _searched(ground, (0, len(ground)), options, watch)


def _searched(
    ground: Ground, part: tuple[int, int], options: Options, watch: Watch | None = None
) -> Iterator[RowMatches]:
    found = search(ground, part, options, watch)
    if ground.program.bound.show is not Show.UNMATCHED:
        return found
    low, high = part
    whole = joined(list(found))
    return iter([replace(whole, unmatched=unmatched_rows(whole, high - low, low))])


# ---- rows that no match can hold


def _sifted(program: Program, table: pa.Table, crew: Crew) -> tuple[pa.Table, Masks | None]:
    """Return the columns that are still needed, of rows that may matter, and which labels they could have."""
    bound = program.bound
    names = list(needed_columns(bound, _still_asked(program) if bound.arrival else None))
    if program.alone is None:
        return table.select(names), None
    skips = len(table) >= crew.limits.filtered_rows and why_not_skipping(bound) is None
    if not skips:
        return table.select(names), judged(program.alone, table, len(bound.labels), crew)
    return sifted(Judge(program.alone, len(bound.labels)), table, names, wanted_labels(bound), crew)


def _still_asked(program: Program) -> set[str]:
    """Return the columns that conditions read when rows have been judged by themselves."""
    asked = program.conditions
    derived = {each.name: each.expr for each in asked.derived}
    names = {each.path[0] for expr in derived.values() if expr is not None for each in attributes(expr)}
    return names | {name for name in asked.columns if name not in derived}


def _wanted(program: Program, masks: Masks | None, limits: Limits) -> Wanted | None:
    """Return which partitions are searched, where rows by themselves can tell."""
    needs = _needed_alone(program)
    if masks is None or masks.dtype != np.uint8 or not needs or len(masks) < limits.filtered_rows:
        return None
    return Wanted(masks, sum(1 << program.bound.labels.index(each) for each in needs))


def _needed_alone(program: Program) -> list[str]:
    """Return labels that a partition needs for a match, and of which a row by itself tells if it has them."""
    bound = program.bound
    if not bound.partition or bound.show is Show.UNMATCHED:
        return []
    return [
        each for i, each in enumerate(bound.labels) if each in program.decided and (program.needs >> i) & 1
    ]


def _joined(bound: BoundRows, table: pa.Table, crew: Crew) -> pa.Table:
    """Return a table with columns in one piece, but for strings of which one for each partition is shown."""
    if bound.show is Show.UNMATCHED:
        return whole(table, crew)
    read = {name for each in bound.measures for atom in each.atoms for name in read_by(bound.atoms[atom])}
    strings = {name for name in bound.partition if pa.types.is_string(table.schema.field(name).type)}
    return whole(table, crew, apart=strings - read - {each.column for each in bound.order})


# ---- threads


def _threads(rows: int, options: Options) -> int:
    return options.threads or min(os.cpu_count() or 1, max(1, rows // options.limits.thread_rows))


def _slices(ground: Ground, crew: Crew, options: Options) -> list[Stretch]:
    """Cut rows that are one partition into slices, one for each thread, where matches depend on others."""
    bound = ground.program.bound
    needs = row_halo(bound)
    if crew.count == 1 or bound.partition or isinstance(needs, str) or not is_chained(bound):
        return []
    amplified = math.inf if options.threads else AMPLIFIED
    return stretches(ground, needs.after, crew.count, amplified=amplified)


def _parts(bound: BoundRows, offsets: Ints, threads: int) -> list[tuple[int, int]]:
    """Cut rows into parts of about as many each, some for each thread: it searches from these rows on."""
    rows, count = int(offsets[-1]), 1 if threads == 1 else PARTS_PER_THREAD * threads
    borders = np.array([rows * i // count for i in range(1, count)], np.int64)
    if not starts_are_free(bound):
        borders = offsets[np.searchsorted(offsets, borders)]
    return list(pairwise(sorted({0, *borders.tolist(), rows}))) or [(0, 0)]
