"""The layout of one query: its automaton as tables, and the values in the unnamed words of records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerise.engines.automaton.records import (
    BranchRecord,
    Candidate,
    EdgeRecord,
    Negated,
    NegationRecord,
    Node,
    Run,
    StateRecord,
)
from cerise.events import Path
from cerise.kinds import Kind
from cerise.pattern.expr import Agg

JOIN = -1  # the variable of a join node
COUNTING = 2  # in Machine.merges: merge, and count the matches of a node
NODE_WORDS, MERGED_NODE_WORDS, COUNTED_NODE_WORDS = Node.most, Node.least, Node.WORDS

MAX_BITS = 62


@dataclass(frozen=True, slots=True)
class ValueKey:
    """The meaning of a value of V: the variable it comes from, and how."""

    var: str
    what: str  # "single", "last", "nth", "count", an aggregate's part, or a bound of a NOT
    path: Path = ()
    number: int = 0
    agg: Agg | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A value of V: its number, its meaning and its kind."""

    number: int
    key: ValueKey
    kind: Kind

    @property
    def word(self) -> int:
        """The number of its word in a run."""
        return Run.WORDS + self.number


@dataclass(frozen=True, slots=True)
class Field:
    """A value kept with a node or a candidate: its number among these values, and its kind."""

    number: int
    kind: Kind


class Widths(NamedTuple):
    """How many words a run, a node and a candidate have."""

    run: int
    node: int
    candidate: int


@dataclass(slots=True)
class ProgramLayout:
    """The values that a program reads; filled while its code is written."""

    node_words: int
    columns: dict[Path, Kind] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    slots: dict[ValueKey, Slot] = field(default_factory=dict)
    payload: dict[str, dict[ValueKey, Field]] = field(default_factory=dict)
    candidates: dict[str, dict[Path, Field]] = field(default_factory=dict)

    def column(self, path: Path, kind: Kind) -> int:
        self.columns.setdefault(path, kind)
        return list(self.columns).index(path)

    def slot(self, key: ValueKey, kind: Kind) -> Slot:
        if key not in self.slots:
            self.slots[key] = Slot(len(self.slots), key, kind)
        return self.slots[key]

    def node_field(self, var: str, key: ValueKey, kind: Kind) -> Field:
        fields = self.payload.setdefault(var, {})
        return fields.setdefault(key, Field(len(fields), kind))

    def candidate(self, var: str, path: Path, kind: Kind) -> Field:
        fields = self.candidates.setdefault(var, {})
        return fields.setdefault(path, Field(len(fields), kind))

    @property
    def widths(self) -> Widths:
        most = max((len(fields) for fields in self.payload.values()), default=0)
        return Widths(
            Run.WORDS + len(self.slots),
            self.node_words + (most + 1 if most else 0),
            Candidate.WORDS + max((len(fields) for fields in self.candidates.values()), default=0),
        )

    def too_wide(self) -> str | None:
        """Say which values exceed one word of null bits; None: none do."""
        counts = {"attributes": len(self.columns), "values to remember": len(self.slots)}
        counts |= {
            f"values of '{v}' to remember": len(f) for v, f in (self.payload | self.candidates).items()
        }
        for what, count in counts.items():
            if count > MAX_BITS:
                return f"it has {count} {what}, more than {MAX_BITS}"
        return None


Ints = npt.NDArray[np.int64]

# the range of a negation
BETWEEN, LEADING, ANYWHERE, TRAILING = range(4)


@dataclass(frozen=True, slots=True)
class Tables:
    """An automaton as arrays of numbers, for the kernels."""

    edges: Ints
    states: Ints
    starts: tuple[int, int]
    slots: Ints
    branches: Ints
    negations: Ints
    negated: Ints


@dataclass(slots=True)
class TableRows:
    """The tables while they are written."""

    edges: list[list[int]] = field(default_factory=list)
    states: list[list[int]] = field(default_factory=list)
    starts: tuple[int, int] = (0, 0)
    slots: list[int] = field(default_factory=list)
    branches: list[list[int]] = field(default_factory=list)
    negations: list[list[int]] = field(default_factory=list)
    negated: list[list[int]] = field(default_factory=list)

    def tables(self) -> Tables:
        """Return the tables as arrays."""
        return Tables(
            _table(self.edges, EdgeRecord.WORDS), _table(self.states, StateRecord.WORDS), self.starts,
            np.array(self.slots, np.int64), _table(self.branches, BranchRecord.WORDS),
            _table(self.negations, NegationRecord.WORDS), _table(self.negated, Negated.WORDS),
        )  # fmt: skip


def _table(rows: list[list[int]], width: int) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), width)
