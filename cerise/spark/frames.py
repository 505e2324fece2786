"""Spark's DataFrames and Arrow's tables: how the schema of one becomes that of the other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from cerise.errors import BindError
from cerise.events import Path


def arrow_schema(events: Any) -> pa.Schema:
    """Return the Arrow schema of a DataFrame or StructType; instants are in UTC."""
    columns = events if isinstance(events, StructType) else events.schema
    fields = []
    for field in columns.fields:
        try:
            fields += list(to_arrow_schema(StructType([field]), timezone="UTC"))
        except Exception as error:  # Spark raises several kinds, by version
            raise BindError(
                f"column '{field.name}' of type {field.dataType.simpleString()} cannot leave Spark",
                hint=f"drop it, or cast it to a string: df.withColumn('{field.name}', …)",
            ) from error
    return pa.schema(fields)


def spark_schema(columns: pa.Schema) -> StructType:
    """Return the Spark schema of a result."""
    return from_arrow_schema(columns)


def quoted(path: Path) -> str:
    """Return a path as Spark reads it, whatever characters its names have."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in path)
