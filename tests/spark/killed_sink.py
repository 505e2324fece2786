"""A program for tests: a stream into a table, whose driver kills itself at a step of a batch.

python killed_sink.py READER SOURCE TABLE CHECKPOINT STEP BATCH       STEP "none": it runs to its end
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import cerise
from cerise.store.table import failpoints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

reads, source, table, checkpoint, step, at = sys.argv[1:]
spark = cerise.session(cores=2, memory="1g", spark_sql_shuffle_partitions=2)
write = cerise.into(table)


def write_or_die(batch: DataFrame, number: int) -> None:
    def die(passed: str) -> None:
        if passed == step and number == int(at):
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.hook = die
    write(batch.repartition(2), number)


by_spark = spark.readStream.schema("id bigint, t bigint, kind string").option("maxFilesPerTrigger", 1)
events = by_spark.parquet(source) if reads == "spark" else cerise.stream(source, max_rows=1, spark=spark)
writer = events.writeStream.foreachBatch(write_or_die).option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
spark.stop()
