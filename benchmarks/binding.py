"""The query of a piece of work, bound to the schema of its data."""

from __future__ import annotations

from typing import Any

Work = dict[str, Any]

ROLES = ("time", "type", "key", "order", "params")  # what a query's table says to `cerise.find`


def roles(work: Work) -> dict[str, Any]:
    """Return the arguments of `cerise.find` that a query's table gives."""
    return {name: value for name, value in work["query"].items() if name in ROLES}


def bind(work: Work) -> Any:
    """Return the bound query."""
    from cerise.api import parse
    from cerise.events import Schema
    from cerise.pattern.bind import bind as bind_to

    given = roles(work)
    schema = Schema(
        _columns(work["data"]),
        given["time"],
        given.get("type"),
        _names(given.get("key", ())),
        _names(given.get("order", ())),
    )
    return bind_to(parse(work["query"]["text"]), schema, given.get("params"))


def _names(columns: str | list[str] | tuple[()]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _columns(data: dict[str, Any]) -> Any:
    import pyarrow as pa
    from streams import SCHEMAS

    if "generator" in data:
        return SCHEMAS[data["generator"]]
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in data["columns"].items()])
