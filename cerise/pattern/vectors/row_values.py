"""Expressions over one event for all rows of a table at once: the twin of `pattern.evaluate`.

AND, OR and if() compute all operands for all rows, but count faults only in the rows that `pattern.evaluate`
computes them for: the live rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.events import Path
from cerise.kinds import Kind
from cerise.pattern.check import kind_of
from cerise.pattern.expr import (
    COMPARISONS,
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
)
from cerise.pattern.values import STRICT_FUNCTIONS, cast, like
from cerise.pattern.vectors.array_values import ARITHMETIC, FUNCTIONS, negate, truncate
from cerise.pattern.vectors.vector import (
    Mask,
    Vector,
    constant,
    convert,
    join_masks,
    make_vector,
    read_vector,
    spread,
    within,
)
from cerise.pattern.vectors.vector_values import LENIENT, compare, contain, select
from cerise.pattern.vectors.word_values import map_values

Read = Callable[[Path], pa.Array]


def evaluate_rows(expr: Expr, read: Read, rows: int) -> tuple[Vector, int]:
    """Return the values of an expression, and the number of faults, as `compile_expr` counts them.

    Args:
        expr: a bound expression over one event, without aggregates; the names of variables do not matter.
        read: returns an attribute in canonical form; a string may be a dictionary array.
        rows: the number of rows.

    Example:
        >>> x = Attr("a", ("x",), kind=Kind.INT)
        >>> found, faults = evaluate_rows(Binary("/", x, x), lambda path: pa.array([4, 0, None]), 3)
        >>> found.nulls.tolist(), faults
        ([False, True, True], 1)
    """
    evaluation = _Evaluation(read, rows)
    with np.errstate(all="ignore"):
        return spread(evaluation.compute(expr, None), rows), evaluation.faults


def holds(expr: Expr, read: Read, rows: int) -> tuple[npt.NDArray[np.bool_], int]:
    """Return the rows that satisfy a predicate, and the number of faults; null does not satisfy it (S4.5).

    Args:
        expr: a bound predicate over one event, without aggregates.
        read: returns an attribute in canonical form.
        rows: the number of rows.

    Example:
        >>> above = Binary(">", Attr("a", ("x",), kind=Kind.INT), Literal(2, Kind.INT))
        >>> holds(above, lambda path: pa.array([4, 1, None]), 3)
        (array([ True, False, False]), 0)
    """
    found, faults = evaluate_rows(expr, read, rows)
    truth = convert(found, Kind.BOOL)
    return within(truth.values, truth.nulls), faults


class _Evaluation:
    """Computes vectors, and counts faults.

    Args:
        read: returns an attribute.
        rows: the number of rows.
    """

    def __init__(self, read: Read, rows: int) -> None:
        self._read, self._rows, self.faults = read, rows, 0
        self._known: dict[Path, Vector] = {}

    def compute(self, expr: Expr, live: Mask | None) -> Vector:
        """Compute an expression; faults count in the live rows only (None: all rows)."""
        match expr:
            case Literal(value, kind):
                return constant(value, kind)
            case Attr(path=path):
                return self._attribute(path)
            case Unary("not", arg):
                truth = convert(self.compute(arg, live), Kind.BOOL)
                return Vector(~truth.values, truth.nulls)
            case Unary(_, arg):
                return self._apply(negate, [self.compute(arg, live)], live)
            case Binary("and" | "or"):
                return self._join(expr, live)
            case Binary(op, left, right):
                pair = [self.compute(left, live), self.compute(right, live)]
                return compare(op, *pair) if op in COMPARISONS else self._apply(ARITHMETIC[op], pair, live)
            case IsNull(arg):
                nulls = self.compute(arg, live).nulls
                return Vector(np.array(False) if nulls is None else nulls)
            case In():
                return self._contain(expr, live)
            case Like(arg, pattern):
                return self._map(like(pattern), (arg,), Kind.BOOL, live)
            case Call("if"):
                return self._choose(expr, live)
            case Call(function, args) if function in LENIENT:
                kind = kind_of(expr)
                return reduce(LENIENT[function], [convert(self.compute(arg, live), kind) for arg in args])
            case Call(function, (arg,)) if function in FUNCTIONS:
                return self._apply(FUNCTIONS[function], [self.compute(arg, live)], live)
            case Call(function, args):
                return self._map(STRICT_FUNCTIONS[function], args, kind_of(expr), live)
            case Cast():
                return self._cast(expr, live)
        raise AssertionError(f"not of one event: {expr}")

    def _attribute(self, path: Path) -> Vector:
        if path not in self._known:
            self._known[path] = read_vector(self._read(path))
        return self._known[path]

    def _count(self, faults: Mask | None, live: Mask | None) -> None:
        if faults is not None:
            seen = faults if live is None else faults & live
            self.faults += int(np.count_nonzero(seen)) if seen.ndim else self._rows * bool(seen)

    def _apply(self, function: Callable[..., Any], args: Sequence[Vector], live: Mask | None) -> Vector:
        """Apply a function of `array_values`: null if an operand is null, or the value cannot be computed."""
        values, faults = function(*(arg.values for arg in args))
        nulls = join_masks(*(arg.nulls for arg in args))
        if faults is None:
            return make_vector(values, nulls)
        self._count(within(faults, nulls), live)
        return make_vector(values, join_masks(nulls, faults))

    def _map(
        self, function: Callable[..., Any], args: Sequence[Expr], kind: Kind, live: Mask | None
    ) -> Vector:
        kinds = [kind_of(arg) for arg in args]
        found, faults = map_values(function, [self.compute(arg, live) for arg in args], kinds, kind)
        self._count(faults, live)
        return found

    def _join(self, expr: Binary, live: Mask | None) -> Vector:
        """Compute AND or OR, which one operand alone can decide: false decides AND, true decides OR."""
        deciding = expr.op == "or"
        left = convert(self.compute(expr.left, live), Kind.BOOL)
        decided = within(left.values == deciding, left.nulls)
        open_rows = ~decided
        right = convert(self.compute(expr.right, open_rows if live is None else live & open_rows), Kind.BOOL)
        decided = decided | within(right.values == deciding, right.nulls)
        nulls = join_masks(left.nulls, right.nulls)
        return make_vector(decided == deciding, None if nulls is None else nulls & ~decided)

    def _choose(self, expr: Call, live: Mask | None) -> Vector:
        """Compute if(predicate, x, y); null counts as false."""
        truth = convert(self.compute(expr.args[0], live), Kind.BOOL)
        chosen, kind = within(truth.values, truth.nulls), kind_of(expr)
        sides = (chosen, ~chosen)
        then, other = (
            convert(self.compute(arg, side if live is None else live & side), kind)
            for arg, side in zip(expr.args[1:], sides, strict=True)
        )
        return select(chosen, then, other)

    def _contain(self, expr: In, live: Mask | None) -> Vector:
        """Compute x IN (…) as x = y1 OR x = y2 …; each test computes x, and so counts its faults."""
        if not expr.items:
            return constant(False, Kind.BOOL)
        before = self.faults
        arg = self.compute(expr.arg, live)
        self.faults += (len(expr.items) - 1) * (self.faults - before)
        known = [each for each in expr.items if isinstance(each, Literal) and each.value is not None]
        others = (each for each in expr.items if not isinstance(each, Literal) or each.value is None)
        return contain(arg, known, (self.compute(each, live) for each in others))

    def _cast(self, expr: Cast, live: Mask | None) -> Vector:
        source, kind = kind_of(expr.arg), expr.kind
        if source is not kind and Kind.STRING in (source, kind):
            return self._map(lambda value: cast(value, kind), (expr.arg,), kind, live)
        arg = self.compute(expr.arg, live)
        if source is Kind.FLOAT and kind is Kind.INT:
            return self._apply(truncate, [arg], live)
        return convert(arg, kind)
