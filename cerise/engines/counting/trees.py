"""Kernels that cut lanes into sections, and lay out the Fenwick trees that the lanes of a section share.

The keys of a section's places are numbered; the keys of each bucket form a tree, and a place sums a prefix of
a tree. So trees are never larger than the section, whatever the ranks.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.counting.records import LANES, CountMemory
from cerise.kernels.jit import Ints, kernel, void
from cerise.kernels.records import Words


@kernel(void(Ints, Ints, Ints, Ints, Ints))
def split_lanes(first: Any, last: Any, blocks: Any, sections: Any, sizes: Any) -> None:
    """Cut lanes into blocks that share most of their places, and blocks into sections.

    Args:
        first: the first place of each lane, ascending.
        last: the place after the last of each lane.
        blocks: room for the first lane of each block, and one more.
        sections: room for the first block of each section, and one more.
        sizes: room for the number of blocks, the number of sections, and the places of the longest section.
    """
    count, parts, longest = 0, 0, 0
    start, begun, end, far = 0, 0, 0, 0  # a block's first lane, a section's first place, and their ends
    for lane in range(len(first)):
        own, joint = last[lane] - first[lane], max(end, last[lane]) - first[start]
        if lane > 0 and lane - start < LANES and 4 * joint <= 4 * (end - first[start]) + 3 * own:
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
def place_of(keys: Words, count: int, key: int) -> int:
    """Return how many of the ascending keys are below a key."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel()
def gather_keys(m: CountMemory, keys: Any, term: int, first: int, last: int) -> int:
    """Sort the distinct keys of a term; return how many there are."""
    base, source = term * m.room, m.puts[term * m.columns :]
    count = 0
    for p in range(first, last):
        key = source[p]
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
def part_trees(m: CountMemory, keys: Words, count: int, span: int) -> None:
    """Write for each key the first key of its tree, and for each tree how many keys it has."""
    starts, sizes = m.starts, m.sizes
    start = 0
    for i in range(count):
        if keys[i] // span != keys[start] // span:
            start = i
        starts[i] = start
        sizes[start] = i - start + 1


@kernel()
def set_places(m: CountMemory, term: int, first: int, last: int) -> None:
    """Write for each place of a section where in which tree its number is stored, and which sum it reads."""
    room, columns = m.room, m.columns
    keys, count = m.keys[term * room :], m.key_count[term]
    tree, starts, sizes = m.trees[term], m.starts, m.sizes
    for p in range(first, last):
        given, found = term * columns + p, term * room + p - first
        key, low = m.puts[given], m.lows[given]
        m.put_i[found] = 0
        m.ask_i[found] = 0
        if key >= 0:
            i = place_of(keys, count, key)
            start = starts[i]
            m.put_at[found] = tree + start
            m.put_i[found] = i - start + 1
            m.put_size[found] = sizes[start]
        if low >= 0:
            start = place_of(keys, count, low) if low > 0 else 0
            m.ask_at[found] = tree + start
            m.ask_i[found] = place_of(keys, count, m.highs[given]) - start


@kernel()
def plant(m: CountMemory, keys: Any, first: int, last: int) -> None:
    """Lay out the trees of a section from its first to its last place; `keys` is the array of `m.keys`."""
    nodes = 0
    for term in range(m.terms):
        count = gather_keys(m, keys, term, first, last)
        part_trees(m, m.keys[term * m.room :], count, m.spans[term])
        m.key_count[term] = count
        m.trees[term] = nodes
        set_places(m, term, first, last)
        nodes += count
    m.node_count = nodes
