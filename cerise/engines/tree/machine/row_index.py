"""The columns that joins read, and indexes of rows: chains of the rows whose key has the same hash."""

from __future__ import annotations

from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import (
    JoinMachine,
    JoinNode,
    JoinRow,
    Pool,
    PoolIndex,
    column_of,
)
from cerise.engines.tree.machine.pool_rows import row_at
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words

HASHED = 0x1E3779B97F4A7C15  # an odd number whose bits spread the bits of a key


@kernel()
def flags_of(m: JoinMachine, leaf: int, flag: int) -> int:
    """Return the address of a column of flags; 0: no event of the leaf has a null."""
    if flag < 0 or m.leaves[leaf].nulls == 0:
        return 0
    return column_of(m, leaf, flag)


@kernel()
def find_columns(m: JoinMachine, node: JoinNode) -> None:
    """Write the addresses of all columns that a node reads: leaves may have moved since the last piece."""
    for t in range(node.tests, node.tests_end):
        test = m.tests[t]
        test.left = Words(column_of(m, test.left_leaf, test.left_column))
        test.right = Words(column_of(m, test.right_leaf, test.right_column))
        test.left_flags = Words(flags_of(m, test.left_leaf, test.left_flag))
        test.right_flags = Words(flags_of(m, test.right_leaf, test.right_flag))
    if node.left_index >= 0:
        find_keys(m, m.indexes[node.left_index])
        find_keys(m, m.indexes[node.right_index])


@kernel()
def find_keys(m: JoinMachine, index: PoolIndex) -> None:
    """Write the addresses of the columns that an index reads."""
    for k in range(index.keys, index.keys_end):
        key = m.keys[k]
        key.values = Words(column_of(m, key.leaf, key.column))
        key.flags = Words(flags_of(m, key.leaf, key.flag))


@kernel()
def is_null(flags: Words, bit: int, row: int) -> bool:
    """Whether a row has a null in a column; without flags no row has."""
    return int(flags) != 0 and flags[row] & bit != 0


@kernel()
def mix(found: int, value: int) -> int:
    """Return a hash with one more value in it."""
    mixed = ((found ^ value) * HASHED) & at.MAX
    return mixed ^ (mixed >> 29)


@kernel()
def hash_row(m: JoinMachine, index: PoolIndex, row: JoinRow) -> int:
    """Return the hash of a row's key; -1: a part of the key is null, and equals nothing."""
    found = 0
    for k in range(index.keys, index.keys_end):
        key = m.keys[k]
        event = row[key.word]
        if is_null(key.flags, key.bit, event):
            return -1
        found = mix(found, key.values[event])
    return found


@kernel()
def fill_index(m: JoinMachine, number: int, end: int) -> int:
    """Add the rows of a pool up to `end` to an index."""
    index = m.indexes[number]
    pool = m.pools[index.pool]
    if index.room < pool.room:
        m.needs = number
        return at.INDEX_FULL
    index.done = max(index.done, pool.base)
    for r in range(index.done, end):
        found = hash_row(m, index, row_at(pool, r))
        if found >= 0:
            place = found & index.mask
            link_row(index, pool.start, r, index.heads[place] - 1)
            index.heads[place] = r + 1
    index.done = max(index.done, end)
    return at.DONE


@kernel()
def link_row(index: PoolIndex, start: int, row: int, older: int) -> None:
    """Put a row before the newest row of its chain; rows before `start` have left the memory."""
    link = index.links[row - start]
    link.next, link.jump, link.depth = older + 1, row + 1, 0
    if older < start:
        return
    last = index.links[older - start]
    link.jump, link.depth = older + 1, last.depth + 1
    if last.jump > start:
        far = index.links[last.jump - 1 - start]
        if far.jump > start:
            farther = index.links[far.jump - 1 - start]
            if last.depth - far.depth == far.depth - farther.depth:
                link.jump = far.jump


@kernel()
def skip_newer(index: PoolIndex, pool: Pool, row: int, end: int, before: int, limit: int) -> int:
    """Return the newest row of a chain, from `row` on, that may join.

    Args:
        index: the chains.
        pool: their rows.
        row: the row to start at.
        end: the number of the row before which it must be.
        before: the number of the event before which its last event must be.
        limit: the point that its last event must not exceed; in a pool without order, the greatest integer.
    """
    while row >= pool.base and is_newer(pool, row, end, before, limit):
        link = index.links[row - pool.start]
        jump = link.jump - 1
        may_jump = pool.base <= jump < row and is_newer(pool, jump, end, before, limit)
        row = jump if may_jump else link.next - 1
    return row


@kernel()
def is_newer(pool: Pool, number: int, end: int, before: int, limit: int) -> bool:
    """Whether a row is beyond one of the bounds of `skip_newer`."""
    row = row_at(pool, number)
    return number >= end or row.last >= before or row.until > limit
