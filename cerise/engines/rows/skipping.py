"""The skipping idiom, `PATTERN (R {-N*-} B {-N*-} M)`: rows that only N can be need not be searched [DFS].

Where N takes every row and nobody asks about the rows it took, a row that can be none of R, B and M changes
no match: it may go before rows are sorted or moved (semantics.md §9).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cerise.engines.results.row_matches import Bools
from cerise.engines.rows.conditions import parted, write_conditions
from cerise.engines.rows.search_input import judged
from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import (
    Alternation,
    BoundRows,
    Concat,
    Excluded,
    Label,
    MatchNumber,
    Nav,
    Quantified,
    RowAgg,
    RowPattern,
    Show,
    SkipTo,
)


def why_not_skipping(bound: BoundRows) -> str | None:
    """Say why every row must be searched; None where rows that are only skipped over may go."""
    gaps = _gaps(bound)
    if gaps is None:
        return "the pattern does not skip over rows between all of its variables"
    if any(each.label in gaps for each in bound.conditions):
        return "what is skipped over has a condition"
    if bound.show is Show.UNMATCHED or (bound.show is not Show.ONE and not _all_excluded(bound)):
        return "the rows that are skipped over are shown"
    if bound.within is not None and bound.within.timeouts:
        return "a time-out shows how far a match came"
    if bound.skip.to in (SkipTo.FIRST, SkipTo.LAST) and bound.skip.members & gaps:
        return "the search goes on at a row that is skipped over"
    return _read(bound, gaps)


def _gaps(bound: BoundRows) -> frozenset[str] | None:
    """Return the labels of rows that are skipped over: `R N* B N* M`, with one between all others."""
    if not isinstance(bound.pattern, Concat) or len(bound.pattern.items) % 2 == 0:
        return None
    steps, gaps = bound.pattern.items[::2], bound.pattern.items[1::2]
    found = {_gap(each) for each in gaps}
    wanted = {label for each in steps for label in _step(each)}
    if not found or "" in found or "" in wanted or found & wanted:
        return None
    return frozenset(found)


def _gap(pattern: RowPattern) -> str:
    match pattern:
        case Excluded(item):
            return _gap(item)
        case Quantified(Label(name), 0, None):
            return name
    return ""


def _step(pattern: RowPattern) -> list[str]:
    match pattern:
        case Label(name):
            return [name]
        case Alternation(items) if all(isinstance(each, Label) for each in items):
            return [each.name for each in items if isinstance(each, Label)]
    return [""]


def _all_excluded(bound: BoundRows) -> bool:
    assert isinstance(bound.pattern, Concat)
    return all(isinstance(each, Excluded) for each in bound.pattern.items[1::2])


def _read(bound: BoundRows, gaps: frozenset[str]) -> str | None:
    """Say what asks about rows that are skipped over."""
    asked = {each.path[0] for condition in bound.conditions for each in attributes(condition.expr)}
    for name, atom in bound.atoms.items():
        match atom:
            case MatchNumber() if name in asked:
                return "DEFINE asks for MATCH_NUMBER()"
            case RowAgg(members=members) if members is None or members & gaps:
                return "an aggregate is over the rows that are skipped over"
            case Nav(members=None, offset=offset, shift=shift) if offset or shift:
                return "rows before or after are asked for"
            case Nav(members=members, shift=shift) if shift or (members is not None and members & gaps):
                return "rows that are skipped over are asked for"
    return None


class Skipper:
    """Tells which rows of tables can be more than skipped over."""

    def __init__(self, bound: BoundRows) -> None:
        assert why_not_skipping(bound) is None
        single, _ = parted(bound)
        self._wanted = wanted_labels(bound)
        self._labels = len(bound.labels)
        self._conditions = write_conditions(single) if single.conditions else None

    def kept(self, table: pa.Table) -> Bools:
        """Return for each row whether it must be searched; the table may be in any order."""
        if self._conditions is None:
            return np.ones(len(table), np.bool_)
        masks = judged(self._conditions, table, self._labels)
        kept: Bools = (masks & masks.dtype.type(self._wanted)) != 0
        return kept


def labels_wanted(bound: BoundRows) -> tuple[str, ...]:
    """Return the labels of rows that are not skipped over."""
    gaps = _gaps(bound) or frozenset()
    return tuple(label for label in bound.labels if label not in gaps)


def wanted_labels(bound: BoundRows) -> int:
    """Return a bit for each label that a row has which is not skipped over."""
    wanted = labels_wanted(bound)
    return sum(1 << i for i, label in enumerate(bound.labels) if label in wanted)
