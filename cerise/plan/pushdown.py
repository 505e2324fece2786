"""Filters that leave events out before matching: semantics.md §9 as code, in one place.

An event that fits no variable may go, unless contiguity or a window in events counts it. Spark, row-group
statistics and the router test the part of the predicates that they can decide exactly: comparisons of an
attribute with constants. Any other predicate counts as true here, so a filter keeps a superset of the events
that matter.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cerise.events import Path
from cerise.kinds import MOMENTS, Kind
from cerise.pattern.bound import Bound
from cerise.pattern.expr import COMPARISONS, FLIPPED, Attr, Binary, Expr, In, IsNull, Literal, Unary, Value
from cerise.pattern.query import Unit

PLAIN = frozenset({Kind.INT, Kind.FLOAT, Kind.STRING, Kind.BOOL})
MOST_TESTS = 64  # of a predicate of SQL; and that statistics are compared with one by one
MOST_PARTS, MOST_CONSTANTS = 4, 4_096  # of a wider predicate
EXACT_TEXT = 32  # bytes: statistics of longer strings may be truncated


@dataclass(frozen=True, slots=True)
class Comparison:
    """An attribute compared with constants.

    Attributes:
        path: the attribute.
        kind: the kind of the comparison.
        op: a comparison, "in", "is null" or "is not null".
        values: the constant, or the constants of IN; moments are integers in microseconds.
    """

    path: Path
    kind: Kind
    op: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Comparisons of one attribute, joined by OR."""

    path: Path
    tests: tuple[Comparison, ...]


Test = Comparison | Either


@dataclass(frozen=True, slots=True)
class Range:
    """The least and greatest values of a column in a part of a table."""

    least: Any
    most: Any


Needed = tuple[tuple[Comparison, ...], ...]  # an OR of ANDs: an event is needed if all tests of a tuple hold


def why_all(bounds: Sequence[Bound]) -> str | None:
    """Say why every event must reach the matcher; None: events that fit no variable may be left out."""
    for bound in bounds:
        if bound.query.strategy.contiguous:
            return "contiguity counts every event"
        if bound.within is not None and bound.within.unit is Unit.EVENTS:
            return "the window counts every event"
        for branch in bound.branches:
            for name, exprs in branch.filters.items():
                if not tests_of(exprs):
                    return f"{name} fits every event, as far as can be told without matching"
    return None


def needed(bounds: Sequence[Bound]) -> Needed | None:
    """Return the tests of events that a variable can bind; None: all events must be kept."""
    if why_all(bounds) is not None:
        return None
    branches = [branch for bound in bounds for branch in bound.branches]
    return tuple(dict.fromkeys(tests_of(exprs) for branch in branches for exprs in branch.filters.values()))


def index_tests(exprs: tuple[Expr, ...]) -> tuple[Test, ...]:
    """Return the tests of one attribute, among predicates on one event, that an index decides exactly."""
    return tuple(test for expr in exprs if (test := _index_test(expr)) is not None)


def _index_test(expr: Expr) -> Test | None:
    match expr:
        case IsNull(Attr() as attr):
            return _null_test(attr, "is null")
        case Unary("not", IsNull(Attr() as attr)):
            return _null_test(attr, "is not null")
        case Binary("or", left, right):
            return _either(_index_test(left), _index_test(right))
    return _test(expr, PLAIN | MOMENTS)


def _null_test(attr: Attr, op: str) -> Comparison | None:
    return Comparison(attr.path, attr.kind, op, ()) if attr.path and attr.kind is not None else None


def _either(left: Test | None, right: Test | None) -> Either | None:
    if left is None or right is None or left.path != right.path:
        return None
    both = [each.tests if isinstance(each, Either) else (each,) for each in (left, right)]
    return Either(left.path, both[0] + both[1])


def tests_of(exprs: tuple[Expr, ...]) -> tuple[Comparison, ...]:
    """Return the comparisons with constants among predicates on one event."""
    return tuple(test for expr in exprs if (test := _test(expr, PLAIN)) is not None)


def _test(expr: Expr, kinds: frozenset[Kind]) -> Comparison | None:
    match expr:
        case Binary(op, Attr() as attr, Literal() as literal) if op in COMPARISONS:
            return _comparison(attr, op, (literal,), kinds)
        case Binary(op, Literal() as literal, Attr() as attr) if op in COMPARISONS:
            return _comparison(attr, FLIPPED[op], (literal,), kinds)
        case In(Attr() as attr, items):
            literals = tuple(each for each in items if isinstance(each, Literal))
            return _comparison(attr, "in", literals, kinds) if len(literals) == len(items) else None
    return None


def _comparison(
    attr: Attr, op: str, literals: tuple[Literal, ...], exact: frozenset[Kind]
) -> Comparison | None:
    values = tuple(each.value for each in literals)
    if attr.kind not in exact or any(each.value is None or each.kind not in exact for each in literals):
        return None
    kinds = {attr.kind, *(each.kind for each in literals)}
    if kinds <= {Kind.INT, Kind.FLOAT}:
        kind = Kind.FLOAT if Kind.FLOAT in kinds else Kind.INT
        return Comparison(attr.path, kind, op, tuple(float(v) if kind is Kind.FLOAT else v for v in values))  # type: ignore[arg-type]
    return Comparison(attr.path, attr.kind, op, values) if len(kinds) == 1 else None


# ---- as SQL


def as_sql(wanted: Needed, names: Mapping[Path, str]) -> str:
    """Return the tests of needed events as a predicate of Spark SQL; of many tests, a wider one.

    Args:
        wanted: the tests, from `needed`.
        names: the SQL of each attribute.
    """
    wide = widen(wanted)
    if not all(wide):
        return "TRUE"
    either = [" AND ".join(_test_sql(test, names[test.path]) for test in tests) for tests in wide]
    return "(" + ") OR (".join(either) + ")"


def _test_sql(test: Comparison, name: str) -> str:
    column = f"CAST({name} AS DOUBLE)" if test.kind is Kind.FLOAT else name
    if test.kind is Kind.STRING:
        column = f"{name} COLLATE UTF8_BINARY"
    literals = [_literal_sql(value) for value in test.values]
    if test.op == "in":
        return f"{column} IN ({', '.join(literals)})"
    return f"{column} {test.op} {literals[0]}"


def _literal_sql(value: Value) -> str:
    match value:
        case bool():
            return str(value).upper()
        case int():
            return f"{value}L" if value != -(2**63) else "(-9223372036854775807L - 1L)"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
    text = str(value)
    if re.fullmatch(r"[A-Za-z0-9 _.-]*", text):
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex()}' AS STRING)"  # escapes depend on Spark's settings


# ---- many tests as few


def widen(wanted: Needed, most: int = MOST_TESTS) -> Needed:
    """Return few tests that every event passes which passes the given ones.

    Alternatives with an equality of the same attribute become one: the attribute is in a list, and every
    other attribute that all of them bound is between the least and the greatest bound.

    Args:
        wanted: the tests.
        most: how many tests there may be; fewer are returned as they are.

    >>> ranges = tuple((Comparison(("x",), Kind.INT, "=", (i,)),) for i in range(3))
    >>> widen(ranges, 2) == ((Comparison(("x",), Kind.INT, "in", (0, 1, 2)),),)
    True
    """
    if sum(map(len, wanted)) <= most:
        return wanted
    found: list[tuple[Comparison, ...]] = []
    rest, room = list(wanted), most
    while sum(map(len, rest)) > room:
        named = Counter(key for tests in rest for key in {_key(test) for test in tests if _lists(test)})
        parts = MOST_PARTS - len(found)
        if not named or parts < 2 or room < 2 * parts:
            return (*found, _cover(rest)[:room])
        key = min(named, key=lambda each: (-named[each], each[0]))
        found.append(_cover([tests for tests in rest if _names(tests, key)])[: room // parts])
        rest = [tests for tests in rest if not _names(tests, key)]
        room -= len(found[-1])
    return (*found, *rest)


def _names(tests: Sequence[Comparison], key: tuple[Path, Kind]) -> bool:
    return any(_lists(test) and _key(test) == key for test in tests)


def _key(test: Comparison) -> tuple[Path, Kind]:
    return test.path, test.kind


def _lists(test: Comparison) -> bool:
    return test.op in ("=", "in")


def _cover(part: Sequence[tuple[Comparison, ...]]) -> tuple[Comparison, ...]:
    """Return tests that every event passes which passes one of several lists of tests."""
    by_key: list[dict[tuple[Path, Kind], list[Comparison]]] = []
    for tests in part:
        by_key.append({})
        for test in tests:
            by_key[-1].setdefault(_key(test), []).append(test)
    shared = [key for key in by_key[0] if all(key in each for each in by_key)]
    lists_first = sorted(shared, key=lambda key: not any(map(_lists, by_key[0][key])))
    return tuple(test for key in lists_first for test in _cover_key(key, [each[key] for each in by_key]))


def _cover_key(key: tuple[Path, Kind], several: Sequence[Sequence[Comparison]]) -> Iterator[Comparison]:
    """Yield tests of one attribute: a list, or the least and the greatest bound."""
    listed = [next((test.values for test in tests if _lists(test)), None) for tests in several]
    known = dict.fromkeys(value for each in listed if each is not None for value in each)
    if None not in listed and len(known) <= MOST_CONSTANTS:
        yield Comparison(*key, "in" if len(known) > 1 else "=", tuple(known))
        return
    for ops, choose in ((("=", "in", ">", ">="), min), (("=", "in", "<", "<="), max)):
        ends: list[list[Any]] = [
            [value for test in tests if test.op in ops for value in test.values] for tests in several
        ]
        if all(ends) and all(value == value for each in ends for value in each):  # noqa: PLR0124  NaN
            end = choose(value for each in ends for value in each)
            yield Comparison(*key, ops[-1], (end,))


# ---- by statistics


@dataclass(frozen=True, slots=True)
class _Ranked:
    """The constants of one attribute, and the tests with each."""

    path: Path
    kind: Kind
    constants: list[Any]
    places: npt.NDArray[np.int64]
    ops: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.int64]

    def judge(self, found: Range, holds: npt.NDArray[np.bool_]) -> None:
        """Write which tests may hold; a test holds for the constants from one rank up to another."""
        ends = _ends(self.kind, found)
        if ends is None:
            return
        least, most = ends
        from_least, above_least = bisect_left(self.constants, least), bisect_right(self.constants, least)
        upto_most, below_most = bisect_right(self.constants, most), bisect_left(self.constants, most)
        end = len(self.constants) + 1
        first = np.array([from_least, above_least, from_least, 0, 0, 0, 0])
        last = np.array([upto_most, end, end, below_most, upto_most, end, end])
        some = (self.ranks >= first[self.ops]) & (self.ranks < last[self.ops])
        if least == most and above_least > from_least:
            some &= (self.ops != OPS["!="]) | (self.ranks != from_least)
        holds[self.places] = some


class Pruner:
    """Tells by statistics which parts of a table may hold a needed event.

    Args:
        wanted: the tests of needed events; None: all events are needed.
        few: tests up to which each is looked at by itself, until some hold.

    >>> pruner = Pruner(((Comparison(("x",), Kind.INT, "=", (7,)),),))
    >>> pruner.may_hold({("x",): Range(0, 6)}), pruner.may_hold({("x",): Range(0, 7)}), pruner.may_hold({})
    (False, True, True)
    """

    def __init__(self, wanted: Needed | None, few: int = MOST_TESTS) -> None:
        self._wanted = wanted
        tests = [test for each in wanted or () for test in each]
        self.paths = frozenset(test.path for test in tests)
        self._ranked: list[_Ranked] | None = None
        if wanted is not None and len(tests) > few and all(wanted) and all(test.values for test in tests):
            self._ranked = _rank(tests)
            self._tests = np.cumsum([0, *(len(test.values) for test in tests)])[:-1]
            self._either = np.cumsum([0, *map(len, wanted)])[:-1]
            self._count = sum(len(test.values) for test in tests)

    def may_hold(self, ranges: Mapping[Path, Range]) -> bool:
        """Whether a part may hold a needed event; a column without statistics may hold any value."""
        if self._wanted is None:
            return True
        if self._ranked is None:
            return any(
                all(test.path not in ranges or _may(test, ranges[test.path]) for test in tests)
                for tests in self._wanted
            )
        holds = np.ones(self._count, np.bool_)
        for each in self._ranked:
            if each.path in ranges:
                each.judge(ranges[each.path], holds)
        tests = np.logical_or.reduceat(holds, self._tests)
        return bool(np.logical_and.reduceat(tests, self._either).any())


OPS = {"=": 0, "in": 0, "<": 1, "<=": 2, ">": 3, ">=": 4, "!=": 5}
ANY = 6  # holds whatever the statistics say


def _rank(tests: Sequence[Comparison]) -> list[_Ranked]:
    found: dict[tuple[Path, Kind], list[tuple[int, int, Any]]] = {}
    place = 0
    for test in tests:
        for value in test.values:
            op = ANY if _hides(test.kind, test.op, (value,)) else OPS[test.op]
            found.setdefault(_key(test), []).append((place, op, _encode(value)))
            place += 1
    ranked = []
    for (path, kind), several in found.items():
        constants = sorted({value for _, op, value in several if op != ANY})
        ranks = {value: rank for rank, value in enumerate(constants)}
        rows = np.array([(at, op, ranks.get(value, 0) if op != ANY else 0) for at, op, value in several])
        ranked.append(_Ranked(path, kind, constants, *rows.T))
    return ranked


def _hides(kind: Kind, op: str, values: tuple[Any, ...]) -> bool:
    """Whether statistics do not tell: they leave NaN out, and NaN is above all."""
    return kind is Kind.FLOAT and (op in (">", ">=", "!=") or any(value != value for value in values))  # noqa: PLR0124


def _encode(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _ends(kind: Kind, found: Range) -> tuple[Any, Any] | None:
    """Return the least and the greatest value as constants compare with them; None: they may be cut off."""
    if kind is Kind.FLOAT:
        return float(found.least), float(found.most)
    if kind is not Kind.STRING:
        return found.least, found.most
    least, most = str(found.least).encode(), str(found.most).encode()
    return None if max(len(least), len(most)) >= EXACT_TEXT else (least, most)


def _may(test: Comparison, found: Range) -> bool:
    ends = _ends(test.kind, found)
    if ends is None or _hides(test.kind, test.op, test.values):
        return True
    least, most = ends
    values: list[Any] = [_encode(each) for each in test.values]
    match test.op:
        case "in" | "=":
            return any(least <= value <= most for value in values)
        case "!=":
            return bool(least != values[0] or most != values[0])
        case "<":
            return bool(least < values[0])
        case "<=":
            return bool(least <= values[0])
        case ">":
            return bool(most > values[0])
    return bool(most >= values[0])
