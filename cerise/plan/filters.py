"""Which events may be left out before matching: semantics.md §9 as code, in one place.

An event that fits no variable may go, unless contiguity or a window in events counts it. What is pushed
to Spark, to row-group statistics and to Arrow is the part of the predicates that these can judge exactly:
an attribute compared with constants. A predicate that is not of this form holds everywhere here, so what is
kept is always a superset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.events import Path, Schema, read_column
from cerise.kinds import Kind
from cerise.pattern.bound import Bound
from cerise.pattern.expr import COMPARISONS, Attr, Binary, Expr, In, Literal, Value
from cerise.pattern.query import Unit

PLAIN = frozenset({Kind.INT, Kind.FLOAT, Kind.STRING, Kind.BOOL})
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
EXACT_TEXT = 32  # bytes: statistics of longer strings may have been cut


@dataclass(frozen=True, slots=True)
class Test:
    """An attribute compared with constants.

    Attributes:
        path: the attribute.
        kind: what it is compared as.
        op: a comparison, or "in".
        values: the constant, or the constants of IN.
    """

    path: Path
    kind: Kind
    op: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """What is known of a column in a part of a table; None: nothing."""

    least: Any
    most: Any


Needed = tuple[tuple[Test, ...], ...]  # an event is needed where all tests of one of these hold


def why_all(bounds: Sequence[Bound]) -> str | None:
    """Say why every event must reach the matcher; None where those that fit no variable may go."""
    for bound in bounds:
        if bound.query.strategy.contiguous:
            return "contiguity counts every event"
        if bound.within is not None and bound.within.unit is Unit.EVENTS:
            return "the window counts every event"
        for branch in bound.branches:
            for name, exprs in branch.filters.items():
                if not _tests(exprs):
                    return f"{name} fits every event, as far as can be told without matching"
    return None


def needed(bounds: Sequence[Bound]) -> Needed | None:
    """Return which events can be bound at all; None where all must be kept."""
    if why_all(bounds) is not None:
        return None
    branches = [branch for bound in bounds for branch in bound.branches]
    return tuple(dict.fromkeys(_tests(exprs) for branch in branches for exprs in branch.filters.values()))


def _tests(exprs: tuple[Expr, ...]) -> tuple[Test, ...]:
    return tuple(test for expr in exprs if (test := _test(expr)) is not None)


def _test(expr: Expr) -> Test | None:
    match expr:
        case Binary(op, Attr() as attr, Literal() as literal) if op in COMPARISONS:
            return _compared(attr, op, (literal,))
        case Binary(op, Literal() as literal, Attr() as attr) if op in COMPARISONS:
            return _compared(attr, MIRRORED[op], (literal,))
        case In(Attr() as attr, items):
            literals = tuple(each for each in items if isinstance(each, Literal))
            return _compared(attr, "in", literals) if len(literals) == len(items) else None
    return None


def _compared(attr: Attr, op: str, literals: tuple[Literal, ...]) -> Test | None:
    values = tuple(each.value for each in literals)
    if attr.kind not in PLAIN or any(each.value is None or each.kind not in PLAIN for each in literals):
        return None
    kinds = {attr.kind, *(each.kind for each in literals)}
    if kinds <= {Kind.INT, Kind.FLOAT}:
        kind = Kind.FLOAT if Kind.FLOAT in kinds else Kind.INT
        return Test(attr.path, kind, op, tuple(float(v) if kind is Kind.FLOAT else v for v in values))  # type: ignore[arg-type]
    return Test(attr.path, attr.kind, op, values) if len(kinds) == 1 else None


# ---- as SQL


def as_sql(wanted: Needed, names: Mapping[Path, str]) -> str:
    """Return which events are needed as a predicate of Spark's SQL.

    Args:
        wanted: what `needed` says.
        names: the attributes as SQL.
    """
    either = [" AND ".join(_test_sql(test, names[test.path]) for test in tests) for tests in wanted]
    return "(" + ") OR (".join(either) + ")"


def _test_sql(test: Test, name: str) -> str:
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


def kept(wanted: Needed, table: pa.Table, schema: Schema) -> npt.NDArray[np.bool_]:
    """Return for each row whether it is needed."""
    known: dict[Test, pa.Array] = {}
    total = np.zeros(len(table), bool)
    for tests in wanted:
        part = np.ones(len(table), bool)
        for test in tests:
            if test not in known:
                known[test] = _holds(test, table, schema)
            part &= np.asarray(known[test])
        total |= part
    return total


def _holds(test: Test, table: pa.Table, schema: Schema) -> pa.Array:
    column = read_column(table, schema, test.path)
    if test.kind is Kind.FLOAT:
        column = column.cast(pa.float64(), safe=False)  # as a comparison of both does
    if test.op == "in":
        return pc.is_in(column, value_set=pa.array(list(test.values), column.type))
    found = _COMPARE[test.op](column, pa.scalar(test.values[0], column.type))
    if test.kind is Kind.FLOAT and test.op in (">", ">="):  # NaN is above all
        found = pc.or_(found, pc.is_nan(column))
    return found.fill_null(False)


_COMPARE = {
    "=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
    ">=": pc.greater_equal,
}  # fmt: skip


# ---- by statistics


def may_hold(wanted: Needed, ranges: Mapping[Path, Range]) -> bool:
    """Whether a part of a table may hold a needed event; what is not known may be anything."""
    return any(
        all(test.path not in ranges or _may(test, ranges[test.path]) for test in tests) for tests in wanted
    )


def _may(test: Test, found: Range) -> bool:
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
