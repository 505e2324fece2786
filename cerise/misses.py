"""Why not (M47): how far the search got from events that start no match. A verb of its own, for debugging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from cerise.engines.base import Options
from cerise.engines.misses.chosen import Asked, with_chosen
from cerise.engines.misses.report import Misses
from cerise.engines.misses.rows import row_misses
from cerise.engines.misses.rows import start_columns as row_starts
from cerise.engines.misses.sase import sase_misses
from cerise.engines.misses.sase import start_columns as sase_starts
from cerise.engines.run import run as run_here
from cerise.errors import memory_bounds, warn
from cerise.given import (
    AnyQuery,
    Columns,
    Given,
    GivenRows,
    Params,
    Roles,
    asks_sql,
    one,
    reject_roles,
    reject_schema,
)


@memory_bounds()
def explain_misses(
    events: Any,
    query: AnyQuery,
    *,
    where: str | None = None,
    limit: int | None = None,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    dialect: str = "standard",
    options: Options | None = None,
) -> Misses:
    """Say why events start no match: how far the search got from each, and what stopped it there.

    Args:
        events: as in `find`; or a Spark session, with an SQL statement that has one MATCH_RECOGNIZE clause.
        query: SASE+ text, a query written in Python, or SQL with MATCH_RECOGNIZE.
        where: an SQL predicate over columns that chooses the events to explain. Without it these are all
            events that lie in no match; for SASE+, those that could be the first of one.
        limit: how many of them to explain at most; without it more than 1,000 are an error.
        time: as in `find`, and so are `type`, `key`, `order` and `params`.
        type: as in `find`.
        key: as in `find`.
        order: as in `find`.
        params: as in `find`.
        dialect: as in `sql`.
        options: how to run; `max_steps` bounds the search from one event.

    Returns:
        `table`, one row for each event, as a pyarrow Table or a lazy Spark DataFrame; and, printed, text.

    Raises:
        PlanError: there is too much to explain; the error says how to ask for less.
    """
    asked = Asked(where, limit, options or Options())
    roles = Roles(time, type, key, order, params)
    if events.__class__.__name__ == "SparkSession":
        reject_roles(roles)
        from cerise.spark import misses

        return misses.in_statement(events, str(query), dialect, asked)
    if isinstance(events, str | Path):
        from cerise.spark import frames

        events = frames.read(str(events), None, "explain_misses reads files by Spark")
    if asks_sql(query, roles, dialect):
        return _missed_rows(GivenRows.of(events, str(query), options, dialect=dialect), asked)
    return _missed(Given.of(events, query, roles, options), asked)


def _missed_rows(given: GivenRows, asked: Asked) -> Misses:
    if isinstance(given.events, pa.Table):
        table = row_misses(given.bound, with_chosen(given.events, asked.where), asked.options, asked.limit)
        return Misses(table, row_starts(given.bound))
    from cerise.spark import misses

    return misses.of_rows(given.events, given.bound, asked)


def _missed(given: Given, asked: Asked) -> Misses:
    reject_schema(given.events)
    bound = one(given)
    warn(given.warnings(), strict=asked.options.strict)
    if given.on_spark:
        from cerise.spark import misses

        return misses.of_query(given.events, bound, asked)
    table = given.events if bound.source is None else run_here(bound.source, given.events, asked.options)
    table = sase_misses(bound, with_chosen(table, asked.where), asked.options, asked.limit)
    return Misses(table, sase_starts(bound))
