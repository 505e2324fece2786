"""The terms of queries written in Python: attributes with operators, aggregates, parameters, constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from cerise.errors import BindError
from cerise.kinds import Kind
from cerise.lang.sase.expressions import check_like, over_set
from cerise.pattern.expr import (
    Agg,
    At,
    Attr,
    Binary,
    Call,
    Cast,
    Expr,
    In,
    Index,
    IsNull,
    Like,
    Literal,
    Param,
    Unary,
)
from cerise.pattern.query import Kleene, Maybe, Var
from cerise.pattern.resolve import literal
from cerise.pattern.show import show_expr


class Term:
    """An expression with Python's operators; `&`, `|` and `~` are AND, OR and NOT."""

    __slots__ = ("_expr",)
    __hash__ = None  # type: ignore[assignment]
    __iter__ = None

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def __getattr__(self, name: str) -> Term:
        return self[name]

    def __getitem__(self, name: str) -> Term:
        """Return a nested field of an attribute."""
        if not isinstance(name, str):
            raise BindError(f"{name!r} is not a field of {self}", hint="name a field of a struct")
        if name.startswith("__") or not isinstance(self._expr, Attr):
            raise AttributeError(name)
        return Term(replace(self._expr, path=(*self._expr.path, name)))

    def __bool__(self) -> bool:
        raise TypeError(
            "a predicate has no truth value yet: join predicates with & and |, not with and and or"
        )

    def is_null(self) -> Term:
        """Whether the value IS NULL."""
        return Term(IsNull(self._expr))

    def is_in(self, values: Iterable[Any]) -> Term:
        """Whether the value is in a list of values."""
        items = tuple(map(expr_of, values))
        if not items:
            raise BindError("is_in() of no values is never true", hint="leave the predicate out")
        return Term(In(self._expr, items))

    def between(self, low: Any, high: Any) -> Term:
        """Whether low ≤ value ≤ high."""
        return Term(
            Binary("and", Binary(">=", self._expr, expr_of(low)), Binary("<=", self._expr, expr_of(high)))
        )

    def like(self, pattern: str) -> Term:
        """Whether the text is LIKE a pattern of % and _."""
        check_like(pattern, None)
        return Term(Like(self._expr, pattern))

    def __invert__(self) -> Term:
        return Term(Unary("not", self._expr))

    def __neg__(self) -> Term:
        return Term(Unary("-", self._expr))

    def __repr__(self) -> str:
        return show_expr(self._expr)


def _operator(op: str, *, swapped: bool = False) -> Callable[[Term, Any], Term]:
    def apply(self: Term, other: Any) -> Term:
        left, right = (expr_of(other), self._expr) if swapped else (self._expr, expr_of(other))
        return Term(Binary(op, left, right))

    return apply


for _method, _op in {
    "eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "add": "+", "sub": "-", "mul": "*",
    "truediv": "/", "mod": "%", "and": "and", "or": "or",
}.items():  # fmt: skip
    setattr(Term, f"__{_method}__", _operator(_op))
    if _op in "+-*/%":
        setattr(Term, f"__r{_method}__", _operator(_op, swapped=True))


class Step:
    """The `i` of b[i] and b[i - 1]."""

    def __sub__(self, other: int) -> Step:
        if other != 1:
            raise BindError("only the previous event can be named", hint="write b[i - 1]")
        return PREVIOUS


i, PREVIOUS = Step(), Step()


class Variable:
    """A variable of a pattern: `a.price` is an attribute of its event."""

    __slots__ = ("_at", "_node")

    def __init__(self, node: Var | Kleene | Maybe, at: Index = At.EVERY) -> None:
        self._node = node
        self._at = at

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__"):
            raise AttributeError(name)
        return Term(Attr(var_of(self._node).name, (name,), self._at))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return Term(Attr(var_of(self._node).name, (key,), self._at))
        return Variable(self._node, _index(key))


def _index(key: Any) -> Index:
    match key:
        case bool():
            pass
        case int() if key >= 1:
            return key
        case -1:
            return At.LAST
        case Step():
            return At.CURRENT if key is i else At.PREVIOUS
        case slice(start=None, stop=None):
            return At.ALL
        case slice(start=None, stop=Step() as stop) if stop is i:
            return At.RUNNING
    index = "that" if isinstance(key, slice) else repr(key)
    raise BindError(f"no event is numbered {index}", hint="use b[1], b[-1], b[i], b[i - 1], b[:i] or b[:]")


def param(name: str) -> Term:
    """Return a parameter, given as `params={name: …}`."""
    if not name.isidentifier():
        raise BindError(f"'{name}' is not a name for a parameter", hint="use letters, digits and _")
    return Term(Param(name))


def aggregate(function: str, term: Term | Variable) -> Term:
    """Return avg, sum, min, max, count or stddev over the events of a Kleene variable."""
    return Term(Agg(function, over_set(term._expr if isinstance(term, Term) else event_of(term))))


def avg(term: Term) -> Term:
    """Return the mean."""
    return aggregate("avg", term)


def total(term: Term) -> Term:
    """Return the sum."""
    return aggregate("sum", term)


def smallest(term: Term) -> Term:
    """Return the minimum."""
    return aggregate("min", term)


def largest(term: Term) -> Term:
    """Return the maximum."""
    return aggregate("max", term)


def stddev(term: Term) -> Term:
    """Return the standard deviation of the sample."""
    return aggregate("stddev", term)


def count(term: Term | Variable | None = None) -> Term:
    """Return the number of a variable's events, or of values that are not null; `count()` counts matches."""
    return Term(Call("count", ())) if term is None else aggregate("count", term)


def call(function: str, *args: Any) -> Term:
    """Return a scalar function of values: `call("abs", a.x - b.x)`."""
    return Term(Call(function, tuple(map(expr_of, args))))


def expr_of(value: Any) -> Expr:
    """Return a term as an expression, and any other value as a constant."""
    if isinstance(value, Term):
        return value._expr
    if isinstance(value, Variable):
        raise BindError(
            f"'{var_of(value._node).name}' is an event, not a value", hint="name an attribute of it"
        )
    if isinstance(value, float) and not math.isfinite(value):
        return Cast(Literal(str(value), Kind.STRING), Kind.FLOAT)  # SASE+ has no literal for inf and nan
    return replace(literal(Param("value"), {"value": value}), span=None)


def var_of(node: Var | Kleene | Maybe) -> Var:
    """Return the variable of an item."""
    match node:
        case Var():
            return node
        case Kleene(inner):
            return inner
        case Maybe(Var() as inner):
            return inner
    raise BindError("only a single event has attributes")


def event_of(item: Variable) -> Attr:
    """Return the attribute that stands for a variable's whole event, for count(b) and RETURN b."""
    return Attr(var_of(item._node).name, (), item._at)
