"""Reads integers at given rows of a Parquet column, without decoding all of it.

Integers and times with many values are written as packed differences, and Arrow decodes all of them. This
module skips the pages without a requested row, and in the other pages it only adds up the differences. It
leaves all else to Arrow: nulls, other encodings, other versions of pages, and damaged pages, which Arrow
reports best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ENCODINGS = {"RLE", "DELTA_BINARY_PACKED"}  # RLE for levels, packed differences for values
UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
FEWEST_ROWS = 1_000  # of a page, on average; the table of pages has no room for more, smaller pages


def pick(
    read: Callable[[int, int], Any],
    chunk: Any,
    described: Any,
    kind: pa.DataType,
    rows: npt.NDArray[np.int64],
) -> pa.Array | None:
    """Return the values of a column at the given rows of a row group; None: Arrow must read it.

    Args:
        read: returns bytes of the file, by offset and size.
        chunk: the footer's entry for the column in this row group.
        described: the footer's entry for the column in the schema.
        kind: the type of the column.
        rows: the rows, ascending.
    """
    if not is_packed(chunk, described, kind):
        return None
    held = pa.py_buffer(read(chunk.data_page_offset, chunk.total_compressed_size))
    if held.size < chunk.total_compressed_size:
        return None
    from cerise.kernels.pages import P_VALUES, P_WORDS, read_headers, read_pages  # imports numba

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
    """Tell whether `pick` can read a column chunk: packed differences of 64-bit integers, without nulls."""
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
