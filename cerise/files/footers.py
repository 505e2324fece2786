"""Facts about columns and row groups, from the footers of Parquet files."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

from cerise.events import Path as Attribute
from cerise.events import Schema
from cerise.files.types import leaf_paths
from cerise.kinds import Kind
from cerise.plan.pushdown import Range
from cerise.plan.slicing import MAX_TIME, MIN_TIME

CODED = 4  # bytes a row: strings that take fewer are read as codes


def columns_of(footer: pq.FileMetaData) -> dict[Attribute, int]:
    """Return the number of each column by its path."""
    return {path: i for i, path in enumerate(leaf_paths(footer.schema.to_arrow_schema()))}


def is_coded(footer: pq.FileMetaData, name: str) -> bool:
    """Tell whether a column has few distinct strings, so that codes are cheaper than strings."""
    index = columns_of(footer).get((name,))
    if index is None:  # the column is null in this file, or given by the names of folders
        return False
    for i in range(footer.num_row_groups):
        column = footer.row_group(i).column(index)
        if not column.has_dictionary_page or column.total_uncompressed_size > CODED * (
            column.num_values + 256
        ):
            return False
    return True


def may_lack(column: Any) -> bool:
    """Whether a column of a row group may have nulls."""
    found = column.statistics
    return found is None or not found.has_null_count or bool(found.null_count)


def range_of(column: Any) -> Range | None:
    """Return the least and the greatest value of a column of a row group; None: unknown."""
    found = column.statistics
    if found is None or not found.has_min_max or column.physical_type == "INT96":
        return None
    return Range(found.min, found.max)


def times_of(group: Any, index: int | None, schema: Schema) -> tuple[int, int]:
    """Return the first and the last time of a row group; MIN_TIME and MAX_TIME where they are unknown."""
    column = None if index is None else group.column(index)
    found = None if column is None else column.statistics
    if column is None or found is None or not found.has_min_max or column.physical_type == "INT96":
        return MIN_TIME, MAX_TIME
    if schema.kind((schema.time,)) is Kind.INT:
        return int(found.min), int(found.max)
    named = str(found.logical_type)
    low, high = int(found.min_raw), int(found.max_raw)
    if "Date" in named:
        return low * 86_400_000_000, high * 86_400_000_000
    if "milliseconds" in named:
        return low * 1000, high * 1000
    if "microseconds" in named:
        return low, high
    if "nanoseconds" in named:
        return low // 1000, -(-high // 1000)
    return MIN_TIME, MAX_TIME
