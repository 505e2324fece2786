"""Takes events to the leaves they fit: the variables of all queries, each as comparisons with constants.

Every comparison becomes ranges of keys: integers in the order of the values, or the numbers of words. A leaf
with an equality of strings is found by a hash of the string, together with the other leaves of that string;
`routes.route_index` cuts their other comparisons into elementary intervals. So an event costs a hash and a
search among few bounds, however many queries there are, and each comparison that is left is tested only on
events that reach its leaf. Comparisons follow S4.6: NaN equals itself and is above all, -0.0 equals 0.0, an
integer compares with a double as a double, and a null fits no comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cerise.kinds import Kind
from cerise.pattern.expr import Value
from cerise.plan.pushdown import Comparison, Needed
from cerise.plan.routes.column_tests import ColumnTest, TextTest, Truth
from cerise.plan.routes.key_columns import BatchKeys, Ints, KeyAttribute, Marks, TextKeys
from cerise.plan.routes.key_ranges import (
    LEAST,
    OTHER,
    Member,
    Ranges,
    RouteLimits,
    double_key,
    intersect,
    join,
    list_ranges,
    unite,
)

if TYPE_CHECKING:
    from cerise.plan.routes.route_index import RouteIndex

MEASURED = RouteLimits()
Alike = tuple[tuple[int, Ranges], ...]
KEPT = 8  # routers of the last filters, for tasks and batches that ask for the same one
SURE, MAYBE, MOST_NUMBER = 1, 2, 255  # an event fits a leaf of its group, or must be tested


@dataclass(frozen=True, slots=True)
class Routed:
    """The rows of each leaf: those of leaf i are `rows[starts[i] : starts[i + 1]]`, ascending."""

    starts: Ints
    rows: Ints

    def of(self, leaf: int) -> Ints:
        return self.rows[self.starts[leaf] : self.starts[leaf + 1]]


# ---- comparisons as ranges of keys


def _column_of(test: Comparison) -> KeyAttribute:
    if test.op in ("is null", "is not null"):
        return KeyAttribute(test.path, "null")
    if test.kind is Kind.STRING:
        return KeyAttribute(test.path, "word" if test.op in ("=", "!=", "in") else "rank")
    return KeyAttribute(test.path, "double" if test.kind is Kind.FLOAT else "whole")


def _ranges_of(test: Comparison, form: str, words: Mapping[str, int]) -> Ranges:
    """Return the keys that fit a comparison; `words` are the numbers of the words of its column."""
    if form == "null":
        return ((1, 1),) if test.op == "is null" else ((0, 0),)
    keys = sorted({_key_of(value, form, words) for value in test.values})
    ranges = list_ranges(test.op, keys, OTHER if form in ("word", "rank") else LEAST)
    return ranges if form == "word" or len(ranges) == 1 else join(ranges)


def _key_of(value: Value, form: str, words: Mapping[str, int]) -> int:
    if isinstance(value, str):
        return words[value] if form == "word" else 2 * words[value] + 1
    assert value is not None
    return int(value) if form == "whole" else double_key(float(value))


def _combine(tests: Iterable[tuple[int, Ranges]]) -> dict[int, Ranges] | None:
    """Return the ranges of all columns of a leaf; None: no event fits."""
    found: dict[int, Ranges] = {}
    for column, ranges in tests:
        found[column] = intersect(found[column], ranges) if column in found else ranges
    return found if all(found.values()) else None


# ---- leaves that one hash finds


@dataclass(frozen=True, slots=True)
class _Probe:
    """Leaves that one hash finds, or leaves that see every event.

    Attributes:
        column: the column of words; -1: every event is in the only group.
        first: the first group.
        groups: the leaves of each group, each with the ranges that are left.
        united: for masks, as few leaves of each group as fit the same events.
        fits: for each group whether an event is `SURE` to fit a leaf, or must be tested: `MAYBE` or more, a
            number of its own for each such group. `NULL` and `OTHER` index the last two.
        holds: for each group `MAYBE` if it has a leaf.
        unsure: the tests of each leaf of groups that are `MAYBE`, with the number of the group; None: there
            are too many for tests of whole columns.
        tests: how many they are.
    """

    column: int
    first: int
    groups: tuple[tuple[Member, ...], ...]
    united: tuple[tuple[Member, ...], ...]
    fits: Marks
    holds: Marks
    unsure: tuple[tuple[int, tuple[ColumnTest, ...]], ...] | None

    @property
    def is_sure(self) -> bool:
        """Whether the group of an event decides."""
        return self.unsure == ()

    def find(self, batch: BatchKeys, states: Marks) -> Marks:
        """Return the state of each row by its group."""
        codes, rows_of = batch.code(self.column)
        found = states[codes]
        return found if rows_of is None else found.take(rows_of)

    def choose(self, batch: BatchKeys, states: Marks) -> tuple[Ints, Ints]:
        """Return the rows that must be tested, and their groups."""
        if self.column < 0:
            rows = np.arange(len(batch.batch))
            return rows, np.full(len(rows), self.first)
        return self.pick(batch, self.find(batch, states))

    def pick(self, batch: BatchKeys, found: Marks) -> tuple[Ints, Ints]:
        rows = np.flatnonzero(found >= MAYBE)
        codes, rows_of = batch.code(self.column)
        return rows, codes.take(rows if rows_of is None else rows_of.take(rows)) + self.first


@dataclass(frozen=True, slots=True)
class _TestMaker:
    """Makes tests of whole columns, equal ones once."""

    columns: Sequence[KeyAttribute]
    words: Mapping[int, Mapping[str, int]]
    limits: RouteLimits
    known: dict[tuple[int, Ranges], ColumnTest] = field(default_factory=dict)

    def make(self, ranges: Mapping[int, Ranges]) -> tuple[ColumnTest, ...]:
        found = []
        for each in ranges.items():
            if each in self.known:
                self.known[each].is_shared = True
            else:
                self.known[each] = self._make_one(*each)
            found.append(self.known[each])
        return tuple(found)

    def _make_one(self, column: int, ranges: Ranges) -> ColumnTest:
        form, most = self.columns[column].form, self.limits.column_ranges
        if form == "rank" and len(self.words[column]) <= self.limits.compared_words:
            return TextTest(column, ranges, list(self.words[column]))
        return ColumnTest(column, ranges, double=form == "double", most=most)


class Router:
    """Takes events to the leaves whose comparisons they all fit; threads may share it.

    Args:
        leaves: the comparisons of each leaf; a leaf without comparisons takes every event.
        limits: how events are routed, not where to.

    Attributes:
        names: the columns that it reads.

    >>> is_a = Comparison(("kind",), Kind.STRING, "=", ("A",))
    >>> router = Router([(is_a,), (is_a, Comparison(("x",), Kind.INT, ">", (3,)))])
    >>> events = pa.table({"kind": ["A", "B", "A"], "x": [1, 9, 9]})
    >>> router.mask(events).tolist(), router.route(events).of(1).tolist()
    ([True, False, True], [2])
    """

    def __init__(self, leaves: Sequence[tuple[Comparison, ...]], limits: RouteLimits = MEASURED) -> None:
        self._count, self._limits = len(leaves), limits
        tests = {test: _column_of(test) for leaf in leaves for test in leaf}
        self._columns = tuple(dict.fromkeys(tests.values()))
        number = {column: i for i, column in enumerate(self._columns)}
        words: dict[int, dict[str, int]] = {i: {} for i, c in enumerate(self._columns) if c.of_strings}
        for test, column in tests.items():
            if column.of_strings:
                words[number[column]].update(dict.fromkeys(map(str, test.values), 0))
        for i, each in words.items():
            words[i] = {word: place for place, word in enumerate(sorted(each))}
        self._texts = {i: TextKeys(self._columns[i].form, list(each), limits) for i, each in words.items()}
        ranges = {
            test: (number[column], _ranges_of(test, column.form, words.get(number[column], {})))
            for test, column in tests.items()
        }
        conditions = [_combine([ranges[test] for test in leaf]) for leaf in leaves]
        sizes = {i: len(each) for i, each in words.items() if self._columns[i].form == "word"}
        self._probes = _make_probes(conditions, sizes, _TestMaker(self._columns, words, limits))
        self.names = tuple(dict.fromkeys(column.path[0] for column in self._columns))

    def mask(self, table: pa.Table) -> Truth:
        """Return for each row whether it fits a leaf; this costs some nanoseconds a row."""
        marks = np.zeros(len(table), np.uint8)
        for start, batch in self._read(table, self._limits.batch_rows):
            part = marks[start : start + len(batch.batch)]
            for probe in self._probes:
                self._mark(probe, batch, part)
        return marks.view(np.bool_)

    @property
    def word_column(self) -> str | None:
        """The only column of strings by which all leaves are found; None: there is none."""
        column = self._probes[0].column if len(self._probes) == 1 else -1
        if column < 0 or len(self._columns[column].path) > 1:
            return None
        return self._columns[column].path[0]

    @property
    def is_sure(self) -> bool:
        """Whether the strings of `word_column` alone decide about an event."""
        return all(probe.is_sure for probe in self._probes)

    def judge_words(self, words: pa.Array) -> Marks:
        """Return for each string of `word_column` 0 if it fits no leaf, whatever else an event holds.

        >>> router = Router([(Comparison(("kind",), Kind.STRING, "=", ("A",)),)])
        >>> router.word_column, router.judge_words(pa.array(["B", "A"])).tolist()
        ('kind', [0, 1])
        """
        (probe,) = self._probes
        found: Marks = probe.fits[self._texts[probe.column].read(words)[:-1]]
        return found

    def route(self, table: pa.Table) -> Routed:
        """Return the rows of each leaf; the memory is that of the result, twice."""
        from cerise.plan.routes.route_index import sort_rows

        parts = [
            (start, hits)
            for start, batch in self._read(table, self._limits.routed_rows)
            for probe in self._probes
            for hits in self._route(probe, batch)
        ]
        return Routed(*sort_rows(parts, self._count))

    def _read(self, table: pa.Table, rows: int) -> Iterator[tuple[int, BatchKeys]]:
        """Yield batches of at most some rows, each with the number of its first row."""
        start, dictionaries = 0, dict[int, tuple[pa.Array, Ints]]()
        some = table.select(list(self.names)) if self.names else table
        for batch in some.to_batches(max_chunksize=rows):
            if len(batch):
                yield start, BatchKeys(self._columns, self._texts, batch, dictionaries)
                start += len(batch)

    # ---- one batch

    def _mark(self, probe: _Probe, batch: BatchKeys, marks: Marks) -> None:
        if probe.column < 0:
            self._mark_any(probe, batch, marks)
            return
        found = probe.find(batch, probe.fits)
        if probe.unsure == ():
            marks |= found
            return
        marks |= found == SURE
        maybe = int(np.count_nonzero(found >= MAYBE))
        if maybe and probe.unsure is not None and self._pays(len(probe.unsure), maybe, len(marks)):
            for number, tests in probe.unsure:
                marks |= _hold_all(batch, tests, found == number)
        elif maybe:
            self.mask_index.mark(batch, *probe.pick(batch, found), marks)

    def _mark_any(self, probe: _Probe, batch: BatchKeys, marks: Marks) -> None:
        """Mark events that fit leaves that see every event."""
        if probe.unsure == ():
            marks[:] = SURE
        elif probe.unsure is not None and self._pays(len(probe.unsure), len(marks), len(marks)):
            for _, tests in probe.unsure:
                marks |= _hold_all(batch, tests)
        else:
            self.mask_index.mark(batch, *probe.choose(batch, probe.fits), marks)

    def _pays(self, tests: int, rows: int, total: int) -> bool:
        """Whether tests of whole columns are faster than a test of each of some rows."""
        return tests * total < self._limits.row_tests * rows + self._limits.column_tests * total

    def _route(self, probe: _Probe, batch: BatchKeys) -> Iterator[Ints]:
        rows, groups = probe.choose(batch, probe.holds)
        if len(rows):
            yield from self.route_index.route(batch, rows, groups)

    @cached_property
    def mask_index(self) -> RouteIndex:
        """The tests besides words for masks, made when an event first needs one."""
        from cerise.plan.routes.route_index import RouteIndex

        return RouteIndex([group for probe in self._probes for group in probe.united], self._limits)

    @cached_property
    def route_index(self) -> RouteIndex:
        """The tests besides words of each leaf, made when an event first needs one."""
        from cerise.plan.routes.route_index import RouteIndex

        return RouteIndex([group for probe in self._probes for group in probe.groups], self._limits)


def _hold_all(batch: BatchKeys, tests: Sequence[ColumnTest], found: Truth | None = None) -> Truth:
    for test in tests:
        holds = test.read(batch)
        found = holds if found is None else found & holds
    assert found is not None
    return found


def _make_probes(
    conditions: Sequence[dict[int, Ranges] | None], sizes: Mapping[int, int], make: _TestMaker
) -> list[_Probe]:
    """Return the probes; a leaf with words in several columns is found by the column of the most words.

    Args:
        conditions: the ranges of each leaf; None: no event fits it.
        sizes: how many words each column of words is compared with.
        make: makes tests of whole columns.
    """
    chosen: dict[int, dict[int, list[Member]]] = {}
    for leaf, ranges in enumerate(conditions):
        if ranges is not None:
            named = [c for c, each in ranges.items() if c in sizes and _is_named(each)]
            access = max(named, key=lambda c: sizes[c], default=-1)
            member = leaf, {c: each for c, each in ranges.items() if c != access}
            for low, _ in ranges[access] if named else ((0, 0),):
                chosen.setdefault(access, {}).setdefault(low, []).append(member)
    probes, first = [], 0
    for column, groups in chosen.items():
        count = sizes[column] if column >= 0 else 1
        probes.append(_make_probe(column, first, [tuple(groups.get(i, ())) for i in range(count)], make))
        first += count
    return probes


def _make_probe(column: int, first: int, groups: Sequence[tuple[Member, ...]], make: _TestMaker) -> _Probe:
    fits, holds = np.zeros((2, len(groups) + 2), np.uint8)
    united = tuple(tuple(unite(group)) if all(rest for _, rest in group) else () for group in groups)
    holds[: len(groups)] = [MAYBE if group else 0 for group in groups]
    fits[: len(groups)] = [
        MAYBE if some else SURE if group else 0 for group, some in zip(groups, united, strict=True)
    ]
    alike: dict[tuple[Alike, ...], list[int]] = {}  # groups whose leaves are equal have one number
    for i, group in enumerate(united):
        if group:
            alike.setdefault(tuple(tuple(rest.items()) for _, rest in group), []).append(i)
    if len(alike) > MOST_NUMBER - MAYBE:
        return _Probe(column, first, tuple(groups), united, fits, holds, None)
    unsure: list[tuple[int, tuple[ColumnTest, ...]]] = []
    for number, (leaves, places) in enumerate(alike.items(), MAYBE):
        fits[places] = number
        unsure += [(number, make.make(dict(rest))) for rest in leaves]
    return _Probe(column, first, tuple(groups), united, fits, holds, tuple(unsure))


def _is_named(ranges: Ranges) -> bool:
    return all(low == high >= 0 for low, high in ranges)


@lru_cache(maxsize=KEPT)
def router_of(wanted: Needed) -> Router:
    """Return the router of a filter; the last ones are kept.

    >>> router_of(((Comparison(("x",), Kind.INT, ">", (3,)),),)).mask(pa.table({"x": [3, 4]})).tolist()
    [False, True]
    """
    return Router(wanted)
