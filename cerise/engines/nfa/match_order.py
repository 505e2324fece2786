"""The order of matches that one event completes (S7.1), and LIMIT on them (S7.4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cerise.engines.automaton.memory import Memory
from cerise.engines.automaton.records import Machine, Match, Node
from cerise.kernels.jit import Ints, int64, kernel

MATCH_WORDS = Match.WORDS


@kernel()
def start_of(m: Machine, match: Match) -> int:
    """Return the first event of a match."""
    n, seq = match.node, match.seq
    while n >= 0:
        seq = m.nodes[n].seq
        n = m.nodes[n].prev
    return seq


@kernel()
def spell(m: Machine, match: Match) -> Any:
    """Return a match as rows (variable, event), sorted by variable, then by event."""
    length = 1 if match.seq >= 0 else 0
    n = match.node
    while n >= 0:
        length += 1
        n = m.nodes[n].prev
    pairs = np.empty((length, 2), np.int64)
    if match.seq >= 0:
        length -= 1
        pairs[length, 0], pairs[length, 1] = match.var, match.seq
    n = match.node
    while n >= 0:
        length -= 1
        pairs[length, 0], pairs[length, 1] = m.nodes[n].var, m.nodes[n].seq
        n = m.nodes[n].prev
    for i in range(1, len(pairs)):  # insertion keeps the order of events within a variable
        j = i
        while j > 0 and pairs[j - 1, 0] > pairs[j, 0]:
            for c in range(2):
                pairs[j - 1, c], pairs[j, c] = pairs[j, c], pairs[j - 1, c]
            j -= 1
    return pairs


@kernel()
def comes_before(m: Machine, left: Match, right: Match) -> Any:
    """Whether a match comes before another that the same event completes."""
    first, second = start_of(m, left), start_of(m, right)
    if first != second:
        return first < second
    x, y = spell(m, left), spell(m, right)
    for i in range(min(len(x), len(y))):
        if x[i, 0] != y[i, 0]:
            return x[i, 0] > y[i, 0]  # x ends here and y goes on: a prefix comes first
        if x[i, 1] != y[i, 1]:
            return x[i, 1] < y[i, 1]
    return len(x) < len(y)


@kernel()
def move_match(m: Machine, source: int, target: int) -> None:
    """Overwrite a match with another."""
    for c in range(MATCH_WORDS):
        m.matches[target][c] = m.matches[source][c]


@kernel()
def keep_best(m: Machine, first: int) -> None:
    """Keep only the best of the matches from `first` on, all completed by one event."""
    best = first
    for i in range(first + 1, m.match_count):
        if comes_before(m, m.matches[i], m.matches[best]):
            best = i
    move_match(m, best, first)
    m.match_count = first + 1


@kernel(int64(int64, Ints, int64))
def limit_matches(machine: int, ends: Any, keep: int) -> int:
    """Keep the first `keep` matches that each event completes; return how many matches are left.

    The matches are in the order of `ends`, the events that complete them; the row after the last is free.
    """
    m = Machine(machine)
    left, i, spare = 0, 0, len(ends)
    while i < len(ends):
        j = i
        while j < len(ends) and ends[j] == ends[i]:
            j += 1
        for k in range(i, min(i + keep, j)):
            if j - i > keep:
                best = k
                for other in range(k + 1, j):
                    if comes_before(m, m.matches[other], m.matches[best]):
                        best = other
                move_match(m, k, spare)
                move_match(m, best, k)
                move_match(m, spare, best)
            move_match(m, k, left)
            left += 1
        i = j
    return left


def apply_limit(memory: Memory, limit: int) -> int:
    """Drop the matches beyond LIMIT (S7.4); return how many matches are left."""
    memory.make_room(matches=1)
    matches = memory.matches[: memory.m.match_count]
    alone = matches[:, Match.seq]
    ends = np.where(alone >= 0, alone, memory.nodes[matches[:, Match.node], Node.seq])
    order = np.argsort(ends, kind="stable")
    matches[:] = matches[order]
    return int(limit_matches(memory.address, ends[order], limit))
