"""Hypothesis strategies for every engine: random queries and streams that fit together."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from cerise.events import Schema
from cerise.pattern.query import And, Kleene, Node, Query, Strategy, Var, walk_nodes
from tests.support.strategies.queries import PARAMS, params_of, query_of
from tests.support.strategies.streams import ROW, Dice, shape_of, table_of
from tests.support.strategies.text import any_query

__all__ = ["Pair", "any_query", "late_pairs", "pairs", "queries", "streams"]

LONGEST, MOST_RUNS = 14, 200
QUERY = 200  # bytes of one query
SHORTER = st.sampled_from(
    (14, 12, 11, 9, 0, 7, 0, 4, 0, 2, 0, 1)
)  # by how much a stream is shorter than it may be


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
    if query.strategy is not Strategy.ANY and not any(
        isinstance(each, And) for each in walk_nodes(query.pattern)
    ):
        return LONGEST
    return next((size for size in range(LONGEST, 4, -1) if _runs(query.pattern, size) <= MOST_RUNS), 4)


def _runs(pattern: Node, size: int) -> float:
    """A rough guess at how many bindings a stream of a size has."""
    runs = 1.0
    for node in walk_nodes(pattern):
        if isinstance(node, Var):
            runs *= max(1.0, _fitting(node, size) * 0.6)
        elif isinstance(node, Kleene):
            runs *= 2 ** _fitting(node.var, size) / 2
    return runs


def _fitting(var: Var, size: int) -> float:
    return size if var.type is None else size * 0.4


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
def late_pairs(draw: st.DrawFn) -> Pair:
    """A query that only the reference can run, and a stream that is longer than its window, mostly."""
    rng = random.Random(draw(st.integers(0, 2**60)))
    dice = Dice(rng.randbytes(QUERY))
    shape = shape_of(dice)
    query = query_of(dice, shape, counted=False, late=True)
    size = max(0, 2 * most_events(query) - rng.choice((0, 0, 0, 1, 5, 20)))
    table = table_of(Dice(rng.randbytes(ROW * size)), shape, size)
    return Pair(query, shape.schema, table, {name: PARAMS[name] for name in params_of(query)})


@st.composite
def streams(draw: st.DrawFn, max_size: int = 14) -> tuple[Schema, pa.Table]:
    """A random schema and a table of it."""
    dice = Dice(draw(st.binary(min_size=12, max_size=12)))
    shape = shape_of(dice)
    size = draw(st.integers(0, max_size))
    return shape.schema, table_of(
        Dice(draw(st.binary(min_size=ROW * size, max_size=ROW * size))), shape, size
    )


@st.composite
def queries(draw: st.DrawFn, **wants: Any) -> tuple[Query, Schema]:
    """A random query and the schema that it binds against."""
    dice = Dice(draw(st.binary(min_size=QUERY, max_size=QUERY)))
    shape = shape_of(dice)
    return query_of(dice, shape, **wants), shape.schema
