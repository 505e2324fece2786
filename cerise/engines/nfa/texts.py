"""What a query asks of strings, which decides how they become numbers."""

from __future__ import annotations

from collections.abc import Iterable

from cerise.events import Path
from cerise.kinds import Kind
from cerise.pattern.bound import Branch
from cerise.pattern.check import kind_of
from cerise.pattern.expr import COMPARISONS, Agg, Attr, Binary, Call, Expr, In, Literal, children, walk


def _predicates(branches: Iterable[Branch]) -> list[Expr]:
    exprs: list[Expr] = []
    for branch in branches:
        exprs += [c.expr for c in branch.conjuncts]
        exprs += [c.expr for n in branch.negations for c in n.tests]
    return exprs


def only_literals(branches: Iterable[Branch]) -> frozenset[Path]:
    """Return the string attributes that are only ever compared with strings of the query."""
    return compared_with_literals(_predicates(branches))


def compared_with_literals(exprs: Iterable[Expr]) -> frozenset[Path]:
    """Return the attributes that some predicates only ever ask to equal constants."""
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
