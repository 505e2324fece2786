"""Hypothesis strategies for every engine: random queries and streams that fit together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from cerise.events import Schema
from cerise.pattern.nodes import And, Kleene, Var, walk
from cerise.pattern.query import Query, Strategy
from tests.strategies_queries import PARAMS, params_of, query_of
from tests.strategies_streams import ROW, Dice, shape_of, table_of
from tests.strategies_text import any_query

__all__ = ["Pair", "any_query", "pairs", "queries", "streams"]

QUERY = 200  # bytes of one query
SHORTER = st.sampled_from((14, 0, 1, 0, 2, 0, 4, 7, 9))  # by how much a stream is shorter than it may be


@dataclass(frozen=True)
class Pair:
    """A query, the schema that it binds against, events, and values for the query's parameters."""

    query: Query
    schema: Schema
    table: pa.Table
    params: dict[str, Any]

    def __repr__(self) -> str:
        roles = f"type={self.schema.type!r} key={self.schema.key} order={self.schema.order} {self.params}"
        rows = "\n".join(str(row) for row in self.table.to_pylist())
        return f"\n{self.query}\n-- {roles}\n-- {self.schema.columns.types}\n{rows}\n"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def most_events(query: Query) -> int:
    """How long a stream may be so that even a naive engine answers at once."""
    nodes = list(walk(query.pattern))
    single = sum(isinstance(each, Var) for each in nodes)
    untyped = any(isinstance(each, Var) and each.type is None for each in nodes)
    repeats = sum(isinstance(each, Kleene) for each in nodes)
    if query.strategy is Strategy.ANY:
        return 6 if repeats > 1 else 7 if repeats else 8 if untyped or single > 4 else 11
    return 9 if repeats and any(isinstance(each, And) for each in nodes) else 10 if repeats > 1 else 14


@st.composite
def pairs(draw: st.DrawFn, **wants: Any) -> Pair:
    """A query and a stream that it binds against; `wants` go to `query_of`."""
    dice = Dice(draw(st.binary(min_size=QUERY, max_size=QUERY)))
    shape = shape_of(dice)
    query = query_of(dice, shape, **wants)
    size = max(0, most_events(query) - draw(SHORTER))
    table = table_of(Dice(draw(st.binary(min_size=ROW * size, max_size=ROW * size))), shape, size)
    return Pair(query, shape.schema, table, {name: PARAMS[name] for name in params_of(query)})


@st.composite
def streams(draw: st.DrawFn, max_size: int = 14) -> tuple[Schema, pa.Table]:
    """A random schema and a table of it."""
    dice = Dice(draw(st.binary(min_size=12, max_size=12)))
    shape = shape_of(dice)
    size = draw(st.integers(0, max_size))
    return shape.schema, table_of(Dice(draw(st.binary(min_size=ROW * size, max_size=ROW * size))), shape, size)


@st.composite
def queries(draw: st.DrawFn, **wants: Any) -> tuple[Query, Schema]:
    """A random query and the schema that it binds against."""
    dice = Dice(draw(st.binary(min_size=QUERY, max_size=QUERY)))
    shape = shape_of(dice)
    return query_of(dice, shape, **wants), shape.schema
