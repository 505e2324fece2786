"""Matches that kernels have written, until they become tables: compact words, decoded query by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cerise.engines.tree.program.tables import TeamTables
from cerise.engines.tree.program.team_memory import TeamMemory
from cerise.kernels import jit
from cerise.kernels.jit import kernel, void
from cerise.pattern.bound import Bound

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WrittenMatches:
    """Matches of any queries, in the words that kernels write.

    Attributes:
        owners: the query of each match.
        outputs: the output of each match.
        starts: where the words of each match begin.
        parts: the partition of each match.
        words: for each match and each slot, how many events it has, and their numbers.
    """

    owners: Ints
    outputs: Ints
    starts: Ints
    parts: Ints
    words: Ints

    def __len__(self) -> int:
        return len(self.owners)

    def select(self, which: Ints | slice) -> WrittenMatches:
        """Return some of the matches; the words stay."""
        return WrittenMatches(
            self.owners[which], self.outputs[which], self.starts[which], self.parts[which], self.words
        )


def drain(memory: TeamMemory, queries: Ints) -> WrittenMatches:
    """Take all matches out of the memory of a team: read them before a kernel writes more.

    Args:
        memory: the memory.
        queries: the query of each of its outputs.
    """
    m = memory.m
    count, end = m.matches, m.found_end
    outputs = memory.owners[:count]
    m.matches = m.found_end = 0
    return WrittenMatches(
        queries[outputs], outputs, memory.starts[:count], memory.parts[:count], memory.found[:end]
    )


def copy_written(found: WrittenMatches) -> WrittenMatches:
    """Return matches that stay when kernels write more."""
    return WrittenMatches(
        found.owners, found.outputs.copy(), found.starts.copy(), found.parts.copy(), found.words.copy()
    )


def concat_written(parts: Sequence[WrittenMatches]) -> WrittenMatches:
    """Concatenate matches, one batch or more."""
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0, *(len(each.words) for each in parts[:-1])])
    return WrittenMatches(
        np.concatenate([each.owners for each in parts]),
        np.concatenate([each.outputs for each in parts]),
        np.concatenate([each.starts + shift for each, shift in zip(parts, shifts, strict=True)]),
        np.concatenate([each.parts for each in parts]),
        np.concatenate([each.words for each in parts]),
    )


def map_slots(tables: TeamTables, bounds: Sequence[Bound]) -> Ints:
    """Return the variable of each slot of each output, as its number; the last column counts slots."""
    widest = max((len(each.branch.names) for each in tables.branches), default=0)
    found = np.zeros((max(len(tables.order), 1), widest + 1), np.int64)
    for output, place in enumerate(tables.order):
        team = tables.branches[place]
        names = [var.name for var in bounds[team.query].variables]
        slots = [names.index(name) for name in team.branch.names]
        found[output, : len(slots)], found[output, -1] = slots, len(slots)
    return found


def unpack(found: WrittenMatches, slots: Ints, bound: Bound) -> tuple[Ints, Ints, Ints]:
    """Return matches of one query: lengths by match and variable, numbers by variable, numbers in each."""
    lengths, fill = _measure(found, slots, bound)
    variables = len(bound.variables)
    events = np.zeros((variables, int(fill.max(initial=0))), np.int64)
    copy_matches(found.starts, found.outputs, found.words, slots, events, np.zeros(variables, np.int64))
    return lengths, events, fill


def _measure(found: WrittenMatches, slots: Ints, bound: Bound) -> tuple[Ints, Ints]:
    """Return how many events each match binds to each variable, and their sum over the matches."""
    variables, count = len(bound.variables), len(found)
    alike = count > 0 and not bound.kleene and bool((found.outputs == found.outputs[0]).all())
    if alike and slots[found.outputs[0], -1] == variables:
        return np.ones((variables, count), np.int64).T, np.full(variables, count, np.int64)
    lengths = np.zeros((count, variables), np.int64)
    measure_matches(found.starts, found.outputs, found.words, slots, lengths)
    return lengths, lengths.sum(axis=0)


@kernel(void(jit.Ints, jit.Ints, jit.Ints, jit.Table, jit.Table))
def measure_matches(starts: Any, outputs: Any, words: Any, slots: Any, lengths: Any) -> None:
    """Write how many events each match binds to each variable."""
    last = slots.shape[1] - 1
    for i in range(len(starts)):
        place, output = starts[i], outputs[i]
        for slot in range(slots[output, last]):
            lengths[i, slots[output, slot]] = words[place]
            place += 1 + words[place]


@kernel(void(jit.Ints, jit.Ints, jit.Ints, jit.Table, jit.Table, jit.Ints))
def copy_matches(starts: Any, outputs: Any, words: Any, slots: Any, events: Any, fill: Any) -> None:
    """Write the numbers of the events of each variable, match after match."""
    last = slots.shape[1] - 1
    for i in range(len(starts)):
        place, output = starts[i], outputs[i]
        for slot in range(slots[output, last]):
            var, size = slots[output, slot], words[place]
            for e in range(size):
                events[var, fill[var] + e] = words[place + 1 + e]
            fill[var] += size
            place += 1 + size
