"""A query: a pattern and everything said around it (semantics.md §2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from cerise.errors import Span
from cerise.events import Path
from cerise.pattern.expr import Expr, Param
from cerise.pattern.nodes import Node


class Strategy(Enum):
    """Which events a run may ignore (S3.4)."""

    STRICT = "strict_contiguity"
    PARTITION = "partition_contiguity"
    NEXT = "skip_till_next_match"
    ANY = "skip_till_any_match"

    @property
    def contiguous(self) -> bool:
        """Whether the selected events of a partition are neighbours."""
        return self in (Strategy.STRICT, Strategy.PARTITION)


class Unit(Enum):
    """What a window is measured in."""

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
    """Which of the matches are wanted (S7.1)."""

    ALL = "ALL"
    NON_OVERLAPPING = "NON_OVERLAPPING"


@dataclass(frozen=True, slots=True)
class Item:
    """One column of RETURN."""

    expr: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Count:
    """RETURN COUNT(*) [AS name]."""

    name: str = "count"


Return = tuple[Item, ...] | Count | None  # None is RETURN *


@dataclass(frozen=True, slots=True)
class Query:
    """What to find. `source` is a name, or the query whose matches are the events (S7.3)."""

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

    def __str__(self) -> str:
        from cerise.pattern.show import show

        return show(self)
