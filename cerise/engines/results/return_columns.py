"""Columns of RETURN for all matches at once: what `pattern.evaluate` computes match by match, compiled."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Matches
from cerise.errors import DataError
from cerise.events import EventBatch, Path, raw_column
from cerise.kinds import Kind
from cerise.pattern.check import kind_of
from cerise.pattern.expr import Agg, At, Attr, Expr, attributes, rebuild
from cerise.pattern.resolve import is_single_event
from cerise.pattern.show import show_expr

WORTH_COMPILING = 2_000  # matches; fewer are computed one by one
SUMMED = frozenset({"avg", "stddev", "sum"})
NUMBERS = frozenset({Kind.INT, Kind.FLOAT})
PLACES = {At.EVERY: 0, At.CURRENT: 0, At.LAST: -1}


class _OneByOne(Exception):
    """This cannot be computed for all matches at once, or a value cannot be computed at all."""


def computed(expr: Expr, matches: Matches) -> pa.Array | None:
    """Return the values of an expression; None where it must be computed match by match.

    That is so where matches are few, where text is computed, and where something cannot be computed, so that
    whoever looks at each match finds the one at fault, or that there is none.
    """
    if len(matches) < WORTH_COMPILING:
        return None
    atoms = _Atoms(matches)
    try:
        return _compiled(atoms.replaced(expr), atoms.columns, len(matches))
    except _OneByOne:
        return None


def _compiled(expr: Expr, columns: dict[Path, pa.Array], rows: int) -> pa.Array:
    from cerise.engines.results.computing import compute, is_compiled  # this brings numba

    if not is_compiled(expr) or (found := compute(expr, columns, rows)).faults:
        raise _OneByOne
    return found.values


@dataclass(slots=True)
class _Atoms:
    """What an expression takes from matches: attributes of one event, and aggregates, as columns."""

    matches: Matches
    columns: dict[Path, pa.Array] = field(default_factory=dict)
    _known: dict[Expr, Attr] = field(default_factory=dict)

    def replaced(self, expr: Expr) -> Expr:
        """Return an expression over these columns."""
        if not isinstance(expr, Attr | Agg):
            return rebuild(expr, self.replaced)
        if expr not in self._known:
            path = (f"_{len(self.columns)}",)
            self.columns[path] = self._aggregate(expr) if isinstance(expr, Agg) else self._attribute(expr)
            self._known[expr] = Attr("", path, kind=kind_of(expr))
        return self._known[expr]

    def _attribute(self, attr: Attr) -> pa.Array:
        if not isinstance(attr.at, int) and attr.at not in PLACES:
            raise _OneByOne
        place = attr.at - 1 if isinstance(attr.at, int) else PLACES[attr.at]
        return _raw(self.matches.events, attr.path).take(nth(self.matches.rows[attr.var], place))

    def _aggregate(self, agg: Agg) -> pa.Array:
        from cerise.engines.results.aggregates import AGGREGATES, Inputs

        if not is_single_event(agg.arg) or (agg.function in SUMMED and kind_of(agg.arg) not in NUMBERS):
            raise _OneByOne
        attr = attributes(agg.arg)[0]
        rows = self.matches.rows[attr.var]
        lengths = _lengths(rows)
        if not attr.path:
            return pa.array(lengths)
        values = _over_events(agg.arg, self.matches.events).take(rows.flatten())
        there = np.asarray(values.is_valid())
        before, ends = np.concatenate([[0], np.cumsum(there, dtype=np.int64)]), np.cumsum(lengths)
        owners = np.repeat(np.arange(len(rows)), lengths)[there]
        name, some = show_expr(agg.arg), values.drop_null()
        inputs = Inputs((name,), [some], owners, before[ends - lengths], before[ends])
        try:
            return AGGREGATES[agg.function](inputs)
        except DataError as error:  # a sum is too large
            raise _OneByOne from error


def _over_events(expr: Expr, events: EventBatch) -> pa.Array:
    """Return the values of an expression about one event, for all events; numbers as int64 and float64."""
    if isinstance(expr, Attr):
        return events.column(expr.path) if kind_of(expr) in NUMBERS else _raw(events, expr.path)
    columns = {each.path: _raw(events, each.path) for each in attributes(expr)}
    return _compiled(_at_one(expr), columns, len(events))


def _raw(events: EventBatch, path: Path) -> pa.Array:
    values = raw_column(events.table, path)
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def nth(rows: pa.ListArray, n: int) -> pa.Array:
    """Return the n-th element of each list, counted from 0 or backwards from -1; null where there is none."""
    lengths = _lengths(rows)
    index = n if n >= 0 else lengths + n
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    missing = (index < 0) | (index >= lengths)
    flat = rows.flatten()
    return flat.take(pa.array(np.where(missing, 0, starts + index), mask=missing))


def _lengths(rows: pa.ListArray) -> npt.NDArray[np.int64]:
    lengths = rows.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, np.int64)


def _at_one(expr: Expr) -> Expr:
    return replace(expr, at=At.EVERY) if isinstance(expr, Attr) else rebuild(expr, _at_one)
