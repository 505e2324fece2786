"""Filters that leave events out before matching: semantics.md §9 as code, in one place.

An event that fits no variable may go, unless contiguity or a window in events counts it. Spark, row-group
statistics and Arrow test the part of the predicates that they can decide exactly: comparisons of an
attribute with constants. Any other predicate counts as true here, so a filter keeps a superset of the events
that matter.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.events import Path, raw_column
from cerise.kinds import MOMENTS, Kind, canonical, kind_of
from cerise.pattern.bound import Bound
from cerise.pattern.expr import COMPARISONS, Attr, Binary, Expr, In, IsNull, Literal, Unary, Value
from cerise.pattern.query import Unit

PLAIN = frozenset({Kind.INT, Kind.FLOAT, Kind.STRING, Kind.BOOL})
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
BATCH_ROWS = 1 << 16  # rows tested at a time
Codes = npt.NDArray[np.int64]
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
            return _comparison(attr, MIRRORED[op], (literal,), kinds)
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
    """Return the tests of needed events as a predicate of Spark SQL.

    Args:
        wanted: the tests, from `needed`.
        names: the SQL of each attribute.
    """
    either = [" AND ".join(_test_sql(test, names[test.path]) for test in tests) for tests in wanted]
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


# ---- in Arrow


class Sieve:
    """Tests the rows of tables: which are needed."""

    def __init__(self, wanted: Needed) -> None:
        from cerise.kernels.strings import Literals  # imports numba

        self._wanted = wanted
        tests = dict.fromkeys(test for tests in wanted for test in tests)
        words: dict[Path, dict[str, None]] = {}  # the constants that a column of strings is compared with
        for test in tests:
            if test.kind is Kind.STRING and test.op in ("=", "in"):
                words.setdefault(test.path, {}).update(dict.fromkeys(map(str, test.values)))
        self._words = {path: list(each) for path, each in words.items()}
        self._literals = {
            path: Literals([word.encode() for word in each]) for path, each in self._words.items()
        }

    def mask(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """Return for each row whether it is needed."""
        total = np.zeros(len(table), bool)
        start = 0
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            self._test(pa.Table.from_batches([batch]), total[start : start + len(batch)])
            start += len(batch)
        return total

    def _test(self, table: pa.Table, total: npt.NDArray[np.bool_]) -> None:
        known: dict[Comparison, npt.NDArray[np.bool_]] = {}
        columns: dict[Path, pa.Array] = {}
        codes: dict[Path, Codes] = {}
        for tests in self._wanted:
            part: npt.NDArray[np.bool_] | None = None
            for test in tests:
                if test not in known:
                    known[test] = (
                        self._equals(test, raw_column(table, test.path), codes)
                        if self._is_equality(test)
                        else _holds(test, self._column(test.path, table, columns))
                    )
                part = known[test] if part is None else part & known[test]
            total |= True if part is None else part

    def _is_equality(self, test: Comparison) -> bool:
        return test.kind is Kind.STRING and test.op in ("=", "in") and self._literals[test.path].found

    def _column(self, path: Path, table: pa.Table, columns: dict[Path, pa.Array]) -> pa.Array:
        if path not in columns:
            column = raw_column(table, path)
            columns[path] = canonical(column, kind_of(column.type), ".".join(path))
        return columns[path]

    def _equals(self, test: Comparison, column: pa.Array, codes: dict[Path, Codes]) -> npt.NDArray[np.bool_]:
        """Test strings by their codes: the number of the equal constant of the query."""
        values = column.dictionary if pa.types.is_dictionary(column.type) else column
        if test.path not in codes:
            codes[test.path] = self._codes(test.path, values)
        words = self._words[test.path]
        among = np.zeros(len(words) + 1, bool)  # the last entry is for all other strings: their code is -1
        among[[words.index(str(value)) for value in test.values]] = True
        of_values: npt.NDArray[np.bool_] = among[codes[test.path]]
        if values is column:
            return of_values
        indices = column.indices.fill_null(len(values)) if column.null_count else column.indices
        found: npt.NDArray[np.bool_] = np.append(of_values, False)[np.asarray(indices)]
        return found

    def _codes(self, path: Path, column: pa.Array) -> Codes:
        """Return for each string the number of the equal constant, or -1."""
        codes = np.empty(len(column), np.int64)
        text = column if column.type == pa.string() else column.cast(pa.string())
        self._literals[path].codes(text, 0, np.arange(len(self._words[path])), codes)
        if column.null_count:
            codes[np.asarray(column.is_null())] = -1
        return codes


def _holds(test: Comparison, column: pa.Array) -> npt.NDArray[np.bool_]:
    if test.kind is Kind.STRING:
        return np.asarray(_text_holds(test, column).fill_null(False))
    nothing = False if pa.types.is_boolean(column.type) else 0
    known = column.fill_null(nothing) if column.null_count else column
    numbers = known.to_numpy(zero_copy_only=False)
    if test.kind is Kind.FLOAT:
        numbers = numbers.astype(np.float64, copy=False)  # a comparison with a double converts integers
    first, *others = test.values
    found: npt.NDArray[np.bool_] = _COMPARE["=" if test.op == "in" else test.op](numbers, first)
    for value in others:
        found |= numbers == value
    if test.kind is Kind.FLOAT and test.op in (">", ">="):  # NaN is above all
        found |= np.isnan(numbers)
    return found & np.asarray(column.is_valid()) if column.null_count else found


def _text_holds(test: Comparison, column: pa.Array) -> pa.Array:
    if test.op == "in":
        return pc.is_in(column, value_set=pa.array(list(test.values), column.type))
    function = {"=": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater"}
    return pc.call_function(function.get(test.op, "greater_equal"), [column, pa.scalar(test.values[0])])


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


# ---- by statistics


def may_hold(wanted: Needed, ranges: Mapping[Path, Range]) -> bool:
    """Whether a part of a table may hold a needed event; a column without statistics may hold any value."""
    return any(
        all(test.path not in ranges or _may(test, ranges[test.path]) for test in tests) for tests in wanted
    )


def _may(test: Comparison, found: Range) -> bool:
    least, most = found.least, found.most
    if test.kind is Kind.STRING and max(len(str(least).encode()), len(str(most).encode())) >= EXACT_TEXT:
        return True
    if test.kind is Kind.FLOAT:
        least, most = float(least), float(most)
        if test.op in (">", ">=", "!="):  # statistics leave NaN out, and NaN is above all
            return True
    if test.kind is Kind.STRING:
        least, most = str(least).encode(), str(most).encode()
    values: list[Any] = [each.encode() if isinstance(each, str) else each for each in test.values]
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
