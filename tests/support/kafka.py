"""A Kafka broker for tests: one node in KRaft mode on loopback, from Maven Central."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

VERSION = "4.1.0"
BROKER = f"org.apache.kafka:kafka_2.13:{VERSION}"
STARTS_WITHIN = 120  # seconds
NOT_FOUND = r"Could not (find|transfer) artifact \S+|\S+:jar:\S+ was not found"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>tests</artifactId><version>1</version><dependencies><dependency>
<groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version></dependency></dependencies></project>"""
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass
class Broker:
    """A broker, which runs until it is stopped; started again, it has the same address and topics."""

    port: int
    command: list[str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, topic: str) -> str:
        return f"kafka://{self.address}/{topic}"

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        said = self.folder / "broker.txt"
        with said.open("a") as file:
            self.process = subprocess.Popen(self.command, stdout=file, stderr=subprocess.STDOUT)
        _wait(self.port, self.process, said)
        self.admin.list_topics(timeout=STARTS_WITHIN)

    def stop(self) -> None:
        """End the broker at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    # ---- topics

    @property
    def admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address, "log_level": 2})

    def create(self, topic: str, partitions: int = 2, **settings: str) -> None:
        """Make a topic."""
        from confluent_kafka.admin import NewTopic

        config = {name.replace("_", "."): value for name, value in settings.items()}
        admin = self.admin
        [made] = admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values()
        made.result(60)

    def send(self, topic: str, values: Iterable[tuple[int, bytes | None]]) -> None:
        """Put messages into a topic, in order: pairs of a partition and a value."""
        from confluent_kafka import Producer

        producer = Producer({
            "bootstrap.servers": self.address, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1_000_000, "log_level": 2,
            "enable.idempotence": True,  # else a batch that is sent again may come after the next
        })  # fmt: skip
        for partition, value in values:
            producer.produce(topic, value, partition=partition, key=b"k%d" % partition)
        assert producer.flush(120) == 0


def classpath(artifact: str, folder: Path) -> str | None:
    """Return the jars of an artifact and all it needs, from Maven Central; None: it does not have them."""
    if shutil.which("mvn") is None:
        pytest.skip("mvn is not installed, which brings Kafka from Maven Central")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(POM.format(*artifact.split(":")))
    command = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        missing = re.search(NOT_FOUND, done.stdout + done.stderr)
        (folder / "why").write_text(missing[0] if missing else "mvn cannot resolve what it needs")
        return None
    return (folder / "classpath").read_text().strip()


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """Run a broker as long as the block lasts."""
    if find_spec("confluent_kafka") is None:
        pytest.skip("confluent-kafka is not installed: pip install 'cerise-spark[kafka]'")
    jars = classpath(BROKER, folder / "jars")
    if jars is None:
        pytest.skip(f"Maven Central does not give {BROKER}: {(folder / 'jars' / 'why').read_text()}")
    port, controller = _free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(SETTINGS.format(port=port, controller=controller, folder=folder))
    java = ["java", "-Xmx512m", "-cp", jars]
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    format_log = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
    subprocess.run(format_log, check=True, capture_output=True)
    running = Broker(port, [*java, "kafka.Kafka", str(settings)], folder)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now; all are held until the last is found, so that they differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def _wait(port: int, process: subprocess.Popen[bytes], said: Path) -> None:
    for _ in range(STARTS_WITHIN * 5):
        assert process.poll() is None, said.read_text()[-2_000:]
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"the broker did not start: {said.read_text()[-2_000:]}")
