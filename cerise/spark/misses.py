"""Why not, on Spark (M47): the events of a partition are brought to one task, which explains its misses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.functions import expr
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from cerise.engines.misses import rows, sase
from cerise.engines.misses.chosen import CHOSEN, Asked, refuse
from cerise.engines.misses.report import COLUMNS, Misses
from cerise.pattern.bound import Bound
from cerise.pattern.row_pattern import BoundRows
from cerise.spark import batch
from cerise.spark.frames import as_written, quote_name, quoted
from cerise.spark.rows import handed_columns
from cerise.spark.session import parallelism
from cerise.spark.sql import SparkHost, only_clause
from cerise.spark.telling import mapped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def in_statement(spark: SparkSession, text: str, dialect: str, asked: Asked) -> Misses:
    """Return the misses of the one clause of a statement."""
    return of_rows(*only_clause(spark, text, dialect), asked)


def of_rows(frame: DataFrame, bound: BoundRows, asked: Asked) -> Misses:
    """Return the misses of a clause over a DataFrame, lazily."""
    sql = {name: quote_name(name) for name in bound.columns.names}
    sql |= {each.name: each.sql for each in bound.derived}
    names = handed_columns(bound)
    order = [sql[each.column] for each in bound.order]
    gathering = Gathering(
        {sql[name]: pa.field(name, bound.type_of(name)) for name in names},
        tuple(sql[name] for name in bound.partition),
        tuple(dict.fromkeys([*(sql[name] for name in bound.partition), *order])),
        order[0] if order else None,
    )
    return _misses(frame, gathering, MissesTask(bound, gathering.columns, asked), rows.start_columns(bound))


def of_query(frame: DataFrame, bound: Bound, asked: Asked) -> Misses:
    """Return the misses of a SASE+ query over a DataFrame, lazily."""
    if bound.source is not None:
        frame, _ = batch.find(frame, [bound.source], asked.options, scan=None, noted=False)
        bound = replace(bound, source=None)
    schema = bound.schema
    paths = sase.start_paths(bound)
    used = {*bound.needs, *(path[0] for path in paths)}
    gathering = Gathering(
        {quote_name(each.name): each for each in schema.columns if each.name in used},
        tuple(map(quoted, bound.partition)),
        tuple(map(quoted, paths)),
        quote_name(schema.time),
    )
    return _misses(frame, gathering, MissesTask(bound, gathering.columns, asked), sase.start_columns(bound))


@dataclass(frozen=True, slots=True)
class Gathering:
    """How rows come to their task, as SQL over the input.

    Attributes:
        handed: the columns that are handed over, and what they are there.
        partition: what brings rows together; without it all of them go to one task.
        start: the columns that say which event it is.
        moment: when it happened; None: its number says that.
    """

    handed: dict[str, pa.Field]
    partition: tuple[str, ...]
    start: tuple[str, ...]
    moment: str | None

    @property
    def columns(self) -> pa.Schema:
        """What tasks take."""
        return pa.schema(list(self.handed.values()))


def _misses(frame: DataFrame, gathering: Gathering, task: MissesTask, start: tuple[str, ...]) -> Misses:
    asked, spark = task.asked, frame.sparkSession
    keys = [expr(as_written(spark, sql)) for sql in gathering.partition]
    count = asked.options.partitions or parallelism(frame.sparkSession)
    together = frame.repartition(count, *keys) if gathering.partition else frame.repartition(1)
    handed = together.selectExpr(
        *(as_written(spark, f"{sql} AS c{i}") for i, sql in enumerate(gathering.handed)),
        *_chosen(frame, asked),
    )
    found = mapped(handed, task, _schema(frame, gathering, start))
    return Misses(found if asked.limit is None else found.limit(asked.limit), start)


def _chosen(frame: DataFrame, asked: Asked) -> list[str]:
    """Return the column that says which rows are asked about; none where all are."""
    if asked.where is None:
        return []
    if SparkHost(frame).type_of(f"({asked.where})") != pa.bool_():
        raise refuse(asked.where)
    return [as_written(frame.sparkSession, f"coalesce(({asked.where}), false) AS {CHOSEN}")]


def _schema(frame: DataFrame, gathering: Gathering, start: tuple[str, ...]) -> StructType:
    """Return the columns of the table of misses; what comes from the input keeps the type it has there."""
    wanted = [as_written(frame.sparkSession, sql) for sql in gathering.start]
    known = [each.dataType for each in frame.selectExpr(*wanted).schema] if wanted else []
    moment: DataType = LongType()
    if gathering.moment is not None:
        moment = known[gathering.start.index(gathering.moment)]
    types = {**dict.fromkeys(COLUMNS, StringType()), "reached": LongType(), "at": moment}
    fields = [*zip(start, [*known, *([] if gathering.moment else [LongType()])], strict=True), *types.items()]
    return StructType([StructField(name, type_) for name, type_ in fields])


@dataclass(frozen=True, slots=True)
class MissesTask:
    """Explains the misses of the partitions that it is given."""

    bound: BoundRows | Bound
    columns: pa.Schema
    asked: Asked

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the misses."""
        tables = [self._settled(each) for each in batches]
        if not tables:
            return
        table, options, limit = pa.concat_tables(tables), self.asked.options, self.asked.limit
        if isinstance(self.bound, Bound):
            found = sase.sase_misses(self.bound, table, options, limit)
        else:
            found = rows.row_misses(self.bound, table, options, limit)
        yield from found.to_batches()

    def _settled(self, batch: pa.RecordBatch) -> pa.Table:
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(batch.columns, self.columns, strict=False)
        ]
        table = pa.Table.from_arrays(arrays, schema=self.columns)
        more = batch.columns[len(arrays) :]
        return table.append_column(CHOSEN, more[0]) if more else table
