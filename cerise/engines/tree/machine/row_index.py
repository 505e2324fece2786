"""The columns that joins read, and indexes of rows: chains of the rows whose key has the same hash."""

from __future__ import annotations

from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import JoinMachine, JoinNode, JoinRow, PoolIndex, column_of
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
            index.next[r - pool.start] = index.heads[place]
            index.heads[place] = r + 1
    index.done = max(index.done, end)
    return at.DONE
