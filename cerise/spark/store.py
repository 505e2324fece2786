"""Appends to an event store by Spark: tasks write files, each for a range of times."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from pyspark.sql.types import BinaryType, StructField, StructType

from cerise.spark.frames import arrow_schema, column
from cerise.spark.progress import progress
from cerise.spark.task_errors import map_batches, translate_errors
from cerise.spark.tasks import WriteTask
from cerise.store.table.column_types import check
from cerise.store.table.event_table import EventTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITTEN = StructType([StructField("written", BinaryType())])


def append(table: EventTable, events: DataFrame) -> int:
    """Append the events of a DataFrame, as one version: tasks write files, each for a range of times.

    Raises:
        StoreError: the columns differ from those of the table.
        DataError: an event has no time, or a value does not fit.
    """
    columns = arrow_schema(events)
    check(columns, table.columns)
    spread = events.repartitionByRange(column((table.settings.time,)))
    task = WriteTask(table.writing, table.next_append())
    with progress(events.sparkSession, "appending"), translate_errors():
        written = map_batches(spread, task, WRITTEN, columns.names).toArrow()
    return table.commit_pieces([pickle.loads(each) for each in written.column(0).to_pylist()])
