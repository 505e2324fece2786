"""Slices whose matches depend on those before them: searched apart all the same, then put in order (D3).

The preferred match from a row is the same whatever was found before it; only whether it is searched from
depends on that. So a slice is searched as if nothing reached into it, and then from each row at which the
search could go on after a match that does, until it comes to a row searched from already: mostly at once.
What was found are candidates. One who goes through the slices in order takes those that are on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from cerise.engines.base import Options
from cerise.engines.results.row_matches import Ints, RowMatches, joined
from cerise.engines.rows.ground import Ground
from cerise.engines.rows.slices import Marks, SliceSearch, Stretch, picked, resumes
from cerise.engines.threads import Watch

ROOM, ROOM_PER_ROW = 1 << 16, 2  # rows that candidates may have, before further entries are left out


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
        ground: its rows, and those around them.
        stretch: which of them are its own.
        options: after how many steps the search is given up, and how much is done at a time.
        watch: sees how far the search is.
    """

    ground: Ground
    stretch: Stretch
    options: Options
    watch: Watch = field(default_factory=Watch)
    search: SliceSearch = field(init=False)

    def __post_init__(self) -> None:
        self.search = SliceSearch(self.ground, self.stretch, self.options, self.watch)

    def candidates(self) -> tuple[RowMatches, Candidates]:
        """Return the matches that the slice may contribute."""
        rows, low = len(self.stretch), self.stretch.low
        known = np.zeros(rows, np.uint8)
        end, room = min(rows, self.stretch.entries), ROOM + ROOM_PER_ROW * rows
        found = joined(list(self.search.speculative(known, end, room)))
        if bool((found.starts[1:] < found.starts[:-1]).any()):
            found = picked(found, np.argsort(found.starts, kind="stable"))
        after = resumes(self.ground.program.bound, found)
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
        from cerise.engines.rows.starts import follow_matches

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
