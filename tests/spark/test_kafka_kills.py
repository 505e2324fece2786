"""Streams over a topic of a real Kafka, killed -9 at steps and at random: as batch over the topic (M17)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cerise
from cerise.files import delta
from tests.spark.dying_daemon import VARIABLE, end_session
from tests.spark.killed_stream import QUERIES
from tests.support.kafka import Broker, broker

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a session in /proc"),
    pytest.mark.xdist_group("kafka"),
]
ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("killed_topic.py")
SECOND = 1_000_000
DELAY = 5 * SECOND
DENSITY = 100  # events a second
PARTITIONS = 2
BEGIN = 1_772_442_000 * SECOND  # 2 March 2026, 9 o'clock


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@dataclass
class TopicScene:
    """A topic whose events are known, and a stream over it, which may be killed."""

    kafka: Broker
    name: str
    folder: Path
    rows: int
    events: pa.Table = field(default_factory=lambda: pa.table({}))

    def fill(self, count: int, seed: int = 1) -> None:
        """Fill the topic; one event in 200 comes half a minute late."""
        rng = np.random.default_rng(seed)
        times = (np.arange(count) * SECOND // DENSITY) + rng.integers(-SECOND, SECOND, count)
        times[rng.random(count) < 0.005] -= 30 * SECOND
        kinds = rng.choice(np.array(list("AB")), count)  # of others, only some would tell the time
        self.events = pa.table({
            "ts": pa.array(BEGIN + times, pa.timestamp("us", "UTC")), "kind": kinds,
            "id": rng.integers(0, 5_000, count), "n": np.arange(count),
            "p": rng.integers(0, PARTITIONS, count),
        })  # fmt: skip
        self.kafka.create(self.name, PARTITIONS)
        texts = self.events["ts"].cast(pa.string()).to_pylist()
        rows = zip(texts, *(self.events[each].to_pylist() for each in ("kind", "id", "n", "p")), strict=True)
        form = '{"ts":"%s","kind":"%s","id":%d,"n":%d}'
        self.kafka.send(
            self.name, ((p, (form % (ts, kind, id_, n)).encode()) for ts, kind, id_, n, p in rows)
        )

    # ---- runs

    def start(self, kill: tuple[str, int] | None = None) -> subprocess.Popen[str]:
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        if kill is not None:
            env[VARIABLE] = json.dumps([*kill, str(self.folder / "checkpoint")])
        return subprocess.Popen(
            [sys.executable, SCRIPT, self.folder, self.kafka.url(self.name), str(self.rows)], env=env,
            text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self) -> list[list[int]]:
        """Run the stream to its end; return the numbers and milliseconds of its batches."""
        done = self.start()
        out, err = done.communicate(timeout=3_000)
        assert done.returncode == 0, err[-3_000:]
        return [json.loads(line) for line in out.splitlines()]

    def kill_at(self, step: str, batch: int) -> None:
        """Run the stream until it is killed at a step of a batch."""
        killed = self.start((step, batch))
        _, err = killed.communicate(timeout=3_000)
        assert killed.returncode == -signal.SIGKILL, (step, batch, err[-3_000:])

    def kill_after(self, batches: int, seconds: float) -> None:
        """Run the stream, and kill it some time after it has finished so many batches more."""
        running, before = self.start(), self.count_batches()
        while running.poll() is None and self.count_batches() < before + batches:
            time.sleep(0.01)
        with suppress(subprocess.TimeoutExpired):
            running.wait(seconds)
        end_session(running.pid)
        _, err = running.communicate()
        assert "cerise.errors" not in err, err[-3_000:]

    def count_batches(self) -> int:
        return sum(1 for _ in (self.folder / "checkpoint" / "commits").glob("[0-9]*"))

    # ---- outcomes

    def number_batches(self) -> np.ndarray:
        """Return the batch of each event, as the offsets of the checkpoint tell."""
        batches = np.full(len(self.events), -1)
        places = [np.flatnonzero(self.events["p"].to_numpy() == p) for p in range(PARTITIONS)]
        before = [0] * PARTITIONS
        for batch in range(self.count_batches()):
            text = (self.folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[-1]
            for p in range(PARTITIONS):
                after = json.loads(text)["next"][str(p)]
                batches[places[p][before[p] : after]] = batch
                before[p] = after
        assert (batches >= 0).all()
        return batches

    def judge(self) -> np.ndarray:
        """Return which events are late: those before the watermark of the batch before."""
        times, batches = self.events["ts"].cast(pa.int64()).to_numpy(), self.number_batches()
        late, watermark = np.zeros(len(times), bool), np.iinfo(np.int64).min
        for batch in range(batches.max() + 1):
            inside = batches == batch
            late |= inside & (times < watermark)
            watermark = max(watermark, times[inside].max(initial=BEGIN - SECOND * 3_600) - DELAY)
        return late

    def check(self) -> int:
        """Compare all that the stream has written with batch over the topic; return the number of matches."""
        late = self.judge()
        accepted = self.events.filter(pa.array(~late))
        last = int(self.events["ts"].cast(pa.int64()).to_numpy().max()) - DELAY
        expected: Counter[tuple[str, int, int]] = Counter()
        for name, text in QUERIES.items():
            found = cerise.find(accepted, text, time="ts", type="kind", order="n")
            ends = found["last_time"].cast(pa.int64()).to_numpy() + (10 * SECOND if "NOT" in text else 0)
            final = found.filter(pa.array(ends < last))
            expected.update(
                zip([name] * len(final), *(final[each].to_pylist() for each in "ab"), strict=True)
            )
        rows = delta.read(self.folder / "out")
        assert (
            Counter(zip(*(rows[each].to_pylist() for each in ("query", "a", "b")), strict=True)) == expected
        )
        ids = Counter(zip(*(rows[each].to_pylist() for each in ("query", "match_id")), strict=True))
        assert max(ids.values()) == 1
        aside = pq.read_table(self.folder / "late")
        assert sorted(aside["n"].to_pylist()) == self.events.filter(pa.array(late))["n"].to_pylist()
        assert set(aside["reason"].to_pylist()) <= {"late"}
        return expected.total()


def test_kills_at_steps_and_at_random(kafka: Broker, tmp_path: Path) -> None:
    scene = TopicScene(kafka, "few", tmp_path, 4_000)
    scene.fill(20_000)
    scene.kill_at("state committed", 1)
    scene.kill_after(1, 0.5)
    scene.kill_at("about to commit", 4)
    scene.run()
    assert scene.count_batches() == 6  # the first is empty
    assert scene.check() > 1_000
    assert scene.judge().any()


@pytest.mark.nightly
def test_a_million_events_and_kills(kafka: Broker, tmp_path: Path) -> None:
    scene, rng = TopicScene(kafka, "many", tmp_path, 50_000), random.Random(1)
    scene.fill(1_000_000)
    for batch, step in enumerate(("state about to be read", "journal written", "rows given", "committed"), 1):
        scene.kill_at(step, batch)
    for _ in range(4):
        scene.kill_after(rng.randrange(1, 4), rng.expovariate(1))
    scene.run()
    assert scene.check() > 10_000


@pytest.mark.nightly
def test_a_million_events_at_once(kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = TopicScene(kafka, "swift", tmp_path, 100_000)
    scene.fill(1_000_000, seed=2)
    took = dict(scene.run())
    assert scene.check() > 10_000
    rows = Counter(scene.number_batches().tolist())
    warm = [batch for batch in took if batch > 3 and rows[batch]]  # the first wait for workers and compilers
    speed = sum(rows[batch] for batch in warm) / sum(took[batch] for batch in warm) * 1_000
    with capsys.disabled():
        sys.stdout.write(f"\n{speed:,.0f} events/s in {len(warm)} batches\n")
