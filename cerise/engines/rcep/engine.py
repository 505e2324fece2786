"""Recomputation as an engine: keep events, join them when one arrives that can be the last of a match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cerise.engines.automaton.derived import Mixed
from cerise.engines.automaton.program import Unfit
from cerise.engines.base import Matcher, Options
from cerise.engines.rcep.explain import draw, draw_layers
from cerise.engines.rcep.layers import layers_for
from cerise.engines.rcep.plan import Joins, plan_of
from cerise.pattern.bound import Bound


def why_not(bound: Bound, joins: Joins | None = None) -> str | None:
    """Say why a query cannot be recomputed, whatever it reads from; None where it can."""
    try:
        plan_of(bound, joins)
    except (Unfit, Mixed) as reason:
        return str(reason)
    return None


def why_enumerated(bound: Bound) -> str | None:
    """Say why the matches of a query must be made, if only to be counted; None where they need not."""
    try:
        layers_for(bound)
    except Unfit as reason:
        return str(reason)
    return None


@dataclass(frozen=True, slots=True)
class Rcep:
    """An engine that recomputes matches."""

    name: str
    joins: Joins | None = None

    def why_not(self, bound: Bound) -> str | None:
        """Say why this engine cannot run a query; None where it can."""
        if (reason := why_not(bound, self.joins)) is not None or bound.source is None:
            return reason
        reason = self.why_not(bound.source)
        return None if reason is None else f"of the query that it reads from, {reason}"

    def start(self, bound: Bound, options: Options) -> Matcher:
        """Return a matcher for a query."""
        if why_enumerated(bound) is None:
            from cerise.engines.rcep.counting import (
                CountingMatcher,  # numba is imported only where it is used
            )

            return CountingMatcher(plan_of(bound), options)
        from cerise.engines.rcep.matcher import RcepMatcher

        return RcepMatcher(plan_of(bound, self.joins), options)

    def explain(self, bound: Bound) -> Mapping[str, str]:
        """Show the query tree and what prunes it."""
        if bound.query.totals is None:
            return draw(plan_of(bound, self.joins))
        if (why := why_enumerated(bound)) is not None:
            return {**draw(plan_of(bound, self.joins)), "counted": f"one by one, as they are found: {why}"}
        return {"counted": "without making them", **draw_layers(layers_for(bound))}


ENGINES: dict[str, Rcep] = {
    engine.name: engine
    for engine in (Rcep("rcep"), Rcep("rcep-left", Joins.LEFT), Rcep("rcep-right", Joins.RIGHT))
}
