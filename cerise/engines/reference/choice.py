"""The choice among the matches of a partition that OUTPUT and LIMIT ask for, as far as it is final."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cerise.pattern.bound import Bound
from cerise.pattern.query import Output

Positions = tuple[tuple[int, ...], ...]  # of one match: the rows of each variable, in pattern order
Found = Mapping[Positions, bool]  # matches, and whether each is final


def choose_matches(found: Found, bound: Bound) -> list[Positions]:
    """Return the final matches of one partition that OUTPUT and LIMIT ask for (S7.1, S7.4).

    A match that an event may still veto leaves the choice after it open.
    """
    matches = sorted(found, key=order_of)
    if bound.query.output is Output.NON_OVERLAPPING:
        matches = _drop_overlaps(matches, found)
    if bound.query.limit is not None:
        matches = _limit(matches, bound.query.limit, found)
    return [match for match in matches if found[match]]


def order_of(match: Positions) -> tuple[int, int, Positions]:
    """Return the key of the order of S7.1: the last event, the first event, all events."""
    taken = [position for positions in match for position in positions]
    return max(taken), min(taken), match


def _drop_overlaps(matches: Iterable[Positions], found: Found) -> list[Positions]:
    chosen: list[Positions] = []
    free_after = -1
    for match in matches:
        last, first, _ = order_of(match)
        if first > free_after:
            if not found[match]:
                break
            chosen.append(match)
            free_after = last
    return chosen


def _limit(matches: Iterable[Positions], limit: int, found: Found) -> list[Positions]:
    chosen: list[Positions] = []
    left: dict[int, int] = {}  # for each last event, how many matches it may still complete
    for match in matches:
        last, _, _ = order_of(match)
        left.setdefault(last, limit)
        if left[last] > 0:
            chosen.append(match)
            left[last] = left[last] - 1 if found[match] else 0
    return chosen
