"""Push-pull, which [DFS] compares with: sites match events that were pulled before against their own.

Variables are pulled one by one. The events pulled so far travel to every site; an event there is pulled if it
extends a partial match. So the strategy can use every predicate, and takes as long as matching does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cerise.errors import PlanError
from cerise.filters.dual.tick_runs import NOTHING
from cerise.filters.rounds.asker import QUESTION, Pulled, RoundTrip
from cerise.filters.rounds.dual_query import DualBranch, DualQuery, Inside
from cerise.filters.rounds.site import SiteEvents
from cerise.plan.intervals import Ints, shift_times

Rows = dict[str, Ints]  # partial matches: the row of each variable
Test = Callable[[Mapping[str, Ints]], npt.NDArray[np.bool_]]  # of rows by variable
Tests = Sequence[tuple[frozenset[str], Test]]
PIECE = 1 << 20  # candidate pairs that are judged at once
MOST_PARTIALS = 1 << 25


def pull_partial_matches(
    query: DualQuery,
    events: Sequence[Sequence[SiteEvents]],
    event_bytes: int,
    tests: Tests = (),
) -> Pulled:
    """Return the events that push-pull pulls, for a query of one branch.

    Args:
        query: the query; the variables of its branch are in the order of the pattern.
        events: the events of each site.
        event_bytes: the bytes of an event, which travels to the asker, and from there to every site.
        tests: further predicates, with the variables that they read; rows count on from site to site.

    Raises:
        PlanError: events that are in no match must travel, too, or there are too many partial matches.
    """
    whole = _Whole.of(query, events)
    pulled, trips, sent = np.zeros(len(whole.times), bool), list[RoundTrip](), 0
    for name, partials in whole.grow(tests):
        new = np.unique(partials[name])
        fresh = new[~pulled[new]]
        pulled[fresh] = True
        trips.append(RoundTrip("pull", name, len(events) * (QUESTION + sent), 0, len(fresh)))
        sent = len(fresh) * event_bytes
    return Pulled(tuple(whole.divide(np.flatnonzero(pulled))), tuple(trips))


def find_tuples(query: DualQuery, events: Sequence[Sequence[SiteEvents]], tests: Tests = ()) -> Rows:
    """Return all choices of an event for each variable that pass window, order, equalities and tests.

    The arguments are those of `pull_partial_matches`. Under any-match these are the matches of a sequence of
    single events, so they bound the events that a strategy can leave behind.
    """
    return list(_Whole.of(query, events).grow(tests))[-1][1]


class _Whole:
    """The events of all sites: together they find what each finds alone."""

    def __init__(self, branch: DualBranch, window: int, sites: Sequence[SiteEvents]) -> None:
        self._branch, self._window = branch, window
        self._ends = np.cumsum([len(each.times) for each in sites])
        self.times = np.concatenate([NOTHING, *(each.times for each in sites)])
        self.rows = {
            name: np.flatnonzero(np.concatenate([each.fits[name] for each in sites])) for name in branch.names
        }
        self._keys = {
            known: (
                np.concatenate([each.keys[known].values for each in sites]),
                np.concatenate([each.keys[known].valid for each in sites]),
            )
            for known in (sites[0].keys if sites else ())
        }

    @classmethod
    def of(cls, query: DualQuery, events: Sequence[Sequence[SiteEvents]]) -> _Whole:
        if query.inside is Inside.ALL or len(query.branches) > 1:
            raise PlanError("push-pull needs one branch that skips events", hint="use push-down, or pull all")
        return cls(query.branches[0], query.window, [each[0] for each in events])

    def grow(self, tests: Tests) -> Iterator[tuple[str, Rows]]:
        """Yield the partial matches with one variable, with two, and so on; the rarest variable first."""
        order = sorted(self._branch.names, key=lambda name: len(self.rows[name]))
        partials: Rows = {order[0]: self.rows[order[0]]}
        yield order[0], partials
        for at, name in enumerate(order[1:], 2):
            ready = [test for names, test in tests if name in names and names <= set(order[:at])]
            partials = self.extend(partials, name, ready)
            yield name, partials

    def divide(self, rows: Ints) -> Iterator[Ints]:
        """Yield the rows of each site, counted from its own first event."""
        for start, end in zip([0, *self._ends[:-1].tolist()], self._ends.tolist(), strict=True):
            yield rows[(rows >= start) & (rows < end)] - start

    def extend(self, partials: Rows, name: str, tests: Sequence[Test]) -> Rows:
        """Return the partial matches with an event of one more variable each."""
        shared = [(i, e) for i, e in enumerate(self._branch.edges) if name in (e.left, e.right)]
        shared = [(i, edge) for i, edge in shared if edge.other(name) in partials]
        own = self.rows[name]
        if shared:
            at, edge = shared[0]
            values, valid = self._keys[at, name]
            own = own[valid[own]]
            key, others = values[own], self._keys[at, edge.other(name)]
            asked, has = others[0][partials[edge.other(name)]], others[1][partials[edge.other(name)]]
            partials = {each: rows[has] for each, rows in partials.items()}
            asked = asked[has]
        else:
            count = len(next(iter(partials.values())))
            key, asked = np.zeros(len(own), np.int64), np.zeros(count, np.int64)
        order = np.lexsort((self.times[own], key))
        return self._join(partials, name, own[order], key[order], asked, tests)

    def _join(
        self, partials: Rows, name: str, own: Ints, key: Ints, asked: Ints, tests: Sequence[Test]
    ) -> Rows:
        times = np.stack([self.times[rows] for rows in partials.values()])
        lows, highs = shift_times(times.max(0), -self._window), shift_times(times.min(0), self._window)
        ranked = np.unique(key)
        low_at, high_at = (_places(ranked, key, self.times[own], asked, each) for each in (lows, highs))
        reach = np.stack([low_at[0], np.maximum(high_at[1], low_at[0])])
        upto = np.cumsum(reach[1] - reach[0])
        inner = np.searchsorted(upto, np.arange(PIECE, int(upto[-1]) if len(upto) else 0, PIECE))
        found, total = list[Rows](), 0
        for first, last in pairwise([0, *inner.tolist(), len(upto)]):
            piece = {each: rows[first:last] for each, rows in partials.items()}
            found.append(self._judge(piece, name, own, reach[:, first:last], tests))
            total += len(found[-1][name])
            if total > MOST_PARTIALS:
                raise PlanError("push-pull has too many partial matches")
        return {
            each: np.concatenate([NOTHING, *(part[each] for part in found)]) for each in (*partials, name)
        }

    def _judge(self, partials: Rows, name: str, own: Ints, reach: Ints, tests: Sequence[Test]) -> Rows:
        """Return the partial matches with each event from `reach[0]` to `reach[1]` that they allow."""
        lengths = reach[1] - reach[0]
        which = np.repeat(np.arange(len(lengths)), lengths)
        within = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = {each: held[which] for each, held in partials.items()}
        rows[name] = own[reach[0][which] + within]
        names = self._branch.names
        fits = np.ones(len(which), bool)
        for other in partials:
            earlier, later = sorted((name, other), key=names.index)
            fits &= (self.times[rows[earlier]] <= self.times[rows[later]]) & (rows[name] != rows[other])
        for at, edge in enumerate(self._branch.edges):
            if name in (edge.left, edge.right) and edge.other(name) in partials:
                mine, theirs = self._keys[at, name], self._keys[at, edge.other(name)]
                fits &= mine[1][rows[name]] & theirs[1][rows[edge.other(name)]]
                fits &= mine[0][rows[name]] == theirs[0][rows[edge.other(name)]]
        rows = {each: held[fits] for each, held in rows.items()}
        for test in tests:
            good = test(rows)
            rows = {each: held[good] for each, held in rows.items()}
        return rows


def _places(ranked: Ints, key: Ints, times: Ints, asked: Ints, when: Ints) -> tuple[Ints, Ints]:
    """Return where pairs of key and time would stand among sorted ones: before equals, and after them."""
    starts = np.append(np.searchsorted(key, ranked, side="left"), len(key))
    rank = np.searchsorted(ranked, asked)
    there = (np.append(ranked, 0)[rank] == asked) & (rank < len(ranked))
    low, high = (np.where(there, np.append(starts, len(key))[rank + each], 0) for each in (0, 1))
    return _search(times, low, high, when, after=False), _search(times, low, high, when, after=True)


def _search(times: Ints, low: Ints, high: Ints, when: Ints, *, after: bool) -> Ints:
    """Search each time in a stretch of its own of sorted times, all at once."""
    low, high = low.copy(), high.copy()
    while np.any(low < high):
        middle = (low + high) >> 1
        held = times[np.minimum(middle, max(len(times) - 1, 0))]
        up = (low < high) & ((held <= when) if after else (held < when))
        high = np.where((low < high) & ~up, middle, high)
        low = np.where(up, middle + 1, low)
    return low
