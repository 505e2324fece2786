"""What the joins of a plan should cost: how many partial matches they go through, for one trigger.

The numbers are those of a small textbook model: a window has so many events for each variable, and a
predicate holds so often, by its operator. They need only be right enough to tell an order in which a
predicate on a Kleene variable is judged event by event from one in which it is judged subset by subset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cerise.engines.automaton.automaton import Automaton, Edge
from cerise.engines.rcep.comparisons import Comparison, comparison_of
from cerise.pattern.expr import Binary, Expr, In, IsNull, Like

EVENTS = 8.0  # of a window that fit a variable
HOLDS = {"=": 0.1, "!=": 0.9, "<": 0.4, "<=": 0.4, ">": 0.4, ">=": 0.4}
OTHERWISE = 0.5


def cost(automaton: Automaton, last: str, judged: dict[str, tuple[Comparison, ...]]) -> float:
    """Return how many partial matches of a sequence there are when it is joined in the automaton's order.

    Args:
        automaton: that of a sequence, or of a mirrored one.
        last: the variable that the trigger is of.
        judged: for each variable, the comparisons with the trigger, by which its events are pruned before.
    """
    done = {each for some in judged.values() for each in some}
    bound: dict[str, _Chosen] = {}
    total, state = 0.0, 0
    while (begin := next((e for e in automaton.leaving(state) if _begins(e, automaton)), None)) is not None:
        take = next((e for e in automaton.leaving(begin.target) if not _begins(e, automaton)), None)
        events = 1.0 if begin.var == last and take is None else EVENTS
        events *= math.prod(HOLDS[each.op] for each in judged.get(begin.var, ()))
        bound[begin.var] = _Chosen(events, several=take is not None)
        tests = dict.fromkeys(
            check.test for edge in (begin, take) if edge is not None for check in edge.checks
        )
        for test in (each for each in tests if not _is_one_of(each.expr, done)):
            for var, first in test.runs_over or ((begin.var, 1),):
                bound[var].hold(_share(test.expr), between=first > 1)
        total += math.prod(each.ways() for each in bound.values())
        state = begin.target
    return total


@dataclass(slots=True)
class _Chosen:
    """How many ways there are to choose the events of a variable, of those that a window has."""

    events: float
    several: bool
    each: float = 1.0  # how often what is asked of each event holds
    pairs: float = 1.0  # and what is asked of two neighbours

    def hold(self, share: float, *, between: bool) -> None:
        if between:
            self.pairs *= share
        else:
            self.each *= share

    def ways(self) -> float:
        """Return the number of chains of events in which everything holds."""
        if not self.several:
            return self.events * self.each
        return (math.pow(1 + self.each * self.pairs, self.events) - 1) / self.pairs


def _begins(edge: Edge, automaton: Automaton) -> bool:
    return edge.var not in automaton.states[edge.source].started


def _share(expr: Expr) -> float:
    if isinstance(expr, Binary) and expr.op in HOLDS:
        return HOLDS[expr.op]
    if isinstance(expr, In | IsNull | Like):
        return HOLDS["="]
    return OTHERWISE


def _is_one_of(expr: Expr, done: set[Comparison]) -> bool:
    compared = comparison_of(expr)
    return compared is not None and (compared in done or compared.flipped() in done)
