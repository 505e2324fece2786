"""The suite `rcep` in its smoke size, what it is made of, and what becomes of an engine that gives up."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cerise
from cerise.engines.base import Options
from cerise.errors import PlanError

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
FIELDS = ("seconds", "cpu_seconds", "events_per_second", "report", "matches", "hash", "speedup")
QUERY = "PATTERN SEQ(a, b+) USE skip_till_any_match WHERE [symbol] AND b.price > a.price WITHIN 12 SLIDE 1"
SUITE = """
title = "two that give up, and one that does not"
sample_seconds = 0.2
enough = 0.000_001
baseline = "nfa"

[data.ticks]
generator = "stock"
events = 2_000

[subject.full]
run = "enumerate"
engine = "nfa"
max_runs = 10
patience = 60

[subject.slow]
peer = "slow"
patience = 1

[subject.nfa]
run = "enumerate"
engine = "nfa"
batch = 300

[[query]]
name = "rise"
text = "$query"
data = "ticks"
time = "ts"
"""
SLOW = """
import time


def prepare(work):
    return lambda: time.sleep(60)


def found(result):
    return "count", result
"""


def python(*args: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# ---- in its smoke size


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    done = python(BENCHMARKS / "run.py", "rcep", "--smoke", "--out", out)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.xdist_group("suites")
def test_the_suite_runs_in_its_smoke_size(results: Path) -> None:
    of = {
        (line["query"], line["subject"], line["data"]["name"]): line for line in lines(results / "rcep.jsonl")
    }
    for subject in ("rcep", "nfa", "nfa-merge", "chosen"):
        line = of["stock rare W=12", subject, "stock"]
        assert (line["matches"], line["hash_of"]) == (7, "positions")
        assert line["report"]["state_bytes"] > 100
        assert line["rss"]["peak"] >= line["rss"]["before"] > 0
    assert of["cards large W=2", "rcep", "credit_cards"]["matches"] == 953
    assert of["window W=1000", "rcep", "stock"]["matches"] == 438
    counts = [of["count", subject, "candidates"]["matches"] for subject in ("count", "count, nfa-merge")]
    assert counts == [814_141_277_708] * 2


@pytest.mark.xdist_group("suites")
def test_results_become_tables_and_a_figure(results: Path, tmp_path: Path) -> None:
    done = python(BENCHMARKS / "figures/rcep.py", "--results", results, "--out", tmp_path)
    text = (results / "rcep.md").read_text()
    assert "| stock rare W=12 | rcep | 3,000 | 0.00233 |" in text
    assert "| 1,000 | rcep |" in text
    assert "| count |" in text
    if importlib.util.find_spec("matplotlib"):
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "rcep.svg").read_text().startswith("<?xml")
    else:
        assert "pip install '.[bench]'" in done.stderr


# ---- what it is made of


def test_flink_knows_every_query_that_it_is_asked(load: Any) -> None:
    suite, known = load("suite").load("rcep"), load("adapter", "peers/flink").QUERIES
    asked = {job.query for job in suite.jobs if job.subject == "flink"}
    assert len(asked) == 5
    assert asked <= set(known)


def test_candidates_are_as_many_as_the_suite_says(load: Any) -> None:
    streams = load("streams")
    made = pa.Table.from_batches(streams.candidates(11_001, batch=1_000))
    counts = {each["values"]: each["counts"] for each in made["type"].value_counts().to_pylist()}
    assert counts == {"A": 1, "B": 10_000, "C": 1_000}
    assert made["type"].to_pylist()[:13] == ["A", *10 * "B", "C", "B"]
    assert made["ts"].to_pylist() == list(range(1, 11_002))
    assert made.schema == streams.SCHEMAS["candidates"]


def test_rising_series_are_counted_right(load: Any) -> None:
    made = pa.Table.from_batches(load("streams").candidates(221))
    ending: list[tuple[int, int]] = []  # x, and how many rising series end in it
    total = 0
    for kind, x in zip(made["type"].to_pylist(), made["x"].to_pylist(), strict=True):
        if kind == "B":
            ending.append((x, 1 + sum(many for other, many in ending if other < x)))
        total += sum(many for _, many in ending) if kind == "C" else 0
    assert total == 814_141_277_708  # what the suite finds in its smoke size


def test_all_matches_are_gone_through_and_hashed_alike(load: Any, tmp_path: Path) -> None:
    subjects, measure = load("subjects").SUBJECTS, load("measure")
    data = {"generator": "stock", "events": 2_000}
    work = {"data": data, "path": str(load("streams").write(data, tmp_path / "ticks")), "options": {}}
    work["query"] = {"name": "rise", "text": QUERY, "time": "ts"}
    expected = measure.digest(subjects["matcher"].found(subjects["matcher"].prepare(work)()[2]))
    assert expected["matches"] > 10_000
    for options in ({}, {"batch": 90}):
        through = subjects["enumerate"].prepare(work | {"options": options})()
        assert measure.digest(subjects["enumerate"].found(through)) == expected
        told = subjects["enumerate"].counted(through)
        assert told["state_bytes"] > 100
        assert told["output_complexity"] > 2 * expected["matches"]
    through = subjects["enumerate"].prepare(work, looked_at=100)()
    assert subjects["enumerate"].found(through) == ("count", expected["matches"])


# ---- giving up


def fake(folder: Path, suite: str) -> Path:
    adapter = folder / "peers/slow/adapter.py"
    adapter.parent.mkdir(parents=True)
    adapter.write_text(SLOW)
    path = folder / "suites/fake.toml"
    path.parent.mkdir()
    path.write_text(suite.replace("$query", QUERY))
    return path


def test_what_gives_up_leaves_a_line_and_the_run_goes_on(tmp_path: Path) -> None:
    done = python(BENCHMARKS / "run.py", fake(tmp_path, SUITE), "--out", tmp_path, "--repeat", 3)
    assert done.returncode == 0, done.stderr
    assert "rise · slow · ticks: gave up: took more than 1 s" in done.stderr
    assert "gave up" in done.stdout
    full, slow, nfa = lines(tmp_path / "fake.jsonl")
    for line in (full, slow):
        assert [line[field] for field in FIELDS] == [None] * len(FIELDS)
        assert line["events"] == 2_000
    assert full["gave_up"]["why"].endswith("more than 10")
    assert full["gave_up"]["seconds"] is None
    assert slow["gave_up"] == {"why": "took more than 1 s", "seconds": 1}
    assert slow["rss"]["sampled"] >= slow["rss"]["before"] > 0
    assert slow["rss"]["peak"] is None
    assert nfa["matches"] > 0
    assert nfa["gave_up"] is None
    assert len(nfa["seconds"]["all"]) == 1  # that was enough


def test_only_a_subject_with_patience_may_give_up(tmp_path: Path) -> None:
    path = fake(tmp_path, SUITE.replace("patience = 60\n", ""))
    done = python(BENCHMARKS / "run.py", path, "--repeat", 1, "--only", "full")
    assert done.returncode == 1
    assert "rise · full · ticks: " in done.stderr
    assert "hint: a subject that may give up has `patience`" in done.stderr


def test_other_errors_are_not_taken_for_giving_up(load: Any) -> None:
    giving_up, fresh = load("enumerating").giving_up, load("fresh")

    def fail(error: Exception) -> Any:
        raise error

    with pytest.raises(fresh.GaveUp, match=r"^too many$"):
        giving_up(lambda: fail(PlanError("too many\nof the query", hint="shorten WITHIN")))
    with pytest.raises(ValueError, match="wrong"):
        giving_up(lambda: fail(ValueError("wrong")))


def test_memory_is_seen_while_it_is_held(load: Any, tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc here")
    memory = load("memory")
    watch = memory.Watch(tmp_path / "note.json")
    for megabytes in (50, 10):
        with watch:
            held = bytearray(b"x" * (megabytes * 2**20))
            del held
    assert watch.peak - watch.before == pytest.approx(100 * 2**20, rel=0.2)  # the bytes, and their copy
    assert json.loads((tmp_path / "note.json").read_text())["before"] == watch.before
    assert [len(span) for span in watch.spans] == [2, 2]


# ---- figures


def line(subject: str, **given: Any) -> dict[str, Any]:
    usual = {"query": "stock all W=6", "events": 1_000, "data": {"name": "stock"}, "axes": {"W": 6}}
    took = {"seconds": None, "events_per_second": None, "matches": None, "report": None, "rss": None}
    return usual | took | {"subject": subject, "gave_up": None, "speedup": None} | given


def finished(subject: str, seconds: float, **given: Any) -> dict[str, Any]:
    times = {"seconds": {"min": seconds, "median": seconds}, "events_per_second": 1_000 / seconds}
    return line(subject, **times, matches=50, **given)


def test_ratios_are_bounds_where_others_gave_up(load: Any) -> None:
    figure = load("rcep", "figures")
    rcep = finished("rcep", 0.5, report={"state_bytes": 1_000})
    late = line("nfa", gave_up={"why": "took more than 15 s", "seconds": 15})
    full = line("nfa-merge", gave_up={"why": "20 runs are alive", "seconds": None})
    slow = finished("nfa", 4.0, report={"buffer_updates": 5_000, "state_bytes": 20_000})
    chosen = finished("chosen", 0.4)
    assert figure.gain(rcep, [late, full]) == "> 30×"
    assert figure.gain(rcep, [full]) == "∞"
    assert figure.gain(rcep, [late, slow]) == "8×"
    assert "| stock all W=6 | 0.05 | 100 | 8× | 20× | 1.25× |" in figure.compared([rcep, slow, full, chosen])
    assert figure.selectivity(late, [rcep, late]) == 0.05
    assert figure.speed(late) == 1_000 / 15
    assert figure.speed(full) is None


def test_memory_counts_above_what_was_held_before(load: Any) -> None:
    figure = load("rcep", "figures")
    assert figure.memory(line("nfa", rss={"before": 100, "peak": 160, "sampled": 150})) == 60
    assert figure.memory(line("nfa", rss={"before": 100, "peak": None, "sampled": 150})) == 50
    assert figure.memory(line("nfa", rss={"before": 100, "peak": None, "sampled": None})) is None
    assert figure.memory(line("nfa")) is None


def test_query_1_is_what_the_paper_says(load: Any) -> None:
    text = load("suite").load("rcep").queries["stock all W=6"]["text"]
    prices = [10, 12, 11, 13, 11]  # 10 12 11; 10 12 13 11 (twice, as two events are 11), and so on
    ticks = pa.table({"symbol": [1] * 5, "price": prices, "volume": [1] * 5, "ts": [1, 2, 3, 4, 5]})
    found = cerise.find(ticks, text, time="ts", options=Options(engine="reference"))
    taken = sorted(
        (m["a"]["ts"], tuple(b["ts"] for b in m["b"]), m["c"]["ts"])
        for m in found.select(["a", "b", "c"]).to_pylist()
    )
    assert taken == [
        (1, (2,), 3), (1, (2,), 5), (1, (2, 4), 5), (1, (4,), 5), (2, (4,), 5), (3, (4,), 5),
    ]  # fmt: skip
