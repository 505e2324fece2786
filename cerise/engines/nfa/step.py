"""Moves all runs over each event in turn, and merges runs with equal futures [SASE08 §5.2.1, §5.2.2]."""

from __future__ import annotations

from typing import Any

from cerise.engines.automaton.records import Machine
from cerise.engines.automaton.window import deadline_of, reaches
from cerise.engines.nfa.machine import (
    BARRED,
    bind_event,
    free_list,
    free_run,
    keep_candidates,
    new_join,
    push,
    record,
    unlink,
    vetoed_now,
)
from cerise.engines.nfa.match_order import keep_best
from cerise.kernels.jit import ask, int64, kernel
from cerise.kernels.records import Words

CONTIGUOUS, TILL_NEXT, TILL_ANY = range(3)


@kernel()
def select_edges(formulas: Any, m: Machine, r: int, s: int, mask: int, e: int) -> tuple[int, bool]:
    """Return the edges that a run can follow, as bits, and whether it must not ignore the event (S3.4)."""
    row, state = m.runs[r], m.states[s]
    first = state.first
    enabled, direct = 0, False
    for j in range(first, state.last):
        edge = m.edges[j]
        if edge.bit & mask:
            result = edge.result
            if edge.test >= 0:
                result = ask(formulas, edge.test, row, 0, e, m.cols, m.nodes.start)
            if result > 0:
                enabled |= 1 << (j - first)
                direct |= result == 2
    return enabled, direct


# ---- merging


@kernel()
def equal_futures(m: Machine, q: int, r: int, s: int, at: int) -> bool:
    """Whether two runs agree in all values that edges from a state on read: V[t…]."""
    x, y, state = m.runs[q], m.runs[r], m.states[s]
    if x.key != at or (x.nulls ^ y.nulls) & state.nulls:
        return False
    for i in range(state.slots, state.slots_end):
        word = m.slots[i]
        if x[word] != y[word]:
            return False
    return True


@kernel()
def absorb(m: Machine, q: int, r: int) -> None:
    """Merge run r into run q; the later deadline holds."""
    run, old = m.runs[q], m.runs[r]
    run.node = new_join(m, run.node, old.node)
    run.deadline = max(run.deadline, old.deadline)
    m.merged += 1
    free_run(m, r)


@kernel()
def try_merge(m: Machine, r: int, s: int, part: int) -> bool:
    """Merge a run into one that waits in the same state with an equal future; False: there is none.

    The table holds one run for each hash. A run that another overwrites there is not merged, which costs
    time and never changes the result.
    """
    state, row = m.states[s], m.runs[r]
    if state.merges == 0:
        return False
    at = part * m.state_count + s
    mixed = (at + 1) * 0x9E3779B1 ^ (row.nulls & state.nulls)
    for i in range(state.slots, state.slots_end):
        word = row[m.slots[i]]
        mixed = ((mixed ^ (word & 0xFFFFFFFF)) * 0x85EBCA6B) & 0x7FFFFFFFFFFF
        mixed = ((mixed ^ ((word >> 32) & 0xFFFFFFFF) ^ (mixed >> 15)) * 0xC2B2) & 0x7FFFFFFFFFFF
    place_in = (mixed ^ (mixed >> 13)) & m.table_mask
    q = m.table[place_in]
    if q < 0 or q == r or q >= m.run_count or not equal_futures(m, q, r, s, at):
        m.table[place_in] = r
        return False
    absorb(m, q, r)
    return True


@kernel()
def place(m: Machine, r: int, s: int, part: int) -> None:
    """Add a run to the list of a state, unless it merges with a run that waits there."""
    if m.merges == 0 or not try_merge(m, r, s, part):
        push(m, r, part * m.state_count + s)


@kernel()
def merge_in_place(m: Machine, s: int, part: int, seq: int) -> None:
    """Merge the runs that have bound the current event and stayed in their state."""
    at = part * m.state_count + s
    before, r = -1, m.lists[at].head
    while r >= 0:
        after = m.runs[r].next
        if m.runs[r].at == seq and try_merge(m, r, s, part):
            unlink(m, at, before, after)
        else:
            before = r
        r = after


# ---- one event


@kernel()
def move_list(formulas: Any, m: Machine, s: int, mask: int, e: int, part: int, point: int, seq: int) -> None:
    """Move the runs that wait in a state, and free expired runs."""
    mode, at = m.mode, part * m.state_count + s
    merges = m.merges > 0 and m.states[s].merges > 0
    first = m.states[s].first
    fresh = -1  # new runs of this state, as a list: they join it when all its old runs have moved
    changed, latest = 0, -1  # how many runs bound the event and stayed, and the last of these runs
    before, r = -1, m.lists[at].head
    while r >= 0:
        row = m.runs[r]
        after = row.next
        enabled, direct = 0, False
        expired = point > row.deadline
        if not expired:
            enabled, direct = select_edges(formulas, m, r, s, mask, e)
        stays = not expired and (mode == TILL_ANY or (mode == TILL_NEXT and not direct))
        if stays and enabled == 0:
            before, r = r, after
            continue
        linked, owned = stays, not stays  # whether r stays in the list; whether r must be freed
        if not stays:
            row.key = -1
        j = first
        while enabled > 0:
            if enabled & 1:
                in_place = enabled == 1 and not stays
                d = bind_event(formulas, m, r, j, e, in_place, part, point, seq)
                target = m.edges[j].target
                if in_place:
                    owned = False
                if d >= 0 and target != s:
                    place(m, d, target, part)
                elif d >= 0 and in_place:
                    row.key = at
                    row.at = seq
                    linked = not (merges and latest >= 0 and equal_futures(m, latest, r, s, at))
                    if linked:
                        changed, latest = changed + 1, r
                    else:
                        absorb(m, latest, r)
                elif d >= 0:
                    m.runs[d].key = -1
                    m.runs[d].next = fresh
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
    if merges and changed > 2:  # the loop has compared neighbours only, which is enough for two
        merge_in_place(m, s, part, seq)
    while fresh >= 0:
        after = m.runs[fresh].next
        place(m, fresh, s, part)
        fresh = after


@kernel()
def look_ahead(formulas: Any, m: Machine, s: int, mask: int, e: int, part: int, point: int) -> None:
    """Let the current event veto waiting matches, and record those whose window has passed (S6.2, S6.3)."""
    at = part * m.state_count + s
    branch = m.states[s].branch
    before, r = -1, m.lists[at].head
    while r >= 0:
        after = m.runs[r].next
        over = point > m.runs[r].deadline
        if over:
            record(m, m.runs[r].node, -1, -1, point, branch)
        if over or vetoed_now(formulas, m, r, branch, mask, e):
            free_run(m, r)
            unlink(m, at, before, after)
        else:
            before = r
        r = after


@kernel()
def open_runs(formulas: Any, m: Machine, mask: int, e: int, part: int, point: int, seq: int) -> None:
    """Open the runs that begin with the current event, from run 0, which has bound no event."""
    if not reaches(m, point, point):
        return
    m.runs[0].deadline = deadline_of(m, point)
    for j in range(m.starts, m.starts_end):
        edge = m.edges[j]
        if edge.bit & mask == 0:
            continue
        test = edge.test
        if test >= 0 and ask(formulas, test, m.runs[0], 0, e, m.cols, m.nodes.start) == 0:
            continue
        m.opened += 1
        d = bind_event(formulas, m, 0, j, e, False, part, point, seq)
        if d >= 0:
            place(m, d, edge.target, part)


@kernel()
def end_all(m: Machine, made: int, part: int) -> None:
    """Keep the best of the matches just made, and end all runs, which overlap it (S7.1)."""
    if m.counts:
        m.match_count = made + 1
    else:
        keep_best(m, made)
    for s in range(m.state_count):
        free_list(m, part * m.state_count + s)


@kernel()
def has_room(m: Machine, need: int) -> bool:
    """Whether there is room for the runs, nodes and matches that `need` moves may make."""
    return (
        m.run_count + 2 * need <= m.runs.room
        and m.node_count + 2 * need <= m.nodes.room
        and m.match_count + need <= m.match_room
        and m.cand_count + m.kinds <= m.cands.room
    )


@kernel()
def lacks_room(m: Machine, mask: int, part: int) -> bool:
    """Whether an event may need more runs, nodes, candidates or matches than there is room for."""
    states, fan = m.state_count, m.fan
    if has_room(m, (m.live + 1) * fan):
        return False
    moving = 1
    for s in range(states):
        if m.states[s].mask & mask:
            moving += m.lists[part * states + s].length
    need = moving * fan
    m.need = need
    return not has_room(m, need)


@kernel(int64(int64, int64, int64, int64, int64, int64, int64, int64))
def advance(
    formulas: Any, machine: int, first: int, last: int, mask_of: int, part_of: int, point_of: int, seq0: int
) -> int:
    """Move all runs over the events from `first` up to `last`.

    Invariant: the list of a partition and state holds the runs that wait there; no other run is alive.
    Cost: for each event that fits a variable, the runs of its partition that wait for that variable.

    Args:
        formulas: the compiled formulas of the query.
        machine: the address of the machine.
        first: the event to begin with.
        last: the event to stop before.
        mask_of: the address of the variables that each event fits, as bits.
        part_of: the address of the events' partitions.
        point_of: the address of the events' times or positions.
        seq0: the number of event 0 in the stream.

    Returns:
        The event to go on with. If it is before `last`, the caller must take out matches, make more room, or
        refuse the query, which has exceeded its budget of live runs.
    """
    m, masks, parts, points = Machine(machine), Words(mask_of), Words(part_of), Words(point_of)
    mode, states, waits = m.mode, m.state_count, m.waits
    negations, starts, alone = m.negated_mask, m.start_mask, m.alone
    for e in range(first, last):
        mask, part = masks[e], parts[e]
        if part < 0 or (mask == 0 and mode != CONTIGUOUS):
            m.steps += m.live
            continue
        if m.match_count > m.full or m.live > m.max_runs or lacks_room(m, mask, part):
            return e
        m.steps += m.live
        point, seq, made = points[e], seq0 + e, m.match_count
        if mask & negations:
            keep_candidates(formulas, m, mask, e, part, point, seq)
        for s in range(waits, states):  # first: an event does not veto the match that it completes
            if m.states[s].mask & mask:
                look_ahead(formulas, m, s, mask, e, part, point)
        for s in range(waits):
            if m.lists[part * states + s].head < 0:
                continue
            if m.states[s].mask & mask:
                move_list(formulas, m, s, mask, e, part, point, seq)
            elif mode == CONTIGUOUS:
                free_list(m, part * states + s)
        if mask & starts and mask < BARRED:
            open_runs(formulas, m, mask, e, part, point, seq)
        if alone and m.match_count > made:
            end_all(m, made, part)
        m.most_live = max(m.most_live, m.live)
    return last
