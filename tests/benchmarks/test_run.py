"""The harness: it measures a whole suite in its smoke size, and refuses figures over wrong matches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
SUITE = """
title = "two subjects of one query"
baseline = "peer"

[data.ticks]
generator = "stock"
events = 300

[subject.reference]
run = "process"
engine = "reference"

[subject.peer]
peer = "fake"

[[query]]
name = "rise"
text = "PATTERN SEQ(STOCK a, STOCK b) WHERE [symbol] AND b.price = a.price + 1 WITHIN 2"
data = "ticks"
time = "ts"
type = "type"
"""
ADAPTER = """
import sys

sys.path.insert(0, {root!r})


def prepare(work):
    import cerise
    import pyarrow.parquet as pq

    query = work["query"]
    table = pq.read_table(work["path"])
    return lambda: cerise.find(table, query["text"], time=query["time"], type=query["type"])


def found(result):
    {found}
"""
COUNT = 'return "count", len(result)'
FIELDS = {
    "suite", "smoke", "date", "commit", "machine", "query", "axes", "subject", "how", "data", "events",
    "seconds", "cpu_seconds", "events_per_second", "load", "warm_seconds", "prepare_seconds",
    "ready_rss_bytes", "peak_rss_bytes", "versions", "report", "matches", "hash", "hash_of", "speedup",
    "gave_up", "rss",
}  # fmt: skip


def bench(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks/run.py", *map(str, args)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def fake(folder: Path, *, found: str = COUNT, suite: str = SUITE) -> Path:
    """Write a suite whose peer says of the right matches what `found` makes of them."""
    adapter = folder / "peers/fake/adapter.py"
    adapter.parent.mkdir(parents=True)
    adapter.write_text(ADAPTER.format(root=str(ROOT), found=found))
    path = folder / "suites/fake.toml"
    path.parent.mkdir()
    path.write_text(suite)
    return path


# ---- the first suite


@pytest.fixture(scope="module")
def foundation(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("results")
    done = bench("foundation", "--smoke", "--out", out, "--date", "2026-01-02")
    assert done.returncode == 0, done.stderr
    assert "000 Q_1" in done.stdout
    return lines(out / "foundation.jsonl")


@pytest.mark.xdist_group("spark")
def test_the_foundation_suite_runs_in_its_smoke_size(foundation: list[dict[str, Any]]) -> None:
    for line in foundation:
        assert set(line) == FIELDS
        assert (line["suite"], line["smoke"], line["date"]) == ("foundation", True, "2026-01-02")
        assert line["seconds"]["min"] <= line["seconds"]["median"] <= max(line["seconds"]["all"])
        assert {"cpu", "cores", "memory_gib"} <= set(line["machine"])
        assert "python" in line["versions"]
    measured = {line["subject"] for line in foundation}
    assert {"import cerise", "bind", "read", "reference", "spark", "generate", "write"} <= measured


@pytest.mark.xdist_group("spark")
def test_spark_finds_what_the_process_finds(foundation: list[dict[str, Any]]) -> None:
    of = {line["subject"]: line for line in foundation if line["query"] == "000 Q_1"}
    assert of["reference"]["matches"] > 0
    assert of["reference"]["hash_of"] == of["spark"]["hash_of"] == "match_id"
    assert of["reference"]["hash"] == of["spark"]["hash"]
    assert (
        of["spark"]["peak_rss_bytes"] > of["reference"]["peak_rss_bytes"] > of["read"]["ready_rss_bytes"] > 0
    )
    assert of["read"]["matches"] is None
    assert (
        of["reference"]["events_per_second"] == of["reference"]["events"] / of["reference"]["seconds"]["min"]
    )
    expected = of["read"]["seconds"]["min"] / of["reference"]["seconds"]["min"]
    assert of["reference"]["speedup"]["min"] == pytest.approx(expected)


# ---- agreement


def test_a_peer_that_finds_the_same_is_measured(tmp_path: Path) -> None:
    done = bench(fake(tmp_path), "--out", tmp_path, "--repeat", 2)
    assert done.returncode == 0, done.stderr
    ours, peer = lines(tmp_path / "fake.jsonl")
    assert ours["matches"] == peer["matches"] > 0
    assert (ours["hash_of"], peer["hash_of"]) == ("match_id", "count")
    assert len(peer["seconds"]["all"]) == 2
    assert ours["speedup"]["over"] == "peer"


@pytest.mark.parametrize(
    "found",
    [
        'return "count", len(result) + 1',  # too many
        'return "match_id", [*result.column("match_id").to_pylist()[:-1], 7]',  # as many, one of them wrong
        'ids = result.column("match_id").to_pylist(); return "match_id", [*ids[:-1], ids[0]]',  # a duplicate
    ],
)
def test_a_subject_with_wrong_matches_voids_the_run(tmp_path: Path, found: str) -> None:
    done = bench(fake(tmp_path, found=found), "--out", tmp_path, "--repeat", 1)
    assert done.returncode == 1
    assert "rise: 'reference' and 'peer' found different matches" in done.stderr
    assert "a figure over wrong matches is void" in done.stderr
    assert not list(tmp_path.glob("*.jsonl"))


def test_the_order_of_matches_does_not_count(tmp_path: Path) -> None:
    found = 'return "match_id", reversed(result.column("match_id").to_pylist())'
    assert bench(fake(tmp_path, found=found), "--repeat", 1, "--out", tmp_path).returncode == 0


def test_repeats_that_differ_void_the_run(tmp_path: Path) -> None:
    found = 'import random; return "count", random.getrandbits(60)'
    done = bench(fake(tmp_path, found=found), "--repeat", 2, "--only", "peer")
    assert done.returncode == 1
    assert "the repeats found different matches" in done.stderr


# ---- peers that time themselves, are slow, or are not there


def test_a_peer_may_measure_itself(tmp_path: Path) -> None:
    path = fake(tmp_path, found='return "count", result')
    adapter = tmp_path / "peers/fake/adapter.py"
    text = adapter.read_text().replace("return lambda: cerise.find(", "return lambda: timing(cerise.find(")
    text = text.replace('type=query["type"])', 'type=query["type"]))')
    adapter.write_text(f"timed = True\n\n\ndef timing(found):\n    return 7.5, None, len(found)\n\n\n{text}")
    done = bench(path, "--out", tmp_path, "--repeat", 1)
    assert done.returncode == 0, done.stderr
    ours, peer = lines(tmp_path / "fake.jsonl")
    assert peer["seconds"]["all"] == [7.5]
    assert peer["cpu_seconds"] is None
    assert peer["matches"] == ours["matches"]


def test_a_peer_that_is_not_there_is_skipped_with_a_reason(tmp_path: Path) -> None:
    path = fake(tmp_path)
    with (tmp_path / "peers/fake/adapter.py").open("a") as adapter:
        adapter.write("\n\ndef why_not(work):\n    return 'it is on holiday'\n")
    done = bench(path, "--out", tmp_path, "--repeat", 1)
    assert done.returncode == 0, done.stderr
    assert "rise · peer · ticks: skipped: it is on holiday" in done.stderr
    assert [line["subject"] for line in lines(tmp_path / "fake.jsonl")] == ["reference"]


def test_a_slow_peer_may_have_fewer_events(tmp_path: Path) -> None:
    fewer = '[data.few]\ngenerator = "stock"\nevents = 100\n\n[subject.reference]'
    suite = SUITE.replace("[subject.reference]", fewer)
    suite += 'subjects = ["reference"]\nalso = { few = ["reference", "peer"] }\n'
    done = bench(fake(tmp_path, suite=suite), "--out", tmp_path, "--repeat", 1)
    assert done.returncode == 0, done.stderr
    assert "× (at 100)" in done.stdout
    many, few, peer = lines(tmp_path / "fake.jsonl")
    assert (many["events"], few["events"], peer["events"]) == (300, 100, 100)
    assert few["matches"] == peer["matches"]
    assert many["speedup"]["events"] == 100  # it is events/s by events/s, and says so
    assert many["speedup"]["min"] == pytest.approx(many["events_per_second"] / peer["events_per_second"])


# ---- one query for many


def test_a_query_is_spread_over_its_axes(tmp_path: Path) -> None:
    suite = SUITE.replace('name = "rise"', 'name = "$way $W"').replace("b.price = a.price + 1", "$way")
    suite = suite.replace("WITHIN 2", "WITHIN $W")
    suite += 'for = { way = ["up", "down"], W = [2, 3] }\nsubjects = ["reference"]\n'
    suite += '[axis.way]\nup = "b.price > a.price"\ndown = "b.price < a.price"\n'
    done = bench(fake(tmp_path, suite=suite), "--out", tmp_path, "--repeat", 1)
    assert done.returncode == 0, done.stderr
    found = {line["query"]: line for line in lines(tmp_path / "fake.jsonl")}
    assert list(found) == ["up 2", "up 3", "down 2", "down 3"]
    assert found["down 3"]["axes"] == {"way": "down", "W": 3}
    assert found["up 3"]["matches"] > found["up 2"]["matches"] > found["down 2"]["matches"]


# ---- what a person sees


def test_list_shows_every_suite() -> None:
    done = bench("--list")
    assert done.returncode == 0, done.stderr
    for path in (ROOT / "benchmarks/suites").glob("*.toml"):
        assert f"{path.stem}: " in done.stdout
    assert "make bench SUITE=foundation" in done.stdout


def test_an_unknown_suite_gets_a_hint() -> None:
    done = bench("fundation")
    assert done.returncode == 1
    assert "unknown suite 'fundation'\nhint: did you mean 'foundation'?" in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('run = "process"', 'run = "proces"', "unknown run 'proces'\nhint: did you mean 'process'?"),
        ("events = 300", "evnts = 300", "data 'ticks' has an unknown entry 'evnts'"),
        ('data = "ticks"', 'data = "tick"', "unknown data 'tick'\nhint: did you mean 'ticks'?"),
        ("[symbol]", "[simbol]", "did you mean 'symbol'?"),
        ('time = "ts"\n', "", "query 'rise' has no 'time'"),
        (
            'time = "ts"',
            'time = "ts"\nalso = { tick = [] }',
            "unknown data 'tick'\nhint: did you mean 'ticks'?",
        ),
        ('"rise"', '"rise $W"\nfor = { V = [1] }', "'rise $W' has no 'W' in its `for`"),
    ],
)
def test_a_mistake_in_a_suite_is_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    done = bench(fake(tmp_path, suite=SUITE.replace(old, new)), "--repeat", 1)
    assert done.returncode == 1
    assert problem in done.stderr
    assert "run.py" not in done.stderr  # not a traceback of ours


def test_part_of_a_suite_is_not_written_over_the_whole(tmp_path: Path) -> None:
    done = bench(fake(tmp_path), "--only", "reference", "--repeat", 1)
    assert done.returncode == 0, done.stderr
    assert "nothing is written" in done.stdout
    assert "did you mean 'reference'?" in bench(tmp_path / "suites/fake.toml", "--only", "refrence").stderr


def test_a_run_that_ended_early_is_gone_on_with(tmp_path: Path) -> None:
    suite = fake(tmp_path, found="raise SystemExit('no')")
    ways = (suite, "--repeat", 1, "--out", tmp_path)
    assert bench(*ways).returncode == 1
    assert not (tmp_path / "fake.jsonl").exists()
    part = tmp_path / "fake.part.jsonl"
    (first,) = lines(part)
    assert first["subject"] == "reference"
    part.write_text(json.dumps(first | {"commit": "0123"}) + "\n")
    assert "fake.part.jsonl is of another commit" in bench(*ways, "--resume").stderr
    part.write_text(json.dumps(first) + "\n")
    adapter = tmp_path / "peers/fake/adapter.py"
    adapter.write_text(ADAPTER.format(root=str(ROOT), found=COUNT))
    done = bench(*ways, "--resume")
    assert done.returncode == 0, done.stderr
    kept, new = lines(tmp_path / "fake.jsonl")
    assert kept["date"] == first["date"] < new["date"]  # not measured again
    assert kept["speedup"]
    assert not part.exists()
    assert "there is no fake.part.jsonl to go on with" in bench(*ways, "--resume").stderr
