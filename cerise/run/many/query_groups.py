"""Groups of queries that share one plan: a query that is hard to divide does not hold the others back.

Queries share slices of time if their windows are of like length, and an exchange if their keys are the same.
The answers do not depend on the groups; the cost does: each group reads the events once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from cerise.pattern.show import show_path
from cerise.plan.needs import Needs, fold
from cerise.plan.slicing import Halo

ALIKE = 4  # how many times as long as the shortest the longest window of a group is, at most
MOST_CHAINS = 16  # of queries that are cut by time alone; if there are more, they are searched together
TIME, EVENTS, CHAIN, WHOLE = "time", "events", "chain", "whole"  # how the events of a query are divided
LONG = (TIME, EVENTS)  # the length of their windows decides which share slices
SHOWN = {
    TIME: "windows of {sizes} units of time",
    EVENTS: "windows of {sizes} events",
    CHAIN: "its matches are chosen among candidates, for this query alone",
    WHOLE: "{reason}",
}


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Queries that share one plan.

    Attributes:
        numbers: the numbers of the queries, ascending.
        why: why these queries share a plan, and others do not; empty: there is one group.
    """

    numbers: tuple[int, ...]
    why: str = ""


def group_questions(
    needs: Sequence[Needs], numbers: Iterable[int] | None = None, *, exchanged: bool, chains: bool = False
) -> list[QueryGroup]:
    """Divide queries into groups that share one plan, in the order of their first queries.

    An exchange by key is parallel whatever the windows, so that queries of one key share it.

    Cost: a sort of the queries.

    Args:
        needs: the needs of each query.
        numbers: the numbers of the queries to divide; None: all.
        exchanged: whether events are exchanged, by key and time; no, if slices of time are read.
        chains: whether a query whose matches may not overlap is cut by time, which it must be alone.

    >>> import pyarrow as pa
    >>> columns = pa.schema({"t": pa.int64()})
    >>> minutes = [Needs(columns, (), halo=Halo(after=size)) for size in (1, 60, 2, 1440, 3)]
    >>> [group.numbers for group in group_questions(minutes, exchanged=True)]
    [(0, 2, 4), (1,), (3,)]
    """
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    wanted = [*range(len(needs))] if numbers is None else [*numbers]
    chains = chains and sum(needs[number].chain is not None for number in wanted) <= MOST_CHAINS
    for number in wanted:
        kind = _kind(needs[number], exchanged=exchanged, chains=chains)
        own = number if kind == CHAIN else None
        alike[kind, needs[number].partition if exchanged else (), own].append(number)
    found = [
        QueryGroup(tuple(sorted(some)), _explain(str(kind), [needs[i] for i in some], keys))
        for (kind, keys, _), members in alike.items()
        for some in (_split_windows(members, needs) if kind in LONG and not keys else [members])
    ]
    return sorted(found, key=lambda group: group.numbers[0])


def group_by_slices(
    needs: Sequence[Needs], count_slices: Callable[[Halo], int], *, exchanges: bool
) -> list[QueryGroup]:
    """Divide queries over a source that can be read by slices of time.

    Windows of any length share slices if the longest leaves as many slices as the shortest: the slices read
    little twice then, and the events are read once for all.

    Args:
        needs: the needs of each query.
        count_slices: returns how many slices there are, given the halo of a slice.
        exchanges: whether events that cannot be cut by time are exchanged by key.
    """
    timed = [number for number, each in enumerate(needs) if isinstance(each.halo, Halo)]
    classes = group_questions(needs, timed, exchanged=False)
    finest = max((_count(count_slices, needs, group.numbers) for group in classes), default=1)
    if finest <= 1:
        if exchanges:
            return group_questions(needs, exchanged=True, chains=True)
        return [QueryGroup(tuple(range(len(needs))))]
    if len(classes) > 1 and _count(count_slices, needs, timed) >= finest:
        classes = [QueryGroup(tuple(timed), "windows of any length, cut by time")]
    rest = sorted({*range(len(needs))} - {*timed})
    others = group_questions(needs, rest, exchanged=exchanges, chains=exchanges)
    return sorted([*classes, *others], key=lambda group: group.numbers[0])


def group_by_columns(partials: Sequence[pa.Schema | None]) -> list[tuple[int, ...]]:
    """Return the numbers of queries whose searches give rows that one table can hold.

    The columns of partial totals have the same names in all queries; so totals share a plan of tasks only
    with totals of the same columns.

    Args:
        partials: the columns of the partial totals of each query; None: it gives matches.

    >>> counts = pa.schema({"matches": pa.string()})
    >>> group_by_columns([None, counts, None, counts])
    [(0, 2), (1, 3)]
    """
    alike: dict[pa.Schema | None, list[int]] = defaultdict(list)
    for number, columns in enumerate(partials):
        alike[columns].append(number)
    return [tuple(numbers) for numbers in alike.values()]


def _count(count_slices: Callable[[Halo], int], needs: Sequence[Needs], numbers: Sequence[int]) -> int:
    halo = fold([needs[number] for number in numbers]).halo
    assert isinstance(halo, Halo)
    return count_slices(halo)


def _kind(needs: Needs, *, exchanged: bool, chains: bool) -> str:
    if not isinstance(needs.halo, Halo):
        return CHAIN if chains and needs.chain is not None else WHOLE
    if needs.halo.events:
        return WHOLE if exchanged else EVENTS  # the positions of exchanged events are not known
    return TIME


def _size(needs: Needs) -> int:
    """Return the length of the window, in time or events; 0: it cannot be cut."""
    halo = needs.halo
    return max(halo.before, halo.after, halo.events, 1) if isinstance(halo, Halo) else 0


def _split_windows(members: Iterable[int], needs: Sequence[Needs]) -> Iterator[list[int]]:
    """Yield queries whose windows are of like length."""
    some: list[int] = []
    for number in sorted(members, key=lambda number: _size(needs[number])):
        if some and _size(needs[number]) > ALIKE * _size(needs[some[0]]):
            yield some
            some = []
        some.append(number)
    yield some


def _explain(kind: str, needs: Sequence[Needs], keys: object) -> str:
    """Say why queries share a plan."""
    sizes = [_size(each) for each in needs]
    low, high = min(sizes), max(sizes)
    reason = needs[0].halo if isinstance(needs[0].halo, str) else "the window counts events"
    text = SHOWN[kind].format(sizes=f"{low:,}" if low == high else f"{low:,} to {high:,}", reason=reason)
    shown = ", ".join(map(show_path, needs[0].partition))
    return f"{text}; by key {shown}" if keys else text
