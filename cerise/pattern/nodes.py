"""The structure of a pattern: variables, and how they follow, join and repeat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cerise.errors import Span


@dataclass(frozen=True, slots=True)
class Var:
    """One event, of a type where one is given."""

    name: str
    type: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Kleene:
    """From `low` to `high` events bound to one variable; no high means as many as there are."""

    var: Var
    low: int = 1
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Maybe:
    """The item or nothing: the union of the query with it and without it (S3.6)."""

    item: Node


@dataclass(frozen=True, slots=True)
class Not:
    """No such event (§6)."""

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


def walk(node: Node) -> Iterator[Node]:
    """Yield a pattern's nodes, parents first, left to right."""
    yield node
    match node:
        case Seq(items) | And(items) | Or(items):
            for item in items:
                yield from walk(item)
        case Maybe(item):
            yield from walk(item)
        case Kleene(var) | Not(var):
            yield var
        case Var():
            return


def variables(node: Node) -> tuple[Var, ...]:
    """Return the variables of a pattern, left to right, the negated ones too."""
    return tuple(each for each in walk(node) if isinstance(each, Var))


def negated(node: Node) -> frozenset[str]:
    """Return the names of the negated variables."""
    return frozenset(each.var.name for each in walk(node) if isinstance(each, Not))


def repeated(node: Node) -> frozenset[str]:
    """Return the names of the Kleene variables."""
    return frozenset(each.var.name for each in walk(node) if isinstance(each, Kleene))
