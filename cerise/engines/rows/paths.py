"""Tells from instructions how a search walks through them: whether it needs a memo, and where it tests early.

A memo holds the states from which a search has failed. It pays only if a search comes to an instruction and
a row on two paths, or if a search from another row comes to a state that this one has seen.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt

from cerise.engines.rows.instructions import CHECK, END, FIRST, MARK, ROW, SPLIT
from cerise.engines.rows.records import Instruction

Lines = npt.NDArray[np.int64]
OP, A, B, HIDDEN = Instruction.op, Instruction.a, Instruction.b, Instruction.hidden
ANCHORS = (FIRST, END)
MOST_TRACED = 256  # instructions whose paths are followed


def mark_tests(rows: Lines, dependent: int) -> Lines:
    """Return instructions with a mark on each SPLIT that tests its first way before it saves the second.

    The first way maps the row to a label with a condition, the second to a label without one: `X*? B`, where
    nearly every row fails as B.

    Args:
        rows: the instructions.
        dependent: a bit for each label with a condition that is tested during the search.
    """
    marked = rows.copy()
    for number in np.flatnonzero(rows[:, OP] == SPLIT).tolist():
        one, other = rows[rows[number, A]], rows[rows[number, B]]
        both = one[OP] == ROW and other[OP] == ROW
        marked[number, HIDDEN] = both and dependent >> one[A] & 1 and not dependent >> other[A] & 1
    return marked


def may_come_twice(rows: Lines, start_sets: list[set[int]] | None) -> bool:
    """Whether a search can come to a state twice.

    Args:
        rows: the instructions.
        start_sets: sets of labels; a state knows the first or the last row of each. If one set has the labels
            of the first row, and no other row can have one of them, then states of searches from different
            rows differ. None: they differ anyway.
    """
    if len(rows) > MOST_TRACED or np.isin(rows[:, OP], (MARK, CHECK)).any():
        return True
    first = _list_next(rows, 0)
    then = {at: _list_next(rows, int(rows[at, B])) for at in np.flatnonzero(rows[:, OP] == ROW).tolist()}
    if _meet(first, then):
        return True
    if start_sets is None:
        return False
    later = {int(rows[at, A]) for found in then.values() for at in found}
    opening = {int(rows[at, A]) for at in first}
    return not any(opening <= labels and not labels & later for labels in start_sets)


def _list_next(rows: Lines, at: int) -> list[int]:
    """Return the ROW instructions that an instruction leads to, each as often as there are ways to it."""
    found: list[int] = []
    waiting = [at]
    while waiting and len(found) <= len(rows):
        number = waiting.pop()
        op, a, b = rows[number, [OP, A, B]].tolist()
        if op == ROW:
            found.append(number)
        else:
            waiting += [a, b] if op == SPLIT else [a] if op in ANCHORS else []
    return found


def _meet(first: list[int], then: dict[int, list[int]]) -> bool:
    """Whether two paths that have mapped as many rows come to the same ROW instruction."""
    seen: set[tuple[int, int]] = set()
    pairs = [pair for found in (first, *then.values()) for pair in combinations(sorted(found), 2)]
    while pairs:
        p, q = pairs.pop()
        if p == q:
            return True
        if (p, q) not in seen:
            seen.add((p, q))
            pairs += [(min(x, y), max(x, y)) for x in then[p] for y in then[q]]
    return False
