"""Cuts groups of leaves into searches and cells, and writes them as the tables that routing kernels read.

In a group the leaves with ranges of one column form a search: the ends of the ranges cut the keys into
elementary intervals, the cells, and a cell lists its leaves, each with the tests of its other columns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerise.kernels.records import BYTES, Words, number
from cerise.kernels.routing import (
    NO_LEAF,
    SEVERAL,
    RouteColumn,
    RouteEntry,
    RouteGroup,
    RouteSearch,
    RouteTable,
    RouteTest,
    count_hits,
    mark_rows,
    place_rows,
    route_rows,
    write_bounds,
)
from cerise.plan.routes.column_tests import list_ends
from cerise.plan.routes.key_columns import BatchKeys, Ints, Marks
from cerise.plan.routes.key_ranges import LEAST, MOST, Member, Ranges, RouteLimits

MOST_EVENTS = 3  # the width of ranges that most events are in


class _Search(NamedTuple):
    column: int
    bounds: list[int]
    cells: list[list[Member]]


class _Tables:
    """The words of bounds and tests; a word's number becomes an address when all words are known."""

    def __init__(self) -> None:
        self.bounds = write_bounds(())
        self.tests: list[tuple[int, int, int, int]] = []
        self._known: dict[tuple[tuple[int, Ranges], ...], int] = {}

    def add_bounds(self, numbers: Sequence[int]) -> int:
        at = len(self.bounds)
        self.bounds += write_bounds(numbers)
        return at

    def add_tests(self, ranges: Mapping[int, Ranges]) -> tuple[int, int]:
        """Return the number of the first test of a leaf, and their count; equal ones are written once."""
        tests = tuple(sorted(ranges.items(), key=lambda each: _width(each[1])))
        if tests not in self._known:
            self._known[tests] = len(self.tests)
            for column, each in tests:
                bounds = self.add_bounds(list_ends(each)) if len(each) > 1 else 0
                self.tests.append((column, each[0][0], each[-1][1], bounds))
        return self._known[tests], len(tests)


class RouteIndex:
    """Groups of leaves as tables; building them costs some microseconds for each leaf.

    Args:
        groups: the leaves of each group, each with the ranges that its events must be in.
        limits: when leaves are searched.
    """

    def __init__(self, groups: Sequence[Sequence[Member]], limits: RouteLimits) -> None:
        self.columns = frozenset(column for group in groups for _, ranges in group for column in ranges)
        planned = [_plan_group(members, limits) for members in groups]
        widest = max([1, *(sum(max(map(len, each.cells)) for each in group) for group in planned)])
        tables, searches = _Tables(), [search for group in planned for search in group]
        cells = [cell for search in searches for cell in search.cells]
        entries = [(leaf, *tables.add_tests(ranges)) for cell in cells for leaf, ranges in cell]
        first = np.cumsum([0, *(len(each.cells) for each in searches)])
        rows = [(each.column, tables.add_bounds(each.bounds), 0) for each in searches]
        bounds = np.array(tables.bounds, np.int64)
        tests = _table(tables.tests, RouteTest.WORDS)
        _address(tests[:, number(RouteTest.bounds)], bounds)
        written = _table(entries, RouteEntry.WORDS)
        _address(written[:, number(RouteEntry.tests)], tests)
        starts, only = (
            np.cumsum([0, *map(len, cells)]),
            np.array([_find_only(cell) for cell in cells], np.int64),
        )
        found = _table(rows, RouteSearch.WORDS)
        _address(found[:, number(RouteSearch.bounds)], bounds)
        offsets = np.cumsum([0, *map(len, planned)])
        quick = np.full((len(planned), RouteGroup.WORDS), -1)
        single = np.flatnonzero(np.diff(offsets) == 1)
        quick[single] = found[offsets[single]]
        quick[single, number(RouteGroup.only)] = only.ctypes.data + BYTES * first[offsets[single]]
        found[:, number(RouteSearch.cells)] = starts.ctypes.data + BYTES * first[:-1]
        self._kept = quick, bounds, tests, written, starts, found, offsets, only
        self._head = [*(each.ctypes.data for each in (quick, offsets, found, written)), widest]
        self._widest = widest

    # ---- events

    def mark(self, batch: BatchKeys, rows: Ints, groups: Ints, marks: Marks) -> None:
        """Mark the rows that fit a leaf of their group.

        Args:
            batch: the events.
            rows: the rows to look at.
            groups: the group of each.
            marks: room for the marks of all rows.
        """
        table, _kept = self._table(batch, rows, groups)
        mark_rows(int(table), marks)

    def route(self, batch: BatchKeys, rows: Ints, groups: Ints) -> Iterator[Ints]:
        """Yield hits, row by row: words of a leaf and a row that fits it; arguments as for `mark`."""
        table, _kept = self._table(batch, rows, groups)
        table.room = self._widest + len(rows)
        while table.done < len(rows):
            hits = np.empty(table.room, np.int64)
            table.hits = Words(hits.ctypes.data)
            route_rows(int(table))
            some = hits[: table.written]
            yield some.copy() if 2 * len(some) < len(hits) else some  # the rest of the room need not be kept

    def _table(self, batch: BatchKeys, rows: Ints, groups: Ints) -> tuple[RouteTable, Ints]:
        """Return a `RouteTable`, and its memory: after it come the columns that it points to."""
        words = np.zeros(RouteTable.WORDS + RouteColumn.WORDS * (max(self.columns, default=0) + 1), np.int64)
        columns = words[RouteTable.WORDS :].reshape(-1, RouteColumn.WORDS)
        pointers = (*self._head, columns.ctypes.data, rows.ctypes.data, groups.ctypes.data, len(rows))
        words[: len(pointers)] = pointers
        for column in self.columns:
            keys = batch.read(column)
            nulls = 0 if keys.nulls is None else keys.nulls.ctypes.data
            columns[column] = keys.double, keys.words.ctypes.data, nulls
        return RouteTable(words.ctypes.data), words


def _table(rows: Sequence[Sequence[int]], width: int) -> npt.NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, width)


def _address(numbers: Ints, of: Ints) -> None:
    """Turn the numbers of rows or words into addresses."""
    numbers *= of.strides[0]
    numbers += of.ctypes.data


def sort_rows(parts: Sequence[tuple[int, Ints]], leaves: int) -> tuple[Ints, Ints]:
    """Return where the rows of each leaf start, and the rows by leaf, in the order in which they come.

    Args:
        parts: hits, and a number to add to their rows.
        leaves: how many leaves there are.

    >>> starts, rows = sort_rows([(0, np.array([1 << 32 | 5, 5])), (6, np.array([1 << 32 | 1]))], 2)
    >>> starts.tolist(), rows.tolist()
    ([0, 1, 3], [5, 5, 7])
    """
    starts = np.zeros(leaves + 1, np.int64)
    for _, hits in parts:
        count_hits(hits, starts[1:])
    np.cumsum(starts, out=starts)
    places, rows = starts[:-1].copy(), np.empty(starts[-1], np.int64)
    for base, hits in parts:
        place_rows(hits, base, places, rows)
    return starts, rows


# ---- searches and cells


def _find_only(cell: Sequence[Member]) -> int:
    """Return the leaf of a cell, if it has one without tests, or `NO_LEAF` or `SEVERAL`."""
    if not cell:
        return NO_LEAF
    return cell[0][0] if len(cell) == 1 and not cell[0][1] else SEVERAL


def _width(ranges: Ranges) -> int:
    """Return a guess how many events fit: few (equalities), some (between bounds), half, most."""
    if all(low == high for low, high in ranges):
        return 0
    return 1 + (ranges[0][0] == LEAST) + (ranges[-1][1] == MOST)


def _is_short(members: Sequence[Member], limits: RouteLimits) -> bool:
    ranges = (each for _, ranges in members for each in ranges.values())
    return len(members) <= limits.single_leaves and all(len(each) <= limits.single_ranges for each in ranges)


def _plan_group(members: Sequence[Member], limits: RouteLimits) -> list[_Search]:
    """Return the searches of a group; leaves that are tested one after another come first."""
    if _is_short(members, limits):
        return [_list_leaves(members)] if members else []
    uses = Counter(column for _, ranges in members for column in ranges)
    chosen: dict[int, list[Member]] = {}
    for member in members:
        widths = {column: (_width(each), -uses[column], column) for column, each in member[1].items()}
        best = min(widths, key=widths.__getitem__, default=-1)
        chosen.setdefault(best if best >= 0 and widths[best][0] < MOST_EVENTS else -1, []).append(member)
    listed, searches = chosen.pop(-1, []), []
    for column, several in chosen.items():
        search, others = _make_search(column, several, limits)
        listed += others
        searches.append(search)
    return [_list_leaves(listed), *searches] if listed else searches


def _list_leaves(members: Sequence[Member]) -> _Search:
    return _Search(-1, [], [sorted(members, key=lambda each: len(each[1]))])


def _make_search(column: int, members: Sequence[Member], limits: RouteLimits) -> tuple[_Search, list[Member]]:
    """Return the search of one column, and the leaves that are in too many cells for it."""
    ends = {end for _, ranges in members for low, high in ranges[column] for end in (low, high + 1)}
    bounds = sorted(end for end in ends if LEAST < end <= MOST)
    places = [[_find_cells(bounds, *ends) for ends in ranges[column]] for _, ranges in members]
    sizes = [sum(map(len, each)) for each in places]
    cells: list[list[Member]] = [[] for _ in range(len(bounds) + 1)]
    room, others = limits.listed_cells * len(members), []
    for n in sorted(range(len(members)), key=sizes.__getitem__):
        room -= sizes[n]
        if room < 0:
            others.append(members[n])
            continue
        leaf, ranges = members[n]
        rest = {key: each for key, each in ranges.items() if key != column}
        for place in chain.from_iterable(places[n]):
            cells[place].append((leaf, rest))
    for cell in cells:
        cell.sort(key=lambda each: len(each[1]))
    return _Search(column, bounds, cells), others


def _find_cells(bounds: list[int], low: int, high: int) -> range:
    return range(bisect_right(bounds, low), bisect_right(bounds, high) + 1)
