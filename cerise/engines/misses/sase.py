"""Why an event starts no match of a SASE+ query (M47): the run that got furthest, and the event it lacks.

It follows the runs from one event one by one, with the structures of the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cerise.engines.base import Options
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
from cerise.engines.reference.absence import Absences
from cerise.engines.reference.finder import partitions_of
from cerise.engines.reference.predicates import ConjunctTest, list_new_tests
from cerise.engines.reference.runs import PlainRun, Runs
from cerise.engines.reference.stream import Stream
from cerise.events import EventBatch, Path, raw_column
from cerise.pattern.bound import Bound, Branch, Conjunct
from cerise.pattern.check import kind_of
from cerise.pattern.evaluate import Binding, compile_expr
from cerise.pattern.expr import Agg, Attr, Expr, children
from cerise.pattern.query import Kleene, Unit, walk_nodes
from cerise.pattern.rewrite import Absence
from cerise.pattern.show import show_expr, show_path, show_pattern, show_window
from cerise.pattern.values import Fault

BEYOND = 1_000  # events after the window that are searched for one that came too late


def sase_misses(bound: Bound, table: pa.Table, options: Options, limit: int | None) -> pa.Table:
    """Return the events of a table that could start a match and do not, and why; all chosen events if any.

    Args:
        bound: the query; its source has been run.
        table: the events; `misses.chosen` may have added a column that marks chosen events.
        options: how to run the query.
        limit: how many events to explain at most.
    """
    events = EventBatch.of(table, bound.schema, reads=bound.ties)
    return to_table(take_misses(_misses(bound, events, options), limit), *_starts(bound, events.table))


def start_columns(bound: Bound) -> tuple[str, ...]:
    """Return the names of the columns that identify an event."""
    return tuple(start_names([".".join(path) for path in start_paths(bound)]))


def start_paths(bound: Bound) -> list[Path]:
    """Return the columns that identify an event: partition, time, type and order."""
    schema = bound.schema
    names = [schema.time, *([schema.type] if schema.type else []), *schema.order]
    return list(dict.fromkeys([*bound.partition, *((name,) for name in names)]))


def _starts(bound: Bound, table: pa.Table) -> tuple[pa.Table, pa.Array]:
    columns = [raw_column(table, path) for path in start_paths(bound)]
    starts = pa.Table.from_arrays(columns, names=list(start_columns(bound)))
    return starts, raw_column(table, (bound.schema.time,))


def _misses(bound: Bound, events: EventBatch, options: Options) -> Iterator[Miss]:
    chosen: list[bool] | None = None
    if CHOSEN in events.table.column_names:
        chosen = events.table.column(CHOSEN).to_pylist()
        yield from _without_key(bound, events, chosen)
    columns = events.columns(bound.reads)
    for rows in partitions_of(events, bound):
        picked = {path: [values[row] for row in rows] for path, values in columns.items()}
        stream = Stream(picked, events.times[rows].tolist())
        searches = [RunSearch(branch, bound, stream) for branch in bound.branches]
        for start in range(len(stream)):
            explained = any(each.opens(start) for each in searches) if chosen is None else chosen[rows[start]]
            if explained and (miss := _miss(searches, start, most_steps(options))) is not None:
                yield _in_rows(miss, rows.tolist())


def _without_key(bound: Bound, events: EventBatch, chosen: Sequence[bool]) -> Iterator[Miss]:
    """Yield the chosen events without partition: `[attr]` never holds for null (S8)."""
    keys = {show_path(path): raw_column(events.table, path).is_null().to_pylist() for path in bound.not_null}
    for row in (row for row, explained in enumerate(chosen) if explained):
        if (name := next((name for name, nulls in keys.items() if nulls[row]), None)) is not None:
            yield Miss(row, (), Reason(row, None, f"[{name}] is null", "null"))


def _miss(searches: Sequence[RunSearch], start: int, steps: int) -> Miss | None:
    """Return why an event starts no match of any branch: the reason of the branch whose run got furthest."""
    best: tuple[RunSearch, Stop] | None = None
    for search in searches:
        stop = search.furthest(start, StepBudget(steps))
        if stop is None:
            return None
        if best is None or stop.size > best[1].size:
            best = search, stop
    assert best is not None
    search, stop = best
    first, *others = search.reasons(stop, start)
    return Miss(start, stop.labels, first, tuple(others))


def _in_rows(miss: Miss, rows: Sequence[int]) -> Miss:
    at = None if miss.reason.at is None else rows[miss.reason.at]
    return replace(miss, start=rows[miss.start], reason=replace(miss.reason, at=at))


@dataclass(frozen=True, slots=True)
class Stop:
    """A run that cannot go on; `veto` is the negated variable and the event that vetoed its match."""

    binding: Binding
    veto: tuple[Absence, int] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """How far it got: the number of variables, then of events."""
        return len(self.binding), sum(map(len, self.binding.values()))

    @property
    def labels(self) -> tuple[str, ...]:
        taken = sorted((each, name) for name, events in self.binding.items() for each in events)
        return tuple(name for _, name in taken)


@dataclass(frozen=True, slots=True)
class Failure:
    """A conjunct that does not hold, its value, and the events it was judged for."""

    conjunct: Conjunct
    worth: Any
    binding: Binding
    step: dict[str, int]


class RunSearch(Runs):
    """Searches the runs of one branch depth first; runs that bind the next event come first."""

    def __init__(self, branch: Branch, bound: Bound, stream: Stream) -> None:
        super().__init__(branch, bound, _ignore)
        self.bound = bound
        self.stream = stream
        self.absences = Absences(branch, bound, _ignore)
        self.types = {var.name: var.type for var in branch.variables}
        self.low = {
            each.var.name: each.low for each in walk_nodes(branch.pattern) if isinstance(each, Kleene)
        }
        own = {
            name: [c for c in branch.conjuncts if c.filters and name in c.variables] for name in self.names
        }
        self.own = {name: list(zip(own[name], self.filters[name], strict=True)) for name in self.names}
        rest = [c for c in branch.conjuncts if not c.filters]
        self.conjunct_of = {id(test): c for c, test in zip(rest, self.tests, strict=True)}
        self._known: dict[tuple[str, int], bool] = {}

    def opens(self, position: int) -> bool:
        """Whether an event could be the first of a match: it fits a variable that can be first."""
        return any(self._fitting(name, position) for name, _ in self._place({}).edges)

    def _fitting(self, name: str, position: int) -> bool:
        key = name, position
        if key not in self._known:
            self._known[key] = self._fits(name, position, self.stream)
        return self._known[key]

    def furthest(self, start: int, step: StepBudget) -> Stop | None:
        """Return the run from an event that binds most; None if a run completes a match."""
        best, stream = Stop({}), self.stream
        if not self._constants_hold(stream):
            return best
        todo = [(PlainRun({}, start), start)]
        while todo:
            run, position = todo.pop()
            step()
            if position == len(stream) or not self.reach.holds(stream, start, position):
                continue
            longer, directly = [], False
            for name, direct in self._place(run.binding).edges:
                if not self._fitting(name, position):
                    continue
                if (binding := self._take(run.binding, name, position, stream)) is None:
                    continue
                veto = None
                if (
                    self._accepts(binding, stream)
                    and (veto := self.absences.find_veto(binding, stream)) is None
                ):
                    return None
                best = max(best, Stop(binding, veto), key=lambda each: each.size)
                longer.append((PlainRun(binding, start), position + 1))
                directly |= direct
            if run.binding and self._may_ignore(directly):
                todo.append((run, position + 1))
            todo += reversed(longer)
        return best

    # ---- why

    def reasons(self, stop: Stop, start: int) -> list[Reason]:
        """Return why a run could not go on, for each variable that it still needs."""
        binding = stop.binding
        if stop.veto is not None:
            absence, position = stop.veto
            text = f"NOT {show_pattern(absence.var)}: such an event occurs"
            return [Reason(position, f"NOT {absence.var.name}", text, "negation")]
        place = self._place(binding)
        if place.complete:
            return [self._explain_end(binding)]
        edges = [name for name, _ in place.edges]
        if not binding and (failures := self._of_constants()):
            return [self._explain(start, edges[0], failures)]
        needed = [name for name in edges if len(binding.get(name, ())) < self.low.get(name, 1)]
        return [self._explain_wait(name, binding, start) for name in needed or edges]

    def _explain_end(self, binding: Binding) -> Reason:
        """Explain a run that has all its events: a predicate that is judged at its end does not hold."""
        gone = self._place(binding).left | self.absent
        open_tests = [(test, None) for test in self.tests if not test.determined(binding, gone)]
        last, name = max((events[-1], name) for name, events in binding.items())
        return self._explain(last, name, self._find_failures(open_tests, binding))

    def _of_constants(self) -> list[Failure]:
        known = [(test, None) for test in self.tests if test.determined({}, self.absent)]
        return self._find_failures(known, {})

    def _explain_wait(self, name: str, binding: Binding, start: int) -> Reason:
        """Explain why no later event could bind the variable that a run waits for."""
        first = 1 + max((each for events in binding.values() for each in events), default=start - 1)
        if not binding or self.strategy.contiguous:
            return self._explain_next(name, binding, start, first)
        closest: tuple[int, list[Failure]] | None = None
        outside = None
        for position in range(first, len(self.stream)):
            if outside is None and not self.reach.holds(self.stream, start, position):
                outside = position
            if outside is not None and (position - outside >= BEYOND or (closest and len(closest[1]) == 1)):
                break
            if not self._typed(name, position):
                continue
            failures = self._failures(name, binding, position)
            if outside is not None and not failures:
                return self._too_late(name, start, position)
            if outside is None and (closest is None or len(failures) < len(closest[1])):
                closest = position, failures
        return self._explain(closest[0], name, closest[1]) if closest else self._none(name, outside)

    def _explain_next(self, name: str, binding: Binding, start: int, position: int) -> Reason:
        """Explain the only event that could have come: the start itself, or under contiguity the next one."""
        if position == len(self.stream):
            return Reason(None, name, "end of partition", "end")
        if failures := self._failures(name, binding, position):
            return self._explain(position, name, failures)
        return self._too_late(name, start, position)

    def _none(self, name: str, outside: int | None) -> Reason:
        what = "event" if self.types[name] is None else f"event of type {self.types[name]}"
        if outside is not None:
            return Reason(None, name, f"no {what} within the window", "window")
        return Reason(None, name, f"no {what} until the end", "end")

    def _too_late(self, name: str, start: int, position: int) -> Reason:
        within, slide = self.bound.within, self.bound.slide
        assert within is not None
        if within.unit is Unit.EVENTS:
            passed = f"{position - start + 1} EVENTS"
        else:
            times = self.stream.times
            passed = show_window(replace(within, size=times[position] - times[start]))
        if slide is None:
            return Reason(position, name, f"window: {passed} > {show_window(within)}", "window")
        windows = f"{show_window(within)} SLIDE {show_window(slide)}"
        return Reason(position, name, f"window: no window of {windows} holds both ends", "window")

    def _typed(self, name: str, position: int) -> bool:
        """Whether an event has the type of a variable, which is the first of its predicates."""
        if self.types[name] is None:
            return True
        _, test = self.own[name][0]
        return test.function(self.stream.columns, {name: (position,)}, {}) is True

    def _failures(self, name: str, before: Binding, position: int) -> list[Failure]:
        """Return the predicates that fail if an event becomes the next one of a variable."""
        columns, alone = self.stream.columns, {name: (position,)}
        own = [Failure(c, test.function(columns, alone, {}), alone, {}) for c, test in self.own[name]]
        after = {**before, name: (*before.get(name, ()), position)}
        gone = self._place(before).left | self.absent, self._place(after).left | self.absent
        others = self._find_failures(list_new_tests(self.tests, (before, after), gone, name), after)
        return [*(each for each in own if each.worth is not True), *others]

    def _find_failures(
        self, tests: Iterable[tuple[ConjunctTest, str | None]], binding: Binding
    ) -> list[Failure]:
        found = []
        for test, newest in tests:
            for step in test.steps(binding, newest):
                if (worth := test.function(self.stream.columns, binding, step)) is not True:
                    found.append(Failure(self.conjunct_of[id(test)], worth, binding, step))
                    break
        return found

    def _explain(self, position: int, name: str, failures: Sequence[Failure]) -> Reason:
        """Explain the first failure that is false, else the first that is null."""
        failure = next((each for each in failures if each.worth is False), failures[0])
        expr, columns = failure.conjunct.expr, self.stream.columns
        values = [
            (
                show_expr(each),
                compile_expr(each, _ignore)(columns, failure.binding, failure.step),
                kind_of(each),
            )
            for each in _terms(expr)
        ]
        return explain_test(position, name, (show_expr(expr), failure.worth), values)


def _ignore(fault: Fault) -> None:
    """Ignore a fault: a value that cannot be computed is null (S4.6)."""


def _terms(expr: Expr) -> Iterator[Attr | Agg]:
    """Yield the operands of an expression: attributes, and aggregates as a whole."""
    if isinstance(expr, Attr | Agg):
        yield expr
        return
    for child in children(expr):
        yield from _terms(child)
