"""The inputs of a command: a query, values for its parameters, and events."""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cerise.errors import CeriseError, StoreError, UnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa

    from cerise.files.text import TextLayout

QUERY_FILES = (".sase", ".cer", ".txt", ".sql")
LONGEST_NUMBER = 100  # characters
SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86_400}


def query_text(query: str) -> str:
    """Return the text of a query given as text, as the path of a file, or as - for standard input."""
    if query == "-":
        return sys.stdin.read()
    if "\n" not in query and os.path.isfile(query):  # noqa: PTH113  Path fails on a long name, such as a query
        try:
            return Path(query).read_text("utf-8")
        except (OSError, UnicodeError) as error:
            raise StoreError(f"cannot read the query in {query}: {error}") from error
    if query.startswith("/dev/") and Path(query).exists():
        raise StoreError(f"{query} is not a regular file", hint="- reads a query from standard input")
    if query.endswith(QUERY_FILES) and not query.lstrip().upper().startswith("PATTERN"):
        raise StoreError(f"there is no file {query}", hint="give a query, or the path of a file with one")
    return query


def sase_text(query: str) -> str:
    """Return the text of a SASE+ query; SQL has a command of its own."""
    text = query_text(query)
    if re.match(r"\s*(--[^\n]*\n\s*)*(SELECT|WITH|FROM|CREATE)\b", text, re.IGNORECASE):
        raise UnsupportedError(
            "the query is SQL, and this command takes SASE+",
            hint="cerise sql 'SELECT …' --table NAME=PATH runs SQL; SASE+ starts with PATTERN",
        )
    return text


# ---- parameters


def params(given: Iterable[str]) -> dict[str, Any]:
    """Return the values of `name=value` words."""
    return dict(_param(word) for word in given)


def _param(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    if not equals or not name.strip():
        raise CeriseError(f"parameter {word!r} has no value", hint="write --param name=value")
    return name.strip().lstrip(":"), value_of(text.strip())


def value_of(text: str) -> Any:
    """Return the value of a word by the first reading that fits, else the word itself."""
    for pattern, read in _READINGS:
        if re.fullmatch(pattern, text, re.IGNORECASE):
            try:
                return read(text)
            except ValueError:
                continue
    return text


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise CeriseError(f"a parameter of {len(text):,} digits does not fit into 64 bits", hint="write 1e30")
    return int(text)


def _duration(text: str) -> dt.timedelta:
    number, unit = text.split()
    return dt.timedelta(seconds=float(number) * SECONDS[unit.lower().removesuffix("s")])


_READINGS: tuple[tuple[str, Callable[[str], Any]], ...] = (
    (r"'.*'", lambda text: text[1:-1].replace("''", "'")),
    (r"[+-]?\d+", _whole),
    (r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", float),
    (r"true|false", lambda text: text.lower() == "true"),
    (r"null", lambda _: None),
    (rf"\d+(\.\d+)?\s+({'|'.join(SECONDS)})s?", _duration),
    (r"\d{4}-\d\d-\d\d", dt.date.fromisoformat),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*", dt.datetime.fromisoformat),
)


def names(given: Iterable[str]) -> tuple[str, ...]:
    """Return the names of words such as `a,b`."""
    return tuple(name.strip() for word in given for name in word.split(",") if name.strip())


# ---- events


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Events at a path, how they are written, and which column plays which part.

    `times` are other columns with times, `types` the known types of columns in text files.
    """

    path: str
    time: str
    type: str | None = None
    key: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    header: bool = True
    delimiter: str | None = None
    written: str | None = None
    times: tuple[str, ...] = ()
    types: tuple[pa.Field, ...] = ()

    def roles(self) -> dict[str, Any]:
        return {"time": self.time, "type": self.type, "key": self.key, "order": self.order}

    def table(self) -> pa.Table:
        """Read the events into this process."""
        from cerise.files import event_files as files

        return files.read(self.path, layout=self.layout(), time=self._times, written=self.written)

    def lines(self, data: bytes) -> pa.Table:
        """Read events that came as JSON lines; the path stands for them in errors."""
        from cerise.files import event_files as files

        return files.read_lines(data, self.path, layout=self.layout(), time=self._times, written=self.written)

    def layout(self) -> TextLayout:
        """Return the layout of text files."""
        from cerise.files.text import TextLayout

        delimiter = "\t" if self.delimiter in (r"\t", "tab") else self.delimiter
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii()):
            raise typer.BadParameter(f"--delimiter is one character, or tab; not '{delimiter}'")
        return TextLayout(delimiter, self.header and not self.columns, self.columns, self.types)

    @property
    def _times(self) -> tuple[str, ...]:
        return (self.time, *self.times)

    def schema(self) -> pa.Schema | None:
        """Return the columns of Parquet files; None for files that must be read to know them."""
        from cerise.files import event_files as files

        parquet = self._parquet()
        return files.parquet_schema([Path(file) for file in parquet]) if parquet else None

    def for_store(self) -> str | pa.Table:
        """Return the events for a store: a path, if the store can read them piece by piece, else a table."""
        return self.path if "://" in self.path or self._is_lake() else self.table()

    def on_spark(self) -> Any:
        """Return the events for `cerise.find` on Spark: a path, if tasks can read it, else a DataFrame."""
        return self.path if self._is_lake() else self.frame()

    def _is_lake(self) -> bool:
        """Whether the events are Parquet or Delta with typed times, so that no column needs parsing."""
        from cerise.files import event_files as files

        if self.written is not None:
            return False
        columns = files.lake_columns(Path(self.path))
        return columns is not None and not self._has_written_times(columns)

    def _has_written_times(self, columns: pa.Schema) -> bool:
        import pyarrow as pa

        return any(
            name in columns.names and pa.types.is_string(columns.field(name).type) for name in self._times
        )

    def frame(self) -> Any:
        """Return the events as a Spark DataFrame; as a table, if they are empty and have no types.

        Spark reads Parquet; this process reads the other formats, so that a column has the same type with
        Spark and without.
        """
        from cerise.spark.session import session

        spark = session()
        if parquet := self._parquet():
            return spark.read.parquet(*parquet)
        table = self.table()
        return table if is_untyped(table) else _to_frame(spark, table)

    def _parquet(self) -> list[str]:
        """Return the Parquet files at the path, if none of their columns needs parsing; else none."""
        from cerise.files import delta as table
        from cerise.files import event_files as files

        path = Path(self.path)
        if self.written or table.is_table(path):
            return []
        found = files.data_files(path)
        schema = files.parquet_schema(found)
        if schema is None or self._has_written_times(schema):
            return []
        return [str(file.resolve()) for file in found]


def _to_frame(spark: Any, table: pa.Table) -> Any:
    """Return a table as a DataFrame; times without zone stay without zone, unlike Spark's default."""
    before = spark.conf.get("spark.sql.timestampType")
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        return spark.createDataFrame(table)
    finally:
        spark.conf.set("spark.sql.timestampType", before)


def is_untyped(events: Any) -> bool:
    """Whether events come from a text file without rows, so that their types are unknown."""
    import pyarrow as pa

    return (
        isinstance(events, pa.Table)
        and not events.num_rows
        and all(map(pa.types.is_null, events.schema.types))
    )
