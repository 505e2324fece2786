"""Comparisons between two events of a match, and which edges of an automaton they tell something about.

A predicate such as `b.price < NEXT(b.price)` or `c.price < FIRST(b.price) * 2` has one side for each of two
events. Where an edge has bound one of them and another edge binds the other, the two are linked; where the
other is the event that completes a match, which recomputation knows beforehand, the comparison judges an
event on its own. Only comparisons of this form prune what is joined; all others are judged in the end.
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
    """What a comparison takes from one event: an expression, whose it is, and which event is meant."""

    expr: Expr
    var: str
    at: Index

    @property
    def kind(self) -> Kind:
        return kind_of(self.expr)


@dataclass(frozen=True, slots=True)
class Comparison:
    """left op right, between two events."""

    op: str
    left: Side
    right: Side

    def flipped(self) -> Comparison:
        return Comparison(FLIPPED[self.op], self.right, self.left)


@dataclass(frozen=True, slots=True)
class Step:
    """An edge of a branch, as far as comparisons are concerned."""

    edge: Edge
    begins: bool  # its variable; otherwise it takes one more event

    @property
    def var(self) -> str:
        return self.edge.var


def comparison_of(expr: Expr) -> Comparison | None:
    """Return a predicate as a comparison between two events; None where it is something else."""
    if not isinstance(expr, Binary) or expr.op not in COMPARISONS:
        return None
    left, right = _side(expr.left), _side(expr.right)
    if left is None or right is None or (left.var, left.at) == (right.var, right.at):
        return None
    if Kind.BOOL in (left.kind, right.kind):
        return None
    return Comparison(expr.op, left, right)


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
    """Whether a pattern has no AND, so that the newest event of a run is that of one variable."""
    return not isinstance(pattern, And) and (
        not isinstance(pattern, Seq) or all(is_sequence(item) for item in pattern.items)
    )


def binds(side: Side, step: Step, kleene: frozenset[str]) -> bool:
    """Whether a side speaks of each event that an edge binds."""
    if side.var != step.var:
        return False
    if side.var not in kleene or side.at is At.EVERY:
        return True
    return side.at == 1 if step.begins else side.at is At.CURRENT


def is_newest(side: Side, step: Step, then: Step, kleene: frozenset[str]) -> bool:
    """Whether a side speaks of the event that an edge has just bound, when another edge comes next."""
    if side.var != step.var:
        return False
    if side.var not in kleene:
        return True
    if side.var == then.var:
        return side.at is At.PREVIOUS or (side.at == 1 and step.begins)
    return side.at in (At.EVERY, At.LAST) or binds(side, step, kleene)


def follows(compared: Comparison, step: Step, kleene: frozenset[str]) -> bool:
    """Whether an edge binds the right side, and the left side holds of the newest event of its variable."""
    if not binds(compared.right, step, kleene):
        return False
    if compared.left.var == step.var:
        return compared.left.at is At.PREVIOUS
    return compared.left.var not in kleene or compared.left.at in (At.EVERY, At.LAST)


def linking(compared: Comparison, step: Step, then: Step, kleene: frozenset[str]) -> Comparison | None:
    """Return a comparison that links the event of `step`, on its left, to that of `then`, if it does."""
    for each in (compared, compared.flipped()):
        if is_newest(each.left, step, then, kleene) and binds(each.right, then, kleene):
            return each
    return None


def judging(compared: Comparison, step: Step, last: str, kleene: frozenset[str]) -> Comparison | None:
    """Return a comparison with the event of `step` on its left and one of the last variable on its right."""
    for each in (compared, compared.flipped()):
        known = each.right.var == last and each.right.at is At.EVERY
        if known and each.left.var != last and binds(each.left, step, kleene):
            return each
    return None
