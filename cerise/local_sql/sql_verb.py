"""The verb `sql`: statements with MATCH_RECOGNIZE, over given tables in this process or in Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from cerise.engines.base import Options
from cerise.errors import BindError, UnsupportedError
from cerise.kinds import common_library, in_library
from cerise.run.access import TableSource
from cerise.sources import FilesSource, How, StoreSource, is_spark, require_session, source_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from cerise.local_sql.local_statement import GivenTable


@overload
def sql(
    spark: SparkSession, text: str, /, *, dialect: str = "standard", options: Options | None = None
) -> DataFrame: ...


@overload
def sql(
    text: str, /, *, dialect: str = "standard", options: Options | None = None, **tables: pd.DataFrame
) -> pd.DataFrame: ...


@overload
def sql(
    text: str, /, *, dialect: str = "standard", options: Options | None = None, **tables: pl.DataFrame
) -> pl.DataFrame: ...


@overload
def sql(
    text: str,
    /,
    *,
    dialect: str = "standard",
    options: Options | None = None,
    tables: Mapping[str, Any] | None = None,
    **named: Any,
) -> Any: ...


def sql(
    first: Any,
    text: str | None = None,
    /,
    *,
    dialect: str = "standard",
    options: Options | None = None,
    tables: Mapping[str, Any] | None = None,
    **named: Any,
) -> Any:
    """Run an SQL statement in which tables may carry MATCH_RECOGNIZE clauses.

    In this process: `sql("SELECT … FROM t …", t=table)`. Cerise answers the clauses, DuckDB all that is
    around them (`pip install 'cerise-spark[sql]'`). The SQL is Spark's, with its types, nulls and errors;
    what DuckDB would compute otherwise is refused. On Spark: `sql(spark, "SELECT …")`.

    Args:
        first: the statement, a query that starts with SELECT or WITH; or the Spark session whose tables and
            views the statement names, any statement of Spark SQL.
        text: the statement, if a session comes first.
        dialect: whose defaults clauses have: "standard", or "flink" (SKIP TO NEXT ROW, WITHIN exclusive).
        options: how to run; see `Options`.
        tables: the tables that the statement may name, by name: pyarrow, pandas or Polars tables, DuckDB
            results, lists of dicts, paths of Parquet, Delta, CSV or JSON, stores.
        named: more such tables, each under the name of its keyword.

    Returns:
        A table of the kind that all given tables have: pandas, Polars, a list of dicts; else a pyarrow
        Table. With a session a lazy Spark DataFrame. A column has the type that Spark gives its expression.

    Raises:
        ParseError, BindError: the statement is wrong; the error points into it, and nothing has run.
        UnsupportedError: only Spark can run the statement.
        PlanError: DuckDB is not installed.

    Example:
        >>> prices = pa.table({"t": [1, 2, 3, 4], "price": [10, 8, 7, 9]})
        >>> falls = "ORDER BY t MEASURES COUNT(*) AS n PATTERN (D+) DEFINE D AS price < PREV(price)"
        >>> clause = f"MATCH_RECOGNIZE ({falls})"
        >>> sql(f"SELECT n * 2 AS twice FROM prices {clause} WHERE n > 1", prices=prices).to_pylist()
        [{'twice': 4}]
    """
    given = {**(tables or {}), **named}
    if not isinstance(first, str) or text is not None:
        require_session(first)
        if given:
            raise UnsupportedError(
                "tables stand beside a Spark session, which has its own",
                hint="make each a view: frame.createOrReplaceTempView('t'); or leave the session out",
            )
        from cerise.spark import sql as statements

        return statements.sql(first, text or "", dialect, options or Options())
    from cerise.local_sql import local_statement

    found = local_statement.run(first, read_tables(given), dialect, options or Options())
    return in_library(found, common_library(given.values()))


def read_tables(given: Mapping[str, Any]) -> dict[str, GivenTable]:
    """Return tables as a statement in this process reads them.

    Raises:
        BindError: two names differ in case only.
        UnsupportedError: one is not a table, or is a table of Spark.
    """
    seen: dict[str, str] = {}
    for name in given:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise BindError(
                f"the tables '{other}' and '{name}' have one name",
                hint="case does not tell names apart: rename one",
            )
    return {name: _table_of(name, each) for name, each in given.items()}


def _table_of(name: str, given: Any) -> GivenTable:
    from cerise.local_sql import local_statement

    if is_spark(given):
        raise UnsupportedError(
            f"the table '{name}' is a DataFrame of Spark",
            hint="df.createOrReplaceTempView('t'), then cerise.sql(df.sparkSession, '… FROM t …')",
        )
    source, _ = source_of(given, How())
    if isinstance(source, TableSource):
        return local_statement.hold(source.table)
    assert isinstance(source, FilesSource | StoreSource)
    lake = source.lake if isinstance(source, FilesSource) else source.view.lake
    return local_statement.GivenTable(source, partial(_read_lake, lake, source.columns))


def _read_lake(lake: Any, columns: pa.Schema) -> pa.Table:
    """Return all rows of files, in the order of their arrival."""
    from cerise.files.reader import Reading
    from cerise.files.scan import ROW, Scan

    reading = Reading(lake.root, dict(enumerate(lake.files)), columns, tuple(columns.names))
    parts = [each.drop_columns([ROW]) for each in Scan(reading, lake.list_groups()).rows()]
    return pa.concat_tables(parts).unify_dictionaries() if parts else columns.empty_table()
