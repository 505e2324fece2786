"""Explains a list of queries: its groups, the plan of joins that queries share, and each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cerise.engines.base import Options
from cerise.errors import UnsupportedError, did_you_mean
from cerise.run.access import Access
from cerise.run.many.query_groups import QueryGroup
from cerise.run.question import Questions
from cerise.run.report import Report
from cerise.run.team_plan import plan_joins
from cerise.run.team_search import bound_of, find_team

if TYPE_CHECKING:
    from cerise.engines.tree.drawing import PlanDrawing

MOST_NAMES = 8  # of queries that a text lists
MOST_EXPLAINED = 4  # queries that are explained one by one, unless one is asked for
MOST_SHARED = 10  # sub-patterns that a text lists


def name_only(questions: Questions, only: str | None) -> int | None:
    """Return the number of the query that a user asks for by its name; None: all.

    Raises:
        UnsupportedError: no query has the name.
    """
    if only is None:
        return None
    tags = questions.tags or ()
    if only not in tags:
        hint = did_you_mean(only, tags) if tags else "leave only= out: there is one query"
        raise UnsupportedError(f"no query is named '{only}'", hint=hint)
    return tags.index(only)


def list_names(questions: Questions, numbers: Sequence[int]) -> str:
    """Return the names of queries, or of the first ones."""
    assert questions.tags is not None
    names = ", ".join(questions.tags[number] for number in numbers[:MOST_NAMES])
    more = f" and {len(numbers) - MOST_NAMES:,} more" if len(numbers) > MOST_NAMES else ""
    return f"{'query' if len(numbers) == 1 else 'queries'} {names}{more}"


def show_group(questions: Questions, group: QueryGroup) -> str:
    """Return the queries of a group, and why they are one."""
    why = f": {group.why}" if group.why else ""
    return list_names(questions, group.numbers) + why


@dataclass(frozen=True)
class SharedText:
    """The plan of joins that queries of a group share, as text.

    Attributes:
        questions: the queries of the group.
        access: how their events are read; None: no events are at hand.
        options: how to run.
        report: the report of a run, whose rows are drawn beside the expected ones; None: of no run.
    """

    questions: Questions
    access: Access | None
    options: Options
    report: Report | None = None

    @cached_property
    def numbers(self) -> list[int]:
        """The queries that share a plan."""
        return find_team(self.questions, range(len(self.questions.each)), self.options)

    @cached_property
    def _drawing(self) -> PlanDrawing | None:
        if not self.numbers or self.access is None:
            return None
        shared = plan_joins(self.questions, self.access, self.options).shared
        if shared is None:
            return None
        from cerise.engines.tree.drawing import PlanDrawing
        from cerise.engines.tree.team import JoinTeam  # imports numba

        bounds = [bound_of(self.questions, number) for number in self.numbers]
        names = [self.questions.show_name(number) or "" for number in self.numbers]
        team = JoinTeam(bounds, self.options)
        return PlanDrawing(bounds, team.branches, shared.plan.trees, shared.plan.stats, names)

    def describe(self) -> str:
        """Return how many joins the queries have, and the sub-patterns whose sharing saves most."""
        names = list_names(self.questions, self.numbers)
        if self._drawing is None:
            return f"{names}: one plan, made by the first events"
        drawing = self._drawing
        shared = drawing.list_shared()
        lines = [f"{names}: {drawing.joins:,} joins, {len(shared):,} of them for several queries"]
        apart = drawing.cost + sum(each.saved for each in shared)
        for each in shared[:MOST_SHARED]:
            users = list_names(self.questions, [self.numbers[query] for query in each.queries])
            lines.append(f"{each.shown}: {users}, saves {100 * each.saved / max(apart, 1):.1f} % of the work")
        return "\n".join(lines)

    def draw(self, number: int) -> str:
        """Return the tree of one query."""
        if self._drawing is None:
            return "as one plan with the other queries"
        made = None if self.report is None else self.report.joins
        return self._drawing.draw(self.numbers.index(number), made)
