"""Row patterns: a MATCH_RECOGNIZE clause bound to the columns of its input (semantics.md §10).

Conditions and measures are expressions whose attributes are *atoms*: a value of one row that a navigation
reaches, or an aggregate over rows of the match. So the same code as for SASE+ checks, shows, compiles and
evaluates them. A value computed from one row alone is a column: of the input, or derived before matching.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import pyarrow as pa

from cerise.errors import Span
from cerise.kinds import Kind
from cerise.pattern.expr import Attr, Expr, attributes

# ---- the pattern


@dataclass(frozen=True, slots=True)
class Label:
    """A primary variable: one row that satisfies its condition."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Concat:
    """Items one after another; without items, the empty pattern (M9, M16)."""

    items: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """The first branch that leads to a match (M10)."""

    items: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Quantified:
    """Between `low` and `high` iterations, more before fewer unless reluctant (M11–M13)."""

    item: RowPattern
    low: int
    high: int | None
    reluctant: bool = False


@dataclass(frozen=True, slots=True)
class Permute:
    """The items in any order; the listed order is preferred (M14)."""

    items: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Excluded:
    """A pattern whose rows are matched, but not shown (M38)."""

    item: RowPattern


@dataclass(frozen=True, slots=True)
class Anchor:
    """`^` before the first row of the partition, `$` after its last (M15)."""

    start: bool


RowPattern = Label | Concat | Alternation | Quantified | Permute | Excluded | Anchor


def row_children(pattern: RowPattern) -> tuple[RowPattern, ...]:
    """Return the direct children of a pattern."""
    match pattern:
        case Concat(items) | Alternation(items) | Permute(items):
            return items
        case Quantified(item=item) | Excluded(item):
            return (item,)
        case Label() | Anchor():
            return ()


def walk_rows(pattern: RowPattern) -> Iterator[RowPattern]:
    """Yield a pattern and everything in it, parents first."""
    yield pattern
    for child in row_children(pattern):
        yield from walk_rows(child)


def labels(pattern: RowPattern) -> tuple[str, ...]:
    """Return the primary variables of a pattern, in the order of their first occurrence."""
    return tuple(dict.fromkeys(each.name for each in walk_rows(pattern) if isinstance(each, Label)))


# ---- atoms, from which conditions and measures are computed

CLASSIFIER = ""  # as the column of a navigation or aggregate: the label of the row


@dataclass(frozen=True, slots=True)
class Nav:
    """The value of a column in one row (M23–M29).

    It starts at a row of the match: the (offset+1)-th last, or first, of the rows mapped to `members` (None:
    all rows), up to the current row, or of the whole match if `final`. From there it moves `shift` rows
    forward in the partition, or back if negative. It is null if no such row exists.
    """

    column: str
    members: frozenset[str] | None = None
    last: bool = True
    offset: int = 0
    final: bool = False
    shift: int = 0


@dataclass(frozen=True, slots=True)
class RowAgg:
    """An aggregate over the rows mapped to `members` (None: all rows) (M30–M32).

    It reads the rows up to the current row, or of the whole match if `final`. `columns` are its arguments,
    none for count(*); `where` is a boolean column that rows must satisfy.
    """

    function: str
    columns: tuple[str, ...]
    members: frozenset[str] | None = None
    final: bool = False
    distinct: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True)
class MatchNumber:
    """MATCH_NUMBER(): the number of the match in its partition, from 1 (M7)."""


@dataclass(frozen=True, slots=True)
class MatchStatus:
    """MATCH_STATUS(): 'match', or 'timeout' for a partial match whose window expired (M46)."""


Atom = Nav | RowAgg | MatchNumber | MatchStatus


# ---- the clause


@dataclass(frozen=True, slots=True)
class Derived:
    """A column computed from one row before matching.

    Attributes:
        name: its name.
        sql: the expression for Spark.
        expr: the expression for Cerise, over columns as `Attr("", (column,))`; None: only Spark computes it.
        type: its type, by Spark if there is a session, else by the kind of `expr`.
    """

    name: str
    sql: str
    expr: Expr | None
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Order:
    """One column of ORDER BY."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class Measure:
    """One column of MEASURES.

    `sql` is over the names of atoms; `expr` means the same, None if Cerise cannot compute it.
    """

    name: str
    sql: str
    expr: Expr | None
    atoms: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition in DEFINE of the rows mapped to a variable; its attributes are atoms."""

    label: str
    expr: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


class Show(Enum):
    """The rows of the result (M33–M36)."""

    ONE = "ONE ROW PER MATCH"
    ALL = "ALL ROWS PER MATCH"
    OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


class SkipTo(Enum):
    """Where the search continues after a match that is not empty (M39)."""

    PAST_LAST = "PAST LAST ROW"
    NEXT = "TO NEXT ROW"
    FIRST = "TO FIRST"
    LAST = "TO LAST"


@dataclass(frozen=True, slots=True)
class Skip:
    """AFTER MATCH SKIP: to the first or last row mapped to one of `members`; `name` is the user's word."""

    to: SkipTo = SkipTo.PAST_LAST
    members: frozenset[str] = frozenset()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Extent:
    """WITHIN: last − first ≤ size in the first ORDER BY column, for moments in microseconds (M42)."""

    size: int
    exclusive: bool = False
    timeouts: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of the result: a measure, or a column of the input."""

    name: str
    measure: bool


@dataclass(frozen=True)
class BoundRows:
    """A MATCH_RECOGNIZE clause bound to its input.

    Attributes:
        pattern: the row pattern.
        columns: the columns of the input.
        derived: columns computed from single rows beforehand; their names start with `_`.
        partition: columns (of the input or derived) whose equal values, or nulls, form a partition.
        order: how the rows of a partition are ordered; S1.2 breaks ties.
        atoms: the values from which conditions and measures are computed, by name.
        conditions: the conditions of DEFINE; a label without a condition takes every row (M18).
        measures: the columns that a match adds.
        show: the rows of the result.
        skip: where the search continues after a match.
        within: the window, if any.
        output: the columns of the result, in order (M33, M34).
        arrival: whether the order of the rows breaks ties; if not, hashes do (S1.2).
        text: the statement, for errors.
    """

    pattern: RowPattern
    columns: pa.Schema
    derived: tuple[Derived, ...]
    partition: tuple[str, ...]
    order: tuple[Order, ...]
    atoms: Mapping[str, Atom]
    conditions: tuple[Condition, ...]
    measures: tuple[Measure, ...]
    show: Show = Show.ONE
    skip: Skip = Skip()
    within: Extent | None = None
    output: tuple[Shown, ...] = ()
    arrival: bool = True
    text: str | None = field(default=None, compare=False, repr=False)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The primary variables, in the order of their first occurrence in the pattern."""
        return labels(self.pattern)

    def type_of(self, column: str) -> pa.DataType:
        for each in self.derived:
            if each.name == column:
                return each.type
        return pa.string() if column == CLASSIFIER else self.columns.field(column).type

    def atoms_of(self, expr: Expr) -> tuple[Atom, ...]:
        return tuple(self.atoms[each.path[0]] for each in attributes(expr))


def atom(name: str, kind: Kind) -> Attr:
    """Return the attribute that names an atom in expressions."""
    return Attr("", (name,), kind=kind)
