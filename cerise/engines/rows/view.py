"""The rows of the result, and the rows of its match that each can read (M33–M38)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Bools, Ints, RowMatches
from cerise.engines.rows.order import Ordered
from cerise.pattern.row_pattern import CLASSIFIER, BoundRows, Nav, Show


@dataclass(frozen=True, slots=True)
class ResultRows:
    """The rows of the result in order: by partition, match and row.

    Attributes:
        match: the match of each row; -1: none (M36).
        until: the end, among the rows of all matches, of the rows that a running expression reads.
        row: the row of the prepared table that it shows; under ONE ROW PER MATCH the first of the match.
    """

    match: Ints
    until: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.match)


def places(bound: BoundRows, matches: RowMatches) -> ResultRows:
    """Return the rows of the result for matches."""
    if bound.show is Show.ONE:
        return ResultRows(np.arange(len(matches), dtype=np.int64), matches.ends, matches.starts)
    shown = np.arange(len(matches.labels), dtype=np.int64)
    if matches.excluded is not None:
        shown = shown[~matches.excluded]
    parts = [ResultRows(matches.owners[shown], shown + 1, matches.rows[shown])]
    if bound.show is not Show.OMIT_EMPTY and (empty := np.flatnonzero(matches.lengths == 0)).size:
        parts.append(ResultRows(empty, matches.ends[empty], matches.starts[empty]))
    if matches.unmatched is not None:
        none = np.full(len(matches.unmatched), -1, np.int64)
        parts.append(ResultRows(none, none + 1, matches.unmatched))
    return parts[0] if len(parts) == 1 else _merge(parts, matches)


def _merge(parts: list[ResultRows], matches: RowMatches) -> ResultRows:
    """Sort rows by the start of their match; an unmatched row counts as its own start."""
    match, until, row = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("match", "until", "row")
    )
    begins = np.where(match >= 0, np.append(matches.starts, 0)[match], row)
    order = np.argsort(begins, kind="stable")
    return ResultRows(match[order], until[order], row[order])


@dataclass(frozen=True)
class ResultView:
    """The matches as seen from the rows of the result; arrays are computed once."""

    bound: BoundRows
    ordered: Ordered
    matches: RowMatches
    places: ResultRows

    @classmethod
    def of(cls, bound: BoundRows, ordered: Ordered, matches: RowMatches) -> ResultView:
        return cls(bound, ordered, matches, places(bound, matches))

    @property
    def one(self) -> bool:
        return self.bound.show is Show.ONE

    @cached_property
    def rows(self) -> Ints:
        return self.matches.rows

    @cached_property
    def owners(self) -> Ints:
        """The match of each of these rows."""
        return self.matches.owners

    @cached_property
    def matched(self) -> Bools:
        """A mask of the rows of the result that belong to a match."""
        return self.places.match >= 0

    @cached_property
    def first(self) -> Ints:
        return self.of_match(self.matches.firsts)

    @cached_property
    def end(self) -> Ints:
        return self.of_match(self.matches.ends)

    def of_match(self, values: Ints) -> Ints:
        """Return for each row of the result a value of its match; 0: it has no match."""
        return values if self.one else np.append(values, 0)[self.places.match]

    def members(self, names: frozenset[str] | None) -> Bools:
        """Return a mask of the rows of all matches that are mapped to one of the variables (None: to any)."""
        if names is None:
            return np.ones(len(self.matches.labels), np.bool_)
        chosen = np.array([label in names for label in self.bound.labels], np.bool_)
        return chosen[self.matches.labels]

    def spans(self, mask: Bools, *, final: bool) -> tuple[Ints, Ints]:
        """Return for each row of the result the range of masked rows that it can read."""
        before = np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])
        return before[self.first], before[self.find_ends(final=final)]

    def find_ends(self, *, final: bool) -> Ints:
        """Return for each row of the result the end of the rows of its match that it can read."""
        return self.end if final or self.one else self.places.until

    def navigate(self, nav: Nav) -> tuple[Ints, Bools]:
        """Return for each row of the result the row of its match that a navigation reaches before its shift.

        Rows count over all matches. The second array tells whether the row exists.
        """
        if nav.members is None:
            low, high = self.first, self.find_ends(final=nav.final)
            nth = high - 1 - nav.offset if nav.last else low + nav.offset
            return nth, (nth >= low) & (nth < high)
        if self.one:
            nth = self._navigate_matches(nav.members, -1 - nav.offset if nav.last else nav.offset)
            return nth, nth >= 0
        mask = self.members(nav.members)
        low, high = self.spans(mask, final=nav.final)
        nth = high - 1 - nav.offset if nav.last else low + nav.offset
        exists = (nth >= low) & (nth < high)
        return np.append(np.flatnonzero(mask), 0)[np.where(exists, nth, -1)], exists

    def count_rows(self, names: frozenset[str] | None, *, final: bool) -> Ints:
        """Return for each row of the result how many rows of the variables (None: of any) it can read."""
        if names is None:
            return self.find_ends(final=final) - self.first
        if not self.one:
            low, high = self.spans(self.members(names), final=final)
            return high - low
        from cerise.engines.rows.passes import count_labels  # imports numba

        count = np.empty(len(self.matches), np.int64)
        count_labels(*self._label_arrays(), self._bits(names), count)
        return count

    def _navigate_matches(self, names: frozenset[str], nth: int) -> Ints:
        from cerise.engines.rows.passes import reach  # imports numba

        found = np.empty(len(self.matches), np.int64)
        reach(*self._label_arrays(), self._bits(names), nth, found)
        return found

    def _label_arrays(self) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
        labels = np.ascontiguousarray(self.matches.labels, "<i2").view(np.uint8)
        return labels, self.first, self.end

    def _bits(self, names: frozenset[str]) -> int:
        return sum(1 << i for i, label in enumerate(self.bound.labels) if label in names)

    def values(self, column: str, which: Ints) -> pa.Array:
        if column == CLASSIFIER:
            return pa.array(self.bound.labels, pa.string()).take(pa.array(self.matches.labels[which]))
        return self.take(column, self.rows[which])

    def show(self, name: str) -> pa.Array:
        """Return the values of a column in the shown rows."""
        if name in self.ordered.keys and self.matches.unmatched is None:
            return self._cast(
                self.ordered.keys[name].take(pa.array(self.of_match(self.matches.partition))), name
            )
        return self.take(name, self.places.row)

    def take(self, name: str, rows: Ints, exists: Bools | None = None) -> pa.Array:
        """Return the values of a column in rows; null where a row does not exist."""
        if exists is None or exists.all():
            index = pa.array(self.ordered.places(rows))
        else:
            index = pa.array(self.ordered.places(np.where(exists, rows, 0)), mask=~exists)
        column = self.ordered.table.column(name)
        taken = (column.chunk(0) if column.num_chunks == 1 else column).take(index)
        return self._cast(taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken, name)

    def _cast(self, array: pa.Array, name: str) -> pa.Array:
        """Return values of a column in its declared type; in the table they may be codes."""
        return array if array.type == self.bound.type_of(name) else array.cast(self.bound.type_of(name))
