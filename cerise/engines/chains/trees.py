"""Lanes cut into sections, and the Fenwick trees that the lanes of a section share, compiled.

The keys that places of a section have are numbered; those of each bucket are a tree, and a place asks for a
prefix of one. So trees are never larger than the section, whatever the ranks.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.chains import layout as at
from cerise.kernels.jit import Ints, get, kernel, put, void


@kernel(void(Ints, Ints, Ints, Ints, Ints))
def cut(first: Any, last: Any, blocks: Any, sections: Any, sizes: Any) -> None:
    """Cut lanes into blocks that share most of their places, and blocks into sections.

    Args:
        first: the first place of each lane, ascending.
        last: the place after the last of each lane.
        blocks: room for the first lane of each block, and one more.
        sections: room for the first block of each section, and one more.
        sizes: room for the number of blocks, that of sections, and the places of the longest section.
    """
    count, parts, longest = 0, 0, 0
    start, begun, end, far = 0, 0, 0, 0  # a block's first lane, a section's first place, the ends of both
    for lane in range(len(first)):
        own, joint = last[lane] - first[lane], max(end, last[lane]) - first[start]
        if lane > 0 and lane - start < at.LANES and 4 * joint <= 4 * (end - first[start]) + 3 * own:
            end = max(end, last[lane])
        else:
            blocks[count] = start = lane
            end = last[lane]
            if lane == 0 or max(far, end) - begun > 2 * own + 64:
                sections[parts] = count
                begun, far = first[lane], end
                parts += 1
            count += 1
        far = max(far, end)
        longest = max(longest, far - begun)
    blocks[count], sections[parts] = len(first), count
    sizes[0], sizes[1], sizes[2] = count, parts, longest


@kernel()
def place_of(keys: int, count: int, key: int) -> int:
    """Return how many of some ascending words are below a word."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if get(keys, middle) < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def gather_keys(m: int, keys: Any, term: int, first: int, last: int) -> int:
    """Put the distinct keys of a term in order; return how many there are."""
    base, source = term * get(m, at.H_ROOM), get(m, at.A_PUT) + 8 * term * get(m, at.H_COLUMNS)
    count = 0
    for p in range(first, last):
        key = get(source, p)
        if key >= 0 and (count == 0 or keys[base + count - 1] != key):
            keys[base + count] = key
            count += 1
    keys[base : base + count].sort()
    left = 0
    for i in range(count):
        if i == 0 or keys[base + i] != keys[base + left - 1]:
            keys[base + left] = keys[base + i]
            left += 1
    return left


@kernel()
def part_trees(m: int, keys: int, count: int, span: int) -> None:
    """Find out at which key the tree of each key begins, and how many keys it has."""
    starts, sizes = get(m, at.A_STARTS), get(m, at.A_SIZES)
    start = 0
    for i in range(count):
        if get(keys, i) // span != get(keys, start) // span:
            start = i
        put(starts, i, start)
        put(sizes, start, i - start + 1)


@kernel()
def set_places(m: int, term: int, first: int, last: int) -> None:
    """Note where in which tree each place of a section puts its number, and where it asks for one."""
    room, columns = get(m, at.H_ROOM), get(m, at.H_COLUMNS)
    keys, count = get(m, at.A_KEYS) + 8 * term * room, get(get(m, at.A_KEY_COUNT), term)
    tree, starts, sizes = get(get(m, at.A_TREE), term), get(m, at.A_STARTS), get(m, at.A_SIZES)
    for p in range(first, last):
        given, found = term * columns + p, term * room + p - first
        key, low = get(get(m, at.A_PUT), given), get(get(m, at.A_FROM), given)
        put(get(m, at.A_PUT_I), found, 0)
        put(get(m, at.A_ASK_I), found, 0)
        if key >= 0:
            i = place_of(keys, count, key)
            start = get(starts, i)
            put(get(m, at.A_PUT_AT), found, tree + start)
            put(get(m, at.A_PUT_I), found, i - start + 1)
            put(get(m, at.A_PUT_SIZE), found, get(sizes, start))
        if low >= 0:
            start = place_of(keys, count, low) if low > 0 else 0
            put(get(m, at.A_ASK_AT), found, tree + start)
            put(get(m, at.A_ASK_I), found, place_of(keys, count, get(get(m, at.A_TO), given)) - start)


@kernel()
def plant(m: int, keys: Any, first: int, last: int) -> None:
    """Lay out the trees of a section, whose places are given; `keys` is the memory at A_KEYS."""
    nodes = 0
    for term in range(get(m, at.H_TERMS)):
        count = gather_keys(m, keys, term, first, last)
        part_trees(m, get(m, at.A_KEYS) + 8 * term * get(m, at.H_ROOM), count, get(get(m, at.A_SPAN), term))
        put(get(m, at.A_KEY_COUNT), term, count)
        put(get(m, at.A_TREE), term, nodes)
        set_places(m, term, first, last)
        nodes += count
    put(m, at.G_NODES, nodes)
