"""What is told of a store: its figures as lines for people."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

import pyarrow as pa

from cerise.cli.look import plain
from cerise.store.event_table import Info
from cerise.store.writing.settings import Settings

UNITS = ("bytes", "kB", "MB", "GB", "TB")
WIDTH = 10


def figures(info: Info, columns: pa.Schema) -> str:
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
    for name, told in facts:
        for number, line in enumerate([told] if isinstance(told, str) else told):
            yield f"{'' if number else name:<{WIDTH}} {line}"


def _fresh(info: Info) -> str:
    if not info.settings.sequence:
        return "none: cerise index indexes the files that are new"
    if not info.fresh_files:
        return "none: every event is indexed"
    events, files = counted(info.fresh_events, "event"), counted(info.fresh_files, "small file")
    return f"{events} in {files}, not indexed yet: cerise store compact does it"


def _index(info: Info) -> str:
    if not info.index_bytes:
        return "none yet"
    return f"{size(info.index_bytes)}, {100 * info.index_bytes / info.data_bytes:.0f} % of the data"


def _span(info: Info, time: pa.DataType) -> str:
    if info.first is None or info.last is None:
        return "no events" if not info.events else "not known: the log does not tell"
    return f"{_moment(info.first, time)} to {_moment(info.last, time)}"


def _moment(value: int, time: pa.DataType) -> str:
    """Return a time as people write it; of timestamps and dates the integer counts microseconds."""
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
    """Yield what a column is to the store."""
    yield from (part for part in ("time", "type") if name == getattr(settings, part))
    yield from (part for part in ("key", "order") if name in getattr(settings, part))
    if name in (settings.time, settings.type, *settings.key, *settings.order, *settings.index):
        yield "indexed"


def size(number: int) -> str:
    """Return a number of bytes as people write it."""
    shown, unit = float(number), 0
    while shown >= 1000 and unit < len(UNITS) - 1:
        shown, unit = shown / 1000, unit + 1
    return f"{shown:.1f} {UNITS[unit]}" if unit else f"{number} bytes"


def counted(number: int, what: str) -> str:
    """Return a number of things: `1 file`, `2 files`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
