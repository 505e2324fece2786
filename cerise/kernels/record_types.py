"""The types of records in kernels: a record is its address, a field is a load or a store."""

# mypy: disable-error-code="no-untyped-call, untyped-decorator"

from __future__ import annotations

import operator
from typing import Any, get_args, get_origin

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.typeconv.castgraph import Conversion
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature

from cerise.kernels.records import BYTES, DECLARED, LISTENERS, TABLE, Record, Rows, Table

INT, WORD = types.int64, ir.IntType(64)


class RecordType(types.Type):
    """The numba type of a record, of rows or of a table; its values are addresses."""

    def __init__(self, name: str, fields: dict[str, tuple[int, Any]], item: Any, stride: int) -> None:
        self.fields = fields  # number of the word, and its type
        self.item = item
        self.stride = stride  # bytes of an item; 0: the second word of a table says it
        super().__init__(name)

    @property
    def key(self) -> Any:
        return self.name, tuple(self.fields.items())

    def can_convert_to(self, _context: Any, other: Any) -> Any:
        """Accept a record where a kernel takes an address."""
        return Conversion.safe if other == INT else None


def make_type(record: type[Record]) -> None:
    """Make the numba type of a record, and let kernels build records from addresses and other records."""
    fields = {name: (word, _kind(hint)) for name, (word, hint) in record.FIELDS.items()}
    record.KIND = RecordType(f"{record.__module__}.{record.__qualname__}", fields, INT, BYTES)

    def generic(_context: Any) -> Any:
        return lambda address: record.KIND if isinstance(address, types.Integer | RecordType) else None

    extending.type_callable(record)(generic)
    extending.lower_builtin(record, types.Integer)(_address_of)
    extending.lower_builtin(record, RecordType)(_address_of)


def _address_of(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    of = sig.args[0]
    return args[0] if isinstance(of, RecordType) else context.cast(builder, args[0], of, INT)


def _kind(hint: Any) -> Any:
    """Return the type of a field in kernels."""
    if hint is int:
        return INT
    of = get_origin(hint)
    if of is None and issubclass(hint, Record):
        return hint.KIND
    (item,) = get_args(hint)
    if of is Rows:
        return RecordType(f"Rows[{item.KIND}]", {}, item.KIND, BYTES * item.WORDS)
    if of is Table:
        return RecordType(
            f"Table[{item.KIND}]", {name: (i, INT) for i, name in enumerate(TABLE)}, item.KIND, 0
        )
    raise TypeError(f"a field of a record cannot be {hint}")


extending.register_model(RecordType)(
    lambda manager, kind: extending.models.PrimitiveModel(manager, kind, WORD)
)
extending.lower_cast(RecordType, types.Integer)(lambda _context, _builder, _kind, _to, address: address)


@infer_global(int)
class _AddressType(AbstractTemplate):
    def generic(self, args: Any, _kws: Any) -> Any:
        return signature(INT, *args) if isinstance(args[0], RecordType) else None


extending.lower_builtin(int, RecordType)(_address_of)


@extending.infer_getattr
class _FieldType(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return kind.fields[name][1] if name in kind.fields else None


@infer_global(operator.getitem)
class _ItemType(AbstractTemplate):
    def generic(self, args: Any, _kws: Any) -> Any:
        of, index = args
        if not isinstance(of, RecordType):
            return None
        if isinstance(index, types.SliceType):
            return signature(of, of, index) if of.stride else None
        return signature(of.item, of, INT)


@infer_global(operator.setitem)
class _StoreType(AbstractTemplate):
    def generic(self, args: Any, _kws: Any) -> Any:
        ours = isinstance(args[0], RecordType) and args[0].item == INT
        return signature(types.void, args[0], INT, INT) if ours else None


def _word(builder: Any, address: Any, word: Any) -> Any:
    """Return a pointer to a word; `gep` tells LLVM that words of different numbers do not overlap."""
    return builder.gep(builder.inttoptr(address, WORD.as_pointer()), [word], source_etype=WORD)


def _item(builder: Any, kind: Any, address: Any, i: Any) -> Any:
    width = WORD(kind.stride)
    if kind.stride == 0:
        address, width = (builder.load(_word(builder, address, WORD(word))) for word in range(2))
    return builder.add(address, builder.mul(width, i))


@extending.lower_getattr_generic(RecordType)
def _get_field(_context: Any, builder: Any, kind: Any, address: Any, name: str) -> Any:
    word, of = kind.fields[name]
    if of != INT and of.stride == 0:  # a table is the address of its three words
        return builder.add(address, WORD(BYTES * word))
    return builder.load(_word(builder, address, WORD(word)))


@extending.lower_setattr_generic(RecordType)
def _set_field(_context: Any, builder: Any, sig: Any, args: Any, name: str) -> None:
    builder.store(args[1], _word(builder, args[0], WORD(sig.args[0].fields[name][0])))


@extending.lower_builtin(operator.getitem, RecordType, types.Integer)
def _get_item(_context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if sig.return_type == INT:
        return builder.load(_word(builder, *args))
    return _item(builder, sig.args[0], *args)


@extending.lower_builtin(operator.getitem, RecordType, types.SliceType)
def _get_rest(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    bounds = cgutils.create_struct_proxy(sig.args[1])(context, builder, args[1])
    return _item(builder, sig.args[0], args[0], bounds.start)


@extending.lower_builtin(operator.setitem, RecordType, types.Integer, types.Integer)
def _set_item(context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    builder.store(args[2], _word(builder, *args[:2]))
    return context.get_dummy_value()


for _record in DECLARED:
    make_type(_record)
LISTENERS.append(make_type)
