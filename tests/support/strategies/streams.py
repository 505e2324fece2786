"""Random schemas and streams: ties, nulls, NaN, ids above 2^53, nested and unicode attributes.

Everything is decided by one string of bytes (`Dice`): Hypothesis draws it at once, which is fast, and
shrinks it towards zeros, which are the plainest choices.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from cerise.events import Schema
from cerise.kinds import DAY_US, INT64_MAX, INT64_MIN, MOMENTS, Kind

T = TypeVar("T")
EPOCH = dt.datetime(1970, 1, 1)


class Dice:
    """Choices read off a string of bytes; where it ends, the first choice."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._next = 0

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        byte = self._data[self._next] if self._next < len(self._data) else 0
        self._next += 1
        return byte % limit

    def pick(self, options: Sequence[T]) -> T:
        """One of some; the first where the byte is 0."""
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        """True in so many of 100 cases; False where the byte is 0."""
        return self.below(256) >= 256 - 256 * percent // 100


# ---- streams

TYPES = ("A", "B", "C", "D")
FEW = (1, 0, 2, 3, 1, 2, -1, 5, None)
DOUBLES = (1.0, 0.0, -0.0, 0.5, 2.0, -1.5, float("nan"), float("inf"), -float("inf"), 2.0**53, None)
LARGE = (
    2**53, 2**53 + 1, 2**53 + 2, 0, 1, -1, INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1, 2**62, None,
)  # fmt: skip
WORDS = ("b", "a", "", "é", "日本", "z%", "a_b", "\U0001f352", "ﬁ", "12", "b\\", None)
TRUTHS = (True, False, None)
LABELS = ("u", "v", None)
KEYS = {pa.string(): ("k", "k", "l", "k", None), pa.int64(): (2**53, 2**53 + 1, 2**53, None)}
FLOAT_KEYS = (0.0, -0.0, 0.0, float("nan"), None)
STARTS = (0, -3, 7, 2**53 - 1)
ROW = 10  # bytes of one event


@dataclass(frozen=True)
class Shape:
    """The kind of a random source: the type of its columns, and the parts that they play."""

    schema: Schema
    start: int  # the earliest time, in ticks
    tick: int  # the least distance of two times, in the units of the time column

    def types(self) -> tuple[str, ...]:
        """The names of the events' types, as a pattern writes them."""
        if self.schema.type is None:
            return ()
        return TYPES if self.schema.kind(("type",)) is Kind.STRING else ("0", "1", "2", "3")

    @property
    def timed(self) -> bool:
        """Whether windows are durations."""
        return self.schema.kind((self.schema.time,)) in MOMENTS


def shape_of(dice: Dice) -> Shape:
    """A random schema."""
    time, tick = dice.pick(_TIMES)
    key = dice.pick([pa.string(), pa.int64(), pa.float64()])
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("t", time),
            ("type", dice.pick([pa.string(), pa.dictionary(pa.int32(), pa.string()), pa.int32()])),
            ("k", key),
            ("x", dice.pick([pa.int64(), pa.int32(), pa.int8()])),
            ("y", dice.pick([pa.float64(), pa.float32()])),
            ("big", pa.int64()),
            ("s", dice.pick([pa.string(), pa.large_string()])),
            ("flag", pa.bool_()),
            ("p", pa.struct([("amount", pa.int64()), ("label", pa.string())])),
        ]
    )
    order = dice.pick([(), (), ("x",), ("y", "s"), ("big",), ("flag", "x")])
    keyed = ("k",) if dice.chance(12) else ()
    typed = None if dice.chance(12) else "type"
    return Shape(Schema(columns, "t", typed, keyed, order), dice.pick(STARTS if tick == 1 else (0, -3)), tick)


_TIMES = (
    (pa.int64(), 1), (pa.int64(), 1), (pa.timestamp("us"), 1_000_000), (pa.timestamp("us", "UTC"), 1),
    (pa.timestamp("ms"), 60_000_000), (pa.date32(), DAY_US),
)  # fmt: skip


def table_of(dice: Dice, shape: Shape, size: int) -> pa.Table:
    """A random table, in arrival order: mostly in the order of time, and full of ties."""
    columns = shape.schema.columns
    disordered, now = dice.chance(15), 0
    rows = []
    for number in range(size):
        now = dice.below(6) if disordered else now + dice.pick((0, 1, 0, 2, 1, 0, 1, 4))
        rows.append(_row(dice, shape, number, now))
    return pa.Table.from_pylist(rows, schema=columns)


def _row(dice: Dice, shape: Shape, number: int, now: int) -> dict[str, Any]:
    schema = shape.schema.columns
    types = TYPES if pa.types.is_string(_plain(schema.field("type").type)) else (0, 1, 2, 3)
    keys = KEYS.get(schema.field("k").type, FLOAT_KEYS)
    nested = None if dice.chance(10) else {"amount": dice.pick(FEW), "label": dice.pick(LABELS)}
    return {
        "id": number,
        "t": _moment((shape.start + now) * shape.tick, schema.field("t").type),
        "type": None if dice.chance(4) else types[(number + dice.below(4)) % 4],
        "k": dice.pick(keys),
        "x": dice.pick(FEW),
        "y": dice.pick(DOUBLES),
        "big": dice.pick(LARGE),
        "s": dice.pick(WORDS),
        "flag": dice.pick(TRUTHS),
        "p": nested,
    }


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _moment(ticks: int, type_: pa.DataType) -> Any:
    if pa.types.is_integer(type_):
        return ticks
    moment = EPOCH + dt.timedelta(microseconds=ticks)
    if pa.types.is_date(type_):
        return moment.date()
    return moment.replace(tzinfo=dt.UTC) if type_.tz else moment
