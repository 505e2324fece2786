"""Pull strategies behind one interface: how an asker gets the events that a query needs [DFS §VI-A3].

`pull-all` sends every event, `push-down` those that fit a variable. `push-pull` pulls events that extend
partial matches, variable by variable. `dual` shrinks covered time in rounds, and pulls events inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cerise.errors import PlanError, did_you_mean
from cerise.filters.rounds.asker import (
    DEFAULT,
    EVENT_BYTES,
    QUESTION,
    DualSettings,
    Pulled,
    RoundTrip,
    pull_dual,
)
from cerise.filters.rounds.dual_query import DualQuery, Inside
from cerise.filters.rounds.partial_matches import pull_partial_matches
from cerise.filters.rounds.site import SiteEvents

Sites = Sequence[Sequence[SiteEvents]]  # the events of each site, as each branch of the query sees them


def pull(
    strategy: str,
    query: DualQuery,
    sites: Sites,
    settings: DualSettings = DEFAULT,
    event_bytes: int = EVENT_BYTES,
) -> Pulled:
    """Return the events that a strategy brings to the asker, and its round-trips.

    Args:
        strategy: a name in `PULLS`.
        query: the query.
        sites: the events of each site, as each branch sees them.
        settings: how dual filtering goes about it.
        event_bytes: the bytes of an event.

    Raises:
        PlanError: the strategy is unknown, or the query is beyond it.
    """
    if strategy not in PULLS:
        raise PlanError(f"the pull strategy {strategy!r} is unknown", hint=did_you_mean(strategy, PULLS))
    return PULLS[strategy](query, sites, settings, event_bytes)


def _pull_all(_query: DualQuery, sites: Sites, _settings: DualSettings, _event_bytes: int) -> Pulled:
    return _take_one_trip(sites, [np.ones(len(each[0].times), bool) for each in sites])


def _push_down(query: DualQuery, sites: Sites, _settings: DualSettings, _event_bytes: int) -> Pulled:
    if query.inside is Inside.ALL:
        raise PlanError("push-down drops events that contiguity counts", hint="use pull-all or dual")
    fitting = [
        np.logical_or.reduce([fits for branch in site for fits in branch.fits.values()]) for site in sites
    ]
    return _take_one_trip(sites, fitting)


def _take_one_trip(sites: Sites, kept: Sequence[np.ndarray[tuple[int], np.dtype[np.bool_]]]) -> Pulled:
    rows = tuple(np.flatnonzero(each) for each in kept)
    return Pulled(rows, (RoundTrip("pull", "", QUESTION * len(sites), 0, sum(map(len, rows))),))


PULLS: dict[str, Callable[[DualQuery, Sites, DualSettings, int], Pulled]] = {
    "pull-all": _pull_all,
    "push-down": _push_down,
    "push-pull": lambda query, sites, _settings, event_bytes: pull_partial_matches(query, sites, event_bytes),
    "dual": lambda query, sites, settings, _event_bytes: pull_dual(query, sites, settings),
}
