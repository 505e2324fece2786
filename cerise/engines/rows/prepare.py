"""The rows as matching needs them: with derived columns, partition after partition, each in order."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from cerise.engines.rows.matches import Bools, Ints
from cerise.engines.rows.ranks import joint_codes, ranks
from cerise.errors import UnsupportedError
from cerise.events import Path, raw_column
from cerise.kinds import COMPUTABLE, canonical, kind_of, plain_table, restore
from cerise.pattern import check
from cerise.pattern.evaluate import compiled
from cerise.pattern.expr import Attr, Expr, attributes
from cerise.pattern.rows import CLASSIFIER, Atom, BoundRows, Derived, Nav, Order, RowAgg

WORTH_THREADS = 100_000  # rows


def prepare(bound: BoundRows, table: pa.Table) -> pa.Table:
    """Return the input with the derived columns, sorted by partition, then as ORDER BY says (M2, M4).

    Rows that are equal in all of these keep the order that they have.

    Raises:
        UnsupportedError: where a derived column is missing that only Spark can compute.
    """
    table = _coded(bound, derived(bound, plain_table(table.select(_needed_of(bound, table)))))
    order = _sorted_rows(bound, table)
    return table if order is None else _taken(table, order)


def _taken(table: pa.Table, order: Ints) -> pa.Table:
    """Return rows in an order; large columns are moved side by side."""
    index = pa.array(order)
    if len(order) < WORTH_THREADS:
        return table.take(index)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        columns = list(pool.map(lambda column: column.combine_chunks().take(index), table.columns))
    return pa.table(columns, schema=table.schema)


def needed_columns(bound: BoundRows) -> tuple[str, ...]:
    """Return the columns that matching and its result read: of the input, then derived ones."""
    used = {column for atom in bound.atoms.values() for column in read_by(atom)}
    used |= {*bound.partition, *(each.column for each in bound.order)}
    used |= {each.name for each in bound.output if not each.measure}
    names = [*bound.columns.names, *(each.name for each in bound.derived)]
    return tuple(name for name in names if name in used)


def read_by(atom: Atom) -> set[str]:
    """Return the columns that an atom reads."""
    match atom:
        case Nav(column=column):
            return {column} - {CLASSIFIER}
        case RowAgg(columns=columns, where=where):
            return {*columns, *([where] if where else [])} - {CLASSIFIER}
    return set()


def _needed_of(bound: BoundRows, table: pa.Table) -> list[str]:
    """Return the columns of a table that are needed, or that needed ones are derived from."""
    used = {*needed_columns(bound), *(each.name for each in bound.derived)}
    for each in bound.derived:
        if each.expr is not None and each.name not in table.column_names:
            used |= {attr.path[0] for attr in attributes(each.expr)}
    return [name for name in table.column_names if name in used]


def _coded(bound: BoundRows, table: pa.Table) -> pa.Table:
    """Return a table in which strings that partition it are codes: these are quick to sort and to move."""
    for name in bound.partition:
        column = table.column(name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            at = table.column_names.index(name)
            table = table.set_column(at, name, column.combine_chunks().dictionary_encode())
    return table


def derived(bound: BoundRows, table: pa.Table) -> pa.Table:
    """Return a table with the derived columns that it has not."""
    for each in bound.derived:
        if each.name not in table.column_names:
            table = table.append_column(pa.field(each.name, each.type), computed(each, table))
    return table


def partitions(bound: BoundRows, table: pa.Table) -> Ints:
    """Return where each partition of a prepared table starts, and at the end the number of rows."""
    rows = table.num_rows
    if not rows:
        return np.zeros(1, np.int64)
    code, _ = joint_codes([(name, table.column(name)) for name in bound.partition], rows)
    inner = np.flatnonzero(code[1:] != code[:-1]) + 1
    return np.concatenate([[0], inner, [rows]]).astype(np.int64)


# ---- derived columns


def computed(column: Derived, table: pa.Table) -> pa.Array:
    """Compute a column from single rows; what cannot be computed is null (S4.6)."""
    expr = column.expr
    if expr is None:
        raise UnsupportedError(
            f"only Spark can compute {column.sql}", hint="run the statement on a Spark session"
        )
    if isinstance(expr, Attr):
        return raw_column(table, expr.path).cast(column.type)
    paths = list(dict.fromkeys(each.path for each in attributes(expr)))
    arrays = [_read(table, path) for path in paths]
    if len(arrays) != 1:
        return _evaluated(expr, dict(zip(paths, arrays, strict=True)), table.num_rows).cast(column.type)
    encoded = arrays[0].dictionary_encode(null_encoding="encode")  # once for each distinct value
    values = _evaluated(expr, {paths[0]: encoded.dictionary}, len(encoded.dictionary))
    return values.take(encoded.indices).cast(column.type)


def _evaluated(expr: Expr, arrays: dict[Path, pa.Array], rows: int) -> pa.Array:
    function = compiled(expr, lambda fault: None)
    columns = {path: array.to_pylist() for path, array in arrays.items()}
    return restore([function(columns, {"": (i,)}, {}) for i in range(rows)], check.kind_of(expr))


def _read(table: pa.Table, path: Path) -> pa.Array:
    column = raw_column(table, path)
    kind = kind_of(column.type)
    return canonical(column, kind, ".".join(path)) if kind in COMPUTABLE else column


# ---- the order


def _sorted_rows(bound: BoundRows, table: pa.Table) -> Ints | None:
    """Return the rows in order, or None where they are in order already."""
    code, count = joint_codes([(name, table.column(name)) for name in bound.partition], table.num_rows)
    keys = [key for each in bound.order for key in _sort_keys(each, table)]
    if _ascending([code, *keys]):
        return None
    if _ascending(keys):
        return _grouped(code, count)
    order = np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])
    return order if count == 1 else order[_grouped(code[order], count)]


def _grouped(code: Ints, count: int) -> Ints:
    """Return the rows by their code, those of equal codes as they are, in time linear in their number."""
    if count > 8 * len(code) + 1024:
        distinct, code = np.unique(code, return_inverse=True)
        count = len(distinct)
    from cerise.kernels.arrays import group

    ends = np.cumsum(np.bincount(code, minlength=count))
    order = np.empty(len(code), np.int64)
    group(code, np.concatenate([[0], ends[:-1]]), order)
    return order


def _sort_keys(order: Order, table: pa.Table) -> list[Ints]:
    """Return the integers that sort a column as asked: whether there is a value, if some lack one, and it."""
    rank, nulls = ranks(table.column(order.column), order.column)
    if order.descending:
        rank = ~rank
    if nulls is None:
        return [rank]
    return [(~nulls if order.nulls_first else nulls).astype(np.int64), np.where(nulls, 0, rank)]


def _ascending(keys: list[Ints]) -> bool:
    """Whether rows are in the order of keys, the first of them first."""
    tied: Bools | None = None
    for key in keys:
        before, after = key[:-1], key[1:]
        falls = before > after if tied is None else (before > after) & tied
        if falls.any():
            return False
        tied = before == after if tied is None else (before == after) & tied
    return True
