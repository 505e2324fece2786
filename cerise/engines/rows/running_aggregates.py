"""Generates code for running aggregates: their parts in registers, updates, and results.

The parts are keys of the memo: a part that says no more than it must lets more states be equal. So a maximum
knows whether there was a value, not how many there were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cerise.kernels.predicates import Value, Writer, better, guard
from cerise.kinds import Kind
from cerise.pattern.row_pattern import RowAgg

TRENDS = {"count": 1, "max": 1, "min": -1}  # of aggregates while rows are added


@dataclass(frozen=True, slots=True)
class AggregatePart:
    """A register of an aggregate, and the kind of its number."""

    register: int
    kind: Kind

    @property
    def zero(self) -> str:
        return "0.0" if self.kind is Kind.FLOAT else "0"


@dataclass(frozen=True, slots=True)
class Fold:
    """The parts of an aggregate, and the generators of its update and its result.

    Attributes:
        parts: its parts.
        add: generates the update of the parts by a value.
        result: generates the result.
        is_ordered: whether the first part has the order of the results.
    """

    parts: tuple[AggregatePart, ...]
    add: Callable[[list[str], str, Writer], None]
    result: Callable[[list[str], Writer], Value]
    is_ordered: bool = False


def fold_of(agg: RowAgg, kind: Kind, register: int) -> Fold | str:
    """Return the fold of an aggregate, with its parts from a register on, or why there is none."""
    if agg.distinct or agg.function not in FOLDS:
        return f"{agg.function}{' of DISTINCT values' if agg.distinct else ''} stands in DEFINE"
    kinds, add, result = FOLDS[agg.function](kind)
    parts = tuple(AggregatePart(register + i, each) for i, each in enumerate(kinds))
    return Fold(parts, add, result, is_ordered=agg.function in TRENDS)


_Recipe = tuple[
    tuple[Kind, ...], Callable[[list[str], str, Writer], None], Callable[[list[str], Writer], Value]
]


def _count(_kind: Kind) -> _Recipe:
    def add(parts: list[str], _value: str, writer: Writer) -> None:
        writer.line(f"{parts[0]} += 1")

    return (Kind.INT,), add, lambda parts, _writer: Value(parts[0])


def _sum(kind: Kind) -> _Recipe:
    return _sum_of_doubles(kind) if kind is Kind.FLOAT else _exact_sum(kind)


def _exact_sum(_kind: Kind) -> _Recipe:
    def add(parts: list[str], value: str, writer: Writer) -> None:
        high, low, some = parts
        writer.line(f"{high} += {value} >> 32")
        writer.line(f"{low} += {value} & (HALF - 1)")
        writer.line(f"{some} = 1")

    def result(parts: list[str], writer: Writer) -> Value:
        joined = ", ".join(parts[:2])
        empty = writer.name(f"{parts[2]} == 0")
        return guard(f"sum_value({joined})", empty, f"sum_faults({joined})", writer)

    return (Kind.INT, Kind.INT, Kind.INT), add, result


def _sum_of_doubles(_kind: Kind) -> _Recipe:
    def result(parts: list[str], writer: Writer) -> Value:
        return Value(parts[0], writer.name(f"{parts[1]} == 0"))

    return (Kind.FLOAT, Kind.INT), _add_double, result


def _avg(_kind: Kind) -> _Recipe:
    def result(parts: list[str], writer: Writer) -> Value:
        return Value(writer.name(f"{parts[0]} / max({parts[1]}, 1)"), writer.name(f"{parts[1]} == 0"))

    return (Kind.FLOAT, Kind.INT), _add_double, result


def _add_double(parts: list[str], value: str, writer: Writer) -> None:
    """Sum from first to last, starting with the first value, which keeps -0.0."""
    number = writer.name(f"float({value})")
    writer.line(f"{parts[0]} = {number} if {parts[1]} == 0 else {parts[0]} + {number}")
    writer.line(f"{parts[1]} += 1")


def _stddev(_kind: Kind) -> _Recipe:
    def add(parts: list[str], value: str, writer: Writer) -> None:
        count, mean, squares = parts
        number = writer.name(f"float({value})")
        delta = writer.name(f"{number} - {mean}")
        writer.line(f"{count} += 1")
        writer.line(f"{mean} = {mean} + {delta} / {count}")
        writer.line(f"{squares} = {squares} + {delta} * ({number} - {mean})")

    def result(parts: list[str], writer: Writer) -> Value:
        spread = writer.name(f"square_root({parts[2]} / max({parts[0]} - 1, 1))")
        return Value(spread, writer.name(f"{parts[0]} < 2"))

    return (Kind.INT, Kind.FLOAT, Kind.FLOAT), add, result


def _extreme(function: str) -> Callable[[Kind], _Recipe]:
    def make(kind: Kind) -> _Recipe:
        def add(parts: list[str], value: str, writer: Writer) -> None:
            best, some = parts
            with writer.block(f"if {some} == 0 or {better(function, value, best, kind)}:"):
                writer.line(f"{best} = {value}")
            writer.line(f"{some} = 1")

        def result(parts: list[str], writer: Writer) -> Value:
            return Value(parts[0], writer.name(f"{parts[1]} == 0"))

        return (kind if kind is Kind.FLOAT else Kind.INT, Kind.INT), add, result

    return make


FOLDS: dict[str, Callable[[Kind], _Recipe]] = {
    "avg": _avg,
    "count": _count,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "stddev": _stddev,
    "sum": _sum,
}
