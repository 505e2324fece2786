"""The verbs, each a short pipeline: bind the query to the events, choose how, run. Read this first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from cerise.engines import nfa
from cerise.engines.base import Options, Report
from cerise.engines.choose import choose, reasons
from cerise.engines.nfa.compressed import Compressed
from cerise.engines.progress import drawn
from cerise.engines.rows.run import explained as explained_rows
from cerise.engines.rows.run import run_rows
from cerise.engines.run import absent_types, run_several
from cerise.engines.run import run as run_here
from cerise.errors import UnsupportedError, memory_bounds, warn
from cerise.events import EventBatch
from cerise.given import (
    AnyQuery,
    Columns,
    Given,
    GivenRows,
    Params,
    Roles,
    asks_sql,
    one,
    parse,
    reject_schema,
    require_session,
)
from cerise.pattern.bound import Bound
from cerise.pattern.query import Query, Total, Totals
from cerise.pattern.show import show as show_query
from cerise.plan.explain import describe, plan_facts

LOOKED_THROUGH = 100_000  # of more events the types are looked at only where there is no match

__all__ = [
    "Found",
    "compressed",
    "count",
    "explain",
    "find",
    "parse",
    "run",
    "schema",
    "show",
    "sql",
]


def find(
    events: Any,
    query: AnyQuery | Sequence[AnyQuery],
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    engine: str | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
) -> Any:
    """Find the matches of a query in events.

    Args:
        events: a Spark DataFrame; a path to Parquet files or a Delta table, which Spark's tasks read
            themselves; or any table that speaks Arrow (pyarrow, pandas, Polars, DuckDB), in process.
        query: SASE+ text, or a query written in Python; or a list of queries, which are looked for in one
            pass, their matches tagged in a column `query`: by the INTO name, else by number from 1.
            Or SQL, `SELECT * FROM events MATCH_RECOGNIZE (…)`, which says itself what follows here.
        time: the column that says when an event happened: timestamp, date or integer.
        type: the column that says what kind of event it is, where the pattern names types.
        key: columns that partition the events, as PARTITION BY in the query.
        order: columns that break ties between events of equal time. Without them ties are broken by the
            order of the rows, or in a Spark DataFrame by a hash of the values that the query reads.
        params: values for the query's `:name` parameters.
        engine: the engine to use; Cerise chooses by default.
        options: how to run; see `Options`.
        version: which version of a Delta table; the newest by default.
        dialect: of SQL, as in `sql`.

    Returns:
        A lazy Spark DataFrame for a Spark DataFrame or a path, else a pyarrow Table; `schema` tells its
        columns.

    Raises:
        ParseError, BindError: the query is wrong, or does not fit the events.
        StoreError: the files cannot be read.
    """
    roles = Roles(time, type, key, order, params)
    if asks_sql(query, roles, dialect):
        given = GivenRows.of(events, str(query), options, engine, version, dialect)
        return _matched(given, noted=False).matches
    return _found(Given.of(events, query, roles, options, engine, version), noted=False).matches


def _matched(given: GivenRows, *, noted: bool) -> Found:
    if isinstance(given.events, pa.Table):
        report = Report()
        with memory_bounds(), drawn("matching") as progress:
            matches = run_rows(given.bound, given.events, given.options, report, progress)
        return Found(matches, report if noted else None)
    from cerise.spark import rows

    return Found(*rows.found(given.events, given.bound, given.options, noted=noted))


def sql(spark: Any, text: str, *, dialect: str = "standard", options: Options | None = None) -> Any:
    """Run an SQL statement in which tables may carry MATCH_RECOGNIZE clauses.

    Args:
        spark: the session whose tables and views the statement names.
        text: any statement of Spark SQL; one without MATCH_RECOGNIZE is passed on unchanged.
        dialect: whose defaults clauses have: "standard", or "flink" (SKIP TO NEXT ROW, WITHIN exclusive).
        options: how to run; see `Options`.

    Returns:
        A lazy Spark DataFrame. The types of measures are those that Spark gives the same expressions.

    Raises:
        ParseError, BindError: the statement is wrong; the error points into it.
    """
    require_session(spark)
    from cerise.spark import sql as statements

    return statements.sql(spark, text, dialect, options or Options())


def run(
    events: Any,
    query: AnyQuery | Sequence[AnyQuery],
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    engine: str | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
) -> Found:
    """Find the matches of a query, and keep account of what is done. Takes what `find` takes.

    Returns:
        `matches`, what `find` returns; and `report`, the figures. On Spark nothing has run yet, and the
        report fills with the first action on the matches.
    """
    roles = Roles(time, type, key, order, params)
    if asks_sql(query, roles, dialect):
        given = GivenRows.of(events, str(query), options, engine, version, dialect)
        return _matched(given, noted=True)
    return _found(Given.of(events, query, roles, options, engine, version), noted=True)


def count(
    events: Any,
    query: AnyQuery,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    engine: str | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
) -> int:
    """Count the matches of a query without making them, as RETURN COUNT(*) does. Takes what `find` takes.

    The count is exact, however large. Of SQL the rows of the result are counted.
    """
    roles = Roles(time, type, key, order, params)
    if asks_sql(query, roles, dialect):
        found = find(events, query, options=options, engine=engine, version=version, dialect=dialect)
        return len(found) if isinstance(found, pa.Table) else int(found.count())
    given = Given.of(events, counting(query), roles, options, engine, version)
    bound = one(given)
    if not given.on_spark:
        return int(Decimal(_found(given, noted=False).matches.column(0)[0].as_py()))
    from cerise.spark import batch

    reject_schema(given.events)
    warn(given.warnings(), strict=given.options.strict)
    return batch.count(given.events, bound, given.options, scan=given.scan)


@dataclass(frozen=True, slots=True)
class Found:
    """Matches, and an account of how they were found.

    Attributes:
        matches: what `find` returns.
        report: the figures; `print(report)` shows them, `report.figures` has them by name.
    """

    matches: Any
    report: Any


def _found(given: Given, *, noted: bool) -> Found:
    reject_schema(given.events)
    said = given.warnings()
    if given.on_spark:
        from cerise.spark import batch

        warn(said, strict=given.options.strict)
        return Found(*batch.find(given.events, given.bounds, given.options, scan=given.scan, noted=noted))
    later = len(given.events) > LOOKED_THROUGH and not given.options.strict
    warn(said if later else [*said, *_absent(given)], strict=given.options.strict)
    report = Report()
    run_all = run_several if len(given.bounds) > 1 else lambda bounds, *rest: run_here(bounds[0], *rest)
    with memory_bounds():
        matches = run_all(given.bounds, given.events, given.options, report)
    if later and not report.matches:
        warn(_absent(given), strict=given.options.strict)
    return Found(matches, report if noted else None)


def _absent(given: Given) -> list[str]:
    """Say which types no event has."""
    return [text for bound in given.bounds for text in absent_types(bound, given.events)]


def compressed(
    events: Any,
    query: AnyQuery,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    options: Options | None = None,
) -> Compressed:
    """Find the matches of a query, and return them as the shared buffer that holds them.

    Where a Kleene variable under skip_till_any_match has exponentially many matches, this stays small: it
    counts them without spelling any, and spells them one by one when iterated over. Takes what `find`
    takes, in process only.

    Returns:
        A value with `count()`, `events` (a table) and an iterator of matches: for each variable the rows of
        `events` that it binds. It pickles.
    """
    given = Given.of(events, query, Roles(time, type, key, order, params), options)
    if not isinstance(given.events, pa.Table):
        raise UnsupportedError(
            "compressed matches are made in this process", hint="give an Arrow table, or use find"
        )
    bound, table = one(given), given.events
    warn(given.warnings(), strict=given.options.strict)
    if bound.source is not None:
        table = run_here(bound.source, table, given.options)
    if bound.query.totals is not None:
        raise UnsupportedError(
            "RETURN COUNT(*), or other totals, have no matches to compress", hint="leave RETURN out"
        )
    engine = nfa.ENGINES["nfa-merge"]
    if (reason := engine.why_not(bound)) is not None:
        raise UnsupportedError(f"the matches cannot be compressed: {reason}", hint="use find")
    with memory_bounds():
        return engine.compress(bound, EventBatch.of(table, bound.schema, reads=bound.ties), given.options)


def schema(
    query: AnyQuery,
    events: Any,
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    params: Params | None = None,
    dialect: str = "standard",
) -> Any:
    """Return the schema that the matches of a query will have, without running it.

    Args:
        query: SASE+ text, a query written in Python, or SQL.
        events: what `find` takes, or only its schema: a pyarrow Schema or a Spark StructType.
        time: as in `find`.
        type: as in `find`.
        key: as in `find`.
        params: as in `find`.
        dialect: as in `find`.

    Returns:
        A Spark StructType where events are Spark's, else a pyarrow Schema.
    """
    roles = Roles(time, type, key, params=params)
    if asks_sql(query, roles, dialect):
        found = find(_without_rows(events), query, dialect=dialect)
        return found.schema
    given = Given.of(events, query, roles)
    if given.on_spark:
        from cerise.spark import frames

        return frames.result_schema(one(given), given.events)
    return one(given).output_schema


def _without_rows(events: Any) -> Any:
    """Return a table of no rows for a schema, so that what needs no rows can be asked of it."""
    if isinstance(events, pa.Schema):
        return events.empty_table()
    return events.slice(0, 0) if isinstance(events, pa.Table) else events


def explain(
    events: Any,
    query: AnyQuery | Sequence[AnyQuery],
    *,
    time: str | None = None,
    type: str | None = None,
    key: Columns = (),
    order: Columns = (),
    params: Params | None = None,
    engine: str | None = None,
    options: Options | None = None,
    version: int | None = None,
    dialect: str = "standard",
) -> str:
    """Say how a query would be run: what it means, what is read, left out and exchanged, by which engine.

    Takes what `find` takes, and runs nothing; of files only the footers are read.
    """
    roles = Roles(time, type, key, order, params)
    if asks_sql(query, roles, dialect):
        return _explained_rows(GivenRows.of(events, str(query), options, engine, version, dialect))
    given = Given.of(events, query, roles, options, engine, version)
    return "\n\n".join(_explained(given, bound) for bound in given.bounds)


def _explained(given: Given, bound: Bound) -> str:
    options = given.options
    facts = {
        **_where(given, bound),
        "engine": f"{choose(bound, options).name} ({reasons(bound, options)})",
        **_totals(bound),
        **choose(bound, options).explain(bound),
        "options": ", ".join(
            f"{name}={getattr(options, name)}" for name in options.__slots__ if name != "limits"
        ),
    }
    return describe(bound, facts)


def _totals(bound: Bound) -> dict[str, str]:
    """Say how totals come about; an engine that has a better way says so itself."""
    if bound.query.totals is None:
        return {}
    how = "matches are counted" if bound.query.counts_only else "each match is added as it is found"
    return {"totals": f"{how}, none is kept"}


def _explained_rows(given: GivenRows) -> str:
    if isinstance(given.events, pa.Table):
        facts = {"runs": "in this process", **explained_rows(given.bound, given.options)}
    else:
        from cerise.spark import rows

        slices = rows.explained(given.events, given.bound, given.options)
        facts = {"runs": "on Spark", **explained_rows(given.bound, given.options, slices)}
    return "\n".join(f"{name:<10} {text}" for name, text in facts.items())


def _where(given: Given, bound: Bound) -> dict[str, str]:
    if not given.on_spark:
        return {"runs": "in this process"}
    if given.events.__class__.__name__ == "StructType":
        return {"runs": "on Spark"}
    from cerise.spark import batch

    if bound.source is not None:
        return {"runs": "on Spark, over the matches of the query before it"}
    plan = batch.plan_of(given.events, given.bounds, given.options, given.scan)
    return {"runs": "on Spark", **plan_facts(plan)}


def show(query: AnyQuery) -> str:
    """Return the text of a query, one clause a line."""
    return show_query(parse(query))


def counting(query: AnyQuery) -> Query:
    """Return a query that counts the matches of another, as text: there is no largest number."""
    return replace(parse(query), returns=Totals((Total("count", None, "count", text=True),)))
