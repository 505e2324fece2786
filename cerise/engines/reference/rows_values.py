"""The values of navigations and aggregates at a row of a match, in plain Python (M19–M32).

Values are in canonical form (`kinds.canonical`); a value that cannot be computed raises `Fault`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cerise.kinds import COMPUTABLE, canonical, kind_of
from cerise.pattern.row_pattern import CLASSIFIER, Atom, BoundRows, MatchNumber, MatchStatus, Nav, RowAgg
from cerise.pattern.values import AGGREGATES, rank

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Scope:
    """A match, or the known part of it, and the current row of a running expression.

    Attributes:
        columns: the columns of the prepared table.
        low: the first row of the partition.
        high: the row after its last.
        start: the first row of the match.
        labels: the labels of its rows, as far as they are known: a later row has none (M20).
        current: how many of its rows a running expression sees: those up to the current row.
        number: its MATCH_NUMBER().
        status: its MATCH_STATUS().
    """

    columns: Columns
    low: int
    high: int
    start: int
    labels: Sequence[str]
    current: int
    number: int
    status: str = "match"

    def rows_of(self, members: frozenset[str] | None, *, final: bool) -> list[int]:
        known = self.labels if final else self.labels[: self.current]
        return [self.start + i for i, label in enumerate(known) if members is None or label in members]

    def at(self, column: str, row: int) -> Any:
        """Return the value of a column in a row of the partition; null outside the partition."""
        if column != CLASSIFIER:
            return self.columns[column][row] if self.low <= row < self.high else None
        inside = self.start <= row < self.start + len(self.labels)
        return self.labels[row - self.start] if inside else None


def read_columns(bound: BoundRows, table: pa.Table) -> dict[str, list[Any]]:
    """Return the columns that atoms and the window read, as plain Python values."""
    names: set[str] = {each.column for each in bound.order[:1]}
    for atom in bound.atoms.values():
        names |= reads(atom)
    return {name: _values(table.column(name), name) for name in names - {CLASSIFIER}}


def reads(atom: Atom) -> set[str]:
    """Return the columns that an atom reads."""
    match atom:
        case Nav(column=column):
            return {column}
        case RowAgg(columns=columns, where=where):
            return {*columns} | ({where} if where is not None else set())
        case MatchNumber() | MatchStatus():
            return set()


def _values(column: pa.ChunkedArray, name: str) -> list[Any]:
    kind = kind_of(column.type)
    values: list[Any] = (canonical(column, kind, name) if kind in COMPUTABLE else column).to_pylist()
    return values


def value_of(atom: Atom, scope: Scope) -> Any:
    """Return the value of an atom.

    Raises:
        Fault: it cannot be computed: a sum does not fit.
    """
    match atom:
        case MatchNumber():
            return scope.number
        case MatchStatus():
            return scope.status
        case Nav():
            return _navigate(atom, scope)
        case RowAgg():
            return _aggregate(atom, scope)


def _navigate(nav: Nav, scope: Scope) -> Any:
    """Find a row of the match among the variable's rows, then shift to a row of the partition."""
    rows = scope.rows_of(nav.members, final=nav.final)
    if nav.offset >= len(rows):
        return None
    row = rows[-1 - nav.offset] if nav.last else rows[nav.offset]
    return scope.at(nav.column, row + nav.shift)


def _aggregate(agg: RowAgg, scope: Scope) -> Any:
    """Aggregate rows that pass the filter and have no null argument; with DISTINCT, the first of equals."""
    rows = scope.rows_of(agg.members, final=agg.final)
    if agg.where is not None:
        rows = [row for row in rows if scope.at(agg.where, row) is True]
    inputs = [tuple(scope.at(column, row) for column in agg.columns) for row in rows]
    if agg.function in BY:
        return BY[agg.function]([each for each in inputs if each[1] is not None])
    inputs = [each for each in inputs if None not in each]
    if agg.distinct:
        inputs = _distinct(inputs)
    if agg.function == "count":
        return len(inputs)
    return SUMMARIES[agg.function]([each[0] for each in inputs])


def _distinct(inputs: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    firsts: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for each in inputs:
        firsts.setdefault(tuple(map(rank, each)), each)
    return list(firsts.values())


SUMMARIES: dict[str, Callable[[Sequence[Any]], Any]] = {
    **AGGREGATES,
    "any_value": lambda values: values[0] if values else None,
    "array_agg": lambda values: list(values) or None,
}
BY: dict[str, Callable[[Sequence[tuple[Any, ...]]], Any]] = {  # the first of equals wins
    "min_by": lambda pairs: min(pairs, key=lambda pair: rank(pair[1]), default=(None,))[0],
    "max_by": lambda pairs: max(pairs, key=lambda pair: rank(pair[1]), default=(None,))[0],
}
