"""Events from a real Kafka broker: by Spark's connector, and by confluent-kafka in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import cerise
from tests.support.kafka import Broker, broker, classpath

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("kafka")]

ROOT = Path(__file__).parents[2]
EVENTS, PARTITIONS, TOPIC = 10_000, 2, "ticks"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
BY_SPARK = """
import sys
import cerise

jars, address, table, checkpoint = sys.argv[1:]
spark = cerise.session(cores=2, memory="1g", spark_sql_shuffle_partitions=2, spark_jars=jars)
reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
reader = reader.option("subscribe", "ticks").option("startingOffsets", "earliest")
ticks = reader.option("maxOffsetsPerTrigger", 3_000).load()
events = ticks.selectExpr("from_json(string(value), 'id bigint, kind string, x double') AS e").select("e.*")
writer = events.writeStream.foreachBatch(cerise.into(table)).option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


@pytest.fixture(scope="module")
def ticks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a topic of JSON events; the key of an event decides its partition."""
    if find_spec("confluent_kafka") is None:
        pytest.skip("confluent-kafka is not installed: pip install 'cerise-spark[kafka]'")
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        create(running)
        produce(running)
        yield running


def create(running: Broker) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": running.address})
    [made] = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values()
    made.result(60)


def produce(running: Broker) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": running.address, "linger.ms": 20})
    for event in events():
        producer.produce(TOPIC, json.dumps(event).encode(), key=event["kind"].encode())
        producer.poll(0)
    assert producer.flush(60) == 0


def events() -> list[dict[str, Any]]:
    return [{"id": n, "kind": "ABCD"[n % 4], "x": n / 8} for n in range(EVENTS)]


def test_a_consumer_in_this_process(ticks: Broker) -> None:
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": ticks.address, "group.id": "tests", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])
    found: list[dict[str, Any]] = []
    partitions = set()
    try:
        while len(found) < EVENTS:
            messages = consumer.consume(1_000, timeout=30)
            assert messages, f"{len(found)} events came"
            assert all(each.error() is None for each in messages)
            found += [json.loads(each.value()) for each in messages]
            partitions |= {each.partition() for each in messages}
    finally:
        consumer.close()
    assert partitions == set(range(PARTITIONS))
    assert sorted(found, key=lambda event: event["id"]) == events()
    matches = cerise.count(
        pa.Table.from_pylist(found), "PATTERN SEQ(A a, B b) WITHIN 1", time="id", type="kind"
    )
    assert matches == EVENTS // 4


def test_sparks_connector(ticks: Broker, tmp_path: Path) -> None:
    from cerise.files import delta

    jars = classpath(CONNECTOR, tmp_path / "jars")
    if jars is None:
        why = (tmp_path / "jars" / "why").read_text()
        pytest.skip(f"Maven Central does not give {CONNECTOR}: {why}")
    needed = [each for each in jars.split(os.pathsep) if not is_in_spark(Path(each).name)]
    done = subprocess.run(
        [sys.executable, "-c", BY_SPARK, ",".join(needed), ticks.address, tmp_path / "out", tmp_path / "ck"],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    found = delta.read(tmp_path / "out").to_pylist()
    assert sorted(found, key=lambda event: event["id"]) == events()


def is_in_spark(name: str) -> bool:
    """Tell whether Spark brings a jar, whatever its version."""
    held = {each.name.rsplit("-", 1)[0] for each in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return name.rsplit("-", 1)[0] in held
