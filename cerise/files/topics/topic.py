"""A topic of Kafka: its address, and which offsets its partitions have.

Only this folder imports `confluent_kafka`. A client cannot travel to another process, so it is made where it
is used, of a `Topic`, which can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from cerise.errors import PlanError, StoreError, UnsupportedError

SCHEME = "kafka://"
HOW = "write kafka://host:9092/topic, with commas between several hosts"
DEFAULTS: dict[str, Any] = {
    "group.id": "cerise",  # is asked for, and used for nothing: offsets are kept in checkpoints
    "socket.timeout.ms": 30_000,
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 10,  # with 1,000 a reader that is faster than its queue waits for a second
    "log_level": 2,  # errors are raised, not logged
}
OWN: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # no event is left out silently
    "enable.partition.eof": True,
}
AWAY = "is the broker running, and the address right? A stream goes on from its checkpoint when it is started"
GONE_TOPIC = "start with a new checkpoint, or a new --state"
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # from brokers before 2.8


def is_topic(path: Any) -> bool:
    """Whether a path is the address of a topic."""
    return isinstance(path, str) and path.startswith(SCHEME)


def import_client() -> ModuleType:
    """Return the package of Kafka's client."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise UnsupportedError(
            "confluent-kafka is not installed, which reads topics of Kafka",
            hint="pip install confluent-kafka, on all machines of a cluster",
        ) from error
    return confluent_kafka


@dataclass(frozen=True, slots=True)
class Topic:
    """Where a topic is, and how to talk to its brokers.

    Attributes:
        servers: the addresses of brokers, with commas between.
        name: the name of the topic.
        partition: the only partition to read; None: all.
        settings: settings of librdkafka, such as `security.protocol`.
    """

    servers: str
    name: str
    partition: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, url: str, settings: Mapping[str, Any] | None = None) -> Topic:
        """Return the topic at an address such as `kafka://host:9092/topic` or `kafka://host:9092/topic/0`."""
        found = re.fullmatch(r"kafka://([^/@?\s]+)/([A-Za-z0-9._-]+)(?:/(\d+))?/?", url)
        if found is None:
            bare = re.sub(r"//[^/]*@", "//…@", url)
            hint = f"{HOW}; settings, passwords too, are given apart" if re.search("[@?]", url) else HOW
            raise StoreError(f"'{bare}' is not the address of a topic", hint=hint)
        given = dict(settings or {})
        for name in ("bootstrap.servers", "metadata.broker.list", *OWN):
            if name in given:
                why = "the address says it" if name not in OWN else "Cerise sets it, so that no event is lost"
                raise PlanError(f"the setting {name} cannot be given: {why}", hint="leave it out")
        return cls(found[1], found[2], None if found[3] is None else int(found[3]), given)

    def __str__(self) -> str:
        part = "" if self.partition is None else f"/{self.partition}"
        return f"{SCHEME}{self.servers}/{self.name}{part}"

    @property
    def timeout(self) -> float:
        """For how many seconds a broker may be silent."""
        return float({**DEFAULTS, **self.settings}["socket.timeout.ms"]) / 1_000

    def configure(self, **more: Any) -> dict[str, Any]:
        """Return the settings of a consumer; those of `more`, with _ for points, yield to the user's."""
        added = {name.replace("_", "."): value for name, value in more.items()}
        return {**DEFAULTS, **added, **self.settings, **OWN, "bootstrap.servers": self.servers}


def open_consumer(topic: Topic, errors: list[str], **more: Any) -> Any:
    """Return a consumer whose connection errors are added to a list."""
    kafka = import_client()
    settings = {"error_cb": lambda error: errors.append(error.str()), **topic.configure(**more)}
    try:
        return kafka.Consumer(settings)
    except (kafka.KafkaException, TypeError, ValueError) as error:
        raise PlanError(f"Kafka's client does not take the settings: {_say(error)}", hint=_SETTINGS) from None


_SETTINGS = "kafka= takes the settings of librdkafka, as its page CONFIGURATION.md lists them"


class TopicState(NamedTuple):
    """A topic as it is now: an identifier that no later topic has (or ""), and its partitions."""

    identifier: str
    partitions: tuple[int, ...]


class TopicClient:
    """Asks brokers about a topic."""

    def __init__(self, topic: Topic) -> None:
        kafka = import_client()
        self.topic, self._kafka, self._errors = topic, kafka, list[str]()
        self._consumer = open_consumer(topic, self._errors)
        owned = {name: value for name, value in topic.configure().items() if name not in OWN}
        self._admin = kafka.admin.AdminClient(owned)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def describe(self) -> TopicState:
        """Return the partitions that the topic has now.

        Raises:
            StoreError: the broker does not answer, or has no such topic or partition.
        """
        names = self._kafka.TopicCollection([self.topic.name])
        try:
            asked = self._admin.describe_topics(names, request_timeout=self.topic.timeout)
            found = asked[self.topic.name].result()
        except self._kafka.KafkaException as error:
            self._raise(error)
        numbers = tuple(sorted(each.id for each in found.partitions))
        if self.topic.partition is not None and self.topic.partition not in numbers:
            raise StoreError(
                f"topic '{self.topic.name}' has no partition {self.topic.partition}",
                hint=f"it has {', '.join(map(str, numbers))}",
            )
        identifier = str(found.topic_id or "")
        chosen = numbers if self.topic.partition is None else (self.topic.partition,)
        return TopicState("" if identifier == NO_ID else identifier, chosen)

    def first_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the first offset that each partition still has."""
        return self._offsets(partitions, self._kafka.OFFSET_BEGINNING)

    def end_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offset after the last event of each partition; of open transactions, before them."""
        return self._offsets(partitions, self._kafka.OFFSET_END)

    def _offsets(self, partitions: Iterable[int], place: int) -> dict[int, int]:
        asked = [self._kafka.TopicPartition(self.topic.name, number, place) for number in partitions]
        if not asked:
            return {}
        try:
            found = self._consumer.offsets_for_times(asked, timeout=self.topic.timeout)
            for each in found:
                if each.error is not None:
                    raise self._kafka.KafkaException(each.error)
        except self._kafka.KafkaException as error:
            self._raise(error)
        return {each.partition: each.offset for each in found}

    def _raise(self, error: Exception) -> NoReturn:
        codes = self._kafka.KafkaError
        self._consumer.poll(0)  # brings the errors of connections
        code = getattr(error.args[0], "code", lambda: None)() if error.args else None
        if code == codes.UNKNOWN_TOPIC_OR_PART:
            raise StoreError(
                f"Kafka at {self.topic.servers} has no topic '{self.topic.name}'",
                hint="create it first, with as many partitions as it needs; it may be empty",
            ) from None
        if code in (codes.TOPIC_AUTHORIZATION_FAILED, codes.CLUSTER_AUTHORIZATION_FAILED):
            raise StoreError(
                f"Kafka at {self.topic.servers} does not let this user read topic '{self.topic.name}'",
                hint="the user needs the rights Describe and Read; kafka= takes the settings of security",
            ) from None
        raise away(self.topic, [*self._errors, _say(error)]) from None


def away(topic: Topic, errors: list[str]) -> StoreError:
    """Return the error of brokers that do not answer."""
    said = ": " + "; ".join(dict.fromkeys(errors[-2:])) if errors else ""
    return StoreError(f"Kafka at {topic.servers} does not answer{said}", hint=AWAY)


def _say(error: Exception) -> str:
    """Return the words of an error of the client."""
    inside = error.args[0] if error.args else error
    return str(inside.str() if hasattr(inside, "str") else inside)
