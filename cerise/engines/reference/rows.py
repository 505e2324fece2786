"""The reference for row patterns: plain backtracking, one candidate after another (semantics.md §10).

Slow and obvious: it computes every value from scratch for every row it tries, and a match takes a Python
frame for each iteration of a quantifier, so a match can have some thousands of rows, not more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, permutations

import numpy as np
import pyarrow as pa

from cerise.engines.base import Ints, RowMatches, find_rows_outside
from cerise.engines.reference.rows_values import Columns, Scope, read_columns, value_of
from cerise.engines.results.value_codes import partitions
from cerise.engines.threads import Steps, Watch
from cerise.errors import DataError, UnsupportedError
from cerise.events import Path
from cerise.pattern.evaluate import Compiled, compile_expr
from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import (
    Alternation,
    Anchor,
    Atom,
    BoundRows,
    Concat,
    Excluded,
    Label,
    Permute,
    Quantified,
    RowPattern,
    Show,
    SkipTo,
)
from cerise.pattern.values import Fault

NO_LIMIT = 1 << 62  # steps
Mapped = tuple[tuple[str, bool], ...]  # the label of each row of a candidate, and whether it is excluded
DEEPEST = 20_000  # Python frames
PER_PART, PER_TEST, PER_ROW = 20, 100, 20  # steps for a part of the pattern, a test, each row of the test


@dataclass(frozen=True, slots=True)
class RowMatch:
    """A match, or a partial match whose window expired, a time-out (M46).

    Attributes:
        number: its MATCH_NUMBER().
        start: its first row in the prepared table; for an empty match, the row where it was found.
        labels: the label of row start + i.
        excluded: whether the output omits row start + i (M38).
        status: its MATCH_STATUS(): 'match' or 'timeout'.
    """

    number: int
    start: int
    labels: tuple[str, ...]
    excluded: tuple[bool, ...]
    status: str = "match"


@dataclass(frozen=True, slots=True)
class ConditionTest:
    """The condition of a variable, and the atoms that it reads."""

    function: Compiled
    atoms: dict[str, Atom]

    def holds(self, scope: Scope) -> bool:
        """Whether it holds; null does not (M18), and a value that cannot be computed is null (S4.6)."""
        columns: dict[Path, list[object]] = {
            (name,): [_or_null(atom, scope)] for name, atom in self.atoms.items()
        }
        return self.function(columns, {"": (0,)}, {}) is True


def _or_null(atom: Atom, scope: Scope) -> object:
    try:
        return value_of(atom, scope)
    except Fault:
        return None


def find_rows(bound: BoundRows, table: pa.Table, steps: Steps | None = None) -> list[RowMatch]:
    """Return the matches in a prepared table (`engines.rows.prepare`), partition after partition.

    Args:
        bound: the clause.
        table: the rows.
        steps: counts the steps; None: no limit.

    Raises:
        DataError: AFTER MATCH SKIP has no row to go to (M40).
        PlanError: the search takes too many steps.
    """
    steps = steps or Steps(NO_LIMIT, Watch())
    columns = read_columns(bound, table)
    tests = {
        each.label: ConditionTest(
            compile_expr(each.expr, lambda fault: None),
            {attr.path[0]: bound.atoms[attr.path[0]] for attr in attributes(each.expr)},
        )
        for each in bound.conditions
    }
    offsets = partitions(bound, table).tolist()
    with _deep():
        found = [
            match
            for low, high in pairwise(offsets)
            for match in _scan(bound, columns, tests, (low, high), steps)
        ]
    steps.watch.advance(len(table) - steps.walked)
    return found


def _scan(
    bound: BoundRows,
    columns: Columns,
    tests: dict[str, ConditionTest],
    partition: tuple[int, int],
    steps: Steps,
) -> Iterator[RowMatch]:
    """Yield the matches of a partition: from each start the most preferred one, then skip (M5–M8)."""
    start, number = partition[0], 1
    while start < partition[1]:
        search = ReferenceRowSearch(bound, columns, tests, partition, start, number, steps)
        match = search.match()
        if match is None:
            start += 1
            continue
        yield match
        number += 1
        start = resume(bound, match)


def resume(bound: BoundRows, match: RowMatch) -> int:
    """Return the row where the search goes on (M39, M40): the next row after an empty match or a time-out."""
    skip, start = bound.skip, match.start
    if not match.labels or match.status == "timeout" or skip.to is SkipTo.NEXT:
        return start + 1
    if skip.to is SkipTo.PAST_LAST:
        return start + len(match.labels)
    targets = [start + i for i, label in enumerate(match.labels) if label in skip.members]
    where = f"AFTER MATCH SKIP {skip.to.value} {skip.name}"
    if not targets:
        raise DataError(
            f"{where}: match {match.number} of its partition has no row mapped to {skip.name}",
            hint=f"make {skip.name} mandatory in PATTERN, or use AFTER MATCH SKIP PAST LAST ROW",
        )
    target = targets[0] if skip.to is SkipTo.FIRST else targets[-1]
    if target == start:
        raise DataError(
            f"{where}: {skip.name} is the first row of match {match.number} of its partition, "
            "which would be found again and again",
            hint="use AFTER MATCH SKIP TO NEXT ROW, or skip to a variable that comes later",
        )
    return target


@dataclass(slots=True)
class ReferenceRowSearch:
    """Searches the candidates from one start row, in preferment order.

    Attributes:
        bound: the clause.
        columns: the columns of the table.
        tests: the conditions, by variable.
        partition: the first row of the partition, and the row after its last.
        start: the first row of a match.
        number: the MATCH_NUMBER() of a match.
        steps: counts the steps.
        expired: the first candidate that lacks a row because its window, or the partition, is over.
    """

    bound: BoundRows
    columns: Columns
    tests: dict[str, ConditionTest]
    partition: tuple[int, int]
    start: int
    number: int
    steps: Steps
    expired: Mapped = ()

    def match(self) -> RowMatch | None:
        """Return the most preferred match; without one, the time-out if the clause asks for it."""
        within = self.bound.within
        found = next(self.candidates(self.bound.pattern, (), hidden=False), None)
        if found is not None:
            return self._row_match(found, "match")
        if within is not None and within.timeouts and self.expired:
            return self._row_match(self.expired, "timeout")
        return None

    def _row_match(self, mapped: Mapped, status: str) -> RowMatch:
        labels, excluded = tuple(label for label, _ in mapped), tuple(hidden for _, hidden in mapped)
        return RowMatch(self.number, self.start, labels, excluded, status)

    def candidates(self, pattern: RowPattern, mapped: Mapped, *, hidden: bool) -> Iterator[Mapped]:
        """Yield each way in which a pattern can follow the rows mapped so far, the most preferred first."""
        self.steps.take(PER_PART, self.start + 1, len(mapped))
        match pattern:
            case Label(name):
                yield from self._one_row(name, mapped, hidden=hidden)
            case Concat(items):
                yield from self._one_after_another(items, mapped, hidden=hidden)
            case Alternation(items):
                for item in items:
                    yield from self.candidates(item, mapped, hidden=hidden)
            case Permute(items):
                for order in permutations(items):  # in lexicographic order of their places (M14)
                    yield from self._one_after_another(order, mapped, hidden=hidden)
            case Quantified():
                yield from self._repeat(pattern, 0, mapped, hidden=hidden)
            case Excluded(item):
                yield from self.candidates(item, mapped, hidden=True)
            case Anchor(start):
                if self.start + len(mapped) == self.partition[0 if start else 1]:
                    yield mapped

    def _one_after_another(
        self, items: tuple[RowPattern, ...], mapped: Mapped, *, hidden: bool
    ) -> Iterator[Mapped]:
        """Yield all continuations of the first choice for the left part, then those of the second (M9)."""
        if not items:
            yield mapped
            return
        for longer in self.candidates(items[0], mapped, hidden=hidden):
            yield from self._one_after_another(items[1:], longer, hidden=hidden)

    def _repeat(self, loop: Quantified, count: int, mapped: Mapped, *, hidden: bool) -> Iterator[Mapped]:
        """Yield the candidates after `count` iterations: another iteration first, unless reluctant (M11).

        Once the minimum is reached, an iteration without rows is a candidate, and the last (M13).
        """
        enough = count >= loop.low
        if enough and loop.reluctant:
            yield mapped
        if loop.high is None or count < loop.high:
            for longer in self.candidates(loop.item, mapped, hidden=hidden):
                if enough and len(longer) == len(mapped):
                    yield longer
                else:
                    yield from self._repeat(loop, count + 1, longer, hidden=hidden)
        if enough and not loop.reluctant:
            yield mapped

    def _one_row(self, label: str, mapped: Mapped, *, hidden: bool) -> Iterator[Mapped]:
        """Map the next row to a variable if it exists, lies in the window and satisfies the condition."""
        row = self.start + len(mapped)
        if row == self.partition[1] or not self._in_window(row):
            self.expired = self.expired or mapped
            return
        longer = (*mapped, (label, hidden))
        self.steps.take(PER_TEST + PER_ROW * len(longer), self.start + 1, len(longer))
        if label not in self.tests or self.tests[label].holds(self._scope(longer)):
            yield longer

    def _scope(self, mapped: Mapped) -> Scope:
        """Return the scope of a condition: its own row is tentatively mapped already (M19)."""
        labels = [label for label, _ in mapped]
        return Scope(self.columns, *self.partition, self.start, labels, len(labels), self.number)

    def _in_window(self, row: int) -> bool:
        """Whether a row is in the window that the first row opens; a row without time is in none (M42)."""
        within = self.bound.within
        if within is None or row == self.start:
            return True
        times = self.columns[self.bound.order[0].column]
        first, last = times[self.start], times[row]
        if first is None or last is None:
            return False
        return bool(abs(last - first) < within.size if within.exclusive else abs(last - first) <= within.size)


@contextmanager
def _deep() -> Iterator[None]:
    """Raise Python's recursion limit for the body of a `with`."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST))
    try:
        yield
    except RecursionError as error:
        raise UnsupportedError(
            f"a candidate is longer than the reference can follow: about {DEEPEST} rows",
            hint="the compiled engine has no such limit",
        ) from error
    finally:
        sys.setrecursionlimit(before)


def to_matches(bound: BoundRows, found: list[RowMatch], offsets: Ints) -> RowMatches:
    """Return matches as arrays, from which the output is made.

    Args:
        bound: the clause.
        found: the matches of `find_rows`.
        offsets: the first row of each partition, and the number of rows (`engines.rows.prepare`).
    """
    place = {label: i for i, label in enumerate(bound.labels)}
    starts = np.array([each.start for each in found], np.int64)
    matches = RowMatches(
        starts,
        np.array([len(each.labels) for each in found], np.int64),
        np.array([each.number for each in found], np.int64),
        np.searchsorted(offsets, starts, side="right").astype(np.int64) - 1,
        np.array([place[label] for each in found for label in each.labels], np.int16),
        np.array([hidden for each in found for hidden in each.excluded], np.bool_),
        np.array([each.status == "timeout" for each in found], np.bool_),
    )
    if bound.show is not Show.UNMATCHED:
        return matches
    return replace(matches, unmatched=find_rows_outside(matches, int(offsets[-1])))
