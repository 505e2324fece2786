"""Row patterns over streams: rows fed as a watermark releases them, and which matches are decided by then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from cerise.engines.base import Options, find_rows_outside
from cerise.engines.reference.rows import (
    ConditionTest,
    Mapped,
    ReferenceRowSearch,
    RowMatch,
    resume,
    to_matches,
)
from cerise.engines.reference.rows_values import read_columns
from cerise.engines.results.value_codes import partitions
from cerise.engines.row_streams.row_stream import why_no_stream
from cerise.engines.rows.output import to_table
from cerise.engines.rows.prepare import prepare
from cerise.engines.threads import Steps, Watch
from cerise.events import RowBatch
from cerise.kinds import canonical, kind_of
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import CLASSIFIER, Anchor, BoundRows, Nav, RowPattern, Show
from cerise.run.question import Work
from cerise.run.row_search import RowClause

Rows = Counter[str]
NEVER = -(1 << 70)


def can_stream(bound: BoundRows, table: pa.Table) -> bool:
    """Whether the clause can be a stream, and each row has a time."""
    if why_no_stream(bound, unbounded=True) is not None:
        return False
    return table.column(bound.order[0].column).null_count == 0


def times_of(bound: BoundRows, table: pa.Table) -> Any:
    name = bound.order[0].column
    column = table.column(name)
    return np.asarray(canonical(column, kind_of(column.type), name).cast(pa.int64()), np.int64)


def released(bound: BoundRows, table: pa.Table, size: int) -> Iterator[tuple[pa.Table, int]]:
    """Yield the rows of so many moments at a time, as they arrived, and the time that has come then."""
    times = times_of(bound, table)
    moments = np.unique(times)
    for start in range(0, len(moments), size):
        here = moments[start : start + size]
        rows = np.flatnonzero(np.isin(times, here))
        yield table.take(pa.array(rows)), int(here[-1]) + 1


def rows_of(table: pa.Table) -> Rows:
    """The rows of a table, in any order, NaN and -0.0 among them."""
    return Counter(map(repr, zip(*(each.to_pylist() for each in table.columns), strict=True)))


@dataclass
class Streamed:
    """A stream under way: what it gave so far."""

    bound: BoundRows
    options: Options = field(default_factory=Options)
    reload: bool = False
    on_skip: str = "error"
    parts: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.question = RowClause(self.bound, self.options)
        self.search = self._start()

    def _start(self) -> Any:
        return self.question.start_stream(Work(self.options), on_skip=self.on_skip, unbounded=True)

    def feed(self, table: pa.Table) -> None:
        self.parts += self.search.feed(RowBatch(table))
        self._again()

    def advance(self, time: int) -> None:
        self.parts += self.search.advance(time)
        self._again()

    def _again(self) -> None:
        if self.reload:
            state = self.search.save()
            self.search = self._start()
            self.search.load(state)
            assert self.search.save() == state

    def flush(self) -> pa.Table:
        self.parts += self.search.flush()
        return self.question.finish(self.parts)

    @property
    def rows(self) -> Rows:
        return sum(map(rows_of, self.parts), Counter())


def run_stream(bound: BoundRows, table: pa.Table, size: int, **how: Any) -> pa.Table:
    """The answer over a stream of so many moments at a time."""
    stream = Streamed(bound, **how)
    for rows, now in released(bound, table, size):
        stream.feed(rows)
        stream.advance(now)
    return stream.flush()


def check_steps(bound: BoundRows, table: pa.Table, size: int, **how: Any) -> pa.Table:
    """The answer over a stream, which after every step has given what is decided, and nothing else."""
    stream, known, now = Streamed(bound, **how), table.slice(0, 0), NEVER
    for rows, then in released(bound, table, size):
        stream.feed(rows)
        known = pa.concat_tables([known, rows])
        _compare(stream, decided(bound, known, now), f"fed before {then}")
        now = then
        stream.advance(now)
        _compare(stream, decided(bound, known, now), f"advanced to {now}")
    return stream.flush()


def _compare(stream: Streamed, expected: pa.Table, when: str) -> None:
    given, wanted = stream.rows, rows_of(expected)
    assert given == wanted, f"{when}: too early {given - wanted}, too late {wanted - given}"


# ---- the definition of what is decided


class Undecided(Exception):
    """A search has touched the end of the known rows."""


@dataclass(slots=True)
class TouchingSearch(ReferenceRowSearch):
    """The reference, which stops where it needs rows that are not known."""

    now: int = NEVER
    reach: int = 0

    def _one_row(self, label: str, mapped: Mapped, *, hidden: bool) -> Iterator[Mapped]:
        row, end = self.start + len(mapped), self.partition[1]
        if max(self.partition[0], end - self.reach) <= row < end and self._in_window(row):
            raise Undecided
        if row >= end and not self._is_late():
            raise Undecided
        yield from ReferenceRowSearch._one_row(self, label, mapped, hidden=hidden)

    def _is_late(self) -> bool:
        within = self.bound.within
        if within is None:
            return False
        passed = self.now - self.columns[self.bound.order[0].column][self.start]
        return bool(passed >= within.size if within.exclusive else passed > within.size)

    def candidates(self, pattern: RowPattern, mapped: Mapped, *, hidden: bool) -> Iterator[Mapped]:
        if (
            isinstance(pattern, Anchor)
            and not pattern.start
            and self.start + len(mapped) == self.partition[1]
        ):
            raise Undecided
        yield from ReferenceRowSearch.candidates(self, pattern, mapped, hidden=hidden)


def decided(bound: BoundRows, table: pa.Table, now: int) -> pa.Table:
    """The rows of the result that are decided by rows so far and the time, by definition."""
    prepared = prepare(bound, table)
    offsets = partitions(bound, prepared)
    columns = read_columns(bound, prepared)
    tests = {
        each.label: ConditionTest(
            compile_expr(each.expr, lambda fault: None),
            {attr.path[0]: bound.atoms[attr.path[0]] for attr in attributes(each.expr)},
        )
        for each in bound.conditions
    }
    reach = max(
        [0, *(a.shift for a in bound.atoms.values() if isinstance(a, Nav) and a.column != CLASSIFIER)]
    )
    found: list[RowMatch] = []
    passed = np.zeros(len(prepared), np.bool_)
    for low, high in pairwise(offsets.tolist()):
        start, number = low, 1
        while start < max(low, high - reach):
            steps = Steps(1 << 62, Watch())
            search = TouchingSearch(bound, columns, tests, (low, high), start, number, steps, (), now, reach)
            try:
                match = search.match()
            except Undecided:
                break
            if match is not None:
                found.append(match)
                number += 1
            start = start + 1 if match is None else resume(bound, match)
        passed[low:start] = True
    matches = replace(to_matches(bound, found, offsets), unmatched=None)
    if bound.show is Show.UNMATCHED:
        rows = find_rows_outside(matches, len(prepared))
        matches = replace(matches, unmatched=rows[passed[rows]])
    return to_table(bound, prepared, offsets, matches)
