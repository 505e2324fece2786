"""Index queries of MATCH_RECOGNIZE clauses: tests that an index can make on single rows (semantics.md §9).

The labels that every match has become the variables of a pattern, with the tests of DEFINE on the row itself.
All rows between them are kept, unless the clause skips over them (`plan.row_needs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cerise.events import Schema
from cerise.filters.index_query import IndexQuery, IndexQueryBranch, select_tests, settle
from cerise.filters.match_ends import has_ends, why_outside_matters
from cerise.pattern.query import And, Node, Seq, Var
from cerise.pattern.row_pattern import (
    BoundRows,
    Concat,
    Excluded,
    Label,
    Permute,
    Quantified,
    RowPattern,
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
    if (reason := why_outside_matters(bound, schema.time)) is not None:
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
    branch = IndexQueryBranch(pattern, named, others, reaches=not has_ends(bound.pattern))
    return settle(IndexQuery((branch,), bound.within.size, why_all))


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


def _together(kind: type[Seq] | type[And], items: list[Node | None]) -> Node | None:
    required = tuple(item for item in items if item is not None)
    return None if not required else required[0] if len(required) == 1 else kind(required)
