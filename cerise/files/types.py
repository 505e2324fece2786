"""A common schema for files that were written at different times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from cerise.errors import StoreError
from cerise.kinds import plain

WIDTHS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def common_schema(files: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return the columns of all files together, each in the widest of its types.

    Raises:
        StoreError: two types of a column have no common wider type; the message names both files.
    """
    types: dict[str, tuple[str, pa.DataType]] = {}
    for path, schema in files:
        for field in schema:
            kind = plain(field.type)
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            first, before = types.setdefault(field.name, (path, kind))
            wide = wider(before, kind)
            if wide is None:
                raise StoreError(
                    f"column '{field.name}' has type {before} in {first} and {kind} in {path}",
                    hint="write them with one type, or read them through Spark with a schema of your own",
                )
            types[field.name] = (first, wide)
    return pa.schema([pa.field(name, kind) for name, (_, kind) in types.items()])


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return a type that holds all values of two types exactly; None if no such type exists."""
    types = pa.types
    if left == right or types.is_null(right):
        return left
    if types.is_null(left):
        return right
    if {left, right} <= set(WIDTHS):
        return max(left, right, key=WIDTHS.index)
    if types.is_floating(left) and types.is_floating(right):
        return max(left, right, key=lambda each: each.bit_width)
    narrow, wide = (left, right) if types.is_integer(left) else (right, left)
    if types.is_integer(narrow) and wide == pa.float64() and narrow.bit_width <= 32:
        return wide
    if types.is_timestamp(left) and types.is_timestamp(right) and left.tz == right.tz:
        return pa.timestamp("us", left.tz)
    if types.is_decimal(left) and types.is_decimal(right) and left.scale == right.scale:
        return max(left, right, key=lambda each: each.precision)
    text = {pa.string(), pa.large_string()}
    return pa.string() if {left, right} <= text else None


def spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the Spark type, as an Arrow type, that holds all values of a type in a file."""
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_date64(kind):
        return pa.date32()
    if types.is_unsigned_integer(kind):
        return pa.int64() if kind.bit_width < 64 else pa.decimal128(20, 0)
    if types.is_float16(kind):
        return pa.float32()
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_large_list(kind) or types.is_list(kind):
        return pa.list_(kind.value_field.with_type(spark_type(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([each.with_type(spark_type(each.type)) for each in kind])
    return kind


def leaf_paths(schema: Iterable[pa.Field], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of names to each leaf column of a Parquet file, in file order.

    Parquet joins the names with dots, but a name may contain dots itself.
    """
    for each in schema:
        kind = each.type.storage_type if isinstance(each.type, pa.BaseExtensionType) else each.type
        path = (*before, each.name)
        if kind.num_fields:
            yield from leaf_paths([kind.field(i) for i in range(kind.num_fields)], path)
        else:
            yield path
