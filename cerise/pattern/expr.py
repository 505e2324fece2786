"""Expressions over the events of a match, as data that can be printed, pickled, compiled and pushed down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from cerise.errors import Span
from cerise.events import Path
from cerise.kinds import Kind

Value = int | float | str | bool | None


class At(Enum):
    """Which event of a Kleene variable an identifier means (S4.3); a plain int k means the k-th."""

    EVERY = "every"  # b.x: each event in turn, or the one event of a single variable
    ALL = "all"  # b[].x: the set, inside an aggregate
    RUNNING = "running"  # b[..i-1].x: the events before the current one, inside an aggregate
    CURRENT = "current"  # b[i].x
    PREVIOUS = "previous"  # b[i-1].x
    LAST = "last"  # b[b.LEN].x
    NEXT = "next"  # NEXT(b.x)
    PREV = "prev"  # PREV(b.x)


Index = At | int


def _span() -> Span | None:
    return field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; moments and durations are integers in microseconds."""

    value: Value
    kind: Kind
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Param:
    """A value given at bind time: `:name` (S2.5)."""

    name: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of an event of a variable; an empty path is the event itself, for count(b)."""

    var: str
    path: Path
    at: Index = At.EVERY
    kind: Kind | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Agg:
    """An aggregate over the events of one Kleene variable; `At` in its argument says running or final."""

    function: str
    arg: Expr
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    """NOT x, or -x."""

    op: str
    arg: Expr
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, a comparison, AND or OR."""

    op: str
    left: Expr
    right: Expr
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether x IS NULL."""

    arg: Expr
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class In:
    """Whether x IN (…)."""

    arg: Expr
    items: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Like:
    """Whether x LIKE a pattern of `%` (anything) and `_` (one character), `\\` escaping."""

    arg: Expr
    pattern: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function of `pattern.check.FUNCTIONS`."""

    function: str
    args: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Cast:
    """A value as another kind: CAST(x AS DOUBLE)."""

    arg: Expr
    kind: Kind
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Same:
    """The equivalence test `[attr]`: every event of the match has the same attr (S4.2)."""

    path: Path
    span: Span | None = _span()


Expr = Literal | Param | Attr | Agg | Unary | Binary | IsNull | In | Like | Call | Cast | Same

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}  # sides exchanged
AGGREGATES = frozenset({"avg", "sum", "min", "max", "count", "stddev"})


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of an expression."""
    match expr:
        case Literal() | Param() | Attr() | Same():  # first, because most nodes are leaves
            return ()
        case Binary(left=left, right=right):
            return (left, right)
        case Unary(arg=arg) | Agg(arg=arg) | IsNull(arg=arg) | Like(arg=arg) | Cast(arg=arg):
            return (arg,)
        case In(arg=arg, items=items):
            return (arg, *items)
        case Call(args=args):
            return args


def rebuild(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the expression with `change` applied to each direct operand."""
    match expr:
        case Unary() | Agg() | IsNull() | Like() | Cast():
            return replace(expr, arg=change(expr.arg))
        case Binary():
            return replace(expr, left=change(expr.left), right=change(expr.right))
        case In():
            return replace(expr, arg=change(expr.arg), items=tuple(map(change, expr.items)))
        case Call():
            return replace(expr, args=tuple(map(change, expr.args)))
        case Literal() | Param() | Attr() | Same():
            return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and everything in it, parents first."""
    waiting = [expr]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += reversed(children(each))


def attributes(expr: Expr) -> tuple[Attr, ...]:
    """Return every attribute that an expression mentions, inside aggregates too."""
    return tuple(each for each in walk(expr) if isinstance(each, Attr))


def outside_aggregates(expr: Expr) -> Iterator[Attr]:
    """Yield the attributes that an expression mentions outside aggregates."""
    if isinstance(expr, Attr):
        yield expr
    elif not isinstance(expr, Agg):
        for child in children(expr):
            yield from outside_aggregates(child)


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """Split a predicate at its top-level ANDs."""
    if isinstance(expr, Binary) and expr.op == "and":
        return conjuncts(expr.left) + conjuncts(expr.right)
    return (expr,)
