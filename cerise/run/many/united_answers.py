"""Answers to several queries in one table: the columns of all, and a column that names the query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate

import numpy as np
import pyarrow as pa

from cerise.errors import BindError
from cerise.run.many.query_names import show_name

TAG = "query"  # the column that names the query of a match
Part = tuple[int, pa.Table]  # the number of a question, and some rows of its answer
Nulls = Callable[[pa.DataType], pa.Array]


def union_schemas(schemas: Sequence[pa.Schema], names: Sequence[str] | None = None) -> pa.Schema:
    """Return the columns of several answers in one table, after the column that names the query.

    Args:
        schemas: the columns of each answer.
        names: the name of each query, for errors; None: its number from 1.

    Raises:
        BindError: two answers have a column of the same name and different types.
    """
    fields: dict[str, tuple[pa.Field, str]] = {}
    for number, schema in enumerate(schemas):
        name = show_name(str(number + 1) if names is None else names[number])
        for each in schema:
            before, first = fields.setdefault(each.name, (each, name))
            if each.name == TAG:
                raise BindError(
                    f"{name} has a column '{TAG}', which names the query of a match", hint=_OWN_NAMES
                )
            if before.type != each.type:
                raise BindError(
                    f"column '{each.name}' is {before.type} in {first}, and {each.type} in {name}",
                    hint=_OWN_NAMES,
                )
    return pa.schema([pa.field(TAG, pa.string()), *(field for field, _ in fields.values())])


_OWN_NAMES = "give the variables, or the columns of RETURN, names of their own"


def unite(parts: Sequence[Part], tags: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return answers one below the other, with the columns of all; columns of other queries are null.

    Cost: linear in the columns of the parts and of the schema. Null columns of one type share their memory,
    so that thousands of queries with columns of their own do not need thousands of times the memory.

    Args:
        parts: rows of answers.
        tags: the name of each query.
        schema: the columns of all answers, as `union_schemas` returns them.
    """
    filled = [(number, table) for number, table in parts if len(table)]
    if not filled:
        return schema.empty_table()
    sizes = [len(table) for _, table in filled]
    total = sum(sizes)
    pieces: dict[str, list[tuple[int, pa.ChunkedArray]]] = defaultdict(list)
    for start, (_, table) in zip(accumulate([0, *sizes]), filled, strict=False):
        for name, column in zip(table.schema.names, table.columns, strict=True):
            pieces[name].append((start, column))

    @cache
    def nulls(type_: pa.DataType) -> pa.Array:
        return pa.nulls(total, type_)

    owners = np.repeat([number for number, _ in filled], sizes)
    columns = [pa.chunked_array([pa.array(tags, pa.string()).take(pa.array(owners))])]
    columns += [_fill(pieces.get(each.name, ()), each.type, total, nulls) for each in list(schema)[1:]]
    return pa.table(columns, schema=schema)


def _fill(
    pieces: Sequence[tuple[int, pa.ChunkedArray]], type_: pa.DataType, total: int, nulls: Nulls
) -> pa.ChunkedArray:
    """Return pieces of a column, each from a given row on, and nulls between them."""
    chunks: list[pa.Array] = []
    end = 0
    for start, column in pieces:
        if start > end:
            chunks.append(nulls(type_).slice(0, start - end))
        chunks += column.chunks
        end = start + len(column)
    if end < total:
        chunks.append(nulls(type_).slice(0, total - end))
    return pa.chunked_array(chunks, type_)
