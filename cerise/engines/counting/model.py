"""The chains to count: the events of each layer, and the steps between them.

Events are numbers in the order of (partition, stream). A chain goes by steps from layer to layer, one event
in each, from an event that may open it to one that may end it before a trigger. This module does not depend
on queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerise.engines.counting.records import EQUAL, LESS, LESS_EQUAL, MORE, MORE_EQUAL, UNEQUAL
from cerise.errors import PlanError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

OPS = {"<": LESS, "<=": LESS_EQUAL, ">": MORE, ">=": MORE_EQUAL, "=": EQUAL, "!=": UNEQUAL}


@dataclass(frozen=True, slots=True, eq=False)
class Compare:
    """`left op right`: ranks in a common order; -1 is null, with which no comparison holds."""

    op: str
    left: Ints
    right: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A position in a pattern.

    Args:
        events: the events that fit it, ascending.
        opens: whether each event may open a chain; None: none may.
        tests: the tests of each trigger on the events (left by event, right by trigger).
    """

    events: Ints
    opens: Bools | None = None
    tests: tuple[Compare, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ChainStep:
    """A step from an event of a layer to a later event of a layer (left by source, right by target)."""

    source: int
    target: int
    compares: tuple[Compare, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class End:
    """A layer whose events may be the last before a trigger (left by event, right by trigger)."""

    layer: int
    compares: tuple[Compare, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class AnchorTest:
    """A test of an anchor event on the events of another layer (left by event, right by anchor event)."""

    layer: int
    anchor: int
    compare: Compare


@dataclass(frozen=True, slots=True, eq=False)
class Chains:
    """The chains to count.

    Args:
        layers: the positions of a pattern.
        steps: the steps between layers, at most one for two layers.
        ends: the layers that may end a chain, each at most once.
        at: the event of each trigger; the events of its chains come before it.
        low: the first event that a chain of each trigger may have; in the trigger's partition.
        anchors: layers through which every chain goes exactly once.
        anchor_tests: tests of other events against anchor events.
    """

    layers: tuple[Layer, ...]
    steps: tuple[ChainStep, ...]
    ends: tuple[End, ...]
    at: Ints
    low: Ints
    anchors: tuple[int, ...] = ()
    anchor_tests: tuple[AnchorTest, ...] = ()

    def __post_init__(self) -> None:
        for problem, hint in _faults(self):
            raise PlanError(problem, hint=hint)


def _faults(chains: Chains) -> Iterator[tuple[str, str]]:
    layers = [len(each.events) for each in chains.layers]
    if len(chains.at) != len(chains.low) or np.any(chains.low > chains.at):
        yield "a trigger lies before the events that it completes", "give `low <= at` for each trigger"
    for number, layer in enumerate(chains.layers):
        if np.any(np.diff(layer.events) <= 0):
            yield f"the events of layer {number} are not ascending", "sort them, each once"
        if layer.opens is not None and len(layer.opens) != layers[number]:
            yield f"`opens` of layer {number} has another length than its events", "give one for each event"
    if len({(each.source, each.target) for each in chains.steps}) < len(chains.steps):
        yield "two steps join the same layers", "make a layer for each"
    if len({each.layer for each in chains.ends}) < len(chains.ends):
        yield "a layer has two ends", "make a layer for each"
    for compare, left, right in _sides(chains):
        if compare.op not in OPS:
            yield f"unknown comparison '{compare.op}'", f"use one of {' '.join(OPS)}"
        if (len(compare.left), len(compare.right)) != (left, right):
            sizes = f"{len(compare.left)} and {len(compare.right)} ranks, not {left} and {right}"
            yield f"'{compare.op}' compares {sizes}", "give a rank for each event or trigger, -1 for null"
    for anchor in chains.anchors:
        if not _is_passed_once(chains, anchor):
            yield f"a chain need not go through anchor {anchor} exactly once", "anchor another layer"
    if not {each.anchor for each in chains.anchor_tests} <= set(chains.anchors):
        yield "a test names a layer that is not an anchor", "add it to `anchors`"


def _sides(chains: Chains) -> Iterator[tuple[Compare, int, int]]:
    """Yield each comparison with the number of ranks that its two sides must have."""
    sizes, triggers = [len(each.events) for each in chains.layers], len(chains.at)
    for layer in chains.layers:
        yield from ((each, len(layer.events), triggers) for each in layer.tests)
    for step in chains.steps:
        yield from ((each, sizes[step.source], sizes[step.target]) for each in step.compares)
    for end in chains.ends:
        yield from ((each, sizes[end.layer], triggers) for each in end.compares)
    for test in chains.anchor_tests:
        yield test.compare, sizes[test.layer], sizes[test.anchor]


def _is_passed_once(chains: Chains, anchor: int) -> bool:
    """Whether every chain goes through a layer, and none reaches it again."""
    ends = {each.layer for each in chains.ends}
    starts = {n for n, each in enumerate(chains.layers) if each.opens is not None}
    around = _reach(chains, starts - {anchor}, without=anchor)
    after = {each.target for each in chains.steps if each.source == anchor}
    return not around & ends and anchor not in _reach(chains, after, without=None)


def _reach(chains: Chains, layers: set[int], *, without: int | None) -> set[int]:
    """Return the given layers, and the layers that steps reach from them without passing `without`."""
    found, new = set(layers), set(layers)
    while new:
        new = {each.target for each in chains.steps if each.source in new} - found - {without}
        found |= new
    return found
