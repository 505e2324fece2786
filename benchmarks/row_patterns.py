"""Subjects for MATCH_RECOGNIZE: in process, on Spark, the search alone, and reading alone.

The text of a query is `SELECT * FROM events MATCH_RECOGNIZE (…)`, which says itself what is time and key.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from binding import Work
from matching import mix
from on_spark import only_read, session

PROCESS = ("engine", "threads", "max_steps")  # of cerise.Options
SPARK = ("engine", "partitions", "max_steps")
EVENTS = "events"  # what queries call their table


def process(work: Work) -> Callable[[], Any]:
    """`cerise.find` on a table in memory, in this process."""
    import pyarrow.parquet as pq

    import cerise

    table, options = pq.read_table(work["path"]), cerise.Options(**work["options"])
    return lambda: cerise.find(table, work["query"]["text"], options=options)


def engine(work: Work) -> Callable[[], int]:
    """Only the search: the rows are sorted and in partitions, the clause is compiled; one thread."""
    import pyarrow.parquet as pq

    from cerise.engines.base import Options
    from cerise.engines.results.value_codes import partitions
    from cerise.engines.rows.engine import find_matches
    from cerise.engines.rows.prepare import prepare
    from cerise.engines.rows.program import compile_rows
    from cerise.lang.match_recognize import bind_rows, parse_alone

    table = pq.read_table(work["path"]).combine_chunks()
    bound = bind_rows(parse_alone(work["query"]["text"]), table.schema)
    program, prepared = compile_rows(bound), prepare(bound, table)
    offsets, options = partitions(bound, prepared), Options(**work["options"])
    return lambda: sum(len(some.starts) for some in find_matches(program, prepared, offsets, options))


def lake(work: Work) -> Callable[[], int]:
    """`cerise.find` on the path of the file, rows counted by Spark."""
    find = _finder(work)
    return lambda: int(find().count())


def lake_write(work: Work) -> Callable[[], Path]:
    """`cerise.find` on the path of the file, until its rows are written as Parquet."""
    find, folder = _finder(work), tempfile.TemporaryDirectory(prefix="cerise-bench-")
    paths = (Path(folder.name, str(number)) for number in count())

    def call(_keep: Any = folder) -> Path:  # what is written goes away with the call
        path = next(paths)
        find().write.parquet(str(path))
        return path

    return call


def sql(work: Work) -> Callable[[], int]:
    """`cerise.sql` with a count(*) around the clause, over a view of the file that Spark reads."""
    import cerise

    spark, options = session(work), _options(work)
    spark.read.parquet(work["path"]).createOrReplaceTempView(EVENTS)
    text = work["query"]["text"].replace("SELECT *", "SELECT count(*)", 1)
    return lambda: int(cerise.sql(spark, text, options=options).collect()[0][0])


def scan(work: Work) -> Callable[[], int]:
    """Read the columns of the query in as many tasks as there are for reading, with pyarrow; nothing else.

    Strings are read as codes, which is faster than as strings: this is the least that it can take.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    spark, names = session(work), columns(work)
    file = pq.ParquetFile(work["path"])
    coded = [name for name in names if pa.types.is_string(file.schema_arrow.field(name).type)]
    tasks = 2 * spark.sparkContext.defaultParallelism
    groups = [(work["path"], number) for number in range(file.num_row_groups)]
    cuts = [len(groups) * number // tasks for number in range(tasks + 1)]
    portions = [groups[a:b] for a, b in pairwise(cuts) if a < b]
    return only_read(spark, portions, names, coded)


def read(work: Work) -> Callable[[], Any]:
    """Read the columns of the query into an Arrow table, in this process."""
    import pyarrow.parquet as pq

    names, threads = columns(work), work["options"].get("threads", True)
    return lambda: pq.read_table(work["path"], columns=names, use_threads=threads)


def columns(work: Work) -> list[str]:
    """Return the columns that a query names; all of them, where it shows the rows of its matches."""
    from streams import SCHEMAS

    text, names = work["query"]["text"], SCHEMAS[work["data"]["generator"]].names
    return [name for name in names if "ALL ROWS" in text or re.search(rf"\b{name}\b", text)]


def found(table: Any) -> tuple[str, list[int]]:
    """Return a hash of each row of a result, whoever computed it."""
    import numpy as np

    words = np.zeros(len(table), np.uint64)
    for column in table.columns:
        words = mix(words * np.uint64(31) + _words(column))
    return "row hash", words.tolist()


def written(folder: Path) -> tuple[str, list[int]]:
    """Return the same of rows that were written, and remove them."""
    import pyarrow.parquet as pq

    hashes = found(pq.read_table(folder))
    shutil.rmtree(folder)
    return hashes


def counted(rows: int) -> tuple[str, int]:
    """Return the number of rows."""
    return "count", rows


def _words(column: Any) -> Any:
    """Return 64 bits for each value of a column; an int32 has those of an equal int64."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_floating(kind):
        bits = column.cast(pa.float64()).fill_null(0).to_numpy().view(np.uint64)
    elif pa.types.is_timestamp(kind):
        bits = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).fill_null(0).to_numpy()
    elif pa.types.is_integer(kind):
        bits = column.cast(pa.int64()).fill_null(0).to_numpy()
    else:
        coded = column.cast(pa.string()).fill_null("").combine_chunks().dictionary_encode()
        hashes = [_hash(value) for value in coded.dictionary.to_pylist()]
        bits = np.array(hashes, np.uint64)[coded.indices.to_numpy()]
    return mix(bits.astype(np.uint64) ^ pc.is_null(column).to_numpy().astype(np.uint64))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _finder(work: Work) -> Callable[[], Any]:
    import cerise

    session(work)
    options = _options(work)
    return lambda: cerise.find(work["path"], work["query"]["text"], options=options, spark=True)


def _options(work: Work) -> Any:
    import cerise

    return cerise.Options(**{name: value for name, value in work["options"].items() if name in SPARK})
