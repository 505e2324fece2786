"""A Kafka broker for tests: one node in KRaft mode on loopback, from Maven Central."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

VERSION = "4.1.0"
BROKER = f"org.apache.kafka:kafka_2.13:{VERSION}"
STARTS_WITHIN = 120  # seconds
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


@dataclass(frozen=True)
class Broker:
    """A running broker."""

    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def classpath(artifact: str, folder: Path) -> str | None:
    """Return the jars of an artifact and all it needs, from Maven Central; None: it does not have them."""
    if shutil.which("mvn") is None:
        pytest.skip("mvn is not installed, which brings Kafka from Maven Central")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(POM.format(*artifact.split(":")))
    command = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        missing = re.search(r"Could not (find|transfer|resolve)[^\n]*", done.stdout + done.stderr)
        (folder / "why").write_text(missing[0] if missing else done.stdout[-500:])
        return None
    return (folder / "classpath").read_text().strip()


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """Run a broker as long as the block lasts."""
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
    with (folder / "broker.txt").open("w") as said:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(settings)], stdout=said, stderr=subprocess.STDOUT
        )
        try:
            _wait(port, process, folder / "broker.txt")
            yield Broker(port)
        finally:
            process.kill()
            process.wait()


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
