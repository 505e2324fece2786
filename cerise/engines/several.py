"""Several queries over the same events: their matches in one table, each saying of which query it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cerise.engines.base import Options
from cerise.errors import BindError
from cerise.events import Schema
from cerise.pattern.bound import Bound

TAG = "query"  # the column that says which of several queries a match is of


@dataclass(frozen=True, slots=True)
class Queries:
    """What is looked for in one pass over events.

    Attributes:
        bounds: the queries, bound to the same events.
        options: how they are run.
        columns: the columns of their matches together.
        tags: the name of each query; None: there is one only, and no column for it.
    """

    bounds: tuple[Bound, ...]
    options: Options
    columns: pa.Schema
    tags: tuple[str, ...] | None = None

    @classmethod
    def of(cls, bounds: Sequence[Bound], options: Options) -> Queries:
        """Put queries together.

        Raises:
            BindError: a column has one type in one of them and another in another.
        """
        if len(bounds) == 1:
            return cls(tuple(bounds), options, bounds[0].output_schema)
        if any(bound.query.totals is not None for bound in bounds):
            raise BindError(
                "RETURN COUNT(*), or other totals, cannot be one of several queries",
                hint="ask for them on their own: find, or cerise.count",
            )
        names = tuple(bound.query.into or str(number) for number, bound in enumerate(bounds, 1))
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise BindError(f"two queries are named '{twice}'", hint="give them different names after INTO")
        return cls(tuple(bounds), options, _together([bound.output_schema for bound in bounds]), names)

    @property
    def schema(self) -> Schema:
        """Which column plays which part."""
        return self.bounds[0].schema

    def tagged(self, table: pa.Table, number: int) -> pa.Table:
        """Return the matches of one query in the columns of all; those of other queries are null."""
        if self.tags is None:
            return table
        columns = [
            pa.array([self.tags[number]] * len(table), pa.string()) if field.name == TAG
            else table.column(field.name) if field.name in table.schema.names
            else pa.nulls(len(table), field.type)
            for field in self.columns
        ]  # fmt: skip
        return pa.table(columns, schema=self.columns)


def _together(schemas: Sequence[pa.Schema]) -> pa.Schema:
    fields: dict[str, pa.Field] = {TAG: pa.field(TAG, pa.string())}
    for number, schema in enumerate(schemas, 1):
        for field in schema:
            before = fields.setdefault(field.name, field)
            if before.type != field.type or field.name == TAG:
                raise BindError(
                    f"column '{field.name}' is {field.type} in query {number}, and {before.type} before",
                    hint="give the variables, or the columns of RETURN, names of their own",
                )
    return pa.schema(list(fields.values()))
