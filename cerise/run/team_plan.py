"""Plans the joins of a list of queries once, by a sample of the events, before slices are searched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cerise.engines.base import Options
from cerise.run.access import Access
from cerise.run.question import Questions
from cerise.run.team_search import bound_of, find_team

if TYPE_CHECKING:
    from cerise.engines.tree.team import TeamPlan


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """The plan of the queries of a list that share one.

    Attributes:
        numbers: the numbers of these queries.
        plan: their plan.
    """

    numbers: tuple[int, ...]
    plan: TeamPlan


def plan_joins(questions: Questions, access: Access, options: Options) -> Questions:
    """Return questions with a plan of joins, if some of them share one and a sample of events costs little.

    Without a plan each slice makes its own by its first events; the answers are the same.
    """
    numbers = find_team(questions, range(len(questions.each)), options)
    if not numbers or questions.shared is not None:
        return questions
    found = access.sample(options.limits.sampled_events)
    if found is None:
        return questions
    from cerise.engines.tree.team import JoinTeam  # imports numba

    events, density = found
    team = JoinTeam([bound_of(questions, number) for number in numbers], options)
    return replace(questions, shared=SharedPlan(tuple(numbers), team.make_plan(events, density)))
