"""The rows of a pool: in the order of their last events, until their window has passed."""

from __future__ import annotations

from cerise.engines.tree.machine import join_records as at
from cerise.engines.tree.machine.join_records import JoinMachine, JoinRow, Pool, earlier
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words

FEW = 16  # rows that are sorted by insertion


@kernel()
def row_at(pool: Pool, number: int) -> JoinRow:
    """Return a row by its number."""
    return JoinRow(int(pool.rows) + 8 * pool.width * (number - pool.start))


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
                link, moved = index.links[number - pool.start], index.links[number - pool.start + pool.shift]
                link.next, link.jump, link.depth = moved.next, moved.jump, moved.depth


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
