"""Skips runs of rows that fail one inequality of a join, by the extremes of its column over each run.

The rows of a pool stay in the order of their last events. If the greatest value of 16 rows in a row is too
small for a row on the other side, none of the 16 is looked at; so it goes for runs of 256 and 4096. Extremes
may be too wide, of rows that have left and of nulls: the rows of other runs are tested one by one.
"""

from __future__ import annotations

from cerise.engines.tree.machine.join_records import JoinMachine, SkipIndex, column_of, compare
from cerise.engines.tree.machine.pool_rows import row_at
from cerise.kernels.jit import kernel
from cerise.kernels.records import Words


@kernel()
def flip(op: int) -> int:
    """Return the inequality with its sides exchanged."""
    return (op + 2) & 3


@kernel()
def fill_skips(m: JoinMachine, number: int, end: int) -> None:
    """Widen the extremes by the rows of a pool up to `end`."""
    index = m.skips[number]
    pool = m.pools[index.pool]
    index.values = Words(column_of(m, index.leaf, index.column))
    values, word, greatest = index.values, index.word, index.greatest
    by_16, by_256, by_4096 = index.by_16, index.by_256, index.by_4096
    for r in range(max(index.done, pool.base), end):
        value = values[row_at(pool, r)[word]]
        widen(by_16, (r >> 4) - (pool.start >> 4), r & 15, value, greatest)
        widen(by_256, (r >> 8) - (pool.start >> 8), r & 255, value, greatest)
        widen(by_4096, (r >> 12) - (pool.start >> 12), r & 4095, value, greatest)
    index.done = max(index.done, end)


@kernel()
def widen(extremes: Words, run: int, place: int, value: int, greatest: int) -> None:
    """Let a run hold a value at a place; the value at place 0 replaces the extreme of an earlier run."""
    if place == 0 or (value > extremes[run] if greatest else value < extremes[run]):
        extremes[run] = value


@kernel()
def skip_runs(index: SkipIndex, start: int, op: int, value: int, place: int, end: int) -> int:
    """Return the first row from `place`, the begin of a run, that is not in a run whose rows all fail.

    Args:
        index: the extremes.
        start: the number of the first row in memory.
        op: how the value must compare with a row's.
        value: the value of a row on the other side.
        place: the number of a row.
        end: the number of the row at which to stop; the result may be greater.
    """
    while place < end and place & 15 == 0:
        if place & 4095 == 0 and not compare(op, value, index.by_4096[(place >> 12) - (start >> 12)]):
            place += 4096
        elif place & 255 == 0 and not compare(op, value, index.by_256[(place >> 8) - (start >> 8)]):
            place += 256
        elif not compare(op, value, index.by_16[(place >> 4) - (start >> 4)]):
            place += 16
        else:
            break
    return place


@kernel()
def move_skips(m: JoinMachine) -> None:
    """Move the extremes of pools whose rows have just moved to the front of their memory."""
    for i in range(m.skip_count):
        index = m.skips[i]
        pool = m.pools[index.pool]
        if pool.shift > 0:
            shift_runs(index.by_16, pool.start, pool.shift, index.done, 4)
            shift_runs(index.by_256, pool.start, pool.shift, index.done, 8)
            shift_runs(index.by_4096, pool.start, pool.shift, index.done, 12)


@kernel()
def shift_runs(extremes: Words, start: int, shift: int, done: int, bits: int) -> None:
    """Move the extremes of the runs from `start` on to the front."""
    gone = (start >> bits) - ((start - shift) >> bits)
    for run in range((max(done, start) >> bits) - (start >> bits) + 1):
        extremes[run] = extremes[run + gone]
