"""The search from chosen rows, compiled; and the way from match to match through what it found."""

from __future__ import annotations

from typing import Any

from cerise.engines.rows.layout import (
    DONE,
    FORGETFUL,
    FULL,
    G_LABELLED,
    G_LAST,
    G_ROW,
    G_START,
    G_STOP,
    G_WALKED,
    PAUSED,
    T_OFFSETS,
)
from cerise.engines.rows.remembering import forgets
from cerise.engines.rows.search import STARTS, enters, may_start, steps_on
from cerise.kernels.jit import Ints, Marks, get, int64, kernel, put

UNKNOWN, KNOWN, STOPPED = range(3)  # of a row: not searched from, searched from, the search stopped there
E_NEXT, E_END, E_ROOM = range(3)  # entries: the next one, the row after the last, how much room is left


@kernel(int64(int64, int64, Marks, Ints))
def searches(m: int, edge: Any, known: Any, entries: Any) -> int:
    """Search from an entry on, as AFTER MATCH SKIP says, to a row already searched from; then from the next.

    Args:
        m: the memory of a search through a part of one partition.
        edge: the formulas of the clause.
        known: for each row of the part whether it was searched from; filled in.
        entries: the rows of the part where a search begins, unless they are known by then, and how many
            rows their matches may have together before no further one is begun.

    Returns:
        Why it stops; called again, it goes on.
    """
    first, stop, high = get(m, G_START), get(m, G_STOP), get(get(m, T_OFFSETS), 1)
    if get(m, G_ROW) < 0:
        enters(m, 0, high)
        put(m, G_ROW, first + entries[E_NEXT])
    searched = 0
    while True:
        start = get(m, G_ROW)
        if start >= stop or known[start - first] != UNKNOWN:
            row = entries[E_NEXT]
            while row < entries[E_END] and known[row] != UNKNOWN:
                row += 1
            entries[E_NEXT] = row
            if row >= entries[E_END] or entries[E_ROOM] < 0:
                return DONE
            put(m, G_ROW, first + row)
            forgets(m)
        elif start >= get(m, G_LAST) or not may_start(m, start, high):
            known[start - first] = KNOWN
            put(m, G_ROW, start + 1)
            put(m, G_WALKED, get(m, G_WALKED) + 1)
        else:
            labelled = get(m, G_LABELLED)
            searched += 1
            why = PAUSED if searched > STARTS else steps_on(m, edge, 0, high, start)
            if why != DONE:
                if why in (FULL, FORGETFUL):
                    forgets(m)  # what is on the way has not failed, and may be searched again
                return why
            known[start - first] = KNOWN
            put(m, G_WALKED, get(m, G_WALKED) + get(m, G_ROW) - start)
            entries[E_ROOM] -= get(m, G_LABELLED) - labelled


@kernel(int64(Ints, Ints, Marks, int64, Marks))
def follows(starts: Any, resumes: Any, known: Any, row: int, taken: Any) -> int:
    """Go from match to match; return where the way leaves the rows, or comes to one not searched from.

    Args:
        starts: where matches start, ascending.
        resumes: where the search goes on after each.
        known: for each row whether it was searched from.
        row: where the way begins.
        taken: for each match whether it is on the way; filled in.
    """
    for i in range(len(starts)):
        while row < starts[i]:
            if known[row] != KNOWN:
                return row
            row += 1
        if row == starts[i]:
            taken[i] = 1
            row = resumes[i]
    while row < len(known) and known[row] == KNOWN:
        row += 1
    return row
