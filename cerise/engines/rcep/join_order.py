"""The order in which a sequence is joined: from its first event, or mirrored, from its last; and its cost.

A right-deep plan joins the query read from the last event of its matches to the first [RCEP §2.2]. The cost
is the number of runs for one trigger, by a textbook model: a window has a few events for each variable, and a
predicate holds with a probability that depends on its operator. The model need only distinguish an order that
judges a predicate on a Kleene variable event by event from one that judges it subset by subset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cerise.engines.automaton.automaton import Automaton, Edge
from cerise.engines.automaton.program import Unfit
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
from cerise.plan.comparisons import EventComparison, comparison_of, is_sequence

EVENTS = 8.0  # in a window that fit a variable
HOLDS = {"=": 0.1, "!=": 0.9, "<": 0.4, "<=": 0.4, ">": 0.4, ">=": 0.4}  # the share of events that pass
OTHERWISE = 0.5


def cost(automaton: Automaton, last: str, judged: dict[str, tuple[EventComparison, ...]]) -> float:
    """Return how many runs the joins of a sequence make in the automaton's order.

    Args:
        automaton: the automaton of a sequence, or of a mirrored sequence.
        last: the variable of the trigger.
        judged: for each variable, the comparisons with the trigger that prune its events before the joins.
    """
    done = {each for some in judged.values() for each in some}
    bound: dict[str, _Choices] = {}
    total, state = 0.0, 0
    while (
        begin := next((e for e in automaton.edges_from(state) if _begins(e, automaton)), None)
    ) is not None:
        take = next((e for e in automaton.edges_from(begin.target) if not _begins(e, automaton)), None)
        events = 1.0 if begin.var == last and take is None else EVENTS
        events *= math.prod(HOLDS[each.op] for each in judged.get(begin.var, ()))
        bound[begin.var] = _Choices(events, several=take is not None)
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
class _Choices:
    """The number of ways to choose the events of a variable from a window."""

    events: float
    several: bool
    each: float = 1.0  # the share of events that pass the predicates on one event
    pairs: float = 1.0  # the share of neighbours that pass the predicates on two

    def hold(self, share: float, *, between: bool) -> None:
        if between:
            self.pairs *= share
        else:
            self.each *= share

    def ways(self) -> float:
        """Return the number of chains of events that pass all predicates."""
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


def _is_one_of(expr: Expr, done: set[EventComparison]) -> bool:
    compared = comparison_of(expr)
    return compared is not None and (compared in done or compared.flip() in done)


# ---- from the last event to the first

# Seen from the end, the event before the current one comes after it, and the first event is the last.
MIRRORED: dict[Index, Index] = {
    At.CURRENT: At.PREVIOUS,
    At.PREVIOUS: At.CURRENT,
    At.LAST: 1,
    1: At.LAST,
}
UNORDERED = frozenset({At.EVERY, At.ALL})
ADDING = frozenset({"sum", "avg", "stddev"})


def mirror_query(bound: Bound) -> Bound:
    """Return the query with the same matches as another, its events in reverse.

    Raises:
        Unfit: the query depends on the order in which events are bound.
    """
    if bound.query.output is Output.NON_OVERLAPPING or bound.query.limit is not None:
        raise Unfit("it chooses among matches, and right-deep joins do not find them in their order")
    branches = tuple(_mirror_branch(branch, bound.kleene) for branch in bound.branches)
    return replace(bound, branches=branches)


def _mirror_branch(branch: Branch, kleene: frozenset[str]) -> Branch:
    if not is_sequence(branch.pattern):
        raise Unfit("AND has no first variable")
    if branch.negations:
        raise Unfit("a NOT looks at the events around it in their order")
    conjuncts = tuple(_mirror_conjunct(each, kleene) for each in branch.conjuncts)
    return replace(branch, pattern=_reverse(branch.pattern), conjuncts=conjuncts)


def _reverse(node: Node) -> Node:
    return Seq(tuple(map(_reverse, reversed(node.items)))) if isinstance(node, Seq) else node


def _mirror_conjunct(conjunct: Conjunct, kleene: frozenset[str]) -> Conjunct:
    every = {each.var for each in outside_aggregates(conjunct.expr) if each.at is At.EVERY}
    if every & conjunct.steps():
        raise Unfit(f"{conjunct} names an event in two ways")
    for each in attributes(conjunct.expr):
        if each.var in kleene and each.at not in UNORDERED and each.at not in MIRRORED:
            raise Unfit(f"{conjunct} counts events from the first on")
    for aggregate in (each for each in walk(conjunct.expr) if isinstance(each, Agg)):
        if aggregate.function in ADDING:
            raise Unfit(f"{conjunct} adds values up, and rounding depends on their order")
    return replace(conjunct, expr=_mirror_expr(conjunct.expr))


def _mirror_expr(expr: Expr) -> Expr:
    if isinstance(expr, Attr):
        return replace(expr, at=MIRRORED.get(expr.at, expr.at))
    return rebuild(expr, _mirror_expr)
