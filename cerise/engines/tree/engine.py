"""The engine of joins: finds the matches of an any-match query as the rows of a tree of joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cerise.engines.automaton.program import Unfit
from cerise.engines.base import Matcher, Options
from cerise.engines.tree.branches.branch_writer import join_branches
from cerise.engines.tree.branches.join_branch import Catalog
from cerise.engines.tree.branches.team_branch import make_branch
from cerise.pattern.bound import Bound


@dataclass(frozen=True, slots=True)
class Tree:
    """An engine that joins events in any order, the rare ones first."""

    name: str = "tree"

    def why_not(self, bound: Bound) -> str | None:
        """Say why this engine cannot run a query; None if it can."""
        try:
            join_branches(bound, Catalog())
        except Unfit as reason:
            return str(reason)
        below = None if bound.source is None else self.why_not(bound.source)
        return None if below is None else f"in the query that it reads from, {below}"

    def start(self, bound: Bound, options: Options) -> Matcher:
        """Return a matcher for a query."""
        from cerise.engines.tree.matcher import TreeMatcher  # numba is imported only where it is used

        return TreeMatcher(bound, options)

    def explain(self, bound: Bound) -> Mapping[str, str]:  # noqa: ARG002
        """Say how the joins are ordered."""
        return {"joins": "in the order that is cheapest by the first events"}


def adds_up(bound: Bound) -> bool:
    """Whether the matches of a query that joins can run are counted without choosing them one by one."""
    branches = [make_branch(0, bound, each) for each in join_branches(bound, Catalog())]
    return all(each.sums or not each.branch.repeats for each in branches)


ENGINE = Tree()
