"""Chooses between an automaton and joins for an any-match query, by an estimate from the first events.

An automaton keeps a run for each row of each prefix of the pattern, and each event that a state waits for
visits the runs of that state; `nfa-merge` keeps one run for all rows that later predicates cannot tell apart.
The engine `tree` joins in the cheapest order. Pairs and rows are counted for each window [002 §3.3], and
weighed with nanoseconds fitted to the 52 queries without Kleene variables of the suite `mcep`, part `single`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from cerise.engines.base import Engine, Matcher, Options
from cerise.engines.race import Trial, TrialMatcher
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.plan.cost import TimedCosts, cost_tree
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, chain_slots
from cerise.plan.multi.local_plans import greedy

log = logging.getLogger(__name__)

SAMPLED, LEAST_SAMPLED = 64, 1 << 13  # the first 64th of the events, and at least 8,192
EVENT, VISIT, RUN = 19.0, 4.5, 54.0  # nanoseconds of an automaton: an event, a visit to a run, a new run
TREE_EVENT, TREE_SHARE = 35.0, 0.58  # of the joins: an event, and the share of `TimedCosts` that was measured


@dataclass(frozen=True, slots=True)
class Estimate(Trial):
    """An engine that is one of two, an automaton and `tree`: an estimate by the first events decides."""

    def start(self, bound: Bound, options: Options) -> Matcher:
        return EstimateMatcher(self.engines, bound, options)


class EstimateMatcher(TrialMatcher):
    """The matcher of a query whose first events choose between an automaton and joins."""

    def _find_fastest(self, events: EventBatch) -> str:
        """Return the engine that should be fastest; the automaton, if events are few."""
        automaton, joins = self.engines
        if len(events) < self.options.limits.estimated_events:
            return automaton
        costs = estimate(self.bound, events, merges=automaton == "nfa-merge")
        log.info("%s ns for the first events", costs)
        return joins if costs["tree"] < costs["automaton"] else automaton


def estimate(bound: Bound, events: EventBatch, *, merges: bool) -> Mapping[str, float]:
    """Return the nanoseconds of an automaton and of joins over a sample of events; it takes about 1 ms.

    Args:
        bound: an any-match query that both can run.
        events: some events, one or more.
        merges: whether the automaton merges runs.
    """
    from cerise.engines.tree.team import JoinTeam  # imports numba

    some = events.slice(0, max(LEAST_SAMPLED, len(events) // SAMPLED))
    team = JoinTeam([bound], Options())
    stats = team.sample(some)
    automaton, joins = EVENT * len(some), TREE_EVENT * len(some)
    for pattern in (each.branch.pattern for each in team.branches):
        windows = stats.longest / max(stats.window(pattern), 1e-9)
        if _by_position(pattern):
            windows = len(some) / max(stats.window(pattern), 1.0)
        visits, runs = count_visits(pattern, stats, merges=merges)
        automaton += windows * (VISIT * visits + RUN * runs)
        tree = chain_slots(greedy(pattern, stats))
        joins += windows * TREE_SHARE * cost_tree(tree, pattern, stats, "ours")
    return {"automaton": automaton, "tree": joins}


def _by_position(pattern: JoinPattern) -> bool:
    return bool(getattr(pattern.scope, "by_position", False))


def count_visits(pattern: JoinPattern, stats: Statistics, *, merges: bool) -> tuple[float, float]:
    """Return the work of an automaton while one window passes: visits to runs, and new runs.

    Args:
        pattern: the pattern; the automaton binds its slots in their order.
        stats: rates and selectivities.
        merges: whether runs that later tests cannot tell apart are one.

    >>> pattern = JoinPattern((0, 1, 2), (0, 1, 3), window=10)
    >>> stats = Statistics(dict.fromkeys(range(3), 1.0))
    >>> count_visits(pattern, stats, merges=True) < count_visits(pattern, stats, merges=False)
    True
    """
    costs = TimedCosts(pattern, stats)
    visits = runs = 0.0
    for slot in range(len(pattern)):
        events = costs.rows(1 << slot)
        waiting = _count_waiting(pattern, costs, slot, merges=merges) if slot else 0.0
        visits += events * waiting
        rows = costs.rows((2 << slot) - 1)
        runs += min(rows, events * max(waiting, 1.0)) if merges else rows
    return visits, runs


def _count_waiting(pattern: JoinPattern, costs: TimedCosts, slot: int, *, merges: bool) -> float:
    """Return how many runs wait for a slot."""
    if not merges:
        return costs.rows((1 << slot) - 1)
    remembered = 0
    for test in pattern.tests:
        for one, other in ((test.left, test.right), (test.right, test.left)):
            if one < slot <= other:
                remembered |= 1 << one
    return costs.rows(remembered) if remembered else 1.0


def is_estimated(bound: Bound, engines: Mapping[str, Engine]) -> bool:
    """Whether an estimate decides between an automaton and joins for a query.

    Args:
        bound: the query.
        engines: all engines by name.
    """
    query = bound.query
    plain = query.totals is None or query.counts_only
    return not bound.kleene and plain and query.limit is None and engines["tree"].why_not(bound) is None
