"""The messages of one partition between two offsets: always the same, however often they are read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from cerise.errors import StoreError
from cerise.files.topics.offsets import OffsetRange
from cerise.files.topics.topic import GONE_TOPIC, Topic, away, import_client, open_consumer

ROWS = 1 << 16  # of one list
BYTES = 1 << 26
FIRST_ASKED = 1_000
POLL = 0.1  # seconds
PREFETCHED = 100_000
OWN_COLUMNS = pa.schema(
    [
        ("_key", pa.binary()), ("_value", pa.binary()), ("_partition", pa.int32()), ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us", "UTC")),
    ]
)  # fmt: skip


def read_messages(topic: Topic, wanted: OffsetRange) -> Iterator[list[Any]]:
    """Yield the messages of a range of offsets, in lists.

    Offsets without a message, of transactions and of topics that are compacted, are passed over.

    Raises:
        StoreError: offsets of the range were deleted, or the broker does not answer.
    """
    errors: list[str] = []
    consumer = open_consumer(topic, errors, queued_min_messages=min(PREFETCHED, max(1, len(wanted))))
    try:
        yield from _gather(_Reading(topic, wanted, consumer, errors))
    finally:
        consumer.close()


def _gather(reading: _Reading) -> Iterator[list[Any]]:
    """Yield lists of messages that are neither too long nor too heavy."""
    messages: list[Any] = []
    weight = 0
    for some in reading.take():
        messages += some
        weight += sum(len(each) for each in some)
        if len(messages) >= ROWS or weight >= BYTES:
            yield messages
            messages, weight = [], 0
    if messages:
        yield messages


class _Reading:
    """A consumer that reads one range."""

    def __init__(self, topic: Topic, wanted: OffsetRange, consumer: Any, errors: list[str]) -> None:
        self.topic, self.wanted, self._consumer, self._errors = topic, wanted, consumer, errors
        self._kafka = import_client()
        self._next, self._end = wanted.start, -1

    def take(self) -> Iterator[list[Any]]:
        """Yield messages as they come, until the range is complete."""
        place = self._kafka.TopicPartition(self.topic.name, self.wanted.partition, self.wanted.start)
        self._consumer.assign([place])
        asked, waited = FIRST_ASKED, time.monotonic()
        while self._next < self.wanted.stop:
            came = self._consumer.consume(min(asked, self.wanted.stop - self._next), timeout=POLL)
            messages = [each for each in came if each.error() is None]
            if messages:
                self._next = messages[-1].offset() + 1
                asked = _choose_count(messages)
            if len(messages) < len(came):
                self._note(each for each in came if each.error() is not None)
            if messages:
                yield messages if self._next <= self.wanted.stop else self._trim(messages)
                waited = time.monotonic()
            elif time.monotonic() - waited > self.topic.timeout:
                self._give_up()

    def _trim(self, messages: Sequence[Any]) -> list[Any]:
        return [each for each in messages if each.offset() < self.wanted.stop]

    def _note(self, ends: Iterable[Any]) -> None:
        """Notice the end of the partition, or raise an error that will not pass."""
        codes = self._kafka.KafkaError
        for each in ends:
            error, code = each.error(), each.error().code()
            if code == codes._PARTITION_EOF:
                self._end = each.offset()
                self._next = max(self._next, self._end) if self._end >= self.wanted.stop else self._next
            elif code in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
                raise retention_error(self.topic, self.wanted.partition, self._next)
            elif code in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION):
                raise StoreError(f"topic '{self.topic.name}' is gone: {error.str()}", hint=GONE_TOPIC)
            elif code == codes.TOPIC_AUTHORIZATION_FAILED or error.fatal():
                raise away(self.topic, [error.str()])
            else:
                self._errors.append(error.str())

    def _give_up(self) -> None:
        if 0 <= self._end < self.wanted.stop:
            raise StoreError(
                f"partition {self.wanted.partition} of topic '{self.topic.name}' ends at offset "
                f"{self._end:,}, before {self.wanted.stop:,}, which was there before",
                hint=f"has the broker lost events, or was the topic made again? {GONE_TOPIC}",
            )
        raise away(self.topic, self._errors)


def _choose_count(messages: Sequence[Any]) -> int:
    """Return how many messages to ask for next, by the weight of the last."""
    weight = sum(len(each) for each in messages) // len(messages) + 1
    return max(1, min(ROWS, BYTES // weight))


def retention_error(topic: Topic, partition: int, offset: int, first: int | None = None) -> StoreError:
    """Return the error of offsets that the broker has deleted."""
    now = "" if first is None else f"; its first offset is {first:,} now"
    return StoreError(
        f"partition {partition} of topic '{topic.name}' no longer has offset {offset:,}{now}",
        hint="the topic's retention has deleted events before they were read: lengthen it "
        f"(retention.ms, retention.bytes), and {GONE_TOPIC}",
    )


def own_columns(messages: Sequence[Any], names: Sequence[str]) -> dict[str, pa.Array]:
    """Return the columns of messages that are named; other names are passed over."""
    take = {
        "_key": lambda each: each.key(), "_value": lambda each: each.value(),
        "_partition": lambda each: each.partition(), "_offset": lambda each: each.offset(),
        "_timestamp": _read_time,
    }  # fmt: skip
    return {
        name: pa.array([take[name](each) for each in messages], OWN_COLUMNS.field(name).type)
        for name in names
        if name in take
    }


def _read_time(message: Any) -> int | None:
    """Return the time of a message in microseconds; None: it has none."""
    kind, milliseconds = message.timestamp()
    return int(milliseconds) * 1_000 if kind else None
