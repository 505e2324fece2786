"""Chooses an engine for an any-match query, by an estimate from the first events.

An automaton keeps a run for each row of each prefix of the pattern, and each event that a state waits for
visits the runs of that state; `nfa-merge` keeps one run for all rows that later predicates cannot tell apart.
The engine `tree` joins in the cheapest order. Counted chains of a Kleene variable are added up, by `tree` row
by row and by `rcep` at each last event. Pairs and rows are counted for each window [002 §3.3], and weighed
with nanoseconds fitted to the sixty queries of the suite `mcep`, part `single`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cerise.engines.base import Engine, Matcher, Options
from cerise.engines.race import Trial, TrialMatcher
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.plan.cost import TimedCosts
from cerise.plan.join_statistics import Statistics
from cerise.plan.joins import JoinPattern, bits
from cerise.plan.multi.local_plans import greedy

log = logging.getLogger(__name__)

SAMPLED, LEAST_SAMPLED = 64, 1 << 14  # the first 64th of the events, and at least 16,384
MOST_CHAINED = 30.0  # events of a Kleene variable in a window: of more, chains may be more than a word counts
CLEAR = 0.5  # an estimate of this share of that of `rcep` needs no race
# nanoseconds
LEAF, CANDIDATE, ROW, PROBE = 8.6, 2.8, 43.0, 8.8  # of joins: an event of a leaf, a pair, an inner row
LINK = 4.0  # a comparison of two events of a Kleene variable
TRIGGER, HELD = 500.0, 40.0  # of `rcep`: a last event, an event of the window before it


@dataclass(frozen=True, slots=True)
class Rates:
    """The nanoseconds of an engine: to start, for an event, a match that is written, and one that is made.

    Of an automaton also for a visit to a run, and for a new run.
    """

    start: float
    event: float
    write: float = 0.0
    match: float = 0.0
    visit: float = 0.0
    run: float = 0.0


RATES = {
    "nfa": Rates(1.7e6, 16.0, 143.0, 1.0, 3.1, 35.0),
    "nfa-merge": Rates(1.8e6, 17.0, 133.0, 4.0, 3.8, 31.5),
    "tree": Rates(5.1e6, 14.6, 103.0, 7.0),
    "rcep": Rates(2e6, 220.0),
}


@dataclass(frozen=True, slots=True)
class Estimate(Trial):
    """An engine that is one of several: an estimate by the first events decides."""

    def start(self, bound: Bound, options: Options) -> Matcher:
        return EstimateMatcher(self.engines, bound, options)


class EstimateMatcher(TrialMatcher):
    """The matcher of a query whose first events choose an automaton or joins, or `rcep` to count chains."""

    def _find_fastest(self, events: EventBatch) -> str:
        """Return the engine that should be fastest; of few events the first, or the one that wins a race."""
        raced = [name for name in self.engines if name != "tree"]
        if len(events) < self.options.limits.estimated_events:
            return self._run_race(events, raced)
        costs = estimate(self.bound, events, self.engines)
        log.info("%s ns", costs)
        best = min(costs, key=costs.__getitem__)
        if costs[best] > CLEAR * costs.get("rcep", float("inf")):
            return self._run_race(events, raced)
        return best


def estimate(bound: Bound, events: EventBatch, names: Collection[str]) -> Mapping[str, float]:
    """Return the nanoseconds of engines over some events; it takes half a millisecond, or a little more.

    Joins are left out where an automaton is done before they would begin to join.

    Args:
        bound: an any-match query that all of the engines can run.
        events: the events, one or more; a sample of them is read.
        names: an automaton and `tree`, and perhaps `rcep`.
    """
    from cerise.engines.tree.team import JoinTeam  # imports numba

    some = events.slice(0, max(LEAST_SAMPLED, len(events) // SAMPLED))
    team = JoinTeam([bound], Options())
    stats = team.sample(some)
    works = [
        BranchWork(each.branch.pattern, stats, len(some), {r.slot for r in each.branch.repeats if r.links})
        for each in team.branches
    ]
    writes = 0.0 if bound.query.totals is not None else 1.0
    share = len(events) / len(some)
    found = {name: RATES[name].start + RATES[name].event * len(events) for name in names}
    if "rcep" in names and any(work.chained > MOST_CHAINED for work in works):
        return {"rcep": found["rcep"]}
    for name in sorted(names, key=lambda name: name == "tree"):
        if name == "tree" and min(found.values()) < found["tree"]:
            return found
        rates = RATES[name]
        for work in works:
            own = rates.write * writes * work.matches + rates.match * work.matches
            found[name] += share * (own + work.count_time(name, rates))
    return found


@dataclass(frozen=True)
class BranchWork:
    """The work that engines have with one branch over the sampled events.

    Args:
        pattern: the branch.
        stats: rates and selectivities.
        events: how many events were sampled.
        linked: the Kleene variables whose neighbours are compared.
    """

    pattern: JoinPattern
    stats: Statistics
    events: int
    linked: Collection[int] = ()

    @property
    def windows(self) -> float:
        """How many windows the sample holds."""
        whole = self.events if getattr(self.pattern.scope, "by_position", False) else self.stats.longest
        return whole / max(self.stats.window(self.pattern), 1e-9)

    @property
    def matches(self) -> float:
        """How many rows bind all slots; the chains of a Kleene variable are one."""
        return self.windows * TimedCosts(self.pattern, self.stats).count_made(self.pattern.all)

    @property
    def chained(self) -> float:
        """How many events of Kleene variables a window holds."""
        costs = TimedCosts(self.pattern, self.stats)
        return sum(costs.rows(1 << slot) for slot in bits(self.pattern.kleene))

    def count_time(self, name: str, rates: Rates) -> float:
        """Return the nanoseconds of an engine, without events and matches."""
        costs = TimedCosts(self.pattern, self.stats)
        if name == "tree":
            return self.windows * self._join(costs)
        if name == "rcep":
            return self.windows * self._recompute(costs)
        visits, runs = count_visits(self.pattern, self.stats, merges=name == "nfa-merge", linked=self.linked)
        return self.windows * (rates.visit * visits + rates.run * runs)

    def _join(self, costs: TimedCosts) -> float:
        """Return the time of joins in a good order, slot after slot, while one window passes."""
        order = greedy(self.pattern, self.stats)
        total, mask = LEAF * sum(costs.rows(1 << slot) for slot in order), 1 << order[0]
        for slot in order[1:]:
            made = costs.count_made(mask | 1 << slot) if mask | 1 << slot != self.pattern.all else 0.0
            probes = costs.count_made(mask) + costs.rows(1 << slot)
            total += CANDIDATE * costs.candidates(mask, 1 << slot) + ROW * made + PROBE * probes
            mask |= 1 << slot
        held = self.chained / 2
        return total + costs.count_made(mask) * LINK * (held + held * held / 2)

    def _recompute(self, costs: TimedCosts) -> float:
        """Return the time of `rcep` while one window passes: at each last event it reads the window."""
        held = self.chained
        last = [slot for slot in bits(self.pattern.all) if self._is_last(slot)]
        triggers = sum(costs.rows(1 << slot) for slot in last)
        return triggers * (TRIGGER + HELD * held + LINK * held * held / 2)

    def _is_last(self, slot: int) -> bool:
        return not any(before >> slot & 1 for before in self.pattern.before)


def count_visits(
    pattern: JoinPattern, stats: Statistics, *, merges: bool, linked: Collection[int] = ()
) -> tuple[float, float]:
    """Return the work of an automaton while one window passes: visits to runs, and new runs.

    Args:
        pattern: the pattern; the automaton binds its slots in their order.
        stats: rates and selectivities.
        merges: whether runs that later tests cannot tell apart are one.
        linked: the Kleene variables whose neighbours are compared.

    >>> pattern = JoinPattern((0, 1, 2), (0, 1, 3), window=10)
    >>> stats = Statistics(dict.fromkeys(range(3), 1.0))
    >>> count_visits(pattern, stats, merges=True) < count_visits(pattern, stats, merges=False)
    True
    """
    costs = TimedCosts(pattern, stats)
    visits = runs = 0.0
    for slot in range(len(pattern)):
        events, prefix = costs.rows(1 << slot), (2 << slot) - 1
        waiting = _count_runs(pattern, costs, slot, merges=merges) if slot else 0.0
        if pattern.kleene >> slot & 1:  # runs that have taken an event wait for the next one
            remembered = 1 << slot if slot in linked else 0
            waiting += _count_runs(pattern, costs, slot + 1, merges=merges, also=remembered)
        visits += events * waiting
        if prefix != pattern.all:  # the last event makes a match
            rows = costs.count_made(prefix)
            runs += min(rows, events * max(waiting, 1.0)) if merges else rows
    return visits, runs


def _count_runs(pattern: JoinPattern, costs: TimedCosts, slot: int, *, merges: bool, also: int = 0) -> float:
    """Return how many runs wait for a slot; `also`: slots that they remember for other reasons than tests."""
    prefix = costs.rows((1 << slot) - 1)
    if not merges:
        return prefix
    remembered = also
    for test in pattern.tests:
        for one, other in ((test.left, test.right), (test.right, test.left)):
            if one < slot <= other:
                remembered |= 1 << one
    return min(prefix, costs.rows(remembered) if remembered else 1.0)


def is_estimated(bound: Bound, engines: Mapping[str, Engine]) -> bool:
    """Whether an estimate decides between engines for a query.

    Args:
        bound: the query.
        engines: all engines by name.
    """
    from cerise.engines.tree.engine import adds_up

    query = bound.query
    plain = query.totals is None or query.counts_only
    if not plain or query.limit is not None or engines["tree"].why_not(bound) is not None:
        return False
    return not bound.kleene or adds_up(bound)
