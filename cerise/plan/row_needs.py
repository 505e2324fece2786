"""How a MATCH_RECOGNIZE clause can be cut into slices of time, and which rows can be left out (D3).

A match belongs to the slice of its first row. WITHIN says how far beyond its end a slice must read; PREV and
NEXT say how many rows before and after that. Rows that no match can hold are left out only if the clause
skips over them: `PATTERN (R {-N*-} B {-N*-} M)`, if N takes every row [DFS] and nothing reads N's rows.
"""

from __future__ import annotations

from cerise.pattern.expr import Attr, Expr, attributes, conjuncts, rebuild
from cerise.pattern.row_pattern import (
    CLASSIFIER,
    Alternation,
    Anchor,
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
    walk_rows,
)
from cerise.plan.pushdown import Needed, tests_of
from cerise.plan.slicing import Halo


def row_halo(bound: BoundRows) -> Halo | str:
    """Return the halo of slices, or the reason why the rows cannot be cut into slices."""
    if bound.within is None:
        return "without WITHIN a match may span all rows"
    if any(isinstance(each, Anchor) for each in walk_rows(bound.pattern)):
        return "^ and $ ask for the first and the last of all rows"
    if bound.show is Show.UNMATCHED:
        return "WITH UNMATCHED ROWS asks for matches that start anywhere"
    if _asks_number(bound):
        return "DEFINE asks for MATCH_NUMBER(), which all matches before decide"
    shifts = [atom.shift for atom in bound.atoms.values() if isinstance(atom, Nav)]
    return Halo(
        after=bound.within.size, events=max([0, *shifts]), preceding=max([0, *(-each for each in shifts)])
    )


def _asks_number(bound: BoundRows) -> bool:
    used = {each.path[0] for condition in bound.conditions for each in attributes(condition.expr)}
    return any(isinstance(bound.atoms[name], MatchNumber) for name in used)


def starts_are_free(bound: BoundRows) -> bool:
    """Whether the match that starts at a row is independent of earlier matches, given all rows."""
    return not is_chained(bound) and not _asks_number(bound) and bound.show is not Show.UNMATCHED


def is_chained(bound: BoundRows) -> bool:
    """Whether the matches of a slice depend on earlier slices: their start rows, or their numbers."""
    return bound.skip.to is not SkipTo.NEXT or bool(numbers(bound))


def numbers(bound: BoundRows) -> tuple[str, ...]:
    """Return the names of MATCH_NUMBER() atoms in measures."""
    names = dict.fromkeys(name for each in bound.measures for name in each.atoms)
    return tuple(name for name in names if isinstance(bound.atoms[name], MatchNumber))


# ---- rows that no match can hold


def needed_rows(bound: BoundRows) -> Needed | None:
    """Return the tests of rows that can matter; None: comparisons with constants rule out no row."""
    if why_no_skip(bound) is not None:
        return None
    filters = row_filters(bound)
    tests = [tests_of(filters[label]) for label in step_labels(bound)]
    return tuple(dict.fromkeys(tests)) if tests and all(tests) else None


def row_filters(bound: BoundRows) -> dict[str, tuple[Expr, ...]]:
    """Return for each label the conjuncts of its condition that read only the row itself, over columns."""
    found: dict[str, tuple[Expr, ...]] = dict.fromkeys(bound.labels, ())
    for condition in bound.conditions:
        alone = [
            _of_columns(part, bound)
            for part in conjuncts(condition.expr)
            if all(_is_here(bound.atoms[each.path[0]], condition.label, bound) for each in attributes(part))
        ]
        found[condition.label] = (*found.get(condition.label, ()), *alone)
    return found


def _is_here(atom: object, label: str, bound: BoundRows) -> bool:
    if not isinstance(atom, Nav) or atom.column == CLASSIFIER or atom.column not in bound.columns.names:
        return False
    own = atom.members is None or atom.members == {label}
    return own and atom.last and not atom.offset and not atom.shift


def _of_columns(expr: Expr, bound: BoundRows) -> Expr:
    """Return an expression with columns in place of atoms."""
    if isinstance(expr, Attr):
        atom = bound.atoms[expr.path[0]]
        assert isinstance(atom, Nav)
        return Attr(expr.var, (atom.column,), kind=expr.kind)
    return rebuild(expr, lambda each: _of_columns(each, bound))


def why_no_skip(bound: BoundRows) -> str | None:
    """Say why every row must be searched; None: rows that are only skipped over may be left out."""
    gaps = _gaps(bound)
    if gaps is None:
        return "the pattern does not skip over rows between all of its variables"
    if any(each.label in gaps for each in bound.conditions):
        return "the variable of the rows that are skipped over has a condition"
    if bound.show is Show.UNMATCHED or (bound.show is not Show.ONE and not _all_excluded(bound)):
        return "the rows that are skipped over are shown"
    if bound.within is not None and bound.within.timeouts:
        return "a time-out shows how far a match came"
    if bound.skip.to in (SkipTo.FIRST, SkipTo.LAST) and bound.skip.members & gaps:
        return "the search goes on at a row that is skipped over"
    return _why_gaps_are_read(bound, gaps)


def _gaps(bound: BoundRows) -> frozenset[str] | None:
    """Return the labels of rows that are skipped over, in a pattern `R N* B N* M`; else None."""
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


def _why_gaps_are_read(bound: BoundRows, gaps: frozenset[str]) -> str | None:
    """Say which part of the clause reads rows that are skipped over; None: no part does."""
    used = {each.path[0] for condition in bound.conditions for each in attributes(condition.expr)}
    for name, atom in bound.atoms.items():
        match atom:
            case MatchNumber() if name in used:
                return "DEFINE asks for MATCH_NUMBER()"
            case RowAgg(members=members) if members is None or members & gaps:
                return "an aggregate is over the rows that are skipped over"
            case Nav(members=None, offset=offset, shift=shift) if offset or shift:
                return "rows before or after are asked for"
            case Nav(members=members, shift=shift) if shift or (members is not None and members & gaps):
                return "rows that are skipped over are asked for"
    return None


def step_labels(bound: BoundRows) -> tuple[str, ...]:
    """Return the labels of rows that are not skipped over."""
    gaps = _gaps(bound) or frozenset()
    return tuple(label for label in bound.labels if label not in gaps)


def step_label_bits(bound: BoundRows) -> int:
    """Return the bits of the labels of rows that are not skipped over."""
    steps = step_labels(bound)
    return sum(1 << i for i, label in enumerate(bound.labels) if label in steps)
