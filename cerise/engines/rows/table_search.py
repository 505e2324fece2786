"""Search a table of rows for a row pattern, on all cores: partitions apart, or slices of one partition."""

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
from cerise.engines.rows.order import Ordered, Wanted, ordered
from cerise.engines.rows.prepare import (
    input_of,
    needed_columns,
    prepare,
    read_by,
    tie_columns,
    whole,
)
from cerise.engines.rows.program import Program, compile_rows, describe, why_not
from cerise.engines.rows.search_input import Judge, SearchInput, judged, sifted
from cerise.engines.rows.slices import Candidates, Searched, Stretch, chained, stretches
from cerise.engines.threads import Steps, Threads, Watch
from cerise.errors import PlanError, UnsupportedError, did_you_mean
from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import BoundRows, Order, Show
from cerise.plan.row_needs import is_chained, row_halo, starts_are_free, step_label_bits, why_no_skip
from cerise.plan.slicing import AMPLIFIED, Halo

ENGINES = ("rows", "reference")
PARTS_PER_THREAD = 4  # so that none waits long for the others


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
    """Say, by name, what is to be known about how a clause is run.

    Args:
        bound: the clause.
        options: how it is run.
        slices: how the rows of one partition are shared out, where not to threads of this process.
    """
    engine, why = choose_engine(bound, options)
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
    if why_no_skip(bound) is None:
        facts["left out"] = "rows that no variable but the skipped one can be, before the search"
    if bound.within is not None:
        limit = "less than" if bound.within.exclusive else "at most"
        facts["window"] = f"{limit} {bound.within.size} in {bound.order[0].column}"
    only = [each.sql for each in bound.derived if each.expr is None]
    return facts | ({"by Spark": "; ".join(only)} if only else {})


def halo_of(bound: BoundRows, options: Options) -> Halo | str:
    """Return what slices of one partition need beyond their rows, or say why it is not cut."""
    engine, _ = choose_engine(bound, options)
    return row_halo(bound) if engine == "rows" else f"the engine {engine} searches a partition as a whole"


def _shown_slices(bound: BoundRows, options: Options) -> str:
    needs = halo_of(bound, options)
    if starts_are_free(bound) and choose_engine(bound, options)[0] == "rows":
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
    """Yield the result of a clause over a table, part after part; the first part has the columns only.

    Args:
        bound: the clause.
        table: its rows, as they arrive.
        options: how to run it.
        threads: the threads that share the work.
        show: makes a table of matches among rows.
        told: is told the rows whose order only hashes decide (S1.2).
    """
    if choose_engine(bound, options)[0] == "reference":
        prepared = prepare(bound, table, told)
        threads.watch.total = len(prepared)
        rows = Ordered(prepared, None, partitions(bound, prepared), {})
        parts: Iterable[RowMatches] = found_in(bound, prepared, rows.offsets, options, threads.watch)
        yield _answer(rows, concat_matches([]), show)
        yield from (_answer(rows, each, show) for each in parts)
        return
    rows, search_input = _laid_out(bound, table, threads)
    if told is not None:
        told(rows.undecided)
    threads.watch.total = len(search_input)
    yield _answer(rows, concat_matches([]), show)
    if threads.count == 1:  # some matches at a time
        found = _searched(search_input, (0, len(search_input)), options, threads.watch)
        yield from (_answer(rows, each, show) for each in found)
        return
    yield from (each for part in _in_threads(search_input, rows, threads, options, show) for each in part)


def _answer(rows: Ordered, matches: RowMatches, show: Display) -> Answer:
    return Answer(show(rows, matches), len(matches), len(matches.labels))


def _laid_out(bound: BoundRows, table: pa.Table, threads: Threads) -> tuple[Ordered, SearchInput]:
    """Return the rows of a table in order, and as a search reads them."""
    program = compile_rows(bound)
    table, masks = _sifted(program, input_of(bound, table), threads)
    wanted, ties = _wanted(program, masks, threads.limits), tie_columns(bound)
    rows = ordered(bound, _joined(bound, table, threads), threads, wanted, ties)
    return rows, SearchInput.of(program, rows, masks, threads)


def _in_threads(
    search_input: SearchInput, rows: Ordered, threads: Threads, options: Options, show: Display
) -> Iterable[list[Answer]]:
    bound = search_input.program.bound

    def to_answers(matches: Iterable[RowMatches]) -> list[Answer]:
        return [_answer(rows, each, show) for each in matches]

    def searched(part: Stretch) -> tuple[Searched, tuple[RowMatches, Candidates]]:
        search = Searched(search_input, part, options, threads.watch)
        return search, search.candidates()

    if len(cut := _slices(search_input, threads, options)) > 1:
        return threads.each(to_answers, chained(threads.each(searched, cut)))
    parts = _parts(bound, rows.offsets, threads.count)
    return threads.each(lambda part: to_answers(_searched(search_input, part, options, threads.watch)), parts)


def found_in(
    bound: BoundRows, prepared: pa.Table, offsets: Ints, options: Options, watch: Watch | None = None
) -> Iterator[RowMatches]:
    """Yield the matches in a prepared table, some at a time, by the engine that can."""
    if choose_engine(bound, options)[0] == "reference":
        steps = Steps(options.max_steps, watch or Watch(), options.limits.row_steps)
        yield reference.to_matches(bound, reference.find_rows(bound, prepared, steps), offsets)
    else:
        search_input = input_of_table(compile_rows(bound), prepared, offsets)
        yield from _searched(search_input, (0, len(search_input)), options, watch)


def _searched(
    search_input: SearchInput, part: tuple[int, int], options: Options, watch: Watch | None = None
) -> Iterator[RowMatches]:
    found = search(search_input, part, options, watch)
    if search_input.program.bound.show is not Show.UNMATCHED:
        return found
    low, high = part
    whole = concat_matches(list(found))
    return iter([replace(whole, unmatched=find_rows_outside(whole, high - low, low))])


# ---- rows that no match can hold


def _sifted(program: Program, table: pa.Table, threads: Threads) -> tuple[pa.Table, Masks | None]:
    """Return the columns that are still needed, of rows that may matter, and which labels they could have."""
    bound = program.bound
    needed = needed_columns(bound, _still_asked(program) if bound.arrival else None)
    names = [name for name in needed if name in table.column_names] or table.column_names[:1]
    if program.alone is None:
        return table.select(names), None
    skips = len(table) >= threads.limits.filtered_rows and why_no_skip(bound) is None
    if not skips:
        return table.select(names), judged(program.alone, table, len(bound.labels), threads)
    return sifted(Judge(program.alone, len(bound.labels)), table, names, step_label_bits(bound), threads)


def _still_asked(program: Program) -> set[str]:
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


def _joined(bound: BoundRows, table: pa.Table, threads: Threads) -> pa.Table:
    """Return a table with columns in one piece, but for strings of which one for each partition is shown."""
    if bound.show is Show.UNMATCHED:
        return whole(table, threads)
    read = {name for each in bound.measures for atom in each.atoms for name in read_by(bound.atoms[atom])}
    strings = {name for name in bound.partition if pa.types.is_string(table.schema.field(name).type)}
    return whole(table, threads, apart=strings - read - {each.column for each in bound.order})


# ---- threads


def _slices(search_input: SearchInput, threads: Threads, options: Options) -> list[Stretch]:
    """Cut rows that are one partition into slices, one for each thread, where matches depend on others."""
    bound = search_input.program.bound
    needs = row_halo(bound)
    if threads.count == 1 or bound.partition or isinstance(needs, str) or not is_chained(bound):
        return []
    amplified = math.inf if options.threads else AMPLIFIED
    return stretches(search_input, needs.after, threads.count, amplified=amplified)


def _parts(bound: BoundRows, offsets: Ints, threads: int) -> list[tuple[int, int]]:
    """Cut rows into parts of about as many each, some for each thread: it searches from these rows on."""
    rows, count = int(offsets[-1]), 1 if threads == 1 else PARTS_PER_THREAD * threads
    borders = np.array([rows * i // count for i in range(1, count)], np.int64)
    if not starts_are_free(bound):
        borders = offsets[np.searchsorted(offsets, borders)]
    return list(pairwise(sorted({0, *borders.tolist(), rows}))) or [(0, 0)]
