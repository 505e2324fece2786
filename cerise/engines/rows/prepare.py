"""Prepares rows for matching: adds derived columns, and sorts by partition and ORDER BY."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from cerise.engines.base import Ints
from cerise.engines.rows.order import sort_rows
from cerise.engines.threads import ALONE, Threads, start_threads
from cerise.errors import UnsupportedError
from cerise.events import Path, raw_column
from cerise.kinds import COMPUTABLE, Kind, canonical, kind_of, plain_table, restore
from cerise.pattern import check
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.expr import Attr, Expr, Literal, attributes
from cerise.pattern.row_pattern import CLASSIFIER, Atom, BoundRows, Derived, Measure, Nav, RowAgg, Shown

WORTH_THREADS = 100_000  # rows: from here on, threads share the work
OURS = "__cerise_"  # prefix of the columns that Cerise adds for itself


def prepare(bound: BoundRows, table: pa.Table, told: Callable[[Ints], None] | None = None) -> pa.Table:
    """Return the input with the derived columns, sorted by partition, then by ORDER BY (M2, M4).

    Ties keep their order of arrival, if the clause has one; else hashes break them (S1.2).

    Args:
        bound: the clause.
        table: the input.
        told: called with the rows of the result whose order only hashes decide.

    Raises:
        UnsupportedError: a derived column that only Spark can compute is missing.
    """
    table = _encode_partition(bound, input_of(bound, table))
    with start_threads((os.cpu_count() or 1) if len(table) >= WORTH_THREADS else 1) as threads:
        found = sort_rows(bound, table, threads, ties=tie_columns(bound))
        if told is not None:
            told(found.undecided)
        return table if found.order is None else _take_rows(table, found.order, threads)


def input_of(bound: BoundRows, table: pa.Table) -> pa.Table:
    """Return the needed columns of the input in plain types, with the derived columns."""
    return derive_columns(bound, plain_table(table.select(_needed_of(bound, table))))


def whole(table: pa.Table, threads: Threads = ALONE, apart: Iterable[str] = ()) -> pa.Table:
    """Return a table with one chunk per column, except for the columns `apart`."""

    def concat(name: str) -> pa.ChunkedArray:
        return table.column(name) if name in apart else _in_one_piece(table.column(name))

    return pa.table(threads.each(concat, table.column_names), schema=table.schema)


def _in_one_piece(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.num_chunks == 1:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    try:
        return pa.chunked_array([column.combine_chunks()], column.type)
    except pa.ArrowInvalid:  # strings of more than 2 GiB do not fit one chunk
        return column


def _take_rows(table: pa.Table, order: Ints, threads: Threads) -> pa.Table:
    """Return the rows in an order; threads share the columns."""
    index = pa.array(order)
    columns = threads.each(lambda column: column.combine_chunks().take(index), table.columns)
    return pa.table(columns, schema=table.schema)


def needed_columns(bound: BoundRows, asked: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the columns that matching and its result read: of the input, then derived columns.

    Args:
        bound: the clause.
        asked: the columns that the remaining conditions read; None: those of all conditions.
    """
    measured = {name for each in bound.measures for name in each.atoms}
    atoms = [each for name, each in bound.atoms.items() if asked is None or name in measured]
    used = {column for atom in atoms for column in read_by(atom)} | {*(asked or ())}
    used |= {*bound.partition, *(each.column for each in bound.order)}
    used |= {each.name for each in bound.output if not each.measure}
    names = [*bound.columns.names, *(each.name for each in bound.derived)]
    return tuple(name for name in names if name in used) or tuple(
        names[:1]
    )  # one column keeps the number of rows


def without_measures(bound: BoundRows) -> BoundRows:
    """Return a clause whose result has as many rows, and no column of the input: for counting."""
    one = Measure("n", "1", Literal(1, Kind.INT), ())
    asked = {attr.path[0] for each in bound.conditions for attr in attributes(each.expr)}
    atoms = {name: atom for name, atom in bound.atoms.items() if name in asked}
    counting = replace(bound, atoms=atoms, measures=(one,), output=(Shown("n", measure=True),))
    needed = needed_columns(counting)
    return replace(counting, derived=tuple(each for each in bound.derived if each.name in needed))


def tie_columns(bound: BoundRows) -> tuple[tuple[str, ...], ...]:
    """Return the columns whose hashes break ties, in tiers (S1.2); none if the rows have an order of arrival.

    Columns that conditions read come first, so that the matches do not depend on the shown columns.
    """
    if bound.arrival:
        return ()
    atoms = [atom for each in bound.conditions for atom in bound.atoms_of(each.expr)]
    first = {column for atom in atoms for column in read_by(atom)}
    first |= {*bound.partition, *(each.column for each in bound.order)}
    names = [name for name in needed_columns(bound) if not name.startswith(OURS)]
    tiers = (tuple(name for name in names if (name in first) == yes) for yes in (True, False))
    return tuple(filter(None, tiers))


def read_by(atom: Atom) -> set[str]:
    """Return the columns that an atom reads."""
    match atom:
        case Nav(column=column):
            return {column} - {CLASSIFIER}
        case RowAgg(columns=columns, where=where):
            return {*columns, *([where] if where else [])} - {CLASSIFIER}
    return set()


def _needed_of(bound: BoundRows, table: pa.Table) -> list[str]:
    """Return the columns of a table that are needed, or that needed columns are derived from."""
    used = {*needed_columns(bound), *(each.name for each in bound.derived)}
    for each in bound.derived:
        if each.expr is not None and each.name not in table.column_names:
            used |= {attr.path[0] for attr in attributes(each.expr)}
    return [name for name in table.column_names if name in used]


def _encode_partition(bound: BoundRows, table: pa.Table) -> pa.Table:
    """Return a table whose partition columns of strings are codes, which are quick to sort and to move."""
    for name in bound.partition:
        column = table.column(name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            at = table.column_names.index(name)
            table = table.set_column(at, name, column.combine_chunks().dictionary_encode())
    return table


def derive_columns(bound: BoundRows, table: pa.Table) -> pa.Table:
    """Return a table with its missing derived columns added."""
    for each in bound.derived:
        if each.name not in table.column_names:
            table = table.append_column(pa.field(each.name, each.type), compute_column(each, table))
    return table


# ---- derived columns


def compute_column(column: Derived, table: pa.Table, *, compiled_rows: int = 2_000) -> pa.Array:
    """Compute a column row by row; a fault gives null (S4.6).

    Args:
        column: the column.
        table: the rows.
        compiled_rows: from how many rows on the expression is compiled.
    """
    expr = column.expr
    if expr is None:
        raise UnsupportedError(
            f"only Spark can compute {column.sql}", hint="run the statement on a Spark session"
        )
    if isinstance(expr, Attr):
        return raw_column(table, expr.path).cast(column.type)
    paths = list(dict.fromkeys(each.path for each in attributes(expr)))
    if table.num_rows >= compiled_rows:
        from cerise.engines.results.computing import compute, is_compiled  # imports numba

        if is_compiled(expr):
            raw = {path: raw_column(table, path) for path in paths}
            return compute(expr, raw, table.num_rows).values.cast(column.type)
    arrays = [_read(table, path) for path in paths]
    if len(arrays) != 1:
        return _evaluate(expr, dict(zip(paths, arrays, strict=True)), table.num_rows).cast(column.type)
    encoded = arrays[0].dictionary_encode(null_encoding="encode")  # compute each distinct value once
    values = _evaluate(expr, {paths[0]: encoded.dictionary}, len(encoded.dictionary))
    return values.take(encoded.indices).cast(column.type)


def _evaluate(expr: Expr, arrays: dict[Path, pa.Array], rows: int) -> pa.Array:
    function = compile_expr(expr, lambda fault: None)
    columns = {path: array.to_pylist() for path, array in arrays.items()}
    return restore([function(columns, {"": (i,)}, {}) for i in range(rows)], check.kind_of(expr))


def _read(table: pa.Table, path: Path) -> pa.Array:
    column = raw_column(table, path)
    kind = kind_of(column.type)
    return canonical(column, kind, ".".join(path)) if kind in COMPUTABLE else column
