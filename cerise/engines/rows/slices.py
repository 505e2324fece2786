"""One partition in slices that are searched apart (D3): a slice has the matches that start in it.

Matches may depend on those of the slices before. The preferred match from a row is the same whatever was
found before it; only whether it is searched from depends on that. So a slice is searched as if nothing
reached into it, and then from each row at which the search could go on after a match that does, until it
comes to a row searched from already: mostly at once. The matches found are candidates, and a chain through
the slices in order takes those that are on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Bools, Ints, Options, RowMatches, concat_matches
from cerise.engines.rows.engine import Search
from cerise.engines.rows.records import Entries
from cerise.engines.rows.search_input import SearchInput
from cerise.engines.threads import Watch
from cerise.errors import CeriseError, PlanError
from cerise.events import raw_column
from cerise.kinds import canonical, kind_of
from cerise.pattern.row_pattern import BoundRows, SkipTo
from cerise.plan.slicing import AMPLIFIED, MAX_TIME, MIN_TIME, Halo, Slice

Marks = npt.NDArray[np.uint8]
MOST = 1 << 62  # rows of matches, where nobody counts them
AN_ERROR = 1 << 10  # rows of matches that an error takes as long as


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows that are a slice's own.

    Attributes:
        low: the first of them.
        high: the row after the last.
        entries: how many of them, from the first on, the search may begin with: those that matches before
            it reach, and one more.
    """

    low: int
    high: int
    entries: int = 1

    def __len__(self) -> int:
        return self.high - self.low


def stretches(
    search_input: SearchInput, window: int, count: int, *, amplified: float = AMPLIFIED
) -> list[Stretch]:
    """Cut rows into so many stretches of about one size; one, if matches reach too far from one to the next.

    Args:
        search_input: the rows, one partition.
        window: how much later than its first row a match may end.
        count: how many stretches.
        amplified: how much more than all rows may be searched from.
    """
    rows, times = len(search_input), _known_times(search_input)
    borders = sorted({0, *(rows * i // count for i in range(1, count)), rows})
    found = []
    for low, high in pairwise(borders):
        entries = _after(times, int(times[low - 1]) + window) + 1 - low if low else 1
        found.append(Stretch(low, high, entries))
    if sum(each.entries for each in found) > (amplified - 1) * rows + count or not found:
        return [Stretch(0, rows)]
    return found


def _known_times(search_input: SearchInput) -> Ints:
    """Return what WITHIN measures; rows without a time have the first or the last one."""
    lacking = search_input.times == search_input.no_time
    return (
        np.where(lacking, _no_time(search_input.program.bound), search_input.times)
        if lacking.any()
        else search_input.times
    )


def _no_time(bound: BoundRows) -> int:
    return MIN_TIME if bound.order[0].nulls_first else MAX_TIME


def times_of(bound: BoundRows, table: pa.Table, none: int | None = None) -> Ints:
    """Return what WITHIN measures; rows without a time have the first or the last one, or the one given."""
    name = bound.order[0].column
    column = raw_column(table, (name,))
    times = canonical(column, kind_of(column.type), name).fill_null(_no_time(bound) if none is None else none)
    return np.ascontiguousarray(times, dtype=np.int64)


def stretch_of(bound: BoundRows, table: pa.Table, part: Slice, needs: Halo) -> tuple[pa.Table, Stretch]:
    """Return the rows that a slice needs, of some that are in order, and which of these are its own."""
    times = times_of(bound, table)
    low = 0 if part.start == MIN_TIME else _from(times, part.start)
    high = _from(times, part.stop)
    first = max(0, low - needs.preceding)
    stop = min(len(table), _from(times, part.stop + needs.after) + needs.events)
    entries = 1 if part.start == MIN_TIME else _from(times, part.start + needs.after) + 1 - low
    return table.slice(first, stop - first), Stretch(low - first, high - first, entries)


def _from(times: Ints, time: int) -> int:
    return len(times) if time >= MAX_TIME else int(np.searchsorted(times, time))


def _after(times: Ints, time: int) -> int:
    """Return the first row after a time."""
    return len(times) if time >= MAX_TIME else int(np.searchsorted(times, time, "right"))


# ---- the search


class SliceSearch(Search):
    """The search through the rows of a slice; rows are counted from its first one."""

    INPUT = "a slice of the ordered input"

    def __init__(
        self, search_input: SearchInput, stretch: Stretch, options: Options, watch: Watch | None = None
    ) -> None:
        super().__init__(search_input, (stretch.low, stretch.high), options, watch)
        self.low = stretch.low

    def starting_in(self, opens: Bools) -> Iterator[RowMatches]:
        """Yield the matches that start in some rows, where each is searched from: SKIP TO NEXT ROW."""
        return self._begun((~opens).astype(np.uint8), _entries(0, len(opens)))

    def on_from(self, known: Marks, row: int) -> tuple[RowMatches, int]:
        """Search from a row to one already searched from; return what is found, and that row."""
        known[row] = 0
        found = concat_matches(list(self._begun(known, _entries(row, row + 1))))
        return found, self.m.row - self.low

    def speculative(self, known: Marks, end: int, room: int) -> Iterator[RowMatches]:
        """Yield what is found from each row on before one.

        A row that cannot be searched from is an error only for whoever comes there.
        """
        from cerise.engines.rows.search import STOPPED

        entries = _entries(0, end, room)
        while True:
            try:
                yield from self._begun(known, entries)
                return
            except CeriseError as error:
                if self.m.match_count:
                    yield self.taken()
                known[self.m.row - self.low] = STOPPED
                if isinstance(error, PlanError):  # the others may take as long
                    self.steps.taken = 0
                    return
                entries[Entries.room] -= AN_ERROR

    def _begun(self, known: Marks, entries: Ints) -> Iterator[RowMatches]:
        from cerise.engines.rows.search import search_entries

        if self.m.row >= 0:
            self.m.row, self.m.depth = self.low + int(entries[Entries.next]), -1
        return self.found(lambda: search_entries(int(self.m), self.formulas.edge, known, entries.ctypes.data))


def _entries(first: int, end: int, room: int = MOST) -> Ints:
    return np.array([first, end, room], np.int64)


def resumes(bound: BoundRows, matches: RowMatches) -> Ints:
    """Return the row at which the search goes on after each match (M39)."""
    after = matches.starts + 1
    skips = matches.lengths > 0
    if matches.timeouts is not None:
        skips &= ~matches.timeouts
    if bound.skip.to is SkipTo.PAST_LAST:
        return np.where(skips, matches.starts + matches.lengths, after)
    if bound.skip.to is SkipTo.NEXT:
        return after
    targets = np.array([label in bound.skip.members for label in bound.labels], np.bool_)
    which = np.flatnonzero(targets[matches.labels])
    which = which[::-1] if bound.skip.to is SkipTo.FIRST else which  # of several the last one stays
    found = after.copy()
    found[matches.owners[which]] = matches.rows[which]
    return np.where(skips, found, after)


def picked(matches: RowMatches, which: Ints) -> RowMatches:
    """Return some matches, in the order given; a match is not given twice."""
    if len(which) == len(matches) and bool((which[1:] > which[:-1]).all()):
        return matches
    lengths = matches.lengths[which]
    ends = np.cumsum(lengths, dtype=np.int64)
    rows = np.repeat(matches.firsts[which] - (ends - lengths), lengths) + np.arange(lengths.sum())
    return RowMatches(
        matches.starts[which],
        lengths,
        matches.numbers[which],
        matches.partition[which],
        matches.labels[rows],
        None if matches.excluded is None else matches.excluded[rows],
        None if matches.timeouts is None else matches.timeouts[which],
    )


# ---- slices whose matches depend on those before them


PER_ROWS = 1 << 15  # rows of a slice that give its candidates as much room again


@dataclass(slots=True)
class Candidates:
    """What is known of a slice, its own rows counted from 0.

    Attributes:
        starts: where matches start, ascending.
        resumes: where the search goes on after each.
        known: for each row whether it was searched from.
    """

    starts: Ints
    resumes: Ints
    known: Marks


@dataclass(slots=True)
class Searched:
    """A slice that can be searched, and searched again.

    Attributes:
        search_input: its rows, and those around them.
        stretch: which of them are its own.
        options: after how many steps the search is given up, and how much is done at a time.
        watch: sees how far the search is.
    """

    search_input: SearchInput
    stretch: Stretch
    options: Options
    watch: Watch = field(default_factory=Watch)
    search: SliceSearch = field(init=False)

    def __post_init__(self) -> None:
        self.search = SliceSearch(self.search_input, self.stretch, self.options, self.watch)

    def candidates(self) -> tuple[RowMatches, Candidates]:
        """Return the matches that the slice may contribute."""
        rows, low = len(self.stretch), self.stretch.low
        known = np.zeros(rows, np.uint8)
        end, most = min(rows, self.stretch.entries), self.options.limits.candidate_rows
        room = most - 1 + most * rows // PER_ROWS
        found = concat_matches(list(self.search.speculative(known, end, room)))
        if bool((found.starts[1:] < found.starts[:-1]).any()):
            found = picked(found, np.argsort(found.starts, kind="stable"))
        after = resumes(self.search_input.program.bound, found)
        return found, Candidates(found.starts - low, after - low, known)

    def search_on(self, row: int, found: Candidates) -> tuple[RowMatches, int]:
        """Search from a row not searched from to one that was; return what is found, and that row."""
        return self.search.on_from(found.known, row)


SearchOn = Callable[[int, Candidates], tuple[RowMatches, int]]
Taken = tuple[int, Ints | RowMatches]  # how many matches are before; then which candidates, or others


@dataclass(slots=True)
class Chain:
    """The way through the slices, in order.

    Attributes:
        row: where it enters the next slice.
        count: how many matches were taken.
    """

    row: int = 0
    count: int = 0

    def through(self, found: Candidates, search_on: SearchOn) -> Iterator[Taken]:
        """Yield the matches of a slice that are taken, in order; what they lack is searched for then."""
        from cerise.engines.rows.search import follow_matches

        row, size = self.row, len(found.known)
        while row < size:
            first = int(np.searchsorted(found.starts, row))
            taken = np.zeros(len(found.starts) - first, np.uint8)
            row = int(follow_matches(found.starts[first:], found.resumes[first:], found.known, row, taken))
            yield from self._counted(first + np.flatnonzero(taken))
            if row < size:
                others, row = search_on(row, found)
                yield from self._counted(others)
        self.row = row - size

    def _counted(self, matches: Ints | RowMatches) -> Iterator[Taken]:
        if len(matches):
            yield self.count, matches
            self.count += len(matches)


def numbered(matches: RowMatches, before: int) -> RowMatches:
    """Return matches with their numbers, where so many were before them."""
    return replace(matches, numbers=np.arange(before + 1, before + 1 + len(matches), dtype=np.int64))


def chained(slices: Iterable[tuple[Searched, tuple[RowMatches, Candidates]]]) -> Iterator[list[RowMatches]]:
    """Yield for each slice its matches, in order."""
    chain = Chain()
    for searched, (matches, found) in slices:
        yield [
            numbered(each if isinstance(each, RowMatches) else picked(matches, each), before)
            for before, each in chain.through(found, searched.search_on)
        ]
