"""Records: memory that kernels and Python read and write by name.

A subclass of `Record` names the 64-bit words at an address. In a kernel a record *is* its address: reading a
field costs one load, writing it one store, nothing is copied and no index is checked. In Python, and with the
JIT off, the same class is a view of the same memory.

    class Run(Record):
        deadline: int
        node: int  # words without a name may follow

    class Machine(Record):
        live: int
        masks: Words  # one word: the address of integers
        edges: Rows[Edge]  # one word: the address of records, one after another
        runs: Table[Run]  # three words: the address of records, the bytes of each, how many fit

    @kernel(int64(int64, int64, int64))
    def latest(machine: int, q: int, r: int) -> int:
        m = Machine(machine)
        run, later = m.runs[q], m.runs[r]
        run.deadline = max(run.deadline, later.deadline)
        run[word] = m.masks[0]  # a word by its number
        return run.deadline

A field whose type is a `Record` class holds the address of such a record; `int(record)` is the address of a
record. `rows[i:]` are the rows from i on. On the class, a name is the number of its word, as in
`array[:, Run.deadline]`, and `Run.WORDS` counts the named words. A kernel that Python calls takes an address,
because an integer is the cheapest argument, and makes a record of it in its first line.

Name `rows = m.edges` before a loop: the address is loaded where it is named. Two meanings of the same words
are two records: `Join(m.nodes[n])`.

This module does not import numba, so that code generators can number words without it
(`kernels.record_types` makes numba types of records).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import (
    Any,
    ClassVar,
    Generic,
    SupportsInt,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

T = TypeVar("T")
R = TypeVar("R", bound="Record")
BYTES = 8  # of a word


# ---- words of memory, as Python reads and writes them; `kernels.jit` has the same for compiled code


def load(address: int) -> int:
    """Return the integer at an address."""
    return ctypes.c_int64.from_address(int(address)).value


def load_float(address: int) -> float:
    """Return the double at an address."""
    return ctypes.c_double.from_address(int(address)).value


def store(address: int, value: SupportsInt) -> None:
    """Write an integer to an address."""
    ctypes.c_int64.from_address(int(address)).value = int(value)


def store_float(address: int, value: float) -> None:
    """Write a double to an address."""
    ctypes.c_double.from_address(int(address)).value = float(value)


def ask(edge: Callable[..., int], *args: SupportsInt) -> int:
    """Call the compiled formulas of a query."""
    return edge(*map(int, args))


# ---- records

DECLARED: list[type[Record]] = []
LISTENERS: list[Callable[[type[Record]], None]] = []  # called with each class declared later


class Record:
    """Named words at an address; `record[i]` is word i."""

    WORDS: ClassVar[int] = 0
    FIELDS: ClassVar[dict[str, tuple[int, Any]]] = {}  # the number of its first word, and its type
    KIND: ClassVar[Any] = None  # its type in kernels, once `record_types` is imported
    __slots__ = ("_address",)

    def __init__(self, address: int | Record) -> None:
        self._address = int(address)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        words, cls.FIELDS = 0, {}
        for name, hint in get_type_hints(cls).items():
            if get_origin(hint) is ClassVar or name.startswith("_"):
                continue
            if hasattr(Record, name):
                raise TypeError(f"{cls.__name__}: a field cannot be called {name}")
            cls.FIELDS[name] = words, hint
            setattr(cls, name, _Field(words, hint))
            words += 3 if get_origin(hint) is Table else 1
        cls.WORDS = words
        DECLARED.append(cls)
        for listen in LISTENERS:
            listen(cls)

    def __int__(self) -> int:
        return self._address

    def __getitem__(self, word: int) -> int:
        return load(self._address + BYTES * int(word))

    def __setitem__(self, word: int, value: int) -> None:
        store(self._address + BYTES * int(word), value)


class Words(Record):
    """Integers one after another; `words[i:]` are the words from i on."""

    @overload
    def __getitem__(self, word: int) -> int: ...
    @overload
    def __getitem__(self, word: slice) -> Words: ...
    def __getitem__(self, word: int | slice) -> int | Words:
        if isinstance(word, slice):
            return Words(self._address + BYTES * int(word.start))
        return super().__getitem__(word)


class Rows(Generic[R]):
    """Records one after another; `rows[i:]` are the rows from i on."""

    def __init__(self, item: type[R], address: int) -> None:
        self._item, self._address = item, address

    def __int__(self) -> int:
        return self._address

    @overload
    def __getitem__(self, row: int) -> R: ...
    @overload
    def __getitem__(self, row: slice) -> Rows[R]: ...
    def __getitem__(self, row: int | slice) -> R | Rows[R]:
        size = BYTES * self._item.WORDS
        if isinstance(row, slice):
            return Rows(self._item, self._address + size * int(row.start))
        return self._item(self._address + size * int(row))


class Table(Generic[R]):
    """Records that may end in unnamed words: their address, the bytes of each, how many fit."""

    start: int
    width: int
    room: int

    def __init__(self, item: type[R], address: int) -> None:
        self._item, self._address = item, address

    def __int__(self) -> int:
        return self._address

    def __getitem__(self, row: int) -> R:
        return self._item(self.start + self.width * int(row))


class _Field:
    """A named word in Python: on the class its number, on a record its value."""

    def __init__(self, number: int, hint: Any) -> None:
        self.number, self.of, self.item = number, get_origin(hint) or hint, get_args(hint)

    def __get__(self, record: Any, _owner: Any) -> Any:
        if record is None:
            return self.number
        address = int(record) + BYTES * self.number
        if self.of is Table:
            return Table(self.item[0], address)
        value = load(address)
        return value if self.of is int else self.of(*self.item, value)

    def __set__(self, record: Any, value: Any) -> None:
        store(int(record) + BYTES * self.number, value)


TABLE = ("start", "width", "room")
for _number, _name in enumerate(TABLE):
    setattr(Table, _name, _Field(_number, int))


def number(field: object) -> int:
    """Return the number of the word of a field that is not an integer: `array[number(Machine.runs)]`."""
    assert isinstance(field, int)
    return field
