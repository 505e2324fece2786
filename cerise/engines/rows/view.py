"""The rows of the result, and what each of them sees of its match (M33–M38)."""

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
    """Matches in their rows, seen from the rows of the result; arrays are computed once."""

    bound: BoundRows
    ordered: Ordered
    matches: RowMatches
    places: Places

    @classmethod
    def of(cls, bound: BoundRows, ordered: Ordered, matches: RowMatches) -> View:
        return cls(bound, ordered, matches, places(bound, matches))

    @property
    def one(self) -> bool:
        return self.bound.show is Show.ONE

    @cached_property
    def rows(self) -> Ints:
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
        return self.of_match(self.matches.firsts)

    @cached_property
    def end(self) -> Ints:
        return self.of_match(self.matches.ends)

    def of_match(self, values: Ints) -> Ints:
        """Return, for each row of the result, a value of its match; 0 where it has none."""
        return values if self.one else np.append(values, 0)[self.places.match]

    def members(self, names: frozenset[str] | None) -> Bools:
        """Return which rows of all matches are mapped to one of some variables (None: to any)."""
        if names is None:
            return np.ones(len(self.matches.labels), np.bool_)
        chosen = np.array([label in names for label in self.bound.labels], np.bool_)
        return chosen[self.matches.labels]

    def spans(self, mask: Bools, *, final: bool) -> tuple[Ints, Ints]:
        """Return, for each row of the result, which of the rows in a mask it sees: from, and up to."""
        before = np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])
        return before[self.first], before[self.seen(final=final)]

    def seen(self, *, final: bool) -> Ints:
        """Return, for each row of the result, up to which of the rows of all matches it sees."""
        return self.end if final or self.one else self.places.until

    def reached(self, nav: Nav) -> tuple[Ints, Bools]:
        """Return the row of its match, of those of all matches, that each row of the result sees first.

        Also whether there is one.
        """
        if nav.members is None:
            low, high = self.first, self.seen(final=nav.final)
            nth = high - 1 - nav.offset if nav.last else low + nav.offset
            return nth, (nth >= low) & (nth < high)
        if self.one:
            nth = self._reached_in_matches(nav.members, -1 - nav.offset if nav.last else nav.offset)
            return nth, nth >= 0
        mask = self.members(nav.members)
        low, high = self.spans(mask, final=nav.final)
        nth = high - 1 - nav.offset if nav.last else low + nav.offset
        there = (nth >= low) & (nth < high)
        return np.append(np.flatnonzero(mask), 0)[np.where(there, nth, -1)], there

    def counted(self, names: frozenset[str] | None, *, final: bool) -> Ints:
        """Return how many rows mapped to one of some variables (None: to any) each row of the result sees."""
        if names is None:
            return self.seen(final=final) - self.first
        if not self.one:
            low, high = self.spans(self.members(names), final=final)
            return high - low
        from cerise.engines.rows.passes import count_labels  # this brings numba

        count = np.empty(len(self.matches), np.int64)
        count_labels(*self._labelled(), self._bits(names), count)
        return count

    def _reached_in_matches(self, names: frozenset[str], nth: int) -> Ints:
        from cerise.engines.rows.passes import reach  # this brings numba

        found = np.empty(len(self.matches), np.int64)
        reach(*self._labelled(), self._bits(names), nth, found)
        return found

    def _labelled(self) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
        labels = np.ascontiguousarray(self.matches.labels, "<i2").view(np.uint8)
        return labels, self.first, self.end

    def _bits(self, names: frozenset[str]) -> int:
        return sum(1 << i for i, label in enumerate(self.bound.labels) if label in names)

    def values(self, column: str, which: Ints) -> pa.Array:
        if column == CLASSIFIER:
            return pa.array(self.bound.labels, pa.string()).take(pa.array(self.matches.labels[which]))
        return self.take(column, self.rows[which])

    def show(self, name: str) -> pa.Array:
        """Return the values of a column in the rows that are shown."""
        if name in self.ordered.keys and self.matches.unmatched is None:
            return self._typed(
                self.ordered.keys[name].take(pa.array(self.of_match(self.matches.partition))), name
            )
        return self.take(name, self.places.row)

    def take(self, name: str, rows: Ints, there: Bools | None = None) -> pa.Array:
        """Return the values of a column in some rows, null where they are not there."""
        if there is None or there.all():
            index = pa.array(self.ordered.places(rows))
        else:
            index = pa.array(self.ordered.places(np.where(there, rows, 0)), mask=~there)
        column = self.ordered.table.column(name)
        taken = (column.chunk(0) if column.num_chunks == 1 else column).take(index)
        return self._typed(taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken, name)

    def _typed(self, array: pa.Array, name: str) -> pa.Array:
        """Return values of a column in its type: in the table they may be codes."""
        return array if array.type == self.bound.type_of(name) else array.cast(self.bound.type_of(name))
