"""Matches of a row pattern as the table that the clause promised (M33–M38)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from cerise.engines.results.row_matches import Bools, Ints, RowMatches
from cerise.engines.rows.atoms import atom_column
from cerise.engines.rows.ordering import Ordered
from cerise.engines.rows.places import View
from cerise.errors import DataError, UnsupportedError
from cerise.kinds import canonical, restore
from cerise.pattern.check import kind_of
from cerise.pattern.evaluate import compiled
from cerise.pattern.expr import Attr, Expr, attributes
from cerise.pattern.row_pattern import BoundRows, Measure
from cerise.pattern.values import Fault

WORTH_COMPILING = 2_000  # rows


def to_table(bound: BoundRows, prepared: pa.Table, offsets: Ints, matches: RowMatches) -> pa.Table:
    """Return matches as a table with the columns of `bound.output`.

    Args:
        bound: the clause.
        prepared: the rows that were matched (`engines.rows.prepare`).
        offsets: where its partitions start, and the number of rows.
        matches: what was found in them.

    Raises:
        DataError: where a measure cannot be computed.
        UnsupportedError: where only Spark can compute it.
    """
    return shown(bound, Ordered(prepared, None, offsets, {}), matches)


def shown(bound: BoundRows, rows: Ordered, matches: RowMatches) -> pa.Table:
    """Return matches among some rows as `to_table` does."""
    view = View.of(bound, rows, matches)
    atoms = _atoms(view)
    measures = {each.name: _measure(each, atoms, view.matched, bound) for each in bound.measures}
    columns = [measures[each.name] if each.measure else view.show(each.name) for each in bound.output]
    return pa.Table.from_arrays(columns, names=[each.name for each in bound.output])


def atom_columns(
    bound: BoundRows, prepared: pa.Table, offsets: Ints, matches: RowMatches
) -> tuple[pa.Table, Ints]:
    """Return what measures are computed from, for each row of the result, and which row that shows.

    The row is one of the prepared table: under ONE ROW PER MATCH, the first of the match, or where an
    empty one was found; so there always is one.
    """
    view = View.of(bound, Ordered(prepared, None, offsets, {}), matches)
    return _atoms(view), view.places.row


MATCHED = "_matched"  # whether a row belongs to a match


def to_atoms(bound: BoundRows, prepared: pa.Table, offsets: Ints, matches: RowMatches) -> pa.Table:
    """Return what the result is computed from, for whoever computes measures: Spark.

    Its columns are those of the input that are shown, by their place in the output (`_s0`, …), the atoms
    of measures, and whether a row belongs to a match.
    """
    return shown_atoms(bound, Ordered(prepared, None, offsets, {}), matches)


def shown_atoms(bound: BoundRows, rows: Ordered, matches: RowMatches) -> pa.Table:
    """Return what the result for matches among some rows is computed from, as `to_atoms` does."""
    view = View.of(bound, rows, matches)
    names = dict.fromkeys(name for each in bound.measures for name in each.atoms)
    columns = {f"_s{i}": view.show(each.name) for i, each in enumerate(bound.output) if not each.measure}
    columns |= {name: atom_column(bound.atoms[name], view) for name in names}
    return pa.table({**columns, MATCHED: pa.array(view.matched)})


def _atoms(view: View) -> pa.Table:
    names = dict.fromkeys(name for each in view.bound.measures for name in each.atoms)
    columns = [atom_column(view.bound.atoms[name], view) for name in names]
    if not columns:  # a table without columns still has rows
        return pa.table({"": pa.nulls(len(view.places))})
    return pa.Table.from_arrays(columns, names=list(names))


def _measure(measure: Measure, atoms: pa.Table, matched: Bools, bound: BoundRows) -> pa.Array:
    """Return a measure: an atom as it is, or computed from atoms; null in rows that belong to no match."""
    expr = measure.expr
    if expr is None:
        raise UnsupportedError(
            f"only Spark can compute the measure '{measure.name}'", span=measure.span, text=bound.text,
            hint="run the statement with cerise.sql on a Spark session",
        )  # fmt: skip
    if isinstance(expr, Attr):
        return atoms.column(expr.path[0]).combine_chunks()
    if matched.all():
        return _computed(expr, atoms, _refuse(measure, bound))
    values = _computed(expr, atoms.filter(pa.array(matched)), _refuse(measure, bound))
    return values.take(pa.array(np.cumsum(matched) - 1, mask=~matched))


def _computed(expr: Expr, atoms: pa.Table, refuse: Callable[[Fault], None]) -> pa.Array:
    """Compute an expression, by Spark's ANSI rules: what cannot be computed is an error (S4.6)."""
    rows = atoms.num_rows
    columns = {each.path: atoms.column(each.path[0]) for each in attributes(expr)}
    if rows >= WORTH_COMPILING:
        from cerise.engines.results.computing import compute, is_compiled  # this brings numba

        if is_compiled(expr) and not (found := compute(expr, columns, rows)).faults:
            return found.values
    function = compiled(expr, refuse)  # row by row: it knows which row is at fault, or that none is
    lists = {
        each.path: canonical(columns[each.path], kind_of(each), each.path[0]).to_pylist()
        for each in attributes(expr)
    }
    return restore([function(lists, {"": (i,)}, {}) for i in range(rows)], kind_of(expr))


def _refuse(measure: Measure, bound: BoundRows) -> Callable[[Fault], None]:
    def refuse(fault: Fault) -> None:
        raise DataError(
            f"{fault} in MEASURES {measure.name}", span=measure.span, text=bound.text,
            hint="exclude the case in DEFINE, or return its parts as measures of their own",
        ) from fault  # fmt: skip

    return refuse
