"""One run at a time [SASE08 §5.2.3]: it goes on until it ends, all that split off are postponed on a stack.

A run that reaches the end of the chunk waits in its state's list, as with `basic`, until there are more
events; so matches come as early and state is as small as there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cerise.engines.nfa.basic import CONTIGUOUS, TILL_ANY, TILL_NEXT, enabled_edges
from cerise.engines.nfa.choosing import keep_best, move_match
from cerise.engines.nfa.layout import AT, DEADLINE, KEY, M_NODE, M_SEQ, NEXT, NODE, SEQ
from cerise.engines.nfa.machine import (
    A_COLS,
    A_MATCH_ROOM,
    A_NODE_ROOM,
    A_NODES,
    A_RUN_ROOM,
    BARRED,
    G_AT,
    G_BEST,
    G_CURSOR,
    G_LIVE,
    G_MADE,
    G_MATCHES,
    G_MOST,
    G_NEED,
    G_NODES,
    G_OPENED,
    G_POSTPONED,
    G_REREAD,
    G_RUNS,
    G_STEPS,
    H_ALONE,
    H_COUNTS,
    H_FAN,
    H_FULL,
    H_MAX_RUNS,
    H_MODE,
    H_NEG_MASK,
    H_STARTS,
    H_STARTS_END,
    H_STATES,
    H_WAITS,
    L_HEAD,
    L_LENGTH,
    add,
    bind_event,
    deadline_of,
    edge_row,
    free_list,
    free_run,
    keep_candidates,
    list_row,
    match_row,
    node_row,
    postpone,
    push,
    reaches,
    record,
    run_row,
    state_row,
    vetoed_now,
)
from cerise.engines.nfa.rows import E_BIT, E_TARGET, E_TEST, S_BRANCH, S_FIRST, S_MASK
from cerise.engines.nfa.tables import Memory
from cerise.kernels.jit import Ints, ask, boolean, get, int64, kernel, put, void

Words = npt.NDArray[np.int64]
IDLE, ENDED = -1, -2  # in G_CURSOR: no partition is gone through; partition p has no more events: ENDED - p


class Links:
    """For each event of a chunk the next one of its partition that matters, or -1; and who is first."""

    def __init__(self, mask: Words, part: Words, memory: Memory, *, contiguous: bool) -> None:
        self.nexts = np.empty(len(mask), np.int64)
        self.firsts = np.zeros(len(mask), np.int64)
        seen = np.full(len(memory.counts), -1, np.int64)
        link(mask, part, seen, self.nexts, self.firsts, contiguous)


@kernel(void(Ints, Ints, Ints, Ints, Ints, boolean))
def link(mask: Any, part: Any, seen: Any, nexts: Any, firsts: Any, contiguous: bool) -> None:
    """Link the events of each partition, from the last back to the first."""
    for e in range(len(mask) - 1, -1, -1):
        if part[e] >= 0 and (mask[e] or contiguous):
            nexts[e] = seen[part[e]]
            seen[part[e]] = e
    for e in range(len(mask)):
        if part[e] >= 0 and seen[part[e]] == e:
            firsts[e] = 1


@kernel(void(int64, int64, int64, int64, int64, int64, int64))
def keep_all(edge: Any, m: int, count: int, masks: int, parts: int, points: int, seq0: int) -> None:
    """Keep all events of a chunk that fit a negated variable: runs go back to before them."""
    for e in range(count):
        if get(masks, e) & get(m, H_NEG_MASK) and get(parts, e) >= 0:
            keep_candidates(edge, m, get(masks, e), e, get(parts, e), get(points, e), seq0 + e)


@kernel()
def no_room(m: int) -> bool:
    """Whether a run might not find room to move, or something must be done first."""
    need = get(m, H_FAN)
    put(m, G_NEED, need)
    return (
        get(m, G_RUNS) + 2 * need > get(m, A_RUN_ROOM)
        or get(m, G_NODES) + 2 * need > get(m, A_NODE_ROOM)
        or get(m, G_MATCHES) + need > get(m, A_MATCH_ROOM)
        or get(m, G_MATCHES) > get(m, H_FULL)
        or get(m, G_LIVE) > get(m, H_MAX_RUNS)
    )


@kernel()
def note_best(m: int, made: int, e: int) -> None:
    """Remember the event that completes the first match of all, where only that one is wanted."""
    if get(m, H_ALONE) and get(m, G_MATCHES) > made and (get(m, G_BEST) < 0 or e < get(m, G_BEST)):
        put(m, G_BEST, e)


@kernel()
def follow_run(edge: Any, m: int, r: int, masks: int, points: int, nexts: int, seq0: int) -> bool:
    """Take one run as far as it goes; False where there is no room to go on, and it is postponed."""
    mode, states, waits = get(m, H_MODE), get(m, H_STATES), get(m, H_WAITS)
    row = run_row(m, r)
    part, s, e = get(row, KEY) // states, get(row, KEY) % states, get(row, AT)
    while e >= 0:
        point, mask, state = get(points, e), get(masks, e), state_row(m, s)
        add(m, G_REREAD, 1)
        if get(m, G_BEST) >= 0 and e > get(m, G_BEST):
            free_run(m, r)
            return True
        if point > get(row, DEADLINE):
            if s >= waits:
                record(m, get(row, NODE), -1, -1, point, get(state, S_BRANCH))
            free_run(m, r)
            return True
        if get(state, S_MASK) & mask == 0:
            if mode == CONTIGUOUS and s < waits:
                free_run(m, r)
                return True
            e = get(nexts, e)
            continue
        if s >= waits:
            if vetoed_now(edge, m, r, get(state, S_BRANCH), mask, e):
                free_run(m, r)
                return True
            e = get(nexts, e)
            continue
        if no_room(m):
            postpone(m, r, s, part, e)
            return False
        enabled, direct = enabled_edges(edge, m, r, s, mask, e)
        stays = mode == TILL_ANY or (mode == TILL_NEXT and not direct)
        after, made = get(nexts, e), get(m, G_MATCHES)
        put(m, G_AT, after)
        j, moved = get(state, S_FIRST), -1
        if enabled == 0 and not stays:
            free_run(m, r)
        while enabled > 0:
            if enabled & 1:
                in_place = enabled == 1 and not stays
                d = bind_event(edge, m, r, j, e, in_place, part, point, seq0 + e)
                if d >= 0 and in_place:
                    moved = get(edge_row(m, j), E_TARGET)
                elif d >= 0:
                    postpone(m, d, get(edge_row(m, j), E_TARGET), part, after)
            enabled >>= 1
            j += 1
        note_best(m, made, e)
        if not stays and moved < 0:
            return True
        s = moved if moved >= 0 else s
        e = after
    push(m, r, part * states + s)
    return True


@kernel()
def open_at(edge: Any, m: int, e: int, masks: int, part: int, points: int, nexts: int, seq0: int) -> None:
    """Open the runs that begin with an event, and postpone them."""
    point = get(points, e)
    if not reaches(m, point, point) or get(masks, e) >= BARRED:
        return
    put(run_row(m, 0), DEADLINE, deadline_of(m, point))
    made = get(m, G_MATCHES)
    put(m, G_AT, get(nexts, e))
    for j in range(get(m, H_STARTS), get(m, H_STARTS_END)):
        way = edge_row(m, j)
        if get(way, E_BIT) & get(masks, e) == 0:
            continue
        test = get(way, E_TEST)
        if test >= 0 and ask(edge, test, run_row(m, 0), 0, e, get(m, A_COLS), get(m, A_NODES)) == 0:
            continue
        add(m, G_OPENED, 1)
        d = bind_event(edge, m, 0, j, e, False, part, point, seq0 + e)
        if d >= 0:
            postpone(m, d, get(way, E_TARGET), part, get(nexts, e))
    note_best(m, made, e)


@kernel()
def take_up(m: int, part: int, e: int) -> None:
    """Postpone the runs of a partition that wait for its next event: here it is."""
    states = get(m, H_STATES)
    for s in range(states):
        queue = list_row(m, part * states + s)
        r = get(queue, L_HEAD)
        while r >= 0:
            after = get(run_row(m, r), NEXT)
            postpone(m, r, s, part, e)
            r = after
        put(queue, L_HEAD, -1)
        put(queue, L_LENGTH, 0)


@kernel()
def end_round(m: int, part: int, nexts: int, seq0: int) -> None:
    """Keep the best match found since the last one, and begin again after it (S7.1)."""
    best, made = get(m, G_BEST), get(m, G_MADE)
    if best < 0:
        put(m, G_CURSOR, IDLE)
        return
    left = made
    if get(m, H_COUNTS):
        put(m, G_MATCHES, made + 1)
    else:
        for i in range(made, get(m, G_MATCHES)):
            match = match_row(m, i)
            end = get(match, M_SEQ)
            if end < 0:
                end = get(node_row(m, get(match, M_NODE)), SEQ)
            if end == seq0 + best:
                move_match(m, i, left)
                left += 1
        put(m, G_MATCHES, left)
        keep_best(m, made)
    for s in range(get(m, H_STATES)):
        free_list(m, part * get(m, H_STATES) + s)
    put(m, G_CURSOR, get(nexts, best))
    put(m, G_BEST, -1)
    put(m, G_MADE, get(m, G_MATCHES))


@kernel(int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64))
def retrace(
    edge: Any,
    m: int,
    first: int,
    last: int,
    masks: int,
    parts: int,
    points: int,
    nexts: int,
    firsts: int,
    seq0: int,
) -> int:
    """Move all runs over a chunk, one run after another; as `basic.advance`.

    Where only matches that do not overlap are wanted, each partition is gone through on its own: `G_CURSOR`
    is the event at which the next run opens, `G_BEST` the event that completes the first match so far; what
    lies beyond that is not looked at. It is done when it returns `last` and nothing is postponed.
    """
    e = first
    while True:
        while get(m, G_POSTPONED) >= 0:
            r = get(m, G_POSTPONED)
            put(m, G_POSTPONED, get(run_row(m, r), NEXT))
            if not follow_run(edge, m, r, masks, points, nexts, seq0):
                return e
        cursor = get(m, G_CURSOR)
        if cursor >= 0 and (get(m, G_BEST) < 0 or cursor <= get(m, G_BEST)):
            if no_room(m):
                return e
            part = get(parts, cursor)
            open_at(edge, m, cursor, masks, part, points, nexts, seq0)
            after = get(nexts, cursor)
            put(m, G_CURSOR, after if after >= 0 else ENDED - part)
            continue
        if cursor != IDLE:
            end_round(m, get(parts, cursor) if cursor >= 0 else ENDED - cursor, nexts, seq0)
            continue
        if e == last:
            return last
        part = get(parts, e)
        add(m, G_STEPS, get(m, G_LIVE))
        if get(m, G_LIVE) > get(m, G_MOST):
            put(m, G_MOST, get(m, G_LIVE))
        if part >= 0 and (get(masks, e) or get(m, H_MODE) == CONTIGUOUS):
            if no_room(m):
                return e
            if get(firsts, e):
                take_up(m, part, e)
            if get(m, H_ALONE) == 0:
                open_at(edge, m, e, masks, part, points, nexts, seq0)
            elif get(firsts, e):
                put(m, G_CURSOR, e)
                put(m, G_BEST, -1)
                put(m, G_MADE, get(m, G_MATCHES))
        e += 1
