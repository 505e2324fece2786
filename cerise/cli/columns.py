"""Columns written as people write them: `ticker string, date timestamp, open double`."""

from __future__ import annotations

import re

import pyarrow as pa

from cerise.errors import ParseError, did_you_mean

TYPES = {
    "string": pa.string(), "boolean": pa.bool_(), "byte": pa.int8(), "tinyint": pa.int8(),
    "short": pa.int16(), "smallint": pa.int16(), "int": pa.int32(), "integer": pa.int32(),
    "long": pa.int64(), "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}  # fmt: skip
COLUMN = re.compile(r"\s*(?:`([^`]+)`|([^\s,`]+))\s+(\w+)\s*(?:\(\s*(\d+)\s*,\s*(\d+)\s*\))?\s*(?:,|$)")
EXAMPLE = "write ticker string, date timestamp, open double"


def columns_of(text: str) -> pa.Schema:
    """Return the columns of a text; types are called as in Spark SQL.

    Raises:
        ParseError: it is not a list of names and types.
    """
    fields, at = [], 0
    while at < len(text.rstrip()):
        found = COLUMN.match(text, at)
        if found is None:
            raise ParseError(f"'{text[at:].strip()}' is no column with a type", hint=EXAMPLE)
        quoted, plain, type_, precision, scale = found.groups()
        fields.append(pa.field(quoted or plain, _type(type_, precision, scale)))
        at = found.end()
    if not fields:
        raise ParseError("there are no columns", hint=EXAMPLE)
    return pa.schema(fields)


def _type(name: str, precision: str | None, scale: str | None) -> pa.DataType:
    if name.lower() == "decimal" and precision and scale:
        return pa.decimal128(int(precision), int(scale))
    if name.lower() not in TYPES or precision:
        known = [*TYPES, "decimal(10, 2)"]
        raise ParseError(f"unknown type '{name}'", hint=did_you_mean(name, known))
    return TYPES[name.lower()]
