"""Chains counted, compiled: place by place, the number of chains that end there is the sum over those before.

A place is an event in a layer; a lane is a way to count (from which place on, for which trigger and anchors).
Where a step compares at most one pair by order, the numbers before lie in Fenwick trees by key, so a sum
costs the logarithm of the places; other steps go through all pairs. The lanes of a block are counted side by
side, in one pass; a pass whose numbers outgrow their words is made again with more.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.chains import layout as at
from cerise.engines.chains.numbers import add, any_above, carry, clear, is_zero, put_in, subtract, write
from cerise.engines.chains.trees import place_of, plant
from cerise.kernels.jit import Ints, get, int64, kernel, put

ENDLESS = 1 << 62


@kernel()
def holds(op: int, left: int, right: int) -> bool:
    """Whether a comparison of two ranks holds; null is below 0."""
    if left < 0 or right < 0:
        return False
    if op == at.LESS:
        return left < right
    if op == at.LESS_EQUAL:
        return left <= right
    if op == at.MORE:
        return left > right
    if op == at.MORE_EQUAL:
        return left >= right
    return (left == right) == (op == at.EQUAL)


@kernel()
def width_of(m: int, limbs: int) -> int:
    """Return how many words of each row are in use: whole eights."""
    return (limbs * get(m, at.P_LANES) + 7) & -8


# ---- the number of chains that end at a place


@kernel()
def open_gates(m: int, place: int, opening: int) -> int:
    """Return, as bits, the lanes of a pass whose gates a place passes."""
    low, high = get(m, at.P_LOW), get(m, at.P_HIGH)
    bits = (1 << (high - low)) - 1
    layer = get(get(m, at.A_LAYER), place)
    for gate in range(get(m, at.H_GATES)):
        row = get(m, at.A_GATE) + 8 * at.GATE_WORDS * gate
        if get(row, at.T_LAYER) != layer or get(row, at.T_OPENING) != opening:
            continue
        left = get(get(m, at.A_GATE_LEFT), gate * get(m, at.H_COLUMNS) + place)
        right = get(m, at.A_GATE_RIGHT) + 8 * gate * get(m, at.H_LANES)
        for lane in range(low, high):
            if not holds(get(row, at.T_OP), left, get(right, lane)):
                bits &= -1 ^ (1 << (lane - low))
    return bits


@kernel()
def are_linked(m: int, link: int, source: int, target: int) -> bool:
    """Whether all tests of a link hold between a place and a later one, or a trigger."""
    columns = get(m, at.H_COLUMNS)
    for test in range(get(link, at.L_FROM), get(link, at.L_TO)):
        left = get(get(m, at.A_TEST_LEFT), test * columns + source)
        right = get(get(m, at.A_TEST_RIGHT), test * columns + target)
        if not holds(get(get(m, at.A_TEST), test), left, right):
            return False
    return True


@kernel()
def ask_trees(m: int, place: int, row: int) -> None:
    """Add to a row what trees tell of the places that may stand before a place."""
    room, nodes, size = get(m, at.H_ROOM), get(m, at.A_NODES), 8 * get(m, at.H_WORDS)
    for term in range(get(m, at.H_TERMS)):
        here = term * room + place - get(m, at.P_START)
        i, tree = get(get(m, at.A_ASK_I), here), get(get(m, at.A_ASK_AT), here) - 1
        positive = get(get(m, at.A_SIGN), term) > 0
        while i > 0:
            node = nodes + size * (tree + i)
            if positive:
                add(row, node, get(get(m, at.A_HELD), tree + i))
            else:
                subtract(row, node, get(get(m, at.A_HELD), tree + i))
            i &= i - 1


@kernel()
def ask_links(m: int, place: int, row: int) -> None:
    """Add to a row the numbers of the places that are linked to a place."""
    layer, size = get(get(m, at.A_LAYER), place), 8 * get(m, at.H_WORDS)
    for n in range(get(m, at.H_LINKS)):
        link = get(m, at.A_LINK) + 8 * at.LINK_WORDS * n
        if get(link, at.L_TARGET) == layer:
            p = get(get(m, at.A_NEWEST), get(link, at.L_SOURCE))
            while p >= get(m, at.P_FIRST):
                n_row = p - get(m, at.P_START)
                if get(get(m, at.A_FILLED), n_row) and are_linked(m, link, p, place):
                    add(row, get(m, at.A_ROWS) + size * n_row, get(get(m, at.A_FILLED), n_row))
                p = get(get(m, at.A_BEFORE), p)


@kernel()
def begin(m: int, place: int, row: int) -> None:
    """Add a chain that begins at a place, in the lanes where one may."""
    if get(get(m, at.A_OPEN), place) == 0:
        return
    low = get(m, at.P_LOW)
    bits = open_gates(m, place, 1)
    for lane in range(low, get(m, at.P_HIGH)):
        if (bits >> (lane - low)) & 1 and place >= get(get(m, at.A_FIRST), lane):
            put(row, lane - low, get(row, lane - low) + 1)


@kernel()
def count_place(m: int, place: int, row: int, limbs: int) -> int:
    """Write how many chains end at a place into a row.

    Returns:
        How many limbs the numbers of the pass have now; -1 where their words are too few.
    """
    open_lanes, lanes, bits = open_gates(m, place, 0), get(m, at.P_LANES), get(m, at.H_BITS)
    total, words = get(m, at.A_SPARE), get(m, at.H_WORDS)
    clear(total, min(width_of(m, limbs) + 8, words))
    if open_lanes != 0:
        ask_trees(m, place, total)
        ask_links(m, place, total)
        begin(m, place, total)
    for lane in range(get(m, at.P_HIGH) - get(m, at.P_LOW)):
        if (open_lanes >> lane) & 1 == 0:
            for limb in range(limbs):
                put(total, limb * lanes + lane, 0)
    if any_above(total, limbs - 1, lanes, bits):
        limbs += 1
        if limbs * lanes > (words if lanes == 1 else min(words, get(m, at.H_WIDEST))):
            return -1
    carry(row, total, limbs, lanes, bits)
    return limbs


@kernel()
def hand_on(m: int, place: int, row: int, width: int) -> None:
    """Put the number of a place where later places ask for it."""
    room, nodes, size = get(m, at.H_ROOM), get(m, at.A_NODES), 8 * get(m, at.H_WORDS)
    for term in range(get(m, at.H_TERMS)):
        here = term * room + place - get(m, at.P_START)
        i = get(get(m, at.A_PUT_I), here)
        if i > 0:
            end, tree = get(get(m, at.A_PUT_SIZE), here), get(get(m, at.A_PUT_AT), here) - 1
            while i <= end:
                put_in(nodes + size * (tree + i), row, get(get(m, at.A_HELD), tree + i), width)
                put(get(m, at.A_HELD), tree + i, width)
                i += i & -i


# ---- what is written


@kernel()
def writes(m: int, who: int, place: int, row: int, limbs: int, lanes: int) -> bool:
    """Write the number of a row's first lane, unless there is no room."""
    head, begun = get(m, at.G_HEADS), get(m, at.G_LIMBS)
    if head >= get(m, at.H_HEADS_ROOM) or begun + limbs + 64 > get(m, at.H_LIMBS_ROOM):
        return False
    length = write(get(m, at.A_LIMBS) + 8 * begun, row, limbs, lanes, get(m, at.H_BITS))
    if length > 0:
        entry = get(m, at.A_HEADS) + 8 * at.HEAD_WORDS * head
        put(entry, at.E_WHO, who)
        put(entry, at.E_PLACE, place)
        put(entry, at.E_LIMBS, begun)
        put(m, at.G_HEADS, head + 1)
        put(m, at.G_LIMBS, begun + length)
    return True


@kernel()
def add_lane(target: int, row: int, limbs: int, lanes: int, sign: int) -> None:
    """Add one lane of a row, or subtract it."""
    for limb in range(limbs):
        put(target, limb, get(target, limb) + sign * get(row, limb * lanes))


@kernel()
def read_trees(m: int, column: int, lane: int) -> None:
    """Add to the spare row what trees tell of the places that may stand before a trigger, in one lane."""
    size, columns, lanes = 8 * get(m, at.H_WORDS), get(m, at.H_COLUMNS), get(m, at.P_LANES)
    for term in range(get(m, at.H_TERMS)):
        low = get(get(m, at.A_FROM), term * columns + column)
        if low < 0:
            continue
        keys, count = get(m, at.A_KEYS) + 8 * term * get(m, at.H_ROOM), get(get(m, at.A_KEY_COUNT), term)
        start = place_of(keys, count, low)
        i = place_of(keys, count, get(get(m, at.A_TO), term * columns + column)) - start
        tree = get(get(m, at.A_TREE), term) + start - 1
        while i > 0:
            node, limbs = get(m, at.A_NODES) + size * (tree + i), get(get(m, at.A_HELD), tree + i) // lanes
            add_lane(get(m, at.A_SPARE), node + 8 * lane, limbs, lanes, get(get(m, at.A_SIGN), term))
            i &= i - 1


@kernel()
def read_links(m: int, column: int, lane: int) -> None:
    """Add to the spare row the numbers of the places that are linked to a trigger, in one lane."""
    size, rows, lanes = 8 * get(m, at.H_WORDS), get(m, at.A_ROWS) + 8 * lane, get(m, at.P_LANES)
    for n in range(get(m, at.H_LINKS)):
        link = get(m, at.A_LINK) + 8 * at.LINK_WORDS * n
        if get(link, at.L_TARGET) == at.TRIGGER:
            p = get(get(m, at.A_NEWEST), get(link, at.L_SOURCE))
            while p >= get(m, at.P_FIRST):
                if are_linked(m, link, p, column):
                    n_row = p - get(m, at.P_START)
                    limbs = get(get(m, at.A_FILLED), n_row) // lanes
                    add_lane(get(m, at.A_SPARE), rows + size * n_row, limbs, lanes, 1)
                p = get(get(m, at.A_BEFORE), p)


@kernel()
def read_until(m: int, place: int, limbs: int) -> int:
    """Do all readings of a pass before a place.

    Returns:
        The place before which the next is to be done; -1 where there is no room to write.
    """
    soonest, low = ENDLESS, get(m, at.P_LOW)
    for lane in range(low, get(m, at.P_HIGH)):
        reading, end = get(get(m, at.A_NEXT_READ), lane - low), get(get(m, at.A_READS), lane + 1)
        while reading < end and get(get(m, at.A_STOP), reading) <= place:
            clear(get(m, at.A_SPARE), width_of(m, limbs))
            read_trees(m, get(get(m, at.A_TRIGGER), reading), lane - low)
            read_links(m, get(get(m, at.A_TRIGGER), reading), lane - low)
            if not writes(m, reading, -1, get(m, at.A_SPARE), limbs, 1):
                return -1
            reading += 1
        put(get(m, at.A_NEXT_READ), lane - low, reading)
        if reading < end:
            soonest = min(soonest, get(get(m, at.A_STOP), reading))
    return soonest


@kernel()
def shows(m: int) -> bool:
    """Write the numbers of the places in layers that are asked for, unless there is no room."""
    if get(m, at.H_SHOWN) == 0:
        return True
    low, lanes = get(m, at.P_LOW), get(m, at.P_LANES)
    for lane in range(low, get(m, at.P_HIGH)):
        for p in range(get(get(m, at.A_FIRST), lane), get(get(m, at.A_LAST), lane)):
            if (get(m, at.H_SHOWN) >> get(get(m, at.A_LAYER), p)) & 1:
                n_row = p - get(m, at.P_START)
                row = get(m, at.A_ROWS) + 8 * (get(m, at.H_WORDS) * n_row + lane - low)
                if not writes(m, lane, p, row, get(get(m, at.A_FILLED), n_row) // lanes, lanes):
                    return False
    return True


# ---- passes, blocks, sections


@kernel()
def first_of(m: int, low: int, high: int) -> int:
    """Return the first place of some lanes."""
    first = get(get(m, at.A_FIRST), low)
    for lane in range(low + 1, high):
        first = min(first, get(get(m, at.A_FIRST), lane))
    return first


@kernel()
def last_of(m: int, low: int, high: int) -> int:
    """Return the place after the last of some lanes."""
    last = get(get(m, at.A_LAST), low)
    for lane in range(low + 1, high):
        last = max(last, get(get(m, at.A_LAST), lane))
    return last


@kernel()
def set_out(m: int, low: int, high: int, lanes: int) -> None:
    """Begin a pass over the lanes from `low` to `high`."""
    put(m, at.P_LOW, low)
    put(m, at.P_HIGH, high)
    put(m, at.P_LANES, lanes)
    put(m, at.P_FIRST, first_of(m, low, high))
    put(m, at.P_LAST, last_of(m, low, high))
    for layer in range(get(m, at.H_LAYERS)):
        put(get(m, at.A_NEWEST), layer, -1)
    for lane in range(low, high):
        put(get(m, at.A_NEXT_READ), lane - low, get(get(m, at.A_READS), lane))
    clear(get(m, at.A_HELD), get(m, at.G_NODES))


@kernel()
def count_event(m: int, place: int, after: int, limbs: int) -> int:
    """Count the chains that end at one event, at the places until `after`; return as `count_place` does."""
    size, rows, filled = 8 * get(m, at.H_WORDS), get(m, at.A_ROWS), get(m, at.A_FILLED)
    shift = get(m, at.P_START) if get(m, at.H_KEEPS) else place
    for p in range(place, after):
        row = rows + size * (p - shift)
        limbs = count_place(m, p, row, limbs)
        if limbs < 0:
            return limbs
        put(filled, p - shift, 0 if is_zero(row, width_of(m, limbs)) else width_of(m, limbs))
    for p in range(place, after):
        if get(filled, p - shift):
            hand_on(m, p, rows + size * (p - shift), get(filled, p - shift))
        put(get(m, at.A_NEWEST), get(get(m, at.A_LAYER), p), p)
    return limbs


@kernel()
def count_lanes(m: int, low: int, high: int, lanes: int) -> int:
    """Count in the lanes from `low` to `high` in one pass; return DONE, or why it is to be made again."""
    set_out(m, low, high, lanes)
    heads, written, events = get(m, at.G_HEADS), get(m, at.G_LIMBS), get(m, at.A_EVENT)
    limbs, place, last, why = 1, get(m, at.P_FIRST), get(m, at.P_LAST), at.DONE
    soonest = read_until(m, place, limbs)
    while place < last and soonest >= 0:
        after = place + 1
        while after < last and get(events, after) == get(events, place):
            after += 1
        limbs = count_event(m, place, after, limbs)
        if limbs < 0:
            why = at.LONGER
            break
        place = after
        if place >= soonest:
            soonest = read_until(m, place, limbs)
    if why == at.DONE and (soonest < 0 or not shows(m)):
        why = at.FULL
    if why != at.DONE:
        put(m, at.G_HEADS, heads)
        put(m, at.G_LIMBS, written)
    return why


@kernel()
def count_block(m: int, low: int, high: int) -> int:
    """Count in the lanes of a block, from where the last call stopped; return why this stops."""
    if get(m, at.G_NARROW) == 0 and high - low >= at.FEW:
        why = count_lanes(m, low, high, at.LANES)
        if why != at.LONGER or get(m, at.H_WORDS) < get(m, at.H_WIDEST):
            return why
        put(m, at.G_NARROW, 1)
    for lane in range(low + get(m, at.G_LANE), high):
        why = count_lanes(m, lane, lane + 1, 1)
        if why != at.DONE:
            return why
        put(m, at.G_LANE, lane + 1 - low)
    return at.DONE


@kernel(int64(int64, Ints))
def count_sections(m: int, keys: Any) -> int:
    """Count section by section, from where the last call stopped; return why this one stops.

    Args:
        m: the machine, see `layout`.
        keys: the memory at A_KEYS.
    """
    spent = 0
    while get(m, at.G_SECTION) < get(m, at.H_SECTIONS):
        section = get(m, at.A_SECTIONS) + 8 * get(m, at.G_SECTION)
        if get(m, at.G_READY) == 0:
            low, high = get(get(m, at.A_BLOCKS), get(section, 0)), get(get(m, at.A_BLOCKS), get(section, 1))
            put(m, at.P_START, first_of(m, low, high))
            plant(m, keys, get(m, at.P_START), last_of(m, low, high))
            put(m, at.G_READY, 1)
            put(m, at.G_NARROW, 0)
        while get(m, at.G_BLOCK) < get(section, 1):
            block = get(m, at.A_BLOCKS) + 8 * get(m, at.G_BLOCK)
            why = count_block(m, get(block, 0), get(block, 1))
            if why != at.DONE:
                return why
            put(m, at.G_LANE, 0)
            put(m, at.G_BLOCK, get(m, at.G_BLOCK) + 1)
            spent += (get(m, at.P_LAST) - get(m, at.P_FIRST)) * (get(block, 1) - get(block, 0))
            if spent > get(m, at.H_BUDGET):
                return at.PAUSED
        put(m, at.G_SECTION, get(m, at.G_SECTION) + 1)
        put(m, at.G_READY, 0)
    return at.DONE
