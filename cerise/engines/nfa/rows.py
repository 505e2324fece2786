"""An automaton as rows of numbers, as the kernels read it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cerise.engines.nfa.records import Branch, Edge, Negated, Negation, State

Ints = npt.NDArray[np.int64]

# the range of a negation
BETWEEN, LEADING, ANYWHERE, TRAILING = range(4)


@dataclass(frozen=True, slots=True)
class Tables:
    """An automaton as numbers."""

    edges: Ints
    states: Ints
    starts: tuple[int, int]
    slots: Ints
    branches: Ints
    negations: Ints
    negated: Ints


@dataclass(slots=True)
class Rows:
    """The tables while they are written."""

    edges: list[list[int]] = field(default_factory=list)
    states: list[list[int]] = field(default_factory=list)
    starts: tuple[int, int] = (0, 0)
    slots: list[int] = field(default_factory=list)
    branches: list[list[int]] = field(default_factory=list)
    negations: list[list[int]] = field(default_factory=list)
    negated: list[list[int]] = field(default_factory=list)

    def tables(self) -> Tables:
        """Return them as arrays."""
        return Tables(
            _table(self.edges, Edge.WORDS), _table(self.states, State.WORDS), self.starts,
            np.array(self.slots, np.int64), _table(self.branches, Branch.WORDS),
            _table(self.negations, Negation.WORDS), _table(self.negated, Negated.WORDS),
        )  # fmt: skip


def _table(rows: list[list[int]], width: int) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), width)
