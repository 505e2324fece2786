"""CLASSIFIER() computed with inside a navigation or aggregate, written without it.

Columns derived from one row know no labels, which depend on the match. But there are few labels: what is
computed from a row with label 'A' is a column of its own, with 'A' in place of CLASSIFIER(). A navigation
takes the column of the label that it finds; an aggregate is put together from those over each label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from sqlglot import exp

from cerise.lang.match_recognize.atoms import AGGREGATES, LOGICAL, PHYSICAL, Place, variable_of
from cerise.lang.match_recognize.columns import strip_parens
from cerise.lang.match_recognize.expressions import Node
from cerise.lang.match_recognize.translate import call, column, function_of, inside, is_classifier

TOGETHER = frozenset({"avg", "count", "max", "mean", "min", "sum"})  # computable from parts


def spread_labels(tree: Node, place: Place) -> Node:
    """Return an expression in which no label is computed with inside a navigation or aggregate."""
    root = exp.Paren(this=tree.copy())
    _spread(root.this, place)
    found = root.this
    assert isinstance(found, exp.Expression)
    return found


def _spread(node: Node, place: Place) -> None:
    function = function_of(node.this if isinstance(node, exp.Filter) else node)
    known = function.name if function is not None else ""
    if known in LOGICAL or known in PHYSICAL:
        operand = _innermost(node)
        if _computes_label([operand]):
            node.replace(_rewrite_navigation(node, operand, place))
    elif known in AGGREGATES:
        if known in TOGETHER and _computes_label(_arguments(node)) and not _is_distinct(node):
            node.replace(_rewrite_aggregate(node, known, place))
    else:
        for child in list(node.iter_expressions()):
            _spread(child, place)


def _arguments(node: Node) -> list[Node]:
    if isinstance(node, exp.Filter):
        return [*node.this.expressions, node.expression]
    return list(node.expressions)


def _innermost(node: Node) -> Node:
    """Return what a navigation reads, inside of PREV(LAST(…)) too."""
    function = function_of(node)
    while function is not None and function.name in (*LOGICAL, *PHYSICAL) and function.args:
        node = strip_parens(function.args[0])
        function = function_of(node)
    return node


def _computes_label(nodes: Iterable[Node]) -> bool:
    """Whether CLASSIFIER() stands in one of some arguments, and is not all of it."""
    return any(
        is_classifier(each)
        for node in nodes
        for each in inside(strip_parens(node))
        if each is not strip_parens(node)
    )


def _is_distinct(node: Node) -> bool:
    return any(isinstance(each, exp.Distinct) for each in inside(node))


def _rewrite_navigation(node: Node, operand: Node, place: Place) -> Node:
    """CASE of the label found: each with the value that a row of that label has there."""
    var = variable_of([operand], "a navigation", place)

    def reading(what: Node) -> Node:
        copy = exp.Paren(this=node.copy())
        _innermost(copy.this).replace(what)
        found = copy.this
        assert isinstance(found, exp.Expression)
        return found

    names = [exp.to_identifier(var, quoted=True)] if var else []
    label = reading(call("classifier", *(exp.Column(this=name) for name in names)))
    ifs = [
        exp.If(this=exp.Literal.string(each), true=reading(_label(operand, each, var, place)))
        for each in _labels(place, var)
    ]
    return exp.Case(this=label, ifs=ifs, default=reading(_label(operand, None, var, place)))


def _rewrite_aggregate(node: Node, name: str, place: Place) -> Node:
    """The aggregates over the rows of each label, put together."""
    var = variable_of(_arguments(node), name.upper(), place)
    labels = _labels(place, var)

    def each_of(function: str) -> list[Node]:
        return [_relabel(node, function, each, place) for each in labels]

    if name == "count":
        return _total(each_of("count"))
    if name in ("min", "max"):
        parts = each_of(name)
        return parts[0] if len(parts) == 1 else call("least" if name == "min" else "greatest", *parts)
    count = _total(each_of("count"))
    total = _total([call("coalesce", each, exp.Literal.number(0)) for each in each_of("sum")])
    value = total if name == "sum" else exp.Div(this=total, expression=count.copy())
    none = exp.EQ(this=count, expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=none, true=exp.null())], default=value)


def _total(parts: list[Node]) -> Node:
    return exp.Paren(this=reduce(lambda left, right: exp.Add(this=left, expression=right), parts))


def _relabel(node: Node, function: str, label: str, place: Place) -> Node:
    """Return an aggregate, or another of the same argument, over the rows of one label."""
    copy = node.copy()
    whole = copy.this if isinstance(copy, exp.Filter) else copy
    found = function_of(whole)
    assert found is not None
    args = [_label(arg, label, label, place) for arg in found.args]
    new = call(function, *args, prefix=found.prefix)
    if not isinstance(copy, exp.Filter):
        return new
    where = exp.Where(this=_label(copy.expression.this, label, label, place))
    return exp.Filter(this=new, expression=where)


def _label(node: Node, label: str | None, var: str | None, place: Place) -> Node:
    """Return an expression of a row of one label; where it names no column, one that does all the same."""
    named = False

    def change(each: Node) -> Node | None:
        nonlocal named
        if is_classifier(each):
            return _no_text() if label is None else exp.Literal.string(label)
        ref = place.rows.find(each)
        star = isinstance(each, exp.Star) or (
            isinstance(each, exp.Column) and isinstance(each.this, exp.Star)
        )
        if star:
            named = True
            return exp.Column(this=exp.Star(), table=exp.to_identifier(var, quoted=True))
        if ref is None:
            return None
        named = True
        return column(*([var] if var else []), *ref.path)

    found = _change(node, change)
    if named:
        return found
    some = column(*([var] if var else []), place.rows.columns.names[0])
    return call("if", call("isnull", some), found, found.copy())


def _no_text() -> Node:
    """Return a null that is a string, as functions of strings ask for."""
    return call("nullif", exp.Literal.string(""), exp.Literal.string(""))


def _change(node: Node, change: Callable[[Node], Node | None]) -> Node:
    root = exp.Paren(this=node.copy())
    waiting = [root.this]
    while waiting:
        each = waiting.pop()
        new = change(each)
        if new is not None:
            each.replace(new)
        else:
            waiting.extend(each.iter_expressions())
    found = root.this
    assert isinstance(found, exp.Expression)
    return found


def _labels(place: Place, var: str | None) -> list[str]:
    variables = place.rows.variables or {}
    primary = [name for name, members in variables.items() if members == {name}]
    return primary if var is None else [name for name in primary if name in variables[var]]
