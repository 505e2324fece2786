"""Removes CLASSIFIER() from the arguments of navigations and aggregates that compute with it.

A column derived from one row cannot depend on the row's label, which depends on the match. But labels are
few, so each label gets a column of its own, with 'A' in place of CLASSIFIER(). A navigation takes the column
of the label that it finds; an aggregate combines the aggregates over the rows of each label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from sqlglot import exp

from cerise.lang.match_recognize.atoms import AGGREGATES, LOGICAL, PHYSICAL, ExprContext, variable_of
from cerise.lang.match_recognize.columns import strip_parens
from cerise.lang.match_recognize.expressions import Node
from cerise.lang.match_recognize.translate import call, column, function_of, inside, is_classifier

COMBINABLE = frozenset({"avg", "count", "max", "mean", "min", "sum"})  # computable from parts


def spread_labels(tree: Node, context: ExprContext) -> Node:
    """Return an expression without CLASSIFIER() computed with inside a navigation or aggregate."""
    root = exp.Paren(this=tree.copy())
    _spread(root.this, context)
    found = root.this
    assert isinstance(found, exp.Expression)
    return found


def _spread(node: Node, context: ExprContext) -> None:
    function = function_of(node.this if isinstance(node, exp.Filter) else node)
    known = function.name if function is not None else ""
    if known in LOGICAL or known in PHYSICAL:
        operand = _innermost(node)
        if _computes_label([operand]):
            node.replace(_rewrite_navigation(node, operand, context))
    elif known in AGGREGATES:
        if known in COMBINABLE and _computes_label(_arguments(node)) and not _is_distinct(node):
            node.replace(_rewrite_aggregate(node, known, context))
    else:
        for child in list(node.iter_expressions()):
            _spread(child, context)


def _arguments(node: Node) -> list[Node]:
    if isinstance(node, exp.Filter):
        return [*node.this.expressions, node.expression]
    return list(node.expressions)


def _innermost(node: Node) -> Node:
    """Return the operand of a navigation; of PREV(LAST(…)), the inner operand."""
    function = function_of(node)
    while function is not None and function.name in (*LOGICAL, *PHYSICAL) and function.args:
        node = strip_parens(function.args[0])
        function = function_of(node)
    return node


def _computes_label(nodes: Iterable[Node]) -> bool:
    """Whether an argument contains CLASSIFIER() and is more than it."""
    return any(
        is_classifier(each)
        for node in nodes
        for each in inside(strip_parens(node))
        if each is not strip_parens(node)
    )


def _is_distinct(node: Node) -> bool:
    return any(isinstance(each, exp.Distinct) for each in inside(node))


def _rewrite_navigation(node: Node, operand: Node, context: ExprContext) -> Node:
    """Return a CASE of the label found: for each label, the value of a row with that label."""
    var = variable_of([operand], "a navigation", context)

    def navigate(new_operand: Node) -> Node:
        copy = exp.Paren(this=node.copy())
        _innermost(copy.this).replace(new_operand)
        found = copy.this
        assert isinstance(found, exp.Expression)
        return found

    names = [exp.to_identifier(var, quoted=True)] if var else []
    label = navigate(call("classifier", *(exp.Column(this=name) for name in names)))
    ifs = [
        exp.If(this=exp.Literal.string(each), true=navigate(_label(operand, each, var, context)))
        for each in _labels(context, var)
    ]
    return exp.Case(this=label, ifs=ifs, default=navigate(_label(operand, None, var, context)))


def _rewrite_aggregate(node: Node, name: str, context: ExprContext) -> Node:
    """Return an aggregate as a combination of the aggregates over the rows of each label."""
    var = variable_of(_arguments(node), name.upper(), context)
    labels = _labels(context, var)

    def each_of(function: str) -> list[Node]:
        return [_relabel(node, function, each, context) for each in labels]

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


def _relabel(node: Node, function: str, label: str, context: ExprContext) -> Node:
    """Return an aggregate of the same argument, by a given function, over the rows of one label."""
    copy = node.copy()
    whole = copy.this if isinstance(copy, exp.Filter) else copy
    found = function_of(whole)
    assert found is not None
    args = [_label(arg, label, label, context) for arg in found.args]
    new = call(function, *args, prefix=found.prefix)
    if not isinstance(copy, exp.Filter):
        return new
    where = exp.Where(this=_label(copy.expression.this, label, label, context))
    return exp.Filter(this=new, expression=where)


def _label(node: Node, label: str | None, var: str | None, context: ExprContext) -> Node:
    """Return an expression with a label in place of CLASSIFIER(), and with a variable before its columns.

    An expression that names no column is wrapped in one that does, so that it still belongs to a row.
    """
    named = False

    def change(each: Node) -> Node | None:
        nonlocal named
        if is_classifier(each):
            return _no_text() if label is None else exp.Literal.string(label)
        ref = context.rows.find(each)
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
    some = column(*([var] if var else []), context.rows.columns.names[0])
    return call("if", call("isnull", some), found, found.copy())


def _no_text() -> Node:
    """Return a null of type string, which functions of strings accept."""
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


def _labels(context: ExprContext, var: str | None) -> list[str]:
    variables = context.rows.variables or {}
    primary = [name for name, members in variables.items() if members == {name}]
    return primary if var is None else [name for name in primary if name in variables[var]]
