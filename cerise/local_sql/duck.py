"""DuckDB in this process, shut off from files and networks; the only module that imports duckdb."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from cerise.errors import BindError, DataError, PlanError, UnsupportedError
from cerise.local_sql.relations import LocalQuery
from cerise.local_sql.values import operators, scalar_functions
from cerise.local_sql.values.value_types import IN_SPARK, result_table

if TYPE_CHECKING:
    import duckdb

INSTALL = "pip install 'cerise-spark[sql]'; or run the statement by cerise.sql(spark, …)"
SETTINGS = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}
OURS = "Invalid Input Error: "


def require_duckdb() -> None:
    """Refuse to go on without DuckDB.

    Raises:
        PlanError: it is not installed.
    """
    try:
        import duckdb  # noqa: F401
    except ImportError:
        raise PlanError(
            "SQL around MATCH_RECOGNIZE needs DuckDB, which is not installed", hint=INSTALL
        ) from None


def run(found: LocalQuery, columns: pa.Schema, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run a query over tables, which it names by the keys of the mapping.

    Raises:
        DataError: a value cannot be computed.
        UnsupportedError: DuckDB does not run the query.
    """
    import duckdb

    connection = _database(os.getpid()).cursor()
    try:
        for name, table in tables.items():
            connection.register(name, table)
        return result_table(connection.sql(found.sql).to_arrow_table(), columns)
    except (duckdb.DataError, duckdb.OutOfRangeException, duckdb.ConversionException) as error:
        raise _data_error(error) from None
    except duckdb.InvalidInputException as error:
        raise _data_error(error) from None
    except duckdb.OutOfMemoryException as error:
        raise PlanError(
            f"the SQL around the clause needs more memory: {_line(error)}", hint=IN_SPARK
        ) from None
    except duckdb.Error as error:
        if "GROUP BY" in str(error):
            raise BindError(
                "a column is neither in GROUP BY nor in an aggregate",
                hint="group by it, or write any_value(x)",
            ) from None
        raise UnsupportedError(f"DuckDB does not run the statement: {_line(error)}", hint=IN_SPARK) from None
    finally:
        connection.close()


def _data_error(error: Exception) -> DataError:
    return DataError(
        f"a value of the statement cannot be computed: {_line(error)}",
        hint="exclude the rows with WHERE or CASE",
    )


def _line(error: Exception) -> str:
    return (str(error).removeprefix(OURS).splitlines() or [""])[0]


@lru_cache(maxsize=1)
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """Return the database of a process; a child that is forked off has its own."""
    import duckdb

    folder = str(Path(tempfile.gettempdir(), f"cerise-duckdb-{process}"))
    database = duckdb.connect(":memory:", config={**SETTINGS, "temp_directory": folder})
    database.create_function("_upper_of_any", str.upper, ["VARCHAR"], "VARCHAR")
    database.create_function("_lower_of_any", str.lower, ["VARCHAR"], "VARCHAR")
    database.create_function("_round_as_written", _round_as_written, ["DOUBLE", "INTEGER"], "DOUBLE")
    atexit.register(_close, database, process)  # else its Python functions outlive the interpreter
    for each in (operators.MACROS, scalar_functions.MACROS):
        database.execute(each)
    return database


def _close(database: duckdb.DuckDBPyConnection, process: int) -> None:
    if process == os.getpid():
        _database.cache_clear()
        database.close()


def _round_as_written(value: float, scale: int) -> float:
    """Round the shortest decimal that names a double, half up, as Spark does."""
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)) + 0.0
