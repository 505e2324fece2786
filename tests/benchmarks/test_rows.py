"""The suite `rows`: all ways to run MATCH_RECOGNIZE find the same rows, and what the suite is made of."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import cerise
from cerise.data import citibike, funnel
from cerise.data.draws import DRAW
from cerise.errors import CeriseError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
EVENTS = {"nasdaq": 20_000, "funnel": 20_000, "crimes": 100_000, "citibike": 100_000}
STRICT = [f"{data}_P{number}" for data in ("crimes", "citibike") for number in (1, 2, 3)]
QUERIES = ["v_shape", "funnel", *STRICT, "skipping"]


def module(path: str) -> ModuleType:
    """Load a file of which others have the name."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_")[:-3], BENCHMARKS / path)
    assert spec
    assert spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def suite(load: Any) -> Any:
    return load("suite").load("rows")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture
def work(load: Any, suite: Any, folder: Path) -> Any:
    """Describe a piece of work on few events."""
    streams = load("streams")

    def work(query: str, **options: Any) -> dict[str, Any]:
        asked = suite.queries[query]
        data = dict(suite.data[asked["data"]])
        data["events"] = EVENTS.get(asked["data"], data["events"])
        if asked["data"] == "funnel":
            data["options"] = {"users": 2_000}
        path = folder / f"{asked['data']}.parquet"
        if not path.exists():
            streams.write(data, path)
        return {"query": asked, "data": data, "path": str(path), "options": options}

    return work


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


# ---- in its smoke size


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    done = python(BENCHMARKS / "run.py", "rows", "--smoke", "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def python(*args: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.xdist_group("suites")
def test_the_suite_runs_in_its_smoke_size(results: Path) -> None:
    lines = [json.loads(line) for line in (results / "rows.jsonl").read_text().splitlines()]
    of = {(line["query"], line["subject"]): line for line in reversed(lines)}  # without peers that are absent
    assert of["v_shape", "process"]["matches"] == of["v_shape", "engine"]["matches"] == 7_472
    assert of["v_shape", "process"]["hash_of"] == "row hash"
    assert of["funnel", "process"]["matches"] == 2_167
    assert of["skipping", "process"]["matches"] == 271
    assert [of[f"equal_{b}", "engine"]["matches"] for b in ("equal", "never", "asked")] == [1, 0, 0]


@pytest.mark.xdist_group("suites")
def test_results_become_tables_and_a_figure(results: Path, tmp_path: Path) -> None:
    done = python(BENCHMARKS / "figures/rows.py", "--results", results, "--out", tmp_path)
    text = (results / "rows.md").read_text()
    assert "| v_shape | 40,000 | process ÷ read |" in text
    assert "| equal_asked | 5,000 |" in text
    if importlib.util.find_spec("matplotlib"):
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "rows.svg").read_text().startswith("<?xml")
    else:
        assert "pip install '.[bench]'" in done.stderr


# ---- all ways find the same


@pytest.mark.parametrize("query", ["v_shape", "skipping"])  # the cases run on Spark too
def test_spark_finds_what_the_process_finds(query: str, load: Any, work: Any, spark: SparkSession) -> None:
    subjects = load("subjects").SUBJECTS
    asked = work(query)
    here = subjects["rows process"].found(subjects["rows process"].prepare(asked)())
    assert len(here[1]) > 5
    for run in ("rows lake", "rows sql", "rows engine"):
        assert subjects[run].found(subjects[run].prepare(asked)()) == ("count", len(here[1]))
    call = subjects["rows lake write"].prepare(asked)  # what it has written goes away with it
    kind, words = subjects["rows lake write"].found(call())
    assert (kind, sorted(words)) == (here[0], sorted(here[1]))


def test_the_paper_writes_three_rows_for_each_match(load: Any, work: Any, spark: SparkSession) -> None:
    subjects = load("subjects").SUBJECTS
    one, every = (subjects["rows process"].prepare(work(name))() for name in ("skipping", "skipping_all"))
    assert len(every) == 3 * len(one)
    call = subjects["rows lake write"].prepare(work("skipping_all"))
    assert sorted(subjects["rows lake write"].found(call())[1]) == sorted(
        subjects["rows process"].found(every)[1]
    )


@pytest.mark.parametrize("query", QUERIES)
def test_duckdb_finds_the_same_rows(query: str, work: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    asked, search = work(query), module("peers/duckdb/search.py")
    ours = cerise.find(pq.read_table(asked["path"]), asked["query"]["text"])
    for source in ("memory", "file"):
        assert search.prepare(query, asked["path"], source, "2")() == len(ours)
    assert search.prepare(query, asked["path"], "memory", "2", "rows")() == len(ours)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.read_parquet(asked["path"]).create_view("events")
        theirs = connection.sql(search.ROWS[query]).to_arrow_table()
    assert rows_of(theirs) == rows_of(ours.select(theirs.column_names))


def test_a_scan_and_a_read_have_all_rows(load: Any, work: Any, spark: SparkSession) -> None:
    subjects = load("subjects").SUBJECTS
    assert subjects["rows scan"].prepare(work("v_shape"))() == EVENTS["nasdaq"]
    read = subjects["rows read"].prepare(work("v_shape"))()
    assert (read.num_rows, read.column_names) == (EVENTS["nasdaq"], ["ticker", "close", "date"])
    assert subjects["rows read"].prepare(work("skipping_all"))().num_columns == 7


def test_peers_know_every_query_that_they_are_asked(suite: Any) -> None:
    known = {"flink_sql": module("peers/flink_sql/adapter.py").QUERIES}
    if importlib.util.find_spec("polars"):
        known["polars"] = module("peers/polars/search.py").READS
    if importlib.util.find_spec("duckdb"):
        known["duckdb"] = module("peers/duckdb/search.py").ROWS
    for job in suite.jobs:
        peer = suite.subjects[job.subject].get("peer")
        assert peer not in known or job.query in known[peer]


def test_flink_goes_on_where_the_query_says() -> None:
    flink = module("peers/flink_sql/adapter.py")
    assert "AFTER MATCH SKIP TO LAST U PATTERN (A D+ U) DEFINE" in flink._select(flink.QUERIES["v_shape"])
    assert "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B C)" in flink._select(flink.QUERIES["crimes_P1"])


# ---- hashes and figures


def test_the_hash_of_a_row_tells_values_apart_and_not_widths(load: Any) -> None:
    found = load("row_patterns").found
    rows = pa.table(
        {"s": ["a", "b", None, ""], "n": pa.array([1, None, 0, 1], pa.int32()), "x": [0.5, 1.0, 2.0, 0.5]}
    )
    kind, words = found(rows)
    assert kind == "row hash"
    assert len(set(words)) == 4
    wide = rows.set_column(1, "n", rows["n"].cast(pa.int64()))
    assert found(wide)[1] == words
    assert found(wide.slice(2))[1] == words[2:]
    assert found(rows.select(["n", "s", "x"]))[1] != words


def test_goals_are_ratios_of_speeds_on_the_same_events(monkeypatch: pytest.MonkeyPatch, suite: Any) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS / "figures")
    figure = module("figures/rows.py")
    took = [("process", "n", 2.0), ("read", "n", 1.0), ("process", "few", 0.5), ("flink sql", "few", 20.0)]
    lines = [
        {"query": "q", "subject": name, "events": 9, "data": {"name": data}, "seconds": {"min": seconds},
         "gave_up": None}
        for name, data, seconds in took
    ]  # fmt: skip
    lines += [
        lines[0] | {"query": "slow", "seconds": {"min": 2.0}},
        lines[0] | {"query": "slow", "subject": "flink sql", "seconds": None, "gave_up": {"seconds": 90}},
    ]
    text = figure.compared(lines)
    assert "| slow | 9 | process ÷ flink sql | more than 45× | 30× |" in text
    assert "| q | 9 | process ÷ read | 0.5× | 0.4× |" in text
    assert "| q | 9 | process ÷ flink sql | 40× | 30× |" in text
    assert text.count("\n| q") == 2
    assert set(figure.COLOURS) == set(suite.subjects)


# ---- the events


@pytest.mark.parametrize("make", [funnel, citibike])
def test_a_seed_names_one_stream(make: Any) -> None:
    many = pa.Table.from_batches(make(2 * DRAW + 17, seed=7))
    assert pa.Table.from_batches(make(2 * DRAW + 17, seed=7, batch=999)).equals(many)
    assert pa.Table.from_batches(make(1_234, seed=7)).equals(many.slice(0, 1_234))
    assert not pa.Table.from_batches(make(1_234, seed=8)).equals(many.slice(0, 1_234))
    assert sum(column.null_count for column in many.columns) == 0
    time = many["t" if make is funnel else "started_at"].cast(pa.int64()).to_numpy()
    assert (np.diff(time) >= 0).all()
    for wrong in ({"events": -1}, {"batch": 0}, {"seed": -1}, {"users" if make is funnel else "stations": 0}):
        with pytest.raises(CeriseError, match="hint: "):
            make(**{"events": 1, **wrong})


def test_few_users_come_to_the_last_step() -> None:
    made = pa.Table.from_batches(funnel(300_000, users=3_000))
    share = {each["values"]: each["counts"] / len(made) for each in made["step"].value_counts().to_pylist()}
    steps = ["visit", "product", "cart", "checkout", "purchase"]
    assert all(share[a] > 1.2 * share[b] for a, b in pairwise(steps))
    assert share["purchase"] / share["visit"] == pytest.approx(0.05, abs=0.01)
    assert set(share) == {*steps, "search", "help"}
    gaps = np.diff(made["t"].cast(pa.int64()).to_numpy())
    assert gaps.min() == 1_000  # no two events have the same time
    assert gaps.mean() == pytest.approx(86_000, rel=0.01)
    user = made["user"].to_numpy()
    assert (user.min(), user.max()) == (1, 3_000)
    assert (user <= 300).mean() == pytest.approx(0.316, abs=0.01)


def test_a_user_makes_one_step_after_the_other() -> None:
    made = pa.Table.from_batches(funnel(2 * DRAW, users=500))
    steps = ["visit", "product", "cart", "checkout", "purchase"]
    done: dict[int, int] = {}
    for user, step in zip(made["user"].to_pylist(), made["step"].to_pylist(), strict=True):
        before = done.get(user, 0)
        if step in steps:
            assert steps.index(step) in (0, before)
            done[user] = steps.index(step) + 1
        else:
            assert 0 < before < 5  # nobody looks aside before the first visit, or right after a purchase


def test_rides_have_rush_hours_and_skewed_stations() -> None:
    made = pa.Table.from_batches(citibike(400_000))
    hours = np.bincount(pc.hour(made["started_at"]).to_numpy(), minlength=24)
    assert hours[17] > 10 * hours[3]
    assert hours[8] > 1.3 * hours[10]
    for name in ("start_station", "end_station"):
        counts = np.sort(np.bincount(made[name].to_numpy(), minlength=2001)[1:])[::-1]
        assert len(counts) == 2_000
        assert counts[0] / counts[99] == pytest.approx(100**0.6, rel=0.15)
    took = pc.subtract(made["ended_at"], made["started_at"]).cast(pa.int64()).to_numpy()
    assert took.min() > 0
    assert np.median(took) / 60e6 == pytest.approx(10, rel=0.02)
    assert made["ride_id"].to_pylist() == list(range(1_000_000, 1_400_000))
    assert pc.mean(pc.equal(made["member_casual"], "casual")).as_py() == pytest.approx(0.2, abs=0.01)
