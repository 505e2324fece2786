"""Branches as passes filter by them: variables with reach and tests, edges, what may go (semantics.md §9).

A pass is one reading of the files by the tasks of one query. Each pass but the last verifies one variable of
each branch: the time of possible matches that its events leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cerise.events import Path
from cerise.filters.dual.tick_runs import MatchPart, reach_of, tick_of
from cerise.filters.equalities import JoinEdge, edges_of, find_sure_labels, row_edges_of
from cerise.filters.match_ends import has_ends, is_first, is_last, why_outside_matters
from cerise.pattern.bound import Bound, Branch
from cerise.pattern.query import Strategy, Unit
from cerise.pattern.row_pattern import BoundRows, Concat, Label
from cerise.plan.pushdown import Comparison, tests_of
from cerise.plan.row_needs import row_filters, step_labels, why_no_skip

MOST_BRANCHES = 8  # of all queries together
Tests = tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class PassVariable:
    """A variable that every match of its branch has.

    Attributes:
        name: its name.
        tests: comparisons with constants that its events pass.
        before: how long before its event a match may begin.
        after: how long after it a match may end.
    """

    name: str
    tests: Tests
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PassBranch:
    """A branch of a query.

    Attributes:
        time: the column of times.
        window: how much time a match spans at most.
        variables: the variables that every match has.
        partition: the attributes whose values the events of a match share; covered time is kept by partition.
        not_null: those of them that are not null in any match.
        fits: the tests of each variable that events may have, negated and optional ones included.
        edges: the equalities between variables.
        why_all: why every event in covered time stays; None: one that fits no variable goes.
        drops: whether an event that no equality holds for goes, too; else it only shrinks covered time.
    """

    time: str
    window: int
    variables: tuple[PassVariable, ...]
    partition: tuple[Path, ...]
    not_null: tuple[Path, ...]
    fits: tuple[tuple[str, Tests], ...]
    edges: tuple[JoinEdge, ...]
    why_all: str | None
    drops: bool

    @property
    def tick(self) -> int:
        return tick_of(self.window)

    def variable(self, name: str) -> PassVariable:
        return next(each for each in self.variables if each.name == name)

    def list_edges(self, name: str, others: Iterable[str]) -> Iterator[tuple[int, JoinEdge]]:
        """Yield the edges by which a variable is judged beside other variables, with their numbers."""
        for number, edge in enumerate(self.edges):
            if name in edge.judges and edge.other(name) in others and name in (edge.left, edge.right):
                yield number, edge


def event_branches(bound: Bound) -> tuple[PassBranch, ...] | str:
    """Return the branches of a SASE+ query, or the reason why every event must travel."""
    if bound.within is None:
        return "without WITHIN a match may span all events"
    if bound.within.unit is Unit.EVENTS:
        return "the window counts every event"
    if len(bound.branches) > MOST_BRANCHES:
        return f"the query has more than {MOST_BRANCHES} branches"
    return tuple(_event_branch(bound, each) for each in bound.branches)


def _event_branch(bound: Bound, branch: Branch) -> PassBranch:
    assert bound.within is not None
    window = int(str(bound.within.size))
    reaches = any(each.absence.at_end for each in branch.negations)
    tests = {name: tests_of(exprs) for name, exprs in branch.filters.items()}
    variables = []
    for name in (var.name for var in branch.variables):
        role = MatchPart.FIRST if is_first(branch.pattern, name) else MatchPart.BETWEEN
        role = MatchPart.LAST if is_last(branch.pattern, name) else role
        variables.append(PassVariable(name, tests[name], *reach_of(role, window, reaches=reaches)))
    edges = [each for each in edges_of(bound, branch) if not (bound.partition and each.of_partition)]
    return PassBranch(
        time=bound.schema.time,
        window=window,
        variables=tuple(variables),
        partition=bound.partition,
        not_null=bound.not_null,
        fits=tuple(tests.items()),
        edges=tuple(edges),
        why_all="contiguity counts every event" if bound.query.strategy.contiguous else None,
        drops=bound.query.strategy is Strategy.ANY,
    )


def row_branches(bound: BoundRows, partition: Sequence[Path]) -> tuple[PassBranch, ...] | str:
    """Return the branch of a clause, or the reason why every row must travel.

    Args:
        bound: the clause.
        partition: the columns whose equal values one search has together.
    """
    time = bound.order[0].column if bound.order else ""
    reason = why_outside_matters(bound, time)
    if reason is None and time not in bound.columns.names:
        reason = "the rows are ordered by an expression"
    if reason is not None:
        return reason
    assert bound.within is not None
    tests = {label: tests_of(exprs) for label, exprs in row_filters(bound).items()}
    required, window, why_all = find_sure_labels(bound.pattern), bound.within.size, why_no_skip(bound)
    roles = _ends_of(bound) if has_ends(bound.pattern) else {}
    reach = {name: reach_of(roles.get(name, MatchPart.BETWEEN), window) for name in required}
    edges = [each for each in row_edges_of(bound) if not (partition and each.of_partition)]
    labels = bound.labels if why_all is not None else step_labels(bound)
    branch = PassBranch(
        time=time,
        window=window,
        variables=tuple(
            PassVariable(name, tests[name], *reach[name]) for name in bound.labels if name in required
        ),
        partition=tuple(partition),
        not_null=(),
        fits=tuple((name, tests[name]) for name in labels),
        edges=tuple(edges),
        why_all=why_all,
        drops=why_all is None,
    )
    return (branch,)


def _ends_of(bound: BoundRows) -> dict[str, MatchPart]:
    """Return the labels of the first and of the last row of every match."""
    if isinstance(bound.pattern, Label):
        return {bound.pattern.name: MatchPart.FIRST}
    assert isinstance(bound.pattern, Concat)
    first, last = bound.pattern.items[0], bound.pattern.items[-1]
    assert isinstance(first, Label)
    assert isinstance(last, Label)
    return {last.name: MatchPart.LAST, first.name: MatchPart.FIRST}
