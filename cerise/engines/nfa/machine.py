"""A matcher's state in memory, and the small steps that all kernels share.

A machine is one row of words: registers, settings, and where the tables of runs, nodes, candidates and
matches lie. Kernels are given its address alone: passing arrays around would cost more than the work.
Nothing here grows a table; `basic` and `backtrack` ask for room before they move a run.
"""

from __future__ import annotations

from typing import Any

from cerise.engines.nfa.layout import (
    AT,
    CAND_POINT,
    CAND_PREV,
    CAND_SEQ,
    DEADLINE,
    JOIN,
    KEPT,
    KEY,
    LEAST,
    M_BRANCH,
    M_NODE,
    M_POINT,
    M_SEQ,
    M_VAR,
    MATCH_WORDS,
    MOST,
    NEXT,
    NODE,
    PREV,
    RIGHT,
    SEQ,
    STAMP,
    TOTAL,
    VAR,
)  # fmt: skip
from cerise.engines.nfa.rows import (
    B_AHEAD,
    B_AHEAD_END,
    B_NEGATES,
    B_PAST,
    B_PAST_END,
    B_WAIT,
    B_WORDS,
    BETWEEN,
    E_ACCEPT_TEST,
    E_ACCEPTS,
    E_BRANCH,
    E_TERMINAL,
    E_UPDATE,
    E_VAR,
    E_WORDS,
    LEADING,
    N_AFTER,
    N_BEFORE,
    N_FIRST,
    N_NUMBER,
    N_POINT,
    N_RANGE,
    N_TEST,
    N_WORDS,
    S_WORDS,
    V_BIT,
    V_KEPT,
    V_WORDS,
    V_WRITE,
)  # fmt: skip
from cerise.kernels.jit import ask, get, kernel, put

MAX = 2**63 - 1
NEVER = -(2**63)
BARRED = 1 << 62  # in an event's mask: no match may start with it
COUNTING = 2  # in H_MERGES: merge, and count the matches of a node

# registers: where the pools end, and what was counted
(
    G_LIVE, G_FREE, G_RUNS, G_NODES, G_CANDS, G_MATCHES, G_COUNT, G_MOST, G_STEPS, G_MERGED, G_OPENED,
    G_BOUND, G_REREAD, G_OVERFLOW, G_NEED, G_POSTPONED, G_AT, G_CURSOR, G_BEST, G_MADE,
    # settings
    H_MODE, H_WITHIN, H_SLIDE, H_BY_POSITION, H_ALONE, H_COUNTS, H_MERGES, H_MAX_RUNS, H_NODES, H_STATES,
    H_STARTS, H_STARTS_END, H_START_MASK, H_NEG_MASK, H_FAN, H_FULL, H_WAITS, H_KINDS, H_BACKTRACKS,
    # tables: where they lie, how long a row is in bytes, how many rows there is room for
    A_RUNS, A_RUN_BYTES, A_RUN_ROOM, A_NODES, A_NODE_BYTES, A_NODE_ROOM, A_CANDS, A_CAND_BYTES, A_CAND_ROOM,
    A_MATCHES, A_MATCH_ROOM, A_HEADS, A_CAND_HEADS, A_TABLE, A_TABLE_MASK, A_STACK,
    A_EDGES, A_STATES, A_SLOTS, A_BRANCHES, A_NEGATIONS, A_NEGATED, A_COLS,
    MACHINE_WORDS,
) = range(63)  # fmt: skip

# a list of runs
L_HEAD, L_LENGTH, LIST_WORDS = range(3)


# ---- rows


@kernel()
def run_row(m: int, r: int) -> int:
    """Return where a run lies."""
    return get(m, A_RUNS) + get(m, A_RUN_BYTES) * r


@kernel()
def node_row(m: int, n: int) -> int:
    """Return where a node lies."""
    return get(m, A_NODES) + get(m, A_NODE_BYTES) * n


@kernel()
def cand_row(m: int, c: int) -> int:
    """Return where a candidate lies."""
    return get(m, A_CANDS) + get(m, A_CAND_BYTES) * c


@kernel()
def match_row(m: int, i: int) -> int:
    """Return where a match lies."""
    return get(m, A_MATCHES) + 8 * MATCH_WORDS * i


@kernel()
def edge_row(m: int, j: int) -> int:
    """Return where an edge lies."""
    return get(m, A_EDGES) + 8 * E_WORDS * j


@kernel()
def state_row(m: int, s: int) -> int:
    """Return where a state lies."""
    return get(m, A_STATES) + 8 * S_WORDS * s


@kernel()
def branch_row(m: int, b: int) -> int:
    """Return where a branch lies."""
    return get(m, A_BRANCHES) + 8 * B_WORDS * b


@kernel()
def negation_row(m: int, i: int) -> int:
    """Return where a negation lies."""
    return get(m, A_NEGATIONS) + 8 * N_WORDS * i


@kernel()
def negated_row(m: int, i: int) -> int:
    """Return where a negated variable lies."""
    return get(m, A_NEGATED) + 8 * V_WORDS * i


@kernel()
def list_row(m: int, at: int) -> int:
    """Return where the list of a partition's state lies."""
    return get(m, A_HEADS) + 8 * LIST_WORDS * at


@kernel()
def add(m: int, register: int, amount: int) -> None:
    """Add to a register."""
    put(m, register, get(m, register) + amount)


# ---- runs


@kernel()
def new_run(m: int, source: int) -> int:
    """Return a new run with the words of another."""
    r = get(m, G_FREE)
    if r >= 0:
        put(m, G_FREE, get(run_row(m, r), NEXT))
    else:
        r = get(m, G_RUNS)
        put(m, G_RUNS, r + 1)
    row, old = run_row(m, r), run_row(m, source)
    for i in range(get(m, A_RUN_BYTES) >> 3):
        put(row, i, get(old, i))
    add(m, G_LIVE, 1)
    return r


@kernel()
def free_run(m: int, r: int) -> None:
    """Give a run back."""
    row = run_row(m, r)
    put(row, KEY, -1)
    put(row, NEXT, get(m, G_FREE))
    put(m, G_FREE, r)
    add(m, G_LIVE, -1)


@kernel()
def free_list(m: int, at: int) -> None:
    """Give back all runs of a list."""
    r = get(list_row(m, at), L_HEAD)
    while r >= 0:
        after = get(run_row(m, r), NEXT)
        free_run(m, r)
        r = after
    put(list_row(m, at), L_HEAD, -1)
    put(list_row(m, at), L_LENGTH, 0)


@kernel()
def push(m: int, r: int, at: int) -> None:
    """Put a run at the head of a list."""
    row, queue = run_row(m, r), list_row(m, at)
    put(row, NEXT, get(queue, L_HEAD))
    put(row, KEY, at)
    put(queue, L_HEAD, r)
    put(queue, L_LENGTH, get(queue, L_LENGTH) + 1)


@kernel()
def postpone(m: int, r: int, s: int, part: int, at: int) -> None:
    """Put a run on the stack of those that go on later, with an event of the chunk."""
    row = run_row(m, r)
    put(row, KEY, part * get(m, H_STATES) + s)
    put(row, AT, at)
    put(row, NEXT, get(m, G_POSTPONED))
    put(m, G_POSTPONED, r)


@kernel()
def unlink(m: int, at: int, before: int, after: int) -> None:
    """Take out of a list the run between two others; -1 is the head."""
    queue = list_row(m, at)
    if before < 0:
        put(queue, L_HEAD, after)
    else:
        put(run_row(m, before), NEXT, after)
    put(queue, L_LENGTH, get(queue, L_LENGTH) - 1)


@kernel()
def deadline_of(m: int, point: int) -> int:
    """Return the last point, in time or in position, that a run opened at a point may reach (§5)."""
    within, slide = get(m, H_WITHIN), get(m, H_SLIDE)
    if within < 0:
        return MAX
    if slide == 0:
        return until(m, point)
    left = within - 1 - point % slide  # to the end of the last window that begins at the point or before
    if left < 0:
        return NEVER
    return MAX if point > MAX - left else point + left


@kernel()
def reaches(m: int, point: int, later: int) -> bool:
    """Whether one window holds a point and a later one, or the same: SLIDE may leave gaps (S5.3)."""
    slide = get(m, H_SLIDE)
    if slide > 0 and point % slide >= get(m, H_WITHIN):
        return False  # the least of all times may be in a gap, and NEVER is not before it
    return deadline_of(m, point) >= later


@kernel()
def until(m: int, point: int) -> int:
    """Return the last point that is within w of a point, whatever SLIDE says (S6.2–S6.4)."""
    within = get(m, H_WITHIN)
    return MAX if point > MAX - within else point + within - get(m, H_BY_POSITION)


@kernel()
def since_when(m: int, point: int) -> int:
    """Return the first point that is within w of a point, whatever SLIDE says (S6.2–S6.4)."""
    within = get(m, H_WITHIN)
    return NEVER if point < NEVER + within else point - within + get(m, H_BY_POSITION)


# ---- the shared buffer [SASE08 §5.1]


@kernel()
def new_node(m: int, r: int, seq: int, var: int) -> int:
    """Return a node for an event that a run binds."""
    n = get(m, G_NODES)
    put(m, G_NODES, n + 1)
    row, run = node_row(m, n), run_row(m, r)
    prev = get(run, NODE)
    put(row, PREV, prev)
    put(row, SEQ, seq)
    put(row, VAR, var)
    if get(m, H_MERGES):
        old = node_row(m, prev)
        put(row, MOST, get(run, DEADLINE) if prev < 0 else get(old, MOST))
        if get(m, H_MERGES) == COUNTING:
            put(row, LEAST, get(run, DEADLINE) if prev < 0 else get(old, LEAST))
            put(row, TOTAL, 1 if prev < 0 else get(old, TOTAL))
            put(row, STAMP, NEVER)
    add(m, G_BOUND, 1)
    return n


@kernel()
def new_join(m: int, left: int, right: int) -> int:
    """Return a node that stands for either of two."""
    n = get(m, G_NODES)
    put(m, G_NODES, n + 1)
    row, one, other = node_row(m, n), node_row(m, left), node_row(m, right)
    put(row, PREV, left)
    put(row, RIGHT, right)
    put(row, VAR, JOIN)
    put(row, MOST, max(get(one, MOST), get(other, MOST)))
    if get(m, H_MERGES) == COUNTING:
        put(row, LEAST, min(get(one, LEAST), get(other, LEAST)))
        put(row, TOTAL, sum_of(get(one, TOTAL), get(other, TOTAL)))
        put(row, STAMP, NEVER)
    return n


@kernel()
def sum_of(x: int, y: int) -> int:
    """Return a sum of counts, as much as fits."""
    return MAX if x > MAX - y else x + y


@kernel()
def in_chain(m: int, node: int, seq: int) -> bool:
    """Whether a match binds an event."""
    while node >= 0 and get(node_row(m, node), SEQ) > seq:
        node = get(node_row(m, node), PREV)
    return node >= 0 and get(node_row(m, node), SEQ) == seq


@kernel()
def alive_paths(m: int, node: int, now: int) -> int:
    """Return how many of the matches that end in a node started within the window.

    A node whose starts are all alive, or all dead, answers at once; the others are asked once each, their
    answer kept with them for the moment `now`.
    """
    if get(node_row(m, node), LEAST) >= now:
        return get(node_row(m, node), TOTAL)
    stack, depth = get(m, A_STACK), 1
    put(stack, 0, node)
    while depth > 0:
        row = node_row(m, get(stack, depth - 1))
        total, waits = 0, False
        for side in range(2 if get(row, VAR) == JOIN else 1):
            child = get(row, RIGHT if side else PREV)
            if child < 0 or get(node_row(m, child), MOST) < now:
                continue
            below = node_row(m, child)
            if get(below, LEAST) >= now:
                total = sum_of(total, get(below, TOTAL))
            elif get(below, STAMP) == now:
                total = sum_of(total, get(below, KEPT))
            else:
                put(stack, depth, child)
                depth += 1
                waits = True
        if not waits:
            put(row, STAMP, now)
            put(row, KEPT, total)
            depth -= 1
    return get(node_row(m, node), KEPT)


# ---- negation (§6)


@kernel()
def keep_candidates(edge: Any, m: int, mask: int, e: int, part: int, point: int, seq: int) -> None:
    """Keep an event for the negated variables that it fits."""
    kinds = get(m, H_KINDS)
    for i in range(kinds):
        row = negated_row(m, i)
        if get(row, V_BIT) & mask == 0 or get(row, V_KEPT) == 0:
            continue
        n = get(m, G_CANDS)
        put(m, G_CANDS, n + 1)
        cand = cand_row(m, n)
        put(cand, CAND_PREV, get(get(m, A_CAND_HEADS), part * kinds + i))
        put(cand, CAND_SEQ, seq)
        put(cand, CAND_POINT, point)
        put(get(m, A_CAND_HEADS), part * kinds + i, n)
        ask(edge, get(row, V_WRITE), 0, cand, e, get(m, A_COLS), 0)


@kernel()
def vetoed(edge: Any, m: int, r: int, branch: int, part: int, point: int, seq: int) -> bool:
    """Whether something that must not be lies in the past of a match just made."""
    run = run_row(m, r)
    for i in range(get(branch_row(m, branch), B_PAST), get(branch_row(m, branch), B_PAST_END)):
        row = negation_row(m, i)
        kind, test = get(row, N_RANGE), get(row, N_TEST)
        above, below, since = -1, seq + 1, NEVER
        if kind == BETWEEN:
            above, below = get(run, get(row, N_AFTER)), get(run, get(row, N_BEFORE))
        elif kind == LEADING:
            below = get(run, get(row, N_FIRST))
        if kind != BETWEEN and get(m, H_WITHIN) >= 0:
            since = since_when(m, point)
        c = get(get(m, A_CAND_HEADS), part * get(m, H_KINDS) + get(row, N_NUMBER))
        while c >= 0 and get(cand_row(m, c), CAND_SEQ) > above and get(cand_row(m, c), CAND_POINT) >= since:
            cand = cand_row(m, c)
            apart = get(cand, CAND_SEQ) < below and not in_chain(m, get(run, NODE), get(cand, CAND_SEQ))
            if apart and (test < 0 or ask(edge, test, run, cand, 0, get(m, A_COLS), get(m, A_NODES)) > 0):
                return True
            c = get(cand, CAND_PREV)
    return False


@kernel()
def vetoed_now(edge: Any, m: int, r: int, branch: int, mask: int, e: int) -> bool:
    """Whether the current event must not follow a waiting match; candidate 0 is scratch for it."""
    scratch = cand_row(m, 0)
    for i in range(get(branch_row(m, branch), B_AHEAD), get(branch_row(m, branch), B_AHEAD_END)):
        row = negation_row(m, i)
        negated = negated_row(m, get(row, N_NUMBER))
        if get(negated, V_BIT) & mask == 0:
            continue
        ask(edge, get(negated, V_WRITE), 0, scratch, e, get(m, A_COLS), 0)
        test = get(row, N_TEST)
        if test < 0 or ask(edge, test, run_row(m, r), scratch, e, get(m, A_COLS), get(m, A_NODES)) > 0:
            return True
    return False


# ---- matches


@kernel()
def record(m: int, node: int, seq: int, var: int, point: int, branch: int) -> None:
    """Note a match, or only count it."""
    if get(m, H_COUNTS) and not get(m, H_ALONE):
        found = 1
        if get(m, H_MERGES) and node >= 0:
            found = alive_paths(m, node, point)
        put(m, G_COUNT, sum_of(get(m, G_COUNT), found))
        if get(m, G_COUNT) == MAX:
            put(m, G_OVERFLOW, 1)
        return
    i = get(m, G_MATCHES)
    put(m, G_MATCHES, i + 1)
    row = match_row(m, i)
    put(row, M_NODE, node)
    put(row, M_SEQ, seq)
    put(row, M_VAR, var)
    put(row, M_POINT, point)
    put(row, M_BRANCH, branch)


@kernel()
def accept(edge: Any, m: int, d: int, branch: int, part: int, point: int, seq: int) -> None:
    """Note the match of a run that has reached a final state, or let it wait for what must not follow."""
    row = branch_row(m, branch)
    if get(row, B_NEGATES):
        if vetoed(edge, m, d, branch, part, point, seq):
            return
        if get(row, B_WAIT) >= 0:
            w = new_run(m, d)
            start = get(run_row(m, d), get(negation_row(m, get(row, B_AHEAD)), N_POINT))
            put(run_row(m, w), DEADLINE, until(m, start))
            if get(m, H_BACKTRACKS):
                postpone(m, w, get(row, B_WAIT), part, get(m, G_AT))
            else:
                push(m, w, part * get(m, H_STATES) + get(row, B_WAIT))
            return
    record(m, get(run_row(m, d), NODE), -1, -1, point, branch)


@kernel()
def bind_event(
    edge: Any, m: int, r: int, j: int, e: int, in_place: bool, part: int, point: int, seq: int
) -> int:
    """Let run r follow edge j with the current event; note the match it may make.

    Returns:
        The run that goes on: r itself where in_place, else a new one; -1 where none does.
    """
    way, run = edge_row(m, j), run_row(m, r)
    branch = get(way, E_BRANCH)
    judged = get(way, E_ACCEPT_TEST) < 0 and not get(branch_row(m, branch), B_NEGATES)
    if get(way, E_TERMINAL) and judged:
        record(m, get(run, NODE), seq, get(way, E_VAR), point, branch)
        if in_place:
            free_run(m, r)
        return -1
    d = r if in_place else new_run(m, r)
    row = run_row(m, d)
    if get(m, H_NODES) == 1 or (get(m, H_NODES) == 2 and get(run, NODE) < 0):
        put(row, NODE, new_node(m, r, seq, get(way, E_VAR)))
    cols, nodes = get(m, A_COLS), get(m, A_NODES)
    if get(way, E_UPDATE) >= 0:
        ask(edge, get(way, E_UPDATE), run, row, e, cols, nodes)
    if get(way, E_ACCEPTS):
        test = get(way, E_ACCEPT_TEST)
        if test < 0 or ask(edge, test, row, 0, e, cols, nodes) > 0:
            accept(edge, m, d, branch, part, point, seq)
    if get(way, E_TERMINAL):
        free_run(m, d)
        return -1
    return d
