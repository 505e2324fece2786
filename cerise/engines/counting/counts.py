"""Counts the chains of each trigger, and the chains through each event, without enumerating them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cerise.engines.counting.bigint import Objects
from cerise.engines.counting.counters import (
    ChainAnchor,
    Views,
    anchors_of,
    gates_of,
    rows_by_trigger,
    separate_lanes,
    share_lanes,
    views_of,
)
from cerise.engines.counting.machine import ROOM, CountingMachine, Room
from cerise.engines.counting.model import Chains, Floats, Ints
from cerise.engines.counting.program import ChainPlaces, ChainProgram, Gate, place_events, program_of
from cerise.engines.counting.terms import terms_and_links

LANE_STEPS = 200  # the fixed cost of a lane, in steps


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The number of chains through events: rows by trigger, then in stream order.

    Args:
        trigger: the number of the trigger.
        layer: the layer of the event.
        event: the number of the event in its layer.
        chains: how many chains of the trigger go through the event there; never 0.
    """

    trigger: Ints
    layer: Ints
    event: Ints
    chains: Objects


def count(chains: Chains, room: Room = ROOM) -> list[int]:
    """Return how many chains each trigger completes."""
    totals = np.zeros(len(chains.at), np.object_)
    places, anchors, gates = _lay_out(chains)
    program = program_of(chains, places, gates, mirrored=False)
    for views in views_of(chains, places, anchors, most=room.lanes):
        lanes = share_lanes(views, anchors, gates)
        for found in CountingMachine(program, lanes, room).run():
            np.add.at(totals, lanes.reader[found.who], found.number)
    return [int(each) for each in totals]


def standings(chains: Chains, layers: Sequence[int], room: Room = ROOM) -> Iterator[Standing]:
    """Yield the number of chains through each event of the given layers, in batches of triggers."""
    places, anchors, gates = _lay_out(chains)
    ways = [program_of(chains, places, gates, mirrored=each) for each in (False, True)]
    for views in views_of(chains, places, anchors, most=room.shown, by_places=True):
        before, after = (_count_places(program, views, layers, room) for program in ways)
        yield _multiply(places, views, before, after)


def work(chains: Chains) -> float:
    """Estimate how many steps counting takes: places times their logarithm, for each lane.

    A step takes 2 to 5 ns while numbers are short, and longer in proportion from 400 bits on. Standings take
    twice as many steps, and a lane for each trigger.
    """
    places, anchors, gates = _lay_out(chains)
    first, stop = np.searchsorted(places.events, chains.low), np.searchsorted(places.events, chains.at)
    lengths = np.maximum(stop - first, 0).astype(np.float64)
    if not anchors:
        lanes = [share_lanes(views, (), gates) for views in views_of(chains, places, (), most=ROOM.lanes)]
        lengths = np.concatenate([np.zeros(0), *(each.last - each.first for each in lanes)])
        return float(np.sum(_steps(chains, lengths)))
    rows = rows_by_trigger(anchors, first, stop)
    if (
        len(rows)
        and all(each.opens is not None for each in anchors)
        and all(each.anchor is not None for each in gates)
    ):
        rows *= min(1.0, max(len(each.places) for each in anchors) / max(rows.sum(), 1.0))  # lanes are shared
    return float(np.sum(rows * _steps(chains, lengths)))


def _steps(chains: Chains, lengths: Floats) -> Floats:
    sizes = [*(len(each.events) for each in chains.layers), len(chains.at)]
    terms, links = terms_and_links(chains.steps, sizes)
    return LANE_STEPS + lengths * (2 + len(terms) * np.log2(lengths + 1) + len(links) * lengths / 2)


def _lay_out(chains: Chains) -> tuple[ChainPlaces, tuple[ChainAnchor, ...], list[Gate]]:
    places = place_events(chains)
    anchors = anchors_of(chains, places)
    return places, anchors, gates_of(chains, anchors)


def _count_places(
    program: ChainProgram, views: Views, layers: Sequence[int], room: Room
) -> tuple[Ints, Objects]:
    """Count at each place of each row; return sorted keys, row · places + place, and the counts."""
    places = len(program.places.events)
    lanes, row = separate_lanes(views, mirrored=program.mirrored, places=places)
    found = list(CountingMachine(program, lanes, room, shown=tuple(layers)).run())
    lane = np.concatenate([each.who for each in found])
    place = np.concatenate([each.place for each in found])
    if program.mirrored:
        place = places - 1 - place
    key = row[lane] * places + place
    order = np.argsort(key)
    return key[order], np.concatenate([each.number for each in found])[order]


def _multiply(
    places: ChainPlaces, views: Views, before: tuple[Ints, Objects], after: tuple[Ints, Objects]
) -> Standing:
    """Multiply the chains up to each place by those from it on; add up the rows of a trigger."""
    keys, upto, onward = np.intersect1d(before[0], after[0], assume_unique=True, return_indices=True)
    row, place = np.divmod(keys, max(len(places.events), 1))
    trigger = views.trigger[row]
    order = np.lexsort((place, trigger))
    trigger, place = trigger[order], place[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(trigger) != 0) | (np.diff(place) != 0)
    products = (before[1][upto] * after[1][onward])[order]
    sums = np.add.reduceat(products, np.flatnonzero(new)) if len(products) else products
    number = np.zeros(len(places.events), np.int64)
    for at in places.of:
        number[at] = np.arange(len(at))
    return Standing(trigger[new], places.layer[place[new]], number[place[new]], sums)
