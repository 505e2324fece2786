"""The three algorithms of the paper as engines: basic, merging equivalent runs, and backtracking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cerise.engines.automaton.derived import Mixed
from cerise.engines.automaton.program import Program, Unfit, program_of
from cerise.engines.base import Matcher, Options
from cerise.engines.nfa.compressed import Compressed
from cerise.engines.nfa.explain import draw, nondeterminism, run_bound
from cerise.events import EventBatch
from cerise.pattern.bound import Bound
from cerise.pattern.query import Strategy


@dataclass(frozen=True, slots=True)
class Nfa:
    """An engine that runs queries as automata."""

    name: str
    merging: bool = False
    backtracking: bool = False

    def why_not(self, bound: Bound) -> str | None:
        """Say why this engine cannot run a query; None if it can."""
        try:
            program_of(bound, merging=self.merging)
        except (Unfit, Mixed) as reason:
            return str(reason)
        return None

    def start(self, bound: Bound, options: Options) -> Matcher:
        """Return a matcher for a query."""
        from cerise.engines.nfa.matcher import NfaMatcher  # numba is imported only where it is used

        program = program_of(bound, merging=self.merging)
        if self.backtracking:
            from cerise.engines.nfa.backtrack import BacktrackMatcher

            return BacktrackMatcher(program, options)
        return NfaMatcher(program, options)

    def compress(self, bound: Bound, events: EventBatch, options: Options) -> Compressed:
        """Return all matches of a query over events as the buffer that holds them (S7.5)."""
        from cerise.engines.nfa.packing import PackingMatcher

        return PackingMatcher(program_of(bound, merging=self.merging), options).compress(events)

    def explain(self, bound: Bound) -> Mapping[str, str]:
        """Show the automata, their nondeterminism, a bound on the number of runs, and whether runs merge."""
        program = program_of(bound, merging=True)
        lines = [line for automaton in program.automata for line in draw(automaton, bound)]
        kinds = dict.fromkeys(kind for each in program.automata for kind in nondeterminism(each, bound))
        bounds = dict.fromkeys(run_bound(each, bound) for each in program.automata)
        facts = {
            "automaton": "\n".join(lines) or "none: WHERE can never hold",
            "splits": ", ".join(kinds) or "nothing",
        }
        facts["most runs"] = "; ".join(bounds)
        if self.merging and program.why_not_merging:
            facts["merging"] = f"off: {program.why_not_merging}"
        return facts


def why_merge(bound: Bound) -> str | None:
    """Say why merging runs of a query should pay; None if runs seldom or never become equal.

    Runs become equal if they remember few distinct values: nothing, a last or an extreme value. Sums and
    averages hardly ever agree, and without Kleene or skip_till_any_match there is one run per start.
    """
    counts, gain = bound.query.counts_only, None
    if bound.query.strategy is Strategy.ANY and (counts or not bound.kleene) and len(bound.variables) > 2:
        gain = "runs that remember the same values are merged"
    elif bound.kleene and not bound.query.strategy.contiguous and counts:
        gain = "runs that remember the same values are merged and counted together"
    return gain if gain and _remembers_little(program_of(bound, merging=True)) else None


def _remembers_little(program: Program) -> bool:
    """Whether runs can be merged, and do not remember values that differ in nearly all of them."""
    seldom_equal = ("avg", "sum", "mean", "count", "number")
    return (
        program.merging
        and not program.history
        and all(slot.key.what not in seldom_equal for slot in program.layout.slots.values())
    )


ENGINES: dict[str, Nfa] = {
    engine.name: engine
    for engine in (Nfa("nfa"), Nfa("nfa-merge", merging=True), Nfa("nfa-backtrack", backtracking=True))
}
