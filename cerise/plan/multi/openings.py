"""Moves on one sub-pattern and all its patterns: open it, as a facility that is paid for once, or close it.

A move that does not lower the cost of the plan is undone from its log, in the time that it took.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cerise.kernels.jit import Ints, boolean, int64, kernel
from cerise.kernels.join_dp import (
    INF,
    Ask,
    IntArray,
    JoinPlan,
    JoinTables,
    Plan,
    Tables,
    enter,
    is_node,
    leave,
    respond,
    spread,
    type_of,
)

GAIN = 1 - 1e-9  # a plan is cheaper if its cost is below this share: less is rounding


class MoveLog(NamedTuple):
    """How the patterns that a move takes out of a plan were planned."""

    patterns: IntArray
    numbers: IntArray  # of the nodes of their trees
    splits: IntArray
    counts: IntArray  # of patterns, of nodes


Log = type_of(MoveLog)


def empty_log(tables: JoinTables) -> MoveLog:
    """Return a log with room for all patterns of a workload."""
    numbers, splits = np.zeros((2, int(tables.sizes.sum())), np.int64)
    return MoveLog(np.zeros(len(tables.sizes), np.int64), numbers, splits, np.zeros(2, np.int64))


@kernel()
def take_out(t: JoinTables, plan: JoinPlan, log: MoveLog, p: int) -> None:
    """Take a pattern out of a plan, and write down its tree."""
    log.patterns[log.counts[0]] = p
    log.counts[0] += 1
    ids, places, split, stack, first = t.ids, t.places, plan.split, plan.stack, t.start[p]
    numbers, splits, count = log.numbers, log.splits, log.counts[1]
    stack[0], depth = (1 << t.sizes[p]) - 1, 1
    while depth:
        depth -= 1
        mask = stack[depth]
        if mask & (mask - 1) == 0:
            continue
        number = ids[first + mask]
        numbers[count], splits[count] = number, split[number]
        count += 1
        left = spread(split[number], places[first + mask])
        stack[depth], stack[depth + 1] = left, mask ^ left
        depth += 2
    log.counts[1] = count
    leave(t, plan, p, (1 << t.sizes[p]) - 1)


@kernel()
def undo(t: JoinTables, plan: JoinPlan, log: MoveLog, total: float) -> None:
    """Put back the trees of a log; the plan's cost was `total`."""
    for i in range(log.counts[0]):
        p = log.patterns[i]
        if plan.present[p]:
            leave(t, plan, p, (1 << t.sizes[p]) - 1)
    for i in range(log.counts[1]):
        if plan.users[log.numbers[i]] == 0:
            plan.split[log.numbers[i]] = log.splits[i]
    for i in range(log.counts[0]):
        p = log.patterns[i]
        enter(t, plan, p, (1 << t.sizes[p]) - 1, False)
    plan.total[0] = total


@kernel()
def take_out_holders(t: JoinTables, plan: JoinPlan, log: MoveLog, number: int) -> int:
    """Take all patterns that hold a sub-pattern out of a plan; return the heaviest entry."""
    log.counts[:] = 0
    lead: int = t.holders[t.holder_first[number]]
    for i in range(t.holder_first[number], t.holder_first[number + 1]):
        entry = t.holders[i]
        p = t.owner[entry]
        if plan.present[p]:
            take_out(t, plan, log, p)
        if t.weights[entry] > t.weights[lead]:
            lead = entry
    return lead


@kernel(int64(Tables, Plan, Log, Ints, boolean))
def open_each(t: JoinTables, plan: JoinPlan, log: MoveLog, numbers: IntArray, deep: bool) -> int:
    """Open sub-patterns one after another: plan one, then plan all patterns that hold it against it.

    Returns:
        How many lowered the cost of the plan, and so were kept.
    """
    kept = 0
    for number in numbers:
        before = plan.total[0]
        lead = take_out_holders(t, plan, log, number)
        p = t.owner[lead]
        slots, full = lead - t.start[p], (1 << t.sizes[p]) - 1
        ask = Ask(plan.stack, 0, True, deep, -1)
        respond(t, plan, p, ask)
        enter(t, plan, p, slots, True)
        for i in range(log.counts[0]):
            q = log.patterns[i]
            if not plan.present[q]:
                respond(t, plan, q, ask)
                enter(t, plan, q, (1 << t.sizes[q]) - 1, True)
        if slots != full:
            leave(t, plan, p, slots)
        if plan.total[0] < before * GAIN:
            kept += 1
        else:
            undo(t, plan, log, before)
    return kept


@kernel()
def close_one(t: JoinTables, plan: JoinPlan, log: MoveLog, number: int, deep: bool) -> bool:
    """Plan the patterns that use a sub-pattern without it; False if one of them cannot be."""
    log.counts[:] = 0
    for i in range(t.holder_first[number], t.holder_first[number + 1]):
        entry = t.holders[i]
        p = t.owner[entry]
        if plan.present[p] and is_node(t, plan, p, entry - t.start[p]):
            take_out(t, plan, log, p)
    ask = Ask(plan.stack, 0, True, deep, number)
    for i in range(log.counts[0]):
        p = log.patterns[i]
        if respond(t, plan, p, ask) == INF:
            return False
        enter(t, plan, p, (1 << t.sizes[p]) - 1, True)
    return True


@kernel(int64(Tables, Plan, Log, Ints, boolean))
def close_each(t: JoinTables, plan: JoinPlan, log: MoveLog, numbers: IntArray, deep: bool) -> int:
    """Close shared sub-patterns one after another: plan the patterns that use one without it.

    Returns:
        How many lowered the cost of the plan, and so were kept.
    """
    kept = 0
    for number in numbers:
        if plan.users[number] < 2:
            continue
        before = plan.total[0]
        if close_one(t, plan, log, number, deep) and plan.total[0] < before * GAIN:
            kept += 1
        else:
            undo(t, plan, log, before)
    return kept
