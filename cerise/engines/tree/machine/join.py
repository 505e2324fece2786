"""Joins rows of two pools, semi-naively: new rows on the left with all on the right, then the reverse.

One kernel runs every node of every plan: a node is a record, a test is a comparison of two columns. So a plan
costs nothing to start, and another plan is another table. Inner rows come from a stretch of the pool that the
window bounds, or from the chain of rows whose key has the same hash.
"""

from __future__ import annotations

from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import (
    JoinMachine,
    JoinNode,
    JoinRow,
    Pool,
    PoolIndex,
    column_of,
    compare,
    earlier,
    later,
)
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words

HASHED = 0x1E3779B97F4A7C15  # an odd number whose bits spread the bits of a key
FEW = 16  # rows that are sorted by insertion


@kernel()
def row_at(pool: Pool, number: int) -> JoinRow:
    """Return a row by its number."""
    return JoinRow(int(pool.rows) + 8 * pool.width * (number - pool.start))


# ---- columns and keys


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


# ---- one node


@kernel()
def passes(m: JoinMachine, node: JoinNode, left: JoinRow, right: JoinRow) -> bool:
    """Whether two rows pass the tests of a node."""
    for t in range(node.tests, node.tests_end):
        test = m.tests[t]
        one, other = left[test.left_word], right[test.right_word]
        if not compare(test.op, test.left[one], test.right[other]):
            return False
        if is_null(test.left_flags, test.left_bit, one) or is_null(test.right_flags, test.right_bit, other):
            return False
    return True


@kernel()
def is_near(order: int, window: int, outer: JoinRow, inner: JoinRow) -> bool:
    """Whether two rows fit one window, and the inner row comes after the outer one (1), before it (2)."""
    if order == 1 and inner.first <= outer.last:
        return False
    if order == 2 and inner.last >= outer.first:
        return False
    return inner.until <= later(outer.since, window) and outer.until <= later(inner.since, window)


@kernel()
def write_row(m: JoinMachine, node: JoinNode, left: JoinRow, right: JoinRow) -> None:
    """Append the row that binds the events of two rows."""
    out = m.pools[node.out]
    row = row_at(out, out.count)
    row.first, row.last = min(left.first, right.first), max(left.last, right.last)
    row.since, row.until = min(left.since, right.since), max(left.until, right.until)
    for slot in range(node.slots):
        word = m.words[node.moves + slot]
        row[at.HEAD + slot] = left[word] if word >= 0 else right[-1 - word]
    out.count += 1
    node.made += 1


@kernel()
def skip_to(pool: Pool, low: int, end: int, last: int, until: int) -> int:
    """Return the first row from `low` on whose last event is after `last` and not before point `until`."""
    step = 1
    while low + step < end:
        row = row_at(pool, low + step)
        if row.last > last and row.until >= until:
            break
        low += step
        step += step
    high = min(low + step, end)
    while low < high:
        middle = (low + high) >> 1
        row = row_at(pool, middle)
        if row.last > last and row.until >= until:
            high = middle
        else:
            low = middle + 1
    return low


@kernel()
def join(m: JoinMachine, n: int) -> int:
    """Join the new rows of a node's pools; returns why it stops, and goes on from there when called again."""
    node = m.nodes[n]
    left, right = m.pools[node.left], m.pools[node.right]
    if left.old == left.count and right.old == right.count:
        return at.DONE
    find_columns(m, node)
    while m.phase < 2:
        outer, end = (left, right.count) if m.phase == 0 else (right, left.old)
        inner = right if m.phase == 0 else left
        index = node.right_index if m.phase == 0 else node.left_index
        if m.begun == 0:
            if index >= 0:
                status = fill_index(m, index, end)
                if status != at.DONE:
                    return status
            m.outer, m.low, m.inner, m.begun = outer.old, inner.base, -1, 1
        status = at.DONE
        if inner.base < end:
            status = scan(m, node, outer, inner, end) if index < 0 else follow(m, node, outer, inner, end)
        if status != at.DONE:
            return status
        m.phase += 1
        m.begun = 0
    m.phase = 0
    return at.DONE


@kernel()
def order_in(m: JoinMachine, node: JoinNode) -> int:
    """Return whether inner rows come after outer ones (1), before them (2), or either (0)."""
    if node.order == at.MIXED:
        return 0
    return 1 if (node.order == at.LEFT_FIRST) == (m.phase == 0) else 2


@kernel()
def scan(m: JoinMachine, node: JoinNode, outer: Pool, inner: Pool, end: int) -> int:
    """Join outer rows with the stretch of inner rows that their windows reach."""
    order, window, in_order, phase = order_in(m, node), node.window, inner.in_order, m.phase
    out = m.pools[node.out]
    tried = 0
    while m.outer < outer.count:
        row = row_at(outer, m.outer)
        place = m.inner
        if place < 0:
            least = earlier(row.until, window) if in_order else at.MIN
            after = row.last if order == 1 else at.MIN
            m.low = skip_to(inner, m.low, end, after, least)
            place = m.low
        limit = later(row.since, window) if in_order else at.MAX
        while place < end:
            other = row_at(inner, place)
            if other.until > limit or (order == 2 and other.last >= row.first):
                break
            tried += 1
            if is_near(order, window, row, other):
                one, two = (row, other) if phase == 0 else (other, row)
                if passes(m, node, one, two):
                    if out.count - out.start >= out.room:
                        m.inner = place
                        m.needs = node.out
                        node.candidates += tried - 1
                        return at.POOL_FULL
                    write_row(m, node, one, two)
            place += 1
        m.inner = -1
        m.outer += 1
        if tried >= m.patience:
            node.candidates += tried
            return at.PAUSED
    node.candidates += tried
    return at.DONE


@kernel()
def follow(m: JoinMachine, node: JoinNode, outer: Pool, inner: Pool, end: int) -> int:
    """Join outer rows with the chains of inner rows whose key has the same hash, the newest first."""
    order, window, in_order, phase = order_in(m, node), node.window, inner.in_order, m.phase
    index = m.indexes[node.right_index if phase == 0 else node.left_index]
    own = m.indexes[node.left_index if phase == 0 else node.right_index]
    out = m.pools[node.out]
    tried = 0
    while m.outer < outer.count:
        row = row_at(outer, m.outer)
        place = m.inner
        if place < 0:
            found = hash_row(m, own, row)
            place = index.heads[found & index.mask] - 1 if found >= 0 else -1
        least = earlier(row.until, window) if in_order else at.MIN
        while place >= inner.base:
            other = row_at(inner, place)
            if other.until < least or (order == 1 and other.last <= row.last):
                break
            if place < end:
                tried += 1
                if is_near(order, window, row, other):
                    one, two = (row, other) if phase == 0 else (other, row)
                    if passes(m, node, one, two):
                        if out.count - out.start >= out.room:
                            m.inner = place
                            m.needs = node.out
                            node.candidates += tried - 1
                            return at.POOL_FULL
                        write_row(m, node, one, two)
            place = index.next[place - inner.start] - 1
        m.inner = -1
        m.outer += 1
        if tried >= m.patience:
            node.candidates += tried
            return at.PAUSED
    node.candidates += tried
    return at.DONE


# ---- the order of a pool


@kernel()
def sort_new(m: JoinMachine, pool: Pool) -> int:
    """Put the new rows of a pool in the order of their last events, by two passes over half of the bits."""
    count, width = pool.count - pool.old, pool.width
    rows = Words(int(row_at(pool, pool.old)))
    if is_sorted(rows, count, width):
        return at.DONE
    if count <= FEW:
        insert_rows(rows, count, width)
        return at.DONE
    half = 1
    while 1 << (2 * half) < m.piece_size:
        half += 1
    if m.scratch_room < count * width + (1 << half) + 1:
        m.needs = count * width + (1 << half) + 1
        return at.SCRATCH_FULL
    counts, other = m.scratch, Words(int(m.scratch) + 8 * ((1 << half) + 1))
    spread_rows(rows, other, counts, count, width, m.piece_first, 0, half)
    spread_rows(other, rows, counts, count, width, m.piece_first, half, half)
    return at.DONE


@kernel()
def is_sorted(rows: Words, count: int, width: int) -> bool:
    """Whether rows are in the order of their last events."""
    for i in range(1, count):
        if rows[i * width + at.LAST_EVENT] < rows[(i - 1) * width + at.LAST_EVENT]:
            return False
    return True


@kernel()
def insert_rows(rows: Words, count: int, width: int) -> None:
    """Sort few rows, each by exchanges with the rows before it."""
    for i in range(1, count):
        j = i
        while j > 0 and rows[j * width + at.LAST_EVENT] < rows[(j - 1) * width + at.LAST_EVENT]:
            for w in range(width):
                kept = rows[j * width + w]
                rows[j * width + w] = rows[(j - 1) * width + w]
                rows[(j - 1) * width + w] = kept
            j -= 1


@kernel()
def spread_rows(
    rows: Words, to: Words, counts: Words, count: int, width: int, first: int, shift: int, half: int
) -> None:
    """Copy rows in the order of some bits of their last event's number."""
    mask = (1 << half) - 1
    for d in range(mask + 2):
        counts[d] = 0
    for i in range(count):
        counts[((rows[i * width + at.LAST_EVENT] - first) >> shift & mask) + 1] += 1
    for d in range(mask + 1):
        counts[d + 1] += counts[d]
    for i in range(count):
        digit = (rows[i * width + at.LAST_EVENT] - first) >> shift & mask
        place = counts[digit]
        counts[digit] = place + 1
        for w in range(width):
            to[place * width + w] = rows[i * width + w]


# ---- rows whose window has passed


@kernel()
def expire(m: JoinMachine, time: int, position: int) -> None:
    """Let rows go that no event from a time and a position on can join."""
    for p in range(m.pool_count):
        pool = m.pools[p]
        pool.old = pool.count
        pool.shift = 0
        if pool.window >= 0 and pool.in_order != 0:
            least = earlier(position if pool.by_position != 0 else time, pool.window)
            while pool.base < pool.count and row_at(pool, pool.base).until < least:
                pool.base += 1
        gone = pool.base - pool.start
        if 2 * gone > pool.room:
            move_rows(m, p, gone)
    for i in range(m.index_count):
        index = m.indexes[i]
        pool = m.pools[index.pool]
        if pool.shift > 0:
            for number in range(pool.start, index.done):
                index.next[number - pool.start] = index.next[number - pool.start + pool.shift]


@kernel()
def move_rows(m: JoinMachine, p: int, gone: int) -> None:
    """Move the rows of a pool to the front of its memory."""
    pool = m.pools[p]
    kept, rows = pool.count - pool.base, pool.rows
    for word in range(kept * pool.width):
        rows[word] = rows[word + gone * pool.width]
    if p < m.leaf_count:
        leaf = m.leaves[p]
        columns = leaf.columns
        for column in range(leaf.width):
            first = column * leaf.room
            for number in range(kept):
                columns[first + number] = columns[first + number + gone]
    pool.start = pool.base
    pool.shift = gone
