"""The rows that the partitions of a stream hold: few rows in each of many partitions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa

from cerise.engines.base import Ints
from cerise.engines.results.value_codes import NUMERIC, ranks
from cerise.engines.row_streams.suspended import enlarge
from cerise.kinds import Kind, kind_of

Key = Hashable
NONE = np.zeros(0, np.int64)


class RowChunks:
    """Rows in tables, numbered in the order of their arrival; a row is copied at most log(rows) times."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._tables: list[pa.Table] = []
        self.count = 0

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self._tables)

    def append(self, table: pa.Table) -> None:
        """Add rows."""
        if len(table):
            self._tables.append(table)
            self.count += len(table)

    def _merge(self) -> None:
        """Merge small tables, so that each table has at least half as many rows as the table before."""
        sizes: list[int] = []
        groups: list[list[pa.Table]] = []
        for table in self._tables:
            groups.append([table])
            sizes.append(len(table))
            while len(sizes) > 1 and sizes[-2] < 2 * sizes[-1]:
                later = groups.pop()
                groups[-1] += later
                sizes[-2:] = [sizes[-2] + sizes[-1]]
        self._tables = [
            each[0] if len(each) == 1 else pa.concat_tables(each).combine_chunks() for each in groups
        ]

    def take(self, rows: Ints) -> pa.Table:
        """Return rows by their numbers, in this order."""
        self._merge()
        starts = np.cumsum([0, *map(len, self._tables)])
        if len(self._tables) == 1:
            return self._tables[0].take(pa.array(rows))
        where = np.searchsorted(starts, rows, "right") - 1
        order = np.argsort(where, kind="stable")
        bounds = np.searchsorted(where[order], np.arange(len(self._tables) + 1))
        parts = [
            table.take(pa.array(rows[order[low:high]] - start))
            for table, start, low, high in zip(
                self._tables, starts[:-1], bounds[:-1], bounds[1:], strict=True
            )
            if high > low
        ]
        if not parts:
            return self._schema.empty_table()
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return pa.concat_tables(parts).combine_chunks().take(pa.array(place))

    def slice(self, low: int, high: int) -> pa.Table:
        """Return neighbouring rows."""
        parts, start = [], 0
        for table in self._tables:
            first, last = max(low - start, 0), min(high - start, len(table))
            if first < last:
                parts.append(table.slice(first, last - first))
            start += len(table)
        return pa.concat_tables(parts).combine_chunks() if parts else self._schema.empty_table()


class HeldRows:
    """The rows that partitions hold, by the number of the partition. Each row knows the row before it."""

    def __init__(self, schema: pa.Schema, spare: int) -> None:
        """Hold no rows.

        Args:
            schema: the columns.
            spare: how many rows may be gone before the rows are packed.
        """
        self._schema, self._spare = schema, spare
        self._rows = RowChunks(schema)
        self._before = np.zeros(16, np.int64)
        self._last = np.zeros(16, np.int64)
        self.counts = np.zeros(16, np.int64)
        self.live = 0

    @property
    def nbytes(self) -> int:
        """The bytes of the rows, and of those that are gone and not yet packed."""
        return self._rows.nbytes

    def make_room(self, partitions: int) -> None:
        """Make room for partitions with numbers below `partitions`."""
        if partitions > len(self.counts):
            self._last, self.counts = (
                enlarge(self._last, 2 * partitions),
                enlarge(self.counts, 2 * partitions),
            )

    def take(self, partitions: Ints) -> pa.Table:
        """Return the rows of partitions, partition after partition, each in order."""
        return self._rows.take(self._follow(partitions)) if self.live else self._schema.empty_table()

    def _follow(self, partitions: Ints) -> Ints:
        from cerise.engines.rows.passes import follow_back

        ends = np.cumsum(self.counts[partitions])
        rows = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
        follow_back(self._before, self._last[partitions], ends, rows)
        return rows

    def add(self, partitions: Ints, counts: Ints, table: pa.Table) -> None:
        """Add rows, given how many rows each partition gets; they come partition after partition."""
        first, some = self._rows.count, counts > 0
        self._rows.append(table)
        if self._rows.count > len(self._before):
            self._before = enlarge(self._before, 2 * self._rows.count)
        rows = np.arange(first, self._rows.count)
        self._before[rows] = rows - 1
        ends = first + np.cumsum(counts)
        self._before[(ends - counts)[some]] = self._last[partitions[some]]
        self._last[partitions[some]] = ends[some] - 1
        self.counts[partitions] += counts
        self.live += len(table)

    def keep(self, partitions: Ints, counts: Ints) -> None:
        """Keep the last rows of each partition, and drop the others."""
        self.live += int((counts - self.counts[partitions]).sum())
        self.counts[partitions] = counts
        if self._rows.count > 2 * self.live + self._spare:
            self._pack()

    def _pack(self) -> None:
        """Drop the rows that no partition holds."""
        partitions = np.flatnonzero(self.counts)
        table, counts = self.take(partitions), self.counts[partitions]
        self._rows = RowChunks(self._schema)
        self.counts[partitions], self.live = 0, 0
        self.add(partitions, counts, table)


class PartitionNumbers:
    """Numbers of partitions by the values of their key. Numbers that are given back are used again."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._numbers: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def most(self) -> int:
        """A bound above all numbers."""
        return len(self._keys)

    def of(self, table: pa.Table) -> tuple[Ints, Ints]:
        """Return the number of each row's partition, and the new numbers; no two rows have the same key."""
        known, new = self._numbers, []
        keys = self._read(table)
        found = [known.get(key, -1) for key in keys]
        for i, number in enumerate(found):
            if number < 0:
                found[i] = self._take(keys[i])
                new.append(found[i])
        return np.array(found, np.int64), np.array(new, np.int64)

    def _take(self, key: Key) -> int:
        if self._free:
            number = self._free.pop()
            self._keys[number] = key
        else:
            number = len(self._keys)
            self._keys.append(key)
        self._numbers[key] = number
        return number

    def forget(self, numbers: Ints) -> None:
        """Give numbers back."""
        for number in numbers.tolist():
            del self._numbers[self._keys[number]]
            self._free.append(number)

    def all(self) -> Ints:
        return np.array(sorted(self._numbers.values()), np.int64)

    def _read(self, table: pa.Table) -> list[Key]:
        columns = [_values(table.column(name), name) for name in self._names]
        if len(columns) == 1:
            return columns[0]
        return list(zip(*columns, strict=True)) if columns else [()] * len(table)


def _values(column: pa.ChunkedArray, name: str) -> list[Key]:
    """Return values that are equal in Python where they are equal as keys: nulls, NaN, -0.0 and 0.0."""
    kind = kind_of(column.type)
    if kind is not Kind.FLOAT and kind not in NUMERIC:
        values: list[Key] = column.to_pylist()
        return values
    rank, nulls = ranks(column, name)
    known = rank.tolist()
    return (
        known if nulls is None else [None if gone else each for each, gone in zip(known, nulls, strict=True)]
    )
