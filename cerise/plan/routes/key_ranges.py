"""Comparisons as ranges of keys: integers that are in the order of the values, as S4.6 orders them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

Ranges = tuple[tuple[int, int], ...]  # of keys: disjoint, ascending; both ends belong to a range
Member = tuple[int, Mapping[int, Ranges]]  # a leaf, and for each column the keys that fit

LEAST, MOST = -(2**63), 2**63 - 1
INFINITY = 0x7FF0_0000_0000_0000  # the key of the double
NULL, OTHER = -2, -1  # the keys of a null, and of a string that is not a word of the queries


@dataclass(frozen=True, slots=True)
class RouteLimits:
    """Sizes that decide how events are routed, and never where to; measured.

    Args:
        batch_rows: rows that masks read at a time.
        routed_rows: rows that are routed at a time.
        words: words of a column up to which a hash without collisions is looked for.
        single_leaves: leaves of a group that are tested one after another, without a search.
        single_ranges: ranges of a test in such a group.
        listed_cells: cells that a leaf may be in, on average: wider leaves are tested one after another.
        column_tests: tests from which on all leaves are tested row by row, and not column by column.
        row_tests: tests of a column that cost as much as to test one more row by itself.
        column_ranges: ranges that are tested one after another over a whole column; of more, a search.
        compared_words: words of a column up to which strings are compared with each, and not ranked.
    """

    batch_rows: int = 1 << 17
    routed_rows: int = 1 << 16
    words: int = 256
    single_leaves: int = 4
    single_ranges: int = 8
    listed_cells: int = 32
    column_tests: int = 4
    row_tests: int = 64
    column_ranges: int = 44
    compared_words: int = 2

    @classmethod
    def all(cls, size: int) -> RouteLimits:
        """Return limits that are all of one size.

        >>> RouteLimits.all(3).words
        3
        """
        return cls(*(size for _ in fields(cls)))


def list_ranges(op: str, keys: Sequence[int], least: int) -> Ranges:
    """Return the keys that fit a comparison.

    Args:
        op: the comparison.
        keys: the keys of its constants, ascending.
        least: the least key of all values.

    >>> list_ranges("!=", [7], LEAST) == ((LEAST, 6), (8, MOST))
    True
    """
    key = keys[0] if keys else least
    ranges = {
        "<": [(least, key - 1)], "<=": [(least, key)], ">": [(key + 1, MOST)], ">=": [(key, MOST)],
        "!=": [(least, key - 1), (key + 1, MOST)],
    }.get(op, [(each, each) for each in keys])  # fmt: skip
    return tuple(each for each in ranges if each[0] <= each[1])


def double_key(value: float) -> int:
    """Return an integer that orders doubles as S4.6 does; `kernels.routing.order_key` is its compiled twin.

    >>> double_key(-1.5) < double_key(-0.0) == double_key(0.0) < double_key(1e-9) < double_key(float("nan"))
    True
    """
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    key: int = bits if bits >= 0 else LEAST - bits
    return MOST if abs(key) > INFINITY else key


def double_of(key: int) -> float:
    """Return the double of a key.

    >>> double_of(double_key(-1.5))
    -1.5
    """
    bits = key if key >= 0 else LEAST - key
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


def intersect(left: Ranges, right: Ranges) -> Ranges:
    """Return the keys in both ranges.

    >>> intersect(((0, 5), (8, 9)), ((4, 8),))
    ((4, 5), (8, 8))
    """
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            found.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def join(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the keys in any of some ranges.

    >>> join([(7, 8), (1, 1), (2, 5), (3, 4)])
    ((1, 5), (7, 8))
    """
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low - 1 <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(found)


def unite(members: Sequence[Member]) -> list[Member]:
    """Return leaves such that an event fits one of them if and only if it fits one of the given leaves.

    >>> unite([(0, {3: ((1, 4),)}), (1, {3: ((5, 9),)}), (2, {3: ((5, 9),), 4: ((0, 0),)})])
    [(0, {3: ((1, 9),)}), (2, {3: ((5, 9),), 4: ((0, 0),)})]
    """
    alone: dict[int, list[Member]] = {}
    found: list[Member] = []
    for leaf, ranges in members:
        if len(ranges) == 1:
            alone.setdefault(next(iter(ranges)), []).append((leaf, ranges))
        else:
            found.append((leaf, ranges))
    for column, several in alone.items():
        every = join(each for _, ranges in several for each in ranges[column])
        found.append((several[0][0], {column: every} if len(several) > 1 else several[0][1]))
    return sorted(found, key=lambda each: each[0])
