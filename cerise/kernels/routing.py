"""The inner loops that take events to the leaves they fit: groups of leaves, cells of keys, other tests.

A key is an integer whose order is that of a value. A leaf is a set of ranges of keys for some columns. The
caller finds the group of an event by a hash. In a group the leaves with ranges of one column form a search:
their bounds cut the keys into cells, and a cell lists its leaves, each with the tests of the other columns.
An event costs a search for each search of its group, and the tests of the leaves of the cells.

Bounds are searched as a tree in an array: the children of node k are 2k and 2k + 1. A step is an addition
and no branch, because a processor cannot predict where in its ranges the next event lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from cerise.kernels.jit import Ints, Marks, boolean, int64, kernel, load, void
from cerise.kernels.records import Record, Rows, Words
from cerise.kernels.strings import LOW

LEAST, MOST = -(2**63), 2**63 - 1
INFINITY = 0x7FF0_0000_0000_0000  # the bits of the double, and its key


class RouteColumn(Record):
    """The values of one attribute: the bits of doubles, or integers that are keys already."""

    double: int
    keys: Words
    nulls: int  # the address of bytes, 1 for a null, seven more bytes at the end; 0: no value is null


class RouteBounds(Record):
    """Sorted numbers, as a tree: the nodes follow, filled up with the greatest number."""

    depth: int
    count: int


class RouteTest(Record):
    """A test of one column: the first and last key that fit, and if there are several ranges, their ends."""

    column: int
    low: int
    high: int
    bounds: RouteBounds  # where ranges start, and in turn where they have ended; depth 0: there is one range


class RouteEntry(Record):
    """A leaf in a cell, and the tests that are left."""

    leaf: int
    tests: Rows[RouteTest]
    count: int


class RouteSearch(Record):
    """A search: the bounds of cells, and where the entries of each cell start; column -1 has one cell."""

    column: int
    bounds: RouteBounds
    cells: Words


class RouteGroup(Record):
    """The search of a group that has only one."""

    column: int  # -1: the group has several searches, or none
    bounds: RouteBounds
    only: Words  # for each cell its leaf, if it has one without tests; NO_LEAF, or SEVERAL


class RouteTable(Record):
    """The searches of each group, the entries of all cells, and the values of a batch of events."""

    quick: Rows[RouteGroup]
    searches: Words  # where the searches of each group start, and where the last end
    search: Rows[RouteSearch]
    entries: Rows[RouteEntry]
    widest: int  # the most entries that one event may meet
    columns: Rows[RouteColumn]
    rows: Words  # the rows to look at
    groups: Words  # the group of each
    count: int
    done: int  # how many are done
    hits: Words  # room for hits: a leaf in the upper half of a word, the row in the lower
    room: int
    written: int  # how many


NO_LEAF, SEVERAL = -1, -2
BEFORE = RouteBounds.WORDS - 1  # the first node of the tree is node 1


def write_bounds(numbers: Sequence[int]) -> list[int]:
    """Return the words of `RouteBounds`.

    >>> write_bounds([10, 20, 30])
    [2, 3, 20, 10, 30]
    """
    depth = len(numbers).bit_length()
    filled = [*numbers, *[MOST] * ((1 << depth) - 1 - len(numbers))]
    return [depth, len(numbers), *(filled[place] for place in _order_nodes(depth))]


@lru_cache
def _order_nodes(depth: int) -> tuple[int, ...]:
    """Return for each node of a tree its place among the sorted numbers."""
    steps = [1 << (depth - level) for level in range(depth)]
    return tuple(place for step in steps for place in range(step // 2 - 1, (1 << depth) - 1, step))


# ---- one event


@kernel()
def order_key(bits: int) -> int:
    """Return the key of a double: -0.0 equals 0.0, NaN equals itself and is above all."""
    size, sign = bits & MOST, bits >> 63  # signs are as hard to predict
    return MOST if size > INFINITY else (size ^ sign) - sign


@kernel()
def key_of(column: RouteColumn, row: int) -> int:
    """Return the key of a value."""
    bits = column.keys[row]
    return order_key(bits) if column.double != 0 else bits


@kernel()
def is_null(column: RouteColumn, row: int) -> bool:
    """Whether a value is null."""
    return column.nulls != 0 and (load(column.nulls + row) & 1) != 0


@kernel(inline=True)
def count_upto(bounds: RouteBounds, key: int) -> int:
    """Return how many of the bounds are at most a key."""
    depth, at = bounds.depth, 1
    for _ in range(depth):
        at = 2 * at + int(bounds[BEFORE + at] <= key)
    return min(at - (1 << depth), bounds.count)


@kernel()
def fits(entry: RouteEntry, columns: Rows[RouteColumn], row: int) -> bool:
    """Whether an event passes the tests that are left."""
    tests = entry.tests
    for t in range(entry.count):
        test = tests[t]
        column = columns[test.column]
        if is_null(column, row):
            return False
        key = key_of(column, row)
        if (key < test.low) | (key > test.high):
            return False
        bounds = test.bounds
        if bounds.depth != 0 and count_upto(bounds, key) & 1 == 0:
            return False
    return True


@kernel()
def cell_of(search: RouteSearch, columns: Rows[RouteColumn], row: int) -> int:
    """Return the cell of an event, -1 if its value is null."""
    if search.column < 0:
        return 0
    column = columns[search.column]
    if is_null(column, row):
        return -1
    return count_upto(search.bounds, key_of(column, row))


# ---- many events


@kernel(void(int64, Marks))
def mark_rows(table: int, marks: Any) -> None:
    """Mark the rows that fit a leaf of their group.

    Args:
        table: the address of a `RouteTable`, with the rows to look at.
        marks: room for the marks of all rows.
    """
    m = RouteTable(table)
    searches, search, entries, columns = m.searches, m.search, m.entries, m.columns
    rows, groups = m.rows, m.groups
    for n in range(m.count):
        row, group, found = rows[n], groups[n], False
        for s in range(searches[group], searches[group + 1]):
            each = search[s]
            cell, cells = cell_of(each, columns, row), each.cells
            if cell >= 0:
                for e in range(cells[cell], cells[cell + 1]):
                    if fits(entries[e], columns, row):
                        found = True
                        break
            if found:
                marks[row] = 1
                break


@kernel()
def route_row(m: RouteTable, n: int, written: int) -> int:
    """Write the leaves that a row fits; return how many are written now."""
    row, group, columns, hits = m.rows[n], m.groups[n], m.columns, m.hits
    for s in range(m.searches[group], m.searches[group + 1]):
        each = m.search[s]
        cell, cells = cell_of(each, columns, row), each.cells
        if cell >= 0:
            for e in range(cells[cell], cells[cell + 1]):
                entry = m.entries[e]
                if fits(entry, columns, row):
                    hits[written] = entry.leaf << 32 | row
                    written += 1
    return written


@kernel(inline=True)
def quick_leaf(search: RouteGroup, columns: Rows[RouteColumn], row: int) -> int:
    """Return the only leaf that a row fits, or `NO_LEAF`, or `SEVERAL`, if that is not easily told."""
    if search.column < 0:
        return SEVERAL
    column = columns[search.column]
    if is_null(column, row):
        return NO_LEAF
    return search.only[count_upto(search.bounds, key_of(column, row))]


@kernel(void(int64))
def route_rows(table: int) -> None:
    """Write the hits of rows until all are done or the room is full.

    Args:
        table: the address of a `RouteTable`, with the rows to look at and the room.
    """
    m = RouteTable(table)
    quick, columns, rows, groups, hits = m.quick, m.columns, m.rows, m.groups, m.hits
    written, last, total, n = 0, m.room - m.widest, m.count, m.done
    while n < total and written <= last:
        row = rows[n]
        leaf = quick_leaf(quick[groups[n]], columns, row)
        if leaf == SEVERAL:
            written = route_row(m, n, written)
        else:  # without a branch on the leaf
            hits[written] = leaf << 32 | row
            written += int(leaf != NO_LEAF)
        n += 1
    m.done = n
    m.written = written


@kernel(void(Ints, Ints))
def count_hits(hits: Any, counts: Any) -> None:
    """Count the hits of each leaf."""
    for n in range(len(hits)):
        counts[hits[n] >> 32] += 1


@kernel(void(Ints, int64, Ints, Ints))
def place_rows(hits: Any, base: int, places: Any, out: Any) -> None:
    """Write the row of each hit, and `base` more, at the next place of its leaf, and move that place on."""
    for n in range(len(hits)):
        hit = hits[n]
        place = places[hit >> 32]
        out[place] = base + (hit & LOW)
        places[hit >> 32] = place + 1


@kernel(void(int64, boolean, int64, Marks))
def keep_among(keys: int, double: bool, bounds: int, marks: Any) -> None:
    """Take the mark from each row whose key is in none of some ranges.

    Args:
        keys: the address of the keys, or of the bits of doubles.
        double: whether they are doubles.
        bounds: the address of `RouteBounds`: where ranges start, and in turn where they have ended.
        marks: the marks.
    """
    values, among = Words(keys), RouteBounds(bounds)
    for i in range(len(marks)):
        key = order_key(values[i]) if double else values[i]
        marks[i] &= count_upto(among, key) & 1
