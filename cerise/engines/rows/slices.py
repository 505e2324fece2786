"""Searches one partition in independent slices (D3): a slice finds the matches that start in it.

Matches may depend on those of earlier slices. The preferred match from a row does not depend on earlier
matches; only whether the search visits the row does. So a slice is searched from its first row, and then from
each row at which the search could resume after a match that reaches into the slice, until it meets a row that
was searched from already, which mostly happens at once. The matches found are candidates. A chain through the
slices in order takes the candidates on its path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Bools, Ints, Options, RowMatches, concat_matches
from cerise.engines.rows.engine import MatchSearch
from cerise.engines.rows.records import Entries
from cerise.engines.rows.search_input import SearchInput
from cerise.engines.threads import Watch
from cerise.errors import CeriseError, PlanError
from cerise.events import raw_column
from cerise.kinds import canonical, kind_of
from cerise.pattern.row_pattern import BoundRows, SkipTo
from cerise.plan.slicing import AMPLIFIED, MAX_TIME, MIN_TIME, Halo, Slice

Marks = npt.NDArray[np.uint8]
MOST = 1 << 62  # rows of matches: unlimited
AN_ERROR = 1 << 10  # rows of matches that an error counts as


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows that belong to a slice.

    Attributes:
        low: the first row.
        high: the row after the last.
        entries: at how many rows, from the first on, the search may enter: all rows that earlier matches
            can reach, and one more.
    """

    low: int
    high: int
    entries: int = 1

    def __len__(self) -> int:
        return self.high - self.low


def stretches(
    search_input: SearchInput, window: int, count: int, *, amplified: float = AMPLIFIED
) -> list[Stretch]:
    """Cut rows into `count` stretches of about equal size; into one, if matches reach too far into the next.

    Args:
        search_input: the rows, one partition.
        window: how much later than its first row a match may end.
        count: how many stretches.
        amplified: how many times the rows may be searched from, at most.
    """
    rows, times = len(search_input), _fill_times(search_input)
    borders = sorted({0, *(rows * i // count for i in range(1, count)), rows})
    found = []
    for low, high in pairwise(borders):
        entries = _after(times, int(times[low - 1]) + window) + 1 - low if low else 1
        found.append(Stretch(low, high, entries))
    if sum(each.entries for each in found) > (amplified - 1) * rows + count or not found:
        return [Stretch(0, rows)]
    return found


def _fill_times(search_input: SearchInput) -> Ints:
    """Return the times for WITHIN; rows without a time get the least or the greatest one."""
    lacking = search_input.times == search_input.no_time
    return (
        np.where(lacking, _no_time(search_input.program.bound), search_input.times)
        if lacking.any()
        else search_input.times
    )


def _no_time(bound: BoundRows) -> int:
    return MIN_TIME if bound.order[0].nulls_first else MAX_TIME


def times_of(bound: BoundRows, table: pa.Table, none: int | None = None) -> Ints:
    """Return the times for WITHIN; rows without a time get `none`, or else the least or the greatest one."""
    name = bound.order[0].column
    column = raw_column(table, (name,))
    times = canonical(column, kind_of(column.type), name).fill_null(_no_time(bound) if none is None else none)
    return np.ascontiguousarray(times, dtype=np.int64)


def stretch_of(bound: BoundRows, table: pa.Table, part: Slice, needs: Halo) -> tuple[pa.Table, Stretch]:
    """Return the rows that a slice needs, of sorted rows, and the stretch of its own rows among them."""
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


class SliceSearch(MatchSearch):
    """The search of the rows of a slice; rows count from its first one."""

    INPUT = "a slice of the ordered input"

    def __init__(
        self, search_input: SearchInput, stretch: Stretch, options: Options, watch: Watch | None = None
    ) -> None:
        super().__init__(search_input, (stretch.low, stretch.high), options, watch)
        self.low = stretch.low

    def search_openers(self, opens: Bools) -> Iterator[RowMatches]:
        """Yield the matches that start in the given rows, under SKIP TO NEXT ROW."""
        return self._search_entries((~opens).astype(np.uint8), _entries(0, len(opens)))

    def search_on(self, known: Marks, row: int) -> tuple[RowMatches, int]:
        """Search from a row to one already searched from; return the matches, and that row."""
        known[row] = 0
        found = concat_matches(list(self._search_entries(known, _entries(row, row + 1))))
        return found, self.m.row - self.low

    def speculate(self, known: Marks, end: int, room: int) -> Iterator[RowMatches]:
        """Yield the matches found from each entry before `end`.

        An error at a row counts only if the chain visits the row, so it is noted and not raised.
        """
        from cerise.engines.rows.search import STOPPED

        entries = _entries(0, end, room)
        while True:
            try:
                yield from self._search_entries(known, entries)
                return
            except CeriseError as error:
                if self.m.match_count:
                    yield self.take_matches()
                known[self.m.row - self.low] = STOPPED
                if isinstance(error, PlanError):  # other entries may take as long
                    self.steps.taken = 0
                    return
                entries[Entries.room] -= AN_ERROR

    def _search_entries(self, known: Marks, entries: Ints) -> Iterator[RowMatches]:
        from cerise.engines.rows.search import search_entries

        if self.m.row >= 0:
            self.m.row, self.m.depth = self.low + int(entries[Entries.next]), -1
        return self.run(lambda: search_entries(int(self.m), self.formulas.edge, known, entries.ctypes.data))


def _entries(first: int, end: int, room: int = MOST) -> Ints:
    return np.array([first, end, room], np.int64)


def resumes(bound: BoundRows, matches: RowMatches) -> Ints:
    """Return the row at which the search resumes after each match (M39)."""
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
    which = which[::-1] if bound.skip.to is SkipTo.FIRST else which  # the last assignment wins
    found = after.copy()
    found[matches.owners[which]] = matches.rows[which]
    return np.where(skips, found, after)


def pick(matches: RowMatches, which: Ints) -> RowMatches:
    """Return the matches at distinct positions, in their order."""
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


# ---- slices whose matches depend on earlier slices


PER_ROWS = 1 << 15  # rows of a slice for which its candidates get the same room again


@dataclass(slots=True)
class SliceCandidates:
    """The candidates of a slice; its rows count from 0.

    Attributes:
        starts: where matches start, ascending.
        resumes: where the search resumes after each.
        known: for each row whether it was searched from.
    """

    starts: Ints
    resumes: Ints
    known: Marks


@dataclass(slots=True)
class SearchedSlice:
    """A slice with the state of its search, so that the chain can search it further.

    Attributes:
        search_input: its rows, and those around them.
        stretch: its own rows.
        options: the limits of steps and sizes.
        watch: observes the progress of the search.
    """

    search_input: SearchInput
    stretch: Stretch
    options: Options
    watch: Watch = field(default_factory=Watch)
    search: SliceSearch = field(init=False)

    def __post_init__(self) -> None:
        self.search = SliceSearch(self.search_input, self.stretch, self.options, self.watch)

    def candidates(self) -> tuple[RowMatches, SliceCandidates]:
        """Search the slice, and return its candidates."""
        rows, low = len(self.stretch), self.stretch.low
        known = np.zeros(rows, np.uint8)
        end, most = min(rows, self.stretch.entries), self.options.limits.candidate_rows
        found = concat_matches(list(self.search.speculate(known, end, most - 1 + most * rows // PER_ROWS)))
        if bool((found.starts[1:] < found.starts[:-1]).any()):
            found = pick(found, np.argsort(found.starts, kind="stable"))
        after = resumes(self.search_input.program.bound, found)
        return found, SliceCandidates(found.starts - low, after - low, known)

    def search_on(self, row: int, found: SliceCandidates) -> tuple[RowMatches, int]:
        """Search from a new row to one already searched from; return the matches, and that row."""
        return self.search.search_on(found.known, row)


SearchOn = Callable[[int, SliceCandidates], tuple[RowMatches, int]]
Taken = tuple[int, Ints | RowMatches]  # the number of earlier matches; positions of candidates, or matches


@dataclass(slots=True)
class Chain:
    """The chain of matches through the slices, in order.

    Attributes:
        row: the row of the next slice at which the chain enters it.
        count: how many matches it has so far.
    """

    row: int = 0
    count: int = 0

    def through(self, found: SliceCandidates, search_on: SearchOn) -> Iterator[Taken]:
        """Yield the matches of a slice on the chain, in order; search from rows not searched from yet."""
        from cerise.engines.rows.search import follow_matches

        row, size = self.row, len(found.known)
        while row < size:
            first = int(np.searchsorted(found.starts, row))
            taken = np.zeros(len(found.starts) - first, np.uint8)
            row = int(follow_matches(found.starts[first:], found.resumes[first:], found.known, row, taken))
            yield from self._count(first + np.flatnonzero(taken))
            if row < size:
                others, row = search_on(row, found)
                yield from self._count(others)
        self.row = row - size

    def _count(self, matches: Ints | RowMatches) -> Iterator[Taken]:
        if len(matches):
            yield self.count, matches
            self.count += len(matches)


def number_matches(matches: RowMatches, before: int) -> RowMatches:
    """Return matches numbered from `before` + 1 on."""
    return replace(matches, numbers=np.arange(before + 1, before + 1 + len(matches), dtype=np.int64))


def chain_slices(
    slices: Iterable[tuple[SearchedSlice, tuple[RowMatches, SliceCandidates]]],
) -> Iterator[list[RowMatches]]:
    """Yield the matches of each slice, in order."""
    chain = Chain()
    for searched, (matches, found) in slices:
        yield [
            number_matches(each if isinstance(each, RowMatches) else pick(matches, each), before)
            for before, each in chain.through(found, searched.search_on)
        ]
