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
    compare,
    earlier,
    later,
)
from cerise.engines.tree.machine.pool_rows import row_at, skip_to
from cerise.engines.tree.machine.row_index import fill_index, find_columns, hash_row, is_null, skip_newer
from cerise.engines.tree.machine.row_skips import fill_skips, flip, skip_runs
from cerise.engines.tree.machine.vetoes import is_vetoed
from cerise.kernels.jit import kernel


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
    """Append the row that binds the events of two rows, unless a negated event vetoes all its matches."""
    out = m.pools[node.out]
    row = row_at(out, out.count)
    row.first, row.last = min(left.first, right.first), max(left.last, right.last)
    row.since, row.until = min(left.since, right.since), max(left.until, right.until)
    for slot in range(node.slots):
        word = m.words[node.moves + slot]
        row[at.HEAD + slot] = left[word] if word >= 0 else right[-1 - word]
    for g in range(node.guards, node.guards_end):
        if is_vetoed(m, m.guards[g], row, row.first, row.since, 0):
            return
    out.count += 1
    node.made += 1


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
            elif node.skip_test >= 0 and outer.old < outer.count:
                fill_skips(m, node.right_skip if m.phase == 0 else node.left_skip, end)
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
    test = m.tests[max(node.skip_test, 0)]
    tried, value, skips, op = 0, 0, node.skip_test >= 0, test.op if phase == 0 else flip(test.op)
    index = m.skips[max(node.right_skip if phase == 0 else node.left_skip, 0)]
    while m.outer < outer.count:
        row = row_at(outer, m.outer)
        if skips:
            value = test.left[row[test.left_word]] if phase == 0 else test.right[row[test.right_word]]
        place = m.inner
        if place < 0:
            least = earlier(row.until, window) if in_order else at.MIN
            after = row.last if order == 1 else at.MIN
            m.low = skip_to(inner, m.low, end, after, least)
            place = m.low
        limit = later(row.since, window) if in_order else at.MAX
        while place < end:
            if skips and place & 15 == 0:
                place = skip_runs(index, inner.start, op, value, place, end)
                if place >= end:
                    break
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
            limit = later(row.since, window) if in_order else at.MAX
            place = skip_newer(index, inner, place, end, row.first if order == 2 else at.MAX, limit)
        least = earlier(row.until, window) if in_order else at.MIN
        while place >= inner.base:
            other = row_at(inner, place)
            if other.until < least or (order == 1 and other.last <= row.last):
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
            place = index.links[place - inner.start].next - 1
        m.inner = -1
        m.outer += 1
        if tried >= m.patience:
            node.candidates += tried
            return at.PAUSED
    node.candidates += tried
    return at.DONE
