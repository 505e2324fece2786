"""Records: memory that kernels and Python read and write by name.

A subclass of `Record` names the words (of 64 bits) at an address. In a kernel a record *is* its address, so
reading a field costs one load and writing it one store; nothing is copied, and no index is checked. In
Python, and with the JIT off, the same class is a view of the same memory.

    class Run(Record):
        deadline: int
        node: int  # words without a name may follow

    class Machine(Record):
        live: int
        masks: Words  # one word: where integers lie
        edges: Rows[Edge]  # one word: where records lie, one after another
        runs: Table[Run]  # three words: where records lie, the bytes of each, how many there is room for

    @kernel(int64(int64, int64, int64))
    def latest(machine: int, q: int, r: int) -> int:
        m = Machine(machine)
        one, other = m.runs[q], m.runs[r]
        one.deadline = max(one.deadline, other.deadline)
        one[word] = m.masks[0]  # the word of a number
        return one.deadline

A field that is a `Record` class is the address of such a record. `rows[i:]` are the rows from i on. Of the
class, a name is the number of its word: `array[:, Run.deadline]`; `Run.WORDS` counts the words with a name.
A kernel that Python calls takes an address, since an integer is the quickest argument, and a record is made
of it in the first line.

In a loop, name `rows = m.edges` before it: the address is loaded where it is named. Two meanings of the same
words are two records: `Join(m.nodes[n])`.
"""

# mypy: disable-error-code="no-untyped-call, untyped-decorator"

from __future__ import annotations

import ctypes
import operator
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin, get_type_hints, overload

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature

T = TypeVar("T")
R = TypeVar("R", bound="Record")
INT, WORD = types.int64, ir.IntType(64)
BYTES = 8  # of a word


class Kind(types.Type):
    """The type in kernels of a record, of rows or of a table; its values are addresses."""

    def __init__(self, name: str, fields: dict[str, tuple[int, Any]], item: Any, stride: int) -> None:
        self.fields = fields  # number of the word, and its type
        self.item = item
        self.stride = stride  # bytes of an item; 0: the second word of a table says it
        super().__init__(name)

    @property
    def key(self) -> Any:
        """Return what tells two types apart."""
        return self.name, tuple(self.fields.items())

    def can_convert_to(self, _context: Any, other: Any) -> Any:
        """Let a record be given where an address is wanted."""
        return Conversion.safe if other == INT else None


def _read(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _write(address: int, value: Any) -> None:
    ctypes.c_int64.from_address(address).value = int(value)


def _make_constructor(record: type[Record]) -> None:
    """Let kernels make a record of an address, or of another record."""

    def generic(_context: Any) -> Any:
        return lambda address: record.KIND if isinstance(address, types.Integer | Kind) else None

    extending.type_callable(record)(generic)
    extending.lower_builtin(record, types.Integer)(_address_of)
    extending.lower_builtin(record, Kind)(_address_of)


def _address_of(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    of = sig.args[0]
    return args[0] if isinstance(of, Kind) else context.cast(builder, args[0], of, INT)


class Record:
    """Named words at an address; `record[i]` is word i."""

    WORDS: ClassVar[int] = 0
    KIND: ClassVar[Any] = None
    __slots__ = ("_address",)

    def __init__(self, address: int | Record) -> None:
        self._address = int(address)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        words, fields = 0, {}
        for name, hint in get_type_hints(cls).items():
            if get_origin(hint) is ClassVar or name.startswith("_"):
                continue
            if hasattr(Record, name):
                raise TypeError(f"{cls.__name__}: a field cannot be called {name}")
            fields[name] = words, _kind(hint)
            setattr(cls, name, _Field(words, hint))
            words += 3 if get_origin(hint) is Table else 1
        cls.WORDS = words
        cls.KIND = Kind(f"{cls.__module__}.{cls.__qualname__}", fields, INT, BYTES)
        _make_constructor(cls)

    def __int__(self) -> int:
        return self._address

    def __getitem__(self, word: int) -> int:
        return _read(self._address + BYTES * int(word))

    def __setitem__(self, word: int, value: int) -> None:
        _write(self._address + BYTES * int(word), value)


class Words(Record):
    """Integers one after another; `words[i:]` are those from i on."""

    @overload
    def __getitem__(self, word: int) -> int: ...
    @overload
    def __getitem__(self, word: slice) -> Words: ...
    def __getitem__(self, word: int | slice) -> int | Words:
        """Return an integer, or those from one on."""
        if isinstance(word, slice):
            return Words(self._address + BYTES * int(word.start))
        return super().__getitem__(word)


class Rows(Generic[R]):
    """Records one after another; `rows[i:]` are those from i on."""

    def __init__(self, item: type[R], address: int) -> None:
        self._item, self._address = item, address

    def __int__(self) -> int:
        return self._address

    @overload
    def __getitem__(self, row: int) -> R: ...
    @overload
    def __getitem__(self, row: slice) -> Rows[R]: ...
    def __getitem__(self, row: int | slice) -> R | Rows[R]:
        """Return a record, or those from one on."""
        size = BYTES * self._item.WORDS
        if isinstance(row, slice):
            return Rows(self._item, self._address + size * int(row.start))
        return self._item(self._address + size * int(row))


class Table(Generic[R]):
    """Records that may have words without a name: where they lie, the bytes of each, how many fit."""

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
    """A named word in Python: its number of the class, its value of a record."""

    def __init__(self, number: int, hint: Any) -> None:
        self.number, self.of, self.item = number, get_origin(hint) or hint, get_args(hint)

    def __get__(self, record: Any, _owner: Any) -> Any:
        if record is None:
            return self.number
        address = int(record) + BYTES * self.number
        if self.of is Table:
            return Table(self.item[0], address)
        value = _read(address)
        return value if self.of is int else self.of(*self.item, value)

    def __set__(self, record: Any, value: Any) -> None:
        _write(int(record) + BYTES * self.number, value)


TABLE = ("start", "width", "room")
for _number, _name in enumerate(TABLE):
    setattr(Table, _name, _Field(_number, int))


def number(field: object) -> int:
    """Return the number of the word of a field that is not an integer: `array[number(Machine.runs)]`."""
    assert isinstance(field, int)
    return field


# ---- in kernels


def _kind(hint: Any) -> Any:
    """Return the type of a field in kernels."""
    if hint is int:
        return INT
    of = get_origin(hint)
    if of is None and issubclass(hint, Record):
        return hint.KIND
    (item,) = get_args(hint)
    if of is Rows:
        return Kind(f"Rows[{item.KIND}]", {}, item.KIND, BYTES * item.WORDS)
    if of is Table:
        return Kind(f"Table[{item.KIND}]", {name: (i, INT) for i, name in enumerate(TABLE)}, item.KIND, 0)
    raise TypeError(f"a field of a record cannot be {hint}")


extending.register_model(Kind)(lambda manager, kind: extending.models.PrimitiveModel(manager, kind, WORD))
extending.lower_cast(Kind, types.Integer)(lambda _context, _builder, _kind, _to, address: address)


@extending.infer_getattr
class _FieldType(AttributeTemplate):
    key = Kind

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return kind.fields[name][1] if name in kind.fields else None


@infer_global(operator.getitem)
class _ItemType(AbstractTemplate):
    def generic(self, args: Any, _kws: Any) -> Any:
        of, index = args
        if not isinstance(of, Kind):
            return None
        if isinstance(index, types.SliceType):
            return signature(of, of, index) if of.stride else None
        return signature(of.item, of, INT)


@infer_global(operator.setitem)
class _StoreType(AbstractTemplate):
    def generic(self, args: Any, _kws: Any) -> Any:
        ours = isinstance(args[0], Kind) and args[0].item == INT
        return signature(types.void, args[0], INT, INT) if ours else None


def _word(builder: Any, address: Any, word: int = 0) -> Any:
    """Return a pointer to a word after an address."""
    return builder.inttoptr(builder.add(address, WORD(BYTES * word)), WORD.as_pointer())


def _item(builder: Any, kind: Any, address: Any, i: Any) -> Any:
    """Return the address of an item."""
    width = WORD(kind.stride)
    if kind.stride == 0:
        address, width = builder.load(_word(builder, address)), builder.load(_word(builder, address, 1))
    return builder.add(address, builder.mul(width, i))


@extending.lower_getattr_generic(Kind)
def _get_field(_context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    word, of = kind.fields[name]
    if of != INT and of.stride == 0:  # a table is where its words lie
        return builder.add(address, WORD(BYTES * word))
    return builder.load(_word(builder, address, word))


@extending.lower_setattr_generic(Kind)
def _set_field(_context: Any, builder: Any, sig: Any, args: Any, name: str) -> None:
    builder.store(args[1], _word(builder, args[0], sig.args[0].fields[name][0]))


@extending.lower_builtin(operator.getitem, Kind, types.Integer)
def _get_item(_context: Any, builder: Any, sig: Any, args: Any) -> Any:
    address = _item(builder, sig.args[0], *args)
    return builder.load(_word(builder, address)) if sig.return_type == INT else address


@extending.lower_builtin(operator.getitem, Kind, types.SliceType)
def _get_rest(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    bounds = cgutils.create_struct_proxy(sig.args[1])(context, builder, args[1])
    return _item(builder, sig.args[0], args[0], bounds.start)


@extending.lower_builtin(operator.setitem, Kind, types.Integer, types.Integer)
def _set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(args[2], _word(builder, _item(builder, sig.args[0], *args[:2])))
    return context.get_dummy_value()
