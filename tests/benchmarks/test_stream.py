"""The suite `stream`: in its smoke size, and all ways to run its queries, in one session and few events."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cerise.errors import CeriseError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
PARTS = {"feed", "journal", "fixed", "throughput", "suspend", "soak", "latency"}
ROWS = ("v_shape", "suspend")


@pytest.fixture
def suite(load: Any) -> Any:
    return load("suite").load("stream", smoke=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture
def measure(load: Any, folder: Path) -> Any:
    """Run a subject of the whole suite in its smoke size; return its matches, and its figures."""
    suite = load("suite").load("stream", smoke=True)
    digest, subjects, streams = load("measure").digest, load("subjects").SUBJECTS, load("streams")

    def measure(query: str, subject: str, **changed: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
        asked, table = suite.queries[query], suite.subjects[subject]
        data = suite.data[asked["data"]]
        path = folder / asked["data"]
        path = path if data.get("files", 1) > 1 else path.with_suffix(".parquet")
        if not path.exists():
            streams.write(data, path)
        own = ("run", "repeat", "warm")
        options = {name: value for name, value in table.items() if name not in own} | changed
        work = {"query": asked, "data": data, "path": str(path), "options": options}
        way = subjects[table["run"]]
        assert way.why_not(work) is None
        call = way.prepare(work)
        result = call()[2] if way.timed else call()
        return digest(way.found(result)), way.counted(result)

    return measure


@pytest.fixture
def answer(measure: Any) -> Any:
    """Return the matches of batch."""
    return lambda query: measure(query, "find rows" if query in ROWS else "find")[0]


# ---- in its smoke size


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    done = python(BENCHMARKS / "run.py", "stream", "--smoke", "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def python(*args: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.xdist_group("suites")
def test_the_suite_runs_in_its_smoke_size(results: Path) -> None:
    lines = [json.loads(line) for line in (results / "stream.jsonl").read_text().splitlines()]
    of = {(line["query"], line["subject"]): line for line in lines}  # without peers that are absent
    assert of["q1", "find"]["hash"] == of["q1", "spark, files"]["hash"]
    assert of["q1", "find"]["matches"] == 39
    assert of["v_shape", "find rows"]["hash"] == of["v_shape", "watcher"]["hash"]
    assert of["suspend", "watcher, 1000"]["matches"] == 1
    assert of["suspend", "watcher, 1000"]["report"]["batches"] == 21
    assert of["journal 10 MB", "journal"]["report"]["batches"] == 100
    assert of["feed nfa, large", "feed, nfa"]["report"]["feeds"] == 5
    assert of["soak", "soak"]["report"]["rss"]["median"] > 0


@pytest.mark.xdist_group("suites")
def test_results_become_tables_and_a_figure(results: Path, tmp_path: Path) -> None:
    done = python(BENCHMARKS / "figures/stream.py", "--results", results, "--out", tmp_path)
    text = (results / "stream.md").read_text()
    assert "smoke sizes" in text
    assert "| q1 | spark, files | 60,000 |" in text
    assert {f"## {part}\n" for part in PARTS - {"fixed", "latency"}} <= {f"{e}\n" for e in text.splitlines()}
    if importlib.util.find_spec("matplotlib"):
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "stream.svg").read_text().startswith("<?xml")
    else:
        assert "pip install '.[bench]'" in done.stderr


# ---- all ways find the same


@pytest.mark.parametrize("engine", ["nfa", "rcep"])
def test_small_feeds_find_what_one_feed_finds(engine: str, measure: Any, answer: Any) -> None:
    query = {"nfa": "feed nfa, large", "rcep": "feed rcep"}[engine]
    fed, told = measure(query, f"feed, {engine}")
    assert fed == measure(query, f"matcher, {engine}")[0]
    assert fed["matches"] == answer(query)["matches"] > 5
    assert told["feed_ms"]["min"] <= told["feed_ms"]["median"] <= told["feed_ms"]["max"]
    assert min(told["state_bytes"]) > 1_000


def test_a_journal_counts_every_byte_that_it_writes(measure: Any, answer: Any) -> None:
    found, told = measure("journal 10 MB", "journal")
    assert found == answer("journal 10 MB")
    assert found["matches"] > 5
    assert told["written_bytes"] == sum(told["written"].values())
    assert told["events_bytes"] > 100 * 100 * 16  # 100 batches of 100 events with two integers and more
    assert set(told["written"]) >= {"entry", "manifest"}


@pytest.mark.parametrize(
    ("query", "subject"),
    [("rise", "watcher"), ("v_shape", "watcher"), ("suspend", "watcher, whole"), ("latency", "latency")],
)
def test_a_watcher_finds_what_batch_finds(query: str, subject: str, measure: Any, answer: Any) -> None:
    found, _ = measure(query, subject)
    assert found == answer(query)
    assert found["matches"] > 0


@pytest.mark.parametrize(
    ("query", "subject"),
    [
        ("rise", "spark, files"),
        ("v_shape", "spark, files"),
        ("q1", "spark, state store"),
        ("latency", "latency, files"),
        ("latency", "latency, state store"),
        ("soak", "soak, files"),
    ],
)
def test_spark_finds_what_batch_finds(
    query: str, subject: str, measure: Any, answer: Any, spark: SparkSession
) -> None:
    found, told = measure(query, subject)
    assert found == answer(query)
    assert found["matches"] > 5
    assert told.get("batch_ms", told.get("latency_ms"))["min"] > 0


@pytest.mark.parametrize("way", ["pass", "keep", "files", "state store"])
def test_micro_batches_are_counted_one_by_one(
    way: str, measure: Any, answer: Any, spark: SparkSession
) -> None:
    found, told = measure("fixed large", f"fixed, {way}")
    assert told["batches"] == 8  # 20,000 events: 10,000 to fill, two batches before, eight that count
    assert told["cpu_ms"] is None or told["cpu_ms"] > 0
    if way in ("files", "state store"):
        assert found["matches"] == answer("fixed large")["matches"] > 5
        assert told["state_bytes"] > 1_000


# ---- what the suite is made of


def test_every_part_runs_alone(suite: Any, load: Any) -> None:
    whole = load("suite").load("stream")
    assert {query["part"] for query in whole.queries.values()} == PARTS
    for part in PARTS:
        subjects = {job.subject for job in whole.only([part])}
        assert any(each.startswith("find") for each in subjects)  # matches are compared
        assert len(subjects) > 1
    assert sum(len(whole.only([part])) for part in PARTS) == len(whole.jobs)


def test_a_setting_changes_the_suite(load: Any) -> None:
    settings = ["data.soak.events=1_000", 'subject.soak, files.trigger="2 seconds"']
    changed = load("suite").load("stream", settings=settings)
    assert changed.data["soak"]["events"] == 1_000
    assert changed.subjects["soak, files"]["trigger"] == "2 seconds"
    for wrong in ("data.soak.events", "data.soap.events=1", "query.soak.text=1", "data.soak.evnts=1"):
        with pytest.raises(CeriseError):
            load("suite").load("stream", settings=[wrong])


def test_flink_knows_every_query_that_it_is_asked(load: Any) -> None:
    whole = load("suite").load("stream")
    known = {peer: load("adapter", f"peers/{peer}").QUERIES for peer in ("flink", "flink_sql")}
    asked = [(job.query, whole.subjects[job.subject].get("peer")) for job in whole.jobs]
    assert {(query, peer) for query, peer in asked if peer} >= {("q1", "flink"), ("v_shape", "flink_sql")}
    assert all(query in known[peer] for query, peer in asked if peer)


def test_flatness_tells_growth_from_noise(load: Any) -> None:
    flatness = load("watching.soak").flatness
    even = flatness([(t, 100.0 + t % 2) for t in range(40)], 8)
    assert (even["samples"], even["growth"]) == (32, 0)
    assert even["spread"] == pytest.approx(0.01, rel=0.01)
    rising = flatness([(t, 100.0 + t) for t in range(40)], 8)
    assert rising["growth"] == pytest.approx(24 / 111.5)
    assert flatness([(t, 100.0) for t in range(10)], 8) is None


def test_closing_events_come_long_after_the_last(load: Any, suite: Any, tmp_path: Path) -> None:
    streams, spark_stream = load("streams"), load("watching.spark_stream")
    for query in ("soak", "q1"):
        asked = suite.queries[query]
        data = suite.data[asked["data"]] | {"events": 100, "files": 2}
        work = {"query": asked, "data": data, "path": str(streams.write(data, tmp_path / query))}
        closing = spark_stream.close(work)
        assert closing.schema.equals(streams.SCHEMAS[data["generator"]])
        times = closing[asked["time"]].cast(pa.int64()).to_pylist()
        last = pa.Table.from_batches(streams.batches(data))[asked["time"]].cast(pa.int64())[-1].as_py()
        window = 3_000_000 if query == "soak" else 12 * 60 * 1_000_000
        gaps = [after - before for before, after in zip([last, *times], times, strict=False)]
        assert min(gaps) > window


def test_streams_of_visits_are_as_the_suite_says(load: Any, tmp_path: Path) -> None:
    streams = load("streams")
    made = pa.Table.from_batches(streams.visits(100_000))
    assert made["type"].to_pylist().count("B") / 100_000 == pytest.approx(0.02, abs=0.002)
    assert (min(made["id"].to_pylist()), max(made["id"].to_pylist())) == (1, 1_000)
    plateau = pa.Table.from_batches(streams.plateau(1_001, batch=100))
    assert plateau["type"].to_pylist() == ["A"] * 1_000 + ["B"]
    data = {"generator": "visits", "events": 1_050, "files": 3}
    files = sorted(streams.write(data, tmp_path / "visits").iterdir())
    read = [pq.read_table(each) for each in files]
    assert [len(each) for each in read] == [350, 350, 350]
    assert pa.concat_tables(read).combine_chunks() == made.slice(0, 1_050).combine_chunks()
