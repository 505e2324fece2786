"""Row patterns: what a MATCH_RECOGNIZE clause asks for, bound to the columns of its input (semantics.md §10).

Conditions and measures are ordinary expressions whose attributes are *atoms*: a value of one row that a
navigation reaches, or an aggregate over rows of the match. So predicates are checked, shown, compiled and
evaluated by the same code as those of SASE+. Whatever is computed from one row alone is a column: of the
input, or derived from it beforehand.
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
    """One after another; of no items it is the empty pattern (M9, M16)."""

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
    """Any order, the listed one before all others (M14)."""

    items: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Excluded:
    """Rows that are matched and not shown (M38)."""

    item: RowPattern


@dataclass(frozen=True, slots=True)
class Anchor:
    """`^` before the first row of the partition, `$` after its last (M15)."""

    start: bool


RowPattern = Label | Concat | Alternation | Quantified | Permute | Excluded | Anchor


def row_children(pattern: RowPattern) -> tuple[RowPattern, ...]:
    """Return the direct parts of a pattern."""
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
    """Return the primary variables of a pattern, in the order in which they first stand there."""
    return tuple(dict.fromkeys(each.name for each in walk_rows(pattern) if isinstance(each, Label)))


# ---- what conditions and measures are made of

CLASSIFIER = ""  # as the column of a navigation or aggregate: the label of the row


@dataclass(frozen=True, slots=True)
class Nav:
    """The value of a column in one row (M23–M29).

    First a row of the match: the (offset+1)-th last, or first, of those mapped to `members` (None: all
    rows), up to the current row, or of the whole match where `final`. From there `shift` rows on in the
    partition, or back where negative. Null where there is no such row.
    """

    column: str
    members: frozenset[str] | None = None
    last: bool = True
    offset: int = 0
    final: bool = False
    shift: int = 0


@dataclass(frozen=True, slots=True)
class RowAgg:
    """An aggregate over the rows mapped to `members` (None: all), up to the current one or all (M30–M32).

    `columns` are its arguments, none for count(*); `where` is a boolean column that rows must satisfy.
    """

    function: str
    columns: tuple[str, ...]
    members: frozenset[str] | None = None
    final: bool = False
    distinct: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True)
class MatchNumber:
    """MATCH_NUMBER(): which match of its partition it is, from 1 (M7)."""


@dataclass(frozen=True, slots=True)
class MatchStatus:
    """MATCH_STATUS(): 'match', or 'timeout' for a partial match whose window expired (M46)."""


Atom = Nav | RowAgg | MatchNumber | MatchStatus


# ---- the clause


@dataclass(frozen=True, slots=True)
class Derived:
    """A column computed from one row before matching.

    `sql` is what Spark computes; `expr` the same for Cerise, over columns as `Attr("", (column,))`, or
    None where only Spark knows how. `type` is that of Spark where it was asked, else that of the kind.
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
    """One column of MEASURES: `sql` over the names of atoms; `expr` the same where Cerise can compute it."""

    name: str
    sql: str
    expr: Expr | None
    atoms: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Condition:
    """What DEFINE asks of a row that is to be mapped to a variable; its attributes are atoms."""

    label: str
    expr: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


class Show(Enum):
    """Which rows come out (M33–M36)."""

    ONE = "ONE ROW PER MATCH"
    ALL = "ALL ROWS PER MATCH"
    OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


class SkipTo(Enum):
    """Where the search goes on after a match that is not empty (M39)."""

    PAST_LAST = "PAST LAST ROW"
    NEXT = "TO NEXT ROW"
    FIRST = "TO FIRST"
    LAST = "TO LAST"


@dataclass(frozen=True, slots=True)
class Skip:
    """AFTER MATCH SKIP: to the first or last row mapped to one of `members`; `name` is what users wrote."""

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
        pattern: what to find.
        columns: the columns of the input.
        derived: columns computed from single rows beforehand; their names start with `_`.
        partition: columns (of the input or derived) whose equal values, null among them, form a partition.
        order: how the rows of a partition are ordered; ties are broken by S1.2.
        atoms: what conditions and measures are computed from, by name.
        conditions: those of DEFINE; a label without one takes every row (M18).
        measures: the columns that a match adds.
        show: which rows come out.
        skip: where the search goes on.
        within: the window, if any.
        output: the columns of the result, in order (M33, M34).
        arrival: the rows come in an order of their own, which breaks ties; otherwise hashes do (S1.2).
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
        """The primary variables, in the order in which they first stand in the pattern."""
        return labels(self.pattern)

    def type_of(self, column: str) -> pa.DataType:
        for each in self.derived:
            if each.name == column:
                return each.type
        return pa.string() if column == CLASSIFIER else self.columns.field(column).type

    def atoms_of(self, expr: Expr) -> tuple[Atom, ...]:
        return tuple(self.atoms[each.path[0]] for each in attributes(expr))


def atom(name: str, kind: Kind) -> Attr:
    """Return an atom as the attribute by which expressions name it."""
    return Attr("", (name,), kind=kind)
