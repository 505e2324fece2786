"""The columns of a batch as the kernels read them: words of memory.

Kernels read numbers where Arrow keeps them. Strings become codes of one table, which outlives the batch, so
that codes kept in runs stay valid; if the query compares strings by order, codes are in that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cerise.engines.automaton.program import Program
from cerise.engines.automaton.records import Chunk
from cerise.events import EventBatch, Path
from cerise.kernels.strings import Literals
from cerise.kinds import Kind, null_bits, numbers
from cerise.pattern.bound import Bound
from cerise.pattern.values import Fault

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.integer[Any]]
FEW = 8  # values are looked up one by one if this many times more are known
Renumber = Callable[[Ints], None]  # called with the new code of each old code


class Texts:
    """The strings that codes stand for."""

    _table: pa.Array
    _known: dict[str, int] | None  # the code of each string, once few are looked up; newer than the table

    def __init__(self, literals: list[str], *, ordered: bool) -> None:
        self.literals = pa.array(literals, pa.string())
        self.ordered = ordered
        self.table = self.literals
        self.codes = np.arange(len(literals), dtype=np.int64)
        if ordered:
            self.add(self.literals, lambda _: None)

    def __len__(self) -> int:
        return len(self._known) if self._known is not None else len(self._table)

    @property
    def table(self) -> pa.Array:
        """All strings, each at its code."""
        if self._known is not None and len(self._known) > len(self._table):
            more = list(islice(self._known, len(self._table), None))
            self._table = pa.concat_arrays([self._table, pa.array(more, pa.string())])
        return self._table

    @table.setter
    def table(self, strings: pa.Array) -> None:
        self._table, self._known = strings, None

    def add(self, new: pa.Array, renumber: Renumber) -> None:
        """Add strings to the table; if codes change, call `renumber` with the new ones."""
        if self._is_small(new):
            self._look_up(new)
            return
        missing = pc.filter(new, pc.invert(pc.is_in(new, value_set=self.table)))
        if len(missing) == 0 and not self.ordered:
            return
        before = self.table
        table = pa.concat_arrays([before, missing.unique()])
        if self.ordered:
            table = table.take(pc.array_sort_indices(table))
            if not table.equals(before):
                renumber(self.codes_of(before, table))
        self.table = table
        self.codes = self.codes_of(self.literals, table)

    def codes_for(self, strings: pa.Array) -> Ints:
        """Return the codes of strings of the table; null gets any code."""
        if self._is_small(strings):
            return self._look_up(strings)
        return self.codes_of(strings, self.table)

    def _is_small(self, strings: pa.Array) -> bool:
        """Whether looking strings up one by one costs less than a hash table of all strings."""
        return not self.ordered and len(strings) * FEW < len(self)

    def _look_up(self, strings: pa.Array) -> Ints:
        """Return the code of each string; a new string is added to the table."""
        if self._known is None:
            self._known = {text: code for code, text in enumerate(self._table.to_pylist())}
        known = self._known
        found = (0 if text is None else known.setdefault(text, len(known)) for text in strings.to_pylist())
        return np.fromiter(found, np.int64, len(strings))

    def keep(self, used: Ints, renumber: Renumber) -> None:
        """Drop all strings except the query's own and the strings of used codes."""
        before = self.table
        if len(before) == len(self.literals):
            return
        live = before.take(pa.array(np.unique(used[(used >= 0) & (used < len(before))])))
        table = pa.concat_arrays([self.literals, live]).unique()
        if self.ordered:
            table = table.take(pc.array_sort_indices(table))
        renumber(self.codes_of(before, table))
        self.table = table
        self.codes = self.codes_of(self.literals, table)

    def restore(self, strings: list[str]) -> None:
        self.table = pa.array(strings, pa.string())
        self.codes = self.codes_of(self.literals, self.table)

    @staticmethod
    def codes_of(strings: pa.Array, table: pa.Array) -> Ints:
        """Return the code of each string; 0 for a string that is not in the table."""
        return np.asarray(pc.index_in(strings, value_set=table).fill_null(0), dtype=np.int64)


class Columns:
    """The attributes of the current batch, at the addresses that the kernels read."""

    def __init__(self, program: Program, on_fault: Callable[[Fault], None], chunk: int | None = None) -> None:
        """Make room for the columns of a program, for chunks of a given size or for whole batches."""
        self.program = program
        self._chunk = chunk
        self.paths = list(program.layout.columns.items())
        self.texts = Texts(list(program.layout.texts), ordered=program.ordered)
        self.words = np.zeros(Chunk.WORDS + len(self.paths), np.int64)
        self.chunk = Chunk(self.words.ctypes.data)
        self._on_fault = on_fault
        self._literals = Literals([word.encode() for word in program.layout.texts])
        self._zeros = np.zeros(chunk or 0, np.int64)
        self._arrays: list[npt.NDArray[Any] | _Strings] = []
        self._nulls: Ints | None = None

    @property
    def address(self) -> int:
        """The address of the `Chunk` that generated code reads."""
        return int(self.words.ctypes.data)

    def read(self, events: EventBatch, renumber: Renumber) -> None:
        """Read the columns of a batch."""
        raw = [self._column(events, path) for path, _ in self.paths]
        coded = [self._encode_strings(column, *path) for column, path in zip(raw, self.paths, strict=True)]
        for column in coded:
            if pa.types.is_dictionary(column.type):
                self.texts.add(column.dictionary.cast(pa.string()).drop_null(), renumber)
        self._arrays = [
            numbers(column, kind) if kind is not Kind.STRING
            else self._codes(column) if pa.types.is_dictionary(column.type)
            else _Strings(column, np.empty(min(self._chunk or len(column), len(column)), np.int64))
            for column, (_, kind) in zip(coded, self.paths, strict=True)
        ]  # fmt: skip
        self._nulls = null_bits(coded, len(events))
        if self._chunk is None and len(self._zeros) < len(events):
            self._zeros = np.zeros(len(events), np.int64)

    def at(self, start: int, seq: int, points: Ints) -> None:
        """Point at the chunk that starts at an event of the batch; `points` are its times or positions."""
        shift = 8 * start
        chunk = self.chunk
        chunk.nulls = self._zeros.ctypes.data if self._nulls is None else self._nulls.ctypes.data + shift
        chunk.texts, chunk.seq, chunk.points = self.texts.codes.ctypes.data, seq, points.ctypes.data
        for i, array in enumerate(self._arrays):
            if isinstance(array, _Strings):
                codes = array.codes[: len(points)]
                self._literals.codes(array.column, start, self.texts.codes, codes)
                self.words[Chunk.WORDS + i] = codes.ctypes.data
            else:
                self.words[Chunk.WORDS + i] = array.ctypes.data + shift

    def _column(self, events: EventBatch, path: Path) -> pa.Array:
        if path in self.program.derived:
            return self.program.derived[path].column(events, self._on_fault)
        if len(path) == 1 and pa.types.is_dictionary(events.table.column(path[0]).type):
            chunks = events.table.column(path[0])
            column = (
                chunks.chunk(0) if chunks.num_chunks == 1 else chunks.unify_dictionaries().combine_chunks()
            )
            if events.schema.kind(path) is Kind.STRING and len(column.dictionary) < len(column):
                return column
        return events.column(path)

    def _encode_strings(self, column: pa.Array, path: Path, kind: Kind) -> pa.Array:
        """Dictionary-encode a column of strings, unless it is only compared with the query's own strings."""
        if kind is not Kind.STRING or pa.types.is_dictionary(column.type):
            return column
        alone = path in self.program.literal_only and self._literals.found
        return column if alone else column.dictionary_encode()

    def _codes(self, column: pa.DictionaryArray) -> Ints:
        codes = self.texts.codes_for(column.dictionary.cast(pa.string()))
        indices = np.asarray(column.indices.fill_null(0), dtype=np.int64)
        return codes[indices] if len(codes) else np.zeros(len(column), np.int64)


@dataclass(slots=True)
class _Strings:
    """A column that is only compared with the query's own strings: coded one chunk at a time."""

    column: pa.Array
    codes: Ints


class Partitions:
    """A number for each partition (S8)."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self.paths = bound.partition
        self.required = [path in bound.not_null for path in bound.partition]
        self.numbers: dict[tuple[Any, ...], int] = {} if self.paths else {(): 0}
        self._values: pa.Array | None = None  # the keys of a single column, in the order of their numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def of(self, events: EventBatch) -> Ints | None:
        """Return the partition of each event, -1 for an event without partition; None: all share one."""
        if not self.paths:
            return None
        if self._by_one(events):
            return self._of_one(events.column(self.paths[0]).dictionary_encode(null_encoding="encode"))
        codes, keys = _combine([_encode(events.column(path)) for path in self.paths])
        known = np.array([self._number(key) for key in keys] or [0], np.int64)
        part: Ints = np.take(known, codes)
        return part

    def among(self, events: EventBatch) -> tuple[Ints | None, int]:
        """Number the partitions of these events alone; return the numbers, and how many there are."""
        if not self._by_one(events):
            alone = Partitions(self._bound)
            return alone.of(events), len(alone)
        coded = events.column(self.paths[0]).dictionary_encode(null_encoding="encode")
        parts = np.asarray(coded.indices, np.int64)
        if self.required[0] and coded.dictionary.null_count:
            parts = np.where(np.asarray(coded.dictionary.is_null())[parts], -1, parts)
        return parts, len(coded.dictionary)

    def _by_one(self, events: EventBatch) -> bool:
        return len(self.paths) == 1 and not pa.types.is_floating(events.schema.type_of(self.paths[0]))

    def _of_one(self, column: pa.DictionaryArray) -> Ints:
        """Return partitions by a single column: known values are looked up at once, new values one by one."""
        values = column.dictionary
        if len(values) * FEW < len(self.numbers):
            few: Ints = np.take(self._look_up(values), np.asarray(column.indices))
            return few
        if self._values is None:
            self._values = pa.array([key[0] for key in self.numbers], values.type)
        places = pc.index_in(values, value_set=self._values, skip_nulls=True)
        known = np.array(places.fill_null(-1), np.int64)
        new = np.flatnonzero(known < 0)
        if len(new):
            known[new] = [self._number((each,)) for each in values.take(pa.array(new)).to_pylist()]
            self._values = None
        part: Ints = np.take(known, np.asarray(column.indices)) if len(known) else np.zeros(0, np.int64)
        return part

    def _look_up(self, values: pa.Array) -> Ints:
        """Return the partition of each value of a single column; values are few."""
        known = len(self.numbers)
        found = [self._number((each,)) for each in values.to_pylist()]
        if len(self.numbers) > known:
            self._values = None
        return np.array(found or [0], np.int64)

    def restore(self, keys: Iterable[tuple[Any, ...]]) -> None:
        self.numbers = {key: i for i, key in enumerate(keys)}
        self._values = None

    def keep(self, which: npt.NDArray[np.bool_]) -> None:
        """Drop all partitions except the marked ones, which get new numbers in the same order."""
        self.restore([key for key, kept in zip(self.numbers, which, strict=False) if kept])

    def _number(self, key: tuple[Any, ...]) -> int:
        if (known := self.numbers.get(key)) is not None:
            return known
        if any(value is None and needed for value, needed in zip(key, self.required, strict=True)):
            return -1
        key = tuple("NaN" if isinstance(each, float) and math.isnan(each) else each for each in key)
        return self.numbers.setdefault(key, len(self.numbers))


def _encode(column: pa.Array) -> tuple[Codes, list[Any]]:
    """Return a column as codes of its distinct values, null included, and these values."""
    if pa.types.is_floating(column.type):
        column = pc.add(column, 0.0)  # -0.0 is 0.0
    coded = column.dictionary_encode(null_encoding="encode")
    return np.asarray(coded.indices), coded.dictionary.to_pylist()


def _combine(columns: list[tuple[Codes, list[Any]]]) -> tuple[Codes, list[tuple[Any, ...]]]:
    """Combine encoded columns into one: codes of the distinct rows, and these rows."""
    codes, values = columns[0]
    keys = [(value,) for value in values]
    for more, values in columns[1:]:
        joined, codes = np.unique(codes.astype(np.int64) * len(values) + more, return_inverse=True)
        keys = [(*keys[code // len(values)], values[code % len(values)]) for code in joined.tolist()]
    return codes, keys
