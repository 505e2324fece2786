"""Pruning before the joins: a backward pass finds the events that may be part of a match of one trigger.

An event is alive on an edge if a later event is alive on a next edge and linked to it; the trigger is alive
on the edges that complete matches. The best value of later events judges an inequality between neighbours, so
the pass is linear in the window's events. The joins judge all other predicates: the events alive are a
superset of those in matches.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.automaton.records import Machine
from cerise.engines.automaton.window import reaches
from cerise.engines.rcep.records import (
    AT_LEAST,
    AT_MOST,
    NULL,
    EdgeLink,
    JoinWorkspace,
    PruneEdge,
    TriggerTest,
    holds,
    list_start,
)
from cerise.kernels.jit import Ints, int64, kernel, void
from cerise.kernels.records import Rows, Words


@kernel(void(Ints, Ints, int64, int64, int64, int64))
def keep_near(masks: Any, times: Any, first: int, last: int, triggers: int, within: int) -> None:
    """Clear the mask of each event that lies in no trigger's window.

    Args:
        masks: the variables that each event fits.
        times: the time of each event.
        first: the first event that may be a trigger.
        last: the event to stop before.
        triggers: the variables that can be last.
        within: the length of the window.
    """
    trigger = len(masks)  # the next trigger; a difference that overflows is negative, so its event is kept
    for e in range(len(masks) - 1, -1, -1):
        if first <= e < last and masks[e] & triggers:
            trigger = e
        elif trigger == len(masks) or times[trigger] - times[e] > within:
            masks[e] = 0


@kernel(void(Ints, Ints, Ints, Ints, Ints))
def fill_lists(masks: Any, parts: Any, starts: Any, lists: Any, places: Any) -> None:
    """List the events that fit each variable, by partition; the last lists hold the events that fit any.

    Args:
        masks: the variables that each event fits.
        parts: the partition of each event, -1 for none.
        starts: room for the start of each list, (variables + 1) · (partitions + 1) words; the first two pass
            in the number of partitions and of variables.
        lists: room for the events of all lists.
        places: room for the position of each event in the list of all.
    """
    width, variables = starts[0] + 1, starts[1]
    for i in range(len(starts)):
        starts[i] = 0
    for e in range(len(masks)):
        if parts[e] >= 0 and masks[e]:
            for v in range(variables):
                if (masks[e] >> v) & 1:
                    starts[v * width + parts[e]] += 1
            starts[variables * width + parts[e]] += 1
    total = 0
    for i in range(len(starts)):
        count = starts[i]
        starts[i] = total
        total += count
    for e in range(len(masks)):
        if parts[e] >= 0 and masks[e]:
            for v in range(variables):
                if (masks[e] >> v) & 1:
                    at = v * width + parts[e]
                    lists[starts[at]] = e
                    starts[at] += 1
            at = variables * width + parts[e]
            lists[starts[at]] = e
            places[e] = starts[at]
            starts[at] += 1
    for i in range(len(starts) - 1, 0, -1):
        starts[i] = starts[i - 1]
    starts[0] = 0


@kernel()
def note_alive(links: Rows[EdgeLink], by_right: Words, edge: PruneEdge, e: int) -> None:
    """Update the best value of an edge's events that are alive, for the links from earlier edges."""
    for i in range(edge.right, edge.right_end):
        link = links[by_right[i]]
        value = link.right[e]
        if value == NULL:
            continue
        best, op = link.best, link.op
        if link.has == 0 or (value > best if op <= AT_MOST else value < best):
            link.best = value
            link.has = 1


@kernel()
def is_judged(judged: Rows[TriggerTest], edge: PruneEdge, e: int, p: int) -> bool:
    """Whether an event passes all comparisons with the trigger."""
    for i in range(edge.judged, edge.judged_end):
        test = judged[i]
        if not holds(test.op, test.left[e], test.right[p]):
            return False
    return True


@kernel()
def leads_on(has: Words, links: Rows[EdgeLink], edge: PruneEdge, e: int) -> bool:
    """Whether a later event is alive on a next edge, and linked to this event."""
    link_to = edge.links
    for then in range(edge.first, edge.last):
        if has[then] == 0:
            continue
        number = link_to[then]
        if number < 0:
            return True
        link = links[number]
        if link.has == 0:
            continue
        op, left = link.op, link.left[e]
        if left != NULL and (op > AT_LEAST or holds(op, left, link.best)):
            return True
    return False


@kernel()
def begin_with(w: JoinWorkspace, p: int) -> None:
    """Make the trigger the only event alive, on the edges that complete matches."""
    edges, has, links = w.edges, w.has, w.links
    for i in range(w.link_count):
        links[i].has = 0
    for j in range(w.edge_count):
        edge = edges[j]
        ends = edge.accepts and edge.bit & w.masks[p]
        has[j] = 1 if ends else 0
        if ends:
            note_alive(links, w.by_right, edge, p)


@kernel()
def prune(m: Machine, w: JoinWorkspace, p: int) -> int:
    """Stamp the events that may be part of a match of trigger p.

    Returns:
        The earliest event with which such a match may start; -1: no match is possible.
    """
    begin_with(w, p)
    edges, has, links, by_right = w.edges, w.has, w.links, w.by_right
    lists, points, masks = w.lists, w.points, w.masks
    edge_count, count, part = w.edge_count, w.events, w.parts[p]
    opens, stamps, judged, starts = w.opens, w.stamps, w.judged, m.starts
    right_deep, of_variables = w.right_deep, w.alive
    stamp = w.stamp + 1
    w.stamp = stamp
    point, floor, first = points[p], w.floors[part], -1
    for i in range(w.positions[p] - 1, list_start(w, w.variables, part) - 1, -1):
        e = lists[i]
        if e <= floor or not reaches(m, points[e], point):
            break
        mask, alive = masks[e], False
        for j in range(edge_count):
            edge = edges[j]
            if edge.bit & mask == 0 or edge.terminal or (j >= starts and opens[e] == 0):
                continue
            if is_judged(judged, edge, e, p) and leads_on(has, links, edge, e):
                stamps[j * count + e] = stamp
                alive = True
        if not alive:
            continue
        for j in range(edge_count):
            if stamps[j * count + e] == stamp:
                has[j] = 1
                note_alive(links, by_right, edges[j], e)
                if right_deep:
                    of_variables[edges[j].var * count + e] = stamp
                if j >= starts:
                    first = e
    return first
