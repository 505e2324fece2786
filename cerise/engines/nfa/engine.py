"""The three algorithms of the paper as engines: basic, merging equivalent runs, and backtracking."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerise.engines.base import Matcher, Options
from cerise.engines.nfa.derived import Mixed
from cerise.engines.nfa.program import Program, Unfit, compile_program
from cerise.pattern.bound import Bound

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Nfa:
    """An engine that runs automata."""

    name: str
    merging: bool = False
    backtracking: bool = False

    def why_not(self, bound: Bound) -> str | None:
        """Say why this engine cannot run a query; None where it can."""
        try:
            program_of(bound, merging=self.merging)
        except (Unfit, Mixed) as reason:
            return str(reason)
        return None

    def start(self, bound: Bound, options: Options) -> Matcher:
        """Return a matcher for a query."""
        from cerise.engines.nfa.matcher import NfaMatcher  # numba is imported only where it is used

        return NfaMatcher(program_of(bound, merging=self.merging), options, backtracking=self.backtracking)


@functools.lru_cache(maxsize=64)
def program_of(bound: Bound, *, merging: bool) -> Program:
    """Return the program of a query, written once."""
    return compile_program(bound, merging=merging)


ENGINES: Mapping[str, Nfa] = {
    engine.name: engine
    for engine in (Nfa("nfa"), Nfa("nfa-merge", merging=True), Nfa("nfa-backtrack", backtracking=True))
}
