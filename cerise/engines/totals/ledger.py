"""Adds up totals as matches come in; memory grows with the groups, not with the matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from cerise.engines.base import Finding, Matches, Tally
from cerise.engines.limits import DEFAULT, Limits
from cerise.engines.results.match_table import ends_of
from cerise.engines.totals.arguments import ArgumentValues, values_at
from cerise.engines.totals.cells import Argument, Cell, cell_of, columns_of
from cerise.engines.totals.exact import Ints, Objects, integers, number_of, sum_groups, text_of
from cerise.engines.totals.groups import MatchGroups, find_final, key_schema, per, windows_of
from cerise.engines.totals.result import result_table
from cerise.errors import PlanError
from cerise.pattern.bound import Bound
from cerise.pattern.evaluate import OnFault
from cerise.pattern.query import Per

MANY = 64  # sheets
MOST_WINDOWS = 1 << 25  # with totals in memory at a time: some gigabytes
MATCHES = "matches"


@dataclass(frozen=True, slots=True)
class Sheet:
    """The partial totals of groups.

    Attributes:
        keys: the key columns of the groups.
        matches: how many matches each group has.
        cells: the partial aggregates of each argument.
    """

    keys: list[pa.Array]
    matches: Objects
    cells: Sequence[Cell]

    def __len__(self) -> int:
        return len(self.matches)


def group_names(bound: Bound) -> list[str]:
    """Return the columns of partial results that identify a group; none: there is one group."""
    return list(key_schema(bound).names)


def partial_schema(bound: Bound) -> pa.Schema:
    """Return the columns of partial results."""
    cells = [field for number, argument in enumerate(Argument.of(bound)) for field in argument.fields(number)]
    return pa.schema([*key_schema(bound), pa.field(MATCHES, pa.string()), *cells])


class Ledger:
    """The totals of a query over all matches added."""

    def __init__(
        self,
        bound: Bound,
        limits: Limits = DEFAULT,
        *,
        most_windows: int = MOST_WINDOWS,
        forgive: OnFault | None = None,
    ) -> None:
        self.bound, self._limits, self._most_windows = bound, limits, most_windows
        self._arguments = Argument.of(bound, forgive)
        self._sheets: list[Sheet] = []
        self._tallies: list[Tally] = []  # not yet added
        self._weights = 0  # the size of these tallies
        self._rows = 0  # of all sheets
        self._merged = 0  # rows after the last merge of all sheets

    @property
    def leaves_early(self) -> bool:
        """Whether groups end soon after they begin, so that partial results need not wait."""
        return per(self.bound) is Per.EVENT

    def __len__(self) -> int:
        return self._rows + len(self._tallies)

    def add(self, found: Finding) -> None:
        """Add matches, or a tally of them."""
        if isinstance(found, Matches):
            for sheet in _sheets(found, self.bound, self._arguments, self._limits):
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
        cells = [cell_of(partial, argument.fields(number)) for number, argument in enumerate(self._arguments)]
        self._keep(Sheet(keys, matches, cells))

    def partial(self) -> pa.Table:
        return _table(self._take(), self.bound, self._arguments)

    def leave(self, time: int, *, late: bool = False) -> pa.Table:
        """Return the partial totals of the groups that are final, and drop them.

        Args:
            time: no event before it will come.
            late: whether a match is added up to one window after its last event.
        """
        sheet = self._take()
        final = find_final(sheet.keys, self.bound, time, late=late)
        if not final.any():
            self._keep(sheet)
            return partial_schema(self.bound).empty_table()
        table = _table(sheet, self.bound, self._arguments)
        if not final.all():
            self.merge(table.filter(pa.array(~final)))
        return table.filter(pa.array(final))

    def result(self) -> pa.Table:
        """Return the totals as a table of `bound.output_schema`, and reset the ledger."""
        sheet = self._take()
        if per(self.bound) is Per.ALL and not len(sheet):
            nothing = [argument.merge([], np.zeros(0, np.int64), 1) for argument in self._arguments]
            sheet = Sheet([], integers([0]), nothing)
        cells = list(zip(self._arguments, sheet.cells, strict=True))
        return result_table(self.bound, sheet.keys, list(sheet.matches), cells)

    def _take(self) -> Sheet:
        self._settle_tallies()
        sheet = _merge_sheets(self._sheets, self.bound, self._arguments)
        self._sheets, self._rows, self._merged = [], 0, 0
        return sheet

    def _keep(self, sheet: Sheet) -> None:
        """Add a sheet; merge sheets if groups may repeat too often, or small sheets are many."""
        if not len(sheet):
            return
        self._sheets.append(sheet)
        self._rows += len(sheet)
        if self._rows > 2 * self._merged + self._limits.spare_groups:
            self._join(0)
            self._merged = self._rows
            self._check_size()
        elif len(self._sheets) >= MANY:
            self._join(self._small())

    def _check_size(self) -> None:
        """Refuse totals of more windows than fit in memory."""
        if per(self.bound).window and self._merged > self._most_windows:
            raise PlanError(
                f"more than {self._most_windows} windows hold matches, and PER WINDOW keeps totals of each",
                hint="use a longer SLIDE, or fewer events: WHERE on the time of the first event",
            )

    def _small(self) -> int:
        """Return the first of the trailing sheets that are each at most twice as large as all after them."""
        start, rows = len(self._sheets) - 1, len(self._sheets[-1])
        while start and len(self._sheets[start - 1]) <= 2 * rows:
            start -= 1
            rows += len(self._sheets[start])
        return start

    def _join(self, start: int) -> None:
        self._sheets[start:] = [_merge_sheets(self._sheets[start:], self.bound, self._arguments)]
        self._rows = sum(map(len, self._sheets))

    def _settle_tallies(self) -> None:
        if self._tallies:
            tallies, self._tallies, self._weights = self._tallies, [], 0
            self._keep(_sheet_of_tallies(tallies, self.bound, self._arguments))


def each_alone(matches: Matches, bound: Bound, limits: Limits = DEFAULT) -> tuple[Ints, pa.Table]:
    """Return partial results of single matches: the match of each row, and the rows."""
    arguments = Argument.of(bound)
    members = Members.of(matches, bound)
    groups = MatchGroups.apart(matches.events, members.last, members.window, bound)
    sheet = _sheet(matches, members, groups, bound, arguments, limits)
    return members.match, _table(sheet, bound, arguments)


@dataclass(frozen=True, slots=True)
class Members:
    """Members of groups: matches, or with PER WINDOW each match once for each window that holds it.

    Attributes:
        match: the match of each member.
        last: the row of its last event.
        window: the number of its window; None without PER WINDOW.
    """

    match: Ints
    last: Ints
    window: Ints | None

    @classmethod
    def of(cls, matches: Matches, bound: Bound) -> Members:
        """Return the members of matches."""
        first, last = ends_of(matches)
        if not per(bound).window:
            return cls(np.arange(len(last)), last, None)
        low, high = windows_of(matches, first, last, bound)
        counts = high - low + 1
        match = np.repeat(np.arange(len(last)), counts)
        inside = np.arange(len(match)) - np.repeat(np.cumsum(counts) - counts, counts)
        return cls(match, last[match], low[match] + inside)


def _sheets(matches: Matches, bound: Bound, arguments: Sequence[Argument], limits: Limits) -> Iterator[Sheet]:
    """Yield the partial totals of matches, in batches of bounded memory."""
    if not matches.count:
        return
    if matches.counted is not None:
        yield Sheet([], integers([matches.counted]), [])
        return
    for some in _split_matches(matches, bound, limits.window_pairs):
        members = Members.of(some, bound)
        groups = MatchGroups.of(some.events, members.last, members.window, bound)
        yield _sheet(some, members, groups, bound, arguments, limits)


def _split_matches(matches: Matches, bound: Bound, pairs: int) -> Iterator[Matches]:
    """Split matches into batches that count in a bounded number of windows."""
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
    matches: Matches,
    members: Members,
    groups: MatchGroups,
    bound: Bound,
    arguments: Sequence[Argument],
    limits: Limits,
) -> Sheet:
    counts = np.bincount(groups.numbers, minlength=groups.size).astype(object)
    cells = [_cell(each, matches, members, groups, bound, limits) for each in arguments]
    return Sheet(groups.keys, counts, cells)


def _cell(
    argument: Argument, matches: Matches, members: Members, groups: MatchGroups, bound: Bound, limits: Limits
) -> Cell:
    """Aggregate an argument; a value of one event is computed once, however often it counts."""
    source = ArgumentValues.of(argument, matches, bound, limits)
    owner, places = source.by(members.match, matches.count)
    distinct, numbers = np.unique(places, return_inverse=True)
    pairs, weights = np.unique(groups.numbers[owner] * max(len(distinct), 1) + numbers, return_counts=True)
    group, place = np.divmod(pairs, max(len(distinct), 1))
    return argument.cell(group, source.values(distinct).take(pa.array(place)), weights, groups.size)


def _sheet_of_tallies(tallies: Sequence[Tally], bound: Bound, arguments: Sequence[Argument]) -> Sheet:
    """Return the partial totals of tallies over the same events."""
    events = tallies[0].events
    windows = np.array([each.window for each in tallies], np.int64) if per(bound).window else None
    groups = MatchGroups.of(events, np.array([each.last for each in tallies], np.int64), windows, bound)
    matches = sum_groups(groups.numbers, integers(each.count for each in tallies), groups.size)
    nothing: tuple[Ints, Sequence[int]] = np.zeros(0, np.int64), ()
    cells = []
    for number, each in enumerate(arguments):
        found = [tally.weights.get(number, nothing) for tally in tallies]
        rows = np.concatenate([rows for rows, _ in found])
        weights = integers(chain.from_iterable(counts for _, counts in found))
        owner = np.repeat(groups.numbers, [len(rows) for rows, _ in found])
        distinct, places = np.unique(rows[weights != 0], return_inverse=True)
        values = values_at(each, events, distinct).take(pa.array(places))
        cells.append(each.cell(owner[weights != 0], values, weights[weights != 0], groups.size))
    return Sheet(groups.keys, matches, cells)


def _merge_sheets(sheets: Sequence[Sheet], bound: Bound, arguments: Sequence[Argument]) -> Sheet:
    """Merge sheets into one with each group once."""
    empty = [pa.array([], field.type) for field in key_schema(bound)]
    rows = sum(map(len, sheets))
    groups = MatchGroups.merge([empty, *(sheet.keys for sheet in sheets)], rows)
    matches = np.concatenate([integers([]), *(sheet.matches for sheet in sheets)])
    cells = [
        each.merge([sheet.cells[number] for sheet in sheets], groups.numbers, groups.size)
        for number, each in enumerate(arguments)
    ]
    return Sheet(groups.keys, sum_groups(groups.numbers, matches, groups.size), cells)


def _table(sheet: Sheet, bound: Bound, arguments: Sequence[Argument]) -> pa.Table:
    matches = pa.array(map(text_of, sheet.matches), pa.string())
    cells = [
        column
        for number, each in enumerate(arguments)
        for column in columns_of(sheet.cells[number], each.fields(number))
    ]
    return pa.Table.from_arrays([*sheet.keys, matches, *cells], schema=partial_schema(bound))
