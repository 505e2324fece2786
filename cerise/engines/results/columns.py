"""The columns of a table as words of memory, for generated code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.base import Ints
from cerise.engines.results.context import COLUMNS, Context
from cerise.engines.threads import ALONE, Threads, take_values
from cerise.events import raw_column
from cerise.kernels.strings import Literals
from cerise.kinds import Kind, canonical, null_bits, numbers

FEW = 64  # strings; for fewer Python is faster than Arrow


class TableColumns:
    """The columns that generated code reads: numbers as they are, strings as codes in their order."""

    def __init__(
        self, kinds: Mapping[str, Kind], texts: Mapping[str, int], literal_only: frozenset[str] = frozenset()
    ) -> None:
        """Describe the columns.

        Args:
            kinds: the columns, with their kinds.
            texts: the strings of the query, with their numbers.
            literal_only: the columns of strings that are only compared with these, for equality.
        """
        self._kinds, self._literal_only = kinds, literal_only
        self._literals = pa.array(list(texts), pa.string())
        self._quick = Literals([word.encode() for word in texts])
        self._no_texts: _Texts | None = None  # without columns of strings, the codes are always the same

    @property
    def is_stable(self) -> bool:
        """Whether the codes of strings do not depend on the other strings of a table."""
        texts = {name for name, kind in self._kinds.items() if kind is Kind.STRING}
        return not texts or (texts <= self._literal_only and self._quick.found)

    def read(self, table: pa.Table, order: Ints | None = None, threads: Threads = ALONE) -> ColumnValues:
        """Return the values of a table, its rows in the given order; None: as they come."""
        if order is not None and threads.limits.spread_rows * len(order) <= len(table):
            table, order = table.select(list(self._kinds)).take(pa.array(order)), None
        arrays = {name: _column(table, name, kind) for name, kind in self._kinds.items()}
        texts = {name: each for name, each in arrays.items() if self._kinds[name] is Kind.STRING}
        coded = self._code(texts)
        values: list[npt.NDArray[Any]] = [
            coded.columns[name] if name in texts else numbers(arrays[name], self._kinds[name])
            for name in arrays
        ]
        nulls = null_bits(list(arrays.values()), len(table))
        values = [take_values(each, order, threads) for each in values]
        nulls = None if nulls is None else take_values(nulls, order, threads)
        return ColumnValues(values, nulls, coded)

    def _code(self, texts: dict[str, pa.Array]) -> _Texts:
        if texts or self._no_texts is None:
            coded = _Texts(self._literals, self._quick, texts, self._literal_only)
            self._no_texts = self._no_texts if texts else coded
            return coded
        return self._no_texts


class ColumnValues:
    """Values in memory, and the words that hold their addresses."""

    def __init__(self, arrays: list[npt.NDArray[Any]], nulls: Ints | None, coded: _Texts) -> None:
        self._arrays, self._literals = arrays, coded.literals
        self._nulls = np.zeros(1, np.int64) if nulls is None else nulls
        self.texts = coded.table  # the strings that codes stand for
        self._words = np.zeros(COLUMNS + len(arrays), np.int64)
        context = Context(self._words.ctypes.data)
        context.nulls, context.texts = self._nulls.ctypes.data, self._literals.ctypes.data
        context.step = 0 if nulls is None else 8  # without nulls, all rows share one zero word
        for i, array in enumerate(arrays):
            self._words[COLUMNS + i] = array.ctypes.data

    @property
    def arrays(self) -> list[npt.NDArray[Any]]:
        """The values of each column; last, a word for each row with a bit for each null column."""
        rows = len(self._arrays[0]) if self._arrays else 0
        return [
            *self._arrays,
            np.broadcast_to(self._nulls, rows) if len(self._nulls) < rows else self._nulls[:rows],
        ]

    def words(self) -> Ints:
        """Return a copy of the words that generated code reads; the caller may write into it."""
        return self._words.copy()


class _Texts:
    """Strings as codes in the order of the strings."""

    def __init__(
        self, literals: pa.Array, quick: Literals, columns: dict[str, pa.Array], literal_only: frozenset[str]
    ) -> None:
        strings = {name for name, each in columns.items() if pa.types.is_string(each.type)}
        plain = strings & literal_only if quick.found else frozenset()
        encoded = {
            name: each if pa.types.is_dictionary(each.type) else each.dictionary_encode()
            for name, each in columns.items()
            if name not in plain
        }
        words = {name: each.dictionary.cast(pa.string()) for name, each in encoded.items()}
        self.table, self.literals = _rank_strings(literals, list(words.values()))
        self.columns: dict[str, Ints] = {}
        for name, column in columns.items():
            if name in plain:
                self.columns[name] = np.empty(len(column), np.int64)
                quick.codes(column, 0, self.literals, self.columns[name])
            else:
                places = np.append(_codes(words[name], self.table), 0)
                indices = encoded[name].indices.fill_null(len(places) - 1)
                self.columns[name] = places[np.asarray(indices)]


def _rank_strings(literals: pa.Array, others: list[pa.Array]) -> tuple[pa.Array, Ints]:
    """Return all distinct strings in order, and the codes of the literals."""
    if not others and len(literals) < FEW:  # the usual case, and every batch asks
        strings = literals.to_pylist()
        words = sorted(set(strings), key=str.encode)
        return pa.array(words, pa.string()), np.array([words.index(each) for each in strings], np.int64)
    known = pc.unique(pa.concat_arrays([literals, *others]).drop_null())
    known = known.take(pc.array_sort_indices(known))
    return known, _codes(literals, known)


def _codes(strings: pa.Array, table: pa.Array) -> Ints:
    return np.asarray(pc.index_in(strings, value_set=table).fill_null(0), dtype=np.int64)


def _column(table: pa.Table, name: str, kind: Kind) -> pa.Array:
    """Return a column in canonical form; dictionary-encoded strings stay encoded."""
    column = table.column(name)
    if kind is not Kind.STRING or not pa.types.is_dictionary(column.type):
        return canonical(raw_column(table, (name,)), kind, name)
    whole = column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()
    return whole if len(whole.dictionary) < len(whole) else canonical(whole, kind, name)
