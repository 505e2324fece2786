"""Lanes: independent counters, one for each group of triggers that count the same chains.

Triggers with the same first event and the same tests share a lane: its chains are counted once, and each
trigger reads the sum at its own position. Anchor events that no test tells apart share a lane too. If an
anchor opens the chains, all of them begin at its event: then lanes begin there, whatever the window, and
triggers with different windows share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cerise.engines.counting.model import Bools, Chains, Compare, Floats, Ints
from cerise.engines.counting.program import ChainPlaces, Gate

COMPARED = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal,
    "!=": np.not_equal,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Lanes in the order of their first places.

    Args:
        trigger: one of the triggers of each lane.
        anchored: for each anchor, the number in its layer of one of the anchor events of each lane.
        first: the first place of each lane.
        last: the place after the last of each lane.
        reads: the first reading of each lane, and the end of the last lane's readings.
        stop: the place before which each reading takes the sum; ascending in each lane.
        reader: the trigger of each reading.
    """

    trigger: Ints
    anchored: tuple[Ints, ...]
    first: Ints
    last: Ints
    reads: Ints
    stop: Ints
    reader: Ints

    def ranks_of(self, gate: Gate) -> Ints:
        return gate.right[self.trigger if gate.anchor is None else self.anchored[gate.anchor]]


@dataclass(frozen=True, slots=True, eq=False)
class ChainAnchor:
    """A layer that every chain passes exactly once.

    Args:
        layer: the number of the layer.
        places: the places of its events.
        kind: a number for each event, equal for events that no test tells apart.
        opens: whether each event opens chains, if chains reach the layer in no other way; else None.
        tests: the tests of triggers on its events.
    """

    layer: int
    places: Ints
    kind: Ints
    opens: Bools | None
    tests: tuple[Compare, ...]


def anchors_of(chains: Chains, places: ChainPlaces) -> tuple[ChainAnchor, ...]:
    """Return the anchors of chains."""
    found = []
    for number in chains.anchors:
        layer = chains.layers[number]
        entered = any(each.target == number for each in chains.steps)
        ranks = [each.compare.right for each in chains.anchor_tests if each.anchor == number]
        kind = np.arange(len(layer.events))
        if entered or layer.opens is None:
            kind = _kinds([*ranks, *(each.left for each in layer.tests)], len(layer.events))
        opens = None if entered else layer.opens
        found.append(ChainAnchor(number, places.of[number], kind, opens, layer.tests))
    return tuple(found)


def _kinds(columns: list[Ints], size: int) -> Ints:
    """Return a number for each event; events that are equal in all columns have equal numbers."""
    kind = np.zeros(size, np.int64)
    for column in columns:
        _, kind = np.unique(kind * (column.max(initial=0) + 2) + column + 1, return_inverse=True)
    return kind


def gates_of(chains: Chains, anchors: Sequence[ChainAnchor]) -> list[Gate]:
    """Return the tests of lanes: trigger tests of layers that are not anchors, anchors, and anchor tests."""
    gates = [
        Gate(number, each.op, each.left, each.right)
        for number, layer in enumerate(chains.layers)
        if number not in chains.anchors
        for each in layer.tests
    ]
    gates += [Gate(each.layer, "=", each.kind, each.kind, n) for n, each in enumerate(anchors)]
    for test in chains.anchor_tests:
        compare, anchor = test.compare, chains.anchors.index(test.anchor)
        gates.append(Gate(test.layer, compare.op, compare.left, compare.right, anchor))
    return gates


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """The chains of triggers: a row for each trigger and each combination of anchor events."""

    trigger: Ints
    anchored: tuple[Ints, ...]
    first: Ints
    stop: Ints


def views_of(
    chains: Chains,
    places: ChainPlaces,
    anchors: Sequence[ChainAnchor],
    *,
    most: int,
    by_places: bool = False,
) -> Iterator[Views]:
    """Yield the rows of triggers in batches; a batch has all rows of its triggers.

    Args:
        chains: the chains to count.
        places: the places of their events.
        anchors: the anchors of the chains.
        most: how many rows a batch has at most, unless one trigger has more.
        by_places: whether `most` limits the places of all rows together instead.
    """
    first = np.searchsorted(places.events, chains.low)
    stop = np.searchsorted(places.events, chains.at)
    order = np.lexsort((stop, first))
    order = order[first[order] < stop[order]]
    sizes = rows_by_trigger(anchors, first[order], stop[order])
    if by_places:
        sizes *= stop[order] - first[order]
    groups = np.cumsum(sizes) // most if len(sizes) else np.zeros(0)
    for some in np.split(order, np.flatnonzero(np.diff(groups)) + 1):
        views = Views(some, (), first[some], stop[some])
        for anchor in anchors:
            views = _add_anchor(views, anchor)
        if len(views.trigger):
            yield views


def rows_by_trigger(anchors: Sequence[ChainAnchor], first: Ints, stop: Ints) -> Floats:
    """Return an upper bound on the number of rows of each trigger."""
    sizes = np.ones(len(first), np.float64)
    for each in anchors:
        sizes *= np.searchsorted(each.places, stop) - np.searchsorted(each.places, first)
    return sizes


def _add_anchor(views: Views, anchor: ChainAnchor) -> Views:
    """Make a row for each kind of event that a chain may have at an anchor."""
    low, high = np.searchsorted(anchor.places, views.first), np.searchsorted(anchor.places, views.stop)
    row = np.repeat(np.arange(len(low)), high - low)
    event = np.arange(len(row)) - np.repeat(np.cumsum(high - low) - high, high - low)
    fits = np.ones(len(row), np.bool_) if anchor.opens is None else anchor.opens[event]
    for test in anchor.tests:
        fits &= compare_ranks(test.op, test.left[event], test.right[views.trigger[row]])
    row, event = row[fits], event[fits]
    if anchor.opens is None and len(row):
        _, once = np.unique(row * (anchor.kind.max() + 1) + anchor.kind[event], return_index=True)
        row, event = row[once], event[once]
    first = views.first[row] if anchor.opens is None else np.maximum(views.first[row], anchor.places[event])
    anchored = (*(each[row] for each in views.anchored), event)
    return Views(views.trigger[row], anchored, first, views.stop[row])


def compare_ranks(op: str, left: Ints, right: Ints) -> Bools:
    """Whether a comparison of ranks holds, for each pair."""
    found: Bools = COMPARED[op](left, right) & (left >= 0) & (right >= 0)
    return found


def share_lanes(views: Views, anchors: Sequence[ChainAnchor], gates: Sequence[Gate]) -> Lanes:
    """Return lanes for counting; rows that count the same chains share one."""
    kinds = [anchor.kind[event] for anchor, event in zip(anchors, views.anchored, strict=True)]
    ranks = [gate.right[views.trigger] for gate in gates if gate.anchor is None]
    same = [views.first, *kinds, *ranks]
    order = np.lexsort((views.stop, *same[::-1]))
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in same:
        new[1:] |= np.diff(column[order]) != 0
    start = np.flatnonzero(new)
    pick, stop = order[start], views.stop[order]
    reads = np.append(start, len(order))
    anchored = tuple(each[pick] for each in views.anchored)
    return Lanes(
        views.trigger[pick],
        anchored,
        views.first[pick],
        stop[reads[1:] - 1],
        reads,
        stop,
        views.trigger[order],
    )


def separate_lanes(views: Views, *, mirrored: bool, places: int) -> tuple[Lanes, Ints]:
    """Return a lane for each row, without readings; and the row of each lane."""
    first, last = (places - views.stop, places - views.first) if mirrored else (views.first, views.stop)
    order = np.lexsort((last, first))
    none = np.zeros(0, np.int64)
    anchored = tuple(each[order] for each in views.anchored)
    reads = np.zeros(len(order) + 1, np.int64)
    return Lanes(views.trigger[order], anchored, first[order], last[order], reads, none, none), order
