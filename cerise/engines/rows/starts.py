"""The search from chosen rows, compiled; and the way from match to match through what it found."""

from __future__ import annotations

from typing import Any

from cerise.engines.rows.records import DONE, FORGETFUL, FULL, PAUSED, Entries, Workspace
from cerise.engines.rows.remembering import forget
from cerise.engines.rows.search import STARTS, enter, may_start, search_from
from cerise.kernels.jit import Ints, Marks, int64, kernel

UNKNOWN, KNOWN, STOPPED = range(3)  # of a row: not searched from, searched from, the search stopped there


@kernel(int64(int64, int64, Marks, int64))
def search_entries(workspace: int, edge: Any, known: Any, entry: int) -> int:
    """Search from an entry on, as AFTER MATCH SKIP says, to a row already searched from; then from the next.

    Args:
        workspace: the memory of a search through a part of one partition.
        edge: the formulas of the clause.
        known: for each row of the part whether it was searched from; filled in.
        entry: the rows of the part where a search begins, unless they are known by then, and how many
            rows their matches may have together before no further one is begun.

    Returns:
        Why it stops; called again, it goes on.
    """
    m, entries = Workspace(workspace), Entries(entry)
    first, stop, high = m.start, m.stop, m.offsets[1]
    if m.row < 0:
        enter(m, 0, high)
        m.row = first + entries.next
    searched = 0
    while True:
        start = m.row
        if start >= stop or known[start - first] != UNKNOWN:
            row = entries.next
            while row < entries.end and known[row] != UNKNOWN:
                row += 1
            entries.next = row
            if row >= entries.end or entries.room < 0:
                return DONE
            m.row = first + row
            forget(m)
        elif start >= m.last or not may_start(m, start, high):
            known[start - first] = KNOWN
            m.row = start + 1
            m.walked += 1
        else:
            labelled = m.labelled
            searched += 1
            why = PAUSED if searched > STARTS else search_from(m, edge, 0, high, start)
            if why != DONE:
                if why in (FULL, FORGETFUL):
                    forget(m)  # what is on the way has not failed, and may be searched again
                return why
            known[start - first] = KNOWN
            m.walked += m.row - start
            entries.room -= m.labelled - labelled


@kernel(int64(Ints, Ints, Marks, int64, Marks))
def follow_matches(starts: Any, resumes: Any, known: Any, row: int, taken: Any) -> int:
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
