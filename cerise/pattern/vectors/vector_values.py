"""Comparisons, choices and lists on vectors of any kind, by the rules of SQL for nulls (S4.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.kinds import Kind
from cerise.pattern.expr import Literal
from cerise.pattern.vectors.array_values import compare_numbers, is_double
from cerise.pattern.vectors.vector import (
    DTYPES,
    Mask,
    Vector,
    constant,
    convert,
    join_masks,
    make_vector,
    order_keys,
    read_vector,
    within,
)
from cerise.pattern.vectors.word_values import choose_texts, compare_texts, is_among

FEW = 32  # numbers up to here are compared one by one, which is faster than looking them up in a table


def compare(op: str, x: Vector, y: Vector) -> Vector:
    """Return where a comparison holds; null where an operand is."""
    if x.is_text or y.is_text:
        left, right = convert(x, Kind.STRING), convert(y, Kind.STRING)
        return make_vector(compare_texts(op, left.values, right.values), join_masks(x.nulls, y.nulls))
    return make_vector(compare_numbers(op, x.values, y.values), join_masks(x.nulls, y.nulls))


def select(chosen: Mask, x: Vector, y: Vector) -> Vector:
    """Return x where it is chosen, elsewhere y, both of one kind."""
    choose: Callable[..., Any] = choose_texts if x.is_text else np.where
    values = choose(chosen, x.values, y.values)
    if x.nulls is None and y.nulls is None:
        return Vector(values)
    sides = (False if each.nulls is None else each.nulls for each in (x, y))
    return make_vector(values, np.where(chosen, *sides))


def _coalesce(x: Vector, y: Vector) -> Vector:
    return x if x.nulls is None else select(x.nulls, y, x)


def _prefer(op: str) -> Callable[[Vector, Vector], Vector]:
    """Return the choice of y where it compares with x, or x is null; of equal values the first stays."""

    def choose(x: Vector, y: Vector) -> Vector:
        better = compare(op, y, x)
        taken = within(better.values, better.nulls)
        return select(taken if x.nulls is None else taken | x.nulls, y, x)

    return choose


LENIENT: dict[str, Callable[[Vector, Vector], Vector]] = {
    "coalesce": _coalesce,
    "greatest": _prefer(">"),
    "least": _prefer("<"),
}


def contain(x: Vector, items: Sequence[Literal], others: Iterable[Vector]) -> Vector:
    """Return where x is one of some constants, which are not null, or of some values of the same row."""
    tests = [compare("=", x, other) for other in others]
    found = within(_find_among(x, items), x.nulls)
    found = reduce(np.logical_or, (within(test.values, test.nulls) for test in tests), found)
    nulls = join_masks(x.nulls, *(test.nulls for test in tests))
    return make_vector(found, None if nulls is None else nulls & ~found)


def _find_among(x: Vector, items: Sequence[Literal]) -> Mask:
    if x.is_text:
        return is_among(x.values, [str(each.value) for each in items])
    numbers = [each for each in items if each.kind is not Kind.STRING]  # a column of nulls meets all kinds
    if len(numbers) <= FEW or x.is_constant:
        tests = (compare("=", Vector(x.values), constant(each.value, each.kind)).values for each in numbers)
        return reduce(np.logical_or, tests, np.array(False))
    doubles = [each for each in numbers if each.kind is Kind.FLOAT or is_double(x.values)]
    whole = [each for each in numbers if each not in doubles]
    return _look_up(x, doubles, Kind.FLOAT) | _look_up(x, whole, Kind.INT)


def _look_up(x: Vector, items: Sequence[Literal], kind: Kind) -> Mask:
    """Return where x is one of some numbers, compared as a kind."""
    if not items:
        return np.array(False)
    known = np.array([each.value for each in items], DTYPES.get(kind, np.int64))
    keys = [order_keys(Vector(each), kind, as_double=False)[0] for each in (x.values, known)]
    return read_vector(pc.is_in(pa.array(keys[0]), value_set=pa.array(keys[1]))).values
