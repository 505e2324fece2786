"""Columns computed before matching, so that kernels compute with numbers only.

Text functions, casts from and to text, LIKE and long IN lists over one event become a column of their own,
computed once for each distinct value by `pattern.evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from cerise.events import EventBatch, Path
from cerise.kinds import ARROW_OF, Kind
from cerise.pattern.bound import Branch
from cerise.pattern.check import kind_of
from cerise.pattern.evaluate import compile_expr
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
    Like,
    Literal,
    attributes,
    children,
    rebuild,
    walk,
)
from cerise.pattern.show import show_expr
from cerise.pattern.values import Fault

TEXT_FUNCTIONS = frozenset({"length", "lower", "upper"})
LONGEST_LIST = 16
CANONICAL = {Kind.FLOAT: pa.float64(), Kind.STRING: pa.string(), Kind.BOOL: pa.bool_()}


class Mixed(Exception):
    """Raised for a text function over several events; the message names it."""


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """An expression over one event, computed as a column."""

    expr: Expr
    kind: Kind

    def column(self, events: EventBatch, on_fault: Callable[[Fault], None]) -> pa.Array:
        """Compute the column for a batch, in the canonical type of its kind."""
        function = compile_expr(self.expr, on_fault)
        paths = list(dict.fromkeys(each.path for each in attributes(self.expr)))
        arrays = [events.column(path) for path in paths]
        type_ = CANONICAL.get(self.kind, pa.int64())
        if len(arrays) == 1:
            encoded = arrays[0].dictionary_encode(null_encoding="encode")
            distinct = encoded.dictionary
            columns = {paths[0]: distinct.to_pylist()}
            values = [function(columns, {"": (i,)}, {}) for i in range(len(distinct))]
            return pa.array(values, type_).take(encoded.indices)
        columns = {path: array.to_pylist() for path, array in zip(paths, arrays, strict=True)}
        return pa.array([function(columns, {"": (i,)}, {}) for i in range(len(events))], type_)


def plain(expr: Expr, derived: dict[Path, DerivedColumn]) -> Expr:
    """Replace text computations in an expression by derived columns, which are added to `derived`.

    Raises:
        Mixed: a text function reads several events.
    """
    if not computes_text(expr):
        return rebuild(expr, lambda each: plain(each, derived))
    inner = attributes(expr)
    if any(isinstance(each, Agg) for each in walk(expr)) or len({(a.var, a.at) for a in inner}) > 1:
        what = "compares" if isinstance(expr, In) else "computes text from"
        raise Mixed(f"{show_expr(expr)[:60]} {what} several events")
    if not inner:
        value = compile_expr(expr, _null)({}, {}, {})
        return Literal(value, kind_of(expr))
    kind = kind_of(expr)
    general = _of_any_event(expr)
    path = ("", show_expr(general))
    derived[path] = DerivedColumn(general, kind)
    return Attr(inner[0].var, path, inner[0].at, kind)


def computes_text(expr: Expr) -> bool:
    """Whether an expression computes with text, which kernels cannot."""
    match expr:
        case Like():
            return True
        case Call(function):
            return function in TEXT_FUNCTIONS
        case Cast(arg, kind):
            return Kind.STRING in (kind, kind_of(arg)) and kind is not kind_of(arg)
        case In(arg, items):
            return len(items) > LONGEST_LIST and all(isinstance(item, Literal) for item in items)
    return False


def _of_any_event(expr: Expr) -> Expr:
    if isinstance(expr, Attr):
        return replace(expr, var="", at=At.EVERY, span=None)
    return rebuild(expr, _of_any_event)


def _null(_fault: Fault) -> None:
    """A constant that cannot be computed is null."""


assert set(CANONICAL) <= set(ARROW_OF)


def _predicates(branches: Iterable[Branch]) -> list[Expr]:
    exprs: list[Expr] = []
    for branch in branches:
        exprs += [c.expr for c in branch.conjuncts]
        exprs += [c.expr for n in branch.negations for c in n.tests]
    return exprs


def only_literals(branches: Iterable[Branch]) -> frozenset[Path]:
    """Return the string attributes that a query compares only with its own strings."""
    return find_literal_only(_predicates(branches))


def find_literal_only(exprs: Iterable[Expr]) -> frozenset[Path]:
    """Return the attributes that predicates only compare with constants, by =, != or IN."""
    found: set[Path] = set()
    others: set[Path] = set()

    def visit(expr: Expr) -> None:
        match expr:
            case Binary("=" | "!=", Attr(path=path), Literal()) | Binary(
                "=" | "!=", Literal(), Attr(path=path)
            ):
                found.add(path)
            case In(Attr(path=path), items) if all(isinstance(item, Literal) for item in items):
                found.add(path)
            case Attr(path=path):
                others.add(path)
            case _:
                for child in children(expr):
                    visit(child)

    for root in exprs:
        visit(root)
    return frozenset(found - others)


def need_order(branches: Iterable[Branch]) -> bool:
    """Whether strings are compared by order, not only for equality."""
    for expr in (each for root in _predicates(branches) for each in walk(root)):
        match expr:
            case Binary(op, left, _) if op in COMPARISONS - {"=", "!="} and kind_of(left) is Kind.STRING:
                return True
            case Call("least" | "greatest") if kind_of(expr) is Kind.STRING:
                return True
            case Agg("min" | "max", arg) if kind_of(arg) is Kind.STRING:
                return True
    return False
