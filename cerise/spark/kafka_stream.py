"""A topic of Kafka as a streaming DataFrame that Python tasks read.

An offset of the stream holds the next offset of each partition, so a batch that is read again after a crash
has the same events. The first batch is empty: it only writes down where the stream begins.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as AvailableNow
from pyspark.sql.types import StructType

from cerise.errors import BindError, DataError, PlanError, StoreError
from cerise.files.topics.json_values import JsonColumns, is_zone
from cerise.files.topics.messages import OWN_COLUMNS, own_columns, read_messages, retention_error
from cerise.files.topics.offsets import OffsetRange, divide_range, share_out
from cerise.files.topics.topic import GONE_TOPIC, Topic, TopicClient
from cerise.spark.frames import LAKE, UTC
from cerise.spark.lake_stream import TASK_ROWS, Transform, Whole, choose_columns, encode_errors
from cerise.spark.session import parallelism
from cerise.spark.task_errors import install

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offset = dict[str, Any]
NAME = "cerise_kafka"
OPTION = "secret"  # Spark shows no option of this name, and settings hold passwords
BEGINNINGS = {None: "earliest", "latest": "latest"}
ON_INVALID = ("error", "null")


@dataclass(frozen=True, slots=True)
class KafkaStream:
    """A topic, to be read as a stream.

    Attributes:
        topic: the topic.
        columns: the columns of the stream.
        json: the fields that are parsed; those that `columns` leaves out must fit, too. None: all columns are
            those of messages.
        beginning: where a new stream begins: earliest or latest.
        max_rows: how many events a batch has, at most.
        invalid: whether an event that does not fit the columns is an error, or a row of nulls.
    """

    topic: Topic
    columns: pa.Schema
    json: JsonColumns | None
    beginning: str
    max_rows: int
    invalid: str

    @classmethod
    def of(  # noqa: PLR0913  `stream` hands over its arguments
        cls,
        url: str,
        *,
        settings: Mapping[str, Any] | None,
        schema: pa.Schema | None,
        names: Sequence[str] | None,
        after: Any,
        max_rows: int,
        invalid: str,
        zone: str,
    ) -> KafkaStream:
        """Choose the columns of a stream; ask the broker whether it has the topic."""
        if after not in BEGINNINGS:
            raise PlanError(
                f"after={after!r} names no place in a topic", hint="'latest' leaves out all events of now"
            )
        if invalid not in ON_INVALID:
            raise PlanError(f"invalid={invalid!r}", hint=f"one of {', '.join(map(repr, ON_INVALID))}")
        topic = Topic.of(url, settings)
        columns, json = _choose(schema, names, zone, str(topic))
        with closing(TopicClient(topic)) as client:
            client.describe()
        return cls(topic, columns, json, BEGINNINGS[after], max_rows, invalid)

    def frame(
        self, spark: SparkSession, transform: Transform | None = None, schema: StructType | None = None
    ) -> DataFrame:
        """Return the streaming DataFrame; see `LakeStream.frame`."""
        install()
        spark.dataSource.register(KafkaSource)
        content: bytes = cloudpickle.dumps((self, transform, parallelism(spark)))  # type: ignore[no-untyped-call]
        held = base64.b64encode(content).decode()
        wanted = schema or from_arrow_schema(self.columns)
        frame = spark.readStream.format(NAME).schema(wanted).option(OPTION, held).load()
        if transform is None:
            setattr(frame, LAKE, self)
        return frame

    def read(self, wanted: OffsetRange) -> Iterator[pa.Table]:
        """Yield the events of a range of offsets."""
        names = [
            name for name in self.columns.names if self.json is None or name not in self.json.columns.names
        ]
        for messages in read_messages(self.topic, wanted):
            arrays = dict(own_columns(messages, names))
            if self.json is not None:
                table, reasons = self.json.parse([each.value() for each in messages])
                if reasons and self.invalid == "error":
                    self._refuse(messages, reasons)
                arrays |= {name: table[name] for name in table.schema.names}
            yield pa.table([arrays[name] for name in self.columns.names], schema=self.columns)

    def _refuse(self, messages: Sequence[Any], reasons: Mapping[int, str]) -> None:
        number, reason = next(iter(reasons.items()))
        bad, value = messages[number], messages[number].value()
        more = "" if len(reasons) == 1 else f", and {len(reasons) - 1:,} more"
        shown = "" if value is None else f": {value[:80]!r}"
        raise DataError(
            f"the event at offset {bad.offset():,} in partition {bad.partition()} of topic "
            f"'{self.topic.name}' does not fit the columns{more}: {reason}{shown}",
            hint="invalid='null' makes a row of nulls of such an event, which cerise.watch counts and "
            "sets aside as 'no time'",
        )


def _choose(
    schema: pa.Schema | None, names: Sequence[str] | None, zone: str, place: str
) -> tuple[pa.Schema, JsonColumns | None]:
    """Return the columns of a stream, and those of JSON."""
    if schema is None:
        return choose_columns(OWN_COLUMNS, names, place), None
    for name in set(schema.names) & set(OWN_COLUMNS.names):
        raise BindError(f"column '{name}' is one of Kafka's own", hint="name it only in columns=")
    chosen = choose_columns(pa.schema([*schema, *OWN_COLUMNS]), names or schema.names, place)
    fields = pa.schema([each for each in chosen if each.name in schema.names])
    return chosen, JsonColumns(fields, zone if is_zone(zone) else None)


class KafkaSource(DataSource):
    """The source as Spark knows it; what to read is in its only option."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a stream."""
        stream, transform, tasks = cloudpickle.loads(base64.b64decode(self.options[OPTION]))
        return KafkaReader(stream, transform or Whole(to_arrow_schema(schema, **UTC)), tasks)


@dataclass(frozen=True)
class OffsetPortion(InputPartition):
    """The offsets that one task reads."""

    offsets: OffsetRange


class KafkaReader(DataSourceStreamReader, AvailableNow):
    """Plans batches in one process, and reads their portions in tasks."""

    def __init__(self, stream: KafkaStream, transform: Transform, tasks: int) -> None:
        self.stream, self.transform, self.tasks = stream, transform, tasks
        self._target: Offset | None = None
        self._open: TopicClient | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection: tasks have their own."""
        return {**self.__dict__, "_open": None}

    @property
    def _client(self) -> TopicClient:
        if self._open is None:
            self._open = TopicClient(self.stream.topic)
        return self._open

    def stop(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()
            self._open = None

    # ---- offsets

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return the offset of a new stream, which only says where to begin."""
        return {"beginning": self.stream.beginning}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a batch has, at most."""
        return ReadMaxRows(self.stream.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where to stop."""
        with encode_errors():
            self._target = self._newest()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return the offset after the events of the next batch."""
        with encode_errors():
            if "beginning" in start:
                return self._begin(start["beginning"])
            newest = self._target or self._newest()
            self._check(start, newest)
        most = getattr(limit, "max_rows", self.stream.max_rows)
        return advance(start, newest, None if isinstance(limit, ReadAllAvailable) else most)

    def _begin(self, place: str) -> Offset:
        if place == "latest" and self._target is not None:
            return self._target
        state = self._client.describe()
        find = self._client.first_offsets if place == "earliest" else self._client.end_offsets
        return to_offset(state.identifier, find(state.partitions))

    def _newest(self) -> Offset:
        state = self._client.describe()
        return to_offset(state.identifier, self._client.end_offsets(state.partitions))

    def _check(self, start: Offset, newest: Offset) -> None:
        """Refuse a topic that cannot be the one that was read before."""
        name = self.stream.topic.name
        if start["topic"] and newest["topic"] and start["topic"] != newest["topic"]:
            raise StoreError(f"topic '{name}' was deleted and made again since it was read", hint=GONE_TOPIC)
        for number, offset in start["next"].items():
            end = newest["next"].get(number)
            if end is None:
                raise StoreError(f"topic '{name}' has lost its partition {number}", hint=GONE_TOPIC)
            if end < offset:
                raise StoreError(
                    f"partition {number} of topic '{name}' ends at offset {end:,}, before {offset:,}, up to "
                    "which it was read",
                    hint=f"has the broker lost events, or was the topic made again? {GONE_TOPIC}",
                )

    # ---- batches

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the portions of a batch: offsets in order, about as many for each task."""
        if "beginning" in start or start == end:
            return []
        ranges = list_ranges(start, end)
        with encode_errors():
            self._check(end, self._newest())
            first = self._client.first_offsets(each.partition for each in ranges)
            for each in ranges:
                if first[each.partition] > each.start:
                    raise retention_error(
                        self.stream.topic, each.partition, each.start, first[each.partition]
                    )
        size = max(TASK_ROWS, -(-sum(map(len, ranges)) // self.tasks))
        return [OffsetPortion(each) for whole in ranges for each in divide_range(whole, size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a portion, in a task."""
        assert isinstance(partition, OffsetPortion)
        with encode_errors():
            yield from self.transform(self.stream.read(partition.offsets))


def to_offset(identifier: str, offsets: Mapping[int, int]) -> Offset:
    """Return offsets of partitions as one offset of the stream."""
    return {"topic": identifier, "next": {str(number): offset for number, offset in sorted(offsets.items())}}


def advance(start: Offset, newest: Offset, most: int | None) -> Offset:
    """Return the offset after the events of the next batch, which are `most` at most."""
    found = share_out(start["next"], newest["next"], most)
    return {"topic": newest["topic"] or start["topic"], "next": found}


def list_ranges(start: Offset, end: Offset) -> list[OffsetRange]:
    """Return the offsets between two offsets of the stream; a partition that is new begins at 0."""
    ranges = [
        OffsetRange(int(number), start["next"].get(number, 0), stop) for number, stop in end["next"].items()
    ]
    return [each for each in ranges if len(each)]
