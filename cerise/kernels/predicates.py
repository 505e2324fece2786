"""Expressions as source text: `pattern.evaluate` builds closures, this module writes straight-line code.

Generated code has no null value: a value is two names, its number and whether it is null; a truth is two
names, whether it is true and whether it is false, and a truth that is neither is null (S4.5). A value that
cannot be computed is null, and counted as a fault (S4.6).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from cerise.kinds import Kind
from cerise.pattern.check import kind_of
from cerise.pattern.expr import (
    COMPARISONS,
    Agg,
    Attr,
    Binary,
    Call,
    Cast,
    Expr,
    In,
    IsNull,
    Literal,
    Unary,
)

NEVER = "False"


@dataclass(frozen=True, slots=True)
class Value:
    """The code of a value, and the code that says whether it is null."""

    code: str
    null: str = NEVER


@dataclass(frozen=True, slots=True)
class Truth:
    """The code that says whether a predicate is true, and the code that says whether it is false."""

    true: str
    false: str


class Scope(Protocol):
    """Writes the code of identifiers."""

    def attribute(self, attr: Attr, writer: Writer) -> Value:
        """Return the value of an attribute of an event."""
        ...

    def aggregate(self, agg: Agg, writer: Writer) -> Value:
        """Return the value of an aggregate."""
        ...

    def text(self, literal: str) -> str:
        """Return the code that stands for a string of the query."""
        ...


@dataclass(slots=True)
class Writer:
    """Lines of source; every name it makes is new."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1
    names: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, text: str) -> str:
        """Assign an expression to a new name; a name or a constant is returned as it is."""
        if text.isidentifier() or text.lstrip("-").isdecimal():
            return text
        self.names += 1
        name = f"x{self.names}"
        self.line(f"{name} = {text}")
        return name

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1


def either(*nulls: str) -> str:
    """Return the code that says whether any of the given names is true."""
    seen = list(dict.fromkeys(each for each in nulls if each != NEVER))
    return " or ".join(seen) if seen else NEVER


def value(expr: Expr, scope: Scope, writer: Writer) -> Value:
    """Write the code of a value."""
    match expr:
        case Literal():
            return _literal(expr, scope)
        case Attr():
            return scope.attribute(expr, writer)
        case Agg():
            return scope.aggregate(expr, writer)
        case Unary("-", arg):
            return _negate(arg, scope, writer)
        case Binary(op) if op not in COMPARISONS and op not in ("and", "or"):
            return _arithmetic(expr, scope, writer)
        case Call("if"):
            return _choice(expr, scope, writer)
        case Call(function) if function in LENIENT:
            return _lenient(expr, scope, writer)
        case Call():
            return _call(expr, scope, writer)
        case Cast():
            return _cast(expr, scope, writer)
    answer = truth(expr, scope, writer)
    known = writer.name(f"not ({answer.true} or {answer.false})")
    return Value(writer.name(f"1 if {answer.true} else 0"), known)


def truth(expr: Expr, scope: Scope, writer: Writer) -> Truth:
    """Write the code of a predicate."""
    match expr:
        case Unary("not", arg):
            inner = truth(arg, scope, writer)
            return Truth(inner.false, inner.true)
        case Binary("and" | "or" as op, left, right):
            x, y = truth(left, scope, writer), truth(right, scope, writer)
            other = "or" if op == "and" else "and"
            return Truth(writer.name(f"{x.true} {op} {y.true}"), writer.name(f"{x.false} {other} {y.false}"))
        case Binary(op, left, right) if op in COMPARISONS:
            return _comparison(op, left, right, scope, writer)
        case IsNull(arg):
            null = writer.name(value(arg, scope, writer).null)
            return Truth(null, writer.name(f"not {null}"))
        case In(arg, items):
            tests = [_comparison("=", arg, item, scope, writer) for item in items]
            return Truth(
                writer.name(" or ".join(each.true for each in tests)),
                writer.name(" and ".join(each.false for each in tests)),
            )
    found = value(expr, scope, writer)
    if found.null == NEVER:
        return Truth(writer.name(f"{found.code} != 0"), writer.name(f"{found.code} == 0"))
    return Truth(
        writer.name(f"not ({found.null}) and {found.code} != 0"),
        writer.name(f"not ({found.null}) and {found.code} == 0"),
    )


def _literal(expr: Literal, scope: Scope) -> Value:
    match expr.value:
        case None:
            return Value("0.0" if expr.kind is Kind.FLOAT else "0", "True")
        case bool():
            return Value("1" if expr.value else "0")
        case str():
            return Value(scope.text(expr.value))
        case float() if not math.isfinite(expr.value):
            return Value({"inf": "INF", "-inf": "-INF"}.get(str(expr.value), "NAN"))
        case int() if expr.value == -(2**63):
            return Value("(-9223372036854775807 - 1)")
    return Value(repr(expr.value))


def _as_float(found: Value, kind: Kind, writer: Writer) -> Value:
    return found if kind is Kind.FLOAT else Value(writer.name(f"float({found.code})"), found.null)


_FLOAT_TESTS = {
    "=": "equal({0}, {1})",
    "!=": "not equal({0}, {1})",
    "<": "less({0}, {1})",
    "<=": "not less({1}, {0})",
    ">": "less({1}, {0})",
    ">=": "not less({0}, {1})",
}


def _comparison(op: str, left: Expr, right: Expr, scope: Scope, writer: Writer) -> Truth:
    kinds = kind_of(left), kind_of(right)
    x, y = value(left, scope, writer), value(right, scope, writer)
    if Kind.FLOAT in kinds:
        x, y = _as_float(x, kinds[0], writer), _as_float(y, kinds[1], writer)
        test = _FLOAT_TESTS[op].format(x.code, y.code)
    else:
        test = f"{x.code} {'==' if op == '=' else op} {y.code}"
    holds = writer.name(test)
    null = either(x.null, y.null)
    if null == NEVER:
        return Truth(holds, writer.name(f"not {holds}"))
    return Truth(writer.name(f"{holds} and not ({null})"), writer.name(f"not ({holds} or {null})"))


def guard(compute: str, null: str, fault: str, writer: Writer, *, zero: str = "0") -> Value:
    """Write a computation for operands that are not null; where it faults, the value is null and counted."""
    result, missing = writer.name(f"{zero} + {zero}"), writer.name(f"{null} or False")
    with writer.block(f"if not {missing}:"):
        with writer.block(f"if {fault}:"):
            writer.line(f"{missing} = True")
            writer.line("count_fault(cols)")
        with writer.block("else:"):
            writer.line(f"{result} = {compute}")
    return Value(result, missing)


def _negate(arg: Expr, scope: Scope, writer: Writer) -> Value:
    x = value(arg, scope, writer)
    if kind_of(arg) is Kind.FLOAT:
        return Value(writer.name(f"-({x.code})"), x.null)
    return guard(f"-({x.code})", x.null, f"negate_faults({x.code})", writer)


_INT_FAULTS = {
    "+": "add_faults({0}, {1})",
    "-": "subtract_faults({0}, {1})",
    "*": "multiply_faults({0}, {1})",
}


def _arithmetic(expr: Binary, scope: Scope, writer: Writer) -> Value:
    kinds = kind_of(expr.left), kind_of(expr.right)
    x, y = value(expr.left, scope, writer), value(expr.right, scope, writer)
    null = either(x.null, y.null)
    doubles = Kind.FLOAT in kinds
    if doubles or expr.op == "/":
        x, y = _as_float(x, kinds[0], writer), _as_float(y, kinds[1], writer)
    if expr.op == "/":
        return guard(f"{x.code} / {y.code}", null, f"{y.code} == 0", writer, zero="0.0")
    if expr.op == "%":
        name, zero = ("remainder_float", "0.0") if doubles else ("remainder_int", "0")
        return guard(f"{name}({x.code}, {y.code})", null, f"{y.code} == 0", writer, zero=zero)
    if doubles:
        return Value(writer.name(f"{x.code} {expr.op} {y.code}"), null)
    fault = _INT_FAULTS[expr.op].format(x.code, y.code)
    return guard(f"{x.code} {expr.op} {y.code}", null, fault, writer)


LENIENT = frozenset({"coalesce", "greatest", "least"})


def _lenient(expr: Call, scope: Scope, writer: Writer) -> Value:
    """Write a function that skips nulls: the first value, the least or the greatest."""
    float_kind = kind_of(expr) is Kind.FLOAT
    result = writer.name("0.0 + 0.0" if float_kind else "0 + 0")
    missing = writer.name("True or False")
    for arg in expr.args:
        found = value(arg, scope, writer)
        if float_kind:
            found = _as_float(found, kind_of(arg), writer)
        better = _better(expr.function, found.code, result, float_kind=float_kind)
        with writer.block(f"if not ({found.null}) and ({missing} or {better}):"):
            writer.line(f"{result} = {found.code}")
            writer.line(f"{missing} = False")
    return Value(result, missing)


def _better(function: str, new: str, old: str, *, float_kind: bool) -> str:
    if function == "coalesce":
        return "False"
    first, second = (new, old) if function in ("least", "min") else (old, new)
    return f"less({first}, {second})" if float_kind else f"{first} < {second}"


def better(function: str, new: str, old: str, kind: Kind) -> str:
    """Return the test whether a value replaces the min or max so far."""
    return _better(function, new, old, float_kind=kind is Kind.FLOAT)


def _choice(expr: Call, scope: Scope, writer: Writer) -> Value:
    """Write the choice of one of two values; the other is not computed, so it counts no faults."""
    float_kind = kind_of(expr) is Kind.FLOAT
    taken = truth(expr.args[0], scope, writer).true
    result = writer.name("0.0 + 0.0" if float_kind else "0 + 0")
    missing = writer.name("True or False")
    for head, arg in zip((f"if {taken}:", "else:"), expr.args[1:], strict=True):
        with writer.block(head):
            found = value(arg, scope, writer)
            if float_kind:
                found = _as_float(found, kind_of(arg), writer)
            writer.line(f"{result} = {found.code}")
            writer.line(f"{missing} = {found.null}")
    return Value(result, missing)


_FLOAT_CALLS: dict[str, str] = {
    "exp": "exponential({0})",
    "sqrt": "square_root({0})",
    "pow": "power({0}, {1})",
}
_WHOLE: dict[str, str] = {"ceil": "math.ceil({0})", "floor": "math.floor({0})"}


def _call(expr: Call, scope: Scope, writer: Writer) -> Value:
    kinds = [kind_of(arg) for arg in expr.args]
    args = [value(arg, scope, writer) for arg in expr.args]
    null = either(*(arg.null for arg in args))
    if expr.function in _FLOAT_CALLS:
        codes = [_as_float(arg, kind, writer).code for arg, kind in zip(args, kinds, strict=True)]
        return Value(writer.name(_FLOAT_CALLS[expr.function].format(*codes)), null)
    x = args[0]
    if expr.function == "ln":
        x = _as_float(x, kinds[0], writer)
        return _where(f"logarithm({x.code})", null, f"{x.code} > 0 or {x.code} != {x.code}", writer)
    if expr.function == "abs":
        if kinds[0] is Kind.FLOAT:
            return Value(writer.name(f"abs({x.code})"), null)
        return guard(f"abs({x.code})", null, f"negate_faults({x.code})", writer)
    assert expr.function in _WHOLE, f"kernels do not compute with text: {expr.function}"
    if kinds[0] is not Kind.FLOAT:
        return x
    whole = writer.name(_WHOLE[expr.function].replace("math.", "np.").format(x.code))
    return guard(f"int({whole})", null, f"whole_faults({whole})", writer)


def _where(compute: str, null: str, exists: str, writer: Writer) -> Value:
    """Write a computation where its value exists; elsewhere the value is null, without a fault."""
    result, missing = writer.name("0.0 + 0.0"), writer.name(f"{null} or not ({exists})")
    with writer.block(f"if not {missing}:"):
        writer.line(f"{result} = {compute}")
    return Value(result, missing)


def _cast(expr: Cast, scope: Scope, writer: Writer) -> Value:
    source = kind_of(expr.arg)
    found = value(expr.arg, scope, writer)
    if source is expr.kind:
        return found
    if source is Kind.NULL:
        return Value("0.0" if expr.kind is Kind.FLOAT else "0", "True")
    assert Kind.STRING not in (source, expr.kind), "kernels do not compute with text"
    if expr.kind is Kind.FLOAT:
        return _as_float(found, source, writer)
    if source is Kind.FLOAT:
        return guard(f"int({found.code})", found.null, f"whole_faults({found.code})", writer)
    return found
