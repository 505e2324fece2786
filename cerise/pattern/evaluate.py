"""Bound expressions as Python functions: the reference for every compiled predicate.

A function takes the columns of a stream, a binding (variable → row numbers) and a step (for each variable
that the evaluator steps through, the number of its current event, from 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cerise.events import Path
from cerise.kinds import Kind
from cerise.pattern.check import kind_of
from cerise.pattern.expr import (
    COMPARISONS,
    Agg,
    At,
    Attr,
    Binary,
    Call,
    Cast,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Unary,
    attributes,
)
from cerise.pattern.values import (
    AGGREGATES,
    COMPARE,
    FLOAT_ARITHMETIC,
    INT_ARITHMETIC,
    LENIENT_FUNCTIONS,
    STRICT_FUNCTIONS,
    Fault,
    cast,
    fit,
    like,
    rank,
)

Columns = Mapping[Path, Sequence[Any]]
Binding = Mapping[str, tuple[int, ...]]
Step = Mapping[str, int]
Compiled = Callable[[Columns, Binding, Step], Any]
OnFault = Callable[[Fault], None]


def compile_expr(expr: Expr, on_fault: OnFault) -> Compiled:
    """Return an expression as a function.

    Args:
        expr: a bound expression.
        on_fault: called if the expression cannot be computed; when it returns, the value is null.
    """
    match expr:
        case Literal(value):
            return lambda columns, binding, step: value
        case Attr():
            return _attribute(expr)
        case Agg():
            return _aggregate(expr, on_fault)
        case Unary("not", arg):
            truth = compile_expr(arg, on_fault)
            return lambda *scope: None if (x := truth(*scope)) is None else not x
        case Unary(_, arg):
            return _apply(lambda x: fit(-x) if isinstance(x, int) else -x, [arg], on_fault)
        case Binary("and", left, right):
            return _both(compile_expr(left, on_fault), compile_expr(right, on_fault))
        case Binary("or", left, right):
            return _either(compile_expr(left, on_fault), compile_expr(right, on_fault))
        case Binary():
            return _binary(expr, on_fault)
        case IsNull(arg):
            value_of = compile_expr(arg, on_fault)
            return lambda *scope: value_of(*scope) is None
        case In():
            return _compile_in(expr, on_fault)
        case Like(arg, pattern):
            return _apply(like(pattern), [arg], on_fault)
        case Call("if"):
            return _choice(expr, on_fault)
        case Call(function, args) if function in LENIENT_FUNCTIONS:
            return _lenient(expr, on_fault)
        case Call(function, args):
            return _apply(STRICT_FUNCTIONS[function], list(args), on_fault)
        case Cast(arg, kind):
            return _apply(lambda x: cast(x, kind), [arg], on_fault)
    raise AssertionError(f"not bound: {expr}")


def _attribute(attr: Attr) -> Compiled:
    """Compile an attribute of one event. It is null if the event does not exist, as b[3] of two events."""
    var, path, at = attr.var, attr.path, attr.at
    if isinstance(at, int):
        return lambda columns, binding, step: (
            columns[path][binding[var][at - 1]] if len(binding.get(var, ())) >= at else None
        )
    if at is At.LAST:
        return lambda columns, binding, step: columns[path][binding[var][-1]] if binding.get(var) else None
    if at is At.PREVIOUS:
        return lambda columns, binding, step: columns[path][binding[var][step[var] - 2]]
    return lambda columns, binding, step: (
        columns[path][binding[var][step.get(var, 1) - 1]] if binding.get(var) else None
    )


def _aggregate(agg: Agg, on_fault: OnFault) -> Compiled:
    var, at = attributes(agg.arg)[0].var, attributes(agg.arg)[0].at
    summary = AGGREGATES[agg.function]
    counts_events = isinstance(agg.arg, Attr) and not agg.arg.path
    value_of = None if counts_events else compile_expr(agg.arg, on_fault)

    def compute(columns: Columns, binding: Binding, step: Step) -> Any:
        events = len(binding.get(var, ())) if at is At.ALL else step[var] - 1
        if value_of is None:
            return events
        values = [value_of(columns, binding, {var: i}) for i in range(1, events + 1)]
        return _guard(summary, ([x for x in values if x is not None],), on_fault)

    return compute


def _binary(expr: Binary, on_fault: OnFault) -> Compiled:
    kinds = (kind_of(expr.left), kind_of(expr.right))
    if expr.op in COMPARISONS:
        test = COMPARE[expr.op]
        if Kind.FLOAT in kinds:
            return _apply(
                lambda x, y: test(rank(float(x)), rank(float(y))), [expr.left, expr.right], on_fault
            )
        return _apply(test, [expr.left, expr.right], on_fault)
    if Kind.FLOAT in kinds:
        compute = FLOAT_ARITHMETIC[expr.op]
        return _apply(lambda x, y: compute(float(x), float(y)), [expr.left, expr.right], on_fault)
    return _apply(INT_ARITHMETIC[expr.op], [expr.left, expr.right], on_fault)


def _compile_in(expr: In, on_fault: OnFault) -> Compiled:
    """Compile x IN (…) as x = y1 OR x = y2 …, with the rules of OR for nulls."""
    tests = [_binary(Binary("=", expr.arg, item), on_fault) for item in expr.items]

    def compute(columns: Columns, binding: Binding, step: Step) -> bool | None:
        answers = [test(columns, binding, step) for test in tests]
        return True if True in answers else None if None in answers else False

    return compute


def _lenient(expr: Call, on_fault: OnFault) -> Compiled:
    """Compile a function that takes nulls; its operands are converted to one kind."""
    function = LENIENT_FUNCTIONS[expr.function]
    args = [compile_expr(arg, on_fault) for arg in expr.args]
    if kind_of(expr) is Kind.FLOAT:
        return lambda *scope: function([None if (x := arg(*scope)) is None else float(x) for arg in args])
    return lambda *scope: function([arg(*scope) for arg in args])


def _choice(expr: Call, on_fault: OnFault) -> Compiled:
    """Compile if(predicate, x, y). Only the chosen value is computed; null counts as false."""
    truth, then, other = (compile_expr(arg, on_fault) for arg in expr.args)
    if kind_of(expr) is not Kind.FLOAT:
        return lambda *scope: (then if truth(*scope) else other)(*scope)
    return lambda *scope: None if (x := (then if truth(*scope) else other)(*scope)) is None else float(x)


def _apply(function: Callable[..., Any], operands: list[Expr], on_fault: OnFault) -> Compiled:
    """Compile a function of values. It is null if an operand is null or the value cannot be computed."""
    args = [compile_expr(each, on_fault) for each in operands]

    def compute(columns: Columns, binding: Binding, step: Step) -> Any:
        values = [arg(columns, binding, step) for arg in args]
        return None if None in values else _guard(function, values, on_fault)

    return compute


def _guard(function: Callable[..., Any], values: Sequence[Any], on_fault: OnFault) -> Any:
    try:
        return function(*values)
    except Fault as fault:
        on_fault(fault)
        return None


def _both(left: Compiled, right: Compiled) -> Compiled:
    def compute(columns: Columns, binding: Binding, step: Step) -> bool | None:
        x = left(columns, binding, step)
        if x is False:
            return False
        y = right(columns, binding, step)
        return False if y is False else None if x is None or y is None else True

    return compute


def _either(left: Compiled, right: Compiled) -> Compiled:
    def compute(columns: Columns, binding: Binding, step: Step) -> bool | None:
        x = left(columns, binding, step)
        if x is True:
            return True
        y = right(columns, binding, step)
        return True if y is True else None if x is None or y is None else False

    return compute
