"""The branches of a team: which query each is of, and how far its matches reach."""

from __future__ import annotations

from dataclasses import dataclass

from cerise.engines.tree.branches.join_branch import JoinBranch, StreamScope, is_of_repeat
from cerise.pattern.bound import Bound
from cerise.pattern.query import Output


@dataclass(frozen=True, slots=True)
class TeamBranch:
    """A branch of one query of a team.

    Attributes:
        query: the number of the query.
        branch: the branch.
        within: the size of the window; None: there is none.
        slide: the size of SLIDE; 0: none.
        chooses: whether the query takes only some of its matches.
        counts: whether its matches are only counted.
    """

    query: int
    branch: JoinBranch
    within: int | None
    slide: int
    chooses: bool
    counts: bool

    @property
    def scope(self) -> StreamScope:
        scope = self.branch.pattern.scope
        assert isinstance(scope, StreamScope)
        return scope

    @property
    def sums(self) -> bool:
        """Whether matches are counted without choosing the events of a Kleene variable one by one."""
        own, slots = self.branch, {each.slot for each in self.branch.repeats}
        plain = len(slots) == 1 and own.repeats[0].low <= 1 and own.repeats[0].high is None
        alone = plain and not own.vetoes and all(is_of_repeat(test, slots) for test in own.pairs)
        return self.counts and alone

    @property
    def window(self) -> int:
        """The largest difference of points in a match; -1: any."""
        return -1 if self.within is None else self.within - (1 if self.scope.by_position else 0)


def make_branch(number: int, bound: Bound, branch: JoinBranch) -> TeamBranch:
    """Return a branch of a query of a team."""
    within = None if bound.within is None else int(str(bound.within.size))
    slide = 0 if bound.slide is None else int(str(bound.slide.size))
    return TeamBranch(number, branch, within, slide, chooses(bound), counts(bound))


def chooses(bound: Bound) -> bool:
    """Whether a query takes only some of its matches."""
    return bound.query.output is Output.NON_OVERLAPPING or bound.query.limit is not None


def counts(bound: Bound) -> bool:
    """Whether only the number of matches is asked for, so that they need not be made."""
    return bound.query.totals is not None and bound.query.counts_only and not chooses(bound)
