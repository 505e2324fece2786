"""A branch of an any-match query as a join: slots, Kleene variables to expand, and events that veto.

Every positive variable has a slot; that of a Kleene variable is its last event, and the events before that
one are found after the joins. Predicates become comparisons of two columns, or one column of truth values.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from cerise.pattern.bound import Bound
from cerise.pattern.expr import Expr
from cerise.pattern.query import Unit
from cerise.pattern.rewrite import Absence
from cerise.plan.joins import JoinPattern
from cerise.plan.leaves import Leaf, leaf_of, of_any_variable


class Form(IntEnum):
    """How a column of a leaf holds the values of an expression, one word for each event."""

    NUMBER = 0  # the integer itself
    DOUBLE = 1  # an integer in the order of doubles
    TEXT = 2  # the number of the string: equal strings have equal numbers
    TRUTH = 3  # whether a predicate holds


@dataclass(frozen=True, slots=True)
class SideColumn:
    """One side of comparisons as a column of a leaf."""

    expr: Expr
    form: Form


class Which(IntEnum):
    """Which events of a Kleene variable a test concerns."""

    EVERY = 0
    FIRST = 1
    LAST = 2
    LATER = 3  # all but the first: b[i]


@dataclass(frozen=True, slots=True)
class PairEnd:
    """One end of a test that a join does not make: a slot, which of its events, and a column."""

    slot: int
    which: Which
    side: int


@dataclass(frozen=True, slots=True)
class PairTest:
    """A comparison of two ends; of one end with the truth, if `right` is None."""

    left: PairEnd
    op: str
    right: PairEnd | None


@dataclass(frozen=True, slots=True)
class Repeat:
    """A Kleene variable: the events before its last one are chosen after the joins.

    Attributes:
        slot: the slot of its last event.
        low: how many events it has at least.
        high: how many it has at most; None: any number.
        links: comparisons of an event, on the left, with the next one, as columns: (left, op, right).
    """

    slot: int
    low: int
    high: int | None
    links: tuple[tuple[int, str, int], ...]


@dataclass(frozen=True, slots=True)
class Veto:
    """A negated variable: its leaf, where it may not occur, and comparisons with the match.

    In `tests`, the left end is the negated event.
    """

    leaf: int
    absence: Absence
    after: tuple[int, ...]
    before: tuple[int, ...]
    tests: tuple[PairTest, ...]

    @property
    def waits(self) -> bool:
        """Whether an event after the match can veto it."""
        return self.absence.anywhere or not self.absence.before


@dataclass(frozen=True, slots=True)
class JoinBranch:
    """A branch as a join.

    Attributes:
        names: the variable of each slot.
        pattern: the join of the slots.
        unary: tests of one event that a leaf does not make, because they concern some events of a variable.
        pairs: tests between Kleene variables, or of some of their events.
        repeats: the Kleene variables.
        vetoes: the negated variables.
    """

    names: tuple[str, ...]
    pattern: JoinPattern
    pairs: tuple[PairTest, ...]
    repeats: tuple[Repeat, ...]
    vetoes: tuple[Veto, ...]

    @property
    def waits(self) -> bool:
        return any(veto.waits for veto in self.vetoes)


@dataclass(frozen=True, slots=True)
class StreamScope:
    """Events that can be joined with one another: the same partitions, points and order.

    Attributes:
        partition: the attributes that partition the events.
        not_null: those among them that must not be null.
        by_position: whether windows count events.
        ties: the attributes that order events of equal time, if arrival does not.
    """

    partition: tuple[tuple[str, ...], ...]
    not_null: tuple[tuple[str, ...], ...]
    by_position: bool
    ties: Hashable = ()

    @property
    def in_order(self) -> bool:
        """Whether points never fall from event to event, whatever their partition."""
        return not (self.by_position and self.partition)


def scope_of(bound: Bound) -> StreamScope:
    """Return the events that a query joins with one another."""
    by_position = bound.within is not None and bound.within.unit is Unit.EVENTS
    ties = () if bound.schema.arrival else bound.ties
    return StreamScope(bound.partition, bound.not_null, by_position, ties)


@dataclass(slots=True)
class Catalog:
    """The leaves and columns of many queries, equal ones once.

    Attributes:
        leaves: the number of each leaf in its scope.
        sides: the number of each column.
        used: the columns of each leaf, in the order of their first use.
    """

    leaves: dict[tuple[Leaf, StreamScope], int] = field(default_factory=dict)
    sides: dict[SideColumn, int] = field(default_factory=dict)
    used: list[dict[int, int]] = field(default_factory=list)

    def leaf(self, exprs: Iterable[Expr], scope: StreamScope) -> int:
        """Return the number of a leaf."""
        found = self.leaves.setdefault((leaf_of(tuple(exprs)), scope), len(self.leaves))
        if found == len(self.used):
            self.used.append({})
        return found

    def side(self, leaf: int, expr: Expr, form: Form) -> int:
        """Return the number of a column, and let the leaf have it."""
        number = self.sides.setdefault(SideColumn(of_any_variable(expr), form), len(self.sides))
        self.used[leaf].setdefault(number, len(self.used[leaf]))
        return number


def is_of_repeat(test: PairTest, slots: set[int], kleene: set[int] | None = None) -> bool:
    """Whether a test compares events of one Kleene variable, of the given ones, with a single variable."""
    kleene = slots if kleene is None else kleene
    ends = [end for end in (test.left, test.right) if end is not None]
    repeated = [end for end in ends if end.slot in kleene]
    return len(repeated) == 1 and repeated[0].slot in slots and repeated[0].which is not Which.LAST
