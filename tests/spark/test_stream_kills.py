"""Streams whose driver, JVM and workers are killed -9: no match is lost, none is there twice (M6)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise.files import delta
from tests.spark.dying_daemon import VARIABLE, end_session
from tests.spark.killed_stream import QUERIES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a session in /proc")
ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("killed_stream.py")
SECOND = 1_000_000
DELAY = 5
END = 1_000  # the time of the last event
BATCHES = 6
KINDS = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("kind", pa.string()), ("id", pa.int64()), ("n", pa.int64())]
)
STEPS = [
    "state about to be read", "stepped", "journal written", "state written", "state committed", "rows given",
    "about to commit", "committed",
]  # fmt: skip
SINK_STEPS = {"about to commit", "committed"}  # of `cerise.into`, in the driver
STREAMS = [
    f"{home}-{sink}{how}"
    for home in ("spark", "files")
    for sink in ("delta", "parquet")
    for how in ("", "-snapshots")
]


@dataclass
class Scene:
    """A folder of events, and the streams over it, which may be killed."""

    folder: Path
    seed: int = 1
    batches: list[pa.Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        (self.folder / "in").mkdir(parents=True)
        number = 0
        for batch in range(BATCHES):
            rows: list[dict[str, Any]] = []
            for _ in range(40):
                number += 1
                at = 12 * batch + rng.uniform(0, 12) - (30 if rng.random() < 0.05 else 0)
                rows.append({
                    "ts": None if rng.random() < 0.03 else int(at * 4) * SECOND // 4,
                    "kind": rng.choice("AAB"), "id": rng.randrange(9), "n": number,
                })  # fmt: skip
            if batch == BATCHES - 1:  # makes all matches before it final
                rows.append({"ts": END * SECOND, "kind": "A", "id": 99, "n": 0})
            self._put(pa.Table.from_pylist(rows, schema=KINDS))

    def _put(self, table: pa.Table) -> None:
        file = self.folder / "in" / f"{len(self.batches):05}.parquet"
        self.batches.append(table)
        pq.write_table(table, file)
        os.utime(file, (len(self.batches), len(self.batches)))  # Spark reads them in the order of their times

    # ---- runs

    def start(self, *streams: str, kill: tuple[str, int] | None = None) -> subprocess.Popen[str]:
        """Start streams; the first is killed at a step of a batch."""
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        if kill is not None:
            env[VARIABLE] = json.dumps([*kill, str(self.folder / streams[0] / "checkpoint")])
        return subprocess.Popen(
            [sys.executable, SCRIPT, self.folder, *streams], env=env, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *streams: str) -> dict[str, Any]:
        """Run streams to their end; return their figures."""
        done = self.start(*streams)
        out, err = done.communicate(timeout=300)
        assert done.returncode == 0, err[-3_000:]
        return {name: figures for line in out.splitlines() for name, figures in json.loads(line).items()}

    def kill_at(self, stream: str, step: str, batch: int) -> None:
        """Run a stream until it is killed at a step of a batch."""
        killed = self.start(stream, kill=(step, batch))
        _, err = killed.communicate(timeout=300)
        assert killed.returncode == -signal.SIGKILL, (stream, step, batch, err[-3_000:])

    def kill_after(self, streams: Sequence[str], batches: int, seconds: float) -> None:
        """Run streams, and kill them some time after they have finished so many batches more, or all."""
        running = self.start(*streams)
        before = self._count_batches(streams)
        while running.poll() is None and self._count_batches(streams) < before + batches:
            time.sleep(0.01)
        with suppress(subprocess.TimeoutExpired):
            running.wait(seconds)
        end_session(running.pid)
        _, err = running.communicate()
        assert "cerise.errors" not in err, err[-3_000:]  # Spark may fail by itself where a machine is busy

    def _count_batches(self, streams: Sequence[str]) -> int:
        commits = (self.folder / each / "checkpoint" / "commits" for each in streams)
        return sum(1 for folder in commits for each in folder.glob("[0-9]*"))

    # ---- outcomes

    def judge(self) -> tuple[pa.Table, Counter[tuple[int, str]]]:
        """Return the events that a stream accepts, and the others by `n` and reason."""
        watermark, accepted, aside = -(10**18), [], Counter[tuple[int, str]]()
        for batch in self.batches:
            times = [at for at in batch.column("ts").cast(pa.int64()).to_pylist() if at is not None]
            for row in batch.to_pylist():
                at = None if row["ts"] is None else round(row["ts"].timestamp() * SECOND)
                if at is None or at < watermark:
                    aside[row["n"], "no time" if at is None else "late"] += 1
                else:
                    accepted.append(row)
            watermark = max(watermark, max(times) - DELAY * SECOND)
        return pa.Table.from_pylist(accepted, schema=KINDS), aside

    def expected(self, watermark: float = END - DELAY) -> Counter[tuple[str, int, int]]:
        """Return the matches that batch finds in the accepted events, and that the watermark makes final."""
        accepted, _ = self.judge()
        found: Counter[tuple[str, int, int]] = Counter()
        for name, text in QUERIES.items():
            rows = cerise.find(accepted, text, time="ts", type="kind", order="n").to_pylist()
            waits = 10 if "NOT" in text else 0
            found.update(
                (name, row["a"], row["b"]) for row in rows if row["last_time"].timestamp() + waits < watermark
            )
        return found

    def found(self, stream: str) -> Counter[tuple[str, int, int]]:
        """Return the matches that a stream has written."""
        out = self.folder / stream / "out"
        if "delta" in stream:
            rows = delta.read(out).to_pylist()
        else:
            rows = [row for file in committed_files(out) for row in pq.read_table(file).to_pylist()]
        ids = Counter((row["query"], row["match_id"]) for row in rows)
        assert max(ids.values()) == 1, f"{ids.most_common(3)} in {stream}"
        return Counter((row["query"], row["a"], row["b"]) for row in rows)

    def aside(self, stream: str) -> Counter[tuple[int, str]]:
        """Return the events that a stream has set aside."""
        rows = pq.read_table(self.folder / stream / "late").to_pylist()
        return Counter((row["n"], row["reason"]) for row in rows)

    def check(self, stream: str, watermark: float = END - DELAY) -> None:
        """Compare all that a stream has written with the answer of batch."""
        expected = self.expected(watermark)
        assert len(expected) > 50, "too few matches to show anything"
        assert self.found(stream) == expected
        assert self.aside(stream) == self.judge()[1]


def committed_files(out: Path) -> list[Path]:
    """Return the files that Spark's log of a file sink lists."""
    lines = [
        json.loads(line)
        for entry in (out / "_spark_metadata").iterdir() if not entry.name.startswith(".")
        for line in entry.read_text().splitlines()[1:]
    ]  # fmt: skip
    return sorted({out / Path(line["path"]).name for line in lines})


LAST = BATCHES - 1
KILLS = {
    "spark-delta": [
        ("state about to be read", 0), ("state committed", 1), ("about to commit", 2), ("committed", LAST),
    ],
    "files-parquet-snapshots": [
        ("stepped", 0), ("journal written", 1), ("state written", 2), ("rows given", LAST),
    ],
}  # fmt: skip


@pytest.mark.parametrize("stream", KILLS)
def test_kills_at_steps_of_a_stream(tmp_path: Path, stream: str) -> None:
    scene = Scene(tmp_path / "scene")
    for step, batch in KILLS[stream]:
        scene.kill_at(stream, step, batch)
    figures = scene.run(stream)
    scene.check(stream)
    assert figures[stream]["watermark"] == (END - DELAY) * SECOND
    assert sum_aside(figures[stream]) == Counter(reason for _, reason in scene.judge()[1].elements())


def sum_aside(figures: dict[str, Any]) -> Counter[str]:
    """Return how many events all buckets have set aside, by reason."""
    total: Counter[str] = Counter()
    for bucket in json.loads(figures["buckets"]):
        for name, count in json.loads(bucket)["aside"].items():
            total[name.removeprefix("events: ")] += count
    return total


@pytest.mark.nightly
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("step", STEPS)
def test_kills_at_every_step(tmp_path: Path, stream: str, step: str) -> None:
    if step in SINK_STEPS and "delta" not in stream:
        pytest.skip("a step of cerise.into")
    scene = Scene(tmp_path / "scene", seed=2)
    for batch in (0, 1, BATCHES - 1):
        scene.kill_at(stream, step, batch)
    scene.run(stream)
    scene.check(stream)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("streams", [STREAMS[:4], STREAMS[4:]], ids=["spark", "files"])
def test_kills_at_any_time(tmp_path: Path, streams: list[str], seed: int) -> None:
    scene, rng = Scene(tmp_path / "scene", seed), random.Random(seed)
    for _ in range(4):  # with both parameters, 200 kills of four streams each
        scene.kill_after(streams, rng.randrange(1, 7), rng.expovariate(1))
    scene.run(*streams)
    for stream in streams:
        scene.check(stream)
