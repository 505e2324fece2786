"""What measures are computed from, as columns: one value for each row of the result (M23–M32)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.results.aggregates import AGGREGATES, Inputs
from cerise.engines.results.row_matches import Ints
from cerise.engines.results.value_codes import joint_codes
from cerise.engines.rows.places import View
from cerise.pattern.row_pattern import CLASSIFIER, Atom, MatchNumber, MatchStatus, Nav, RowAgg

BY = frozenset({"max_by", "min_by"})  # their first argument may be null


def atom_column(atom: Atom, view: View) -> pa.Array:
    """Return the values of an atom; all are null in rows that belong to no match (M36)."""
    match atom:
        case MatchNumber():
            return pa.array(view.of_match(view.matches.numbers), pa.int64(), mask=~view.matched)
        case MatchStatus():
            return _status(view)
        case Nav():
            return _reached(atom, view)
        case RowAgg():
            return _aggregated(atom, view)


def _status(view: View) -> pa.Array:
    timeouts = view.matches.timeouts
    late = np.zeros(len(view.places), np.int64)
    if timeouts is not None:
        late = view.of_match(timeouts.astype(np.int64))
    return pa.array(["match", "timeout"]).take(pa.array(late, mask=~view.matched))


def _reached(nav: Nav, view: View) -> pa.Array:
    """First a row of the match, counted among those of the variable; from there a row of the partition."""
    place, there = view.reached(nav)
    if nav.column == CLASSIFIER:
        place = place + nav.shift
        there &= (place >= view.first) & (place < view.end)
        labels = np.append(view.matches.labels, 0)[np.where(there, place, -1)]
        return pa.array(view.bound.labels, pa.string()).take(pa.array(labels, mask=~there))
    row = view.of_match(view.matches.starts) - view.first + place + nav.shift
    if nav.shift:
        part, offsets = view.of_match(view.matches.partition), view.ordered.offsets
        there &= (row >= offsets[part]) & (row < offsets[part + 1])
    return view.take(nav.column, row, there)


def _aggregated(agg: RowAgg, view: View) -> pa.Array:
    """Over rows that the filter keeps and whose arguments are not null; if distinct, the first of equals."""
    if agg.function == "count" and not agg.columns and agg.where is None:
        return pa.array(view.counted(agg.members, final=agg.final), pa.int64(), mask=~view.matched)
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
        result = AGGREGATES[agg.function](Inputs(agg.columns, columns, view.owners[which], low, high))
    return result if view.matched.all() else pc.if_else(pa.array(view.matched), result, None)


def _first_of_equals(which: Ints, names: tuple[str, ...], view: View) -> Ints:
    """Return, of the rows of each match that are equal in some columns, the first."""
    code, bound = joint_codes([(name, view.values(name, which)) for name in names], len(which))
    _, firsts = np.unique(view.owners[which] * bound + code, return_index=True)
    first: Ints = which[np.sort(firsts)]
    return first
