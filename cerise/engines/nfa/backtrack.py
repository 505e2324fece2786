"""Follows one run at a time to its end [SASE08 §5.2.3]; runs that split off wait on a stack.

A run that reaches the end of the chunk waits in its state's list, as in `step`, until more events come; so
matches come as early, and state is as small, as in `step`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.records import Machine, Run
from cerise.engines.automaton.window import MAX, deadline_of, reaches
from cerise.engines.nfa.machine import (
    BARRED,
    bind_event,
    free_list,
    free_run,
    hold_back,
    keep_candidates,
    postpone,
    push,
    record,
    vetoed_now,
)
from cerise.engines.nfa.match_order import keep_best, move_match
from cerise.engines.nfa.matcher import NfaMatcher
from cerise.engines.nfa.step import CONTIGUOUS, TILL_ANY, TILL_NEXT, select_edges
from cerise.kernels.jit import Ints, ask, boolean, int64, kernel, void
from cerise.kernels.records import Words

Array = npt.NDArray[np.int64]
# values of Machine.cursor: IDLE: no partition is under way; ENDED - p: partition p has no more events
IDLE, ENDED = -1, -2


@kernel(void(Ints, Ints, Ints, Ints, Ints, boolean))
def link(mask: Any, part: Any, seen: Any, nexts: Any, firsts: Any, contiguous: bool) -> None:
    """Link each event to the next one of its partition, and mark the first of each."""
    for e in range(len(mask) - 1, -1, -1):
        if part[e] >= 0 and (mask[e] or contiguous):
            nexts[e] = seen[part[e]]
            seen[part[e]] = e
    for e in range(len(mask)):
        if part[e] >= 0 and seen[part[e]] == e:
            firsts[e] = 1


@kernel(void(int64, int64, int64, int64, int64, int64, int64))
def keep_all(
    formulas: Any, machine: int, count: int, mask_of: int, part_of: int, point_of: int, seq0: int
) -> None:
    """Keep all events of a chunk that fit a negated variable before any run moves: runs do go back."""
    m, masks, parts, points = Machine(machine), Words(mask_of), Words(part_of), Words(point_of)
    for e in range(count):
        if masks[e] & m.negated_mask and parts[e] >= 0:
            keep_candidates(formulas, m, masks[e], e, parts[e], points[e], seq0 + e)


@kernel()
def no_room(m: Machine) -> bool:
    """Whether a run may lack room to move, or the caller must first take matches or check the budget."""
    need = m.fan
    m.need = need
    return (
        m.run_count + 2 * need > m.runs.room
        or m.node_count + 2 * need > m.nodes.room
        or m.match_count + need > m.match_room
        or m.match_count > m.full
        or m.live > m.max_runs
    )


@kernel()
def note_best(m: Machine, made: int, e: int) -> None:
    """Remember the event that completes the earliest match, if the query wants only that match."""
    if m.alone and m.match_count > made and (m.best < 0 or e < m.best):
        m.best = e


@kernel()
def follow_run(
    formulas: Any, m: Machine, r: int, masks: Words, points: Words, nexts: Words, seq0: int
) -> bool:
    """Follow one run as far as it goes; False: no room is left, and the run is postponed."""
    mode, states, waits = m.mode, m.state_count, m.waits
    row = m.runs[r]
    part, s, e = row.key // states, row.key % states, row.at
    while e >= 0:
        point, mask, state = points[e], masks[e], m.states[s]
        m.reread += 1
        if m.best >= 0 and e > m.best:
            free_run(m, r)
            return True
        if point > row.deadline:
            if s >= waits:
                record(m, row.node, -1, -1, point, state.branch)
            free_run(m, r)
            return True
        if state.mask & mask == 0:
            if mode == CONTIGUOUS and s < waits:
                free_run(m, r)
                return True
            e = nexts[e]
            continue
        if s >= waits:
            if vetoed_now(formulas, m, r, state.branch, mask, e):
                free_run(m, r)
                return True
            e = nexts[e]
            continue
        if no_room(m):
            postpone(m, r, s, part, e)
            return False
        enabled, direct = select_edges(formulas, m, r, s, mask, e)
        stays = mode == TILL_ANY or (mode == TILL_NEXT and not direct)
        after, made = nexts[e], m.match_count
        m.at = after
        j, moved = state.first, -1
        if enabled == 0 and not stays:
            free_run(m, r)
        while enabled > 0:
            if enabled & 1:
                in_place = enabled == 1 and not stays
                d = bind_event(formulas, m, r, j, e, in_place, part, point, seq0 + e)
                if d >= 0 and in_place:
                    moved = m.edges[j].target
                elif d >= 0:
                    postpone(m, d, m.edges[j].target, part, after)
            enabled >>= 1
            j += 1
        note_best(m, made, e)
        if not stays and moved < 0:
            return True
        s = moved if moved >= 0 else s
        e = after
    if s >= waits:
        hold_back(m, r, part * states + s)
    else:
        push(m, r, part * states + s)
    return True


@kernel()
def open_at(
    formulas: Any, m: Machine, e: int, masks: Words, part: int, points: Words, nexts: Words, seq0: int
) -> None:
    """Open the runs that begin with an event, and postpone them."""
    point = points[e]
    if not reaches(m, point, point) or masks[e] >= BARRED:
        return
    m.runs[0].deadline = deadline_of(m, point)
    made = m.match_count
    m.at = nexts[e]
    for j in range(m.starts, m.starts_end):
        edge = m.edges[j]
        if edge.bit & masks[e] == 0:
            continue
        test = edge.test
        if test >= 0 and ask(formulas, test, m.runs[0], 0, e, m.cols, m.nodes.start) == 0:
            continue
        m.opened += 1
        d = bind_event(formulas, m, 0, j, e, False, part, point, seq0 + e)
        if d >= 0:
            postpone(m, d, edge.target, part, nexts[e])
    note_best(m, made, e)


@kernel()
def take_up(m: Machine, part: int, e: int) -> None:
    """Postpone the runs that wait for the next event of a partition, so that they go on with it."""
    states = m.state_count
    for s in range(states):
        queue = m.lists[part * states + s]
        r = queue.head
        while r >= 0:
            after = m.runs[r].next
            postpone(m, r, s, part, e)
            r = after
        queue.head = -1
        queue.length = 0


@kernel()
def end_round(m: Machine, part: int, nexts: Words, seq0: int) -> None:
    """Keep the best match of this round, and start the next round after it (S7.1)."""
    best, made = m.best, m.made
    if best < 0:
        m.cursor = IDLE
        return
    left = made
    if m.counts:
        m.match_count = made + 1
    else:
        for i in range(made, m.match_count):
            match = m.matches[i]
            end = match.seq
            if end < 0:
                end = m.nodes[match.node].seq
            if end == seq0 + best:
                move_match(m, i, left)
                left += 1
        m.match_count = left
        keep_best(m, made)
    for s in range(m.state_count):
        free_list(m, part * m.state_count + s)
    m.cursor = nexts[best]
    m.best = -1
    m.made = m.match_count


@kernel(int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64))
def retrace(
    formulas: Any,
    machine: int,
    first: int,
    last: int,
    mask_of: int,
    part_of: int,
    point_of: int,
    next_of: int,
    first_of: int,
    seq0: int,
) -> int:
    """Move all runs over a chunk, one run after another; arguments and result are those of `step.advance`.

    If the query wants only matches that do not overlap, it goes through one partition after another:
    `m.cursor` is the event at which the next run opens, `m.best` the event that completes the earliest match
    so far; runs do not look beyond it. The chunk is done when the result is `last` and no run is postponed.
    """
    m, masks, parts, points = Machine(machine), Words(mask_of), Words(part_of), Words(point_of)
    nexts, firsts = Words(next_of), Words(first_of)
    e = first
    while True:
        while m.postponed >= 0:
            r = m.postponed
            m.postponed = m.runs[r].next
            if not follow_run(formulas, m, r, masks, points, nexts, seq0):
                return e
        cursor = m.cursor
        if cursor >= 0 and (m.best < 0 or cursor <= m.best):
            if no_room(m):
                return e
            part = parts[cursor]
            open_at(formulas, m, cursor, masks, part, points, nexts, seq0)
            after = nexts[cursor]
            m.cursor = after if after >= 0 else ENDED - part
            continue
        if cursor != IDLE:
            end_round(m, parts[cursor] if cursor >= 0 else ENDED - cursor, nexts, seq0)
            continue
        if e == last:
            return last
        part = parts[e]
        m.steps += m.live
        m.most_live = max(m.most_live, m.live)
        if part >= 0 and (masks[e] or m.mode == CONTIGUOUS):
            if no_room(m):
                return e
            if firsts[e]:
                take_up(m, part, e)
            if m.alone == 0:
                open_at(formulas, m, e, masks, part, points, nexts, seq0)
            elif firsts[e]:
                m.cursor = e
                m.best = -1
                m.made = m.match_count
        e += 1


class BacktrackMatcher(NfaMatcher):
    """Runs a query one run at a time; a chunk ends when no run is postponed."""

    def _reset(self) -> None:
        super()._reset()
        m = self._memory.m
        m.backtracks = 1
        if m.alone or self.program.bound.query.limit is not None:
            m.full = MAX  # matches are chosen at the end of a chunk

    def _over(self, mask: Array, part: Array, points: Array, seq: int) -> Callable[[int], int]:
        """Link the events of a chunk and keep its candidates; return the function that moves over it."""
        self._memory.make_room_for_candidates(len(mask))
        edge, machine, count = self._formulas.edge, self._memory.address, len(mask)
        given = (mask.ctypes.data, part.ctypes.data, points.ctypes.data)
        nexts, firsts = np.empty(count, np.int64), np.zeros(count, np.int64)
        seen = np.full(len(self._memory.counts), -1, np.int64)
        link(mask, part, seen, nexts, firsts, self.program.mode == CONTIGUOUS)
        keep_all(edge, machine, count, *given, seq)
        return lambda done: retrace(
            edge, machine, done, count, *given, nexts.ctypes.data, firsts.ctypes.data, seq
        )

    def _goes_on(self, done: int, count: int) -> bool:
        m = self._memory.m
        return done < count or m.postponed >= 0 or m.cursor != IDLE

    def _find_stop(self, done: int) -> int:
        postponed = self._memory.m.postponed
        return int(self._memory.runs[postponed, Run.at]) if postponed >= 0 else max(done - 1, 0)
