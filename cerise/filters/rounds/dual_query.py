"""What an asker and its sites must know of a query to say which events may be in a match.

The hull property: take events, one for each variable, that pass the tests on single events and the equalities
that a filter used, are of one partition if there is one, and span at most the window. All time from the first
to the last of them stays covered. So a run or contiguity sees all that it could have seen of a match, under
every strategy. Which events *inside* covered time may be dropped depends on the strategy: `Inside`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cerise.filters.dual.tick_runs import MatchPart, reach_of
from cerise.filters.equalities import JoinEdge, edges_of
from cerise.filters.match_ends import is_first, is_last
from cerise.pattern.bound import Bound, Branch
from cerise.pattern.query import Strategy, Unit

MOST_BRANCHES = 8


class Inside(Enum):
    """Which events inside covered time travel (semantics.md §9)."""

    ALL = "all"  # contiguity counts every event
    FITTING = "fitting"  # a greedy run stops at an event that fits, also at one that is in no match
    JOINING = "joining"  # events that fit a variable and find their equals: any, or rows that skip


INSIDE = {Strategy.NEXT: Inside.FITTING, Strategy.ANY: Inside.JOINING}


@dataclass(frozen=True, slots=True)
class DualVariable:
    """A variable that every match of a branch has, and which end of a match it always binds."""

    name: str
    part: MatchPart


@dataclass(frozen=True, slots=True)
class DualBranch:
    """A branch without OR.

    Attributes:
        variables: the variables that every match has.
        edges: the equalities between them.
        others: further variables whose events inside must stay, such as negated ones.
        reaches: whether the query looks at events up to a window beyond a match.
    """

    variables: tuple[DualVariable, ...]
    edges: tuple[JoinEdge, ...] = ()
    others: tuple[str, ...] = ()
    reaches: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.variables)

    def is_edge(self, name: str) -> bool:
        """Whether the interval around an event of a variable lies on one side of it."""
        return self._part(name) is not MatchPart.BETWEEN and not self.reaches

    def reach(self, name: str, window: int) -> tuple[int, int]:
        """Return how long before and after an event of a variable its matches may lie."""
        return reach_of(self._part(name), window, reaches=self.reaches)

    def edges_on(self, name: str) -> tuple[int, ...]:
        """Return the numbers of the edges that judge events of a variable."""
        edges = enumerate(self.edges)
        return tuple(i for i, each in edges if name in each.judges & {each.left, each.right})

    def _part(self, name: str) -> MatchPart:
        return next(each.part for each in self.variables if each.name == name)


@dataclass(frozen=True, slots=True)
class DualQuery:
    """A query as asker and sites know it.

    Attributes:
        window: how much time a match spans at most.
        inside: which events inside covered time travel.
        branches: the branches; an event travels if one of them keeps it.
        keyed: whether time is covered partition by partition.
    """

    window: int
    inside: Inside
    branches: tuple[DualBranch, ...]
    keyed: bool = False


def describe_query(bound: Bound) -> DualQuery | str:
    """Return what sites must know of a query, or why covered time says nothing of its matches."""
    if bound.within is None:
        return "without WITHIN a match may span all events"
    if bound.within.unit is Unit.EVENTS:
        return "the window counts every event"
    if len(bound.branches) > MOST_BRANCHES:
        return f"the query has more than {MOST_BRANCHES} branches"
    assert isinstance(bound.within.size, int)
    branches = tuple(_describe_branch(bound, each) for each in bound.branches)
    inside = INSIDE.get(bound.query.strategy, Inside.ALL)
    return DualQuery(bound.within.size, inside, branches, bool(bound.partition))


def _describe_branch(bound: Bound, branch: Branch) -> DualBranch:
    absent = {each.absence.var.name for each in branch.negations}
    positive = tuple(
        DualVariable(name, _part_of(branch, name)) for name in branch.filters if name not in absent
    )
    edges = tuple(each for each in edges_of(bound, branch) if not absent & {each.left, each.right})
    reaches = any(each.absence.at_end for each in branch.negations)
    return DualBranch(positive, edges, tuple(sorted(absent)), reaches)


def _part_of(branch: Branch, name: str) -> MatchPart:
    if is_first(branch.pattern, name):
        return MatchPart.FIRST
    return MatchPart.LAST if is_last(branch.pattern, name) else MatchPart.BETWEEN
