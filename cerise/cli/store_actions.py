"""The actions of `cerise store`: answer queries, append events, print figures, parse columns."""

from __future__ import annotations

import datetime as dt
import re
import time as clock
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import typer

from cerise import api
from cerise.api import Found, parse
from cerise.cli import inputs
from cerise.cli import output as out
from cerise.cli.match_view import MatchView, plain
from cerise.cli.terminal import show_progress, show_status
from cerise.engines.base import Options
from cerise.errors import CeriseError, DataError, ParseError, did_you_mean
from cerise.event_store import Store
from cerise.sources import count_query, is_sql
from cerise.store.table.append_sources import source_of
from cerise.store.table.event_table import Info
from cerise.store.table.settings import Settings


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """A query, the values of its parameters, and how to run it."""

    text: str
    params: dict[str, Any]
    engine: str | None = None
    version: int | None = None
    spark: bool = False
    count: bool = False

    @property
    def how(self) -> dict[str, Any]:
        options = Options(engine=self.engine)
        spark = True if self.spark else None
        return {"params": self.params or None, "options": options, "version": self.version, "spark": spark}


def explain(store: Store, query: StoreQuery) -> str:
    """Say how a query would run."""
    return api.explain(store, query.text, **query.how)


def answer(store: Store, query: StoreQuery, target: out.OutputTarget, *, report: bool) -> None:
    """Run a query, write its matches or their number, and print a summary."""
    sql = is_sql(query.text)
    text: Any = count_query(query.text) if query.count and not sql else query.text
    started = clock.perf_counter()
    with show_status("matching on Spark" if query.spark else "matching"):
        found = _run(store, text, query)
    elapsed = clock.perf_counter() - started
    if query.count:
        typer.echo(len(found.matches) if sql else found.matches.column(0)[0].as_py())
    else:
        _deliver(store, query, found, target, sql=sql)
        typer.echo(out.summary(found.matches, _where(found), elapsed, target), err=True)
    if report:
        typer.echo(found.report, err=True)


def _run(store: Store, text: Any, query: StoreQuery) -> Found:
    found = api.profile(store, text, **query.how)
    return Found(found.matches.toArrow(), found.report) if query.spark else found


def _deliver(store: Store, query: StoreQuery, found: Found, target: out.OutputTarget, *, sql: bool) -> None:
    if sql:
        out.deliver(found.matches, target, None)
        return
    settings = store.settings
    view = MatchView.of(parse(query.text), settings.time, settings.type)
    out.deliver(out.in_order(found.matches), target, view)


def _where(found: Found) -> str:
    figures = found.report.figures
    if "events kept" not in figures:
        return ""
    return f" in {figures['events']:,} events, {figures['events kept']:,} of them kept"


def columns_in(given: str | pa.Table, path: str) -> pa.Schema:
    """Return the columns for a store of these events."""
    if inputs.is_untyped(given):
        raise CeriseError(
            f"{path} is empty: the types of its columns are unknown", hint="say --schema 'name type, …'"
        )
    return source_of(given).columns


def append_events(store: Store, given: str | pa.Table, path: str) -> None:
    """Append events with a progress bar, and print how many."""
    _reject_numbers(given, store.schema.field(store.settings.time))
    read = 0
    with show_progress(f"appending {path}") as progress:

        def update(done: int, total: int | None) -> None:
            nonlocal read
            read = done
            progress(done, total)

        version = store.append(given, update)
    typer.echo(f"appended {say_count(read, 'event')} of {path}: version {version}")


def _reject_numbers(given: str | pa.Table, time: pa.Field) -> None:
    """Refuse integers for a timestamp column: their unit is unknown."""
    for each in () if isinstance(given, str) else given.schema:
        if each.name == time.name and pa.types.is_integer(each.type) and pa.types.is_timestamp(time.type):
            raise DataError(
                f"'{time.name}' holds numbers, and the store keeps {time.type}",
                hint="give their unit since 1970: --timestamp-format s, ms, us or ns",
            )


UNITS = ("bytes", "kB", "MB", "GB", "TB")
WIDTH = 10


def show_info(info: Info, columns: pa.Schema) -> str:
    """Return the figures of a version, a line each."""
    time = columns.field(info.settings.time).type
    facts: list[tuple[str, str | Iterable[str]]] = [
        ("store", info.path),
        ("version", "none: Parquet files have no versions" if info.version is None else str(info.version)),
        ("events", f"{info.events:,}"),
        ("files", f"{info.files:,}"),
        ("fresh", _fresh(info)),
        ("data", size(info.data_bytes)),
        ("index", _index(info)),
        ("time", _span(info, time)),
        ("columns", _columns(columns, info.settings)),
        ("not used", [f"{path}: its index: {why}" for path, why in info.broken.items()]),
    ]
    return "\n".join(_lines(facts))


def _lines(facts: Iterable[tuple[str, str | Iterable[str]]]) -> Iterator[str]:
    for name, fact in facts:
        for number, line in enumerate([fact] if isinstance(fact, str) else fact):
            yield f"{'' if number else name:<{WIDTH}} {line}"


def _fresh(info: Info) -> str:
    if not info.settings.sequence:
        return "none: cerise index indexes the files that are new"
    if not info.fresh_files:
        return "none: every event is indexed"
    events, files = say_count(info.fresh_events, "event"), say_count(info.fresh_files, "small file")
    return f"{events} in {files}, not indexed yet: cerise store compact does it"


def _index(info: Info) -> str:
    if not info.index_bytes:
        return "none yet"
    return f"{size(info.index_bytes)}, {100 * info.index_bytes / info.data_bytes:.0f} % of the data"


def _span(info: Info, time: pa.DataType) -> str:
    if info.first is None or info.last is None:
        return "no events" if not info.events else "unknown: the log has no times"
    return f"{_moment(info.first, time)} to {_moment(info.last, time)}"


def _moment(value: int, time: pa.DataType) -> str:
    """Return a time as readable text; for timestamps and dates, `value` counts microseconds."""
    if pa.types.is_integer(time):
        return f"{value:,}"
    when = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)
    return str(when.date()) if pa.types.is_date(time) else plain(when)


def _columns(columns: pa.Schema, settings: Settings) -> list[str]:
    name, kind = (max(len(str(each)) for each in many) for many in (columns.names, columns.types))
    parts = [", ".join(_parts(each, settings)) for each in columns.names]
    lines = (f"{each.name:<{name}}  {each.type!s:<{kind}}" for each in columns)
    return [f"{line}  {part}".rstrip() for line, part in zip(lines, parts, strict=True)]


def _parts(name: str, settings: Settings) -> Iterator[str]:
    yield from (part for part in ("time", "type") if name == getattr(settings, part))
    yield from (part for part in ("key", "order") if name in getattr(settings, part))
    if name in (settings.time, settings.type, *settings.key, *settings.order, *settings.index):
        yield "indexed"


def size(number: int) -> str:
    """Return a number of bytes in the unit that suits it: `12.3 MB`."""
    value, unit = float(number), 0
    while value >= 1000 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {UNITS[unit]}" if unit else f"{number} bytes"


def say_count(number: int, what: str) -> str:
    """Return a number of things: `1 file`, `2 files`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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
    """Parse a list of columns, with the type names of Spark SQL.

    Raises:
        ParseError: the text is not a list of names and types.
    """
    fields, at = [], 0
    while at < len(text.rstrip()):
        found = COLUMN.match(text, at)
        if found is None:
            raise ParseError(f"'{text[at:].strip()}' is not a column with a type", hint=EXAMPLE)
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
