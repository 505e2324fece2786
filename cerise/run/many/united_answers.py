"""Answers to several queries in one table: the columns of all, and a column that names the query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cache
from itertools import accumulate
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cerise.errors import BindError, DataError
from cerise.kinds import INT64_MAX
from cerise.run.many.query_names import show_name

TAG = "query"  # the column that names the query of a match
DIGITS = len(str(INT64_MAX))
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


def split(table: pa.Table, tags: Sequence[str], schemas: Sequence[pa.Schema]) -> list[Part]:
    """Return the answers that `unite` has put into one table, in the order of the queries.

    Cost: a sort of the rows, if those of a query are not together.

    Args:
        table: the answers, with the column that names the query.
        tags: the name of each query.
        schemas: the columns of each answer.

    >>> both = pa.table({"query": ["b", "a", "b"], "x": [1, 2, 3]})
    >>> [(number, part["x"].to_pylist()) for number, part in split(both, ["a", "b"], [both.schema] * 2)]
    [(0, [2]), (1, [1, 3])]
    """
    owners = pc.index_in(table.column(TAG), pa.array(tags, pa.string())).to_numpy()
    if np.any(owners[1:] < owners[:-1]):
        order = np.argsort(owners, kind="stable")
        owners, table = owners[order], table.take(pa.array(order))
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    ends = np.append(starts, len(owners))[1:]
    return [
        (int(owners[start]), table.select(schemas[owners[start]].names).slice(start, end - start))
        for start, end in zip(starts, ends, strict=True)
    ]


def stack(
    tables: Iterable[pa.Table], tags: Sequence[str], schemas: Sequence[pa.Schema], columns: pa.Schema
) -> pa.Table:
    """Return several tables that `unite` has made as one, in the order of the queries.

    Args:
        tables: the tables.
        tags: the name of each query.
        schemas: the columns of each answer.
        columns: the columns of all answers.
    """
    parts = [part for table in tables for part in split(table, tags, schemas)]
    return unite(sorted(parts, key=itemgetter(0)), tags, columns)


def list_counts(found: pa.Table, tags: Sequence[str]) -> pa.Table:
    """Return the name of each query and its count, in the order of the queries.

    Args:
        found: for each query its name, and its count as text.
        tags: the name of each query.

    >>> list_counts(pa.table({"query": ["b", "a"], "count": ["2", "0"]}), ["a", "b"]).to_pylist()
    [{'query': 'a', 'count': 0}, {'query': 'b', 'count': 2}]

    Raises:
        DataError: a count does not fit into 64 bits.
    """
    known = dict(zip(found[TAG].to_pylist(), found["count"].to_pylist(), strict=True))
    for name in tags:
        if len(known[name]) >= DIGITS and Decimal(known[name]) > INT64_MAX:
            raise DataError(
                f"{show_name(name)} has about {Decimal(known[name]):.3g} matches, more than 64 bits hold",
                hint="count it alone: the count of one query has any number of digits",
            )
    counts = [int(known[name]) for name in tags]
    return pa.table({TAG: pa.array(tags, pa.string()), "count": pa.array(counts, pa.int64())})
