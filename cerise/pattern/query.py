"""A query: its pattern, and the clauses around it (semantics.md §2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from cerise.errors import Span, text_html
from cerise.events import Path
from cerise.pattern.expr import Expr, Param


@dataclass(frozen=True, slots=True)
class Var:
    """One event; of one type, if `type` is given."""

    name: str
    type: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Kleene:
    """From `low` to `high` events bound to one variable; without `high`, any number from `low` on."""

    var: Var
    low: int = 1
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional item: the union of the query with the item and the query without it (S3.6)."""

    item: Node


@dataclass(frozen=True, slots=True)
class Not:
    """No such event (S6)."""

    var: Var


@dataclass(frozen=True, slots=True)
class Seq:
    """Items in stream order."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class And:
    """All items, in any order, interleaving."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of the items."""

    items: tuple[Node, ...]


Node = Var | Kleene | Maybe | Not | Seq | And | Or


def walk_nodes(node: Node) -> Iterator[Node]:
    """Yield a pattern's nodes, parents first, left to right."""
    yield node
    match node:
        case Seq(items) | And(items) | Or(items):
            for item in items:
                yield from walk_nodes(item)
        case Maybe(item):
            yield from walk_nodes(item)
        case Kleene(var) | Not(var):
            yield var
        case Var():
            return


def variables(node: Node) -> tuple[Var, ...]:
    """Return the variables of a pattern, negated ones included, left to right."""
    return tuple(each for each in walk_nodes(node) if isinstance(each, Var))


def absent_names(node: Node) -> frozenset[str]:
    """Return the names of the negated variables."""
    return frozenset(each.var.name for each in walk_nodes(node) if isinstance(each, Not))


def kleene_names(node: Node) -> frozenset[str]:
    """Return the names of the Kleene variables."""
    return frozenset(each.var.name for each in walk_nodes(node) if isinstance(each, Kleene))


# ---- around the pattern


class Strategy(Enum):
    """Which events a run may ignore (S3.4)."""

    STRICT = "strict_contiguity"
    PARTITION = "partition_contiguity"
    NEXT = "skip_till_next_match"
    ANY = "skip_till_any_match"

    @property
    def contiguous(self) -> bool:
        return self in (Strategy.STRICT, Strategy.PARTITION)


class Unit(Enum):
    """The unit of a window."""

    TIME = "microseconds"
    NUMBER = "units of an integer time column"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Window:
    """The extent of WITHIN or SLIDE: a size in a unit."""

    size: int | Param
    unit: Unit
    span: Span | None = field(default=None, compare=False, repr=False)


class Output(Enum):
    """Which matches the query returns (S7.1)."""

    ALL = "ALL"
    NON_OVERLAPPING = "NON_OVERLAPPING"


@dataclass(frozen=True, slots=True)
class Item:
    """One column of RETURN."""

    expr: Expr
    name: str


class Per(Enum):
    """The groups of matches that have a row of totals each."""

    ALL = "IN ALL"
    EVENT = "PER EVENT"
    PARTITION = "PER PARTITION"
    WINDOW = "PER WINDOW"
    PARTITION_WINDOW = "PER PARTITION, WINDOW"

    @property
    def partition(self) -> bool:
        """Whether rows name a partition; a row per event names the event's partition."""
        return self in (Per.EVENT, Per.PARTITION, Per.PARTITION_WINDOW)

    @property
    def window(self) -> bool:
        return self in (Per.WINDOW, Per.PARTITION_WINDOW)


@dataclass(frozen=True, slots=True)
class Total:
    """One column of totals: count, sum, avg, min or max of a value over the matches.

    Attributes:
        function: the name of the aggregate.
        arg: the value; None: the aggregate counts matches, COUNT(*).
        name: the name of the column.
        text: whether the column is text with all digits: STRING(COUNT(*)).
    """

    function: str
    arg: Expr | None
    name: str
    text: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Totals:
    """RETURN of aggregates over the matches, instead of the matches (S7.2).

    `Totals()` is RETURN COUNT(*).
    """

    items: tuple[Total, ...] = (Total("count", None, "count"),)
    per: Per = Per.ALL
    span: Span | None = field(default=None, compare=False, repr=False)


Count = Totals  # Count() reads better for RETURN COUNT(*) alone
Return = tuple[Item, ...] | Totals | None  # None is RETURN *


@dataclass(frozen=True, slots=True)
class Query:
    """A query. `source` is a name, or the query whose matches are the events (S7.3)."""

    pattern: Node
    source: str | Query | None = None
    strategy: Strategy = Strategy.NEXT
    partition_by: tuple[Path, ...] = ()
    where: tuple[Expr, ...] = ()
    within: Window | None = None
    slide: Window | None = None
    output: Output = Output.ALL
    limit: int | None = None
    returns: Return = None
    into: str | None = None
    text: str | None = field(default=None, compare=False, repr=False)

    @property
    def totals(self) -> Totals | None:
        """The aggregates over all matches, if RETURN has totals instead of matches."""
        return self.returns if isinstance(self.returns, Totals) else None

    @property
    def counts_only(self) -> bool:
        """Whether the query returns only the number of all matches."""
        totals = self.totals
        return totals is not None and totals.per is Per.ALL and all(each.arg is None for each in totals.items)

    def __str__(self) -> str:
        from cerise.pattern.show import show

        return show(self)

    def _repr_html_(self) -> str:
        return text_html(str(self))
