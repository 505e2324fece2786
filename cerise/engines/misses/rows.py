"""Why a row starts no match of a row pattern (M47): the longest candidate, and the tests that it fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cerise.engines.base import Bools, Ints, Options, RowMatches, concat_matches, find_rows_outside
from cerise.engines.misses.chosen import CHOSEN
from cerise.engines.misses.miss_report import (
    Miss,
    Reason,
    StepBudget,
    explain_test,
    most_steps,
    start_names,
    take_misses,
    to_table,
)
from cerise.engines.reference.rows import ConditionTest, RowMatch, resume
from cerise.engines.reference.rows_values import Columns, Scope, read_columns, value_of
from cerise.engines.results.value_codes import partitions
from cerise.engines.rows.prepare import prepare
from cerise.engines.rows.table_search import find_in_table
from cerise.events import Path
from cerise.kinds import MOMENTS, kind_of
from cerise.pattern.check import kind_of as kind_of_expr
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.expr import Expr, attributes, conjuncts
from cerise.pattern.row_pattern import (
    CLASSIFIER,
    Alternation,
    Anchor,
    Atom,
    BoundRows,
    Concat,
    Excluded,
    Label,
    Nav,
    Permute,
    Quantified,
    RowPattern,
    Shown,
)
from cerise.pattern.show import show_atom, show_condition, show_duration
from cerise.pattern.values import Fault


def row_misses(bound: BoundRows, table: pa.Table, options: Options, limit: int | None) -> pa.Table:
    """Return the rows of a table that start no match, and why.

    Args:
        bound: the clause.
        table: the rows; `misses.chosen` may have added a column that marks chosen rows.
        options: how to run the clause.
        limit: how many rows to explain at most.
    """
    chosen = None
    full = bound
    if CHOSEN in table.column_names:
        columns = bound.columns.append(pa.field(CHOSEN, pa.bool_()))
        full = replace(full, columns=columns, output=(*bound.output, Shown(CHOSEN, measure=False)))
    prepared = prepare(full, table)
    offsets = partitions(full, prepared)
    if CHOSEN in table.column_names:
        chosen = np.asarray(prepared.column(CHOSEN).to_pylist(), bool)
    matches = concat_matches(list(find_in_table(full, prepared, offsets, options)))
    found = _misses(Tests.of(full, prepared), offsets, matches, chosen, most_steps(options))
    return to_table(take_misses(found, limit), *_starts(bound, prepared, offsets))


def start_columns(bound: BoundRows) -> tuple[str, ...]:
    """Return the names of the columns that identify a row: partition and order, else its number."""
    names = [*bound.partition, *([each.column for each in bound.order] or ["row"])]
    sql = {each.name: each.sql for each in bound.derived}
    return tuple(start_names([sql.get(name, name) for name in names]))


def _starts(bound: BoundRows, prepared: pa.Table, offsets: Ints) -> tuple[pa.Table, pa.ChunkedArray]:
    numbers = pa.chunked_array([_numbers(offsets)])
    names = dict.fromkeys([*bound.partition, *(each.column for each in bound.order)])
    columns = [prepared.column(name).cast(bound.type_of(name)) for name in names]
    if not bound.order:
        columns.append(numbers)
    moments = columns[list(names).index(bound.order[0].column)] if bound.order else numbers
    return pa.Table.from_arrays(columns, names=list(start_columns(bound))), moments


def _numbers(offsets: Ints) -> Ints:
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets)) + 1


# ---- which rows


def _misses(
    tests: Tests, offsets: Ints, matches: RowMatches, chosen: Bools | None, steps: int
) -> Iterator[Miss]:
    """Yield the misses: rows outside all matches, or all chosen rows that start no match."""
    inside = np.ones(int(offsets[-1]), bool)
    inside[find_rows_outside(_complete(matches), len(inside))] = False
    by_start = {each.start: each for each in _row_matches(tests.bound, matches)}
    for low, high in pairwise(offsets.tolist()):
        number, until, last = 1, low, None
        for start in range(low, high):
            match = by_start.get(start)
            number += match is not None
            if match is not None and match.status == "match":
                until, last = resume(tests.bound, match), match
                continue
            if not (chosen[start] if chosen is not None else not inside[start]):
                continue
            if last is not None and start < until:
                yield Miss(start, (), _explain_skip(tests.bound, last))
            else:
                search = RowMissSearch(tests, (low, high), start, number - (match is not None), steps)
                if (miss := search.miss()) is not None:
                    yield miss


def _complete(matches: RowMatches) -> RowMatches:
    """Return matches without time-outs, which are explained as misses (M46)."""
    if matches.timeouts is None:
        return matches
    kept = ~matches.timeouts
    return RowMatches(
        matches.starts[kept], matches.lengths[kept], matches.numbers[kept], matches.partition[kept],
        matches.labels[np.repeat(kept, matches.lengths)],
    )  # fmt: skip


def _row_matches(bound: BoundRows, matches: RowMatches) -> Iterator[RowMatch]:
    late = np.zeros(len(matches), bool) if matches.timeouts is None else matches.timeouts
    for i, (first, end) in enumerate(zip(matches.firsts.tolist(), matches.ends.tolist(), strict=True)):
        labels = tuple(bound.labels[each] for each in matches.labels[first:end].tolist())
        status = "timeout" if late[i] else "match"
        yield RowMatch(int(matches.numbers[i]), int(matches.starts[i]), labels, (), status)


def _explain_skip(bound: BoundRows, match: RowMatch) -> Reason:
    where = f"{bound.skip.to.value} {bound.skip.name}".strip()
    return Reason(None, None, f"inside match {match.number}: AFTER MATCH SKIP {where}", "skipped")


# ---- how far the search gets


@dataclass(frozen=True, slots=True)
class Tests:
    """The conditions of a clause over a prepared table.

    Attributes:
        bound: the clause.
        columns: the columns that the conditions read.
        tests: the conditions, by variable.
        conditions: the conditions as expressions, by variable.
        known: memo of conditions that depend on no other row of the match, by variable and row.
    """

    bound: BoundRows
    columns: Columns
    tests: dict[str, ConditionTest]
    conditions: dict[str, Expr]
    known: dict[str, dict[int, bool]]

    @classmethod
    def of(cls, bound: BoundRows, prepared: pa.Table) -> Tests:
        """Compile the conditions."""
        conditions = {each.label: each.expr for each in bound.conditions}
        tests = {label: _test(expr, bound) for label, expr in conditions.items()}
        known: dict[str, dict[int, bool]] = {
            label: {}
            for label, test in tests.items()
            if all(_own(each, label) for each in test.atoms.values())
        }
        return cls(bound, read_columns(bound, prepared), tests, conditions, known)


def _own(atom: Atom, label: str) -> bool:
    """Whether an atom depends on the row under test alone, not on the labels of earlier rows."""
    if not isinstance(atom, Nav) or atom.column == CLASSIFIER:
        return False
    return atom.last and not atom.offset and (atom.members is None or label in atom.members)


def _test(expr: Expr, bound: BoundRows) -> ConditionTest:
    atoms = {attr.path[0]: bound.atoms[attr.path[0]] for attr in attributes(expr)}
    return ConditionTest(compile_expr(expr, lambda fault: None), atoms)


@dataclass(frozen=True, slots=True)
class Iteration:
    """A loop after `count` iterations; the last of them began after `since` rows (M13)."""

    loop: Quantified
    count: int
    since: int | None = None


class Todo(NamedTuple):
    """The rest of the pattern as a linked list, the next item first."""

    item: RowPattern | Iteration
    rest: Todo | None


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """The labels of mapped rows as a linked list, the last row first: candidates share their beginnings."""

    count: int = 0
    label: str = ""
    before: Mapped | None = None

    def labels(self) -> tuple[str, ...]:
        """Return the labels, in the order of the rows."""
        found, each = [], self
        while each.before is not None:
            found.append(each.label)
            each = each.before
        return tuple(reversed(found))

    def same(self, other: Mapped) -> bool:
        return self is other or (self.count == other.count and self.labels() == other.labels())


class RowMissSearch:
    """Searches the candidates from one start row in preferment order; its stack allows paths of any length.

    It keeps the failures of the first candidate that maps most rows.
    """

    def __init__(self, tests: Tests, partition: tuple[int, int], start: int, number: int, steps: int) -> None:
        self.tests = tests
        self.bound = tests.bound
        self.partition = partition
        self.start = start
        self.number = number
        self.steps = StepBudget(steps)
        self.furthest = Mapped()
        self.failures: list[Label | Anchor] = []

    def miss(self) -> Miss | None:
        """Return how far the search gets; None if it finds a match."""
        todo: list[tuple[Todo | None, Mapped]] = [(Todo(self.bound.pattern, None), Mapped())]
        while todo:
            path, mapped = todo.pop()
            if path is None:
                return None
            self.steps()
            todo.extend(reversed(list(self._expand(path, mapped))))
        first, *others = map(self._reason, self.failures)
        return Miss(self.start, self.furthest.labels(), first, tuple(others))

    def _expand(self, path: Todo, mapped: Mapped) -> Iterator[tuple[Todo | None, Mapped]]:
        """Yield the continuations of a path, the most preferred first (M9–M16)."""
        item, rest = path
        match item:
            case Label() | Anchor():
                if not self._passes(item, mapped):
                    self._fails(item, mapped)
                elif isinstance(item, Label):
                    yield rest, Mapped(mapped.count + 1, item.name, mapped)
                else:
                    yield rest, mapped
            case Concat(items):
                yield _push(items, rest), mapped
            case Alternation(items):
                yield from ((Todo(each, rest), mapped) for each in items)
            case Permute(items):
                yield from ((_push(order, rest), mapped) for order in permutations(items))
            case Excluded(inner):
                yield Todo(inner, rest), mapped
            case Quantified():
                yield Todo(Iteration(item, 0), rest), mapped
            case Iteration():
                yield from ((way, mapped) for way in _iterate(item, rest, mapped.count))

    def _passes(self, item: Label | Anchor, mapped: Mapped) -> bool:
        row = self.start + mapped.count
        if isinstance(item, Anchor):
            return row == self.partition[0 if item.start else 1]
        if self._outside(row) is not None:
            return False
        test, known = self.tests.tests.get(item.name), self.tests.known.get(item.name)
        if test is None:
            return True
        if known is None:
            return test.holds(self._scope(item, mapped))
        if row not in known:
            alone = Scope(self.tests.columns, *self.partition, row, (item.name,), 1, self.number)
            known[row] = test.holds(alone)
        return known[row]

    def _fails(self, item: Label | Anchor, mapped: Mapped) -> None:
        if mapped.count > self.furthest.count or not self.failures:
            self.furthest, self.failures = mapped, [item]
        elif item not in self.failures and mapped.same(self.furthest):
            self.failures.append(item)

    def _outside(self, row: int) -> tuple[str, str] | None:
        """Say why a row cannot be mapped to any variable, and the kind of failure (M42)."""
        if row == self.partition[1]:
            return "end of partition", "end"
        within = self.bound.within
        if within is None or row == self.start:
            return None
        name = self.bound.order[0].column
        moments = self.tests.columns[name]
        if moments[row] is None or moments[self.start] is None:
            return f"window: '{name}' is null, and a row without a time is in no window", "window"
        passed = moments[row] - moments[self.start]
        if passed < within.size or (passed == within.size and not within.exclusive):
            return None
        show = show_duration if kind_of(self.bound.type_of(name)) in MOMENTS else str
        sign = ">=" if within.exclusive else ">"
        return f"window: {show(passed)} {sign} {show(within.size)}", "window"

    def _scope(self, item: Label, mapped: Mapped) -> Scope:
        """Return the scope of a condition: its own row is tentatively mapped already (M19)."""
        labels = (*mapped.labels(), item.name)
        return Scope(self.tests.columns, *self.partition, self.start, labels, len(labels), self.number)

    # ---- why

    def _reason(self, item: Label | Anchor) -> Reason:
        row = self.start + self.furthest.count
        at = row if row < self.partition[1] else None
        if isinstance(item, Anchor):
            text = "anchor: not the first row" if item.start else "anchor: rows follow"
            return Reason(at, "^" if item.start else "$", text, "anchor")
        if (outside := self._outside(row)) is not None:
            return Reason(at, item.name, *outside)
        return self._predicate(item, row)

    def _predicate(self, item: Label, row: int) -> Reason:
        """Return the first conjunct that is false, else the first that is null."""
        scope, label = self._scope(item, self.furthest), item.name
        atoms = self.tests.tests[label].atoms
        values = {name: _value(scope, atoms, name) for name in atoms}
        columns: dict[Path, list[object]] = {(name,): [value] for name, value in values.items()}
        worths = [
            (compile_expr(each, lambda fault: None)(columns, {"": (0,)}, {}), each)
            for each in conjuncts(self.tests.conditions[label])
        ]
        failing = [each for each in worths if each[0] is not True]
        worth, expr = next((each for each in failing if each[0] is False), failing[0])
        known = [
            (show_atom(atoms[each.path[0]], self.bound), values[each.path[0]], kind_of_expr(each))
            for each in attributes(expr)
        ]
        return explain_test(row, label, (show_condition(expr, self.bound), worth), known)


def _value(scope: Scope, atoms: dict[str, Atom], name: str) -> object:
    try:
        return value_of(atoms[name], scope)
    except Fault:
        return None


def _push(items: tuple[RowPattern, ...], rest: Todo | None) -> Todo | None:
    for item in reversed(items):
        rest = Todo(item, rest)
    return rest


def _iterate(done: Iteration, rest: Todo | None, length: int) -> Iterator[Todo | None]:
    """Yield the continuations of a loop, one more iteration or its end, the preferred first (M11, M13)."""
    loop, count = done.loop, done.count
    if done.since is not None:
        if count >= loop.low and length == done.since:
            yield rest
            return
        count += 1
    enough = count >= loop.low
    if enough and loop.reluctant:
        yield rest
    if loop.high is None or count < loop.high:
        yield Todo(loop.item, Todo(Iteration(loop, count, length), rest))
    if enough and not loop.reluctant:
        yield rest
