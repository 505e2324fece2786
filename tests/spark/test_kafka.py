"""Topics of a real Kafka broker as streams: every event once, and clear errors where events are gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

import cerise
from cerise.errors import BindError, DataError, PlanError, StoreError, UnsupportedError
from cerise.files import delta
from cerise.files.topics.messages import read_messages
from cerise.files.topics.offsets import OffsetRange, divide_range
from cerise.files.topics.topic import Topic
from cerise.spark.kafka_stream import advance, list_ranges
from tests.support.kafka import Broker, broker, classpath
from tests.test_docs import blocks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]
EVENTS = 20_000
SCHEMA = "id long, kind string, x double, ts timestamp"
Batches = dict[int, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


def event(n: int) -> dict[str, Any]:
    at = f"2026-03-02T{n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}Z"
    return {"id": n, "kind": "ABCD"[n % 4], "x": n / 8, "ts": at}


def messages(numbers: Iterable[int], partitions: int = 2) -> Iterator[tuple[int, bytes]]:
    for n in numbers:
        yield n % partitions, json.dumps(event(n)).encode()


def run(frame: DataFrame, checkpoint: Path) -> Batches:
    """Return the rows of each batch that is there now."""
    found: Batches = {}

    def keep(batch: DataFrame, number: int) -> None:
        found[number] = [row.asDict() for row in batch.collect()]

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def ids(found: Batches) -> list[int]:
    return sorted(row["id"] for rows in found.values() for row in rows)


# ---- events


def test_every_event_once_in_batches_of_a_size(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    from confluent_kafka.admin import NewPartitions

    kafka.create("once")
    kafka.send("once", messages(range(EVENTS)))
    frame = cerise.stream(kafka.url("once"), schema=SCHEMA, max_rows=7_000, spark=spark)
    assert frame.columns == ["id", "kind", "x", "ts"]
    found = run(frame, tmp_path / "ck")
    assert [len(rows) for rows in found.values()] == [0, 7_000, 7_000, 6_000]  # the first writes offsets down
    assert ids(found) == list(range(EVENTS))
    first = next(row for row in found[1] if row["id"] == 5)
    assert (first["kind"], first["x"], first["ts"].second) == ("B", 0.625, 5)
    assert run(frame, tmp_path / "ck") == {}
    kafka.send("once", messages(range(EVENTS, EVENTS + 100)))
    admin = kafka.admin
    [grown] = admin.create_partitions([NewPartitions("once", 3)]).values()
    grown.result(60)
    kafka.send("once", ((2, value) for _, value in messages(range(EVENTS + 100, EVENTS + 150))))
    assert ids(run(frame, tmp_path / "ck")) == list(range(EVENTS, EVENTS + 150))


@pytest.mark.nightly
def test_a_stream_that_runs_sees_new_events(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    kafka.create("running")
    kafka.send("running", messages(range(10)))
    frame = cerise.stream(kafka.url("running"), schema=SCHEMA, after="latest", spark=spark)
    writer = frame.writeStream.foreachBatch(cerise.into(str(tmp_path / "out")))
    running = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
    try:
        wait_until((tmp_path / "ck" / "commits" / "0").exists)
        kafka.send("running", messages(range(10, 20)))
        wait_until(lambda: delta.is_table(tmp_path / "out") and len(delta.read(tmp_path / "out")) == 10)
    finally:
        running.stop()
    assert sorted(delta.read(tmp_path / "out")["id"].to_pylist()) == list(range(10, 20))


def wait_until(holds: Any) -> None:
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.nightly
def test_columns_of_messages(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    kafka.create("raw")
    kafka.send("raw", [(0, b"\xff not JSON"), (1, None), (0, b"{}")])
    raw = cerise.stream(kafka.url("raw"), spark=spark)
    [rows] = [rows for rows in run(raw, tmp_path / "raw").values() if rows]
    found = sorted((row["_partition"], row["_offset"], row["_key"], row["_value"]) for row in rows)
    assert found == [
        (0, 0, b"k0", b"\xff not JSON"), (0, 1, b"k0", b"{}"), (1, 0, b"k1", None),
    ]  # fmt: skip
    assert all(abs(row["_timestamp"].timestamp() - time.time()) < 600 for row in rows)
    names = ["_offset", "id"]
    one = cerise.stream(
        kafka.url("raw") + "/0", schema="id long, ts timestamp", columns=names, invalid="null", spark=spark
    )
    assert one.columns == names
    assert run(one, tmp_path / "one")[1] == [{"_offset": 0, "id": None}, {"_offset": 1, "id": None}]


def test_a_batch_that_is_repeated_reads_the_same(kafka: Broker) -> None:
    kafka.create("again")
    kafka.send("again", messages(range(3_000)))
    topic, wanted = Topic.of(kafka.url("again")), OffsetRange(1, 100, 1_200)

    def read() -> list[tuple[int, int]]:
        found = [each for some in read_messages(topic, wanted) for each in some]
        return [(each.offset(), json.loads(each.value())["id"]) for each in found]

    first = read()
    assert first == [(n, 2 * n + 1) for n in range(100, 1_200)]
    kafka.send("again", messages(range(3_000, 4_000)))
    assert read() == first


@pytest.mark.nightly
def test_events_of_transactions(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    kafka.create("deeds", 1)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": "tests", "log_level": 2})
    producer.init_transactions(60)

    def send(numbers: Iterable[int], partition: int = 0) -> None:
        producer.begin_transaction()
        for n in numbers:
            producer.produce("deeds", json.dumps(event(n)), partition=partition)
        producer.flush()

    frame = cerise.stream(kafka.url("deeds"), schema=SCHEMA, max_rows=4, spark=spark)
    send(range(10))
    assert ids(run(frame, tmp_path / "ck")) == []  # still open
    producer.commit_transaction()
    send(range(100, 110))
    producer.abort_transaction()
    send(range(10, 20))
    producer.commit_transaction()
    begun = time.monotonic()
    assert ids(run(frame, tmp_path / "ck")) == list(range(20))
    assert time.monotonic() - begun < 100  # no batch waits for offsets that have no event


# ---- what does not fit, and what is gone


def test_events_that_do_not_fit(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    kafka.create("mixed", 1)
    bad = [b"{", b'{"id":"x"}', None]
    values = [value for _, value in messages(range(50))] + bad + [value for _, value in messages([300])]
    kafka.send("mixed", ((0, value) for value in values))
    strict = cerise.stream(kafka.url("mixed"), schema=SCHEMA, spark=spark).writeStream.format("noop")
    strict = strict.option("checkpointLocation", str(tmp_path / "strict")).trigger(availableNow=True)
    with pytest.raises(DataError, match=r"offset 50 in partition 0 of topic 'mixed' .*, and 2 more") as error:
        strict.start().awaitTermination()
    assert "invalid='null'" in (error.value.hint or "")
    frame = cerise.stream(kafka.url("mixed"), schema=SCHEMA, invalid="null", spark=spark)
    assert [row["id"] for row in run(frame, tmp_path / "ck")[1]] == [*range(50), None, None, None, 300]
    matches = cerise.watch(
        frame, "PATTERN SEQ(A a, B b) WITHIN 1 seconds", time="ts", type="kind", delay="0 seconds",
        late=str(tmp_path / "late"),
    )  # fmt: skip
    writer = matches.writeStream.foreachBatch(cerise.into(str(tmp_path / "out")))
    writer = writer.option("checkpointLocation", str(tmp_path / "watch")).trigger(availableNow=True)
    running = writer.start()
    running.awaitTermination()
    assert cerise.watched(running).figures["aside"] == {"events": {"no time": 3}}
    assert len(delta.read(tmp_path / "out")) == 13


def test_offsets_that_retention_has_deleted(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition

    kafka.create("short", 1)
    kafka.send("short", messages(range(100), 1))
    frame = cerise.stream(kafka.url("short"), schema=SCHEMA, max_rows=30, spark=spark)
    run(frame, tmp_path / "ck")
    kafka.send("short", messages(range(100, 200), 1))
    admin = kafka.admin
    [gone] = admin.delete_records([TopicPartition("short", 0, 150)]).values()
    gone.result(60)
    with pytest.raises(StoreError, match=r"partition 0 of topic 'short' no longer has offset 100") as error:
        run(frame, tmp_path / "ck")
    assert "retention" in (error.value.hint or "")
    with pytest.raises(StoreError, match="no longer has offset 120"):
        list(read_messages(Topic.of(kafka.url("short")), OffsetRange(0, 120, 180)))
    assert ids(run(frame, tmp_path / "new")) == list(range(150, 200))


@pytest.mark.nightly
def test_a_topic_that_was_made_again(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    kafka.create("reborn", 1)
    kafka.send("reborn", messages(range(10), 1))
    frame = cerise.stream(kafka.url("reborn"), schema=SCHEMA, spark=spark)
    run(frame, tmp_path / "ck")
    admin = kafka.admin
    [gone] = admin.delete_topics(["reborn"]).values()
    gone.result(60)
    wait_until(lambda: "reborn" not in kafka.admin.list_topics(timeout=10).topics)
    with pytest.raises(StoreError, match="has no topic 'reborn'"):
        run(frame, tmp_path / "ck")
    kafka.create("reborn", 1)
    kafka.send("reborn", messages(range(100), 1))
    with pytest.raises(StoreError, match="topic 'reborn' was deleted and made again"):
        run(frame, tmp_path / "ck")


@pytest.mark.nightly
def test_a_broker_that_goes_and_comes_back(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    kafka.create("away")
    kafka.send("away", messages(range(100)))
    frame = cerise.stream(kafka.url("away"), schema=SCHEMA, spark=spark, kafka={"socket.timeout.ms": 4_000})
    assert ids(run(frame, tmp_path / "ck")) == list(range(100))
    kafka.send("away", messages(range(100, 200)))
    kafka.stop()
    try:
        with pytest.raises(StoreError, match=f"Kafka at {kafka.address} does not answer") as error:
            run(frame, tmp_path / "ck")
        assert "checkpoint" in (error.value.hint or "")
        with pytest.raises(StoreError, match="does not answer"):
            list(read_messages(frame_topic(kafka), OffsetRange(0, 0, 10)))
    finally:
        kafka.start()
    assert ids(run(frame, tmp_path / "ck")) == list(range(100, 200))


def frame_topic(kafka: Broker) -> Topic:
    return Topic.of(kafka.url("away"), {"socket.timeout.ms": 2_000})


def test_arguments_that_are_refused(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    kafka.create("plain", 1)
    url = kafka.url("plain")
    refused: list[tuple[type[Exception], str, str, dict[str, Any]]] = [
        (StoreError, "has no topic 'nothing'", kafka.url("nothing"), {}),
        (StoreError, "has no partition 7", url + "/7", {}),
        (StoreError, "is not the address of a topic", "kafka://", {}),
        (StoreError, "is not the address of a topic", "kafka://me:secret@host/topic", {}),
        (PlanError, "enable.auto.commit cannot be given", url, {"kafka": {"enable.auto.commit": True}}),
        (PlanError, "bootstrap.servers cannot be given", url, {"kafka": {"bootstrap.servers": "x"}}),
        (PlanError, "does not take the settings.*no.such", url, {"kafka": {"no.such": "x"}}),
        (PlanError, "after=3 names no place", url, {"after": 3}),
        (PlanError, "invalid='skip'", url, {"invalid": "skip"}),
        (PlanError, "max_rows is 0", url, {"max_rows": 0}),
        (PlanError, "are for topics", str(tmp_path), {"kafka": {}}),
        (BindError, "'_offset' is one of Kafka's own", url, {"schema": "_offset long"}),
        (StoreError, "has no column 'y'", url, {"schema": SCHEMA, "columns": ["y"]}),
        (UnsupportedError, "JSON has no column 'm'", url, {"schema": "m map<string,long>"}),
    ]
    for kind, match, address, how in refused:
        with pytest.raises(kind, match=match) as error:
            cerise.stream(address, spark=spark, **how)
        assert getattr(error.value, "hint", None), address
        assert "me:secret" not in str(error.value)
    assert "nothing" not in kafka.admin.list_topics(timeout=10).topics  # asking has not made it


def test_settings_are_not_shown(
    spark: SparkSession, kafka: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.create("hidden", 1)
    frame = cerise.stream(kafka.url("hidden"), spark=spark, kafka={"sasl.password": "hunter2"})
    frame.explain(True)
    assert "secret=*********" in capsys.readouterr().out


# ---- offsets


def offset(**numbers: int) -> dict[str, Any]:
    return {"topic": "t", "next": {name.removeprefix("p"): value for name, value in numbers.items()}}


def test_shares_of_a_batch() -> None:
    start, newest = offset(p0=10, p1=0), offset(p0=10, p1=1_000, p2=3_000, p3=1)
    assert advance(start, newest, None) == newest
    assert advance(start, newest, 5_000) == newest
    assert advance(start, newest, 401)["next"] == {"0": 10, "1": 100, "2": 300, "3": 1}
    assert advance(start, newest, 2)["next"] == {"0": 10, "1": 1, "2": 1, "3": 0}
    for most in range(1, 60):
        found, steps = start, 0
        while found != newest:
            after = advance(found, newest, most)
            left = sum(len(each) for each in list_ranges(found, newest))
            assert sum(len(each) for each in list_ranges(found, after)) == min(most, left)
            found, steps = after, steps + 1
        assert steps == -(-4_001 // most)


def test_pieces_of_a_range() -> None:
    for start, stop, size in [(0, 10, 3), (5, 6, 100), (7, 1_007, 10)]:
        pieces = list(divide_range(OffsetRange(0, start, stop), size))
        assert [each.start for each in pieces[1:]] == [each.stop for each in pieces[:-1]]
        assert (pieces[0].start, pieces[-1].stop) == (start, stop)
        assert max(map(len, pieces)) <= 2 * size


# ---- partitions as sources, and the loop of the page


@pytest.mark.nightly
def test_a_partition_that_pauses(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    """Each partition is a source: the silent one holds time back, until it is idle."""
    kafka.create("pausing")
    now = int(time.time()) - 60
    at = lambda second: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + second))  # noqa: E731

    def send(partition: int, *seconds: int) -> None:
        values = (json.dumps({"id": n, "kind": "AB"[n % 2], "ts": at(n)}).encode() for n in seconds)
        kafka.send("pausing", ((partition, value) for value in values))

    def watch(**how: Any) -> DataFrame:
        sources = {
            f"p{n}": cerise.stream(
                f"{kafka.url('pausing')}/{n}", schema="id long, kind string, ts timestamp", spark=spark
            )
            for n in range(2)
        }
        query = "PATTERN SEQ(A a, B b) WITHIN 1 seconds RETURN a.id AS a"
        return cerise.watch(sources, query, time="ts", type="kind", delay="2 seconds", **how)

    def found(name: str) -> list[int]:
        return sorted(delta.read(tmp_path / name)["a"].to_pylist()) if delta.is_table(tmp_path / name) else []

    def start(name: str, frame: DataFrame) -> Any:
        writer = frame.writeStream.foreachBatch(cerise.into(str(tmp_path / name)))
        return writer.option("checkpointLocation", str(tmp_path / f"{name} ck"))

    send(0, 0, 2, 4, 6, 20, 21)
    send(1, 1, 3, 5)
    start("waits", watch()).trigger(availableNow=True).start().awaitTermination()
    assert found("waits") == [0]  # partition 1 is at second 5, so that time is at 3
    running = start("idle", watch(idle="5 seconds")).start()
    try:
        wait_until(lambda: found("idle") == [0, 2, 4, 20])  # and the clock moves on when both are silent
    finally:
        running.stop()
    send(1, 19, 30)
    send(0, 31)
    start("waits", watch()).trigger(availableNow=True).start().awaitTermination()
    assert found("waits") == [0, 2, 4, 20]


def test_the_loop_of_the_page(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the consumer loop of docs/streams.md, as it stands there, with a crash between two steps."""
    page = blocks(ROOT / "docs" / "streams.md")
    defining = [
        each.text for each in page if "COLUMNS = pa.schema" in each.text or "def step(consumer" in each.text
    ]
    [loop] = [each.text for each in page if "while True:\n    step(" in each.text]
    kafka.create("orders")
    kafka.create("alerts", 1)
    rows = []
    for order in range(400):
        rows.append((order, "order", order))
        rows.append((order + 3, "payment", order)) if order % 3 else None
    lines = [
        json.dumps({"at": f"2026-03-02T{m // 60:02}:{m % 60:02}:00+00:00", "kind": k, "order": o})
        for m, k, o in rows
    ]
    kafka.send(
        "orders", ((order % 2, line.encode()) for line, (_, _, order) in zip(lines, rows, strict=True))
    )
    monkeypatch.chdir(tmp_path)
    loop = loop.replace("broker:9092", kafka.address).replace("while True:", "for _ in range(ROUNDS):")
    loop = loop.replace('idle="1 minute",', "").replace(
        '"enable.auto.commit"', '"log_level": 2, "enable.auto.commit"'
    )
    for rounds in (2, 3):  # the second run goes on from the state of the first
        space: dict[str, Any] = {"__name__": "page", "ROUNDS": rounds, "json": json, "Path": Path}
        for text in defining:
            exec(text.split("\n\nwatcher = cerise.Watcher")[0], space)
        exec(loop, space)
        space["consumer"].close()
    sent = [json.loads(each.value()) for some in read_all(kafka, "alerts") for each in some]
    table = pa.Table.from_pylist(
        [
            json.loads(line) | {"at": space["dt"].datetime.fromisoformat(json.loads(line)["at"])}
            for line in lines
        ],
        schema=space["COLUMNS"],
    )
    last = space["watcher"].watermark
    expected = set()
    for name, query in space["QUERIES"].items():
        for row in cerise.find(table, query, time="at", type="kind").to_pylist():
            ends = (
                row["last_time"] if name == "paid" else row["first_time"] + space["dt"].timedelta(minutes=15)
            )
            if ends.timestamp() * 1e6 < last:
                expected.add((name, row["match_id"]))
    assert len(expected) > 300
    assert {(row["query"], row["match_id"]) for row in sent} == expected
    assert len(sent) == len(expected)


def read_all(kafka: Broker, name: str) -> Iterator[list[Any]]:
    topic = Topic.of(kafka.url(name))
    from cerise.files.topics.topic import TopicClient

    client = TopicClient(topic)
    for number, end in client.end_offsets(client.describe().partitions).items():
        yield from read_messages(topic, OffsetRange(number, 0, end))
    client.close()


def test_the_command(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from cerise.cli import watch_sources
    from cerise.cli.main import app

    monkeypatch.chdir(tmp_path)
    query = "PATTERN SEQ(A a, D d) WITHIN 3 seconds"
    Path("client.properties").write_text("# how to connect\nclient.id = tests\n")
    words = [
        "watch", kafka.url("command"), query, "--time", "ts", "--type", "kind", "--delay", "0 seconds",
        "--state", "s", "--to", "out.jsonl", "--once", "--kafka", "client.properties",
    ]  # fmt: skip

    def invoke(*, works: bool = True) -> str:
        done = CliRunner().invoke(app, words)
        assert (done.exit_code == 0) is works, done.output
        return " ".join(done.output.split())

    assert "has no topic 'command'" in invoke(works=False)
    kafka.create("command")
    assert "no events have come" in invoke()
    kafka.send("command", messages(range(4_000)))
    assert "4,000 events in 1 batch" in invoke()
    state = Path("s").read_bytes()
    kafka.send("command", messages(range(4_000, 5_000)))
    assert "5,000 events in 2 batches" in invoke()
    first = Path("out.jsonl").read_bytes()
    Path("s").write_bytes(state)  # as if the last run had been killed before it saved its state
    invoke()
    assert Path("out.jsonl").read_bytes() == first
    assert len(first.splitlines()) == 5_000 // 4 - 1  # the last waits for the watermark
    done = CliRunner().invoke(app, ["watched", "s"])
    assert "2 batches, 2 partitions read" in done.output
    kafka.send("command", [(1, b"null")])
    assert "offset 2,500 in partition 1 of topic 'command' is not an object" in invoke(works=False)
    for text, match in [("nonsense\n", "line 1 of x has no ="), (None, "cannot read the settings in x")]:
        if text is not None:
            Path("x").write_text(text)
        with pytest.raises(StoreError, match=match):
            watch_sources.read_settings("x")
        Path("x").unlink(missing_ok=True)


# ---- Spark's own connector, where its jars can be had

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


@pytest.mark.nightly
def test_sparks_connector(kafka: Broker, tmp_path: Path) -> None:
    jars = classpath(CONNECTOR, tmp_path / "jars")
    if jars is None:
        why = (tmp_path / "jars" / "why").read_text()
        pytest.skip(f"Maven Central does not give {CONNECTOR}: {why}")
    kafka.create("ticks")
    kafka.send("ticks", messages(range(EVENTS)))
    needed = [each for each in jars.split(os.pathsep) if not is_in_spark(Path(each).name)]
    done = subprocess.run(
        [sys.executable, "-c", BY_SPARK, ",".join(needed), kafka.address, tmp_path / "out", tmp_path / "ck"],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    assert sorted(delta.read(tmp_path / "out")["id"].to_pylist()) == list(range(EVENTS))


def is_in_spark(name: str) -> bool:
    """Tell whether Spark brings a jar, whatever its version."""
    held = {each.name.rsplit("-", 1)[0] for each in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return name.rsplit("-", 1)[0] in held
