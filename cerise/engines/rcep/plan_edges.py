"""The edges of an automaton that a comparison between two events prunes.

If one edge binds the first event of a comparison and the next edge the second, the comparison links the two
edges; if the second is the event that completes a match, which recomputation knows beforehand, the comparison
judges the first event alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from cerise.engines.automaton.automaton import Edge
from cerise.pattern.expr import At
from cerise.plan.comparisons import EventComparison, Side


@dataclass(frozen=True, slots=True)
class PlanEdge:
    """An edge of a branch, and whether it binds the first event of its variable."""

    edge: Edge
    begins: bool  # otherwise it takes a further event

    @property
    def var(self) -> str:
        return self.edge.var


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
