"""Index queries of MATCH_RECOGNIZE clauses: tests that an index can make on single rows (semantics.md §9).

The labels that every match has become the variables of a pattern, with the tests of DEFINE on the row itself.
All rows between them are kept, unless the clause skips over them (`plan.row_needs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cerise.events import Schema
from cerise.filters.index_query import IndexQuery, IndexQueryBranch, select_tests, settle
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
from cerise.store.index.lookup import Criteria

MOST_REPEATED = 8  # rows of one repetition to look up, however many the pattern requires


def build_row_index_query(bound: BoundRows, schema: Schema, indexed: Iterable[str]) -> IndexQuery | str:
    """Return the index query of a clause, or the reason why an index cannot help.

    Args:
        bound: the clause.
        schema: the columns with the parts that they play.
        indexed: the indexed columns.
    """
    if (reason := _why_not(bound, schema)) is not None:
        return reason
    assert bound.within is not None
    known = frozenset(indexed)
    wants = {label: select_tests(exprs, schema, known) for label, exprs in row_filters(bound).items()}
    named: dict[str, Criteria] = {}
    pattern = _require(bound.pattern, wants, named)
    if pattern is None:
        return "the pattern requires no row"
    why_all = why_no_skip(bound)
    others = () if why_all is not None else tuple(wants[label] for label in step_labels(bound))
    branch = IndexQueryBranch(pattern, named, others, reaches=not _has_ends(bound.pattern))
    return settle(IndexQuery((branch,), bound.within.size, why_all))


def _why_not(bound: BoundRows, schema: Schema) -> str | None:
    """Return why rows outside of intervals matter; None: they do not."""
    if bound.within is None:
        return "without WITHIN a match may span all rows"
    if not bound.order or bound.order[0].column != schema.time or bound.order[0].descending:
        return f"the rows are not in the order of '{schema.time}'"
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


def _require(pattern: RowPattern, wants: Mapping[str, Criteria], named: dict[str, Criteria]) -> Node | None:
    """Return the rows that every match has, as a pattern with a distinct name for each; None: no row."""
    match pattern:
        case Label(name):
            own = f"{name} {len(named)}"
            named[own] = wants[name]
            return Var(own)
        case Concat(items):
            return _together(Seq, [_require(item, wants, named) for item in items])
        case Permute(items):
            return _together(And, [_require(item, wants, named) for item in items])
        case Excluded(item):
            return _require(item, wants, named)
        case Quantified(item, low):
            return _together(Seq, [_require(item, wants, named) for _ in range(min(low, MOST_REPEATED))])
    return None  # a match takes one branch of an alternation, so none is required


def _has_ends(pattern: RowPattern) -> bool:
    """Tell whether the first and last required rows are always the first and last rows of a match."""
    match pattern:
        case Label():
            return True
        case Concat(items):
            return bool(items) and isinstance(items[0], Label) and isinstance(items[-1], Label)
    return False


def _together(kind: type[Seq] | type[And], items: list[Node | None]) -> Node | None:
    required = tuple(item for item in items if item is not None)
    return None if not required else required[0] if len(required) == 1 else kind(required)
