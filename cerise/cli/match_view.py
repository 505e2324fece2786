"""Shows matches as a table: a row per match, a cell per variable, with the attributes of the query."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cerise.pattern.expr import Same, attributes, walk
from cerise.pattern.query import Query

SHOWN_EVENTS = 4  # events of a Kleene variable in one cell
WIDE = 100_000  # the width for pipes and files, so that nothing is wrapped


@dataclass(frozen=True, slots=True)
class MatchView:
    """The parts of an event to show: its time, its type, and the attributes that the query mentions."""

    time: str
    type: str | None
    attributes: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, query: Query, time: str, type_: str | None) -> MatchView:
        """Return the view for the matches of a query."""
        mentioned = dict.fromkeys(path for expr in query.where for path in _paths(expr))
        apart = {(time,), (type_,)}
        # The events of a query over matches are matches, whose time and type columns have other names.
        inner = isinstance(query.source, Query)
        return cls(
            "last_time" if inner else time,
            "type" if inner else type_,
            tuple(path for path in mentioned if path and path not in apart and path[0].upper() != "LEN"),
        )

    def without(self, columns: Sequence[str]) -> MatchView:
        """Return the view without attributes that have a column of their own."""
        return replace(
            self, attributes=tuple(path for path in self.attributes if ".".join(path) not in columns)
        )

    def event(self, event: dict[str, Any], day: dt.date | None) -> str:
        """Return an event as a few words; its time without the day if the day is `day`."""
        when, type_ = event.get(self.time), event.get(self.type) if self.type else None
        values = {".".join(path): _inside(event, path) for path in self.attributes}
        words = [plain_time(when, day), *([str(type_)] if type_ is not None else [])]
        return " ".join(
            words + [f"{name}={plain(value)}" for name, value in values.items() if value is not None]
        )


def _paths(expr: Any) -> Iterator[tuple[str, ...]]:
    yield from (each.path for each in attributes(expr))
    yield from (each.path for each in walk(expr) if isinstance(each, Same))


def _inside(event: Any, path: Sequence[str]) -> Any:
    for name in path:
        event = event.get(name) if isinstance(event, dict) else None
    return event


def look(matches: pa.Table, view: MatchView | None, rows: int) -> Table:
    """Return the first matches as a table to print: a row per match, a cell per variable.

    Without a view, every column is shown unchanged.
    """
    if view is None:
        return _build_table(matches.schema, zip(*_plain_columns(matches.slice(0, rows)), strict=True))
    bound = any(map(_is_events, matches.schema.types))
    left_out = {"match_id", "last_time"} if bound else {"match_id"}
    view = view.without(matches.schema.names)
    chosen = [field for field in matches.schema if field.name not in left_out]
    cells = (
        [_cell(row[field.name], field.type, view, _day(row.get("first_time"))) for field in chosen]
        for row in matches.slice(0, rows).to_pylist()
    )
    return _build_table(chosen, cells)


def _plain_columns(table: pa.Table) -> Iterator[list[str]]:
    """Yield the columns by position, because two may have the same name."""
    return ([plain(value) for value in column.to_pylist()] for column in table.columns)


def _build_table(fields: Iterable[pa.Field], rows: Iterable[Iterable[str]]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for field in fields:
        shown.add_column(field.name, overflow="fold", justify="right" if _is_number(field.type) else "left")
    for row in rows:
        shown.add_row(*map(Text, row))
    return shown


def _is_number(type_: pa.DataType) -> bool:
    return any(test(type_) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _cell(value: Any, type_: pa.DataType, view: MatchView, day: dt.date | None) -> str:
    if value is None or not _is_events(type_):
        return plain(value)
    if isinstance(value, dict):
        return view.event(value, day)
    lines = [view.event(event, day) for event in value]
    if len(lines) > SHOWN_EVENTS:
        lines = [*lines[: SHOWN_EVENTS - 2], f"… {len(lines) - SHOWN_EVENTS + 1} more", lines[-1]]
    return "\n".join(lines)


def _is_events(type_: pa.DataType) -> bool:
    return bool(pa.types.is_struct(type_.value_type if pa.types.is_list(type_) else type_))


def plain(value: Any) -> str:
    """Return a value as readable text."""
    match value:
        case None:
            return ""
        case float():
            return f"{value:.10g}"
        case dt.datetime():
            return plain_time(value, None)
        case dict() | list():
            return json_text(value)
    return str(value)


def plain_time(value: Any, day: dt.date | None) -> str:
    """Return a time as text, without zero seconds, and without the day if it is `day`."""
    if not isinstance(value, dt.datetime):
        return str(value)
    clock = value.strftime("%H:%M:%S.%f" if value.microsecond else "%H:%M:%S" if value.second else "%H:%M")
    clock = clock.rstrip("0") if value.microsecond else clock
    return clock if value.date() == day else f"{value:%Y-%m-%d} {clock}"


def _day(value: Any) -> dt.date | None:
    return value.date() if isinstance(value, dt.datetime) else None


def console(file: IO[str]) -> Console:
    """Return a console on a stream; text for a file or a pipe is not wrapped or coloured."""
    return Console(file=file, highlight=False, **({} if file.isatty() else {"width": WIDE}))  # type: ignore[arg-type]


def json_text(value: Any) -> str:
    """Return a value as JSON; times are ISO texts, and values of types that JSON lacks are text."""
    return json.dumps(_jsonable(value), ensure_ascii=False)


def _jsonable(value: Any) -> Any:
    match value:
        case dict():
            return {name: _jsonable(each) for name, each in value.items()}
        case list() | tuple():
            return [_jsonable(each) for each in value]
        case float():
            return value if math.isfinite(value) else str(value)
        case None | bool() | int() | str():
            return value
        case Decimal() if value.as_tuple().exponent == 0:
            return int(value)  # a count
        case dt.date() | dt.time():
            return value.isoformat()
        case bytes():
            return value.hex()
    return str(value)
