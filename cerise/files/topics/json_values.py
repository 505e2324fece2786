"""Objects of JSON, one per message, as a table with columns of given types.

Arrow parses many objects at once. Where it refuses, the objects are halved until those that do not fit stand
alone, so that the verdict on an object does not depend on its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from cerise.errors import UnsupportedError

types = pa.types
PLAIN_TYPES = (
    types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean,
    types.is_decimal,
)  # fmt: skip
TIMES = (types.is_timestamp, types.is_date32)
ZONE = r"\d\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
LARGEST = 1 << 30  # bytes that are parsed at once
AS_TEXT = "read the messages without schema=, and let Spark's from_json parse the column _value"


class UnfitObject(Exception):
    """Some of the objects do not fit the columns."""


@dataclass(frozen=True, slots=True)
class JsonColumns:
    """The columns that objects of JSON have.

    A field that an object lacks is null, and fields that no column names are passed over.

    Attributes:
        columns: the columns.
        zone: the zone of times that name none, for columns of instants; None: such times do not fit.
    """

    columns: pa.Schema
    zone: str | None = "UTC"

    def __post_init__(self) -> None:
        for each in self.columns:
            if not _is_readable(each.type):
                raise UnsupportedError(f"JSON has no column '{each.name}' of type {each.type}", hint=AS_TEXT)

    def parse(self, values: Sequence[bytes | None]) -> tuple[pa.Table, dict[int, str]]:
        """Return one row per value, and why values do not fit, by their number; their rows are null."""
        reasons: dict[int, str] = {}
        tables = self._parse_part(values, 0, reasons)
        return pa.concat_tables(tables or [self.columns.empty_table()]), reasons

    def _parse_part(
        self, values: Sequence[bytes | None], first: int, reasons: dict[int, str]
    ) -> list[pa.Table]:
        if not values:
            return []
        try:
            return [self._parse_whole(values)]
        except (UnfitObject, pa.ArrowException) as error:
            if len(values) == 1:
                reasons[first] = _say(error)
                return [pa.table([pa.nulls(1, each.type) for each in self.columns], schema=self.columns)]
        half = len(values) // 2
        left = self._parse_part(values[:half], first, reasons)
        return left + self._parse_part(values[half:], first + half, reasons)

    def _parse_whole(self, values: Sequence[bytes | None]) -> pa.Table:
        """Return the objects as a table; raise if one does not fit.

        Each value begins with { and ends with }, and a string has no line break. So if there are as many
        objects as values, each value is one object: half an object cannot be joined to the next half.
        """
        whole: list[bytes] = []
        for value in values:
            if value is None:
                raise UnfitObject("the message has no value")
            trimmed = value if value[:1] == b"{" and value[-1:] == b"}" else value.strip()
            if trimmed[:1] != b"{" or trimmed[-1:] != b"}":  # Arrow ends the process where it is null
                raise UnfitObject("it is not an object of JSON")
            whole.append(trimmed)
        data = b"\n".join(whole)
        if len(data) > LARGEST and len(whole) > 1:
            raise UnfitObject("the objects are too many for one call")
        if b"\0" in data:
            raise UnfitObject("it has a zero byte")
        table = pa.json.read_json(
            pa.BufferReader(data),
            pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pa.json.ParseOptions(
                explicit_schema=pa.schema([(each.name, _choose_type(each.type)) for each in self.columns]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
        if len(table) != len(values):
            raise UnfitObject("it is more than one object")
        table.validate(full=True)
        arrays = [self._convert(table[each.name], each.type) for each in self.columns]
        return pa.table(arrays, schema=self.columns)

    def _convert(self, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
        if not types.is_timestamp(kind) or kind.tz is None:
            return column if column.type == kind else column.cast(kind)
        zoned = pc.match_substring_regex(column, ZONE)
        if pc.all(zoned).as_py() is not False:
            return column.cast(kind)
        if self.zone is None:
            raise UnfitObject("a time names no zone")
        local = pc.if_else(zoned, None, column).cast(pa.timestamp(kind.unit))
        moments = pc.assume_timezone(local, self.zone, ambiguous="earliest", nonexistent="earliest")
        return pc.coalesce(moments.cast(kind), pc.if_else(zoned, column, None).cast(kind))


def is_zone(zone: str) -> bool:
    """Whether Arrow knows a zone by its name."""
    try:
        pc.assume_timezone(pa.scalar(0, pa.timestamp("us")), zone)
    except pa.ArrowException:
        return False
    return True


def _is_readable(kind: pa.DataType) -> bool:
    return any(test(kind) for test in TIMES) or _is_nested(kind)


def _is_nested(kind: pa.DataType) -> bool:
    """Whether Arrow parses a type inside objects and lists; it would not check the zones of times there."""
    if types.is_struct(kind):
        return all(_is_nested(each.type) for each in kind)
    return _is_nested(kind.value_type) if types.is_list(kind) else any(test(kind) for test in PLAIN_TYPES)


def _choose_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow is to parse a type: times are text, as it would drop their zones."""
    return pa.string() if any(test(kind) for test in TIMES) else kind


def _say(error: Exception) -> str:
    """Return why one object does not fit, in few words."""
    text = str(error).split("\n")[0].removeprefix("JSON parse error: ")
    text = re.sub(r"^Column \d+: In chunk 0: Invalid: ", "", text)
    text = re.sub(r"(?:\.)? in row 0$| at string index 0$", "", text).rstrip(".")
    moved = re.fullmatch(r"Column\(/(.*)\) changed from (\S+) to (\S+)", text)
    return text if moved is None else f"'{moved[1]}' is {moved[3]}, not {moved[2].replace('_', ' ')}"
