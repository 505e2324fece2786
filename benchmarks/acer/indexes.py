"""NaiveIndex, IntervalScan and a filter by type alone: what reads events by way of B+trees.

NaiveIndex [000 §4.1] looks up every condition. IntervalScan [Koerber21] takes conditions by a cost model,
joins what they find to the intervals that may hold a match, and replays these. The paper takes them greedily;
to try more is far better, so there are both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import exp, prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from acer.answers import FILTER, MATCH, READ, Answer, matched
from acer.btrees import Entries, Ints, Trees
from acer.full_scan import FullScan
from acer.queries import Query, Range, Variable

# Measured: to read an entry of a tree and sort it in; to fetch an event and match it; to scan, two threads.
ENTRY_NS, REPLAY_NS, SCAN_NS = 60, 150, 50


@dataclass(slots=True)
class _Lookups:
    """Conditions that have been looked up for one query; no tree is asked the same twice."""

    trees: Trees
    found: dict[str | Range, Entries] = field(default_factory=dict)
    entries: int = 0

    def of(self, condition: str | Range) -> Entries:
        """Return the events of a type, or in a range."""
        if condition not in self.found:
            self.found[condition] = (
                self.trees.of_type(condition)
                if isinstance(condition, str)
                else self.trees.between(condition.attribute, condition.least, condition.most)
            )
            self.entries += len(self.found[condition].rows)
        return self.found[condition]

    def all_of(self, conditions: Sequence[str | Range]) -> Entries:
        """Return the events that satisfy all of some conditions."""
        least, *others = sorted(map(self.of, conditions), key=lambda each: len(each.rows))
        return reduce(self._common, others, least)

    def union(self, found: Sequence[Ints]) -> Ints:
        """Return the rows that are in any of some sets, in order."""
        there = np.zeros(self.trees.rows, bool)
        for rows in found:
            there[rows] = True
        return np.flatnonzero(there)

    def _common(self, one: Entries, other: Entries) -> Entries:
        there = np.zeros(self.trees.rows, bool)
        there[other.rows] = True
        both = there[one.rows]
        return Entries(one.times[both], one.rows[both])


@dataclass(slots=True)
class NaiveIndex:
    """Looks up every condition of every variable, or only their types, and reads what is left."""

    trees: Trees
    types_only: bool = False

    def answer(self, query: Query) -> Answer:
        """Count the matches of a query."""
        answer, look = Answer(), _Lookups(self.trees)
        with answer.timed(FILTER):
            bound = self.trees.roles.bind(query)
            wanted = dict.fromkeys((each.type, self._ranges(each)) for each in query.variables)
            found = [look.all_of([kind, *ranges]).rows for kind, ranges in wanted]
            rows = look.union(found)
        with answer.timed(READ):
            table = self.trees.fetch(rows, bound.needs)
        with answer.timed(MATCH):
            answer.matches = matched(bound, table)
        answer.events, answer.told = len(table), {"entries": look.entries}
        return answer

    def files(self) -> list[Path]:
        """Return the files that may be read."""
        return self.trees.files()

    def close(self) -> None:
        """Let go of the files."""
        self.trees.close()

    def _ranges(self, variable: Variable) -> tuple[Range, ...]:
        return () if self.types_only else variable.ranges


# ---- intervals

Conditions = dict[str, list[str | Range]]  # what has been chosen for each variable
Chooser = Callable[[Query, Trees], Conditions]


@dataclass(slots=True)
class IntervalScan:
    """Looks up the conditions that are worth it, and replays the intervals that they leave.

    Where no condition is, it scans.
    """

    trees: Trees
    scan: FullScan
    choose: Chooser

    def answer(self, query: Query) -> Answer:
        """Count the matches of a query."""
        answer, look = Answer(), _Lookups(self.trees)
        with answer.timed(FILTER):
            chosen = self.choose(query, self.trees)
        if not chosen:
            scanned = self.scan.answer(query)
            scanned.seconds[FILTER] += answer.seconds[FILTER]
            return scanned
        with answer.timed(FILTER):
            bound = self.trees.roles.bind(query)
            found = {name: look.all_of(conditions) for name, conditions in chosen.items()}
            starts, ends = intervals(query, {name: np.sort(each.times) for name, each in found.items()})
        with answer.timed(READ):
            table = self.trees.fetch_within(starts, ends, bound.needs)
        with answer.timed(MATCH):
            answer.matches = matched(bound, table)
        conditions = sum(map(len, chosen.values()))
        answer.events = len(table)
        answer.told = {"entries": look.entries, "conditions": conditions, "intervals": len(starts)}
        return answer

    def files(self) -> list[Path]:
        """Return the files that may be read."""
        return self.trees.files()

    def close(self) -> None:
        """Let go of the files."""
        self.trees.close()


def choose(query: Query, trees: Trees) -> Conditions:
    """Choose the conditions that cost least: so many of them, the most selective first; or none, to scan.

    Often only two conditions of one variable save something together, so all numbers of them are tried, of
    all variables mixed and of one variable after the other.
    """
    model = _Model(query, trees)
    best: Conditions = {}
    cost = trees.rows * float(SCAN_NS)
    for order in model.orders():
        chosen: Conditions = {}
        for name, condition in order:
            chosen = {**chosen, name: [*chosen.get(name, []), condition]}
            if (new := model.cost(chosen)) < cost:
                best, cost = chosen, new
    return best


def choose_greedily(query: Query, trees: Trees) -> Conditions:
    """Choose conditions, the most selective first, until one saves nothing: as the paper does."""
    model = _Model(query, trees)
    chosen: Conditions = {}
    cost = trees.rows * float(REPLAY_NS)
    for name, condition in model.orders()[0]:
        more = {**chosen, name: [*chosen.get(name, []), condition]}
        if (new := model.cost(more)) >= cost:
            break
        chosen, cost = more, new
    return chosen


@dataclass(slots=True)
class _Model:
    """What a set of conditions would cost, in nanoseconds."""

    query: Query
    trees: Trees
    _shares: dict[str | Range, float] = field(default_factory=dict)
    _per_window: float | None = None

    def share(self, condition: str | Range) -> float:
        """Return the share of all events that satisfy a condition, by the sample."""
        if condition not in self._shares:
            sample, roles = self.trees.sample, self.trees.roles
            if isinstance(condition, str):
                code = self.trees.types.index(condition) if condition in self.trees.types else -1
                held = sample[roles.type] == code
            else:
                values = sample[condition.attribute]
                held = (values >= condition.least) & (values <= condition.most)
            self._shares[condition] = max(float(held.mean()), 0.5 / len(held)) if len(held) else 1.0
        return self._shares[condition]

    def orders(self) -> list[list[tuple[str, str | Range]]]:
        """Return all conditions, the most selective first; and those of the rarest variable first."""
        every = [(each.name, c) for each in self.query.variables for c in (each.type, *each.ranges)]
        mixed = sorted(every, key=lambda each: (self.share(each[1]), not self.is_edge(each[0])))
        rare = {name: prod(self.share(c) for other, c in every if other == name) for name, _ in every}
        return [mixed, sorted(mixed, key=lambda each: (rare[each[0]], each[0]))]

    def is_edge(self, name: str) -> bool:
        """Whether a variable is surely bound first, or last."""
        names = [each.name for each in self.query.variables]
        first, last = self.query.edges
        return (first and name == names[0]) or (last and name == names[-1])

    def per_window(self) -> float:
        """Return how many events there are in a window, on average over events."""
        if self._per_window is None:
            firsts = self.trees.firsts
            pages = np.searchsorted(firsts, firsts + self.query.within_us, "right") - np.arange(len(firsts))
            # A window that is shorter than a page: as many events as it has of the page's time.
            gaps = np.maximum(np.diff(firsts, append=firsts[-1:] + 1), 1)
            inside = np.where(pages > 1, pages - 0.5, np.minimum(self.query.within_us / gaps, 1))
            self._per_window = float(inside.mean()) * self.trees.per_page
        return self._per_window

    def cost(self, chosen: Conditions) -> float:
        """Estimate looking up conditions, and replaying the events that are left."""
        rows = self.trees.rows
        looked_up = {condition for each in chosen.values() for condition in each}
        entries = rows * sum(map(self.share, looked_up))
        shares = {name: prod(map(self.share, each)) for name, each in chosen.items()}
        driver = min(shares, key=shares.__getitem__)
        reach = self.per_window() * (1 if self.is_edge(driver) else 2)
        kept = shares[driver] * rows
        for name, share in shares.items():
            kept *= 1.0 if name == driver else 1 - exp(-share * reach)
        fetched = reach + self.trees.per_page  # of an interval: whole pages
        replayed = rows * (1 - exp(-kept * fetched / rows))
        return entries * ENTRY_NS + replayed * REPLAY_NS


def intervals(query: Query, times: dict[str, Ints]) -> tuple[Ints, Ints]:
    """Return the intervals, in order and disjoint, that may hold a match: Eq. 1 of 000, and a join of times.

    Args:
        query: the query.
        times: those of the events that may be bound to some of its variables, in order.
    """
    names = [each.name for each in query.variables]
    driver = min(times, key=lambda name: len(times[name]))
    first = query.edges[0] and driver == names[0]
    last = query.edges[1] and driver == names[-1]
    starts = times[driver] - (0 if first else query.within_us)
    ends = times[driver] + (0 if last else query.within_us)
    for name, others in times.items():
        if name == driver or not len(others):
            continue
        at = np.searchsorted(others, ends, "right")
        held = at > np.searchsorted(others, starts, "left")
        if first and query.edges[1] and name == names[-1]:
            ends = np.where(held, others[np.maximum(at - 1, 0)], ends)
        starts, ends = starts[held], ends[held]
    if not all(len(each) for each in times.values()):
        starts, ends = starts[:0], ends[:0]
    return merged(starts, ends)


def merged(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Join intervals that overlap; they come in the order of their starts."""
    if not len(starts):
        return starts, ends
    upto = np.maximum.accumulate(ends)
    new: npt.NDArray[np.bool_] = np.append(True, starts[1:] > upto[:-1])
    return starts[new], upto[np.append(np.flatnonzero(new)[1:] - 1, len(starts) - 1)]
