"""An automaton as rows of numbers, as the kernels read it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

# the columns of an edge in the tables
(
    E_BIT,
    E_TEST,
    E_RESULT,
    E_TARGET,
    E_UPDATE,
    E_ACCEPTS,
    E_ACCEPT_TEST,
    E_TERMINAL,
    E_VAR,
    E_BRANCH,
    E_WORDS,
) = range(11)
# of a state
S_FIRST, S_LAST, S_MASK, S_MERGES, S_SLOTS, S_SLOTS_END, S_NULLS, S_BRANCH, S_WORDS = range(9)
# of a branch
B_WAIT, B_PAST, B_PAST_END, B_AHEAD, B_AHEAD_END, B_NEGATES, B_WORDS = range(7)
# of a negation: in the past of a match, and ahead of it
N_NUMBER, N_RANGE, N_TEST, N_AFTER, N_BEFORE, N_FIRST, N_POINT, N_WORDS = range(8)
BETWEEN, LEADING, ANYWHERE, TRAILING = range(4)
# of a negated variable
V_BIT, V_WRITE, V_KEPT, V_WORDS = range(4)


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
            _table(self.edges, E_WORDS), _table(self.states, S_WORDS), self.starts,
            np.array(self.slots, np.int64), _table(self.branches, B_WORDS),
            _table(self.negations, N_WORDS), _table(self.negated, V_WORDS),
        )  # fmt: skip


def _table(rows: list[list[int]], width: int) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), width)
