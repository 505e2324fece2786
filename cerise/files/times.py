"""Parses times written as text or digits, where only one reading is possible."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from cerise.errors import DataError

YEAR_FIRST = ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d")  # the format of 000; Arrow parses ISO
DIGITS = {12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
EPOCHS = ("s", "ms", "us", "ns")
AS_IT_IS = "integer"
MICROSECONDS, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
HINT = "say how it is written, such as '%d.%m.%Y %H:%M'; s, ms, us or ns where it counts from 1970"


def parse_times(times: pa.ChunkedArray, name: str, written: str | None, *, typed: bool) -> pa.ChunkedArray:
    """Return a time column as timestamps, if the meaning of its values is certain.

    Args:
        times: the column.
        name: its name, for errors.
        written: a strptime format; a unit of `EPOCHS` since 1970; "integer" to leave numbers alone; or None,
            to recognise ISO, `YEAR_FIRST` and, as whole numbers, `DIGITS`.
        typed: whether the file declares the types of its columns, so that a number means a number.

    Raises:
        DataError: a value is not in the format `written`, or a text is not recognised.
    """
    if pa.types.is_null(times.type):
        return times.cast(MICROSECONDS)
    if written in EPOCHS:
        return _since_1970(times, name, written)
    if written not in (None, AS_IT_IS):
        return _as_written(_text(times), name, written)
    if pa.types.is_timestamp(times.type):
        return _in_microseconds(times)
    if _is_text(times.type):
        return _recognise(_text(times), name)
    if pa.types.is_integer(times.type) and not typed and written is None:
        return _from_digits(times)
    return times


def _since_1970(times: pa.ChunkedArray, name: str, unit: str) -> pa.ChunkedArray:
    if not pa.types.is_integer(times.type):
        raise DataError(
            f"time column '{name}' has type {times.type}: it does not count {unit} since 1970", hint=HINT
        )
    return _in_microseconds(times.cast(pa.int64()).cast(pa.timestamp(unit, "UTC")))


def _in_microseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return timestamps in microseconds; finer ones unchanged, for the query to refuse."""
    try:
        return times.cast(pa.timestamp("us", times.type.tz))
    except pa.ArrowInvalid:
        return times


def _as_written(text: pa.ChunkedArray, name: str, written: str) -> pa.ChunkedArray:
    parsed = _parse(text, written)
    if parsed is not None:
        return parsed
    row = next(i for i in range(len(text)) if _parse(text.slice(i, 1), written) is None)
    raise DataError(
        f"time column '{name}' holds {text[row].as_py()!r} in row {row}, which is not '{written}'"
    )


def _recognise(text: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    for type_ in (MICROSECONDS, UTC):
        if (moments := _cast(text, type_)) is not None:
            return moments
    for written in YEAR_FIRST:
        if (parsed := _parse(text, written)) is not None:
            return parsed
    raise _not_understood(text, name)


def _not_understood(text: pa.ChunkedArray, name: str) -> DataError:
    """Return the error for the first text that is not a time, or not in the format of the texts before it."""
    row = next(i for i in range(len(text)) if text[i].is_valid)
    first = text[row].as_py()
    for read in _READERS:
        if read(text.slice(row, 1)) is None:
            continue
        good, bad = row + 1, len(text)
        while bad - good > 1:  # the texts before `good` can be read, the texts before `bad` cannot
            middle = (good + bad) // 2
            good, bad = (middle, bad) if read(text.slice(0, middle)) is not None else (good, middle)
        return DataError(
            f"time column '{name}' holds {text[good].as_py()!r} in row {good}, "
            f"which is not written as the times before it, such as {first!r}", hint=HINT,
        )  # fmt: skip
    return DataError(
        f"time column '{name}' holds text that is not understood as time, such as {first!r}", hint=HINT
    )


def _cast(text: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray | None:
    try:
        return text.cast(type_)
    except pa.ArrowInvalid:
        return None


def _from_digits(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Read 200802010900 as 2008-02-01 09:00, if all values have this form; else return them unchanged."""
    text = times.cast(pa.string())
    lengths = pc.min_max(pc.utf8_length(text))
    written = DIGITS.get(lengths["min"].as_py() or 0)
    if written is None or lengths["max"] != lengths["min"]:
        return times
    years = pc.min_max(pc.utf8_slice_codeunits(text, 0, 4))
    if not "1900" <= years["min"].as_py() <= years["max"].as_py() <= "2099":
        return times
    parsed = _parse(text, written)
    return times if parsed is None else parsed


def _parse(text: pa.ChunkedArray, written: str) -> pa.ChunkedArray | None:
    """Return text as timestamps; None if a value is not in the format `written`."""
    try:
        parsed = pc.strptime(text, format=written, unit="us")
    except pa.ArrowInvalid:
        return None
    # Arrow reads 31 February as 3 March. Python does not, but is slow: ask it only about such days.
    doubtful = pc.less_equal(pc.day(parsed), 3)
    return (
        parsed
        if all(_on_calendar(each, written) for each in text.filter(doubtful).unique().to_pylist())
        else None
    )


def _on_calendar(text: str, written: str) -> bool:
    try:
        dt.datetime.strptime(text, written)  # noqa: DTZ007  the value is not used
    except ValueError:
        return False
    return True


_READERS: tuple[Callable[[pa.ChunkedArray], pa.ChunkedArray | None], ...] = (
    *(partial(_cast, type_=type_) for type_ in (MICROSECONDS, UTC)),
    *(partial(_parse, written=written) for written in YEAR_FIRST),
)


def _is_text(type_: pa.DataType) -> bool:
    return type_ in (pa.string(), pa.large_string(), pa.string_view())


def _text(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as text, with nulls for empty texts."""
    text = times.cast(pa.string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
