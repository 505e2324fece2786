"""Starts the searches of questions over the events of one slice, feeds them, and lists their branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from cerise.filters.passes.pass_branches import MOST_BRANCHES, PassBranch, event_branches, row_branches
from cerise.run.many.united_answers import Part
from cerise.run.question import Batch, Question, Questions, SingleSearch, TeamSearch, Work
from cerise.run.routed_search import RoutedSearch, find_routed
from cerise.run.row_search import RowClause
from cerise.run.sase_search import Sase
from cerise.run.team_search import LEAST_TEAM, TeamJoin, find_team

FEW_SEARCHES = 16  # that take events batch by batch, whatever the size of a slice
HELD_EVENTS = 1 << 20  # of a slice that more searches read one after another


def start_searches(
    questions: Questions, work: Work, numbers: Iterable[int] | None = None, *, chained: bool = False
) -> list[TeamSearch]:
    """Start searches over the events of one slice; together they answer each question once.

    Args:
        questions: the questions.
        work: the environment of the searches.
        numbers: the numbers of the questions to answer; None: all.
        chained: whether to search for candidates instead of matches.
    """
    wanted = list(range(len(questions.each)) if numbers is None else numbers)
    if len(wanted) == 1:
        return [SingleSearch(wanted[0], questions.start(wanted[0], work, chained=chained))]
    team = [] if chained or len(wanted) < LEAST_TEAM else find_team(questions, wanted, work.options)
    shared: list[TeamSearch] = [TeamJoin(questions, team, work)] if team else []
    alone = sorted({*wanted}.difference(team))
    routed = [] if chained else find_routed(questions, alone, work.options)
    if routed:
        shared.append(RoutedSearch(questions, routed, work))
        alone = sorted({*alone}.difference(routed))
    return shared + [SingleSearch(number, questions.start(number, work, chained=chained)) for number in alone]


def search_events(searches: Sequence[TeamSearch], batches: Iterable[Batch]) -> Iterator[Part]:
    """Feed all events to all searches; yield the rows that they find, by question.

    Many searches run one after another over events that memory can hold, so that one at a time needs code,
    runs and buffers; else each batch goes to all of them.
    """
    stream, held, rows = iter(batches), [], 0
    if len(searches) > FEW_SEARCHES:
        for events in stream:
            held.append(events)
            rows += len(events)
            if rows > HELD_EVENTS:
                break
        else:
            for search in searches:
                yield from search_alone(search, held)
            return
    for events in chain(held, stream):
        for search in searches:
            yield from search.feed(events)
    for search in searches:
        yield from search.flush()


def search_alone(search: TeamSearch, batches: Iterable[Batch]) -> Iterator[Part]:
    """Feed all events to a search; yield the rows that it finds."""
    for events in batches:
        yield from search.feed(events)
    yield from search.flush()


def list_branches(questions: Iterable[Question]) -> tuple[PassBranch, ...] | str:
    """Return the branches of all questions, or the reason why every event must travel."""
    found: list[PassBranch] = []
    for each in questions:
        match each:
            case Sase(bound):
                branches = event_branches(bound)
            case RowClause(bound):
                branches = row_branches(bound, each.needs.partition)
            case _:
                return "a question of this kind asks about every event"
        if isinstance(branches, str):
            return branches
        found += branches
    return (
        tuple(found)
        if len(found) <= MOST_BRANCHES
        else f"the queries have more than {MOST_BRANCHES} branches"
    )
