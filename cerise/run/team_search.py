"""Searches that several questions share: any-match queries as one plan of joins, and events by query.

Any-match queries that the engine `tree` can run are one team: equal predicates are tested once, and equal
sub-patterns joined once. Every other query runs by itself, over the events that fit one of its variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from cerise.engines.base import EngineReport, Finding, Options
from cerise.errors import CeriseError
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.run.many.query_names import name_errors
from cerise.run.many.united_answers import Part
from cerise.run.question import JOIN, Questions, Work, add
from cerise.run.routed_search import find_routed
from cerise.run.sase_search import Sase, SaseSearch

if TYPE_CHECKING:
    from cerise.engines.tree.team import TeamReport

PLANNING = "seconds planning"
MOST_JOINS = 1_000  # joins whose rows are noted
LEAST_TEAM = 2  # queries that are worth a shared plan


def find_team(questions: Questions, numbers: Iterable[int], options: Options) -> list[int]:
    """Return the numbers of the questions that share a plan of joins; none, if fewer than two could.

    Args:
        questions: the questions.
        numbers: the questions that are asked over the same events in the same order.
        options: how to run; another engine than `tree` shares nothing.
    """
    if options.engine not in (None, "tree"):
        return []
    found = [number for number in numbers if can_share(questions.each[number], options)]
    return found if len(found) >= LEAST_TEAM else []


def prepare(questions: Questions, options: Options) -> None:
    """Choose the engine of each question that runs by itself, before the questions travel to tasks.

    A question that gets its events by a router chooses its engine with the first of them, unless the options
    name an engine: then it may be one that cannot run the query, which is an error even without an event.
    """
    team = {*find_team(questions, range(len(questions.each)), options)}
    alone = [number for number in range(len(questions.each)) if number not in team]
    later = {*find_routed(questions, alone, options)} if options.engine is None else set[int]()
    questions.prepare([number for number in alone if number not in later], options)


def can_share(question: Any, options: Options) -> bool:
    """Whether a question can be one of a team."""
    if not isinstance(question, Sase) or question.inner is not None:
        return False
    bound = question.bound
    if bound.query.totals is not None:
        if not bound.query.counts_only:
            return False  # each event may belong to a group of its own
        if bound.kleene and options.engine is None:
            return False  # `rcep` counts chains without making them
    return question.why_no_join is None


class _Member:
    """Stands for the matcher of one query of a team."""

    def __init__(self) -> None:
        self.report = EngineReport()

    def flush(self) -> Iterator[Finding]:
        return iter(())


class TeamJoin:
    """A search for the matches of a team of queries.

    Args:
        questions: the questions.
        numbers: the numbers of those of the team.
        work: the environment of the search.
    """

    def __init__(self, questions: Questions, numbers: list[int], work: Work) -> None:
        from cerise.engines.tree.team import JoinTeam  # imports numba

        self._numbers, self._work = numbers, work
        bounds = [bound_of(questions, number) for number in numbers]
        names = [questions.show_name(number) or "" for number in numbers]
        self._names = names
        shared = questions.shared
        plan = shared.plan if shared is not None and list(shared.numbers) == numbers else None
        self._team = JoinTeam(bounds, work.options, plan, names)
        self._members = []
        for number, name in zip(numbers, names, strict=True):
            question = questions.each[number]
            assert isinstance(question, Sase)
            with name_errors(name):
                self._members.append(SaseSearch(question, work, _Member()))

    def feed(self, events: EventBatch) -> Iterator[Part]:
        """Take the next events; yield rows that become final, each with the number of its question."""
        self._members[0].count_ties(events)
        yield from self._tables(self._team.feed(events))

    def flush(self) -> Iterator[Part]:
        """Yield the rows that become final at the end of the events."""
        report = self._team.report
        yield from self._tables(self._team.flush())
        for number, member in zip(self._numbers, self._members, strict=True):
            for table in member.flush():
                yield number, table
        summary = report.team.summarize() | {PLANNING: report.planning_seconds}
        add(self._work.note, summary | {f"{JOIN}{name}": rows for name, rows in self._largest(report)})

    def _largest(self, report: TeamReport) -> list[tuple[str, int]]:
        """Return the joins that have compared most pairs, and how many rows each has made."""
        names, nodes = report.names, report.nodes
        most = sorted(nodes.candidates, key=lambda key: -nodes.candidates[key])[:MOST_JOINS]
        return [(names[key], nodes.rows[key]) for key in most if key in names]

    def _tables(self, found: Iterable[tuple[int, Finding]]) -> Iterator[Part]:
        for query, each in found:
            try:
                for table in self._members[query].make_tables([each]):
                    yield self._numbers[query], table
            except CeriseError as error:
                with name_errors(self._names[query]):
                    raise error from error.__cause__


def bound_of(questions: Questions, number: int) -> Bound:
    """Return the query of a question in SASE+."""
    question = questions.each[number]
    assert isinstance(question, Sase)
    return question.bound
