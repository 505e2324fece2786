"""Searches a table for a row pattern on all cores: by partitions, or by slices of one partition."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cerise.engines.base import Ints, Masks, Options, RowMatches, concat_matches, find_rows_outside
from cerise.engines.limits import Limits
from cerise.engines.reference import rows as reference
from cerise.engines.results.value_codes import partitions
from cerise.engines.rows.engine import input_of_table, search
from cerise.engines.rows.order import Ordered, PartitionFilter, sort_rows
from cerise.engines.rows.prepare import (
    input_of,
    needed_columns,
    prepare,
    read_by,
    tie_columns,
    whole,
)
from cerise.engines.rows.program import Program, compile_rows, describe, why_not
from cerise.engines.rows.search_input import Judge, SearchInput, judge_table, sift_rows
from cerise.engines.rows.slices import SearchedSlice, SliceCandidates, Stretch, chain_slices, stretches
from cerise.engines.threads import Steps, Threads, Watch
from cerise.errors import PlanError, UnsupportedError, did_you_mean
from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import BoundRows, Order, Show
from cerise.plan.row_needs import is_chained, row_halo, starts_are_free, step_label_bits, why_no_skip
from cerise.plan.slicing import AMPLIFIED, Halo

ENGINES = ("rows", "reference")
PARTS_PER_THREAD = 4  # more parts than threads, to balance the load


def choose_engine(bound: BoundRows, options: Options) -> tuple[str, str]:
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


def explain(bound: BoundRows, options: Options, slices: str | None = None) -> dict[str, str]:
    """Return facts about how a clause is run, by name.

    Args:
        bound: the clause.
        options: the options of the run.
        slices: how rows come to tasks, if not to threads of this process.
    """
    engine, why = choose_engine(bound, options)
    facts = {
        "partition": ", ".join(bound.partition) or "none: all rows are one partition",
        **_show_tasks(bound, options, slices),
        "order": _show_orders(bound),
        "engine": f"{engine} ({why})",
    }
    if engine == "rows":
        facts |= describe(compile_rows(bound))
        if needed := _needed_alone(compile_rows(bound)):
            facts["searched"] = f"partitions with rows that can be {', '.join(needed)}"
    if why_no_skip(bound) is None:
        facts["left out"] = "rows that no variable but the skipped one can be, before the search"
    if bound.within is not None:
        limit = "less than" if bound.within.exclusive else "at most"
        facts["window"] = f"{limit} {bound.within.size} in {bound.order[0].column}"
    only = [each.sql for each in bound.derived if each.expr is None]
    return facts | ({"by Spark": "; ".join(only)} if only else {})


def halo_of(bound: BoundRows, options: Options) -> Halo | str:
    """Return the halo of slices of one partition, or why the partition is not cut."""
    engine, _ = choose_engine(bound, options)
    return row_halo(bound) if engine == "rows" else f"the engine {engine} searches a partition as a whole"


def _show_tasks(bound: BoundRows, options: Options, slices: str | None) -> dict[str, str]:
    if bound.partition:
        return {} if slices is None else {"exchange": slices}
    return {"slices": slices or _show_slices(bound, options)}


def _show_slices(bound: BoundRows, options: Options) -> str:
    needs = halo_of(bound, options)
    if starts_are_free(bound) and choose_engine(bound, options)[0] == "rows":
        return "some for each thread, where rows are many"
    if isinstance(needs, str):
        return f"none, one thread searches all rows: {needs}"
    return "one for each thread, where rows are many; then their matches are put in order"


def _show_orders(bound: BoundRows) -> str:
    order = ", ".join(_show_order(each) for each in bound.order)
    if bound.arrival:
        return order or "as the rows come"
    names = [name for tier in tie_columns(bound) for name in tier]
    hashed = f"a hash of {', '.join(names)}: columns in ORDER BY that leave no ties are better"
    return f"{order}, then {hashed}" if order else hashed


def _show_order(order: Order) -> str:
    return order.column + (" descending" if order.descending else "")


Display = Callable[[Ordered, RowMatches], pa.Table]


@dataclass(frozen=True, slots=True)
class Answer:
    """A part of the result: a table, and how many matches of how many rows it shows."""

    table: pa.Table
    matches: int
    rows: int


def search_table(
    bound: BoundRows,
    table: pa.Table,
    options: Options,
    threads: Threads,
    show: Display,
    told: Callable[[Ints], None] | None = None,
) -> Iterator[Answer]:
    """Yield the result of a clause over a table in parts; the first part has no rows.

    Args:
        bound: the clause.
        table: its rows, in the order of arrival.
        options: the options of the run.
        threads: the threads that share the work.
        show: builds a table from matches among rows.
        told: called with the rows whose order only hashes decide (S1.2).
    """
    if choose_engine(bound, options)[0] == "reference":
        prepared = prepare(bound, table, told)
        threads.watch.total = len(prepared)
        rows = Ordered(prepared, None, partitions(bound, prepared), {})
        parts: Iterable[RowMatches] = find_in_table(bound, prepared, rows.offsets, options, threads.watch)
        yield _answer(rows, concat_matches([]), show)
        yield from (_answer(rows, each, show) for each in parts)
        return
    rows, search_input = _laid_out(bound, table, threads)
    if told is not None:
        told(rows.undecided)
    threads.watch.total = len(search_input)
    yield _answer(rows, concat_matches([]), show)
    if threads.count == 1:  # in batches of matches
        found = _search(search_input, (0, len(search_input)), options, threads.watch)
        yield from (_answer(rows, each, show) for each in found)
        return
    yield from (each for part in _in_threads(search_input, rows, threads, options, show) for each in part)


def _answer(rows: Ordered, matches: RowMatches, show: Display) -> Answer:
    return Answer(show(rows, matches), len(matches), len(matches.labels))


def _laid_out(bound: BoundRows, table: pa.Table, threads: Threads) -> tuple[Ordered, SearchInput]:
    """Return the sorted rows of a table, and the input of the search."""
    program = compile_rows(bound)
    table, masks = _sift(program, input_of(bound, table), threads)
    wanted, ties = _choose_partitions(program, masks, threads.limits), tie_columns(bound)
    rows = sort_rows(bound, _concat_columns(bound, table, threads), threads, wanted, ties)
    return rows, SearchInput.of(program, rows, masks, threads)


def _in_threads(
    search_input: SearchInput, rows: Ordered, threads: Threads, options: Options, show: Display
) -> Iterable[list[Answer]]:
    bound = search_input.program.bound

    def to_answers(matches: Iterable[RowMatches]) -> list[Answer]:
        return [_answer(rows, each, show) for each in matches]

    def search_slice(part: Stretch) -> tuple[SearchedSlice, tuple[RowMatches, SliceCandidates]]:
        search = SearchedSlice(search_input, part, options, threads.watch)
        return search, search.candidates()

    if len(cut := _slices(search_input, threads, options)) > 1:
        return threads.each(to_answers, chain_slices(threads.each(search_slice, cut)))
    parts = _parts(bound, rows.offsets, threads.count)
    return threads.each(lambda part: to_answers(_search(search_input, part, options, threads.watch)), parts)


def find_in_table(
    bound: BoundRows, prepared: pa.Table, offsets: Ints, options: Options, watch: Watch | None = None
) -> Iterator[RowMatches]:
    """Yield the matches in a prepared table, in batches, by the chosen engine."""
    if choose_engine(bound, options)[0] == "reference":
        steps = Steps(options.max_steps, watch or Watch(), options.limits.row_steps)
        yield reference.to_matches(bound, reference.find_rows(bound, prepared, steps), offsets)
    else:
        search_input = input_of_table(compile_rows(bound), prepared, offsets)
        yield from _search(search_input, (0, len(search_input)), options, watch)


def _search(
    search_input: SearchInput, part: tuple[int, int], options: Options, watch: Watch | None = None
) -> Iterator[RowMatches]:
    found = search(search_input, part, options, watch)
    if search_input.program.bound.show is not Show.UNMATCHED:
        return found
    low, high = part
    whole = concat_matches(list(found))
    return iter([replace(whole, unmatched=find_rows_outside(whole, high - low, low))])


# ---- rows that no match can hold


def _sift(program: Program, table: pa.Table, threads: Threads) -> tuple[pa.Table, Masks | None]:
    """Return the rows that may be in a match, with the columns still needed, and their masks."""
    bound = program.bound
    needed = needed_columns(bound, _still_asked(program) if bound.arrival else None)
    names = [name for name in needed if name in table.column_names] or table.column_names[:1]
    if program.alone is None:
        return table.select(names), None
    skips = len(table) >= threads.limits.filtered_rows and why_no_skip(bound) is None
    if not skips:
        return table.select(names), judge_table(program.alone, table, len(bound.labels), threads)
    return sift_rows(Judge(program.alone, len(bound.labels)), table, names, step_label_bits(bound), threads)


def _still_asked(program: Program) -> set[str]:
    asked = program.conditions
    derived = {each.name: each.expr for each in asked.derived}
    names = {each.path[0] for expr in derived.values() if expr is not None for each in attributes(expr)}
    return names | {name for name in asked.columns if name not in derived}


def _choose_partitions(program: Program, masks: Masks | None, limits: Limits) -> PartitionFilter | None:
    """Return the filter of partitions to search; None: search all."""
    needs = _needed_alone(program)
    if masks is None or masks.dtype != np.uint8 or not needs or len(masks) < limits.filtered_rows:
        return None
    return PartitionFilter(masks, sum(1 << program.bound.labels.index(each) for each in needs))


def _needed_alone(program: Program) -> list[str]:
    """Labels every match needs and that one row alone can decide. Partitions lacking one are skipped."""
    bound = program.bound
    if not bound.partition or bound.show is Show.UNMATCHED:
        return []
    return [
        each for i, each in enumerate(bound.labels) if each in program.decided and (program.needs >> i) & 1
    ]


def _concat_columns(bound: BoundRows, table: pa.Table, threads: Threads) -> pa.Table:
    """Return a table with one chunk per column, except for strings that are read once per partition."""
    if bound.show is Show.UNMATCHED:
        return whole(table, threads)
    read = {name for each in bound.measures for atom in each.atoms for name in read_by(bound.atoms[atom])}
    strings = {name for name in bound.partition if pa.types.is_string(table.schema.field(name).type)}
    return whole(table, threads, apart=strings - read - {each.column for each in bound.order})


# ---- threads


def _slices(search_input: SearchInput, threads: Threads, options: Options) -> list[Stretch]:
    """Cut one partition into a slice for each thread, if its matches form a chain; else return none."""
    bound = search_input.program.bound
    needs = row_halo(bound)
    if threads.count == 1 or bound.partition or isinstance(needs, str) or not is_chained(bound):
        return []
    amplified = math.inf if options.threads else AMPLIFIED
    return stretches(search_input, needs.after, threads.count, amplified=amplified)


def _parts(bound: BoundRows, offsets: Ints, threads: int) -> list[tuple[int, int]]:
    """Cut rows into parts of about equal size, several for each thread, which searches from their rows."""
    rows, count = int(offsets[-1]), 1 if threads == 1 else PARTS_PER_THREAD * threads
    borders = np.array([rows * i // count for i in range(1, count)], np.int64)
    if not starts_are_free(bound):
        borders = offsets[np.searchsorted(offsets, borders)]
    return list(pairwise(sorted({0, *borders.tolist(), rows}))) or [(0, 0)]
