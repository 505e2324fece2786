"""Aggregates over rows of matches, for all rows of the result at once (M30–M32).

The inputs of all matches lie one after another, and a row of the result aggregates a prefix of the inputs of
its match. So most aggregates are scans that restart with every match, read at the end of each prefix; running
and final aggregates differ only in the prefix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.engines.base import Bools, Ints
from cerise.engines.results.value_codes import ranks
from cerise.errors import DataError
from cerise.kinds import Kind, canonical, kind_of
from cerise.pattern.values import Fault

Doubles = npt.NDArray[np.float64]
WORD = np.int64(0xFFFF_FFFF)
FEW_LEFT = 8  # matches; for so few it is faster to scan each alone


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of an aggregate.

    Attributes:
        names: the names of its arguments.
        columns: the values of its arguments, for the rows that count, match after match.
        owners: the match of each input.
        low: for each row of the result, its first input.
        high: for each row of the result, the end of its inputs.
    """

    names: tuple[str, ...]
    columns: list[pa.Array]
    owners: Ints
    low: Ints
    high: Ints

    @property
    def none(self) -> Bools:
        """Whether each row of the result has no input."""
        none: Bools = self.low == self.high
        return none

    def at_last(self, values: Doubles) -> Doubles:
        return np.append(values, 0.0)[self.high - 1 if len(values) else np.full(len(self.high), -1)]

    def doubles(self) -> Doubles:
        """Return the values of the first argument as the nearest doubles (S4.6)."""
        number = canonical(self.columns[0], kind_of(self.columns[0].type), self.names[0])
        return np.asarray(number.cast(pa.float64(), safe=False), dtype=np.float64).copy()

    def scan(self, step: Callable[[Ints, int], None], alone: Callable[[slice], None]) -> None:
        """Scan the inputs of each match from first to last.

        All matches take their k-th step together; when few are left, each is scanned alone.

        Args:
            step: called with the (k+1)-th inputs of all matches that have one, and k, from 1.
            alone: called with all inputs of one match.
        """
        starts = np.flatnonzero(np.diff(self.owners, prepend=-1)).astype(np.int64)
        lengths = np.diff(starts, append=len(self.owners))
        order = np.argsort(-lengths, kind="stable")
        starts, lengths = starts[order], lengths[order]
        for k in range(1, int(lengths[0]) if len(lengths) else 0):
            left = int(np.searchsorted(-lengths, -k))
            if left <= FEW_LEFT:
                for start, length in zip(starts[:left], lengths[:left], strict=True):
                    alone(slice(start, start + length))
                return
            step(starts[:left] + k, k)


def _count(inputs: Inputs) -> pa.Array:
    return pa.array(inputs.high - inputs.low, pa.int64())


# ---- sums


def _sum(inputs: Inputs) -> pa.Array:
    column = inputs.columns[0]
    if pa.types.is_decimal(column.type):
        return _sum_of_decimals(inputs)
    kind = kind_of(column.type)
    if kind is Kind.FLOAT:
        return pa.array(inputs.at_last(_scan_sums(inputs)), pa.float64(), mask=inputs.none)
    values = np.asarray(canonical(column, kind, inputs.names[0]), dtype=np.int64)
    low, high = _exact_sums([values & WORD, values >> 32], inputs)
    if _wraps(high):
        raise _too_large(inputs, "64 bits")
    total = pa.array((high << 32) | low, pa.int64(), mask=inputs.none)
    return total.cast(pa.duration("us")) if kind is Kind.DURATION else total


def _avg(inputs: Inputs) -> pa.Array:
    if pa.types.is_decimal(inputs.columns[0].type):
        return _avg_of_decimals(inputs)
    count = np.maximum(inputs.high - inputs.low, 1)
    return pa.array(inputs.at_last(_scan_sums(inputs)) / count, pa.float64(), mask=inputs.none)


def _scan_sums(inputs: Inputs) -> Doubles:
    """Sum doubles from first to last, because the order of additions decides the last bits."""
    values = inputs.doubles()
    sums = values.copy()

    def step(here: Ints, _k: int) -> None:
        sums[here] += sums[here - 1]

    def alone(match: slice) -> None:
        np.add.accumulate(values[match], out=sums[match])

    inputs.scan(step, alone)
    return sums


def _exact_sums(limbs: list[Ints], inputs: Inputs) -> list[Ints]:
    """Sum numbers of 32-bit limbs, the lowest first and the highest signed, without overflow."""
    sums = []
    for limb in limbs:
        before = np.concatenate([[0], np.cumsum(limb, dtype=np.int64)])
        sums.append(before[inputs.high] - before[inputs.low])
    for i in range(len(sums) - 1):
        sums[i + 1] += sums[i] >> 32
        sums[i] &= WORD
    return sums


def _wraps(highest: Ints) -> bool:
    """Whether the highest limb of a sum has more than 32 bits."""
    return bool(((highest >> 31) != (highest >> 63)).any())


def _too_large(inputs: Inputs, what: str) -> DataError:
    return DataError(
        f"the sum of '{inputs.names[0]}' over the rows of a match does not fit into {what}",
        hint=f"sum it as a double: sum(CAST({inputs.names[0]} AS DOUBLE))",
    )


# ---- decimals, with the types and rounding of Spark


def _sum_of_decimals(inputs: Inputs) -> pa.Array:
    type_ = inputs.columns[0].type
    total = pa.decimal128(min(38, type_.precision + 10), type_.scale)
    wide = inputs.columns[0].cast(pa.decimal128(min(38, type_.precision), type_.scale))
    words = np.frombuffer(wide.buffers()[1] or b"", np.int64).reshape(-1, 2)
    low, high = words[wide.offset : wide.offset + len(wide)].T
    limbs = [low & WORD, (low >> 32) & WORD, high & WORD, high >> 32]
    sums = _exact_sums(limbs, inputs)
    if _wraps(sums[3]):
        raise _too_large(inputs, f"{total.precision} digits")
    pairs = np.stack([sums[0] | (sums[1] << 32), sums[2] | (sums[3] << 32)], axis=1)
    result = pa.Array.from_buffers(total, len(pairs), [None, pa.py_buffer(np.ascontiguousarray(pairs))])
    try:
        result.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _too_large(inputs, f"{total.precision} digits") from error
    return result.take(pa.array(np.arange(len(pairs)), mask=inputs.none))


def _avg_of_decimals(inputs: Inputs) -> pa.Array:
    type_ = inputs.columns[0].type
    scale = min(38, type_.scale + 4)
    averages = [
        None if total is None else _round_half_up(total, int(count), scale)
        for total, count in zip(_sum(inputs).to_pylist(), inputs.high - inputs.low, strict=True)
    ]
    return pa.array(averages, pa.decimal128(min(38, type_.precision + 4), scale))


def _round_half_up(total: Decimal, count: int, scale: int) -> Decimal:
    units = int(total.scaleb(scale))
    magnitude = (2 * abs(units) + count) // (2 * count)
    return Decimal(-magnitude if units < 0 else magnitude).scaleb(-scale)


# ---- aggregates that choose one value


def _min(inputs: Inputs) -> pa.Array:
    return _pick(inputs, _best(inputs, 0, least=True))


def _max(inputs: Inputs) -> pa.Array:
    return _pick(inputs, _best(inputs, 0, least=False))


def _min_by(inputs: Inputs) -> pa.Array:
    return _pick(inputs, _best(inputs, 1, least=True))


def _max_by(inputs: Inputs) -> pa.Array:
    return _pick(inputs, _best(inputs, 1, least=False))


def _best(inputs: Inputs, argument: int, *, least: bool) -> Ints:
    """Return for each input the best input of its match so far; the first of equals is best."""
    rank, _ = ranks(inputs.columns[argument], inputs.names[argument])
    key = ~rank if least else rank
    best = np.arange(len(key), dtype=np.int64)

    def step(here: Ints, _k: int) -> None:
        before = best[here - 1]
        best[here] = np.where(key[here] > key[before], here, before)

    def alone(match: slice) -> None:
        tops = np.maximum.accumulate(key[match])
        better = np.insert(tops[1:] > tops[:-1], 0, True)
        best[match] = match.start + np.maximum.accumulate(np.where(better, np.arange(len(tops)), 0))

    inputs.scan(step, alone)
    return best


def _pick(inputs: Inputs, best: Ints) -> pa.Array:
    last = np.where(inputs.none, 0, inputs.high - 1)
    chosen = best[last] if len(best) else last
    return inputs.columns[0].take(pa.array(chosen, mask=inputs.none))


def _any_value(inputs: Inputs) -> pa.Array:
    return inputs.columns[0].take(pa.array(np.where(inputs.none, 0, inputs.low), mask=inputs.none))


# ---- others


def _array_agg(inputs: Inputs) -> pa.Array:
    """Return lists of values; running lists repeat their common prefix."""
    lengths = inputs.high - inputs.low
    ends = np.cumsum(lengths, dtype=np.int64)
    index = np.arange(int(lengths.sum())) + np.repeat(inputs.low - (ends - lengths), lengths)
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    values = inputs.columns[0].take(pa.array(index))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(inputs.none))


def _stddev(inputs: Inputs) -> pa.Array:
    """Return the sample's standard deviation, by Welford's method; null for fewer than two values."""
    values = inputs.doubles()
    means, squares = values.copy(), np.zeros(len(values))

    def step(here: Ints, k: int) -> None:
        delta = values[here] - means[here - 1]
        means[here] = means[here - 1] + delta / (k + 1)
        squares[here] = squares[here - 1] + delta * (values[here] - means[here])

    def alone(match: slice) -> None:
        mean = total = 0.0
        for count, value in enumerate(values[match].tolist(), 1):
            delta = value - mean
            mean += delta / count
            total += delta * (value - mean)
            squares[match.start + count - 1] = total

    inputs.scan(step, alone)
    count = inputs.high - inputs.low
    variance = inputs.at_last(squares) / np.maximum(count - 1, 1)
    return pa.array(np.sqrt(variance), pa.float64(), mask=count < 2)


AGGREGATES: dict[str, Callable[[Inputs], pa.Array]] = {
    "any_value": _any_value,
    "array_agg": _array_agg,
    "avg": _avg,
    "count": _count,
    "max": _max,
    "max_by": _max_by,
    "min": _min,
    "min_by": _min_by,
    "stddev": _stddev,
    "sum": _sum,
}


def aggregate(function: str, inputs: Inputs, forgive: Callable[[Fault], None] | None) -> pa.Array:
    """Aggregate inputs for all rows of the result.

    Args:
        function: the name of the aggregate.
        inputs: its inputs.
        forgive: called for each row whose sum is too large, and null; None: that is an error.
    """
    try:
        return AGGREGATES[function](inputs)
    except DataError:
        if forgive is None:
            raise
        return pa.concat_arrays(
            [_aggregate_row(function, inputs, row, forgive) for row in range(len(inputs.low))]
        )


def _aggregate_row(function: str, inputs: Inputs, row: int, forgive: Callable[[Fault], None]) -> pa.Array:
    start, stop = int(inputs.low[row]), int(inputs.high[row])
    columns = [column.slice(start, stop - start) for column in inputs.columns]
    ends = np.zeros(1, np.int64), np.array([stop - start])
    try:
        return AGGREGATES[function](Inputs(inputs.names, columns, inputs.owners[start:stop], *ends))
    except DataError as error:
        forgive(Fault(error.problem))
        nothing = Inputs(
            inputs.names, [column.slice(0, 0) for column in columns], inputs.owners[:0], ends[0], ends[0]
        )
        return AGGREGATES[function](nothing)  # null, of the type of the result
