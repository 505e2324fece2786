"""How selective tests are, by the samples of a table's files."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pyarrow.compute as pc

from cerise.events import Ints
from cerise.plan.filters import Test
from cerise.store.index.codes import Coded, encode
from cerise.store.index.ranges import holds
from cerise.store.index.selection import Flags, Wanted, attribute_tests, types_kept
from cerise.store.index.synopsis import Synopsis


class Samples:
    """The samples of all files, each event weighing as many as it stands for."""

    def __init__(self, synopsis: Synopsis) -> None:
        self._synopsis = synopsis
        self._coded: dict[str, Coded] = {}
        self._types: Ints | None = None
        drawn = np.bincount(synopsis.sampled, minlength=len(synopsis.table_of_files))
        rows = np.asarray(synopsis.table_of_files.column("rows").combine_chunks(), np.float64)
        self._weights = (rows / np.maximum(drawn, 1))[synopsis.sampled]

    def share(self, wanted: Wanted) -> float:
        """Return which part of the events of the wanted types passes the tests of attributes; never 0."""
        seen = self._of_types(wanted)
        passed = seen.copy()
        for test in chain.from_iterable(attribute_tests(self._synopsis.layout, wanted)):
            passed &= self._holds(test.path[0], test)
        one = float(self._weights.mean()) if len(self._weights) else 1.0
        return float((self._weights[passed].sum() + one / 2) / (self._weights[seen].sum() + one))

    def _holds(self, name: str, test: Test) -> Flags:
        if name not in self._coded:
            self._coded[name] = encode(self._synopsis.sample.column(name).combine_chunks(), name)
        return holds(test, self._coded[name], self._synopsis.layout.type_of(name))

    def _of_types(self, wanted: Wanted) -> Flags:
        name = self._synopsis.layout.type
        kept = types_kept(self._synopsis, wanted)
        if name is None:
            return np.full(len(self._weights), bool(kept[-1]))
        if self._types is None:
            values = self._synopsis.sample.column(name).combine_chunks()
            known = self._synopsis.types.cast(values.type)
            self._types = np.asarray(pc.index_in(values, known).fill_null(-1), np.int64)
        return kept[self._types]
