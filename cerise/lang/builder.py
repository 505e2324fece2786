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

from cerise.errors import BindError, ParseError, did_you_mean
from cerise.events import Path
from cerise.kinds import Kind
from cerise.lang.sase import parse
from cerise.lang.sase_exprs import check_like, over_set
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
    __iter__ = None

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def __getattr__(self, name: str) -> Term:
        return self[name]

    def __getitem__(self, name: str) -> Term:
        """Return a nested field of an attribute."""
        if not isinstance(name, str):
            raise BindError(f"{name!r} is no field of {self}", hint="name a field of a struct")
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
        items = tuple(map(_expr, values))
        if not items:
            raise BindError("is_in() of no values is never true", hint="leave the predicate out")
        return Term(In(self._expr, items))

    def between(self, low: Any, high: Any) -> Term:
        """Whether low ≤ value ≤ high."""
        return Term(
            Binary("and", Binary(">=", self._expr, _expr(low)), Binary("<=", self._expr, _expr(high)))
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
    shown = "that" if isinstance(key, slice) else repr(key)
    raise BindError(f"no event is numbered {shown}", hint="use b[1], b[-1], b[i], b[i - 1], b[:i] or b[:]")


def var(type_or_name: str, name: str | None = None) -> Variable:
    """Return a variable: `var("Stock", "a")` of a type, `var("a")` of any."""
    for each in (type_or_name, name):
        if each is not None:
            _check_name(each, "a variable or type")
    if name is not None:
        return Variable(Var(name, type_or_name))
    if type_or_name.upper() == type_or_name != type_or_name.lower():
        return Variable(Var(type_or_name, type_or_name))  # S2.1: capitals are a type
    if quote(type_or_name).startswith('"'):
        raise BindError(f"'{type_or_name}' is no plain name", hint='give it a type: var("Stock", "odd name")')
    return Variable(Var(type_or_name))


def many(item: Variable, low: int = 1, high: int | None = None) -> Variable:
    """Return a Kleene variable: one or more events, or from `low` to `high`."""
    _check_number(low, 0, "low")
    if high is not None:
        _check_number(high, max(low, 1), "high")
    return Variable(Kleene(_single(item), low, high))


def maybe(item: Variable | Draft) -> Variable | Draft:
    """Return an item that may be missing."""
    if isinstance(item, Draft):
        return Draft(replace(item.query, pattern=Maybe(_only_pattern(item))))
    return Variable(Maybe(_single(item)))


def no(item: Variable) -> Draft:
    """Return the absence of an event."""
    return Draft(Query(Not(_single(item))))


def seq(*items: Variable | Draft) -> Draft:
    """Return a query for items in stream order."""
    return _draft(Seq, items)


def all_of(*items: Variable | Draft) -> Draft:
    """Return a query for all items, in any order."""
    return _draft(And, items)


def any_of(*items: Variable | Draft) -> Draft:
    """Return a query for one of the items."""
    return _draft(Or, items)


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
        return Draft(replace(self.query, partition_by=tuple(map(_path, columns))))

    def same(self, *columns: str | Path) -> Draft:
        """Ask that all events of a match agree in some columns: `[column]`."""
        return self.where(*(Term(Same(_path(each))) for each in columns))

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
        _check_number(count, 1, "LIMIT")
        return Draft(replace(self.query, limit=count))

    def returns(self, **columns: Term | Variable) -> Draft:
        """Return these columns instead of the events; a variable alone is its event."""
        values = {
            name: _whole(each) if isinstance(each, Variable) else _expr(each)
            for name, each in columns.items()
        }
        if not values:
            raise BindError("nothing to return", hint="leave returns() out to return the events")
        items = tuple(Item(value, name) for name, value in values.items())
        return Draft(replace(self.query, returns=items))

    def count(self) -> Draft:
        """Return the number of matches only."""
        return Draft(replace(self.query, returns=Count()))

    def into(self, name: str) -> Draft:
        """Name the matches, so that another query can read them."""
        _check_name(name, "INTO")
        return Draft(replace(self.query, into=name))

    def reading(self, source: Draft | Query) -> Draft:
        """Find in the matches of another query instead of in events; it needs a name, by `into`."""
        query = source.query if isinstance(source, Draft) else source
        if not isinstance(query, Query) or query.into is None:
            raise BindError("only a query with a name can be read", hint='name its matches: .into("Rise")')
        return Draft(replace(self.query, source=query))


def param(name: str) -> Term:
    """Return a parameter, given as `params={name: …}`."""
    if not name.isidentifier():
        raise BindError(f"'{name}' is no name for a parameter", hint="use letters, digits and _")
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
        return _only_pattern(item)
    if isinstance(item, Variable):
        return item._node
    raise BindError(f"{item!r} is no item of a pattern", hint='write var("Stock", "a")')


def _draft(kind: Callable[[tuple[Node, ...]], Node], items: Iterable[Variable | Draft]) -> Draft:
    """Join items into one pattern; what parts of it say in `where` holds for the whole."""
    listed = tuple(items)
    where = tuple(each for item in listed if isinstance(item, Draft) for each in item.query.where)
    return Draft(Query(kind(tuple(map(_node, listed))), where=where))


def _only_pattern(item: Draft) -> Node:
    """Return the pattern of a part, which may have predicates but nothing else of a query."""
    if item.query != Query(item.query.pattern, where=item.query.where):
        raise BindError("a part of a pattern has clauses of its own", hint="give them to the whole query")
    return item.query.pattern


def _check_number(value: Any, least: int, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BindError(f"{what} is {value!r}", hint=f"give a whole number of at least {least}")


def _check_name(name: Any, what: str) -> None:
    if not isinstance(name, str) or not name:
        raise BindError(f"{name!r} is no name for {what}")


def _path(column: Any) -> Path:
    if isinstance(column, str):
        return (column,)
    if isinstance(column, tuple) and column and all(isinstance(each, str) for each in column):
        return column
    raise BindError(f"{column!r} is no column", hint='name it: "symbol", or ("payload", "user") for a field')


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
        return _window_of_text(extent)
    if isinstance(extent, dt.timedelta):
        _check_number(extent // dt.timedelta(microseconds=1), 0, "a window in microseconds")
        return Window(extent // dt.timedelta(microseconds=1), Unit.TIME)
    _check_number(extent, 0, "a window")
    return Window(extent, Unit.NUMBER)


def _window_of_text(extent: str) -> Window:
    try:
        query = parse(f"PATTERN x WITHIN {extent}")
    except ParseError as error:
        raise BindError(f"'{extent}' is no window", hint=error.hint) from None
    if query.within is None or query != Query(query.pattern, within=query.within):
        raise BindError(f"'{extent}' is no window", hint='write "5 minutes" or "1000 events"')
    return query.within
