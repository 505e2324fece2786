"""The rows of the result, and what each of them sees of its match (M33–M38)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from cerise.engines.rows.matches import Bools, Ints, RowMatches
from cerise.pattern.rows import CLASSIFIER, BoundRows, Show


@dataclass(frozen=True, slots=True)
class Places:
    """The rows of the result in order: by partition, match and row.

    Attributes:
        match: which match each belongs to; -1: none (M36).
        until: where, among the rows of all matches, those end that a running expression sees.
        row: the row of the prepared table that it shows; under ONE ROW PER MATCH the first of the match.
    """

    match: Ints
    until: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.match)


def places(bound: BoundRows, matches: RowMatches) -> Places:
    """Return the rows that come out for matches."""
    if bound.show is Show.ONE:
        return Places(np.arange(len(matches), dtype=np.int64), matches.ends, matches.starts)
    shown = np.arange(len(matches.labels), dtype=np.int64)
    if matches.excluded is not None:
        shown = shown[~matches.excluded]
    parts = [Places(matches.owners[shown], shown + 1, matches.rows[shown])]
    if bound.show is not Show.OMIT_EMPTY and (empty := np.flatnonzero(matches.lengths == 0)).size:
        parts.append(Places(empty, matches.ends[empty], matches.starts[empty]))
    if matches.unmatched is not None:
        none = np.full(len(matches.unmatched), -1, np.int64)
        parts.append(Places(none, none + 1, matches.unmatched))
    return parts[0] if len(parts) == 1 else _merged(parts, matches)


def _merged(parts: list[Places], matches: RowMatches) -> Places:
    """Put rows in the order of where their match starts; an unmatched row is a start without a match."""
    match, until, row = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("match", "until", "row")
    )
    begins = np.where(match >= 0, np.append(matches.starts, 0)[match], row)
    order = np.argsort(begins, kind="stable")
    return Places(match[order], until[order], row[order])


@dataclass(frozen=True)
class View:
    """Matches in their table, seen from the rows of the result; arrays are computed once."""

    bound: BoundRows
    table: pa.Table
    offsets: Ints
    matches: RowMatches
    places: Places

    @cached_property
    def rows(self) -> Ints:
        """The rows of all matches in the prepared table."""
        return self.matches.rows

    @cached_property
    def owners(self) -> Ints:
        """Which match each of them belongs to."""
        return self.matches.owners

    @cached_property
    def matched(self) -> Bools:
        """Which rows of the result belong to a match."""
        return self.places.match >= 0

    @cached_property
    def first(self) -> Ints:
        """Where, for each row of the result, the rows of its match begin."""
        return self.of_match(self.matches.firsts)

    @cached_property
    def end(self) -> Ints:
        """Where, for each row of the result, the rows of its match end."""
        return self.of_match(self.matches.ends)

    def of_match(self, values: Ints) -> Ints:
        """Return, for each row of the result, a value of its match; 0 where it has none."""
        return np.append(values, 0)[self.places.match]

    def members(self, names: frozenset[str] | None) -> Bools:
        """Return which rows of all matches are mapped to one of some variables (None: to any)."""
        if names is None:
            return np.ones(len(self.rows), np.bool_)
        chosen = np.array([label in names for label in self.bound.labels], np.bool_)
        return chosen[self.matches.labels]

    def spans(self, mask: Bools, *, final: bool) -> tuple[Ints, Ints]:
        """Return, for each row of the result, which of the rows in a mask it sees: from, and up to."""
        before = np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])
        return before[self.first], before[self.end if final else self.places.until]

    def values(self, column: str, which: Ints) -> pa.Array:
        """Return the values of a column for some of the rows of all matches."""
        if column == CLASSIFIER:
            return pa.array(self.bound.labels, pa.string()).take(pa.array(self.matches.labels[which]))
        return self.take(column, self.rows[which])

    def take(self, name: str, rows: Ints, there: Bools | None = None) -> pa.Array:
        """Return the values of a column in some rows, null where they are not there."""
        index = pa.array(
            rows if there is None else np.where(there, rows, 0), mask=None if there is None else ~there
        )
        taken = self.table.column(name).take(index)
        array = taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken
        return array if array.type == self.bound.type_of(name) else array.cast(self.bound.type_of(name))
