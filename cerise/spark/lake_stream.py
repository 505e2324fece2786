"""A Delta table, a store or a folder of Parquet files as a streaming DataFrame that Python tasks read.

The tasks read Arrow tables, and can transform them before Spark sees a row. The files between two offsets
are always the same, so a batch that is read again after a crash has the same rows.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from cerise.errors import CeriseError, PlanError, StoreError, UnsupportedError

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as AvailableNow
except ImportError:  # Spark 4.0 and 4.1 cannot limit what a Python source reads
    raise UnsupportedError(
        "cerise.stream needs Spark 4.2 or newer",
        hint="spark.readStream.format('parquet' or 'delta').load(path) reads with the Spark that you have",
    ) from None

from cerise.files import delta
from cerise.files.delta_log import LOG
from cerise.files.delta_tail import Arrived, DeltaTail, Offset
from cerise.files.folder import Folder
from cerise.files.folder_tail import FolderTail
from cerise.files.lake import File, Group, NotDirect, lake_of, open_lake
from cerise.files.reader import GroupReader, Reading
from cerise.files.topics.topic import is_topic
from cerise.files.types import spark_type
from cerise.spark.frames import LAKE, UTC, arrow_schema
from cerise.spark.session import parallelism, session
from cerise.spark.task_errors import encode, install
from cerise.store.index.layout import SEQUENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Transform = Callable[[Iterator[pa.Table]], Iterable[pa.RecordBatch]]
NAME = "cerise_lake"
ROWS = 1_000_000  # of a batch, by default
TASK_ROWS = 1 << 15  # rows that a task reads at least
BATCH_ROWS = 1 << 16
COUNTED = 64  # files whose footers are read at a time, to count their rows


def stream(  # noqa: PLR0913  a verb with many parts to name
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    max_rows: int = ROWS,
    after: int | str | None = None,
    schema: Any = None,
    invalid: str = "error",
    kafka: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return a Delta table, a store, a folder of Parquet files or a topic of Kafka as a streaming DataFrame.

    Python tasks read the events. A Delta table or a store gives its events, then those that each later commit
    appends; compaction gives none, and a commit that removes events is an error. A folder gives its files in
    the order of their modification times; files must appear whole, and none with an earlier time than one
    already read. `cerise.stream("lake/ticks").writeStream` continues after a restart where it was.

    A topic is `kafka://host:9092/topic`, or `kafka://host:9092/topic/0` for one partition. With `schema=`,
    its events are objects of JSON; a field that an object lacks is null. Without it, the columns are those of
    messages: `_key`, `_value`, `_partition`, `_offset`, `_timestamp`. A batch that is repeated reads the same
    offsets, and offsets that retention has deleted are an error. Needs confluent-kafka, the extra `kafka`.

    `cerise.watch` over this DataFrame, as it is, reads only the columns that its queries need, and hands no
    event from the JVM to Python.

    Args:
        path: the path or URI of a Delta table, a store or a folder, the address of a topic, or a `Store`.
        columns: the columns to read; all by default. Spark cannot leave out any by itself. Of a topic with
            `schema=`, the columns of messages can be named, too.
        max_rows: how many rows a batch has, at most; but one file is always read as a whole.
        after: the version of a Delta table or store whose events, and all before, are left out. Of a topic,
            "latest" leaves out the events that it has when the stream is first started.
        schema: the columns of a folder or topic, an Arrow or Spark schema, or text such as "ts timestamp, id
            long"; those of its present files by default.
        invalid: what an event of a topic is that does not fit the schema: "error", which names its offset, or
            "null", a row of nulls, which `watch` counts and sets aside as `no time`.
        kafka: settings of Kafka's client librdkafka, such as {"security.protocol": "SASL_SSL"}.
        spark: the Spark session; the running one, or a local one, by default.

    Raises:
        StoreError: the path has no table or topic, a later commit or file cannot be read, or no broker
            answers.
        PlanError: an argument does not fit the path.
        UnsupportedError: only Spark can read the table, or Spark is older than 4.2.
    """
    if hasattr(type(path), "view_of"):  # a Store, whose module comes after this one
        path = path._table.writing.root
    if not isinstance(path, str | Path):
        raise UnsupportedError(f"a {type(path).__name__} is not a path", hint="give a path or a cerise.Store")
    if type(max_rows) is not int or max_rows < 1:
        raise PlanError(f"max_rows is {max_rows!r}", hint="give a whole number of rows, at least 1")
    if is_topic(path):
        from cerise.spark.kafka_stream import KafkaStream

        spark = spark or session()
        known = None if schema is None else convert_columns(schema)
        return KafkaStream.of(
            str(path), settings=kafka, schema=known, names=columns, after=after, max_rows=max_rows,
            invalid=invalid, zone=str(spark.conf.get("spark.sql.session.timeZone")),
        ).frame(spark)  # fmt: skip
    if kafka is not None or invalid != "error":
        raise PlanError(f"kafka= and invalid= are for topics, and {path} is none", hint="leave them out")
    lake = LakeStream.of(path, columns, after=after, schema=schema, max_rows=max_rows)
    return lake.frame(spark or session())


@dataclass(frozen=True, slots=True)
class LakeStream:
    """The files of a table or folder, to be read as a stream.

    Attributes:
        root: the path or URI.
        columns: the columns of the files that the stream has.
        versions: whether it is a Delta table, whose log tells which files are new.
        after: the version after which the stream begins; None: it begins with all events.
        max_rows: how many rows a batch has, at most.
    """

    root: str
    columns: pa.Schema
    versions: bool
    after: int | None = None
    max_rows: int = ROWS

    @classmethod
    def of(
        cls,
        path: str | Path,
        names: Sequence[str] | None = None,
        *,
        after: int | str | None = None,
        schema: Any = None,
        max_rows: int = ROWS,
    ) -> LakeStream:
        """Look at a table or folder, and choose the columns of its stream."""
        folder = Folder.of(path)
        versions = bool(folder.inside(LOG).names())
        if versions:
            after = _check_version(folder.root, after)
            known = _table_columns(folder.root)
        else:
            if after is not None:
                raise StoreError(f"{path} has no versions, so not {after}", hint="leave out after=")
            known = _folder_columns(folder) if schema is None else convert_columns(schema)
            after = None
        return cls(folder.root, choose_columns(known, names, folder.root), versions, after, max_rows)

    @property
    def tail(self) -> DeltaTail | FolderTail:
        """The files in the order of their arrival."""
        if self.versions:
            return DeltaTail(self.root, self.columns, self.after)
        return FolderTail(self.root, self.columns)

    def frame(
        self, spark: SparkSession, transform: Transform | None = None, schema: StructType | None = None
    ) -> DataFrame:
        """Return the streaming DataFrame.

        Args:
            spark: the session.
            transform: maps the Arrow tables of a task to the batches that Spark sees; None: the events.
            schema: the columns of those batches.
        """
        install()
        spark.dataSource.register(LakeSource)
        content: bytes = cloudpickle.dumps((self, transform, parallelism(spark)))  # type: ignore[no-untyped-call]
        held = base64.b64encode(content).decode()
        wanted = schema or from_arrow_schema(self.columns)
        frame = spark.readStream.format(NAME).schema(wanted).option("lake", held).load()
        if transform is None:
            setattr(frame, LAKE, self)  # a DataFrame made from this one is another object, without it
        return frame


def _check_version(root: str, after: int | str | None) -> int | None:
    if after is None:
        return None
    newest = delta.open_table(root, None).version()
    if type(after) is not int or not -1 <= after <= newest:
        raise StoreError(f"{after!r} is not a version of {root}", hint=f"its newest is {newest}")
    return after


def _table_columns(root: str) -> pa.Schema:
    try:
        held = delta.version_of(root).columns
    except delta.UnknownFeature as error:
        raise UnsupportedError(error.problem, hint="spark.readStream.format('delta').load(path)") from error
    return pa.schema([(each.name, spark_type(each.type)) for each in held if each.name != SEQUENCE])


def _folder_columns(folder: Folder) -> pa.Schema:
    if folder.is_file:
        raise StoreError(f"{folder.root} is one file, which gains no events", hint="give its folder")
    try:
        return open_lake(folder.root).columns
    except NotDirect as error:
        raise UnsupportedError(str(error), hint="read it by spark.readStream") from error
    except StoreError as error:
        error.hint = f"{error.hint}; a folder that is empty yet needs schema="
        raise


def convert_columns(schema: Any) -> pa.Schema:
    """Return the columns of an Arrow or Spark schema, or of its text."""
    if isinstance(schema, str):
        session()  # parses the text
        schema = StructType.fromDDL(schema)
    given = schema if isinstance(schema, pa.Schema) else arrow_schema(schema)
    return pa.schema([(each.name, spark_type(each.type)) for each in given])


def choose_columns(known: pa.Schema, names: Sequence[str] | None, root: str) -> pa.Schema:
    """Return the named columns; all, if none are named."""
    chosen = known.names if names is None else [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in known.names:
            raise StoreError(f"{root} has no column '{name}'", hint=f"it has {', '.join(known.names)}")
    return pa.schema([known.field(name) for name in chosen])


# ---- Spark's side


@dataclass(frozen=True)
class Portion(InputPartition):
    """The row groups that one task reads."""

    files: dict[int, File]
    groups: tuple[Group, ...]


class LakeSource(DataSource):
    """The source as Spark knows it; what to read is in its only option."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a stream."""
        lake, transform, tasks = cloudpickle.loads(base64.b64decode(self.options["lake"]))
        return LakeReader(lake, transform or Whole(to_arrow_schema(schema, **UTC)), tasks)


@dataclass(frozen=True, slots=True)
class Whole:
    """Gives tables to Spark as they are, in the types that it expects."""

    columns: pa.Schema

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
        """Yield batches of few rows: Spark copies each as a whole."""
        for table in tables:
            yield from table.cast(self.columns).combine_chunks().to_batches(BATCH_ROWS)


class LakeReader(DataSourceStreamReader, AvailableNow):
    """Plans batches in one process, and reads their portions in tasks."""

    def __init__(self, lake: LakeStream, transform: Transform, tasks: int) -> None:
        self.lake, self.transform, self.tasks = lake, transform, tasks
        self._tail = lake.tail
        self._target: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of a new stream."""
        with encode_errors():
            return self._tail.start()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a batch has, at most."""
        return ReadMaxRows(self.lake.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where to stop."""
        with encode_errors():
            self._target = self._tail.newest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the offset after the files of the next batch."""
        most = None if isinstance(limit, ReadAllAvailable) else getattr(limit, "max_rows", self.lake.max_rows)
        with encode_errors():
            rows, found = 0, start
            for each in self._with_rows(self._tail.arrivals(start, self._target)):
                rows += each.rows or 0
                if most is not None and rows > most and found is not start:
                    break
                found = each.after
        return found

    def _with_rows(self, files: Iterator[Arrived]) -> Iterator[Arrived]:
        """Yield files with their numbers of rows, from their footers if the log does not tell."""
        waiting: list[Arrived] = []
        for each in files:
            if each.rows is not None and not waiting:
                yield each
                continue
            waiting.append(each)
            if len(waiting) == COUNTED:
                yield from self._count(waiting)
                waiting = []
        yield from self._count(waiting)

    def _count(self, files: list[Arrived]) -> Iterator[Arrived]:
        lake = lake_of(self.lake.root, [each.file for each in files], self.lake.columns)
        for each, footer in zip(files, lake.footers, strict=True):
            yield each._replace(rows=footer.num_rows)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the portions of a batch: row groups in order, about as many rows for each task."""
        if start == end:
            return []
        with encode_errors():
            files = [each.file for each in self._tail.arrivals(start, end)]
            lake = lake_of(self.lake.root, files, self.lake.columns)
            groups = lake.list_groups()
        rows = sum(group.span.rows for group in groups)
        size = max(TASK_ROWS, -(-rows // self.tasks))
        cut: dict[int, list[Group]] = {}
        before = 0
        for group in groups:
            cut.setdefault((before + group.span.rows // 2) // size, []).append(group)
            before += group.span.rows
        return [_portion(each, lake.files) for each in cut.values()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a portion, in a task."""
        assert isinstance(partition, Portion)
        with encode_errors():
            yield from self.transform(self._tables(partition))

    def _tables(self, portion: Portion) -> Iterator[pa.Table]:
        names = tuple(self.lake.columns.names)
        reader = GroupReader(Reading(self.lake.root, portion.files, self.lake.columns, names), portion.groups)
        for group in portion.groups:
            yield reader.read(group, names, late=False)


def _portion(groups: Sequence[Group], files: Sequence[File]) -> Portion:
    return Portion({each.file: files[each.file] for each in groups}, tuple(groups))


@contextmanager
def encode_errors() -> Iterator[None]:
    """Add errors to the text by which they cross to the driver."""
    try:
        yield
    except CeriseError as error:
        error.add_note(encode(error))
        raise
