"""The suites `engine`, `sase`, `spark` in their smoke size, what they are made of, and what is drawn."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cerise.engines.base import Matches
from cerise.events import EventBatch, Schema

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
Lines = list[dict[str, Any]]


def python(*args: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def smoke(suite: str, out: Path) -> Lines:
    done = python(BENCHMARKS / "run.py", suite, "--smoke", "--out", out)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (out / f"{suite}.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def engine(results: Path) -> Lines:
    return smoke("engine", results)


@pytest.fixture(scope="module")
def sase(results: Path) -> Lines:
    return smoke("sase", results)


@pytest.fixture(scope="module")
def spark_suite(results: Path) -> Lines:
    return smoke("spark", results)


# ---- the suites


@pytest.mark.xdist_group("suites")
def test_the_engine_suite_runs_in_its_smoke_size(engine: Lines) -> None:
    of = {(line["query"], line["subject"], line["events"]): line for line in engine}
    assert of["next3", "nfa", 5_000]["matches"] == of["next3_time", "nfa", 5_000]["matches"] == 333
    assert of["any5_w1000", "nfa", 5_000]["report"]["output_complexity"] == 5 * 6_103
    starts = [line for line in engine if line["query"] == "start"]
    assert {line["hash"] for line in starts} == {starts[0]["hash"]}
    memory = of["memory", "endless", None]["report"]["rss_bytes_at"]
    assert list(memory) == ["2000", "20000"]


@pytest.mark.xdist_group("suites")
def test_the_sase_suite_runs_in_its_smoke_size(sase: Lines) -> None:
    assert {line["subject"] for line in sase} == {"basic", "backtrack", "merge"}
    for line in sase:
        counting = line["axes"].get("out") == "count"
        assert line["matches"] > 0
        assert line["hash_of"] == ("count" if counting else "positions")
        assert ("output_complexity" in line["report"]) is not counting
    rising = [line for line in sase if line["axes"]["P"] == "p2"]  # with construction and without
    assert {line["matches"] for line in rising} == {727}


@pytest.mark.xdist_group("suites")
def test_the_spark_suite_runs_in_its_smoke_size(spark_suite: Lines) -> None:
    of = {(line["query"], line["subject"]): line for line in spark_suite}  # without peers that are absent
    assert of["q1", "lake count"]["matches"] == of["q1", "process"]["matches"] == 34
    assert of["vshape", "process count"]["matches"] == 12_926
    assert {query for query, _ in of} == {"q1", "crimes", "vshape", "synthetic"}


@pytest.mark.xdist_group("suites")
@pytest.mark.parametrize("suite", ["engine", "sase", "spark"])
def test_results_become_tables_and_figures(
    suite: str, results: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("spark_suite" if suite == "spark" else suite)
    done = python(BENCHMARKS / f"figures/{suite}.py", "--results", results, "--out", tmp_path)
    text = (results / f"{suite}.md").read_text()
    assert "smoke sizes" in text
    row = {"engine": "any5_w1000 | nfa | 5,000", "sase": "727 | 140", "spark": "q1 | lake count | 40,000"}
    assert f"| {row[suite]} |" in text
    if importlib.util.find_spec("matplotlib"):
        assert done.returncode == 0, done.stderr
        assert (tmp_path / f"{suite}.svg").read_text().startswith("<?xml")
    else:
        assert "pip install '.[bench]'" in done.stderr


# ---- what they are made of


def test_flink_knows_every_query_that_it_is_asked(load: Any) -> None:
    suite = tomllib.loads((BENCHMARKS / "suites/engine.toml").read_text())
    asked = {
        query["name"]
        for query in suite["query"]
        for subjects in (query["subjects"], *query.get("also", {}).values())
        if any("flink" in subject for subject in subjects)
    }
    assert asked <= set(load("adapter", "peers/flink").QUERIES)


def test_flink_says_what_it_lacks(load: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CERISE_PEERS_DIR", str(tmp_path))
    flink = load("adapter", "peers/flink")
    monkeypatch.setattr(flink.shutil, "which", lambda name: "/usr/bin/javac")
    assert "is not installed" in flink.why_not({"options": {"install": False}})
    assert flink.why_not({"options": {"install": True}}) is None
    monkeypatch.setattr(flink.shutil, "which", lambda name: None)
    assert "install a JDK" in flink.why_not({"options": {"install": True}})


def test_streams_are_as_the_suites_say(load: Any) -> None:
    streams = load("streams")
    ranked = pa.Table.from_batches(streams.ranked(200_000))
    shares = {each["values"]: each["counts"] / 200_000 for each in ranked["type"].value_counts().to_pylist()}
    assert [round(shares[f"T{rank}"], 2) for rank in (1, 2, 3)] == [0.34, 0.14, 0.08]
    assert len(shares) == 50
    assert sum(x < 200 for x in ranked["x"].to_pylist()) / 200_000 == pytest.approx(0.2, abs=0.005)
    few = pa.Table.from_batches(streams.symbols(1_000, batch=300))
    assert (
        few.combine_chunks() == pa.Table.from_batches(streams.symbols(5_000)).slice(0, 1_000).combine_chunks()
    )
    assert few["ts"].to_pylist() == list(range(1, 1_001))
    assert set(few["price"].to_pylist()) == set(range(1, 101))


def piece(a: list[list[int]], b: list[list[int] | None]) -> Matches:
    table = pa.table({"t": pa.array(range(9), pa.int64())})
    events = EventBatch.in_order(table, Schema(table.schema, "t"))
    return Matches(events, {"a": pa.array(a, pa.list_(pa.int64())), "b": pa.array(b, pa.list_(pa.int64()))})


def test_the_hash_of_a_match_tells_what_is_bound_to_what(load: Any) -> None:
    look = load("matching").look
    words, length = look(piece([[1, 2], [3], [1]], [[4], None, [2, 4]]))
    assert length == 7
    assert look(piece([[3]], [None]))[0].tolist() == [words[1]]  # also when it comes alone
    others = look(piece([[1], [1, 2], [2, 3], [4]], [[2], [5], [4], [1, 2]]))[0]
    assert len({*words.tolist(), *others.tolist()}) == 7
