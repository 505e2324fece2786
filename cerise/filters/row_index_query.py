"""What a MATCH_RECOGNIZE clause asks of single rows, so that they can be looked up (semantics.md §9).

The labels that every match has are the variables of a pattern; each asks what DEFINE asks of the row itself.
Rows between them are all kept, unless the clause skips over them (`plan.row_needs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cerise.events import Schema
from cerise.filters.index_query import Asked, AskedBranch, settled, wanted
from cerise.pattern.expr import attributes
from cerise.pattern.query import And, Node, Seq, Var
from cerise.pattern.row_pattern import (
    Anchor,
    BoundRows,
    Concat,
    Excluded,
    Label,
    MatchNumber,
    Nav,
    Permute,
    Quantified,
    RowPattern,
    Show,
    walk_rows,
)
from cerise.plan.row_needs import row_filters, step_labels, why_no_skip
from cerise.store.index.lookup import Wanted

MOST_REPEATED = 8  # rows of one repetition that are looked for, however many it needs


def asked_rows(bound: BoundRows, schema: Schema, indexed: Iterable[str]) -> Asked | str:
    """Return what a clause asks, or say why an index cannot help.

    Args:
        bound: the clause.
        schema: the time and the type of the events.
        indexed: the columns whose values the index knows.
    """
    if (reason := _why_not(bound, schema)) is not None:
        return reason
    assert bound.within is not None
    known = frozenset(indexed)
    wants = {label: wanted(exprs, schema, known) for label, exprs in row_filters(bound).items()}
    named: dict[str, Wanted] = {}
    pattern = _required(bound.pattern, wants, named)
    if pattern is None:
        return "there is no row that every match has"
    why_all = why_no_skip(bound)
    others = () if why_all is not None else tuple(wants[label] for label in step_labels(bound))
    branch = AskedBranch(pattern, named, others, reaches=not _has_ends(bound.pattern))
    return settled(Asked((branch,), bound.within.size, why_all))


def _why_not(bound: BoundRows, schema: Schema) -> str | None:
    """Say why rows outside of intervals matter."""
    if bound.within is None:
        return "without WITHIN a match may span all rows"
    if not bound.order or bound.order[0].column != schema.time or bound.order[0].descending:
        return f"the rows are not in the order of '{schema.time}'"
    if bound.show is Show.UNMATCHED or bound.within.timeouts:
        return "rows that are in no match are shown"
    if any(isinstance(each, Anchor) for each in walk_rows(bound.pattern)):
        return "^ and $ ask for the ends of a partition"
    asked = {each.path[0] for condition in bound.conditions for each in attributes(condition.expr)}
    for name, atom in bound.atoms.items():
        if isinstance(atom, Nav) and atom.shift:
            return "PREV and NEXT ask for rows outside of the match"
        if isinstance(atom, MatchNumber) and name in asked:
            return "DEFINE asks for MATCH_NUMBER()"
    return None


def _required(pattern: RowPattern, wants: Mapping[str, Wanted], named: dict[str, Wanted]) -> Node | None:
    """Return what every match has, each row with a name of its own; None: nothing."""
    match pattern:
        case Label(name):
            own = f"{name} {len(named)}"
            named[own] = wants[name]
            return Var(own)
        case Concat(items):
            return _together(Seq, [_required(item, wants, named) for item in items])
        case Permute(items):
            return _together(And, [_required(item, wants, named) for item in items])
        case Excluded(item):
            return _required(item, wants, named)
        case Quantified(item, low):
            return _together(Seq, [_required(item, wants, named) for _ in range(min(low, MOST_REPEATED))])
    return None  # of an alternation any branch may be the one


def _has_ends(pattern: RowPattern) -> bool:
    """Tell whether the first and last row that are required are always the first and last of a match."""
    match pattern:
        case Label():
            return True
        case Concat(items):
            return bool(items) and isinstance(items[0], Label) and isinstance(items[-1], Label)
    return False


def _together(kind: type[Seq] | type[And], items: list[Node | None]) -> Node | None:
    there = tuple(item for item in items if item is not None)
    return None if not there else there[0] if len(there) == 1 else kind(there)
