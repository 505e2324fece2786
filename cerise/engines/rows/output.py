"""Builds the result table of a clause from its matches (M23–M38)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.base import Bools, Ints, RowMatches
from cerise.engines.limits import DEFAULT, Limits
from cerise.engines.results.aggregates import Inputs, aggregate
from cerise.engines.results.value_codes import joint_codes
from cerise.engines.rows.order import Ordered
from cerise.engines.rows.view import ResultView
from cerise.errors import DataError, UnsupportedError
from cerise.kinds import canonical, restore
from cerise.pattern.check import kind_of
from cerise.pattern.evaluate import OnFault, compile_expr
from cerise.pattern.expr import Attr, Expr, attributes
from cerise.pattern.row_pattern import (
    CLASSIFIER,
    Atom,
    BoundRows,
    MatchNumber,
    MatchStatus,
    Measure,
    Nav,
    RowAgg,
)
from cerise.pattern.values import Fault


def to_table(bound: BoundRows, prepared: pa.Table, offsets: Ints, matches: RowMatches) -> pa.Table:
    """Return matches as a table with the columns of `bound.output`.

    Args:
        bound: the clause.
        prepared: the rows that were searched (`engines.rows.prepare`).
        offsets: where its partitions start, and the number of rows.
        matches: the matches.

    Raises:
        DataError: a measure cannot be computed.
        UnsupportedError: only Spark can compute a measure.
    """
    return show_matches(bound, Ordered(prepared, None, offsets, {}), matches)


def show_matches(
    bound: BoundRows,
    rows: Ordered,
    matches: RowMatches,
    limits: Limits = DEFAULT,
    forgive: OnFault | None = None,
) -> pa.Table:
    """Return matches among sorted rows as a table, like `to_table`.

    With `forgive`, a value that cannot be computed is null, and `forgive` is called for it.
    """
    view = ResultView.of(bound, rows, matches)
    atoms = _atoms(view, forgive)
    measures = {
        each.name: _measure(each, atoms, view.matched, bound, limits, forgive) for each in bound.measures
    }
    columns = [measures[each.name] if each.measure else view.show(each.name) for each in bound.output]
    return pa.Table.from_arrays(columns, names=[each.name for each in bound.output])


def atom_columns(
    bound: BoundRows, prepared: pa.Table, offsets: Ints, matches: RowMatches
) -> tuple[pa.Table, Ints]:
    """Return the atoms of measures for each row of the result, and the prepared row that it shows.

    Under ONE ROW PER MATCH that is the first row of the match, or the row at which an empty match was found;
    so it always exists.
    """
    view = ResultView.of(bound, Ordered(prepared, None, offsets, {}), matches)
    return _atoms(view), view.places.row


MATCHED = "_matched"  # whether a row belongs to a match


def to_atoms(bound: BoundRows, prepared: pa.Table, offsets: Ints, matches: RowMatches) -> pa.Table:
    """Return the columns from which Spark computes the result.

    These are the shown columns of the input, by their position in the output (`_s0`, …), the atoms of
    measures, and whether a row belongs to a match.
    """
    return show_atoms(bound, Ordered(prepared, None, offsets, {}), matches)


def show_atoms(bound: BoundRows, rows: Ordered, matches: RowMatches) -> pa.Table:
    """Return the columns from which Spark computes the result, for sorted rows, like `to_atoms`."""
    view = ResultView.of(bound, rows, matches)
    names = dict.fromkeys(name for each in bound.measures for name in each.atoms)
    columns = {f"_s{i}": view.show(each.name) for i, each in enumerate(bound.output) if not each.measure}
    columns |= {name: atom_column(bound.atoms[name], view) for name in names}
    return pa.table({**columns, MATCHED: pa.array(view.matched)})


def measure_atoms(bound: BoundRows, atoms: pa.Table, limits: Limits = DEFAULT) -> pa.Table:
    """Compute the result from the table of `to_atoms`; it equals that of `to_table`."""
    matched = np.asarray(atoms.column(MATCHED).combine_chunks().to_numpy(zero_copy_only=False), np.bool_)
    measures = {each.name: _measure(each, atoms, matched, bound, limits) for each in bound.measures}
    columns = [
        measures[each.name] if each.measure else atoms.column(f"_s{i}") for i, each in enumerate(bound.output)
    ]
    return pa.table(columns, names=[each.name for each in bound.output])


def _atoms(view: ResultView, forgive: OnFault | None = None) -> pa.Table:
    names = dict.fromkeys(name for each in view.bound.measures for name in each.atoms)
    columns = [atom_column(view.bound.atoms[name], view, forgive) for name in names]
    if not columns:  # a table without columns still has rows
        return pa.table({"": pa.nulls(len(view.places))})
    return pa.Table.from_arrays(columns, names=list(names))


def _measure(
    measure: Measure,
    atoms: pa.Table,
    matched: Bools,
    bound: BoundRows,
    limits: Limits,
    forgive: OnFault | None = None,
) -> pa.Array:
    """Return a measure: an atom, or an expression over atoms; null in rows without a match."""
    expr = measure.expr
    if expr is None:
        raise UnsupportedError(
            f"only Spark can compute the measure '{measure.name}'", span=measure.span, text=bound.text,
            hint="run the statement with cerise.sql on a Spark session",
        )  # fmt: skip
    if isinstance(expr, Attr):
        return atoms.column(expr.path[0]).combine_chunks()
    on_fault = forgive or _refuse(measure, bound)
    if matched.all():
        return _compute(expr, atoms, on_fault, limits)
    values = _compute(expr, atoms.filter(pa.array(matched)), on_fault, limits)
    return values.take(pa.array(np.cumsum(matched) - 1, mask=~matched))


def _compute(expr: Expr, atoms: pa.Table, on_fault: OnFault, limits: Limits) -> pa.Array:
    """Compute an expression by Spark's ANSI rules: `on_fault` raises an error, or forgives (S4.6)."""
    rows = atoms.num_rows
    columns = {each.path: atoms.column(each.path[0]) for each in attributes(expr)}
    if rows >= limits.compiled_rows:
        from cerise.engines.results.computing import compute, is_compiled  # imports numba

        if is_compiled(expr) and not (found := compute(expr, columns, rows)).faults:
            return found.values
    function = compile_expr(expr, on_fault)  # row by row, which finds the exact fault, if there is one
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


# ---- atoms of measures: a value for each row of the result (M23–M32)


BY = frozenset({"max_by", "min_by"})  # their first argument may be null


def atom_column(atom: Atom, view: ResultView, forgive: OnFault | None = None) -> pa.Array:
    """Return the values of an atom; null in rows without a match (M36)."""
    match atom:
        case MatchNumber():
            return pa.array(view.of_match(view.matches.numbers), pa.int64(), mask=~view.matched)
        case MatchStatus():
            return _status(view)
        case Nav():
            return _navigate(atom, view)
        case RowAgg():
            return _aggregate(atom, view, forgive)


def _status(view: ResultView) -> pa.Array:
    timeouts = view.matches.timeouts
    late = np.zeros(len(view.places), np.int64)
    if timeouts is not None:
        late = view.of_match(timeouts.astype(np.int64))
    return pa.array(["match", "timeout"]).take(pa.array(late, mask=~view.matched))


def _navigate(nav: Nav, view: ResultView) -> pa.Array:
    """Find the row of the match by variable and offset, then shift it within the partition."""
    place, exists = view.navigate(nav)
    if nav.column == CLASSIFIER:
        place = place + nav.shift
        exists &= (place >= view.first) & (place < view.end)
        labels = np.append(view.matches.labels, 0)[np.where(exists, place, -1)]
        return pa.array(view.bound.labels, pa.string()).take(pa.array(labels, mask=~exists))
    row = view.of_match(view.matches.starts) - view.first + place + nav.shift
    if nav.shift:
        part, offsets = view.of_match(view.matches.partition), view.ordered.offsets
        exists &= (row >= offsets[part]) & (row < offsets[part + 1])
    return view.take(nav.column, row, exists)


def _aggregate(agg: RowAgg, view: ResultView, forgive: OnFault | None) -> pa.Array:
    """Aggregate rows that pass the filter and have no null argument; if DISTINCT, the first of equal rows."""
    if agg.function == "count" and not agg.columns and agg.where is None:
        return pa.array(view.count_rows(agg.members, final=agg.final), pa.int64(), mask=~view.matched)
    which = np.flatnonzero(view.members(agg.members))
    if agg.where is not None:
        which = which[np.asarray(pc.fill_null(view.values(agg.where, which), False))]
    for column in agg.columns[1:] if agg.function in BY else agg.columns:
        which = which[np.asarray(pc.is_valid(view.values(column, which)))]
    if agg.distinct:
        which = _first_of_equals(which, agg.columns, view)
    mask = np.zeros(len(view.rows), np.bool_)
    mask[which] = True
    low, high = view.spans(mask, final=agg.final)
    columns = [view.values(column, which) for column in agg.columns]
    with np.errstate(all="ignore"):  # infinities and NaN are values
        inputs = Inputs(agg.columns, columns, view.owners[which], low, high)
        result = aggregate(agg.function, inputs, forgive)
    return result if view.matched.all() else pc.if_else(pa.array(view.matched), result, None)


def _first_of_equals(which: Ints, names: tuple[str, ...], view: ResultView) -> Ints:
    code, bound = joint_codes([(name, view.values(name, which)) for name in names], len(which))
    _, firsts = np.unique(view.owners[which] * bound + code, return_index=True)
    first: Ints = which[np.sort(firsts)]
    return first
