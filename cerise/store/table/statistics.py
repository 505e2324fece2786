"""Statistics of a file for Delta's log, so that other engines can skip it: rows, nulls, least and greatest.

A value is left out rather than rounded, so that the log is always exact.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.files.types import leaf_paths

LONGEST = 32  # characters of a text in the log, at most
EPOCH = dt.datetime(1970, 1, 1)
Nested = dict[str, Any]


def statistics(footer: pq.FileMetaData, columns: pa.Schema) -> str:
    """Return the statistics of a file as Delta writes them.

    Doubles are left out: Parquet's least and greatest values ignore NaN, which Spark takes for the greatest.
    """
    found: dict[str, Nested] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for at, names in enumerate(leaf_paths(columns)):
        kind = _simple_type(columns, names)
        held = [footer.row_group(i).column(at).statistics for i in range(footer.num_row_groups)]
        if kind is None or not held or any(each is None or not each.has_null_count for each in held):
            continue
        _set(found["nullCount"], names, sum(each.null_count for each in held))
        ends = _ends(held, kind)
        if ends is not None:
            _set(found["minValues"], names, ends[0])
            _set(found["maxValues"], names, ends[1])
    return json.dumps({"numRecords": footer.num_rows, **found})


def _simple_type(columns: pa.Schema, names: tuple[str, ...]) -> pa.DataType | None:
    """Return the type of a plain column, possibly inside structs; None for lists and maps."""
    kind = columns.field(names[0]).type
    for name in names[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return None if pa.types.is_nested(kind) else kind


def _ends(held: list[Any], kind: pa.DataType) -> tuple[Any, Any] | None:
    some = [each for each in held if each.num_values]
    show = next((show for test, show in _SHOWN if test(kind)), None)
    if show is None or not some or not all(each.has_min_max for each in some):
        return None
    try:
        return show(min(each.min_raw for each in some)), show(max(each.max_raw for each in some))
    except (OverflowError, ValueError):
        return None  # a year beyond 9999, or a long text


def _moment(microseconds: int) -> str:
    return (EPOCH + dt.timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")


def _instant(microseconds: int) -> str:
    return f"{_moment(microseconds)}Z"


def _date(days: int) -> str:
    return (EPOCH + dt.timedelta(days=days)).date().isoformat()


def _text(value: bytes) -> str:
    text = value.decode()
    if len(text) > LONGEST:
        raise ValueError(text)
    return text


_SHOWN: tuple[tuple[Any, Any], ...] = (
    (pa.types.is_integer, int),
    (pa.types.is_date32, _date),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, _moment),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, _instant),
    (pa.types.is_string, _text),
)


def _set(into: Nested, names: tuple[str, ...], value: Any) -> None:
    *outer, last = names
    for name in outer:
        into = into.setdefault(name, {})
    into[last] = value
