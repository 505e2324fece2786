"""Totals as matches come in: what is kept grows with the groups, not with the matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from cerise.engines.base import Finding, Matches, Tally
from cerise.engines.limits import DEFAULT, Limits
from cerise.engines.results.match_table import ends_of
from cerise.engines.totals.arguments import Taken, values_at
from cerise.engines.totals.cells import Asked, Cell, cell_of, columns_of
from cerise.engines.totals.exact import Ints, Objects, integers, number_of, summed, text_of
from cerise.engines.totals.groups import Groups, key_schema, per, windows_of
from cerise.engines.totals.result import result_table
from cerise.errors import PlanError
from cerise.pattern.bound import Bound
from cerise.pattern.query import Per

MANY = 64  # sheets
MOST_WINDOWS = 1 << 25  # whose totals are kept at a time: some gigabytes
MATCHES = "matches"


@dataclass(frozen=True, slots=True)
class Sheet:
    """What is known of some groups.

    Attributes:
        keys: which they are.
        matches: how many matches each has.
        cells: for each argument of an aggregate what is known of its values.
    """

    keys: list[pa.Array]
    matches: Objects
    cells: Sequence[Cell]

    def __len__(self) -> int:
        return len(self.matches)


def group_names(bound: Bound) -> list[str]:
    """Return the columns of partial results that say what a row is of; none: all rows are of one group."""
    return list(key_schema(bound).names)


def partial_schema(bound: Bound) -> pa.Schema:
    """Return the columns of partial results."""
    cells = [field for number, asked in enumerate(Asked.of(bound)) for field in asked.fields(number)]
    return pa.schema([*key_schema(bound), pa.field(MATCHES, pa.string()), *cells])


class Ledger:
    """The totals of a query over all that was added."""

    def __init__(self, bound: Bound, limits: Limits = DEFAULT, *, most_windows: int = MOST_WINDOWS) -> None:
        self.bound, self._limits, self._most_windows = bound, limits, most_windows
        self._asked = Asked.of(bound)
        self._sheets: list[Sheet] = []
        self._tallies: list[Tally] = []  # not yet added
        self._weights = 0  # how large they are
        self._rows = 0  # of all sheets
        self._joined = 0  # of the sheet of all groups that was made last

    @property
    def leaves_early(self) -> bool:
        """Whether groups are done soon after they begin, so that partial results need not wait."""
        return per(self.bound) is Per.EVENT

    def __len__(self) -> int:
        return self._rows + len(self._tallies)

    def add(self, found: Finding) -> None:
        """Add matches, or a tally of them."""
        if isinstance(found, Matches):
            for sheet in _sheets(found, self.bound, self._asked, self._limits):
                self._keep(sheet)
        elif found.count:
            if self._tallies and found.events is not self._tallies[0].events:
                self._settle_tallies()
            self._tallies.append(found)
            self._weights += 1 + sum(len(rows) for rows, _ in found.weights.values())
            if self._weights >= self._limits.window_pairs:
                self._settle_tallies()

    def merge(self, partial: pa.Table) -> None:
        keys = [partial.column(name).combine_chunks() for name in group_names(self.bound)]
        matches = integers(map(number_of, partial.column(MATCHES).to_pylist()))
        cells = [cell_of(partial, asked.fields(number)) for number, asked in enumerate(self._asked)]
        self._keep(Sheet(keys, matches, cells))

    def partial(self) -> pa.Table:
        return _table(self._taken(), self.bound, self._asked)

    def result(self) -> pa.Table:
        """Return the totals as a table of `bound.output_schema`, and forget them."""
        sheet = self._taken()
        if per(self.bound) is Per.ALL and not len(sheet):
            nothing = [asked.joined([], np.zeros(0, np.int64), 1) for asked in self._asked]
            sheet = Sheet([], integers([0]), nothing)
        cells = list(zip(self._asked, sheet.cells, strict=True))
        return result_table(self.bound, sheet.keys, list(sheet.matches), cells)

    def _taken(self) -> Sheet:
        self._settle_tallies()
        sheet = _joined(self._sheets, self.bound, self._asked)
        self._sheets, self._rows, self._joined = [], 0, 0
        return sheet

    def _keep(self, sheet: Sheet) -> None:
        """Add a sheet; join sheets where groups may be there too often, or there are many small ones."""
        if not len(sheet):
            return
        self._sheets.append(sheet)
        self._rows += len(sheet)
        if self._rows > 2 * self._joined + self._limits.spare_groups:
            self._join(0)
            self._joined = self._rows
            self._check_size()
        elif len(self._sheets) >= MANY:
            self._join(self._small())

    def _check_size(self) -> None:
        """Refuse totals of more windows than fit in memory."""
        if per(self.bound).window and self._joined > self._most_windows:
            raise PlanError(
                f"more than {self._most_windows} windows hold matches, and PER WINDOW keeps totals of each",
                hint="use a longer SLIDE, or fewer events: WHERE on the time of the first event",
            )

    def _small(self) -> int:
        """Return the first of the last sheets that are each not much larger than all after it."""
        start, rows = len(self._sheets) - 1, len(self._sheets[-1])
        while start and len(self._sheets[start - 1]) <= 2 * rows:
            start -= 1
            rows += len(self._sheets[start])
        return start

    def _join(self, start: int) -> None:
        self._sheets[start:] = [_joined(self._sheets[start:], self.bound, self._asked)]
        self._rows = sum(map(len, self._sheets))

    def _settle_tallies(self) -> None:
        if self._tallies:
            tallies, self._tallies, self._weights = self._tallies, [], 0
            self._keep(_tallied(tallies, self.bound, self._asked))


def each_alone(matches: Matches, bound: Bound, limits: Limits = DEFAULT) -> tuple[Ints, pa.Table]:
    """Return partial results of single matches: of which match each row is, and the rows."""
    asked = Asked.of(bound)
    members = Members.of(matches, bound)
    groups = Groups.apart(matches.events, members.last, members.window, bound)
    return members.match, _table(_sheet(matches, members, groups, bound, asked, limits), bound, asked)


@dataclass(frozen=True, slots=True)
class Members:
    """What counts once in a group: a match, or a match in one of the windows that hold it.

    Attributes:
        match: its number.
        last: the row of its last event.
        window: the number of the window; None: nobody asks.
    """

    match: Ints
    last: Ints
    window: Ints | None

    @classmethod
    def of(cls, matches: Matches, bound: Bound) -> Members:
        """Return the members that matches are."""
        first, last = ends_of(matches)
        if not per(bound).window:
            return cls(np.arange(len(last)), last, None)
        low, high = windows_of(matches, first, last, bound)
        counts = high - low + 1
        match = np.repeat(np.arange(len(last)), counts)
        inside = np.arange(len(match)) - np.repeat(np.cumsum(counts) - counts, counts)
        return cls(match, last[match], low[match] + inside)


def _sheets(matches: Matches, bound: Bound, asked: Sequence[Asked], limits: Limits) -> Iterator[Sheet]:
    """Yield what is known from matches; of so many at a time that memory is bounded."""
    if not matches.count:
        return
    if matches.counted is not None:
        yield Sheet([], integers([matches.counted]), [])
        return
    for some in _bounded(matches, bound, limits.window_pairs):
        members = Members.of(some, bound)
        groups = Groups.of(some.events, members.last, members.window, bound)
        yield _sheet(some, members, groups, bound, asked, limits)


def _bounded(matches: Matches, bound: Bound, pairs: int) -> Iterator[Matches]:
    """Yield matches so that those given together count in a bounded number of windows."""
    if not per(bound).window:
        yield matches
        return
    low, high = windows_of(matches, *ends_of(matches), bound)
    portions = np.cumsum(high - low + 1) // pairs
    starts = [0, *(np.flatnonzero(np.diff(portions)) + 1), len(portions)]
    for start, stop in pairwise(starts):
        rows = {name: lists.slice(start, stop - start) for name, lists in matches.rows.items()}
        yield Matches(matches.events, rows)


def _sheet(
    matches: Matches, members: Members, groups: Groups, bound: Bound, asked: Sequence[Asked], limits: Limits
) -> Sheet:
    counts = np.bincount(groups.numbers, minlength=groups.size).astype(object)
    cells = [_cell(each, matches, members, groups, bound, limits) for each in asked]
    return Sheet(groups.keys, counts, cells)


def _cell(
    asked: Asked, matches: Matches, members: Members, groups: Groups, bound: Bound, limits: Limits
) -> Cell:
    """Return what is known of an argument; a value of one event is computed once, however often it counts."""
    taken = Taken.of(asked, matches, bound, limits)
    owner, places = taken.by(members.match, matches.count)
    there, numbers = np.unique(places, return_inverse=True)
    pairs, weights = np.unique(groups.numbers[owner] * max(len(there), 1) + numbers, return_counts=True)
    group, place = np.divmod(pairs, max(len(there), 1))
    return asked.cell(group, taken.values(there).take(pa.array(place)), weights, groups.size)


def _tallied(tallies: Sequence[Tally], bound: Bound, asked: Sequence[Asked]) -> Sheet:
    """Return what is known from tallies of the same events."""
    events = tallies[0].events
    windows = np.array([each.window for each in tallies], np.int64) if per(bound).window else None
    groups = Groups.of(events, np.array([each.last for each in tallies], np.int64), windows, bound)
    matches = summed(groups.numbers, integers(each.count for each in tallies), groups.size)
    nothing: tuple[Ints, Sequence[int]] = np.zeros(0, np.int64), ()
    cells = []
    for number, each in enumerate(asked):
        found = [tally.weights.get(number, nothing) for tally in tallies]
        rows = np.concatenate([rows for rows, _ in found])
        weights = integers(chain.from_iterable(counts for _, counts in found))
        owner = np.repeat(groups.numbers, [len(rows) for rows, _ in found])
        there, places = np.unique(rows[weights != 0], return_inverse=True)
        values = values_at(each, events, there).take(pa.array(places))
        cells.append(each.cell(owner[weights != 0], values, weights[weights != 0], groups.size))
    return Sheet(groups.keys, matches, cells)


def _joined(sheets: Sequence[Sheet], bound: Bound, asked: Sequence[Asked]) -> Sheet:
    """Return sheets as one, in which each group is once."""
    empty = [pa.array([], field.type) for field in key_schema(bound)]
    rows = sum(map(len, sheets))
    groups = Groups.joined([empty, *(sheet.keys for sheet in sheets)], rows)
    matches = np.concatenate([integers([]), *(sheet.matches for sheet in sheets)])
    cells = [
        each.joined([sheet.cells[number] for sheet in sheets], groups.numbers, groups.size)
        for number, each in enumerate(asked)
    ]
    return Sheet(groups.keys, summed(groups.numbers, matches, groups.size), cells)


def _table(sheet: Sheet, bound: Bound, asked: Sequence[Asked]) -> pa.Table:
    matches = pa.array(map(text_of, sheet.matches), pa.string())
    cells = [
        column
        for number, each in enumerate(asked)
        for column in columns_of(sheet.cells[number], each.fields(number))
    ]
    return pa.Table.from_arrays([*sheet.keys, matches, *cells], schema=partial_schema(bound))
