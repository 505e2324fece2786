"""Leaves of a plan: what one event must fulfil to be bound to a variable, whatever the variable is called.

A leaf is its predicates on one event, the type among them. Variables of any queries with equal predicates
have equal leaves, so that a plan of many queries tests an event once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cerise.pattern.expr import At, Attr, Binary, Expr, Literal, rebuild
from cerise.plan.pushdown import Comparison, tests_of


@dataclass(frozen=True, slots=True)
class Leaf:
    """Predicates on one event.

    Attributes:
        tests: the predicates, in an order that does not depend on the query.
        routed: those that compare an attribute with constants; the router decides them exactly.
        verified: the others.
    """

    tests: tuple[Expr, ...]
    routed: tuple[Comparison, ...]
    verified: tuple[Expr, ...]


def leaf_of(exprs: Sequence[Expr]) -> Leaf:
    """Return the leaf of predicates on one event.

    >>> from cerise.kinds import Kind
    >>> from cerise.pattern.expr import Binary, Literal
    >>> a, b = (Binary(">", Attr(name, ("x",), kind=Kind.INT), Literal(3, Kind.INT)) for name in "ab")
    >>> leaf_of([a]) == leaf_of([b, b])
    True
    """
    tests = tuple(sorted({of_any_variable(each) for each in exprs}, key=repr))
    decided = [(each, tests_of((each,))) for each in tests]
    routed = (comparison for _, found in decided for comparison in found)
    return Leaf(tests, tuple(dict.fromkeys(routed)), tuple(each for each, found in decided if not found))


def of_any_variable(expr: Expr) -> Expr:
    """Return an expression over an event of any variable."""
    if isinstance(expr, Attr):
        return replace(expr, var="", at=At.EVERY, span=None)
    return rebuild(expr, of_any_variable)


def are_disjoint(one: Leaf, other: Leaf) -> bool:
    """Whether no event fits two leaves, because they ask for different values of an attribute."""
    mine, others = _equalities(one), _equalities(other)
    return any(path in others and others[path] != value for path, value in mine.items())


def _equalities(leaf: Leaf) -> dict[object, object]:
    return {
        test.left.path: test.right.value
        for test in leaf.tests
        if isinstance(test, Binary) and test.op == "=" and isinstance(test.left, Attr)
        and isinstance(test.right, Literal) and isinstance(test.right.value, str)
    }  # fmt: skip
