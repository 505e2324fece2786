"""The columns of a prepared table as words of memory, for the conditions of a clause."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.nfa.columns import null_bits, numbers
from cerise.engines.rows.layout import C_NULLS, C_TEXTS, COLUMNS
from cerise.engines.rows.matches import Ints
from cerise.engines.rows.scope import Conditions
from cerise.events import raw_column
from cerise.kernels.literals import Literals
from cerise.kinds import Kind, canonical


class Columns:
    """Where generated code finds the values of rows: numbers as they are, strings as codes in their order."""

    def __init__(self, conditions: Conditions, table: pa.Table) -> None:
        self.words = np.zeros(COLUMNS + len(conditions.columns), np.int64)
        arrays = {name: _column(table, name, kind) for name, kind in conditions.columns.items()}
        texts = {name: each for name, each in arrays.items() if conditions.columns[name] is Kind.STRING}
        literals = pa.array(list(conditions.texts), pa.string())
        coded = _Texts(literals, texts, conditions.literal_only)
        self._texts = coded.literals
        self._arrays: list[npt.NDArray[Any]] = [
            coded.columns[name] if name in texts else numbers(arrays[name], conditions.columns[name])
            for name in arrays
        ]
        nulls = null_bits(list(arrays.values()), table.num_rows)
        self._nulls = np.zeros(table.num_rows, np.int64) if nulls is None else nulls
        self.words[C_NULLS], self.words[C_TEXTS] = self._nulls.ctypes.data, self._texts.ctypes.data
        for i, array in enumerate(self._arrays):
            self.words[COLUMNS + i] = array.ctypes.data

    @property
    def address(self) -> int:
        """Where it is said where everything is."""
        return int(self.words.ctypes.data)


class _Texts:
    """Strings as codes that are ordered as they are."""

    def __init__(
        self, literals: pa.Array, columns: dict[str, pa.Array], literal_only: frozenset[str]
    ) -> None:
        quick = Literals([word.encode() for word in literals.to_pylist()])
        alone = {name for name in columns if name in literal_only and quick.found}
        encoded = {name: each.dictionary_encode() for name, each in columns.items() if name not in alone}
        known = pa.concat_arrays([literals, *(each.dictionary for each in encoded.values())])
        table = pc.unique(known.drop_null())
        table = table.take(pc.array_sort_indices(table))
        self.literals = _codes(literals, table)
        self.columns: dict[str, Ints] = {}
        for name, column in columns.items():
            if name in alone:
                self.columns[name] = np.empty(len(column), np.int64)
                quick.codes(column, 0, self.literals, self.columns[name])
            else:
                places = np.append(_codes(encoded[name].dictionary, table), 0)
                indices = encoded[name].indices.fill_null(len(places) - 1)
                self.columns[name] = places[np.asarray(indices)]


def _codes(strings: pa.Array, table: pa.Array) -> Ints:
    return np.asarray(pc.index_in(strings, value_set=table).fill_null(0), dtype=np.int64)


def _column(table: pa.Table, name: str, kind: Kind) -> pa.Array:
    return canonical(raw_column(table, (name,)), kind, name)
