"""The types of SQL values: Spark's, as Arrow types, and how DuckDB names them."""

from __future__ import annotations

import pyarrow as pa

from cerise.errors import UnsupportedError
from cerise.kinds import plain_table

MOST_DIGITS = 38
IN_SPARK = "cerise.sql(spark, …) runs it on a Spark session"
STAMP, LOCAL_STAMP, DAY = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()
LENGTH = pa.duration("us")
_WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
_NAMES = {
    pa.bool_(): ("BOOLEAN", "BOOLEAN"), pa.int8(): ("TINYINT", "TINYINT"),
    pa.int16(): ("SMALLINT", "SMALLINT"),
    pa.int32(): ("INTEGER", "INT"), pa.int64(): ("BIGINT", "BIGINT"), pa.float32(): ("FLOAT", "FLOAT"),
    pa.float64(): ("DOUBLE", "DOUBLE"), pa.string(): ("VARCHAR", "STRING"), DAY: ("DATE", "DATE"),
    LOCAL_STAMP: ("TIMESTAMP", "TIMESTAMP_NTZ"), LENGTH: ("BIGINT", "INTERVAL"),
    pa.binary(): ("BLOB", "BINARY"),
    pa.null(): ("INTEGER", "VOID"),
}  # DuckDB's name, Spark's  # fmt: skip
_STORED = {  # as Spark reads the types that it lacks from Parquet
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(), pa.large_string(): pa.string(), pa.large_binary(): pa.binary(),
    pa.date64(): DAY,
}  # fmt: skip


def is_whole(type_: pa.DataType) -> bool:
    """Whether values are integers."""
    return type_ in _WHOLE


def is_decimal(type_: pa.DataType) -> bool:
    """Whether values are exact numbers with digits after the point."""
    return bool(pa.types.is_decimal(type_))


def is_real(type_: pa.DataType) -> bool:
    """Whether values are floating-point numbers."""
    return type_ in (pa.float32(), pa.float64())


def is_number(type_: pa.DataType) -> bool:
    """Whether values are numbers of any type."""
    return is_whole(type_) or is_real(type_) or is_decimal(type_)


def is_stamp(type_: pa.DataType) -> bool:
    """Whether values are timestamps, with or without a time zone."""
    return bool(pa.types.is_timestamp(type_))


def is_zoned(type_: pa.DataType) -> bool:
    """Whether values are timestamps with a time zone: instants."""
    return is_stamp(type_) and type_.tz is not None


def is_text(type_: pa.DataType) -> bool:
    """Whether values are strings."""
    return bool(type_ == pa.string())


def duck_name(type_: pa.DataType) -> str:
    """Return DuckDB's name of a type."""
    if is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    return "TIMESTAMP WITH TIME ZONE" if is_zoned(type_) else _NAMES[type_][0]


def spark_name(type_: pa.DataType) -> str:
    """Return Spark's name of a type."""
    if is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if is_zoned(type_):
        return "TIMESTAMP"
    return _NAMES[type_][1] if type_ in _NAMES else str(type_).upper()


def is_computable(type_: pa.DataType) -> bool:
    """Whether expressions can compute with the values; any other column is only passed on."""
    return type_ in _NAMES or is_decimal(type_) or is_zoned(type_)


def as_decimal(type_: pa.DataType) -> pa.DataType:
    """Return the decimal type that holds every value of an integer or decimal type."""
    return type_ if is_decimal(type_) else pa.decimal128(_DIGITS[type_], 0)


def decimal(digits: int, scale: int) -> pa.DataType:
    """Return a decimal type; with more than 38 digits Spark would lose some of them."""
    if digits > MOST_DIGITS or scale > MOST_DIGITS:
        raise UnsupportedError(f"the result has {digits} digits, more than {MOST_DIGITS}", hint=IN_SPARK)
    return pa.decimal128(digits, scale)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type that two values are brought to (Spark, ANSI); None: they have none in common."""
    if left == right or right == pa.null():
        return left
    if left == pa.null():
        return right
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if is_zoned(left) and is_zoned(right):
        return left
    pair = {left, right}
    if DAY in pair and any(map(is_stamp, pair)):
        return left if right == DAY else right
    return None


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if is_whole(left) and is_whole(right):
        return max(left, right, key=_WHOLE.index)
    if is_real(left) or is_real(right):
        return left if left == right else pa.float64()
    one, other = as_decimal(left), as_decimal(right)
    scale = max(one.scale, other.scale)
    return decimal(max(one.precision - one.scale, other.precision - other.scale) + scale, scale)


def spark_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that a column of a table has in SQL."""
    if pa.types.is_dictionary(type_):
        return spark_type(type_.value_type)
    if is_decimal(type_) and type_.precision <= MOST_DIGITS:
        return pa.decimal128(type_.precision, type_.scale)
    if is_stamp(type_):
        return pa.timestamp("us", type_.tz)
    if pa.types.is_duration(type_):
        return LENGTH
    return _STORED.get(type_, type_)


def spark_table(table: pa.Table) -> pa.Table:
    """Return a table whose columns have the types that they have in SQL."""
    table = plain_table(table)
    return table.cast(pa.schema([pa.field(each.name, spark_type(each.type)) for each in table.schema]))


def store_table(table: pa.Table) -> pa.Table:
    """Return a table as DuckDB holds it: columns by their numbers, durations as microseconds."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_duration(column.type) else column for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])


def result_table(found: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return what DuckDB has answered, with the names and types of the statement."""
    made = [_restore(column, field.type) for column, field in zip(found.columns, columns, strict=True)]
    return pa.Table.from_arrays(made, schema=columns)


def _restore(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if column.type == type_:
        return column
    return pa.chunked_array([pa.nulls(len(column))]) if type_ == pa.null() else column.cast(type_)
