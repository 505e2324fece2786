"""Strings of many rows at once, and functions that only Python computes: once for each distinct value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.kinds import STORED, Kind
from cerise.pattern.expr import FLIPPED
from cerise.pattern.values import Fault
from cerise.pattern.vectors.vector import (
    Mask,
    Vector,
    constant,
    decode,
    join_masks,
    make_vector,
    read_vector,
    to_arrow,
    within,
)

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}  # Arrow orders strings by their bytes, which is the order of their code points


def compare_texts(op: str, x: Any, y: Any) -> Mask:
    """Return where a comparison of two texts holds; one constant is compared with each distinct word only."""
    if isinstance(x, pa.Scalar):
        x, y, op = y, x, FLIPPED[op]
    if isinstance(y, pa.Scalar) and isinstance(x, pa.DictionaryArray):
        return _as_mask(COMPARE[op](x.dictionary, y).take(x.indices))
    return _as_mask(COMPARE[op](decode(x), decode(y)))


def is_among(text: Any, words: Sequence[str]) -> Mask:
    """Return where a text is one of some words."""
    if isinstance(text, pa.Scalar):
        return np.array(text.as_py() in words)
    known = pa.array(words, pa.string())
    if isinstance(text, pa.DictionaryArray):
        return _as_mask(pc.is_in(text.dictionary, value_set=known).take(text.indices))
    return _as_mask(pc.is_in(text, value_set=known))


def choose_texts(mask: Mask, x: Any, y: Any) -> Any:
    """Return x where a mask holds, elsewhere y."""
    return pc.if_else(pa.array(mask) if mask.ndim else pa.scalar(bool(mask)), decode(x), decode(y))


def _as_mask(found: Any) -> Mask:
    """Return Arrow's truths as a mask, false for null."""
    if isinstance(found, pa.Scalar):
        return np.array(bool(found.as_py()))
    truth = read_vector(found)
    return within(truth.values, truth.nulls)


def map_values(
    function: Callable[..., Any], args: Sequence[Vector], kinds: Sequence[Kind], kind: Kind
) -> tuple[Vector, Mask | None]:
    """Apply a function of plain values; return its values, and where they cannot be computed.

    Cost: a call for each distinct value of one argument, or for each row of several.

    Args:
        function: a function of `pattern.values`; it may return None, or raise `Fault`.
        args: its arguments; the value is null where one of them is.
        kinds: the kinds of the arguments.
        kind: the kind of the value.
    """
    if all(arg.is_constant for arg in args):
        values = [_plain(arg) for arg in args]
        found, faults = _call_each(function, [] if None in values else [values])
        return constant(found[0] if found else None, kind), faults[0] if found else None
    if len(args) == 1:
        return _map_distinct(function, to_arrow(args[0], kinds[0]), kind)
    return _map_rows(function, args, kind)


def _map_distinct(function: Callable[..., Any], array: pa.Array, kind: Kind) -> tuple[Vector, Mask | None]:
    encoded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
    found, faults = _call_each(function, ((word,) for word in encoded.dictionary.to_pylist()))
    values = pa.array(found, STORED[kind]).take(encoded.indices)
    return read_vector(values), _as_mask(pa.array(faults).take(encoded.indices)) if faults.any() else None


def _map_rows(function: Callable[..., Any], args: Sequence[Vector], kind: Kind) -> tuple[Vector, Mask | None]:
    """Apply a function of several numbers to all rows; results for nulls are forgotten."""
    columns = np.broadcast_arrays(*(arg.values for arg in args))
    found, faults = _call_each(function, zip(*(column.tolist() for column in columns), strict=True))
    nulls, result = join_masks(*(arg.nulls for arg in args)), read_vector(pa.array(found, STORED[kind]))
    return make_vector(result.values, join_masks(result.nulls, nulls)), within(faults, nulls)


def _plain(arg: Vector) -> Any:
    if arg.nulls is not None and arg.nulls:
        return None
    value: Any = arg.values
    return value.as_py() if arg.is_text else value.item()


def _call_each(function: Callable[..., Any], calls: Iterable[Sequence[Any]]) -> tuple[list[Any], Mask]:
    found, faults = [], []
    for number, values in enumerate(calls):
        try:
            found.append(function(*values))
        except Fault:
            found.append(None)
            faults.append(number)
    failed = np.zeros(len(found), np.bool_)
    failed[faults] = True
    return found, failed
