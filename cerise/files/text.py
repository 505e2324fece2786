"""Reads a CSV or JSON lines file into typed columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from cerise.errors import StoreError

BLOCK = 1 << 20
LARGEST_BLOCK = (1 << 31) - 1
EXACT_DOUBLE = 2.0**53  # beyond it, doubles skip integers
NOTHING = pa.table({})


@dataclass(frozen=True, slots=True)
class TextLayout:
    """The layout of a text file, which the file itself does not state.

    Args:
        delimiter: the character between two values of a CSV line; None: guess it from the first line.
        header: whether the first line of a CSV file names the columns.
        columns: their names, for a file without a header.
        types: the types of columns; the types of other columns follow from their values.
    """

    delimiter: str | None = None
    header: bool = True
    columns: tuple[str, ...] = ()
    types: tuple[pa.Field, ...] = ()

    @property
    def known(self) -> dict[str, pa.DataType]:
        """The given types that Arrow can parse from text, by column; times are parsed afterwards."""
        return {each.name: each.type for each in self.types if any(test(each.type) for test in _READABLE)}


_READABLE = (
    pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal,
)  # fmt: skip
PLAIN = TextLayout()


def read_csv(path: Path, layout: TextLayout) -> pa.Table:
    """Return a CSV file as a table; an empty file gives the columns of the layout and no rows.

    A column's type fits all its values: a column of integers with one 2.5 is a column of doubles.
    """
    data = _content(path)
    if not data.size:
        return _empty_table(layout)
    try:
        table = _csv(data, layout, BLOCK)
    except pa.ArrowInvalid:
        if data.size <= BLOCK:
            raise
        table = _csv(data, layout, min(data.size + 1, LARGEST_BLOCK))
    _reject_bytes(table, path)
    return _with_exact_integers(table, data, layout)


def read_json(path: Path, layout: TextLayout = PLAIN) -> pa.Table:
    """Return a file of JSON objects, one per line, as a table; an empty file has no columns and no rows."""
    return parse_json(_content(path), str(path), layout)


def parse_json(data: pa.Buffer, place: str, layout: TextLayout = PLAIN) -> pa.Table:
    """Return JSON objects, one per line, as a table; `place` stands for them in an error."""
    start = _start(data)
    if not start:
        return NOTHING
    if start.startswith(b"["):
        raise StoreError(
            f"{place} holds one JSON array", hint=f"write one object a line: jq -c '.[]' {place}"
        )
    if start.startswith(b"null"):  # ends the process where Arrow parses it
        raise StoreError(f"{place} begins with null", hint="is every line one object of JSON?")
    table = _json(data, {})
    # Arrow would drop the zone of 10:55Z: read times as text, and parse them here.
    moments = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    known = {name: type_ for name, type_ in layout.known.items() if name in table.schema.names}
    if not moments and not known:
        return table
    table = _json(data, {**dict.fromkeys(moments, pa.string()), **known})
    moments = [name for name in moments if name not in known]
    for name in moments:
        table = table.set_column(table.schema.get_field_index(name), name, _moments(table[name]))
    return table


def _content(path: Path) -> pa.Buffer:
    with pa.input_stream(path, compression="detect") as stream:
        return stream.read_buffer()


def _start(data: pa.Buffer) -> bytes:
    """Return the first bytes after leading white space."""
    return bytes(data.slice(0, min(data.size, BLOCK))).lstrip()[:4096]


def _empty_table(layout: TextLayout) -> pa.Table:
    return pa.table({name: pa.nulls(0) for name in layout.columns})


def _with_exact_integers(table: pa.Table, data: pa.Buffer, layout: TextLayout) -> pa.Table:
    """Return integers beyond 64 bits as text: Arrow reads them as doubles, which would collide."""
    names = Counter(table.column_names)
    guessed = (field for field in table.schema if field.name not in layout.known)
    doubles = [f.name for f in guessed if pa.types.is_floating(f.type) and names[f.name] == 1]
    large = [name for name in doubles if (pc.max(pc.abs(table[name])).as_py() or 0) >= EXACT_DOUBLE]
    if not large:
        return table
    texts = _csv(data, layout, min(data.size + 1, LARGEST_BLOCK), dict.fromkeys(large, pa.string()))
    for name in large:
        whole = pc.match_substring_regex(texts[name], r"^\s*[+-]?[0-9]+\s*$")
        if pc.all(whole).as_py():
            table = table.set_column(table.schema.get_field_index(name), name, texts[name])
    return table


def _csv(
    data: pa.Buffer, layout: TextLayout, block: int, types: dict[str, pa.DataType] | None = None
) -> pa.Table:
    return pa.csv.read_csv(
        pa.BufferReader(data),
        pa.csv.ReadOptions(
            block_size=block,
            column_names=list(layout.columns) or None,
            autogenerate_column_names=not layout.header and not layout.columns,
        ),
        pa.csv.ParseOptions(delimiter=layout.delimiter or _delimiter(_start(data)), newlines_in_values=True),
        pa.csv.ConvertOptions(
            column_types={**layout.known, **(types or {})}, strings_can_be_null=bool(types)
        ),
    )


def _delimiter(start: bytes) -> str:
    """Return the delimiter that occurs most often in the first line: one of , ; tab and |."""
    line = start.split(b"\n", 1)[0].decode(errors="replace")
    counted = Counter({each: line.count(each) for each in ",;\t|"})  # on a tie, the first
    return counted.most_common(1)[0][0]


def _reject_bytes(table: pa.Table, path: Path) -> None:
    for field in table.schema:
        if pa.types.is_binary(field.type):
            raise StoreError(
                f"column '{field.name}' of {path} is not UTF-8",
                hint=f"convert it: iconv -f LATIN1 -t UTF-8 {path}",
            )


def _json(data: pa.Buffer, types: dict[str, pa.DataType]) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(data),
        pa.json.ReadOptions(block_size=min(max(data.size, BLOCK), LARGEST_BLOCK)),
        pa.json.ParseOptions(explicit_schema=pa.schema(types), newlines_in_values=True),
    )


def _moments(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ISO text as timestamps, with zone if all have one; unchanged if only some have."""
    for type_ in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return text.cast(type_)
        except pa.ArrowInvalid:
            continue
    return text
