"""Matches of any query in one shape, for streams whose queries come and go while they run."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from cerise.events import Schema
from cerise.pattern.output import FIRST_TIME, LAST_TIME, MATCH_ID
from cerise.pattern.query import Var
from cerise.run.many.united_answers import TAG
from cerise.run.sase_search import Sase
from cerise.streaming.live_query import StreamQuery

EVENTS, RETURNED = "events", "returned"


def generic_schema(roles: Schema) -> pa.Schema:
    """Return the columns: the query, the match and its times, the key, the events by variable, and RETURN."""
    time = roles.columns.field(roles.time).type
    keys = [pa.field(name, roles.columns.field(name).type) for name in roles.key]
    event = pa.struct(list(roles.columns))
    return pa.schema(
        [
            pa.field(TAG, pa.string()), pa.field(MATCH_ID, pa.int64()), pa.field(FIRST_TIME, time),
            pa.field(LAST_TIME, time), *keys, pa.field(EVENTS, pa.map_(pa.string(), pa.list_(event))),
            pa.field(RETURNED, pa.string()),
        ]
    )  # fmt: skip


def to_generic(query: StreamQuery, table: pa.Table, roles: Schema) -> pa.Table:
    """Return matches of a query in the shape that all queries share.

    Events that a variable binds are a list in the map `events`; the columns of RETURN, or of SQL, are a JSON
    object in `returned`.
    """
    schema = generic_schema(roles)
    rows = table.to_pylist()
    own = {TAG: [query.name] * len(rows)}
    bound = _variables(query)
    plain = set(schema.names) - {TAG, EVENTS, RETURNED}
    returned = [name for name in table.column_names if name not in plain and name not in bound]
    columns: list[pa.Array] = []
    for each in schema:
        if each.name == EVENTS:
            values: list[Any] = [_events_of(row, bound) for row in rows]
        elif each.name == RETURNED:
            values = [_as_json(row, returned) for row in rows]
        else:
            values = own.get(each.name) or [row.get(each.name) for row in rows]
        columns.append(pa.array(values, each.type))
    return pa.table(columns, schema=schema)


def _variables(query: StreamQuery) -> set[str]:
    if not isinstance(query.question, Sase):
        return set()
    return {each.name for each in query.question.bound.columns if isinstance(each.fill, Var)}


def _events_of(row: dict[str, Any], bound: Iterable[str]) -> list[tuple[str, list[Any]]]:
    found = []
    for name in bound:
        value = row[name]
        if value is not None:
            found.append((name, value if isinstance(value, list) else [value]))
    return sorted(found, key=lambda each: each[0])


def _as_json(row: dict[str, Any], names: list[str]) -> str | None:
    return json.dumps({name: row[name] for name in names}, default=_plain) if names else None


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return str(value)
