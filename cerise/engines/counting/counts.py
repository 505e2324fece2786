"""How many chains each trigger completes, and in how many of them an event stands; no chain is ever made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cerise.engines.counting.bigint import Objects
from cerise.engines.counting.counters import (
    Anchor,
    Views,
    anchors_of,
    apart,
    gates_of,
    rows_by_trigger,
    shared,
    views_of,
)
from cerise.engines.counting.machine import ROOM, Machine, Room
from cerise.engines.counting.model import Chains, Floats, Ints
from cerise.engines.counting.program import Gate, Places, Program, placed, program_of
from cerise.engines.counting.terms import terms_and_links

LANE_STEPS = 200  # that a lane takes, however few its places


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """In how many chains events stand: rows by trigger, then in stream order.

    Args:
        trigger: the number of the trigger.
        layer: the layer in which the event stands.
        event: the number of the event in its layer.
        chains: how many chains of the trigger have it there; never 0.
    """

    trigger: Ints
    layer: Ints
    event: Ints
    chains: Objects


def count(chains: Chains, room: Room = ROOM) -> list[int]:
    """Return how many chains each trigger completes."""
    totals = np.zeros(len(chains.at), np.object_)
    places, anchors, gates = _laid_out(chains)
    program = program_of(chains, places, gates, mirrored=False)
    for views in views_of(chains, places, anchors, most=room.lanes):
        lanes = shared(views, anchors, gates)
        for found in Machine(program, lanes, room).run():
            np.add.at(totals, lanes.reader[found.who], found.number)
    return [int(each) for each in totals]


def standings(chains: Chains, layers: Sequence[int], room: Room = ROOM) -> Iterator[Standing]:
    """Yield in how many chains the events of some layers stand, for some triggers at a time."""
    places, anchors, gates = _laid_out(chains)
    ways = [program_of(chains, places, gates, mirrored=each) for each in (False, True)]
    for views in views_of(chains, places, anchors, most=room.shown, by_places=True):
        before, after = (_shown(program, views, layers, room) for program in ways)
        yield _standing(places, views, before, after)


def work(chains: Chains) -> float:
    """Return about how many steps counting takes: places times the logarithm, for each lane.

    A step takes 2 to 5 ns while numbers are short, and longer in proportion from 400 bits on. Standings take
    twice as many, and a lane for each trigger.
    """
    places, anchors, gates = _laid_out(chains)
    first, stop = np.searchsorted(places.events, chains.low), np.searchsorted(places.events, chains.at)
    lengths = np.maximum(stop - first, 0).astype(np.float64)
    if not anchors:
        lanes = [shared(views, (), gates) for views in views_of(chains, places, (), most=ROOM.lanes)]
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


def _laid_out(chains: Chains) -> tuple[Places, tuple[Anchor, ...], list[Gate]]:
    places = placed(chains)
    anchors = anchors_of(chains, places)
    return places, anchors, gates_of(chains, anchors)


def _shown(program: Program, views: Views, layers: Sequence[int], room: Room) -> tuple[Ints, Objects]:
    """Return the numbers of places by row and place, ascending: rows times places plus the place."""
    places = len(program.places.events)
    lanes, row = apart(views, mirrored=program.mirrored, places=places)
    found = list(Machine(program, lanes, room, shown=tuple(layers)).run())
    lane = np.concatenate([each.who for each in found])
    place = np.concatenate([each.place for each in found])
    if program.mirrored:
        place = places - 1 - place
    key = row[lane] * places + place
    order = np.argsort(key)
    return key[order], np.concatenate([each.number for each in found])[order]


def _standing(
    places: Places, views: Views, before: tuple[Ints, Objects], after: tuple[Ints, Objects]
) -> Standing:
    """Multiply the chains up to each place by those from it on; add what several rows of a trigger have."""
    keys, here, there = np.intersect1d(before[0], after[0], assume_unique=True, return_indices=True)
    row, place = np.divmod(keys, max(len(places.events), 1))
    trigger = views.trigger[row]
    order = np.lexsort((place, trigger))
    trigger, place = trigger[order], place[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(trigger) != 0) | (np.diff(place) != 0)
    products = (before[1][here] * after[1][there])[order]
    sums = np.add.reduceat(products, np.flatnonzero(new)) if len(products) else products
    number = np.zeros(len(places.events), np.int64)
    for at in places.of:
        number[at] = np.arange(len(at))
    return Standing(trigger[new], places.layer[place[new]], number[place[new]], sums)
