"""The state of searches over a stream, counted and weighed, so that limits can hold and the oldest runs go.

All figures of a census follow from the query and the events: a search that was saved and loaded gives the
same ones. Figures of `Load` are quick to have, and may include runs and events that have expired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
NONE = np.zeros(0, np.int64)
VIEW_BYTES = 16  # of a value of a type that is not known here


class Load(NamedTuple):
    """Upper bounds of the state of a search.

    Attributes:
        runs: its runs, or the events or rows that it keeps in place of runs.
        most: how many of them one partition has; if not asked for, as many as there are.
        nbytes: the bytes of all that it keeps.
    """

    runs: int
    most: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Census:
    """The runs of a search, or the events or rows that it keeps in place of runs.

    Attributes:
        what: "runs", "events" or "rows".
        times: the time at which each began.
        starts: the number of the event that each began with: an older run has a lower number.
        parts: the partition of each, as an index into `keys`.
        keys: the values that identify each partition.
        places: where the search keeps each, for `evict`.
        nbytes: the bytes of all that the search keeps.
    """

    what: str
    times: Ints
    starts: Ints
    parts: Ints
    keys: Sequence[tuple[object, ...]]
    places: Ints
    nbytes: int

    def __len__(self) -> int:
        return len(self.times)


EMPTY = Census("runs", NONE, NONE, NONE, (), NONE, 0)


@runtime_checkable
class Evictable(Protocol):
    """A matcher or a search whose oldest runs can go."""

    def measure(self, *, by_partition: bool) -> Load:
        """Return upper bounds of its state, of a partition only if asked for, without looking at each run."""
        ...

    def census(self) -> Census:
        """Drop expired runs, and count the others."""
        ...

    def evict(self, places: Ints) -> None:
        """Drop runs, events or rows of the last census: of each partition the oldest ones.

        No match begins with an event that was dropped, or with an older one of its partition. All other
        matches are found.
        """
        ...


@runtime_checkable
class EvictableSearch(Protocol):
    """A search over a stream whose oldest runs can go."""

    def measure(self, *, by_partition: bool) -> Load:
        """Return upper bounds of its state."""
        ...

    def census(self) -> Census:
        """Drop expired runs, and count the others."""
        ...

    def evict(self, places: Ints) -> Iterator[pa.Table]:
        """Drop the oldest of each partition, as `Evictable`; yield the matches that this makes final."""
        ...


def weigh(table: pa.Table) -> int:
    """Return the bytes of a table, however it is cut into pieces; never more than its `nbytes`.

    >>> weigh(pa.table({"a": [1, 2], "b": ["x", "yz"]}))
    27
    """
    return sum(_weigh_column(column) for column in table.columns)


def _weigh_column(column: pa.ChunkedArray) -> int:
    kind, rows = column.type, len(column)
    if pa.types.is_dictionary(kind):
        return rows * int(kind.index_type.bit_width) // 8
    if pa.types.is_null(kind):
        return 0
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or _is_large(kind):
        return 4 * rows + int(pc.sum(pc.binary_length(column)).as_py() or 0)
    if pa.types.is_struct(kind):
        return sum(_weigh_column(each) for each in _fields_of(column))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return 4 * rows + _weigh_column(pa.chunked_array(_flatten(column), kind.value_type))
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal(kind):
        return rows * int(kind.bit_width) // 8
    return rows * VIEW_BYTES


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def _fields_of(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    for number, field in enumerate(column.type):
        yield pa.chunked_array([each.field(number) for each in column.chunks], field.type)


def _flatten(column: pa.ChunkedArray) -> list[pa.Array]:
    return [each.flatten() for each in column.chunks]
