"""DataFrames of Spark: their schemas as Arrow schemas and back, their names in SQL, the files behind them."""

from __future__ import annotations

from inspect import signature
from pathlib import Path as LocalPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from cerise.errors import BindError, CeriseError, StoreError, UnsupportedError
from cerise.events import Path
from cerise.files.lake import Lake, NotDirect, open_lake
from cerise.kinds import plain_schema
from cerise.pattern.bound import Bound, OutColumn
from cerise.pattern.expr import Attr
from cerise.pattern.query import Total, Var

IGNORING = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")
LAKE = "_cerise_lake"  # the attribute of a DataFrame that holds the lake files or topic behind a stream
DOLLAR = "cerise.dollar"  # a setting whose value is a dollar sign
# Spark 4.0 always uses UTC, and has no such argument.
UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


def read(path: str, version: int | None, reason: str) -> DataFrame:
    """Return files that Python cannot read as a DataFrame.

    Args:
        path: the path of the files.
        version: the version of a Delta table; None: the newest.
        reason: why Python cannot read them.
    """
    from cerise.spark.session import session

    reader = session().read
    is_delta = (LocalPath(path) / "_delta_log").is_dir()
    if version is not None:
        reader = reader.option("versionAsOf", version)
    try:
        return reader.format("delta" if is_delta else "parquet").load(path)
    except (PySparkException, Py4JError) as error:
        first = next((line for line in str(error).splitlines() if "Exception" in line or "[" in line), "")
        raise StoreError(
            f"{reason.splitlines()[0]}; and Spark cannot read it either: {first}",
            hint="start Spark with its Delta package, or give a table that Python can read"
            if is_delta else "give a path that Spark or Python can open",
        ) from error  # fmt: skip


def first_values(events: DataFrame, column: str, rows: int) -> set[Any]:
    """Return the values of a column in the first rows of a DataFrame. Runs a small job."""
    seen = events.select(events[quote_name(column)].alias("value")).limit(rows).toArrow()
    return set(seen.column(0).to_pylist())


def arrow_schema(events: Any, *, streams: bool = False) -> pa.Schema:
    """Return the Arrow schema of a DataFrame or StructType; instants are in UTC.

    Args:
        events: the DataFrame or StructType.
        streams: whether a streaming DataFrame is allowed.
    """
    columns = events if isinstance(events, StructType) else getattr(events, "schema", None)
    if not isinstance(columns, StructType):
        name = events.__class__.__name__
        raise UnsupportedError(f"a {name} is not a Spark DataFrame", hint="give a pyspark.sql.DataFrame")
    if not streams:
        reject_stream(events)
    _reject_alike(columns, events)
    fields = []
    for field in columns.fields:
        try:
            fields += list(to_arrow_schema(StructType([field]), **UTC))
        except PySparkTypeError as error:
            raise BindError(
                f"column '{field.name}' of type {field.dataType.simpleString()} cannot leave Spark",
                hint=f"drop it, or cast it to a string: df.withColumn('{field.name}', …)",
            ) from error
    return plain_schema(pa.schema(fields))


def reject_stream(events: Any) -> None:
    """Refuse a stream: each micro-batch would be searched alone, and matches across batches lost."""
    if getattr(events, "isStreaming", False):
        raise UnsupportedError(
            "a streaming DataFrame has no end, at which this verb could answer",
            hint="use cerise.watch(stream, query, delay=…), which answers while events come",
        )


def _reject_alike(columns: StructType, events: Any) -> None:
    """Refuse columns that differ only in case, unless Spark is set to distinguish case."""
    if isinstance(events, StructType) or events.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return
    seen: dict[str, str] = {}
    for name in columns.names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise BindError(
                f"Spark cannot tell the columns '{other}' and '{name}' apart", hint="rename one of them"
            )


def result_schema(bound: Bound, events: Any) -> StructType:
    """Return the Spark schema of a result; columns of the events keep their Spark types.

    Args:
        bound: the query.
        events: the events that the innermost query reads: a DataFrame, or its schema.
    """
    columns = events if isinstance(events, StructType) else _spark_schema(events)
    if bound.source is not None:
        columns = result_schema(bound.source, columns)
    computed = from_arrow_schema(bound.output_schema)
    return StructType([_field(*each, columns) for each in zip(bound.columns, computed.fields, strict=True)])


def _spark_schema(events: Any) -> StructType:
    return from_arrow_schema(events.columns) if isinstance(events.columns, pa.Schema) else events.schema


def _field(column: OutColumn, computed: StructField, events: StructType) -> StructField:
    match column.fill:
        case Var():
            event = StructType(
                [StructField(each.name, each.dataType, True, each.metadata) for each in events]
            )
            return StructField(column.name, ArrayType(event) if column.many else event)
        case Attr(path=path) if column.kind is None:
            found = _type_at(events, path)
            return StructField(column.name, ArrayType(found) if column.many else found)
        case tuple() as path:
            return StructField(column.name, _type_at(events, path))
        case Total(function="count"):
            return StructField(column.name, computed.dataType, nullable=False)
        case Total(function="min" | "max", arg=Attr(path=path)):
            return StructField(column.name, _type_at(events, path))
    return computed


def _type_at(events: DataType, path: Path) -> DataType:
    for name in path:
        assert isinstance(events, StructType)
        events = events[name].dataType
    return events


def column(path: Path) -> Column:
    """Return an attribute as a Spark column; its names may have any characters."""
    return col(quote_path(path))


def as_written(spark: Any, text: str) -> str:
    """Escape `${…}` in SQL, which Spark would replace by settings and variables.

    Spark replaces `${cerise.dollar}` by a dollar sign, and does not expand the resulting `${…}` again.
    """
    if "${" not in text or spark.conf.get("spark.sql.variable.substitute") == "false":
        return text
    spark.conf.set(DOLLAR, "$")
    return text.replace("${", f"${{{DOLLAR}}}{{")


def quote_path(path: Path) -> str:
    """Return a path as Spark SQL; its names may have any characters."""
    return ".".join(map(quote_name, path))


def quote_name(name: str) -> str:
    """Return a name in backticks."""
    return f"`{name.replace('`', '``')}`"


# ---- DataFrames that are only Parquet files: tasks read the files


def lake_behind(frame: DataFrame) -> Lake | None:
    """Return the files of a DataFrame that is exactly their rows and columns; None for other DataFrames.

    Only local files that Cerise reads as Spark does: without options, hive partitions, or rows in a cache.
    """
    java = getattr(frame, "_jdf", None)  # None on Connect
    root = None if java is None or frame.isStreaming else _root(java.queryExecution())
    if root is None or any(frame.sparkSession.conf.get(name) == "true" for name in IGNORING):
        return None
    try:
        lake = open_lake(root)
    except (NotDirect, CeriseError):  # Spark reads them, or raises the error
        return None
    same_as_spark = (
        {file.path for file in lake.files} == {unquote(urlsplit(each).path) for each in frame.inputFiles()}
        and not any(file.deleted or file.hive for file in lake.files)
        and _types(arrow_schema(frame)) == _types(lake.columns)
    )
    return lake if same_as_spark else None


def _root(execution: Any) -> str | None:
    """Return the only path that a plan reads, if the plan only reads Parquet; None for other plans."""
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


def _types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]
