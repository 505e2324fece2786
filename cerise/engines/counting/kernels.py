"""The kernels that count chains: the number of chains that end at a place is a sum over earlier places.

A place is an event in a layer; a lane is an independent count, with its own first place, trigger and anchors.
If a step has at most one inequality, Fenwick trees hold the numbers of earlier places by key, so a sum costs
the logarithm of the places; other steps test all pairs. The lanes of a block are counted side by side in one
pass; if a number outgrows its words, the pass is repeated with more words.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.counting.bigint import accumulate, add, any_above, carry, clear, is_zero, subtract, write
from cerise.engines.counting.records import (
    DONE,
    EQUAL,
    FEW,
    FULL,
    LANES,
    LESS,
    LESS_EQUAL,
    LONGER,
    MORE,
    MORE_EQUAL,
    PAUSED,
    TRIGGER,
    CountMemory,
    Link,
)  # fmt: skip
from cerise.engines.counting.trees import place_of, plant
from cerise.kernels.jit import Ints, int64, kernel
from cerise.kernels.records import Words

ENDLESS = 1 << 62


@kernel()
def holds(op: int, left: int, right: int) -> bool:
    """Whether a comparison of two ranks holds; null is below 0."""
    if left < 0 or right < 0:
        return False
    if op == LESS:
        return left < right
    if op == LESS_EQUAL:
        return left <= right
    if op == MORE:
        return left > right
    if op == MORE_EQUAL:
        return left >= right
    return (left == right) == (op == EQUAL)


@kernel()
def width_of(m: CountMemory, limbs: int) -> int:
    """Return how many words of each row are in use, a multiple of 8."""
    return (limbs * m.lanes + 7) & -8


# ---- the number of chains that end at a place


@kernel()
def open_gates(m: CountMemory, place: int, opening: int) -> int:
    """Return, as bits, the lanes of a pass whose gates a place passes."""
    low, high = m.low, m.high
    bits = (1 << (high - low)) - 1
    layer = m.layer_of[place]
    for gate in range(m.gate_count):
        row = m.gates[gate]
        if row.layer != layer or row.opening != opening:
            continue
        left = m.gate_left[gate * m.columns + place]
        right = m.gate_right[gate * m.lane_count :]
        for lane in range(low, high):
            if not holds(row.op, left, right[lane]):
                bits &= -1 ^ (1 << (lane - low))
    return bits


@kernel()
def are_linked(m: CountMemory, link: Link, source: int, target: int) -> bool:
    """Whether all tests of a link hold between a place and a later one, or a trigger."""
    columns = m.columns
    for test in range(link.tests, link.tests_end):
        left = m.test_left[test * columns + source]
        right = m.test_right[test * columns + target]
        if not holds(m.tests[test], left, right):
            return False
    return True


@kernel()
def ask_trees(m: CountMemory, place: int, row: Words) -> None:
    """Add to a row the sums that trees hold over the places that may precede a place."""
    room, nodes, size = m.room, m.nodes, m.words
    for term in range(m.terms):
        here = term * room + place - m.start
        i, tree = m.ask_i[here], m.ask_at[here] - 1
        positive = m.signs[term] > 0
        while i > 0:
            node = nodes[size * (tree + i) :]
            if positive:
                add(row, node, m.held[tree + i])
            else:
                subtract(row, node, m.held[tree + i])
            i &= i - 1


@kernel()
def ask_links(m: CountMemory, place: int, row: Words) -> None:
    """Add to a row the numbers of the places linked to a place."""
    layer, size = m.layer_of[place], m.words
    for n in range(m.link_count):
        link = m.links[n]
        if link.target == layer:
            p = m.newest[link.source]
            while p >= m.pass_first:
                n_row = p - m.start
                if m.filled[n_row] and are_linked(m, link, p, place):
                    add(row, m.rows[size * n_row :], m.filled[n_row])
                p = m.before[p]


@kernel()
def begin(m: CountMemory, place: int, row: Words) -> None:
    """Add a chain that begins at a place, in the lanes that allow it."""
    if m.opens[place] == 0:
        return
    low = m.low
    bits = open_gates(m, place, 1)
    for lane in range(low, m.high):
        if (bits >> (lane - low)) & 1 and place >= m.first[lane]:
            row[lane - low] += 1


@kernel()
def count_place(m: CountMemory, place: int, row: Words, limbs: int) -> int:
    """Write how many chains end at a place into a row.

    Returns:
        How many limbs the numbers of the pass have now; -1: they need more words.
    """
    open_lanes, lanes, bits = open_gates(m, place, 0), m.lanes, m.bits
    total, words = m.spare, m.words
    clear(total, min(width_of(m, limbs) + 8, words))
    if open_lanes != 0:
        ask_trees(m, place, total)
        ask_links(m, place, total)
        begin(m, place, total)
    for lane in range(m.high - m.low):
        if (open_lanes >> lane) & 1 == 0:
            for limb in range(limbs):
                total[limb * lanes + lane] = 0
    if any_above(total, limbs - 1, lanes, bits):
        limbs += 1
        if limbs * lanes > (words if lanes == 1 else min(words, m.widest)):
            return -1
    carry(row, total, limbs, lanes, bits)
    return limbs


@kernel()
def hand_on(m: CountMemory, place: int, row: Words, width: int) -> None:
    """Add the number of a place to the trees that later places read."""
    room, nodes, size = m.room, m.nodes, m.words
    for term in range(m.terms):
        here = term * room + place - m.start
        i = m.put_i[here]
        if i > 0:
            end, tree = m.put_size[here], m.put_at[here] - 1
            while i <= end:
                accumulate(nodes[size * (tree + i) :], row, m.held[tree + i], width)
                m.held[tree + i] = width
                i += i & -i


# ---- output


@kernel()
def writes(m: CountMemory, who: int, place: int, row: Words, limbs: int, lanes: int) -> bool:
    """Write the number of a row's first lane; False: no room is left."""
    head, begun = m.head_count, m.limb_count
    if head >= m.heads_room or begun + limbs + 64 > m.limbs_room:
        return False
    length = write(m.limbs[begun:], row, limbs, lanes, m.bits)
    if length > 0:
        entry = m.heads[head]
        entry.who = who
        entry.place = place
        entry.limbs = begun
        m.head_count = head + 1
        m.limb_count = begun + length
    return True


@kernel()
def add_lane(target: Words, row: Words, limbs: int, lanes: int, sign: int) -> None:
    """Add one lane of a row, or subtract it."""
    for limb in range(limbs):
        target[limb] += sign * row[limb * lanes]


@kernel()
def read_trees(m: CountMemory, column: int, lane: int) -> None:
    """Add to the spare row the sums of trees over the places that may precede a trigger, in one lane."""
    size, columns, lanes = m.words, m.columns, m.lanes
    for term in range(m.terms):
        low = m.lows[term * columns + column]
        if low < 0:
            continue
        keys, count = m.keys[term * m.room :], m.key_count[term]
        start = place_of(keys, count, low)
        i = place_of(keys, count, m.highs[term * columns + column]) - start
        tree = m.trees[term] + start - 1
        while i > 0:
            node, limbs = m.nodes[size * (tree + i) + lane :], m.held[tree + i] // lanes
            add_lane(m.spare, node, limbs, lanes, m.signs[term])
            i &= i - 1


@kernel()
def read_links(m: CountMemory, column: int, lane: int) -> None:
    """Add to the spare row the numbers of the places linked to a trigger, in one lane."""
    size, rows, lanes = m.words, m.rows[lane:], m.lanes
    for n in range(m.link_count):
        link = m.links[n]
        if link.target == TRIGGER:
            p = m.newest[link.source]
            while p >= m.pass_first:
                if are_linked(m, link, p, column):
                    n_row = p - m.start
                    limbs = m.filled[n_row] // lanes
                    add_lane(m.spare, rows[size * n_row :], limbs, lanes, 1)
                p = m.before[p]


@kernel()
def read_until(m: CountMemory, place: int, limbs: int) -> int:
    """Do all readings of a pass before a place.

    Returns:
        The place before which the next reading comes; -1: no room is left to write.
    """
    soonest, low = ENDLESS, m.low
    for lane in range(low, m.high):
        reading, end = m.next_read[lane - low], m.reads[lane + 1]
        while reading < end and m.stops[reading] <= place:
            clear(m.spare, width_of(m, limbs))
            read_trees(m, m.triggers[reading], lane - low)
            read_links(m, m.triggers[reading], lane - low)
            if not writes(m, reading, -1, m.spare, limbs, 1):
                return -1
            reading += 1
        m.next_read[lane - low] = reading
        if reading < end:
            soonest = min(soonest, m.stops[reading])
    return soonest


@kernel()
def shows(m: CountMemory) -> bool:
    """Write the numbers of the places in the shown layers; False: no room is left."""
    if m.shown == 0:
        return True
    low, lanes = m.low, m.lanes
    for lane in range(low, m.high):
        for p in range(m.first[lane], m.last[lane]):
            if (m.shown >> m.layer_of[p]) & 1:
                n_row = p - m.start
                row = m.rows[m.words * n_row + lane - low :]
                if not writes(m, lane, p, row, m.filled[n_row] // lanes, lanes):
                    return False
    return True


# ---- passes, blocks, sections


@kernel()
def first_of(m: CountMemory, low: int, high: int) -> int:
    """Return the first place of the lanes from `low` to `high`."""
    first = m.first[low]
    for lane in range(low + 1, high):
        first = min(first, m.first[lane])
    return first


@kernel()
def last_of(m: CountMemory, low: int, high: int) -> int:
    """Return the place after the last of the lanes from `low` to `high`."""
    last = m.last[low]
    for lane in range(low + 1, high):
        last = max(last, m.last[lane])
    return last


@kernel()
def set_out(m: CountMemory, low: int, high: int, lanes: int) -> None:
    """Begin a pass over the lanes from `low` to `high`."""
    m.low = low
    m.high = high
    m.lanes = lanes
    m.pass_first = first_of(m, low, high)
    m.pass_last = last_of(m, low, high)
    for layer in range(m.layers):
        m.newest[layer] = -1
    for lane in range(low, high):
        m.next_read[lane - low] = m.reads[lane]
    clear(m.held, m.node_count)


@kernel()
def count_event(m: CountMemory, place: int, after: int, limbs: int) -> int:
    """Count the chains that end at one event, at its places up to `after`; return as `count_place` does."""
    size, rows, filled = m.words, m.rows, m.filled
    shift = m.start if m.keeps else place
    for p in range(place, after):
        row = rows[size * (p - shift) :]
        limbs = count_place(m, p, row, limbs)
        if limbs < 0:
            return limbs
        filled[p - shift] = 0 if is_zero(row, width_of(m, limbs)) else width_of(m, limbs)
    for p in range(place, after):
        if filled[p - shift]:
            hand_on(m, p, rows[size * (p - shift) :], filled[p - shift])
        m.newest[m.layer_of[p]] = p
    return limbs


@kernel()
def count_lanes(m: CountMemory, low: int, high: int, lanes: int) -> int:
    """Count in the lanes from `low` to `high` in one pass; return DONE, or why the pass must be repeated."""
    set_out(m, low, high, lanes)
    heads, written, events = m.head_count, m.limb_count, m.event_of
    limbs, place, last, why = 1, m.pass_first, m.pass_last, DONE
    soonest = read_until(m, place, limbs)
    while place < last and soonest >= 0:
        after = place + 1
        while after < last and events[after] == events[place]:
            after += 1
        limbs = count_event(m, place, after, limbs)
        if limbs < 0:
            why = LONGER
            break
        place = after
        if place >= soonest:
            soonest = read_until(m, place, limbs)
    if why == DONE and (soonest < 0 or not shows(m)):
        why = FULL
    if why != DONE:
        m.head_count = heads
        m.limb_count = written
    return why


@kernel()
def count_block(m: CountMemory, low: int, high: int) -> int:
    """Count in the lanes of a block from where the last call stopped; return why this call stops."""
    if m.narrow == 0 and high - low >= FEW:
        why = count_lanes(m, low, high, LANES)
        if why != LONGER or m.words < m.widest:
            return why
        m.narrow = 1
    for lane in range(low + m.lane, high):
        why = count_lanes(m, lane, lane + 1, 1)
        if why != DONE:
            return why
        m.lane = lane + 1 - low
    return DONE


@kernel(int64(int64, Ints))
def count_sections(counts: int, keys: Any) -> int:
    """Count section by section from where the last call stopped; return why this call stops.

    Args:
        counts: the address of the memory, a `CountMemory`.
        keys: the array of its keys, which numba can sort.
    """
    m = CountMemory(counts)
    spent = 0
    while m.section < m.section_count:
        section = m.sections[m.section :]
        if m.ready == 0:
            low, high = m.blocks[section[0]], m.blocks[section[1]]
            m.start = first_of(m, low, high)
            plant(m, keys, m.start, last_of(m, low, high))
            m.ready = 1
            m.narrow = 0
        while m.block < section[1]:
            block = m.blocks[m.block :]
            why = count_block(m, block[0], block[1])
            if why != DONE:
                return why
            m.lane = 0
            m.block += 1
            spent += (m.pass_last - m.pass_first) * (block[1] - block[0])
            if spent > m.budget:
                return PAUSED
        m.section += 1
        m.ready = 0
    return DONE
