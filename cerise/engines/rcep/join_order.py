"""In which order a sequence is joined: from its first event, or mirrored, from its last; and what that costs.

A right-deep plan joins the query read from the last event of its matches to the first [RCEP §2.2]. The cost
is the number of partial matches for one trigger, by a textbook model: a window has a few events for each
variable, and a predicate holds with a probability, by its operator. The numbers need only tell an order that
judges a predicate on a Kleene variable event by event from one that judges it subset by subset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cerise.engines.automaton.automaton import Automaton, Edge
from cerise.engines.automaton.program import Unfit
from cerise.engines.rcep.comparisons import Comparison, comparison_of, is_sequence
from cerise.pattern.bound import Bound, Branch, Conjunct
from cerise.pattern.expr import (
    Agg,
    At,
    Attr,
    Binary,
    Expr,
    In,
    Index,
    IsNull,
    Like,
    attributes,
    outside_aggregates,
    rebuild,
    walk,
)
from cerise.pattern.query import Node, Output, Seq

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
    while (
        begin := next((e for e in automaton.edges_from(state) if _begins(e, automaton)), None)
    ) is not None:
        take = next((e for e in automaton.edges_from(begin.target) if not _begins(e, automaton)), None)
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


# ---- from the last event to the first

# The event before the current one, seen from the end, is the one after it; the first is the last.
SEEN_FROM_THE_END: dict[Index, Index] = {
    At.CURRENT: At.PREVIOUS,
    At.PREVIOUS: At.CURRENT,
    At.LAST: 1,
    1: At.LAST,
}
UNORDERED = frozenset({At.EVERY, At.ALL})
ADDING = frozenset({"sum", "avg", "stddev"})


def mirrored(bound: Bound) -> Bound:
    """Return the query whose matches are those of another, with their events in reverse.

    Raises:
        Unfit: what it asks depends on the order in which events are bound.
    """
    if bound.query.output is Output.NON_OVERLAPPING or bound.query.limit is not None:
        raise Unfit("it chooses among matches, which come in their order only from the first variable on")
    branches = tuple(_mirrored_branch(branch, bound.kleene) for branch in bound.branches)
    return replace(bound, branches=branches)


def _mirrored_branch(branch: Branch, kleene: frozenset[str]) -> Branch:
    if not is_sequence(branch.pattern):
        raise Unfit("AND has no first variable")
    if branch.negations:
        raise Unfit("a NOT looks at the events around it in their order")
    conjuncts = tuple(_mirrored_conjunct(each, kleene) for each in branch.conjuncts)
    return replace(branch, pattern=_reversed(branch.pattern), conjuncts=conjuncts)


def _reversed(node: Node) -> Node:
    return Seq(tuple(map(_reversed, reversed(node.items)))) if isinstance(node, Seq) else node


def _mirrored_conjunct(conjunct: Conjunct, kleene: frozenset[str]) -> Conjunct:
    every = {each.var for each in outside_aggregates(conjunct.expr) if each.at is At.EVERY}
    if every & conjunct.steps():
        raise Unfit(f"{conjunct} speaks of an event in two ways")
    for each in attributes(conjunct.expr):
        if each.var in kleene and each.at not in UNORDERED and each.at not in SEEN_FROM_THE_END:
            raise Unfit(f"{conjunct} counts events from the first on")
    for aggregate in (each for each in walk(conjunct.expr) if isinstance(each, Agg)):
        if aggregate.function in ADDING:
            raise Unfit(f"{conjunct} adds values up, and what is lost on the way depends on their order")
    return replace(conjunct, expr=_seen_from_the_end(conjunct.expr))


def _seen_from_the_end(expr: Expr) -> Expr:
    if isinstance(expr, Attr):
        return replace(expr, at=SEEN_FROM_THE_END.get(expr.at, expr.at))
    return rebuild(expr, _seen_from_the_end)
