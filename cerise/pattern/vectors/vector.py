"""The values of an expression, one for each row; how they come from Arrow, and their order as integers.

While an expression is computed, a constant is a vector of no dimension, or an Arrow scalar if it is a text:
NumPy and Arrow spread it over the rows of the other operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.events import Ints
from cerise.kinds import INT64_MAX, INT64_MIN, STORED, Kind, kind_of

Mask = npt.NDArray[np.bool_]
NULL_KEY = INT64_MIN  # the key of null, with which no comparison holds
NAN_KEY = 0xFFF << 51  # the bits of the plain NaN, which are above those of infinity
DTYPES: dict[Kind, Any] = {Kind.FLOAT: np.float64, Kind.BOOL: np.bool_}  # all other numbers are int64


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of an expression, one for each row.

    Attributes:
        values: int64, float64 or bool; strings are an Arrow array. A value where `nulls` holds is arbitrary.
            An array that shares the memory of a column is read-only; all are contiguous.
        nulls: the rows without a value; None: each row has one.
    """

    values: npt.NDArray[Any] | pa.Array
    nulls: Mask | None = None

    @property
    def is_text(self) -> bool:
        return isinstance(self.values, pa.Array | pa.Scalar)

    @property
    def is_constant(self) -> bool:
        return isinstance(self.values, pa.Scalar) or (not self.is_text and not self.values.ndim)


def order_keys(vector: Vector, kind: Kind, *, as_double: bool) -> tuple[Ints, bool]:
    """Return integers in the order of the values (S4.6), and whether a value itself equals `NULL_KEY`.

    Null becomes `NULL_KEY`. Where a value equals it, keys cannot tell the two apart, and the caller must
    look at `nulls`. NaN is above all doubles, and -0.0 equals 0.0. The keys can be written to, because
    kernels reject read-only arrays; computed integers without nulls are not copied.

    Args:
        vector: numbers, truths, moments or durations; not strings.
        kind: the kind of the values.
        as_double: whether they are compared with doubles; a double always is.

    Example:
        >>> order_keys(Vector(np.array([2.0, -0.0, 0.0]), np.array([True, False, False])), Kind.FLOAT,
        ...            as_double=False)
        (array([-9223372036854775808,                    0,                    0]), False)
    """
    doubles = as_double or kind is Kind.FLOAT
    fixed = not vector.values.flags.writeable
    keys = _order_doubles(vector.values) if doubles else vector.values.astype(np.int64, copy=fixed)
    taken = not doubles and len(keys) > 0 and bool(keys.min() == NULL_KEY)
    if vector.nulls is None:
        return keys, taken
    taken = taken and bool(((keys == NULL_KEY) & ~vector.nulls).any())
    return np.where(vector.nulls, NULL_KEY, keys), taken


def _order_doubles(values: npt.NDArray[Any]) -> Ints:
    doubles = values.astype(np.float64, copy=False)
    bits = doubles.view(np.int64)
    sign = bits >> 63
    keys = (bits ^ (sign & INT64_MAX)) - sign  # a sign and a size become a number; -0.0 becomes 0
    unknown = np.isnan(doubles)
    return np.where(unknown, NAN_KEY, keys) if unknown.any() else keys


def read_vector(array: pa.Array) -> Vector:
    """Return a column in canonical form as a vector; numbers are not copied.

    Args:
        array: int64, float64, booleans or strings, as `events.read_column` gives them; or a dictionary of
            strings.
    """
    if array.type in (pa.int64(), pa.float64()):
        buffer = array.buffers()[1]
        dtype = array.type.to_pandas_dtype()
        values = np.frombuffer(buffer, dtype, len(array) + array.offset) if buffer else np.empty(0, dtype)
        return Vector(values[array.offset :], find_nulls(array))
    if pa.types.is_boolean(array.type):
        return Vector(_unpack(array, 1), find_nulls(array))
    assert kind_of(array.type) is Kind.STRING, f"not in canonical form: {array.type}"
    coded = pa.types.is_dictionary(array.type) and array.type.value_type == pa.string()
    if not coded or array.dictionary.null_count:
        array = array.cast(pa.string())
    return Vector(array, find_nulls(array))


def find_nulls(array: pa.Array) -> Mask | None:
    """Return where an array is null."""
    return ~_unpack(array, 0) if array.null_count else None


def _unpack(array: pa.Array, number: int) -> Mask:
    """Return a buffer of bits as a mask; ten times as fast as Arrow's own way."""
    if not len(array):
        return np.empty(0, np.bool_)
    first, skip = divmod(array.offset, 8)
    held = np.frombuffer(array.buffers()[number], np.uint8, offset=first)
    return np.unpackbits(held, count=skip + len(array), bitorder="little")[skip:].view(np.bool_)


def constant(value: Any, kind: Kind) -> Vector:
    """Return a constant, which may be null."""
    nulls = np.array(True) if value is None else None
    if kind is Kind.STRING:
        return Vector(pa.scalar(value, pa.string()), nulls)
    return Vector(np.array(0 if value is None else value, DTYPES.get(kind, np.int64)), nulls)


def spread(vector: Vector, rows: int) -> Vector:
    """Return a vector with one value for each row, contiguous in memory; strings are decoded."""
    nulls = None if vector.nulls is None else np.ascontiguousarray(np.broadcast_to(vector.nulls, rows))
    if vector.is_text:
        return Vector(pa.repeat(vector.values, rows) if vector.is_constant else decode(vector.values), nulls)
    return Vector(np.ascontiguousarray(np.broadcast_to(vector.values, rows)), nulls)


def decode(text: Any) -> Any:
    """Return an array of strings, or one string, without a dictionary."""
    return text.cast(pa.string()) if pa.types.is_dictionary(text.type) else text


def make_vector(values: Any, nulls: Mask | None) -> Vector:
    """Return values and nulls as a vector; a constant among them is repeated for the rows of the other."""
    text = isinstance(values, pa.Array | pa.Scalar)
    shape = np.shape(values) if not text else () if isinstance(values, pa.Scalar) else (len(values),)
    if nulls is None or nulls.shape == shape:
        return Vector(values, nulls)
    return (
        Vector(values, np.broadcast_to(nulls, shape)) if text else Vector(*np.broadcast_arrays(values, nulls))
    )


def convert(vector: Vector, kind: Kind) -> Vector:
    """Return a vector in the common kind of several: integers as doubles, and nulls as nulls of that kind."""
    if kind is Kind.STRING:
        return vector if vector.is_text else constant(None, kind)
    return Vector(vector.values.astype(DTYPES.get(kind, np.int64), copy=False), vector.nulls)


def to_arrow(vector: Vector, kind: Kind) -> pa.Array:
    """Return a vector of rows as an Arrow array in canonical form; a dictionary remains one."""
    return vector.values if vector.is_text else pa.array(vector.values, STORED[kind], mask=vector.nulls)


def join_masks(*masks: Mask | None) -> Mask | None:
    """Return where one of some masks holds; None is a mask that holds nowhere."""
    present = [mask for mask in masks if mask is not None]
    return reduce(np.logical_or, present) if present else None


def within(mask: Mask, nulls: Mask | None) -> Mask:
    """Return where a mask holds, apart from nulls."""
    return mask if nulls is None else mask & ~nulls
