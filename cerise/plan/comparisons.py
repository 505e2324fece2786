"""Comparisons between two events of a match.

A predicate such as `b.price < NEXT(b.price)` or `c.price < FIRST(b.price) * 2` has one side for each of two
events. Joins find the events of one side by the value of the other; all other predicates between events are
judged pair by pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cerise.kinds import Kind
from cerise.pattern.check import kind_of
from cerise.pattern.expr import (
    COMPARISONS,
    FLIPPED,
    Agg,
    At,
    Attr,
    Binary,
    Expr,
    Index,
    attributes,
    rebuild,
    walk,
)
from cerise.pattern.query import And, Node, Seq

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
