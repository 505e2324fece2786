"""Queries in Python: predicates are expressions, never lambdas, so they print, pickle and compile.

    a, b = var("Stock", "a"), many(var("Stock", "b"))
    query = seq(a, b).where(b[i].price > b[i - 1].price, a.price < b.price).within("1 hour")

`b[1]` is the first event of a Kleene variable, `b[-1]` the last, `b[i]` and `b[i - 1]` the current and the
previous one, `b[:i]` those before the current one. A column with an odd name is `b["odd name"]`.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from cerise.errors import BindError, did_you_mean
from cerise.events import Path
from cerise.kinds import Kind
from cerise.lang.sase import parse
from cerise.lang.sase_exprs import over_set
from cerise.lang.sase_nodes import OUTPUTS, STRATEGIES
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
    Same,
    Unary,
    conjuncts,
)
from cerise.pattern.nodes import And, Kleene, Maybe, Node, Not, Or, Seq, Var
from cerise.pattern.query import Count, Item, Query, Unit, Window
from cerise.pattern.resolve import literal
from cerise.pattern.show import quote, show, show_expr


class Term:
    """An expression with Python's operators; `&`, `|` and `~` are AND, OR and NOT."""

    __slots__ = ("_expr",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def __getattr__(self, name: str) -> Term:
        return self[name]

    def __getitem__(self, name: str) -> Term:
        """Return a nested field of an attribute."""
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
        """Whether the value is one of some."""
        return Term(In(self._expr, tuple(map(_expr, values))))

    def between(self, low: Any, high: Any) -> Term:
        """Whether low ≤ value ≤ high."""
        return Term(
            Binary("and", Binary(">=", self._expr, _expr(low)), Binary("<=", self._expr, _expr(high)))
        )

    def like(self, pattern: str) -> Term:
        """Whether the text is LIKE a pattern of % and _."""
        return Term(Like(self._expr, pattern))

    def __invert__(self) -> Term:
        return Term(Unary("not", self._expr))

    def __neg__(self) -> Term:
        return Term(Unary("-", self._expr))

    def __repr__(self) -> str:
        return show_expr(self._expr)


def _operator(op: str, *, swapped: bool = False) -> Callable[[Term, Any], Term]:
    def apply(self: Term, other: Any) -> Term:
        left, right = (_expr(other), self._expr) if swapped else (self._expr, _expr(other))
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
Extent = str | int | dt.timedelta | Term


class Variable:
    """A variable of a pattern: `a.price` is an attribute of its event."""

    __slots__ = ("_at", "_node")

    def __init__(self, node: Var | Kleene | Maybe, at: Index = At.EVERY) -> None:
        self._node = node
        self._at = at

    def __getattr__(self, name: str) -> Term:
        if name.startswith("__"):
            raise AttributeError(name)
        return Term(Attr(_var(self._node).name, (name,), self._at))

    def __getitem__(self, key: Any) -> Any:
        """Return an attribute by name, or one of the events of a Kleene variable."""
        if isinstance(key, str):
            return Term(Attr(_var(self._node).name, (key,), self._at))
        return Variable(self._node, _index(key))


def _index(key: Any) -> Index:
    match key:
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
    raise BindError(f"no event is numbered {key}", hint="use b[1], b[-1], b[i], b[i - 1], b[:i] or b[:]")


def var(type_or_name: str, name: str | None = None) -> Variable:
    """Return a variable: `var("Stock", "a")` of a type, `var("a")` of any."""
    if name is not None:
        return Variable(Var(name, type_or_name))
    if type_or_name.upper() == type_or_name != type_or_name.lower():
        return Variable(Var(type_or_name, type_or_name))  # S2.1: capitals are a type
    if quote(type_or_name).startswith('"'):
        raise BindError(f"'{type_or_name}' is no plain name", hint='give it a type: var("Stock", "odd name")')
    return Variable(Var(type_or_name))


def many(item: Variable, low: int = 1, high: int | None = None) -> Variable:
    """Return a Kleene variable: one or more events, or from `low` to `high`."""
    return Variable(Kleene(_single(item), low, high))


def maybe(item: Variable | Draft) -> Variable | Draft:
    """Return an item that may be missing."""
    if isinstance(item, Draft):
        return Draft(Query(Maybe(item.query.pattern)))
    return Variable(Maybe(_single(item)))


def no(item: Variable) -> Draft:
    """Return the absence of an event."""
    return Draft(Query(Not(_single(item))))


def seq(*items: Variable | Draft) -> Draft:
    """Return a query for items in stream order."""
    return Draft(Query(Seq(tuple(map(_node, items)))))


def all_of(*items: Variable | Draft) -> Draft:
    """Return a query for all items, in any order."""
    return Draft(Query(And(tuple(map(_node, items)))))


def any_of(*items: Variable | Draft) -> Draft:
    """Return a query for one of the items."""
    return Draft(Query(Or(tuple(map(_node, items)))))


@dataclass(frozen=True, slots=True)
class Draft:
    """A query being written; each method returns a new one. `find` takes it as it is."""

    query: Query

    def __str__(self) -> str:
        return show(self.query)

    def where(self, *predicates: Term) -> Draft:
        """Add predicates; all of them must hold."""
        added = tuple(each for term in predicates for each in conjuncts(_predicate(term)))
        return Draft(replace(self.query, where=self.query.where + added))

    def use(self, strategy: str) -> Draft:
        """Choose the strategy, by any of its names."""
        word = strategy.lower().replace("-", "_")
        if word not in STRATEGIES:
            raise BindError(f"unknown strategy '{strategy}'", hint=did_you_mean(word, STRATEGIES))
        return Draft(replace(self.query, strategy=STRATEGIES[word]))

    def partition_by(self, *columns: str | Path) -> Draft:
        """Match the events of each value of some columns apart."""
        paths = tuple((each,) if isinstance(each, str) else each for each in columns)
        return Draft(replace(self.query, partition_by=paths))

    def same(self, *columns: str | Path) -> Draft:
        """Ask that all events of a match agree in some columns: `[column]`."""
        return self.where(*(Term(Same((each,) if isinstance(each, str) else each)) for each in columns))

    def within(self, extent: Extent) -> Draft:
        """Bound the match: "12 hours", "1000 events", a timedelta, or units of an integer time column."""
        return Draft(replace(self.query, within=_window(extent)))

    def slide(self, extent: Extent) -> Draft:
        """Let the window hop instead of slide with every event."""
        return Draft(replace(self.query, slide=_window(extent)))

    def output(self, which: str) -> Draft:
        """Choose which matches: "all" or "non_overlapping"."""
        word = which.upper().replace("-", "_")
        if word not in OUTPUTS:
            raise BindError(f"unknown output '{which}'", hint=did_you_mean(word, OUTPUTS))
        return Draft(replace(self.query, output=OUTPUTS[word]))

    def limit(self, count: int) -> Draft:
        """Keep at most so many of the matches that one event completes."""
        if count < 1:
            raise BindError("LIMIT must be at least 1")
        return Draft(replace(self.query, limit=count))

    def returns(self, **columns: Term | Variable) -> Draft:
        """Return these columns instead of the events; a variable alone is its event."""
        values = {
            name: _whole(each) if isinstance(each, Variable) else _expr(each)
            for name, each in columns.items()
        }
        items = tuple(Item(value, name) for name, value in values.items())
        return Draft(replace(self.query, returns=items))

    def count(self) -> Draft:
        """Return the number of matches only."""
        return Draft(replace(self.query, returns=Count()))

    def into(self, name: str) -> Draft:
        """Name the matches, so that another query can read them."""
        return Draft(replace(self.query, into=name))

    def reading(self, source: Draft | Query) -> Draft:
        """Find in the matches of another query instead of in events."""
        return Draft(replace(self.query, source=source.query if isinstance(source, Draft) else source))


def param(name: str) -> Term:
    """Return a parameter, given as `params={name: …}`."""
    return Term(Param(name))


def aggregate(function: str, term: Term | Variable) -> Term:
    """Return avg, sum, min, max, count or stddev over the events of a Kleene variable."""
    return Term(Agg(function, over_set(term._expr if isinstance(term, Term) else _whole(term))))


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


def count(term: Term | Variable) -> Term:
    """Return how many events, or values that are not null, there are."""
    return aggregate("count", term)


def call(function: str, *args: Any) -> Term:
    """Return a scalar function of values: `call("abs", a.x - b.x)`."""
    return Term(Call(function, tuple(map(_expr, args))))


def _predicate(term: Any) -> Expr:
    if isinstance(term, Term):
        return term._expr
    raise BindError(f"{term!r} is no predicate", hint="compare attributes: where(a.price < b.price)")


def _expr(value: Any) -> Expr:
    if isinstance(value, Term):
        return value._expr
    if isinstance(value, Variable):
        raise BindError(
            f"'{_var(value._node).name}' is an event, not a value", hint="name an attribute of it"
        )
    if isinstance(value, float) and not math.isfinite(value):
        return Cast(Literal(str(value), Kind.STRING), Kind.FLOAT)  # text has no word for it
    return replace(literal(Param("value"), {"value": value}), span=None)


def _node(item: Variable | Draft) -> Node:
    if isinstance(item, Draft):
        return item.query.pattern
    if isinstance(item, Variable):
        return item._node
    raise BindError(f"{item!r} is no item of a pattern", hint='write var("Stock", "a")')


def _var(node: Var | Kleene | Maybe) -> Var:
    match node:
        case Var():
            return node
        case Kleene(inner):
            return inner
        case Maybe(Var() as inner):
            return inner
    raise BindError("only a single event has attributes")


def _single(item: Variable) -> Var:
    if isinstance(item, Variable) and isinstance(item._node, Var):
        return item._node
    raise BindError("only a single event can be repeated, optional or absent", hint="write many(var(…))")


def _whole(item: Variable) -> Attr:
    return Attr(_var(item._node).name, (), item._at)


def _window(extent: Extent) -> Window:
    if isinstance(extent, Term):
        if not isinstance(extent._expr, Param):
            raise BindError("a window is a constant or a parameter", hint='write within(param("span"))')
        return Window(extent._expr, Unit.NUMBER)
    if isinstance(extent, str):
        within = parse(f"PATTERN x WITHIN {extent}").within
        assert within is not None
        return within
    if isinstance(extent, dt.timedelta):
        return Window(extent // dt.timedelta(microseconds=1), Unit.TIME)
    return Window(extent, Unit.NUMBER)
