"""Queries in Python: predicates are expressions, never lambdas, so they print, pickle and compile.

    a, b = var("Stock", "a"), many(var("Stock", "b"))
    query = seq(a, b).where(b[i].price > b[i - 1].price, a.price < b.price).within("1 hour")

`b[1]` is the first event of a Kleene variable, `b[-1]` the last, `b[i]` the current and `b[i - 1]` the
previous event, `b[:i]` all events before the current one. A column with an odd name is `b["odd name"]`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from cerise.errors import BindError, ParseError, did_you_mean, refuse_surrogates, show_number
from cerise.events import Path
from cerise.kinds import INT64_MAX
from cerise.lang.sase import parse
from cerise.lang.sase.nodes import OUTPUTS, STRATEGIES
from cerise.lang.sase.returns import MATCHES
from cerise.lang.sase.returns import total as total_of
from cerise.lang.terms import (
    Step,
    Term,
    Variable,
    aggregate,
    avg,
    call,
    count,
    event_of,
    expr_of,
    i,
    largest,
    param,
    smallest,
    stddev,
    total,
)
from cerise.pattern.expr import Expr, Param, Same, conjuncts
from cerise.pattern.query import (
    And,
    Item,
    Kleene,
    Maybe,
    Node,
    Not,
    Or,
    Per,
    Query,
    Seq,
    Total,
    Totals,
    Unit,
    Var,
    Window,
)
from cerise.pattern.show import quote, show

__all__ = [
    "Draft", "Step", "Term", "Variable", "aggregate", "all_of", "any_of", "avg", "call", "count", "i",
    "largest", "many", "maybe", "no", "param", "seq", "smallest", "stddev", "total", "var",
]  # fmt: skip

Extent = str | int | dt.timedelta | Term
PER = {each.value.split(" ", 1)[1].lower(): each for each in Per}


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
        raise BindError(
            f"'{type_or_name}' is not a plain name", hint='give it a type: var("Stock", "odd name")'
        )
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
    """A query that is being written: each method returns a new draft. `find` takes a draft."""

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
        """Match the events of each partition separately: PARTITION BY."""
        return Draft(replace(self.query, partition_by=tuple(map(_path, columns))))

    def same(self, *columns: str | Path) -> Draft:
        """Require that all events of a match have equal values in these columns: `[column]`."""
        return self.where(*(Term(Same(_path(each))) for each in columns))

    def within(self, extent: Extent) -> Draft:
        """Bound the match: "12 hours", "1000 events", a timedelta, or units of an integer time column."""
        return Draft(replace(self.query, within=window_of(extent)))

    def slide(self, extent: Extent) -> Draft:
        """Let windows start at multiples of the extent, instead of at every event: SLIDE."""
        return Draft(replace(self.query, slide=window_of(extent)))

    def output(self, which: str) -> Draft:
        """Choose which matches to return: "all" or "non_overlapping"."""
        word = which.upper().replace("-", "_")
        if word not in OUTPUTS:
            raise BindError(f"unknown output '{which}'", hint=did_you_mean(word, OUTPUTS))
        return Draft(replace(self.query, output=OUTPUTS[word]))

    def limit(self, count: int) -> Draft:
        """Keep at most `count` of the matches that one event completes."""
        _check_number(count, 1, "LIMIT")
        return Draft(replace(self.query, limit=count))

    def returns(self, **columns: Term | Variable) -> Draft:
        """Return these columns instead of the events; a variable without attribute returns its event."""
        values = {
            name: event_of(each) if isinstance(each, Variable) else expr_of(each)
            for name, each in columns.items()
        }
        if not values:
            raise BindError("nothing to return", hint="leave returns() out to return the events")
        for name in values:
            _check_name(name, "a column")
        if MATCHES in values.values():
            raise BindError("count() of matches is not a column of each", hint="use totals(n=count())")
        items = tuple(Item(value, name) for name, value in values.items())
        return Draft(replace(self.query, returns=items))

    def count(self) -> Draft:
        """Return only the number of matches."""
        return Draft(replace(self.query, returns=Totals()))

    def totals(self, per: str = "all", /, **columns: Term) -> Draft:
        """Return aggregates over the matches: `totals("partition", n=count(), high=largest(b.price))`.

        Args:
            per: the group that each row totals: "event", "partition", "window" or "partition, window"; or
                "all", one row for all matches.
            columns: `count()` of the matches, or `count`, `total`, `avg`, `smallest`, `largest` of a value.
        """
        word = ", ".join(part.strip() for part in per.lower().split(","))
        if word not in PER:
            raise BindError(f"no totals are per '{per}'", hint=did_you_mean(word, PER))
        if not columns:
            raise BindError("nothing to return", hint="say what to aggregate: totals(n=count())")
        for name in columns:
            _check_name(name, "a column")
        items = tuple(_total(name, term) for name, term in columns.items())
        return Draft(replace(self.query, returns=Totals(items, PER[word])))

    def into(self, name: str) -> Draft:
        """Name the matches, so that another query can read them."""
        _check_name(name, "INTO")
        return Draft(replace(self.query, into=name))

    def reading(self, source: Draft | Query) -> Draft:
        """Read the matches of another query instead of events; `into` must have named that query."""
        query = source.query if isinstance(source, Draft) else source
        if not isinstance(query, Query) or query.into is None:
            raise BindError("only a query with a name can be read", hint='name its matches: .into("Rise")')
        return Draft(replace(self.query, source=query))


def _predicate(term: Any) -> Expr:
    if isinstance(term, Term):
        return term._expr
    raise BindError(f"{term!r} is not a predicate", hint="compare attributes: where(a.price < b.price)")


def _total(name: str, term: Any) -> Total:
    try:
        return total_of(expr_of(term), name)
    except ParseError as error:
        raise BindError(error.problem, hint="use count(), count, total, avg, smallest or largest") from None


def _node(item: Variable | Draft) -> Node:
    if isinstance(item, Draft):
        return _only_pattern(item)
    if isinstance(item, Variable):
        return item._node
    raise BindError(f"{item!r} is not an item of a pattern", hint='write var("Stock", "a")')


def _draft(kind: Callable[[tuple[Node, ...]], Node], items: Iterable[Variable | Draft]) -> Draft:
    """Join items into one pattern; the predicates of its parts become predicates of the whole."""
    listed = tuple(items)
    where = tuple(each for item in listed if isinstance(item, Draft) for each in item.query.where)
    return Draft(Query(kind(tuple(map(_node, listed))), where=where))


def _only_pattern(item: Draft) -> Node:
    """Return the pattern of a part, which may have predicates but no other clause."""
    if item.query != Query(item.query.pattern, where=item.query.where):
        raise BindError("a part of a pattern has clauses of its own", hint="give them to the whole query")
    return item.query.pattern


def _check_number(value: Any, least: int, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= INT64_MAX:
        given = show_number(value) if isinstance(value, int) else repr(value)
        raise BindError(f"{what} is {given}", hint=f"give a whole number from {least} to {INT64_MAX}")


def _check_name(name: Any, what: str) -> None:
    if not isinstance(name, str) or not name:
        raise BindError(f"{name!r} is not a name for {what}")
    refuse_surrogates(name, BindError, f"the name of {what}")


def _path(column: Any) -> Path:
    if isinstance(column, str):
        return (column,)
    if isinstance(column, tuple) and column and all(isinstance(each, str) for each in column):
        return column
    raise BindError(
        f"{column!r} is not a column", hint='name it: "symbol", or ("payload", "user") for a field'
    )


def _single(item: Variable) -> Var:
    if isinstance(item, Variable) and isinstance(item._node, Var):
        return item._node
    raise BindError("only a single event can be repeated, optional or absent", hint="write many(var(…))")


def window_of(extent: Extent) -> Window:
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
        raise BindError(f"'{extent}' is not a window", hint=error.hint) from None
    if query.within is None or query != Query(query.pattern, within=query.within):
        raise BindError(f"'{extent}' is not a window", hint='write "5 minutes" or "1000 events"')
    return query.within
