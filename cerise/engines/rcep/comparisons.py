"""Comparisons between two events of a match, and the edges of an automaton that they prune.

A predicate such as `b.price < NEXT(b.price)` or `c.price < FIRST(b.price) * 2` has one side for each of two
events. If one edge binds the first event and the next edge the second, the comparison links the two edges; if
the second is the event that completes a match, which recomputation knows beforehand, the comparison judges
the first event alone. Only comparisons of this form prune joins; the joins judge all other predicates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cerise.engines.automaton.automaton import Edge
from cerise.kinds import Kind
from cerise.pattern.check import kind_of
from cerise.pattern.expr import COMPARISONS, Agg, At, Attr, Binary, Expr, Index, attributes, rebuild, walk
from cerise.pattern.query import And, Node, Seq

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
TRANSITIVE = {"<": "<", "<=": "<", ">": ">", ">=": ">"}


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: an expression over one event, its variable, and which of its events."""

    expr: Expr
    var: str
    at: Index

    @property
    def kind(self) -> Kind:
        return kind_of(self.expr)


@dataclass(frozen=True, slots=True)
class EventComparison:
    """left op right, between two events."""

    op: str
    left: Side
    right: Side

    def flip(self) -> EventComparison:
        return EventComparison(FLIPPED[self.op], self.right, self.left)


@dataclass(frozen=True, slots=True)
class PlanEdge:
    """An edge of a branch, and whether it binds the first event of its variable."""

    edge: Edge
    begins: bool  # otherwise it takes a further event

    @property
    def var(self) -> str:
        return self.edge.var


def comparison_of(expr: Expr) -> EventComparison | None:
    """Return a predicate as a comparison between two events; None for other predicates."""
    if not isinstance(expr, Binary) or expr.op not in COMPARISONS:
        return None
    left, right = _side(expr.left), _side(expr.right)
    if left is None or right is None or (left.var, left.at) == (right.var, right.at):
        return None
    if Kind.BOOL in (left.kind, right.kind):
        return None
    return EventComparison(expr.op, left, right)


def _side(expr: Expr) -> Side | None:
    named = attributes(expr)
    meant = {(each.var, each.at) for each in named}
    if len(meant) != 1 or any(isinstance(each, Agg) for each in walk(expr)):
        return None
    if any(not each.path or each.at in (At.ALL, At.RUNNING, At.NEXT, At.PREV) for each in named):
        return None
    var, at = meant.pop()
    return Side(_of_this_event(expr), var, at)


def _of_this_event(expr: Expr) -> Expr:
    if isinstance(expr, Attr):
        return replace(expr, at=At.EVERY)
    return rebuild(expr, _of_this_event)


def is_sequence(pattern: Node) -> bool:
    """Whether a pattern has no AND, so that its automaton binds variables in one order."""
    return not isinstance(pattern, And) and (
        not isinstance(pattern, Seq) or all(is_sequence(item) for item in pattern.items)
    )


def binds(side: Side, step: PlanEdge, kleene: frozenset[str]) -> bool:
    """Whether a side reads each event that an edge binds."""
    if side.var != step.var:
        return False
    if side.var not in kleene or side.at is At.EVERY:
        return True
    return side.at == 1 if step.begins else side.at is At.CURRENT


def is_newest(side: Side, step: PlanEdge, then: PlanEdge, kleene: frozenset[str]) -> bool:
    """Whether a side reads the event that an edge has just bound, when another edge comes next."""
    if side.var != step.var:
        return False
    if side.var not in kleene:
        return True
    if side.var == then.var:
        return side.at is At.PREVIOUS or (side.at == 1 and step.begins)
    return side.at in (At.EVERY, At.LAST) or binds(side, step, kleene)


def follows(compared: EventComparison, step: PlanEdge, kleene: frozenset[str]) -> bool:
    """Whether an edge binds the right side, and the left side reads the newest event of its variable."""
    if not binds(compared.right, step, kleene):
        return False
    if compared.left.var == step.var:
        return compared.left.at is At.PREVIOUS
    return compared.left.var not in kleene or compared.left.at in (At.EVERY, At.LAST)


def find_link(
    compared: EventComparison, step: PlanEdge, then: PlanEdge, kleene: frozenset[str]
) -> EventComparison | None:
    """Return the comparison with the event of `step` on its left and that of `then` on its right, or None."""
    for each in (compared, compared.flip()):
        if is_newest(each.left, step, then, kleene) and binds(each.right, then, kleene):
            return each
    return None


def find_test(
    compared: EventComparison, step: PlanEdge, last: str, kleene: frozenset[str]
) -> EventComparison | None:
    """Return the comparison with the event of `step` on its left and the trigger on its right, or None."""
    for each in (compared, compared.flip()):
        known = each.right.var == last and each.right.at is At.EVERY
        if known and each.left.var != last and binds(each.left, step, kleene):
            return each
    return None
