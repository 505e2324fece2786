"""DataFrames that are nothing but Parquet files: tasks read these themselves, no row passes through Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from cerise.errors import CeriseError
from cerise.files.lake import Lake, NotDirect, open_lake
from cerise.spark.frames import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IGNORING = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")


def lake_behind(frame: DataFrame) -> Lake | None:
    """Return the files whose rows and columns a DataFrame has, all and as they are; None: it is not so.

    Only local files that Cerise reads as Spark does: without options, hive partitions, or rows in a cache.
    """
    java = getattr(frame, "_jdf", None)  # there is none on Connect
    root = None if java is None or frame.isStreaming else _root(java.queryExecution())
    if root is None or any(frame.sparkSession.conf.get(name) == "true" for name in IGNORING):
        return None
    try:
        lake = open_lake(root)
    except (NotDirect, CeriseError):  # Spark may still read them, or say what is wrong
        return None
    as_spark_sees_it = (
        {file.path for file in lake.files} == {unquote(urlsplit(each).path) for each in frame.inputFiles()}
        and not any(file.deleted or file.hive for file in lake.files)
        and _columns(arrow_schema(frame)) == _columns(lake.columns)
    )
    return lake if as_spark_sees_it else None


def _root(execution: Any) -> str | None:
    """Return the one path that a plan reads as Parquet, if that is all it does."""
    plan = execution.optimizedPlan()
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return None
    relation = plan.relation()
    if "InMemoryRelation" in execution.withCachedData().toString():
        return None
    if relation.getClass().getSimpleName() != "HadoopFsRelation" or str(relation.fileFormat()) != "Parquet":
        return None
    roots = relation.location().rootPaths()
    if roots.size() != 1 or relation.partitionSchema().length():
        return None
    if relation.options().removed("path").size():
        return None
    uri = roots.head().toUri()
    return str(uri.getPath()) if uri.getScheme() in (None, "file") else None


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]
