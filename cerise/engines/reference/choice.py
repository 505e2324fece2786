"""The choice among the matches of a partition that OUTPUT and LIMIT ask for, as far as it is final."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Chosen:
    """Matches by the rows of their events: the matches that are given now, and those that wait."""

    given: list[Positions]
    waiting: list[Positions]


def choose_so_far(
    found: Iterable[Positions], bound: Bound, partitions: Sequence[int], settled: int
) -> Chosen:
    """Choose among matches of all partitions as OUTPUT and LIMIT ask; more matches may be found later.

    Args:
        found: the matches found so far, and not chosen yet.
        bound: the query.
        partitions: the number of the partition of each row.
        settled: all matches that complete before this row are known.
    """
    query = bound.query
    if query.output is Output.ALL and query.limit is None:
        return Chosen(list(found), [])
    matches = sorted(found, key=order_of)
    if query.output is Output.NON_OVERLAPPING:
        return _chain(matches, partitions, settled)
    assert query.limit is not None
    kept = _limit(matches, query.limit, dict.fromkeys(matches, True))
    now = [order_of(match)[0] < settled for match in kept]
    return Chosen(
        [match for match, given in zip(kept, now, strict=True) if given],
        [match for match, given in zip(kept, now, strict=True) if not given],
    )


def _chain(matches: Iterable[Positions], partitions: Sequence[int], settled: int) -> Chosen:
    """Choose matches that do not overlap; of the matches with one start, only the first can be chosen."""
    chosen: list[Positions] = []
    waiting: dict[int, Positions] = {}  # by the first row
    free_after: dict[int, int] = {}
    for match in matches:
        last, first, _ = order_of(match)
        partition = partitions[first]
        if first <= free_after.get(partition, -1):
            continue
        if last < settled:
            chosen.append(match)
            free_after[partition] = last
        else:
            waiting.setdefault(first, match)
    return Chosen(chosen, list(waiting.values()))


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
