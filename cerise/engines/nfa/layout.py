"""What lies where: the words of a run, of a node of the shared buffer, of a candidate for a NOT.

A run's words are its computation state [SASE08 §5.2.1]: a link, its deadline, its newest node, where it
stands, the event it goes on with when it was postponed, and the vector V of the values that edges to come
will ask for; one bit per value says null.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cerise.events import Path
from cerise.kinds import Kind
from cerise.pattern.expr import Agg

# a run
NEXT, DEADLINE, NODE, KEY, AT, NULLS, SLOTS = range(7)
# a node: an event bound by some run, and the node before it; with merging also a join of two nodes
PREV, SEQ, VAR, MOST, LEAST, TOTAL, STAMP, KEPT = range(8)
NODE_WORDS, MERGED_NODE_WORDS, COUNTED_NODE_WORDS = 3, 4, 8
RIGHT = SEQ  # of a join
JOIN = -1  # in VAR
# a match: its newest node, the event beyond that (or -1) and its variable, when it was made, its branch
M_NODE, M_SEQ, M_VAR, M_POINT, M_BRANCH, MATCH_WORDS = range(6)
# a candidate: an event that fits a negated variable
CAND_PREV, CAND_SEQ, CAND_POINT, CAND_NULLS, CAND_VALUES = range(5)
# what a chunk of events hands to generated code: addresses, and one counter
COL_NULLS, COL_TEXTS, COL_FAULTS, COL_SEQ, COL_POINTS, COLUMNS = range(6)

MAX_BITS = 62


@dataclass(frozen=True, slots=True)
class Key:
    """What a value of V is: which variable it comes from, and how."""

    var: str
    what: str  # "single", "last", "nth", "count", an aggregate's part, or what a NOT needs
    path: Path = ()
    number: int = 0
    agg: Agg | None = None


@dataclass(frozen=True, slots=True)
class Slot:
    """A value of V: its number, and whether it is a double or a string."""

    number: int
    key: Key
    kind: Kind

    @property
    def word(self) -> int:
        """Where it lies in a run."""
        return SLOTS + self.number


@dataclass(frozen=True, slots=True)
class Field:
    """A value kept with a node or a candidate: its place among the values there, and its kind."""

    number: int
    kind: Kind


@dataclass(slots=True)
class Layout:
    """The values that a program asks for; filled while its code is written."""

    node_words: int
    columns: dict[Path, Kind] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    slots: dict[Key, Slot] = field(default_factory=dict)
    payload: dict[str, dict[Key, Field]] = field(default_factory=dict)
    candidates: dict[str, dict[Path, Field]] = field(default_factory=dict)

    def column(self, path: Path, kind: Kind) -> int:
        """Return the number of an attribute's column."""
        self.columns.setdefault(path, kind)
        return list(self.columns).index(path)

    def slot(self, key: Key, kind: Kind) -> Slot:
        """Return the place of a value in V."""
        if key not in self.slots:
            self.slots[key] = Slot(len(self.slots), key, kind)
        return self.slots[key]

    def kept(self, var: str, key: Key, kind: Kind) -> Field:
        """Return the place of a value in the nodes of a variable."""
        fields = self.payload.setdefault(var, {})
        return fields.setdefault(key, Field(len(fields), kind))

    def candidate(self, var: str, path: Path, kind: Kind) -> Field:
        """Return the place of an attribute in the candidates for a negated variable."""
        fields = self.candidates.setdefault(var, {})
        return fields.setdefault(path, Field(len(fields), kind))

    @property
    def run_width(self) -> int:
        """How many words a run has."""
        return SLOTS + len(self.slots)

    @property
    def node_width(self) -> int:
        """How many words a node has."""
        most = max((len(fields) for fields in self.payload.values()), default=0)
        return self.node_words + (most + 1 if most else 0)

    @property
    def candidate_width(self) -> int:
        """How many words a candidate has."""
        return CAND_VALUES + max((len(fields) for fields in self.candidates.values()), default=0)

    def too_wide(self) -> str | None:
        """Say what there is too much of for one word of null bits."""
        counts = {"attributes": len(self.columns), "values to remember": len(self.slots)}
        counts |= {
            f"values of '{v}' to remember": len(f) for v, f in (self.payload | self.candidates).items()
        }
        for what, count in counts.items():
            if count > MAX_BITS:
                return f"it has {count} {what}, more than {MAX_BITS}"
        return None
