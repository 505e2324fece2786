"""Integers at some rows of a Parquet column, without decoding the whole of it.

Integers and times of many values are written as packed differences. Arrow turns all of them into values, one
by one; here pages without a row that is asked for are left out, and the differences of others are only added
up. What is not exactly so (nulls, other encodings, pages of another version) is left to Arrow, and so is what
looks damaged: Arrow says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ENCODINGS = {"RLE", "DELTA_BINARY_PACKED"}  # of levels and of values
UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
FEWEST_ROWS = 1_000  # of a page, on average, or there is no room for what is known of pages


def pick(
    read: Callable[[int, int], Any],
    chunk: Any,
    described: Any,
    kind: pa.DataType,
    rows: npt.NDArray[np.int64],
) -> pa.Array | None:
    """Return the values of a column at some rows of a row group; None: this must be left to Arrow.

    Args:
        read: returns bytes of the file, by place and number.
        chunk: what the footer says of the column in the row group.
        described: what it says of the column.
        kind: the type of the column.
        rows: the rows, ascending.
    """
    if not is_packed(chunk, described, kind):
        return None
    held = pa.py_buffer(read(chunk.data_page_offset, chunk.total_compressed_size))
    if held.size < chunk.total_compressed_size:
        return None
    from cerise.kernels.pages import P_VALUES, P_WORDS, read_headers, read_pages  # this brings numba

    pages = np.empty((2 + chunk.num_values // FEWEST_ROWS, P_WORDS), np.int64)
    count = read_headers(held.address, held.size, pages)
    if count < 0 or pages[:count, P_VALUES].sum() != chunk.num_values:
        return None
    found = np.empty(len(rows), np.int64)
    levels = described.max_definition_level > 0
    if read_pages(held.address, pages[:count], levels, rows, found) != 0:
        return None
    return pa.array(found).view(kind)


def is_packed(chunk: Any, described: Any, kind: pa.DataType) -> bool:
    """Tell whether a column chunk is read here: integers of 64 bits, none of them null, as differences."""
    if described.physical_type != "INT64" or described.max_repetition_level or "." in described.path:
        return False
    if pa.types.is_timestamp(kind):
        if f"timeUnit={UNITS.get(kind.unit)}," not in str(described.logical_type):
            return False
    elif kind != pa.int64():
        return False
    if set(chunk.encodings) != ENCODINGS or chunk.compression != "UNCOMPRESSED":
        return False
    facts = chunk.statistics
    return facts is not None and facts.has_null_count and facts.null_count == 0
