"""Expressions over all rows at once mean the same as over one event after another (S4.5, S4.6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerise.events import Path
from cerise.kinds import INT64_MAX, INT64_MIN, STORED, Kind
from cerise.pattern.check import kind_of
from cerise.pattern.evaluate import compile_expr
from cerise.pattern.expr import (
    Agg,
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
    Value,
)
from cerise.pattern.values import COMPARE, Fault, rank
from cerise.pattern.vectors import NULL_KEY, Vector, evaluate_rows, holds, order_keys
from tests.support.strategies.exprs import COMPARISONS, PATTERNS
from tests.support.strategies.streams import DOUBLES, FEW, LARGE, TRUTHS, WORDS, Dice

NAN, INF = math.nan, math.inf
FLOATS = (*DOUBLES, 9.3e18, -9.3e18, 2.0**63, -(2.0**63), 5e-324, 1e308, 710.0, -0.5)
NUMERALS = ("1", " 2 ", "-3.5", "1e3", "nan", "-inf", "9223372036854775808", "x", "1_0", "", None)
VALUES: dict[str, tuple[Kind, Sequence[Value]]] = {
    "few": (Kind.INT, FEW),
    "large": (Kind.INT, LARGE),
    "float": (Kind.FLOAT, FLOATS),
    "plain": (Kind.FLOAT, (0.5, 1.0, -2.25, 3.0)),
    "word": (Kind.STRING, WORDS),
    "code": (Kind.STRING, ("b", "a", None)),
    "numeral": (Kind.STRING, NUMERALS),
    "flag": (Kind.BOOL, TRUTHS),
    "instant": (Kind.INSTANT, (0, 10**6, 1, -1, INT64_MAX, None)),
    "local": (Kind.LOCAL, (0, 86_400_000_000, 1, INT64_MIN, None)),
    "date": (Kind.DATE, (0, 86_400_000_000, -86_400_000_000, None)),
    "gap": (Kind.DURATION, (0, 10**6, -1, INT64_MAX, INT64_MIN, None)),
    "nothing": (Kind.NULL, (None,)),
}
MOMENTS = (Kind.INSTANT, Kind.LOCAL, Kind.DATE)
Make = Callable[[int], Expr]


class Writer:
    """Writes random expressions of a kind over one event."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def value(self, kind: Kind, depth: int) -> Expr:
        if kind is not Kind.NULL and depth and self.dice.chance(65):
            return self.computed(kind, depth - 1)
        names = [name for name, (each, _) in VALUES.items() if each is kind]
        name = self.dice.pick(names)
        if self.dice.chance(25):
            value = self.dice.pick([each for each in VALUES[name][1] if each is not None] or [None])
            return Literal(value, kind)
        return Attr("a", (name,), kind=kind)

    def computed(self, kind: Kind, depth: int) -> Expr:
        if self.dice.chance(15):
            return self.chosen(kind, depth)
        by_kind: dict[Kind, Make] = {
            Kind.INT: self.whole, Kind.FLOAT: self.double, Kind.BOOL: self.truth, Kind.STRING: self.text,
            Kind.DURATION: self.gap,
        }  # fmt: skip
        return by_kind.get(kind, partial(self.moment, kind))(depth)

    def chosen(self, kind: Kind, depth: int) -> Expr:
        """A function of one kind, or of kinds that meet in it."""
        kinds = {Kind.FLOAT: (Kind.FLOAT, Kind.INT), Kind.LOCAL: (Kind.LOCAL, Kind.DATE)}.get(kind, (kind,))
        args = [self.value(self.dice.pick((*kinds, Kind.NULL)), depth) for _ in range(2)]
        args.append(self.value(kind, depth))
        if self.dice.chance(40):
            return Call("if", (self.value(Kind.BOOL, depth), *args[1:]))
        return Call(self.dice.pick(("coalesce", "least", "greatest")), tuple(args))

    def number(self, depth: int) -> Expr:
        return self.value(self.dice.pick((Kind.INT, Kind.FLOAT)), depth)

    def whole(self, depth: int) -> Expr:
        match self.dice.below(9):
            case 0 | 1 | 2:
                op = self.dice.pick("+-*%")
                return Binary(op, self.value(Kind.INT, depth), self.value(Kind.INT, depth))
            case 3:
                return Unary("-", self.value(Kind.INT, depth))
            case 4:
                return Call("abs", (self.value(Kind.INT, depth),))
            case 5:
                return Call(self.dice.pick(("ceil", "floor")), (self.number(depth),))
            case 6:
                return Call("length", (self.value(Kind.STRING, depth),))
            case 7:
                return Cast(self.value(self.dice.pick((Kind.FLOAT, Kind.BOOL, Kind.INT)), depth), Kind.INT)
        return Cast(self.value(self.dice.pick((Kind.STRING, Kind.NULL)), depth), Kind.INT)

    def double(self, depth: int) -> Expr:
        match self.dice.below(9):
            case 0 | 1 | 2:
                pair = (self.number(depth), self.number(depth))
                op = self.dice.pick("+-*/%")
                both = {kind_of(each) for each in pair} == {Kind.INT}
                return Binary("/" if both else op, *pair)
            case 3:
                return Unary("-", self.value(Kind.FLOAT, depth))
            case 4:
                return Call("abs", (self.value(Kind.FLOAT, depth),))
            case 5:
                return Call(self.dice.pick(("exp", "ln", "sqrt")), (self.number(depth),))
            case 6:
                return Call("pow", (self.number(depth), self.number(depth)))
            case 7:
                return Binary("/", self.value(Kind.DURATION, depth), self.value(Kind.DURATION, depth))
        return Cast(
            self.value(self.dice.pick((Kind.STRING, Kind.INT, Kind.FLOAT, Kind.NULL)), depth), Kind.FLOAT
        )

    def truth(self, depth: int) -> Expr:
        match self.dice.below(12):
            case 0 | 1 | 2:
                return Binary(self.dice.pick(COMPARISONS), self.number(depth), self.number(depth))
            case 3 | 4:
                kind = self.dice.pick((Kind.STRING, Kind.BOOL, Kind.DURATION, *MOMENTS))
                other = Attr("a", ("nothing",), kind=Kind.NULL) if self.dice.chance(10) else None
                return Binary(
                    self.dice.pick(COMPARISONS), self.value(kind, depth), other or self.value(kind, 0)
                )
            case 5 | 6 | 7:
                sides = (self.value(self.dice.pick((Kind.BOOL,) * 9 + (Kind.NULL,)), depth) for _ in range(2))
                return Binary(self.dice.pick(("and", "or")), *sides)
            case 8:
                return Unary("not", self.value(Kind.BOOL, depth))
            case 9:
                return IsNull(self.value(self.dice.pick(list(Kind)[:9]), depth))
            case 10:
                return Like(self.value(Kind.STRING, depth), self.dice.pick(PATTERNS))
        return self.contained(depth)

    def contained(self, depth: int) -> Expr:
        numbers = (Kind.INT, Kind.FLOAT)
        kind = self.dice.pick((*numbers, Kind.STRING, Kind.BOOL, Kind.NULL))
        fitting = numbers if kind in numbers else (kind, Kind.NULL)
        items = [self.value(self.dice.pick(fitting), 0) for _ in range(1 + self.dice.below(3))]
        if self.dice.chance(25):
            known = VALUES[{Kind.INT: "large", Kind.FLOAT: "float", Kind.STRING: "word"}.get(kind, "few")]
            items += [Literal(each, known[0]) for each in known[1] if each is not None and kind in COUNTABLE]
            items += [Literal(each, Kind.INT) for each in range(40) if kind in numbers]
        if self.dice.chance(15):
            items.append(Literal(None, Kind.NULL))
        return In(self.value(kind, depth), tuple(items))

    def text(self, depth: int) -> Expr:
        if self.dice.chance(50):
            return Call(self.dice.pick(("lower", "upper")), (self.value(Kind.STRING, depth),))
        kinds = (Kind.INT, Kind.BOOL, Kind.STRING, Kind.NULL)
        return Cast(self.value(self.dice.pick(kinds), depth), Kind.STRING)

    def gap(self, depth: int) -> Expr:
        if self.dice.chance(50):
            kind = self.dice.pick(MOMENTS)
            return Binary("-", self.value(kind, depth), self.value(kind, depth))
        if self.dice.chance(50):
            return Binary("*", self.value(Kind.DURATION, depth), self.value(Kind.INT, depth))
        return Unary("-", self.value(Kind.DURATION, depth))

    def moment(self, kind: Kind, depth: int) -> Expr:
        if kind is Kind.DATE:
            return self.chosen(kind, depth)
        return Binary(self.dice.pick("+-"), self.value(kind, depth), self.value(Kind.DURATION, depth))


COUNTABLE = (Kind.INT, Kind.FLOAT, Kind.STRING)


def columns_of(dice: Dice, size: int) -> dict[Path, pa.Array]:
    """Random columns; some are slices, some have no nulls, and some words are a dictionary."""
    columns: dict[Path, pa.Array] = {}
    for name, (kind, options) in VALUES.items():
        full = dice.chance(30) and kind is not Kind.NULL
        known = [each for each in options if each is not None or not full]
        array = pa.array([dice.pick(known) for _ in range(size + 1)], STORED[kind])
        array = array.slice(1) if dice.chance(50) else array.slice(0, size)
        if kind is Kind.STRING and dice.chance(50):
            null = "encode" if dice.chance(30) else "mask"
            array = array.dictionary_encode(null_encoding=null)
        columns[name,] = array
    return columns


def expected_rows(expr: Expr, columns: dict[Path, pa.Array], size: int) -> tuple[list[Any], int]:
    faults: list[Fault] = []
    function = compile_expr(expr, faults.append)
    lists = {path: array.to_pylist() for path, array in columns.items()}
    return [function(lists, {"a": (row,)}, {}) for row in range(size)], len(faults)


def listed(vector: Vector, size: int) -> list[Any]:
    values = vector.values.to_pylist() if vector.is_text else vector.values.tolist()
    assert len(values) == size
    assert vector.is_text or vector.values.flags.c_contiguous
    assert vector.nulls is None or vector.nulls.flags.c_contiguous
    assert vector.nulls is None or vector.nulls.shape == (size,)
    nulls = [False] * size if vector.nulls is None else vector.nulls.tolist()
    return [None if null else value for value, null in zip(values, nulls, strict=True)]


def same(found: Any, expected: Any) -> bool:
    """Equal as values: by bits, apart from the bits of NaN."""
    if isinstance(found, float) and expected is not None:
        number = float(expected)
        return (math.isnan(found) and math.isnan(number)) or found.hex() == number.hex()
    return type(found) is type(expected) and found == expected


def check(expr: Expr, columns: dict[Path, pa.Array], size: int) -> None:
    expected, count = expected_rows(expr, columns, size)
    vector, faults = evaluate_rows(expr, columns.__getitem__, size)
    found = listed(vector, size)
    assert all(map(same, found, expected)), (expr, found, expected)
    assert faults == count, expr
    kind = kind_of(expr)
    assert kind is Kind.NULL or vector.is_text == (kind is Kind.STRING)
    if kind in (Kind.BOOL, Kind.NULL):
        truths, again = holds(expr, columns.__getitem__, size)
        assert (truths.tolist(), again) == ([each is True for each in expected], count), expr


KINDS = (*list(Kind)[:9], Kind.BOOL, Kind.BOOL, Kind.BOOL, Kind.INT, Kind.FLOAT)


Case = tuple[list[Expr], dict[Path, pa.Array], int]


def case_of(size: int, random_bytes: Callable[[int], bytes]) -> Case:
    """Some expressions, and columns of a few rows."""
    exprs = [Writer(Dice(random_bytes(90))).value(kind, 3) for kind in KINDS]
    return exprs, columns_of(Dice(random_bytes(len(VALUES) * (size + 4))), size), size


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.sampled_from([7, 1, 12, 0]))
    return case_of(size, lambda length: draw(st.binary(min_size=length, max_size=length)))


@settings(max_examples=500, deadline=None)
@given(cases())
def test_drawn_expressions_mean_the_same_row_by_row(case: Case) -> None:
    exprs, columns, size = case
    for expr in exprs:
        check(expr, columns, size)


@pytest.mark.parametrize("seed", range(10))
def test_random_expressions_mean_the_same_row_by_row(seed: int) -> None:
    """Bytes of a generator vary more than those that Hypothesis draws, but do not shrink."""
    dice = Random(seed)
    for _ in range(100):
        exprs, columns, size = case_of(dice.choice([7, 1, 12, 0]), dice.randbytes)
        for expr in exprs:
            check(expr, columns, size)


# ---- at the borders


def attr(name: str, kind: Kind = Kind.INT) -> Attr:
    return Attr("a", (name,), kind=kind)


def number(value: float) -> Literal:
    return Literal(value, Kind.FLOAT if isinstance(value, float) else Kind.INT)


INTS = pa.array(
    [INT64_MIN, INT64_MIN + 1, -(2**32), -3, -1, 0, 1, 2, 3, 2**31, 2**32, 2**53 + 1, INT64_MAX, None]
)
EDGES = pa.array([NAN, INF, -INF, 0.0, -0.0, 2.0**63, -(2.0**63), 2.0**53, 0.5, -0.5, 5e-324, None])


def crossed(left: pa.Array, right: pa.Array) -> tuple[dict[Path, pa.Array], int]:
    """All pairs of two columns."""
    x = left.take(pa.array(np.repeat(np.arange(len(left)), len(right))))
    y = right.take(pa.array(np.tile(np.arange(len(right)), len(left))))
    return {("x",): x, ("y",): y}, len(x)


@pytest.mark.parametrize("op", [*"+-*/%", *COMPARE])
@pytest.mark.parametrize(("left", "right"), [(INTS, INTS), (INTS, EDGES), (EDGES, INTS), (EDGES, EDGES)])
def test_an_operator_agrees_on_all_pairs_of_borders(op: str, left: pa.Array, right: pa.Array) -> None:
    kinds = [Kind.FLOAT if pa.types.is_floating(each.type) else Kind.INT for each in (left, right)]
    columns, size = crossed(left, right)
    check(Binary(op, attr("x", kinds[0]), attr("y", kinds[1])), columns, size)
    for value in right.drop_null().to_pylist():
        check(Binary(op, attr("x", kinds[0]), number(value)), columns, size)
        check(Binary(op, number(value), attr("x", kinds[0])), columns, size)


@pytest.mark.parametrize("op", COMPARE)
def test_texts_compare_by_code_point(op: str) -> None:
    words = pa.array(["", "a", "b", "é", "ﬁ", "\U0001f352", "Z", None])
    x, y = attr("x", Kind.STRING), attr("y", Kind.STRING)
    columns, size = crossed(words, words)
    for coded in (columns, {path: each.dictionary_encode() for path, each in columns.items()}):
        check(Binary(op, x, y), coded, size)
        for word in ("a", "é", "ﬁ"):
            check(Binary(op, x, Literal(word, Kind.STRING)), coded, size)
            check(Binary(op, Literal(word, Kind.STRING), x), coded, size)


@pytest.mark.parametrize("function", ["coalesce", "greatest", "least"])
@pytest.mark.parametrize(("column", "kind"), [(INTS, Kind.INT), (EDGES, Kind.FLOAT)])
def test_a_choice_of_values_agrees_on_all_pairs_of_borders(
    function: str, column: pa.Array, kind: Kind
) -> None:
    columns, size = crossed(column, column)
    x, y = attr("x", kind), attr("y", kind)
    for args in ((x, y), (x, number(-0.0), y), (number(0), y, x)):
        check(Call(function, args), columns, size)


@pytest.mark.parametrize("function", ["abs", "ceil", "exp", "floor", "ln", "sqrt"])
@pytest.mark.parametrize(("column", "kind"), [(INTS, Kind.INT), (EDGES, Kind.FLOAT)])
def test_a_function_agrees_on_borders(function: str, column: pa.Array, kind: Kind) -> None:
    check(Call(function, (attr("x", kind),)), {("x",): column}, len(column))


def test_pow_knows_odd_integers_above_53_bits() -> None:
    columns, size = crossed(INTS, INTS)
    check(Call("pow", (attr("x"), attr("y"))), columns, size)


@pytest.mark.parametrize(("column", "kind"), [(INTS, Kind.INT), (EDGES, Kind.FLOAT)])
def test_a_long_list_finds_what_a_short_one_finds(column: pa.Array, kind: Kind) -> None:
    """Integers compare with integers exactly, and with doubles as doubles."""
    whole = [0, 1, 2, -3, 2**53, INT64_MAX, INT64_MIN, 5, 6]
    items = [*whole, 2.0**53, -0.0, NAN, INF, 0.5, 7.0, 8.0, 9.0, 2.0**63, *range(10, 30), 30.5, 31.5]
    columns = {("x",): column}
    for start in range(len(items)):
        for stop in (start + 1, len(items)):
            some = tuple(map(number, items[start:stop]))
            check(In(attr("x", kind), some), columns, len(column))
            check(In(attr("x", kind), (*some, Literal(None, Kind.NULL))), columns, len(column))


# ---- faults

ZERO = Binary("/", number(1), attr("x"))
POSITIVE = Binary(">", ZERO, number(0))
TRUE, FALSE = Literal(True, Kind.BOOL), Literal(False, Kind.BOOL)
FAULTS = [
    (Binary("and", Binary(">", attr("x"), number(0)), POSITIVE), 0),
    (Binary("and", Binary("=", attr("x"), number(0)), POSITIVE), 2),
    (Binary("or", Binary("=", attr("x"), number(0)), POSITIVE), 0),
    (Binary("or", Binary(">", attr("x"), number(0)), POSITIVE), 2),
    (In(ZERO, (number(1), number(2), number(3))), 6),  # each of the three tests computes it
    (Call("if", (Binary("=", attr("x"), number(0)), number(1.0), ZERO)), 0),
    (Call("if", (Binary("=", attr("x"), number(0)), ZERO, number(1.0))), 2),
    (Binary("/", number(1), number(0)), 5),
    (Binary("and", FALSE, Call("if", (FALSE, TRUE, POSITIVE))), 0),
    (Binary("or", IsNull(attr("x")), Call("if", (TRUE, POSITIVE, TRUE))), 2),
    (Binary("and", TRUE, Binary("or", FALSE, Binary("and", Binary("=", attr("x"), number(0)), POSITIVE))), 2),
    (Binary("and", FALSE, POSITIVE), 0),
    (Binary("+", ZERO, ZERO), 4),
    (Cast(Call("lower", (Literal("A", Kind.STRING),)), Kind.INT), 5),
]


@pytest.mark.parametrize(("expr", "count"), FAULTS)
def test_faults_count_in_the_rows_that_compute_them(expr: Expr, count: int) -> None:
    columns = {("x",): pa.array([0, 1, None, 0, 2])}
    check(expr, columns, 5)
    assert evaluate_rows(expr, columns.__getitem__, 5)[1] == count


def test_an_unused_word_of_a_dictionary_is_not_a_fault() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array(["bad", "2"]))
    vector, faults = evaluate_rows(Cast(attr("s", Kind.STRING), Kind.INT), lambda path: words, 3)
    assert (listed(vector, 3), faults) == ([2, None, 2], 0)


# ---- vectors


def test_a_column_is_not_copied() -> None:
    column = pa.array([1.5, None, 2.5]).slice(1)
    vector, _ = evaluate_rows(attr("x", Kind.FLOAT), lambda path: column, 2)
    assert vector.values.ctypes.data == column.buffers()[1].address + 8
    assert listed(vector, 2) == [None, 2.5]


def test_a_column_is_read_once() -> None:
    reads: list[Path] = []

    def read(path: Path) -> pa.Array:
        reads.append(path)
        return pa.array([1, 2])

    evaluate_rows(Binary("+", attr("x"), Binary("*", attr("x"), attr("y"))), read, 2)
    assert sorted(reads) == [("x",), ("y",)]


def test_a_string_is_an_array_of_strings() -> None:
    words = pa.array(["a", None, "a"]).dictionary_encode()
    for expr in (attr("s", Kind.STRING), Literal("b", Kind.STRING), Call("upper", (attr("s", Kind.STRING),))):
        vector, _ = evaluate_rows(expr, lambda path: words, 3)
        assert vector.values.type == pa.string()


def test_a_column_that_is_not_canonical_is_rejected() -> None:
    for column in (pa.array([1], pa.int32()), pa.array([1], pa.timestamp("us")), pa.nulls(1)):
        with pytest.raises(AssertionError, match="not in canonical form"):
            evaluate_rows(attr("x"), lambda path, column=column: column, 1)


def test_large_strings_are_strings() -> None:
    for type_ in (pa.large_string(), pa.dictionary(pa.int8(), pa.large_string())):
        columns = {("s",): pa.array(["a", None, "b"]).cast(type_)}
        check(Binary("<", attr("s", Kind.STRING), Literal("b", Kind.STRING)), columns, 3)
        check(In(attr("s", Kind.STRING), (Literal("b", Kind.STRING),)), columns, 3)


def test_an_aggregate_is_not_of_one_event() -> None:
    with pytest.raises(AssertionError, match="not of one event"):
        evaluate_rows(Agg("sum", attr("x")), lambda path: pa.array([1]), 1)


# ---- keys


@given(st.lists(st.floats() | st.sampled_from([NAN, -NAN, 0.0, -0.0, INF, -INF, None])))
def test_keys_of_doubles_are_in_their_order(values: list[float | None]) -> None:
    array = np.array([0.0 if each is None else each for each in values], np.float64)
    nulls = np.array([each is None for each in values], np.bool_)
    keys, taken = order_keys(Vector(array, nulls), Kind.FLOAT, as_double=False)
    assert not taken
    assert [key == NULL_KEY for key in keys.tolist()] == nulls.tolist()
    known = [(rank(each), key) for each, key in zip(values, keys.tolist(), strict=True) if each is not None]
    for left, left_key in known:
        for right, right_key in known:
            assert (left < right, left == right) == (left_key < right_key, left_key == right_key)


def test_keys_tell_whether_a_value_looks_like_null() -> None:
    least = np.array([INT64_MIN, 5])
    assert order_keys(Vector(least), Kind.INT, as_double=False)[1]
    assert order_keys(Vector(least, np.array([False, True])), Kind.INT, as_double=False)[1]
    keys, taken = order_keys(Vector(least, np.array([True, False])), Kind.INT, as_double=False)
    assert (keys.tolist(), taken) == ([NULL_KEY, 5], False)
    assert not order_keys(Vector(least), Kind.INT, as_double=True)[1]
    assert not order_keys(Vector(least[:0]), Kind.INT, as_double=False)[1]


def test_keys_of_integers_as_doubles_meet_those_of_doubles() -> None:
    whole = np.array([2**53, 2**53 + 1, -1, 0, INT64_MAX])
    keys, _ = order_keys(Vector(whole), Kind.INT, as_double=True)
    doubles, _ = order_keys(Vector(whole.astype(np.float64)), Kind.FLOAT, as_double=False)
    assert keys.tolist() == doubles.tolist()
    assert keys[0] == keys[1]


def test_keys_of_truths_and_integers() -> None:
    truths, _ = order_keys(Vector(np.array([True, False])), Kind.BOOL, as_double=False)
    assert (truths.tolist(), truths.dtype) == ([1, 0], np.int64)
    whole = np.array([3, 4])
    assert order_keys(Vector(whole), Kind.INT, as_double=False)[0] is whole


def test_keys_of_a_column_can_be_written_to() -> None:
    for column, kind in ((pa.array([1, 2]), Kind.INT), (pa.array([1.0, 2.0]), Kind.FLOAT)):
        vector, _ = evaluate_rows(attr("x", kind), lambda path, column=column: column, 2)
        assert not vector.values.flags.writeable
        assert order_keys(vector, kind, as_double=False)[0].flags.writeable
