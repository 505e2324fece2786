"""The ends of a match: variables that bind its first or last event, and clauses that look beyond them."""

from __future__ import annotations

from cerise.pattern.expr import attributes
from cerise.pattern.query import Node, Seq, Var
from cerise.pattern.row_pattern import (
    Anchor,
    BoundRows,
    Concat,
    Label,
    MatchNumber,
    Nav,
    RowPattern,
    Show,
    walk_rows,
)


def is_first(pattern: Node, name: str) -> bool:
    """Tell whether a variable always binds the first event of a match."""
    return _at_edge(pattern, name, 0)


def is_last(pattern: Node, name: str) -> bool:
    """Tell whether a variable always binds the last event of a match."""
    return _at_edge(pattern, name, -1)


def _at_edge(node: Node, name: str, side: int) -> bool:
    match node:
        case Var():
            return node.name == name
        case Seq(items):
            return _at_edge(items[side], name, side)
    return False


def why_outside_matters(bound: BoundRows, time: str) -> str | None:
    """Return why rows outside of intervals of a time column matter; None: they do not."""
    if bound.within is None:
        return "without WITHIN a match may span all rows"
    if not bound.order or bound.order[0].column != time or bound.order[0].descending:
        return f"the rows are not in the order of '{time}'"
    if bound.show is Show.UNMATCHED or bound.within.timeouts:
        return "rows that are in no match are shown"
    if any(isinstance(each, Anchor) for each in walk_rows(bound.pattern)):
        return "^ and $ ask for the ends of a partition"
    in_conditions = {each.path[0] for condition in bound.conditions for each in attributes(condition.expr)}
    for name, atom in bound.atoms.items():
        if isinstance(atom, Nav) and atom.shift:
            return "PREV and NEXT ask for rows outside of the match"
        if isinstance(atom, MatchNumber) and name in in_conditions:
            return "DEFINE asks for MATCH_NUMBER()"
    return None


def has_ends(pattern: RowPattern) -> bool:
    """Tell whether the first and last required rows are always the first and last rows of a match."""
    match pattern:
        case Label():
            return True
        case Concat(items):
            return bool(items) and isinstance(items[0], Label) and isinstance(items[-1], Label)
    return False
