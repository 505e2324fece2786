"""A pass that verifies variables: tasks summarise the events of a variable, one task merges the summaries.

A summary depends on the files alone, and merging puts summaries in order first: a task that runs again gives
the same bytes. A task with too many events of a variable says so, and the variable is not used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cerise.filters.dual.covered_time import choose_form
from cerise.filters.dual.shrinking_window import RefreshTags, ShrinkingWindow, entries_of, merge_tags
from cerise.filters.dual.tick_runs import TickRuns, intersect, unite
from cerise.filters.dual.window_join import (
    WindowJoin,
    pairs_from_bytes,
    pairs_of,
    pairs_to_bytes,
    unite_pairs,
)
from cerise.filters.equalities import keys_of
from cerise.filters.passes.pass_branches import PassBranch, PassVariable
from cerise.filters.passes.pass_filter import BranchFilter, Covered, EventColumns, PassFilter
from cerise.plan.intervals import Ints
from cerise.plan.pushdown import Needed
from cerise.plan.router import Router

Part = tuple[int, int, str, bytes | None]  # branch, edge or -1, a variable, and a message; None: too much
COVERED = -1
MOST_WINDOWS = 1 << 23  # of a table: 32 MB
NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Passes:
    """The passes of one plan, without the last, which exchanges.

    Attributes:
        branches: the branches of all queries.
        steps: for each pass the variable of each branch that it verifies; None: none of the branch.
        wanted: the tests of events that any variable needs; None: all events are needed.
        most: how many events of a variable a task summarises at most.
        expected: how many events each pass takes, the last one too, as far as a sample tells.
        of_all: how many events would be exchanged without passes.
    """

    branches: tuple[PassBranch, ...]
    steps: tuple[tuple[str | None, ...], ...]
    wanted: Needed | None
    most: int
    expected: tuple[int, ...] = ()
    of_all: int = 0

    def filter_of(self, message: bytes | None) -> PassFilter:
        return PassFilter.of(self.branches, self.wanted, message)

    def walk_variables(self, step: int) -> Iterator[tuple[int, PassBranch, PassVariable]]:
        """Yield the branches of a pass with the variable that it verifies."""
        for number, (branch, name) in enumerate(zip(self.branches, self.steps[step], strict=True)):
            if name is not None:
                yield number, branch, branch.variable(name)

    def walk_askers(self, step: int, number: int, name: str) -> Iterator[tuple[int, str]]:
        """Yield the edges whose keys a pass records, with the variable that will ask for them.

        That is a variable that a later pass verifies; where an event may be dropped by an equality, also one
        that no pass verifies.
        """
        branch = self.branches[number]
        before = {names[number] for names in self.steps[: step + 1]}
        later = {names[number] for names in self.steps[step + 1 :]}
        asking = {each for each, _ in branch.fits if branch.drops and each not in before} | (later - {None})
        for asks in sorted(each for each in asking if each is not None):
            for edge, _ in branch.list_edges(asks, (name,)):
                yield edge, asks

    def columns(self, step: int) -> tuple[str, ...]:
        """Return the columns that a pass reads."""
        found: dict[str, None] = {}
        for number, branch, variable in self.walk_variables(step):
            found |= dict.fromkeys([branch.time, *(path[0] for path in branch.partition)])
            found |= dict.fromkeys(test.path[0] for test in variable.tests)
            edges = [edge for edge, _ in self.walk_askers(step, number, variable.name)]
            edges += [edge for edge, _ in branch.list_edges(variable.name, self.list_before(step, number))]
            for edge in edges:
                found |= dict.fromkeys(sorted(path[0] for path in branch.edges[edge].paths(variable.name)))
        return tuple(found)

    def list_before(self, step: int, number: int) -> set[str]:
        """Return the variables of a branch that earlier passes verify."""
        return {name for names in self.steps[:step] if (name := names[number]) is not None}

    def router(self, step: int) -> Router:
        """Return the router to the variables that a pass verifies."""
        return Router([variable.tests for _, _, variable in self.walk_variables(step)])


class Summary:
    """Collects the events of the variables that a pass verifies, in one task.

    Args:
        passes: the passes.
        step: the number of this one.
        received: the message with the filter of the passes before; None: this is the first.
    """

    def __init__(self, passes: Passes, step: int, received: bytes | None) -> None:
        self._passes, self._step = passes, step
        self._filter = passes.filter_of(received)
        self._router = passes.router(step)
        self._found: dict[tuple[int, int, str], list[tuple[Ints, Ints | None]]] = defaultdict(list)
        self._counts: dict[int, int] = defaultdict(int)

    @property
    def events(self) -> int:
        """How many events it has taken."""
        return sum(self._counts.values())

    def add(self, table: pa.Table) -> None:
        """Take the events of a table that a variable fits."""
        routed = self._router.route(table)
        for leaf, (number, branch, variable) in enumerate(self._passes.walk_variables(self._step)):
            if self._counts[number] <= self._passes.most:
                events = EventColumns(table.take(pa.array(routed.of(leaf))))
                self._add(number, branch, variable, self._verify(number, branch, variable, events))

    def _verify(
        self, number: int, branch: PassBranch, variable: PassVariable, events: EventColumns
    ) -> EventColumns:
        """Return the events that lie in covered time and find their keys [DFS §IV-A, both phases]."""
        known = self._filter.known[number]
        _, missing = events.times(branch.time)
        stays = ~events.lacks(branch.not_null)
        if missing is not None:
            stays &= ~missing
        if known.covered is not None:
            stays &= known.holds(branch, events) & known.join(branch, variable.name, events)
        return events if stays.all() else EventColumns(events.table.filter(pa.array(stays)))

    def _add(self, number: int, branch: PassBranch, variable: PassVariable, events: EventColumns) -> None:
        times, _ = events.times(branch.time)
        self._counts[number] += len(times)
        self._found[number, COVERED, variable.name].append((times, events.partition(branch.partition)))
        for edge, asks in self._passes.walk_askers(self._step, number, variable.name):
            keys, valid = keys_of(branch.edges[edge], variable.name, events.read, len(events))
            pairs = pairs_of(keys.view(np.int64)[valid], times[valid], branch.window)
            self._found[number, edge, asks].append((pairs, None))

    def parts(self) -> Iterator[Part]:
        """Yield the summary, also of variables without an event: a filter needs one from every task."""
        for number, branch, variable in self._passes.walk_variables(self._step):
            full = self._counts[number] > self._passes.most
            found = self._found[number, COVERED, variable.name]
            yield (
                number,
                COVERED,
                variable.name,
                None if full else self._cover(number, branch, variable, found),
            )
            for edge, asks in self._passes.walk_askers(self._step, number, variable.name):
                pairs = unite_pairs([each for each, _ in self._found[number, edge, asks]])
                yield number, edge, asks, None if full else pairs_to_bytes(pairs)

    def _cover(
        self,
        number: int,
        branch: PassBranch,
        variable: PassVariable,
        found: Sequence[tuple[Ints, Ints | None]],
    ) -> bytes:
        times = np.concatenate([NOTHING, *(each for each, _ in found)])
        keys = [NOTHING, *(each for _, each in found if each is not None)]
        keyed = np.concatenate(keys) if branch.partition else None
        runs = TickRuns.of(times, variable.before, variable.after, tick=branch.tick, keys=keyed)
        covered = self._filter.known[number].covered
        if isinstance(covered, ShrinkingWindow):
            return covered.refresh(runs).to_bytes()
        return (runs if covered is None else covered.shrink(runs)).to_bytes()


def merge_summaries(passes: Passes, step: int, received: bytes | None, parts: Iterable[Part]) -> bytes:
    """Return the message with the filter after a pass, from the summaries of all tasks in any order."""
    before = passes.filter_of(received)
    found: dict[tuple[int, int, str], list[bytes | None]] = defaultdict(list)
    for number, edge, name, message in parts:
        found[number, edge, name].append(message)
    known = list(before.known)
    for number, branch, variable in passes.walk_variables(step):
        messages = found[number, COVERED, variable.name]
        if None in messages:
            continue  # too many events: the variable is not used
        covered = _merge_covers(known[number].covered, [each for each in messages if each is not None])
        joins = dict(known[number].joins)
        for edge, asks in passes.walk_askers(step, number, variable.name):
            sent = [pairs_from_bytes(each) for each in found[number, edge, asks] if each is not None]
            joins[edge, asks] = WindowJoin.of(unite_pairs(sent), window=branch.window)
        joins = {key: join for key, join in joins.items() if key[1] != variable.name or branch.drops}
        known[number] = BranchFilter(covered, joins)
    return replace(before, known=tuple(known)).to_bytes()


def _merge_covers(covered: Covered | None, messages: Sequence[bytes]) -> Covered:
    if isinstance(covered, ShrinkingWindow):
        tags = merge_tags([RefreshTags.from_bytes(each, covered) for each in messages])
        return covered.shrunk(tags)
    runs = unite([TickRuns.from_bytes(each) for each in messages])
    return _choose_form(runs if covered is None else intersect([covered, runs]))


def _choose_form(runs: TickRuns) -> Covered:
    """Return covered time by partition as a table, whose look-ups cost the same; else the smaller form."""
    by_table = runs.keyed and entries_of(runs) <= MOST_WINDOWS
    return ShrinkingWindow.of(runs) if by_table else choose_form(runs)
