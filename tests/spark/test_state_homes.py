"""States in Spark's state store: parts in chunks, seen again by the next batch, also after a restart."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from cerise.errors import StoreError, UnsupportedError
from cerise.spark.state_homes import FORMAT, SparkStateHome, StateVariables, batch_at_hand
from cerise.spark.task_errors import map_batches
from cerise.streaming.state.state_check import check
from cerise.streaming.state.state_files import FileStateHome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORTS = "bucket int, number int, seen string"
ARROW = pa.schema({"bucket": pa.int32(), "number": pa.int32(), "seen": pa.string()})
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Variables:
    """The two state variables in memory, as much of them as a home calls."""

    def __init__(self) -> None:
        self.text: tuple[str] | None = None
        self.chunks: dict[tuple[str, int], bytes] = {}
        self.puts = 0

    def home(self, chunk: int = 10) -> SparkStateHome:
        return SparkStateHome(StateVariables(self, self), chunk=chunk)  # type: ignore[arg-type]

    def get(self) -> tuple[str] | None:
        return self.text

    def update(self, value: tuple[str]) -> None:
        self.text = value

    def getValue(self, key: tuple[str, int]) -> tuple[bytes] | None:  # noqa: N802
        return (self.chunks[key],) if key in self.chunks else None

    def updateValue(self, key: tuple[str, int], value: tuple[bytes]) -> None:  # noqa: N802
        assert isinstance(value[0], bytes)
        self.chunks[key] = value[0]
        self.puts += 1

    def removeKey(self, key: tuple[str, int]) -> None:  # noqa: N802
        del self.chunks[key]


def test_parts_are_cut_into_chunks() -> None:
    state = Variables()
    parts = {"a": b"", "b": bytes(10), "c": bytes(11), "d/e": bytes(range(35))}
    home = state.home()
    for name, data in parts.items():
        home.write(name, data)
    assert (home.names(), home.read("b"), home.stamp, state.chunks) == ([], None, "", {})
    stamp = home.commit()
    assert [len(state.chunks[key]) for key in sorted(state.chunks)] == [10, 10, 1, 10, 10, 10, 5]
    again = state.home()
    assert (again.names(), again.stamp) == (sorted(parts), stamp)
    assert {name: again.read(name) for name in again.names()} == parts
    assert again.read("none") is None
    assert again.commit() == stamp


def test_equal_bytes_are_not_written_again_even_with_other_chunks() -> None:
    state = Variables()
    home = state.home(10)
    home.write("a", bytes(35))
    stamp = home.commit()
    home = state.home(7)
    home.write("a", bytes(35))
    assert (home.commit(), state.puts) == (stamp, 4)
    home = state.home(7)
    home.write("a", bytes(36))
    home.commit()
    assert (len(state.chunks), state.home().read("a")) == (6, bytes(36))


def test_random_lives_leave_no_chunk_behind() -> None:
    for seed in range(200):
        rng, state, truth = random.Random(seed), Variables(), dict[str, bytes]()
        for _ in range(12):
            home, now = state.home(rng.choice([1, 3, 10])), dict(truth)
            for _ in range(rng.randrange(6)):
                name = rng.choice("abc")
                if rng.random() < 0.4:
                    home.delete(name)
                    now.pop(name, None)
                else:
                    now[name] = rng.randbytes(rng.randrange(12))
                    home.write(name, now[name])
                assert {each: home.read(each) for each in home.names()} == truth
            truth, stamp = now, home.commit()
            assert state.home().stamp == stamp
        assert state.text is not None
        listed = json.loads(state.text[0])["parts"]
        assert {each: state.home().read(each) for each in listed} == truth
        assert state.chunks.keys() == {(name, i) for name, part in listed.items() for i in range(part[2])}


def test_a_state_that_is_not_as_it_was_written() -> None:
    state = Variables()
    home = state.home()
    home.write("a", bytes(35))
    home.commit()
    for change in (lambda: state.chunks.update({("a", 2): b"x" * 10}), lambda: state.removeKey(("a", 1))):
        change()
        with pytest.raises(
            StoreError, match="'a' in Spark's state store differs from its checksum"
        ) as caught:
            state.home().read("a")
        assert "checkpoint" in (caught.value.hint or "")
    for text in ("[]", "{", "null", '{"format": 1}', '{"format": 1, "parts": {"a": [1]}}'):
        state.text = (text,)
        with pytest.raises(StoreError, match="the index of the state in Spark's state store is damaged"):
            state.home()
    state.text = (json.dumps({"format": FORMAT + 1}),)
    with pytest.raises(StoreError, match="a newer Cerise has written this state: it has format 2"):
        state.home()


# ---- in Spark


@pytest.fixture
def rocksdb(spark: SparkSession) -> SparkSession:
    spark.conf.set(PROVIDER, ROCKSDB)
    return spark


def go_on(home: SparkStateHome | FileStateHome, bucket: int, number: int) -> str:
    """Run one batch of a bucket; return the state before it, and the stamps before and after it."""
    seen = {name: home.read(name) for name in home.names()}
    home.write(f"journal/{number}", bytes([number]) * 2500 * (bucket + 1))
    home.write("marks", bytes([number % 2]) * (5000 - 900 * number))
    home.delete(f"journal/{number - 2}")
    home.write("empty", b"")
    sums = {name: [len(data), sum(data)] for name, data in seen.items() if data is not None}
    return json.dumps([sums, home.stamp, home.commit()])


def by_spark(frame: DataFrame) -> DataFrame:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    step = go_on

    class Keep(StatefulProcessor):  # in a function: it travels to the workers by value
        def init(self, handle: Any) -> None:
            self.variables = StateVariables.of(handle)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            number, home = max(row.number for row in rows), SparkStateHome(self.variables, chunk=1000)
            yield Row(bucket=key[0], number=number, seen=step(home, key[0], number))

        def close(self) -> None: ...

    return frame.groupBy("bucket").transformWithState(Keep(), REPORTS, "append", "none")


def by_files(path: Path) -> Callable[[DataFrame], DataFrame]:
    def keep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for row in batch.to_pylist()]
        for bucket in sorted({row["bucket"] for row in rows}):
            number = max(row["number"] for row in rows)
            query, batch = batch_at_hand()
            seen = go_on(FileStateHome(path, query, bucket, batch, buckets=2), bucket, number)
            yield pa.RecordBatch.from_pylist(
                [{"bucket": bucket, "number": number, "seen": seen}], schema=ARROW
            )

    return lambda frame: map_batches(frame.repartition(2, "bucket"), keep, REPORTS)


def run(
    spark: SparkSession, folder: Path, files: range, keep: Callable[[DataFrame], DataFrame]
) -> list[dict[str, Any]]:
    """Run a stream to its end: a micro-batch for each file, over two buckets; return its reports."""
    for number in files:
        two = spark.createDataFrame([(number, 0), (number, 1)], "number int, bucket int").coalesce(1)
        two.write.parquet(str(folder / "in" / f"{number:03}"))
    stream = spark.readStream.schema("number int, bucket int").option("maxFilesPerTrigger", 1)
    kept = keep(stream.option("recursiveFileLookup", True).parquet(str(folder / "in")))
    to = kept.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    to.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()
    return [row.asDict() for row in spark.read.parquet(str(folder / "out")).collect()]


@pytest.mark.parametrize("kind", ["spark", "files"])
def test_a_stream_keeps_its_state_and_finds_it_after_a_restart(
    rocksdb: SparkSession, tmp_path: Path, kind: str
) -> None:
    keep = by_spark if kind == "spark" else by_files(tmp_path / "state")
    run(rocksdb, tmp_path, range(3), keep)
    found = run(rocksdb, tmp_path, range(3, 5), keep)
    assert len(found) == 2 * 5
    for bucket in range(2):
        reports = [(each["number"], *json.loads(each["seen"])) for each in found if each["bucket"] == bucket]
        before = ""
        for number, seen, stamp, after in sorted(reports):
            assert stamp == before != after
            before = after
            size = 2500 * (bucket + 1)
            journals = {f"journal/{i}": [size, i * size] for i in range(number)[-2:]}
            size = 5000 - 900 * (number - 1)
            others = {"marks": [size, (number - 1) % 2 * size], "empty": [0, 0]}
            assert seen == (journals | others if number else {})
    if kind == "files":
        assert check(tmp_path / "state") == []


def test_a_state_that_is_gone_ends_the_stream_with_an_error(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, range(2), by_files(tmp_path / "state"))
    with pytest.raises(StoreError, match=r"the state of batch 1 of bucket [01] is gone"):
        run(spark, tmp_path, range(2, 3), by_files(tmp_path / "moved"))
    assert len(run(spark, tmp_path, range(0), by_files(tmp_path / "state"))) == 2 * 3


def test_a_task_without_a_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="need the number of the micro-batch"):
        batch_at_hand()
    two = spark.createDataFrame([(0, 0), (0, 1)], "number int, bucket int")
    with pytest.raises(UnsupportedError, match="need the number of the micro-batch"):
        by_files(tmp_path)(two).collect()
