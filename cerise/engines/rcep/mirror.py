"""A query read from the last event of its matches to the first: what a right-deep plan joins [RCEP §2.2]."""

from __future__ import annotations

from dataclasses import replace

from cerise.engines.automaton.program import Unfit
from cerise.engines.rcep.comparisons import is_sequence
from cerise.pattern.bound import Bound, Branch, Conjunct
from cerise.pattern.expr import Agg, At, Attr, Expr, Index, attributes, outside_aggregates, rebuild, walk
from cerise.pattern.query import Node, Output, Seq

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
