"""The runs of an automaton by the event that they began with, and how the oldest of them go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.columns import Partitions
from cerise.engines.automaton.memory import Memory, Retained
from cerise.engines.automaton.records import Node, Run, RunList
from cerise.engines.census import Census, Load, weigh

Ints = npt.NDArray[np.int64]
SPARE_ROWS = 64  # rows that the table of runs keeps free after runs are dropped


def measure_runs(memory: Memory, retained: Retained, *, by_partition: bool) -> Load:
    """Return upper bounds of what an automaton keeps."""
    most = live = int(memory.m.live)
    if by_partition:
        lengths = memory.heads[:, RunList.length].reshape(len(memory.counts), -1).sum(axis=1)
        most = int(lengths.max(initial=0))
    return Load(live, most, _table_bytes(memory) + retained.nbytes)


def count_runs(memory: Memory, retained: Retained, partitions: Partitions) -> Census:
    """Count the runs of an automaton that holds no expired run, node or candidate."""
    m = memory.m
    places = np.flatnonzero(memory.runs[: m.run_count, Run.key] >= 0)
    rows = memory.runs[places]
    starts = find_starts(memory)[rows[:, Run.node]]
    kept = retained.kept
    times = kept.times[np.searchsorted(retained.numbers, starts)]
    parts = rows[:, Run.key] // m.state_count
    nbytes = _table_bytes(memory) + weigh(kept.table)
    return Census("runs", times, starts, parts, list(partitions.numbers), places, nbytes)


def find_starts(memory: Memory) -> Ints:
    """Return for each node the number of the event that its run began with."""
    nodes = memory.nodes[: memory.m.node_count]
    first = np.where(nodes[:, Node.prev] >= 0, nodes[:, Node.prev], np.arange(len(nodes)))
    while not np.array_equal(further := first[first], first):
        first = further
    starts: Ints = nodes[first, Node.seq]
    return starts


def drop_runs(memory: Memory, places: Ints) -> None:
    """Drop runs; those left move to the front of their table, which becomes smaller."""
    m, runs, heads = memory.m, memory.runs, memory.heads
    gone = np.zeros(m.run_count, np.bool_)
    gone[places] = True
    after = runs[: m.run_count, Run.next].copy()
    while (skipped := (after >= 0) & gone[after]).any():
        after[skipped] = after[after[skipped]]
    first = heads[:, RunList.head]
    first = np.where((first >= 0) & gone[first], after[first], first)
    left = np.flatnonzero((runs[: m.run_count, Run.key] >= 0) & ~gone)
    moved = np.full(m.run_count + 1, -1, np.int64)  # the last: of no run
    moved[left] = np.arange(1, len(left) + 1)
    fewer = np.zeros((len(left) + 1 + SPARE_ROWS, runs.shape[1]), np.int64)
    fewer[0], fewer[1 : len(left) + 1] = runs[0], runs[left]  # run 0 has bound nothing
    fewer[1 : len(left) + 1, Run.next] = moved[after[left]]
    heads[:, RunList.head] = moved[first]
    heads[:, RunList.length] = np.bincount(runs[left, Run.key], minlength=len(heads))
    memory.runs, memory.table[:] = fewer, -1
    m.live, m.run_count, m.free = len(left), len(left) + 1, -1
    memory.make_room()


def _table_bytes(memory: Memory) -> int:
    """Return the bytes of live runs, nodes and candidates."""
    m = memory.m
    widths = memory.runs.shape[1], memory.nodes.shape[1], memory.cands.shape[1]
    counts = m.live, m.node_count, m.cand_count - 1  # candidate 0 is scratch
    return 8 * sum(width * int(count) for width, count in zip(widths, counts, strict=True))
