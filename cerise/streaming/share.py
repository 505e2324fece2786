"""The share of a bucket: the partitions whose keys belong to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cerise.events import Path, Schema
from cerise.plan.needs import hash_partition
from cerise.ties import hash_columns

Bools = npt.NDArray[np.bool_]
UInts = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions of one of several buckets.

    Attributes:
        partition: the attributes of a key.
        number: the number of the bucket, from 0.
        buckets: how many buckets the keys are divided into.
    """

    partition: tuple[Path, ...]
    number: int
    buckets: int

    @property
    def is_first(self) -> bool:
        return self.number == 0

    def of_rows(self, table: pa.Table) -> Bools:
        """Return which rows belong to the bucket."""
        return self._find(hash_partition(table, self.partition), len(table))

    def take(self, table: pa.Table) -> pa.Table:
        """Return the rows that belong to the bucket."""
        own = self.of_rows(table)
        return table if own.all() else table.filter(pa.array(own))

    def of_keys(self, paths: Sequence[Path], schema: Schema) -> Callable[[Sequence[pa.Array]], Bools]:
        """Return a function that tells which partitions belong to the bucket, by the values of their keys.

        Args:
            paths: the attributes of the values, among them those of the key.
            schema: the columns of the events.
        """
        places = [paths.index(path) for path in self.partition]

        def owns(values: Sequence[pa.Array]) -> Bools:
            columns = [(values[place], schema.kind(paths[place])) for place in places]
            rows = len(values[0]) if values else 0
            return self._find(hash_columns(columns, rows) if columns else None, rows)

        return owns

    def _find(self, keys: UInts | None, rows: int) -> Bools:
        if keys is None or self.buckets == 1:
            return np.full(rows, self.number == 0)
        return np.asarray(keys % np.uint64(self.buckets) == self.number)
