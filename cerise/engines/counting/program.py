"""Compiles chains to tables by place for the kernels: a place is an event in a layer, in stream order.

Counted forwards, a place has the number of chains that end there; mirrored, the number of chains that lead
from there to the trigger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cerise.engines.counting.model import OPS, Chains, ChainStep, Compare, Ints
from cerise.engines.counting.records import TRIGGER
from cerise.engines.counting.terms import KeySum, terms_and_links
from cerise.pattern.expr import FLIPPED


@dataclass(frozen=True, slots=True, eq=False)
class ChainPlaces:
    """The events of all layers in stream order.

    Args:
        events: the event at each place.
        layer: the layer of each place.
        of: for each layer the places of its events.
    """

    events: Ints
    layer: Ints
    of: tuple[Ints, ...]

    def spread(self, layer: int, values: Ints) -> Ints:
        """Return the given values of a layer's events by place, -1 at the places of other layers."""
        row = np.full(len(self.events), -1, np.int64)
        row[self.of[layer]] = values
        return row


def place_events(chains: Chains) -> ChainPlaces:
    """Sort the events of all layers into places."""
    sizes = [len(each.events) for each in chains.layers]
    events = np.concatenate([np.zeros(0, np.int64), *(each.events for each in chains.layers)])
    layer = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((layer, events))
    of = np.split(np.argsort(order), np.cumsum(sizes)[:-1])
    return ChainPlaces(events[order], layer[order], tuple(of[: len(sizes)]))


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """A test of a lane on the events of a layer.

    Args:
        layer: the layer of the tested events.
        op: the comparison.
        left: ranks by event of the layer.
        right: ranks by trigger, or by event of an anchor's layer.
        anchor: the number of the anchor; None for a trigger.
        opening: whether only events at which counting begins are tested.
    """

    layer: int
    op: str
    left: Ints
    right: Ints
    anchor: int | None = None
    opening: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ChainProgram:
    """Chains as tables by place; in a forward program, columns for the triggers follow those of places."""

    places: ChainPlaces
    mirrored: bool
    opens: Ints
    signs: Ints
    spans: Ints
    puts: Ints
    lows: Ints
    highs: Ints
    gates: tuple[Gate, ...]
    gate_lefts: Ints
    links: Ints
    tests: Ints
    test_lefts: Ints
    test_rights: Ints


def program_of(chains: Chains, places: ChainPlaces, gates: Sequence[Gate], *, mirrored: bool) -> ChainProgram:
    """Compile chains; a mirrored program adds the comparisons of ends to the given gates."""
    sizes = [*(len(each.events) for each in chains.layers), len(chains.at)]
    if mirrored:
        steps = [ChainStep(each.target, each.source, _flip(each.compares)) for each in chains.steps]
        ends = [(end.layer, each) for end in chains.ends for each in end.compares]
        gates = [*gates, *(Gate(layer, it.op, it.left, it.right, None, True) for layer, it in ends)]
    else:
        steps = [*chains.steps, *(ChainStep(each.layer, TRIGGER, each.compares) for each in chains.ends)]
    terms, links = terms_and_links(steps, sizes)
    table = _Table(places, len(chains.at), mirrored)
    compares = [(step, each) for step in links for each in step.compares]
    return ChainProgram(
        places, mirrored, table.rows([_opens(chains, places, mirrored=mirrored)])[0],
        np.array([each.sign for each in terms], np.int64), np.array([each.span for each in terms], np.int64),
        table.rows([table.puts(each) for each in terms]),
        table.rows([table.asks(each.target, each.low) for each in terms]),
        table.rows([table.asks(each.target, each.high) for each in terms]),
        tuple(gates), table.rows([places.spread(each.layer, each.left) for each in gates]),
        _links(links), np.array([OPS[each.op] for _, each in compares], np.int64),
        table.rows([places.spread(step.source, each.left) for step, each in compares]),
        table.rows([table.asks(step.target, each.right) for step, each in compares]),
    )  # fmt: skip


def _flip(compares: tuple[Compare, ...]) -> tuple[Compare, ...]:
    return tuple(Compare(FLIPPED[each.op], each.right, each.left) for each in compares)


def _opens(chains: Chains, places: ChainPlaces, *, mirrored: bool) -> Ints:
    """Return 1 at the places where counting may begin."""
    opens = np.zeros(len(places.events), np.int64)
    if mirrored:
        for end in chains.ends:
            opens[places.of[end.layer]] = 1
        return opens
    for at, layer in zip(places.of, chains.layers, strict=True):
        if layer.opens is not None:
            opens[at] = layer.opens
    return opens


def _links(links: list[ChainStep]) -> Ints:
    """Return source, target, the first test and the end of the tests of each link."""
    borders = np.cumsum([0, *(len(each.compares) for each in links)])
    rows = [(each.source, each.target, borders[n], borders[n + 1]) for n, each in enumerate(links)]
    return np.array(rows, np.int64).reshape(-1, 4)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Rows of values by place and trigger; places are in reverse if the program is mirrored."""

    places: ChainPlaces
    triggers: int
    mirrored: bool

    def rows(self, rows: list[Ints]) -> Ints:
        """Return rows as one table with columns for all places and triggers."""
        count = len(self.places.events)
        table = np.full((len(rows), count + self.triggers), -1, np.int64)
        for n, row in enumerate(rows):
            table[n, : len(row)] = row
        if self.mirrored:
            table[:, :count] = table[:, :count][:, ::-1].copy()
        return table

    def puts(self, term: KeySum) -> Ints:
        row = np.full(len(self.places.events), -1, np.int64)
        for layer, keys in term.puts:
            row[self.places.of[layer]] = keys
        return row

    def asks(self, target: int, values: Ints) -> Ints:
        if target != TRIGGER:
            return self.places.spread(target, values)
        return np.concatenate([np.full(len(self.places.events), -1, np.int64), values])
