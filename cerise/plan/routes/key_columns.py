"""The columns of a batch of events as keys, each read once when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.events import Path
from cerise.kinds import Kind, canonical, kind_of, numbers
from cerise.plan.routes.key_ranges import NULL, RouteLimits

if TYPE_CHECKING:
    from cerise.kernels.ranks import RankedStrings
    from cerise.kernels.strings import InternedStrings, Literals

Ints = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint8]
EXACT = {"double": pa.float64(), "whole": pa.int64()}  # types whose values are read where they are


@dataclass(frozen=True, slots=True)
class KeyAttribute:
    """An attribute read as keys; the form is "whole" or "double", "word" or "rank" (strings), or "null"."""

    path: Path
    form: str

    @property
    def of_strings(self) -> bool:
        return self.form in ("word", "rank")


@dataclass
class KeyValues:
    """The keys of a column, or doubles that stand for their keys.

    Attributes:
        values: doubles, integers, or bytes for truth values.
        valid: which values are not null; None: all.
    """

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None = None

    @property
    def double(self) -> bool:
        return self.values.dtype == np.float64

    @cached_property
    def words(self) -> Ints:
        """The keys, or the bits of doubles."""
        return self.values.view(np.int64) if self.double else self.values.astype(np.int64, copy=False)

    @cached_property
    def nulls(self) -> Marks | None:
        """1 for each null, and eight more bytes, because kernels read as many."""
        return None if self.valid is None else np.append(~self.valid, np.zeros(8, np.bool_)).view(np.uint8)


class TextKeys:
    """The keys of strings: the place of the equal word, or the rank among the words."""

    def __init__(self, form: str, words: Sequence[str], limits: RouteLimits) -> None:
        self._known: RankedStrings | Literals | InternedStrings
        if form == "rank":
            from cerise.kernels.ranks import RankedStrings  # imports numba

            self._known = RankedStrings([word.encode() for word in words])
            return
        from cerise.kernels.strings import InternedStrings, Literals  # imports numba

        if len(words) <= limits.words:
            self._known = Literals([word.encode() for word in words])
            if self._known.found:
                return
        room = 4 * len(words)  # an eighth full, a table seldom sends an unknown string to a second entry
        self._known = InternedStrings(room, room, room)
        self._known.numbers(pa.array(words, pa.string()), np.empty(len(words), np.int64))

    def read(self, strings: pa.Array) -> Ints:
        """Return the keys of strings, and `NULL` after the last one."""
        texts = strings if strings.type == pa.string() else strings.cast(pa.string())
        found = np.empty(len(texts) + 1, np.int64)
        self._known.find(texts, found[:-1])
        found[-1] = NULL
        if texts.null_count:
            found[:-1][np.asarray(texts.is_null())] = NULL
        return found


@dataclass(slots=True)
class BatchKeys:
    """The columns of one batch.

    Attributes:
        columns: what to read, by number.
        texts: the keys of strings, for columns of strings.
        batch: the events.
        dictionaries: for each column the last dictionary of a batch before, and the keys of its words.
        known: the results of tests that several leaves share, by the test's id.
    """

    columns: Sequence[KeyAttribute]
    texts: Mapping[int, TextKeys]
    batch: pa.RecordBatch
    dictionaries: dict[int, tuple[pa.Array, Ints]]
    known: dict[int, npt.NDArray[np.bool_]] = field(default_factory=dict)
    _keys: dict[int, KeyValues] = field(default_factory=dict)
    _coded: dict[int, tuple[Ints, npt.NDArray[Any] | None]] = field(default_factory=dict)

    def code(self, column: int) -> tuple[Ints, npt.NDArray[Any] | None]:
        """Return the keys of distinct strings and for each row its string; None: a key for each row."""
        if column not in self._coded:
            self._coded[column] = self._code(column)
        return self._coded[column]

    def _code(self, column: int) -> tuple[Ints, npt.NDArray[Any] | None]:
        values, read = self._raw(column), self.texts[column].read
        if not pa.types.is_dictionary(values.type):
            return read(values)[:-1], None
        known = self.dictionaries.get(column)
        if known is None or not _is_same(known[0], values.dictionary):
            known = self.dictionaries[column] = values.dictionary, read(values.dictionary)
        indices = values.indices
        if indices.null_count:
            indices = indices.cast(pa.int64()).fill_null(len(values.dictionary))
        return known[1], np.asarray(indices)

    def list_strings(self, column: int) -> pa.Array | None:
        """Return a column of strings as it is; None: each of its strings is stored once."""
        values = self._raw(column)
        if pa.types.is_dictionary(values.type):
            return None
        return values if values.type == pa.string() else values.cast(pa.string())

    def read(self, column: int) -> KeyValues:
        """Return the keys of a column.

        Raises:
            DataError: a value does not fit the kind of its comparisons.
        """
        if column not in self._keys:
            self._keys[column] = self._read(column)
        return self._keys[column]

    def _read(self, column: int) -> KeyValues:
        of = self.columns[column]
        if of.of_strings:
            codes, rows = self.code(column)
            return KeyValues(codes if rows is None else codes.take(rows))
        values = self._raw(column)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if of.form == "null":
            return KeyValues(np.asarray(values.is_null()).view(np.uint8))
        return _read_numbers(values, of)

    def _raw(self, column: int) -> pa.Array:
        first, *inner = self.columns[column].path
        values = self.batch.column(first)
        return pc.struct_field(values, inner) if inner else values


def _read_numbers(values: pa.Array, column: KeyAttribute) -> KeyValues:
    exact = EXACT[column.form]
    if values.type != exact:
        kind = kind_of(values.type)
        if column.form == "double" or kind is not Kind.FLOAT:
            values = canonical(values, kind, ".".join(column.path))
        else:
            values = canonical(values, Kind.INT, ".".join(column.path))
    if values.type == exact:
        dtype = np.float64 if column.form == "double" else np.int64
        found = np.frombuffer(values.buffers()[1], dtype, len(values), 8 * values.offset)  # also under nulls
    elif pa.types.is_boolean(values.type):
        filled = values.fill_null(False) if values.null_count else values
        found = filled.to_numpy(zero_copy_only=False).view(np.uint8)
    else:
        found = numbers(values, Kind.INT).astype(np.float64)
    return KeyValues(found, np.asarray(values.is_valid()) if values.null_count else None)


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two dictionaries are the same memory."""
    return (one.type, len(one), one.offset) == (other.type, len(other), other.offset) and [
        each and each.address for each in one.buffers()
    ] == [each and each.address for each in other.buffers()]
