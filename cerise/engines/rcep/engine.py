"""Recomputation as an engine: keep events, join them when one arrives that can be the last of a match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cerise.engines.base import Matcher, Options
from cerise.engines.nfa.derived import Mixed
from cerise.engines.nfa.program import Unfit
from cerise.engines.rcep.plan import plan_of
from cerise.pattern.bound import Bound


@dataclass(frozen=True, slots=True)
class Rcep:
    """An engine that recomputes matches."""

    name: str = "rcep"

    def why_not(self, bound: Bound) -> str | None:
        """Say why this engine cannot run a query; None where it can."""
        try:
            plan_of(bound)
        except (Unfit, Mixed) as reason:
            return str(reason)
        return None

    def start(self, bound: Bound, options: Options) -> Matcher:
        """Return a matcher for a query."""
        from cerise.engines.rcep.matcher import RcepMatcher  # numba is imported only where it is used

        return RcepMatcher(plan_of(bound), options)

    def explain(self, bound: Bound) -> Mapping[str, str]:
        """Show the query tree and what prunes it."""
        from cerise.engines.rcep.draw import draw

        return draw(plan_of(bound))


ENGINES: dict[str, Rcep] = {"rcep": Rcep()}
