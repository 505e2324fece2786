"""The order of rows, and frames of windows, as DuckDB takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from cerise.local_sql.syntax import place_of
from cerise.local_sql.values.typed_value import refuse


def frame_sql(frame: exp.WindowSpec) -> str:
    """Return the frame of a window."""
    ends = [_end(frame.args.get(side), frame.args.get(f"{side}_side")) for side in ("start", "end")]
    if frame.args.get("kind", "").upper() == "RANGE" and any("CAST" in each for each in ends):
        raise refuse("RANGE by a distance", place_of(frame))
    return f"{frame.args['kind'].upper()} BETWEEN {ends[0]} AND {ends[1] or 'CURRENT ROW'}"


def _end(end: Any, side: Any) -> str:
    if end is None or isinstance(end, str):
        return f"{str(end or '').upper()} {str(side or '').upper()}".strip()
    return f"CAST({int(end.name)} AS BIGINT) {str(side).upper()}"


def order_sql(node: exp.Ordered, sql: str) -> str:
    """Return an item of ORDER BY; nulls come first, with DESC last, as in Spark."""
    down = bool(node.args.get("desc"))
    first = node.args.get("nulls_first")
    first = not down if first is None else bool(first)
    return f"{sql} {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"


def window_sql(node: exp.Window, say: Callable[[exp.Expression], str]) -> str:
    """Return the text inside OVER ( ); `say` translates an expression."""
    if node.args.get("alias") is not None:
        raise refuse("a named window", place_of(node))
    pieces = []
    if parts := node.args.get("partition_by"):
        pieces.append("PARTITION BY " + ", ".join(say(each) for each in parts))
    if (order := node.args.get("order")) is not None:
        pieces.append("ORDER BY " + ", ".join(order_sql(each, say(each.this)) for each in order.expressions))
    if (frame := node.args.get("spec")) is not None:
        pieces.append(frame_sql(frame))
    return " ".join(pieces)
