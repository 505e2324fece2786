"""Turns matches into a table with the columns that the query promises (S7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Matches
from cerise.engines.limits import DEFAULT, Limits
from cerise.engines.match_ids import match_ids
from cerise.errors import DataError
from cerise.events import EventBatch, Path, raw_column
from cerise.kinds import Kind, restore
from cerise.pattern.bound import Bound, OutColumn
from cerise.pattern.check import kind_of
from cerise.pattern.evaluate import OnFault, compile_expr
from cerise.pattern.expr import Agg, At, Attr, Expr, attributes, rebuild
from cerise.pattern.query import Total, Var
from cerise.pattern.resolve import is_single_event
from cerise.pattern.show import show_expr
from cerise.pattern.values import Fault

Rows = npt.NDArray[np.int64]


def to_table(
    matches: Matches, bound: Bound, limits: Limits = DEFAULT, forgive: OnFault | None = None
) -> pa.Table:
    """Return matches as a table of `bound.output_schema`.

    Args:
        matches: the matches.
        bound: the query.
        limits: the sizes from which columns are computed by compiled code.
        forgive: called for each value of RETURN that cannot be computed, and is null; None: that is an error.
    """
    ends, shows = ends_of(matches), any(isinstance(column.fill, Var) for column in bound.columns)
    events = _structs(matches.events.table) if shows else None
    columns = [_column(column, matches, bound, (ends, events), limits, forgive) for column in bound.columns]
    return pa.Table.from_arrays(columns, schema=bound.output_schema)


def _column(
    column: OutColumn,
    matches: Matches,
    bound: Bound,
    known: tuple[tuple[Rows, Rows], pa.StructArray | None],
    limits: Limits,
    forgive: OnFault | None,
) -> pa.Array:
    table, (ends, events) = matches.events.table, known
    match column.fill:
        case "match_id":
            return match_ids(matches, bound)
        case "first_time" | "last_time":
            times = raw_column(table, (bound.schema.time,))
            return times.take(pa.array(ends[0] if column.fill == "first_time" else ends[1]))
        case "into":
            return pa.array([bound.query.into] * len(matches), pa.string())
        case tuple() as path:
            return raw_column(table, path).take(pa.array(ends[0]))
        case Var(name):
            assert events is not None
            return _take(events, matches.rows[name], many=column.many)
        case Attr() as attr if column.kind is None:
            return _pass_through(attr, matches, many=column.many)
        case str() | Total():
            raise AssertionError(column.fill)
    return _compute_column(column, column.fill, matches, limits, forgive)


def ends_of(matches: Matches) -> tuple[Rows, Rows]:
    """Return the first and the last row of each match."""
    first = np.full(len(matches), np.iinfo(np.int64).max)
    last = np.full(len(matches), -1)
    for rows in matches.rows.values():
        for pick, into, better in ((0, first, np.minimum), (-1, last, np.maximum)):
            ends = nth(rows, pick)
            if not ends.null_count:
                better(into, np.asarray(ends), out=into)
                continue
            valid = np.asarray(ends.is_valid())
            into[valid] = better(into[valid], ends.drop_null().to_numpy(zero_copy_only=False))
    return first, last


def _structs(table: pa.Table) -> pa.StructArray:
    arrays = [column.combine_chunks() for column in table.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(table.schema))


def _take(values: pa.Array, rows: pa.ListArray, *, many: bool) -> pa.Array:
    """Return the value of the single event of each match, or the list of the values of its events."""
    if not many:
        return values.take(nth(rows, 0))
    lengths = rows.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.take(rows.flatten()), mask=rows.is_null())


def _pass_through(attr: Attr, matches: Matches, *, many: bool) -> pa.Array:
    values = raw_column(matches.events.table, attr.path)
    rows = matches.rows[attr.var]
    if many:
        return _take(values, rows, many=True)
    n = attr.at - 1 if isinstance(attr.at, int) else -1 if attr.at is At.LAST else 0
    return values.take(nth(rows, n))


def _compute_column(
    column: OutColumn, expr: Expr, matches: Matches, limits: Limits, forgive: OnFault | None
) -> pa.Array:
    """Compute a column of RETURN by ANSI rules: a value that cannot be computed is an error (S4.6).

    With `forgive`, the smallest expression that cannot be computed is null, as in WHERE.
    """
    assert column.kind is not None
    if (values := compute_at_once(expr, matches, limits)) is not None:
        return values
    function = compile_expr(expr, forgive or refuse(expr))
    columns = matches.events.columns({each.path for each in attributes(expr) if each.path})
    names = list(matches.rows)
    listed = zip(*(rows.to_pylist() for rows in matches.rows.values()), strict=True)
    bindings = (
        {name: tuple(rows) for name, rows in zip(names, match, strict=True) if rows is not None}
        for match in listed
    )
    return restore([function(columns, binding, {}) for binding in bindings], column.kind)


def refuse(expr: Expr) -> Callable[[Fault], None]:
    """Return the handler that raises an error for a value that cannot be computed."""

    def refuse(fault: Fault) -> None:
        raise DataError(
            f"{fault} in RETURN {show_expr(expr)}", hint="exclude the case in WHERE, or return its parts"
        ) from fault

    return refuse


SUMMED = frozenset({"avg", "stddev", "sum"})
NUMBERS = frozenset({Kind.INT, Kind.FLOAT})
PLACES = {At.EVERY: 0, At.CURRENT: 0, At.LAST: -1}


class _OneByOne(Exception):
    """Raised for an expression that cannot be computed for all matches at once."""


def compute_at_once(expr: Expr, matches: Matches, limits: Limits = DEFAULT) -> pa.Array | None:
    """Return the values of an expression for all matches; None if it must be computed match by match.

    It must if matches are few, if it computes text, or if a value cannot be computed: computing match by
    match then finds the match at fault, or that no match needs the value.
    """
    if len(matches) < limits.compiled_rows:
        return None
    atoms = _Atoms(matches)
    try:
        return _compute_rows(atoms.replace_atoms(expr), atoms.columns, len(matches))
    except _OneByOne:
        return None


def _compute_rows(expr: Expr, columns: dict[Path, pa.Array], rows: int) -> pa.Array:
    from cerise.engines.results.computing import compute, is_compiled  # this brings numba

    if not is_compiled(expr) or (found := compute(expr, columns, rows)).faults:
        raise _OneByOne
    return found.values


@dataclass(slots=True)
class _Atoms:
    """The inputs of an expression over matches, as columns: attributes of one event, and aggregates."""

    matches: Matches
    columns: dict[Path, pa.Array] = field(default_factory=dict)
    _known: dict[Expr, Attr] = field(default_factory=dict)

    def replace_atoms(self, expr: Expr) -> Expr:
        """Return an expression with its attributes and aggregates replaced by columns."""
        if not isinstance(expr, Attr | Agg):
            return rebuild(expr, self.replace_atoms)
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
        valid = np.asarray(values.is_valid())
        before, ends = np.concatenate([[0], np.cumsum(valid, dtype=np.int64)]), np.cumsum(lengths)
        owners = np.repeat(np.arange(len(rows)), lengths)[valid]
        name, some = show_expr(agg.arg), values.drop_null()
        inputs = Inputs((name,), [some], owners, before[ends - lengths], before[ends])
        try:
            return AGGREGATES[agg.function](inputs)
        except DataError as error:  # a sum is too large
            raise _OneByOne from error


def _over_events(expr: Expr, events: EventBatch) -> pa.Array:
    """Return the values of an expression over one event, for all events; numbers as int64 and float64."""
    if isinstance(expr, Attr):
        return events.column(expr.path) if kind_of(expr) in NUMBERS else _raw(events, expr.path)
    columns = {each.path: _raw(events, each.path) for each in attributes(expr)}
    return _compute_rows(_at_one(expr), columns, len(events))


def _raw(events: EventBatch, path: Path) -> pa.Array:
    values = raw_column(events.table, path)
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def nth(rows: pa.ListArray, n: int) -> pa.Array:
    """Return the n-th element of each list, from 0, or backwards from -1; null for shorter lists."""
    if n in (0, -1) and _is_single(rows):
        return rows.flatten()
    lengths = _lengths(rows)
    index = n if n >= 0 else lengths + n
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    missing = (index < 0) | (index >= lengths)
    flat = rows.flatten()
    return flat.take(pa.array(np.where(missing, 0, starts + index), mask=missing))


def _is_single(rows: pa.ListArray) -> bool:
    """Whether each list has one element, as those of a variable that is not a Kleene variable."""
    offsets = np.asarray(rows.offsets)
    whole = not rows.null_count and offsets[-1] - offsets[0] == len(rows)
    return bool(whole and (offsets[1:] - offsets[:-1] == 1).all())


def _lengths(rows: pa.ListArray) -> npt.NDArray[np.int64]:
    lengths = rows.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, np.int64)


def _at_one(expr: Expr) -> Expr:
    return replace(expr, at=At.EVERY) if isinstance(expr, Attr) else rebuild(expr, _at_one)
