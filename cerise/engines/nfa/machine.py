"""The operations on a matcher's memory that all kernels share: runs, nodes, vetoes and matches.

Kernels take the address of one record, the machine: passing arrays would cost more than the work. No function
here grows a table; `step` and `backtrack` check that there is room before they move a run.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.automaton.layout import BETWEEN, COUNTING, JOIN, LEADING
from cerise.engines.automaton.records import Join, Machine
from cerise.engines.automaton.window import MAX, NEVER, since_when, until
from cerise.kernels.jit import ask, kernel

BARRED = 1 << 62  # in an event's mask: no match may start with it


# ---- runs


@kernel()
def new_run(m: Machine, source: int) -> int:
    """Return a new run, a copy of another."""
    r = m.free
    if r >= 0:
        m.free = m.runs[r].next
    else:
        r = m.run_count
        m.run_count = r + 1
    row, old = m.runs[r], m.runs[source]
    for i in range(m.runs.width >> 3):
        row[i] = old[i]
    m.live += 1
    return r


@kernel()
def free_run(m: Machine, r: int) -> None:
    """Put a run on the free list."""
    row = m.runs[r]
    row.key = -1
    row.next = m.free
    m.free = r
    m.live -= 1


@kernel()
def free_list(m: Machine, at: int) -> None:
    """Free all runs of a list."""
    r = m.lists[at].head
    while r >= 0:
        after = m.runs[r].next
        free_run(m, r)
        r = after
    m.lists[at].head = -1
    m.lists[at].length = 0


@kernel()
def push(m: Machine, r: int, at: int) -> None:
    """Put a run at the head of a list."""
    row, queue = m.runs[r], m.lists[at]
    row.next = queue.head
    row.key = at
    queue.head = r
    queue.length += 1


@kernel()
def hold_back(m: Machine, r: int, at: int) -> None:
    """Put a match that waits for a veto at the head of a list."""
    queue, deadline = m.lists[at], m.runs[r].deadline
    if queue.head < 0 or deadline < queue.least:
        queue.least = deadline
    push(m, r, at)


@kernel()
def postpone(m: Machine, r: int, s: int, part: int, at: int) -> None:
    """Put a run on the stack of postponed runs; it goes on with event `at` of the chunk."""
    row = m.runs[r]
    row.key = part * m.state_count + s
    row.at = at
    row.next = m.postponed
    m.postponed = r


@kernel()
def unlink(m: Machine, at: int, before: int, after: int) -> None:
    """Remove from a list the run between two others; `before` is -1 at the head."""
    queue = m.lists[at]
    if before < 0:
        queue.head = after
    else:
        m.runs[before].next = after
    queue.length -= 1


# ---- the shared buffer [SASE08 §5.1]


@kernel()
def new_node(m: Machine, r: int, seq: int, var: int) -> int:
    """Return a node for an event that a run binds."""
    n = m.node_count
    m.node_count = n + 1
    row, run = m.nodes[n], m.runs[r]
    prev = run.node
    row.prev = prev
    row.seq = seq
    row.var = var
    if m.merges:
        old = m.nodes[prev]
        row.most = run.deadline if prev < 0 else old.most
        if m.merges == COUNTING:
            row.least = run.deadline if prev < 0 else old.least
            row.total = 1 if prev < 0 else old.total
            row.stamp = NEVER
    m.bound += 1
    return n


@kernel()
def new_join(m: Machine, left: int, right: int) -> int:
    """Return a node that stands for either of two nodes."""
    n = m.node_count
    m.node_count = n + 1
    row, x, y = Join(m.nodes[n]), m.nodes[left], m.nodes[right]
    row.left = left
    row.right = right
    row.var = JOIN
    row.most = max(x.most, y.most)
    if m.merges == COUNTING:
        row.least = min(x.least, y.least)
        row.total = sum_of(x.total, y.total)
        row.stamp = NEVER
    return n


@kernel()
def sum_of(x: int, y: int) -> int:
    """Return a sum of counts, at most MAX."""
    return MAX if x > MAX - y else x + y


@kernel()
def in_chain(m: Machine, node: int, seq: int) -> bool:
    """Whether a match binds an event."""
    while node >= 0 and m.nodes[node].seq > seq:
        node = m.nodes[node].prev
    return node >= 0 and m.nodes[node].seq == seq


@kernel()
def alive_paths(m: Machine, node: int, now: int) -> int:
    """Return how many of the matches that end in a node started within the window.

    The count of a node is known at once if all its starts are alive, or all dead. Each other node is counted
    once, and keeps its count for the moment `now`.
    """
    if m.nodes[node].least >= now:
        return m.nodes[node].total
    stack, depth = m.stack, 1
    stack[0] = node
    while depth > 0:
        row = m.nodes[stack[depth - 1]]
        total, waits = 0, False
        for side in range(2 if row.var == JOIN else 1):
            child = Join(row).right if side else row.prev
            if child < 0 or m.nodes[child].most < now:
                continue
            below = m.nodes[child]
            if below.least >= now:
                total = sum_of(total, below.total)
            elif below.stamp == now:
                total = sum_of(total, below.kept)
            else:
                stack[depth] = child
                depth += 1
                waits = True
        if not waits:
            row.stamp = now
            row.kept = total
            depth -= 1
    return m.nodes[node].kept


# ---- negation: events that must not occur (S6)


@kernel()
def keep_candidates(formulas: Any, m: Machine, mask: int, e: int, part: int, point: int, seq: int) -> None:
    """Keep an event as a candidate for each negated variable that it fits."""
    kinds = m.kinds
    for i in range(kinds):
        row = m.negated[i]
        if row.bit & mask == 0 or row.kept == 0:
            continue
        n = m.cand_count
        m.cand_count = n + 1
        cand = m.cands[n]
        cand.prev = m.cand_heads[part * kinds + i]
        cand.seq = seq
        cand.point = point
        m.cand_heads[part * kinds + i] = n
        ask(formulas, row.write, 0, cand, e, m.cols, 0)


@kernel()
def vetoed(formulas: Any, m: Machine, r: int, branch: int, part: int, point: int, seq: int) -> bool:
    """Whether a candidate from before the end of a match just made vetoes it."""
    run = m.runs[r]
    for i in range(m.branches[branch].past, m.branches[branch].past_end):
        row = m.negations[i]
        kind, test = row.range, row.test
        above, below, since = -1, seq + 1, NEVER
        if kind == BETWEEN:
            above, below = run[row.after], run[row.before]
        elif kind == LEADING:
            below = run[row.first]
        if kind != BETWEEN and m.within >= 0:
            since = since_when(m, point)
        c = m.cand_heads[part * m.kinds + row.number]
        while c >= 0 and m.cands[c].seq > above and m.cands[c].point >= since:
            cand = m.cands[c]
            apart = cand.seq < below and not in_chain(m, run.node, cand.seq)
            if apart and (test < 0 or ask(formulas, test, run, cand, 0, m.cols, m.nodes.start) > 0):
                return True
            c = cand.prev
    return False


@kernel()
def vetoed_now(formulas: Any, m: Machine, r: int, branch: int, mask: int, e: int) -> bool:
    """Whether the current event vetoes a waiting match; candidate 0 is scratch space for the event."""
    scratch = m.cands[0]
    for i in range(m.branches[branch].ahead, m.branches[branch].ahead_end):
        row = m.negations[i]
        negated = m.negated[row.number]
        if negated.bit & mask == 0:
            continue
        ask(formulas, negated.write, 0, scratch, e, m.cols, 0)
        test = row.test
        if test < 0 or ask(formulas, test, m.runs[r], scratch, e, m.cols, m.nodes.start) > 0:
            return True
    return False


# ---- matches


@kernel()
def record(m: Machine, node: int, seq: int, var: int, point: int, branch: int) -> None:
    """Record a match, or only count it."""
    if m.counts and not m.alone:
        found = 1
        if m.merges and node >= 0:
            found = alive_paths(m, node, point)
        m.counted = sum_of(m.counted, found)
        if m.counted == MAX:
            m.overflow = 1
        return
    i = m.match_count
    m.match_count = i + 1
    row = m.matches[i]
    row.node = node
    row.seq = seq
    row.var = var
    row.point = point
    row.branch = branch


@kernel()
def accept(formulas: Any, m: Machine, d: int, branch: int, part: int, point: int, seq: int) -> None:
    """Record the match of a run in a final state, or let it wait until no later event can veto it."""
    row = m.branches[branch]
    if row.negates:
        if vetoed(formulas, m, d, branch, part, point, seq):
            return
        if row.wait >= 0:
            w = new_run(m, d)
            start = m.runs[d][m.negations[row.ahead].point]
            m.runs[w].deadline = until(m, start)
            if m.backtracks:
                postpone(m, w, row.wait, part, m.at)
            else:
                hold_back(m, w, part * m.state_count + row.wait)
            return
    record(m, m.runs[d].node, -1, -1, point, branch)


@kernel()
def bind_event(
    formulas: Any, m: Machine, r: int, j: int, e: int, in_place: bool, part: int, point: int, seq: int
) -> int:
    """Move run r along edge j with the current event, and record the match it may complete.

    Returns:
        The run that goes on: r itself if in_place, else a new run; -1 if no run goes on.
    """
    edge, run = m.edges[j], m.runs[r]
    branch = edge.branch
    judged = edge.accept_test < 0 and not m.branches[branch].negates
    if edge.terminal and judged:
        record(m, run.node, seq, edge.var, point, branch)
        if in_place:
            free_run(m, r)
        return -1
    d = r if in_place else new_run(m, r)
    row = m.runs[d]
    if m.keeps_nodes == 1 or (m.keeps_nodes == 2 and run.node < 0):
        row.node = new_node(m, r, seq, edge.var)
    cols, nodes = m.cols, m.nodes.start
    if edge.update >= 0:
        ask(formulas, edge.update, run, row, e, cols, nodes)
    if edge.accepts:
        test = edge.accept_test
        if test < 0 or ask(formulas, test, row, 0, e, cols, nodes) > 0:
            accept(formulas, m, d, branch, part, point, seq)
    if edge.terminal:
        free_run(m, d)
        return -1
    return d
