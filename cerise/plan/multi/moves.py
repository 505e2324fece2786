"""Moves of local search [002 §4.2, §5]: some patterns are planned anew to share a sub-pattern, or to cease.

N_edge takes an edge of the multi-pattern graph and a sub-pattern that both patterns have; N_vertex^k takes a
pattern, one of its sub-patterns, and k patterns that have it. Each of them gets its best plan alone that
holds the sub-pattern; for each it is drawn whether it keeps the nodes that it shares already. The empty
sub-pattern is a choice, too: the patterns then share by chance only. A move changes the plan, or another one
is drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cerise.kernels.bits import ones
from cerise.kernels.jit import kernel
from cerise.kernels.join_dp import (
    INF,
    Ask,
    FloatArray,
    IntArray,
    JoinPlan,
    JoinTables,
    enter,
    is_node,
    respond,
    spread,
    type_of,
)
from cerise.plan.multi.openings import MoveLog, take_out, undo

TRIES = 8  # to draw a move that changes the plan
EDGES = 30  # that are drawn until one is taken: each is as likely as any other, but for what is left after 30
NEED = TRIES * (3 * EDGES + 30)  # random numbers for one move, at most
CURSOR, MANY, KEPT, COMMON = 0, 1, 2, 3  # places in `Walk.at`
NONE, NOTHING = -1, -2  # instead of a sub-pattern: the empty one; nothing was drawn


class Walk(NamedTuple):
    """What moves are drawn from, and room for one of them."""

    first: IntArray  # pattern → its first shared entry; the last pattern's end follows
    entries: IntArray  # shared entry → entry; of a pattern in the order of sub-patterns
    pairs: IntArray  # the sub-patterns of two slots that patterns share
    until: IntArray  # pair → in how many ways two entries hold it, or one before it
    vertices: IntArray  # the patterns that share a sub-pattern
    kind: IntArray  # two numbers: how many patterns a move plans; whether trees are left-deep
    randoms: FloatArray
    at: IntArray  # of random numbers used; of patterns, of kept masks, of common sub-patterns
    patterns: IntArray  # of the move
    masks: IntArray  # the sub-pattern in each of them
    kept_first: IntArray  # pattern of the move → its first kept mask; the last one's end follows
    kept: IntArray  # masks of nodes that a pattern shares
    given: IntArray  # masks that a pattern's tree holds
    common: IntArray  # sub-patterns of both patterns of an edge


WalkType = type_of(Walk, "randoms")


def lay_out_walk(tables: JoinTables, many: int, moves: int, *, deep: bool) -> Walk:
    """Return what moves are drawn from.

    Args:
        tables: the workload.
        many: how many patterns a move plans.
        moves: for how many moves there are random numbers.
        deep: whether trees are left-deep.

    >>> from cerise.plan.join_statistics import Statistics
    >>> from cerise.plan.joins import JoinPattern
    >>> from cerise.plan.multi.subpatterns import number_workload
    >>> abc, ac = JoinPattern((1, 2, 3), (0, 1, 3)), JoinPattern((1, 3), (0, 1))
    >>> walk = lay_out_walk(number_workload([abc, ac], Statistics()).tables, 2, 1, deep=False)
    >>> walk.vertices.tolist(), len(walk.pairs)
    ([0, 1], 1)
    """
    counts = np.diff(tables.holder_first)
    entries = tables.holders[np.repeat(counts, counts) > 1]
    owners, numbers = tables.owner[entries], tables.ids[entries]
    first = np.searchsorted(np.sort(owners), np.arange(len(tables.sizes) + 1)).astype(np.int64)
    slots = np.zeros(len(counts), np.int64)
    slots[numbers] = np.bitwise_count(entries - tables.start[owners])
    pairs = np.flatnonzero((counts > 1) & (slots == 2))
    until = np.cumsum(counts[pairs] * (counts[pairs] - 1) // 2)
    most = int(tables.sizes.max(initial=1))
    room = [np.zeros(size, np.int64) for size in (4, many, many, many + 1, many * most, most + 1, 1 << most)]
    kind = np.array([many, deep], np.int64)
    return Walk(
        first,
        entries[np.lexsort((entries, numbers, owners))],
        pairs,
        until,
        np.flatnonzero(np.diff(first)),
        kind,
        np.zeros(moves * NEED),
        *room,
    )


# ---- what to share


@kernel()
def draw_below(w: Walk, count: int) -> int:
    """Draw a number from 0 to below `count`."""
    w.at[CURSOR] += 1
    return int(w.randoms[w.at[CURSOR] - 1] * count)


@kernel()
def draw_edge(t: JoinTables, plan: JoinPlan, w: Walk) -> int:
    """Draw two patterns that share a sub-pattern, all such pairs being as likely, and a sub-pattern.

    Pairs of entries with a sub-pattern of two slots are drawn. Patterns with several come up so much more
    often, and are taken so much more rarely.
    """
    w.at[MANY] = 2
    for _ in range(EDGES):
        way = draw_below(w, w.until[-1])
        number = w.pairs[np.searchsorted(w.until, way, side="right")]
        start, count = t.holder_first[number], t.holder_first[number + 1] - t.holder_first[number]
        one, other = draw_below(w, count), draw_below(w, count - 1)
        other += other >= one
        w.patterns[0], w.patterns[1] = t.owner[t.holders[start + one]], t.owner[t.holders[start + other]]
        if w.patterns[0] == w.patterns[1]:
            continue
        if draw_below(w, list_common(t, w)) == 0:
            return draw_common(t, plan, w)
    return NOTHING


@kernel()
def list_common(t: JoinTables, w: Walk) -> int:
    """List the sub-patterns that two patterns have; return in how many ways both hold one of two slots."""
    ids, entries, common, p, q = t.ids, w.entries, w.common, w.patterns[0], w.patterns[1]
    a, end, b, end_b, ways, count = w.first[p], w.first[p + 1], w.first[q], w.first[q + 1], 0, 0
    while a < end and b < end_b:
        number, other = ids[entries[a]], ids[entries[b]]
        if number < other:
            a += 1
        elif other < number:
            b += 1
        else:
            begin, slots = b, ones(entries[a] - t.start[p])
            common[count] = number
            count += 1
            while b < end_b and ids[entries[b]] == number:
                b += 1
            while a < end and ids[entries[a]] == number:
                a += 1
                ways += b - begin if slots == 2 else 0
    w.at[COMMON] = count
    return ways


@kernel()
def count_equal(t: JoinTables, w: Walk, p: int, place: int) -> int:
    """Return how many entries of a pattern from a place on have one sub-pattern."""
    end = place
    while end < w.first[p + 1] and t.ids[w.entries[end]] == t.ids[w.entries[place]]:
        end += 1
    return end - place


@kernel()
def draw_common(t: JoinTables, plan: JoinPlan, w: Walk) -> int:
    """Draw a sub-pattern that both patterns of an edge have and do not share; the empty one, if they do."""
    common, users, count = w.common, plan.users, 0
    for i in range(w.at[COMMON]):
        if users[common[i]] < 2 or not all_use(t, plan, w, common[i]):
            common[count] = common[i]
            count += 1
    chosen = draw_below(w, count + (count < w.at[COMMON]))
    return w.common[chosen] if chosen < count else NONE


@kernel()
def all_use(t: JoinTables, plan: JoinPlan, w: Walk, number: int) -> bool:
    """Whether a sub-pattern is a node of all patterns of a move."""
    for i in range(w.at[MANY]):
        p = w.patterns[i]
        place, used = find_entry(t, w, p, number), False
        for x in range(place, place + count_equal(t, w, p, place)):
            used = used or is_node(t, plan, p, w.entries[x] - t.start[p])
        if not used:
            return False
    return True


@kernel()
def find_entry(t: JoinTables, w: Walk, p: int, number: int) -> int:
    """Return the place of the first shared entry of a pattern with a sub-pattern."""
    low: int = w.first[p]
    high = w.first[p + 1]
    while low < high:
        middle = (low + high) // 2
        if t.ids[w.entries[middle]] < number:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def draw_vertex(t: JoinTables, plan: JoinPlan, w: Walk) -> int:
    """Draw a pattern, a sub-pattern that it shares, and further patterns that have it."""
    p = w.vertices[draw_below(w, len(w.vertices))]
    count = w.first[p + 1] - w.first[p]
    chosen = draw_below(w, count + 1)  # the last choice is the empty sub-pattern
    if chosen == count:
        number = t.ids[w.entries[w.first[p] + draw_below(w, count)]]
        draw_holders(t, w, p, number)
        return NONE
    number = t.ids[w.entries[w.first[p] + chosen]]
    draw_holders(t, w, p, number)
    return NOTHING if all_use(t, plan, w, number) else number


@kernel()
def draw_holders(t: JoinTables, w: Walk, p: int, number: int) -> None:
    """Draw patterns that hold a sub-pattern, as many as a move plans, or all: one of them is `p`."""
    start, count = t.holder_first[number], t.holder_first[number + 1] - t.holder_first[number]
    w.patterns[0] = p
    w.at[MANY] = 1
    for _ in range(min(w.kind[0], count) - 1):
        x = draw_below(w, count)
        for _again in range(count):
            if not is_drawn(w, t.owner[t.holders[start + x]]):
                w.patterns[w.at[MANY]] = t.owner[t.holders[start + x]]
                w.at[MANY] += 1
                break
            x = (x + 1) % count


@kernel()
def is_drawn(w: Walk, p: int) -> bool:
    """Whether a pattern belongs to the move."""
    found = False
    for i in range(w.at[MANY]):
        found |= w.patterns[i] == p
    return found


# ---- how to share it


@kernel()
def place_subpattern(t: JoinTables, w: Walk, number: int) -> None:
    """Draw where each pattern of a move holds a sub-pattern, and put the heaviest pattern first."""
    heaviest, most = 0, -INF
    for i in range(w.at[MANY]):
        p = w.patterns[i]
        if number == NONE:
            w.masks[i] = 0
            continue
        place = find_entry(t, w, p, number)
        count = count_equal(t, w, p, place)
        entry = w.entries[place + (draw_below(w, count) if count > 1 else 0)]
        w.masks[i] = entry - t.start[p]
        if t.weights[entry] > most:
            heaviest, most = i, t.weights[entry]
    p, mask = w.patterns[heaviest], w.masks[heaviest]
    w.patterns[heaviest], w.masks[heaviest] = w.patterns[0], w.masks[0]
    w.patterns[0], w.masks[0] = p, mask


@kernel()
def list_kept(t: JoinTables, plan: JoinPlan, w: Walk, i: int) -> None:
    """List the nodes that a pattern of a move shares and can keep: none that crosses the sub-pattern."""
    p, wanted = w.patterns[i], w.masks[i]
    plan.stack[0], depth = (1 << t.sizes[p]) - 1, 1
    while depth:
        depth -= 1
        mask = plan.stack[depth]
        if mask & (mask - 1) == 0:
            continue
        entry, both = t.start[p] + mask, mask & wanted
        fits = both == mask or (both == wanted and (both != 0 or not w.kind[1]))
        if plan.users[t.ids[entry]] > 1 and fits:
            w.kept[w.at[KEPT]] = mask
            w.at[KEPT] += 1
        left = spread(plan.split[t.ids[entry]], t.places[entry])
        plan.stack[depth], plan.stack[depth + 1] = left, mask ^ left
        depth += 2


@kernel()
def plan_anew(t: JoinTables, plan: JoinPlan, w: Walk, i: int) -> None:
    """Give a pattern of a move its best plan alone that holds the sub-pattern and the nodes it keeps.

    Where other patterns' nodes do not allow that, it keeps nothing, or need not hold the sub-pattern.
    """
    p, deep = w.patterns[i], w.kind[1] != 0
    wanted = 1 if w.masks[i] else 0
    w.given[0], many = w.masks[i], wanted
    for x in range(w.kept_first[i], w.kept_first[i + 1]):
        if wanted or plan.users[t.ids[t.start[p] + w.kept[x]]] > 0:
            w.given[many] = w.kept[x]
            many += 1
    cost = respond(t, plan, p, Ask(w.given, many, False, deep, -1))
    if cost == INF and many > wanted:
        cost = respond(t, plan, p, Ask(w.given, wanted, False, deep, -1))
    if cost == INF:
        respond(t, plan, p, Ask(w.given, 0, False, deep, -1))
    enter(t, plan, p, (1 << t.sizes[p]) - 1, True)


@kernel()
def move(t: JoinTables, plan: JoinPlan, log: MoveLog, w: Walk) -> bool:
    """Draw a move and make it; False if no move was drawn that changes the plan."""
    total, known = plan.total[0], plan.hashed[0]
    for _ in range(TRIES):
        number = draw_edge(t, plan, w) if w.kind[0] == 2 else draw_vertex(t, plan, w)
        if number == NOTHING:
            continue
        place_subpattern(t, w, number)
        log.counts[:] = 0
        w.at[KEPT] = 0
        for i in range(w.at[MANY]):
            w.kept_first[i] = w.at[KEPT]
            if draw_below(w, 2):
                list_kept(t, plan, w, i)
        w.kept_first[w.at[MANY]] = w.at[KEPT]
        for i in range(w.at[MANY]):
            take_out(t, plan, log, w.patterns[i])
        for i in range(w.at[MANY]):
            plan_anew(t, plan, w, i)
        if plan.hashed[0] != known:
            return True
        undo(t, plan, log, total)
    return False
