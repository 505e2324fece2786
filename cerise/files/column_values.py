"""Values of a column, found in the names of folders, in statistics and in a few row groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from cerise.files.footers import columns_of, range_of
from cerise.files.lake import Lake, open_file_system

LOOKED_AT = 8  # row groups whose values are read


def find_values(lake: Lake, column: str, names: Collection[str]) -> set[str]:
    """Return which of the names occur in a text column; the search is cheap and may miss some."""
    found = {name for name in names for file in lake.files if file.hive.get(column) == name}
    looked = 0
    for number, group, low, high in _groups(lake, column):
        wanted = {name for name in names if name not in found and low <= name <= high}
        found |= wanted & ({low} if low == high else set())
        if wanted - found and looked < LOOKED_AT:
            looked += 1
            found |= wanted & _read(lake, number, group, column)
    return found


def _groups(lake: Lake, column: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield for each row group the number of its file, its own number, and its least and greatest text."""
    for number, footer in enumerate(lake.footers):
        place = columns_of(footer).get((column,))
        for group in range(footer.num_row_groups if place is not None else 0):
            known = range_of(footer.row_group(group).column(place))
            if known is None:
                yield number, group, "", chr(0x10FFFF)
            elif isinstance(known.least, str) and isinstance(known.most, str):
                yield number, group, known.least, known.most


def _read(lake: Lake, number: int, group: int, column: str) -> set[str]:
    try:
        with open_file_system(lake.root).open_input_file(lake.files[number].path) as source:
            file = pq.ParquetFile(source, metadata=lake.footers[number], read_dictionary=[column])
            values = file.read_row_group(group, columns=[column]).column(column)
    except (pa.ArrowException, OSError):
        return set()  # the query will fail on this file, and say why
    return {value for chunk in values.chunks for value in _distinct(chunk)}


def _distinct(chunk: pa.Array) -> list[str]:
    values: list[str] = (
        chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk.unique()
    ).to_pylist()
    return values
