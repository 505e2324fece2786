"""All runs at once, event by event [SASE08 §5.2.1]; with merging, runs with equal futures as one [§5.2.2]."""

from __future__ import annotations

from typing import Any

from cerise.engines.nfa.choosing import keep_best
from cerise.engines.nfa.layout import AT, DEADLINE, KEY, NEXT, NODE, NULLS
from cerise.engines.nfa.machine import (
    A_CAND_ROOM,
    A_COLS,
    A_MATCH_ROOM,
    A_NODE_ROOM,
    A_NODES,
    A_RUN_ROOM,
    A_SLOTS,
    A_TABLE,
    A_TABLE_MASK,
    BARRED,
    G_CANDS,
    G_LIVE,
    G_MATCHES,
    G_MERGED,
    G_MOST,
    G_NEED,
    G_NODES,
    G_OPENED,
    G_RUNS,
    G_STEPS,
    H_ALONE,
    H_COUNTS,
    H_FAN,
    H_FULL,
    H_KINDS,
    H_MAX_RUNS,
    H_MERGES,
    H_MODE,
    H_NEG_MASK,
    H_START_MASK,
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
    new_join,
    push,
    reaches,
    record,
    run_row,
    state_row,
    unlink,
    vetoed_now,
)  # fmt: skip
from cerise.engines.nfa.rows import (
    E_BIT,
    E_RESULT,
    E_TARGET,
    E_TEST,
    S_BRANCH,
    S_FIRST,
    S_LAST,
    S_MASK,
    S_MERGES,
    S_NULLS,
    S_SLOTS,
    S_SLOTS_END,
)  # fmt: skip
from cerise.kernels.jit import ask, get, int64, kernel, put

CONTIGUOUS, TILL_NEXT, TILL_ANY = range(3)


@kernel()
def enabled_edges(edge: Any, m: int, r: int, s: int, mask: int, e: int) -> tuple[int, bool]:
    """Return the edges that a run may follow, as bits, and whether it may not ignore the event (S3.4)."""
    row, state = run_row(m, r), state_row(m, s)
    first = get(state, S_FIRST)
    enabled, direct = 0, False
    for j in range(first, get(state, S_LAST)):
        way = edge_row(m, j)
        if get(way, E_BIT) & mask:
            result = get(way, E_RESULT)
            if get(way, E_TEST) >= 0:
                result = ask(edge, get(way, E_TEST), row, 0, e, get(m, A_COLS), get(m, A_NODES))
            if result > 0:
                enabled |= 1 << (j - first)
                direct |= result == 2
    return enabled, direct


# ---- merging


@kernel()
def equal_futures(m: int, q: int, r: int, s: int, at: int) -> bool:
    """Whether two runs agree in all that matters from a state on: V[t…]."""
    one, other, state = run_row(m, q), run_row(m, r), state_row(m, s)
    if get(one, KEY) != at or (get(one, NULLS) ^ get(other, NULLS)) & get(state, S_NULLS):
        return False
    for i in range(get(state, S_SLOTS), get(state, S_SLOTS_END)):
        word = get(get(m, A_SLOTS), i)
        if get(one, word) != get(other, word):
            return False
    return True


@kernel()
def absorb(m: int, q: int, r: int) -> None:
    """Let run q stand for run r too; the younger deadline holds."""
    one, other = run_row(m, q), run_row(m, r)
    put(one, NODE, new_join(m, get(one, NODE), get(other, NODE)))
    put(one, DEADLINE, max(get(one, DEADLINE), get(other, DEADLINE)))
    add(m, G_MERGED, 1)
    free_run(m, r)


@kernel()
def merged(m: int, r: int, s: int, part: int) -> bool:
    """Merge a run into one that waits in the same state with an equal future.

    The table remembers one run for each hash. What is overwritten there is only not merged: no answer
    depends on it.
    """
    state, row = state_row(m, s), run_row(m, r)
    if get(state, S_MERGES) == 0:
        return False
    at = part * get(m, H_STATES) + s
    mixed = (at + 1) * 0x9E3779B1 ^ (get(row, NULLS) & get(state, S_NULLS))
    for i in range(get(state, S_SLOTS), get(state, S_SLOTS_END)):
        word = get(row, get(get(m, A_SLOTS), i))
        mixed = ((mixed ^ (word & 0xFFFFFFFF)) * 0x85EBCA6B) & 0x7FFFFFFFFFFF
        mixed = ((mixed ^ ((word >> 32) & 0xFFFFFFFF) ^ (mixed >> 15)) * 0xC2B2) & 0x7FFFFFFFFFFF
    place_in = (mixed ^ (mixed >> 13)) & get(m, A_TABLE_MASK)
    q = get(get(m, A_TABLE), place_in)
    if q < 0 or q == r or q >= get(m, G_RUNS) or not equal_futures(m, q, r, s, at):
        put(get(m, A_TABLE), place_in, r)
        return False
    absorb(m, q, r)
    return True


@kernel()
def place(m: int, r: int, s: int, part: int) -> None:
    """Let a run wait in a state, unless one that waits there has the same future."""
    if get(m, H_MERGES) == 0 or not merged(m, r, s, part):
        push(m, r, part * get(m, H_STATES) + s)


@kernel()
def merge_changed(m: int, s: int, part: int, seq: int) -> None:
    """Merge the runs of a state that have bound the current event and stayed where they were."""
    at = part * get(m, H_STATES) + s
    before, r = -1, get(list_row(m, at), L_HEAD)
    while r >= 0:
        after = get(run_row(m, r), NEXT)
        if get(run_row(m, r), AT) == seq and merged(m, r, s, part):
            unlink(m, at, before, after)
        else:
            before = r
        r = after


# ---- one event


@kernel()
def move_list(edge: Any, m: int, s: int, mask: int, e: int, part: int, point: int, seq: int) -> None:
    """Move the runs that wait in a state; those that expire on the way are freed."""
    mode, at = get(m, H_MODE), part * get(m, H_STATES) + s
    merges = get(m, H_MERGES) > 0 and get(state_row(m, s), S_MERGES) > 0
    first = get(state_row(m, s), S_FIRST)
    fresh = -1  # the runs that come to this state now: they wait until all that were here have moved
    changed, latest = (
        0,
        -1,
    )  # the runs of this state that have bound the event and stayed, and the last of them
    before, r = -1, get(list_row(m, at), L_HEAD)
    while r >= 0:
        row = run_row(m, r)
        after = get(row, NEXT)
        enabled, direct = 0, False
        expired = point > get(row, DEADLINE)
        if not expired:
            enabled, direct = enabled_edges(edge, m, r, s, mask, e)
        stays = not expired and (mode == TILL_ANY or (mode == TILL_NEXT and not direct))
        if stays and enabled == 0:
            before, r = r, after
            continue
        linked, owned = stays, not stays  # whether r is still in the list; whether it is to be freed
        if not stays:
            put(row, KEY, -1)
        j = first
        while enabled > 0:
            if enabled & 1:
                in_place = enabled == 1 and not stays
                d = bind_event(edge, m, r, j, e, in_place, part, point, seq)
                target = get(edge_row(m, j), E_TARGET)
                if in_place:
                    owned = False
                if d >= 0 and target != s:
                    place(m, d, target, part)
                elif d >= 0 and in_place:
                    put(row, KEY, at)
                    put(row, AT, seq)
                    linked = not (merges and latest >= 0 and equal_futures(m, latest, r, s, at))
                    if linked:
                        changed, latest = changed + 1, r
                    else:
                        absorb(m, latest, r)
                elif d >= 0:
                    put(run_row(m, d), KEY, -1)
                    put(run_row(m, d), NEXT, fresh)
                    fresh = d
            enabled >>= 1
            j += 1
        if owned:
            free_run(m, r)
        if linked:
            before = r
        else:
            unlink(m, at, before, after)
        r = after
    if merges and changed > 2:  # two are compared above
        merge_changed(m, s, part, seq)
    while fresh >= 0:
        after = get(run_row(m, fresh), NEXT)
        place(m, fresh, s, part)
        fresh = after


@kernel()
def look_ahead(edge: Any, m: int, s: int, mask: int, e: int, part: int, point: int) -> None:
    """Let the current event veto the matches that wait for nothing like it to happen (S6.2, S6.3)."""
    at = part * get(m, H_STATES) + s
    branch = get(state_row(m, s), S_BRANCH)
    before, r = -1, get(list_row(m, at), L_HEAD)
    while r >= 0:
        after = get(run_row(m, r), NEXT)
        over = point > get(run_row(m, r), DEADLINE)
        if over:
            record(m, get(run_row(m, r), NODE), -1, -1, point, branch)
        if over or vetoed_now(edge, m, r, branch, mask, e):
            free_run(m, r)
            unlink(m, at, before, after)
        else:
            before = r
        r = after


@kernel()
def open_runs(edge: Any, m: int, mask: int, e: int, part: int, point: int, seq: int) -> None:
    """Open the runs that begin with the current event; run 0 is the run that has bound nothing."""
    if not reaches(m, point, point):
        return
    put(run_row(m, 0), DEADLINE, deadline_of(m, point))
    for j in range(get(m, H_STARTS), get(m, H_STARTS_END)):
        way = edge_row(m, j)
        if get(way, E_BIT) & mask == 0:
            continue
        test = get(way, E_TEST)
        if test >= 0 and ask(edge, test, run_row(m, 0), 0, e, get(m, A_COLS), get(m, A_NODES)) == 0:
            continue
        add(m, G_OPENED, 1)
        d = bind_event(edge, m, 0, j, e, False, part, point, seq)
        if d >= 0:
            place(m, d, get(way, E_TARGET), part)


@kernel()
def end_all(m: int, made: int, part: int) -> None:
    """Keep the best of the matches just made; whatever overlaps it ends (S7.1)."""
    if get(m, H_COUNTS):
        put(m, G_MATCHES, made + 1)
    else:
        keep_best(m, made)
    for s in range(get(m, H_STATES)):
        free_list(m, part * get(m, H_STATES) + s)


@kernel()
def has_room(m: int, need: int) -> bool:
    """Whether there is room for what so many moves may make."""
    return (
        get(m, G_RUNS) + 2 * need <= get(m, A_RUN_ROOM)
        and get(m, G_NODES) + 2 * need <= get(m, A_NODE_ROOM)
        and get(m, G_MATCHES) + need <= get(m, A_MATCH_ROOM)
        and get(m, G_CANDS) + get(m, H_KINDS) <= get(m, A_CAND_ROOM)
    )


@kernel()
def lacks_room(m: int, mask: int, part: int) -> bool:
    """Whether an event may need more runs, nodes, candidates or matches than there is room for."""
    states, fan = get(m, H_STATES), get(m, H_FAN)
    if has_room(m, (get(m, G_LIVE) + 1) * fan):
        return False
    moving = 1
    for s in range(states):
        if get(state_row(m, s), S_MASK) & mask:
            moving += get(list_row(m, part * states + s), L_LENGTH)
    need = moving * fan
    put(m, G_NEED, need)
    return not has_room(m, need)


@kernel(int64(int64, int64, int64, int64, int64, int64, int64, int64))
def advance(edge: Any, m: int, first: int, last: int, masks: int, parts: int, points: int, seq0: int) -> int:
    """Move all runs over the events from `first` up to `last`.

    Invariant: the list of a partition and state holds the runs that wait there, and no other is alive.
    Cost: for each event that fits a variable, the runs of its partition that wait for that variable.

    Args:
        edge: the formulas.
        m: the machine.
        first: the event to begin with.
        last: the event to stop before.
        masks: where the events' variables lie.
        parts: where their partitions lie.
        points: where their times or positions lie.
        seq0: the number of event 0 in the stream.

    Returns:
        The event to go on with. Before `last`: matches are to be taken out, there must be more room, or
        the budget on live runs is exceeded.
    """
    mode, states, waits = get(m, H_MODE), get(m, H_STATES), get(m, H_WAITS)
    negations, starts, alone = get(m, H_NEG_MASK), get(m, H_START_MASK), get(m, H_ALONE)
    for e in range(first, last):
        mask, part = get(masks, e), get(parts, e)
        if part < 0 or (mask == 0 and mode != CONTIGUOUS):
            add(m, G_STEPS, get(m, G_LIVE))
            continue
        if (
            get(m, G_MATCHES) > get(m, H_FULL)
            or get(m, G_LIVE) > get(m, H_MAX_RUNS)
            or lacks_room(m, mask, part)
        ):
            return e
        add(m, G_STEPS, get(m, G_LIVE))
        point, seq, made = get(points, e), seq0 + e, get(m, G_MATCHES)
        if mask & negations:
            keep_candidates(edge, m, mask, e, part, point, seq)
        for s in range(waits, states):  # first: an event does not veto the match that it completes
            if get(state_row(m, s), S_MASK) & mask:
                look_ahead(edge, m, s, mask, e, part, point)
        for s in range(waits):
            if get(list_row(m, part * states + s), L_HEAD) < 0:
                continue
            if get(state_row(m, s), S_MASK) & mask:
                move_list(edge, m, s, mask, e, part, point, seq)
            elif mode == CONTIGUOUS:
                free_list(m, part * states + s)
        if mask & starts and mask < BARRED:
            open_runs(edge, m, mask, e, part, point, seq)
        if alone and get(m, G_MATCHES) > made:
            end_all(m, made, part)
        if get(m, G_LIVE) > get(m, G_MOST):
            put(m, G_MOST, get(m, G_LIVE))
    return last
