"""How a MATCH_RECOGNIZE clause without PARTITION BY is cut into slices of time, or why it is not (D3).

A match belongs to the slice that its first row is in. WITHIN says how far beyond it a slice must look; PREV
and NEXT how many rows before it and after that.
"""

from __future__ import annotations

from cerise.pattern.expr import attributes
from cerise.pattern.row_pattern import Anchor, BoundRows, MatchNumber, Nav, Show, SkipTo, walk_rows
from cerise.plan.overlap import Halo


def row_halo(bound: BoundRows) -> Halo | str:
    """Return what slices need beyond their own rows, or say why there can be none."""
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
    """Whether conditions ask for MATCH_NUMBER()."""
    asked = {each.path[0] for condition in bound.conditions for each in attributes(condition.expr)}
    return any(isinstance(bound.atoms[name], MatchNumber) for name in asked)


def starts_are_free(bound: BoundRows) -> bool:
    """Whether what starts at a row is the same whatever was found before, where all rows are at hand."""
    return not is_chained(bound) and not _asks_number(bound) and bound.show is not Show.UNMATCHED


def is_chained(bound: BoundRows) -> bool:
    """Whether the matches of a slice depend on those before it: which rows start one, or their numbers."""
    return bound.skip.to is not SkipTo.NEXT or bool(numbers(bound))


def numbers(bound: BoundRows) -> tuple[str, ...]:
    """Return the atoms of measures that are MATCH_NUMBER()."""
    names = dict.fromkeys(name for each in bound.measures for name in each.atoms)
    return tuple(name for name in names if isinstance(bound.atoms[name], MatchNumber))
